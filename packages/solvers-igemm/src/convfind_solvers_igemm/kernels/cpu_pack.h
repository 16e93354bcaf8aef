// Weights into panels of WIDTH filters: [group][panel][phase][block of channels][tap][channel][WIDTH];
// behind the last filter lies anything. The including kernel defines CHANNELS_LAST and WIDTH.
#ifndef CPU_PACK_H
#define CPU_PACK_H

#include "cpu_tile.h"

// Channels of a block.
#ifndef BLOCK
#define BLOCK(channels, taps) (channels)
#endif

// Steps in w of a filter, a channel and a tap, as the kernel sees them: `filters` of the result.
#define W_FILTER(filters, channels, taps) \
  (GRADIENT ? (CHANNELS_LAST ? 1L : (long)(taps)) : (long)(channels) * (taps))
#define W_CHANNEL(filters, channels, taps) \
  (GRADIENT ? (long)(filters) * (taps) : (CHANNELS_LAST ? 1L : (long)(taps)))
#define W_TAP(filters, channels) (CHANNELS_LAST ? (long)(GRADIENT ? (filters) : (channels)) : 1L)

INLINE void store_first(__global float *to, float16 value, const int width) {
  if (width == VEC) {
    vstore16(value, 0, to);
  } else if (width == 12) {
    vstore8(value.lo, 0, to);
    vstore4(value.hi.lo, 0, to + 8);
  } else {
    float part[VEC];
    vstore16(value, 0, part);
    for (int i = 0; i < width; i++) to[i] = part[i];
  }
}

// 16 filters `step` apart by `length` floats that lie side by side, turned: rows of filters. Rows
// behind the length are anything; w ends at `behind`.
INLINE void load_turned(float16 *square, __global const float *from, long step, int filters, int length,
                        __global const float *behind) {
#pragma unroll
  for (int i = 0; i < VEC; i++) {
    square[i] = 0.0f;
    if (i < filters) {
      PREFETCH(from + i * step + 4 * VEC);
      const bool whole = from + i * step + VEC <= behind;
      square[i] = load_part(from + i * step, whole ? VEC : length);
    }
  }
  transpose(square);
}

// Global size: (panels of a group, groups, phases).
__kernel ONE_ITEM void igemm_cpu_pack(__global const float *restrict w,
                                      __global float *restrict packed, GEOMETRY) {
  const int first = get_global_id(0) * WIDTH, rows = min(WIDTH, filters - first);
  const int group = get_global_id(1), panels = get_global_size(0);
  const Phase phase = phase_of(get_global_id(2), GEOMETRY_NAMES);
  const int all = f_d * f_h * f_w, taps = phase.taps;
  const int block = BLOCK(channels, phase.joined_taps);
  const long w_filter = W_FILTER(filters, channels, all), w_tap = W_TAP(filters, channels);
  const long w_channel = W_CHANNEL(filters, channels, all);
  __global const float *behind = w + (long)groups * filters * channels * all;
  w += (long)group * filters * channels * all + first * w_filter;
  packed += (((long)group * panels + get_global_id(0)) * all + phase.before) * channels * WIDTH;
  for (int c0 = 0; c0 < channels; c0 += block) {
    const int count = min(block, channels - c0);
    __global float *to = packed + (long)c0 * taps * WIDTH;
    __global const float *from = w + c0 * w_channel;
#pragma unroll
    for (int part = 0; part < WIDTH; part += VEC) {
      const int used = min(VEC, rows - part), width = min(VEC, WIDTH - part);
      float16 square[VEC];
#if GRADIENT
      if (w_filter == 1) {  // filters lie side by side
        for (int tap = 0; tap < taps; tap++) {
          __global const float *row = from + filter_tap(&phase, tap, f_h, f_w) * w_tap + part;
          for (int c = 0; c < count; c++) {
            // What lies behind the last filter, if there is anything, is multiplied in vain.
            const bool whole = row + c * w_channel + VEC <= behind;
            store_first(to + ((long)tap * count + c) * WIDTH + part,
                        load_part(row + c * w_channel, whole ? VEC : used), width);
          }
        }
        continue;
      }
      for (int place = 0; place < all; place += VEC) {  // a filter's taps lie side by side
        int tap_at[VEC];
        for (int i = 0; i < VEC; i++) tap_at[i] = -1;
        for (int tap = 0; tap < taps; tap++) {
          const int at = filter_tap(&phase, tap, f_h, f_w) - place;
          if (at >= 0 && at < VEC) tap_at[at] = tap;
        }
        for (int c = 0; c < count; c++) {
          load_turned(square, from + c * w_channel + part * w_filter + place, w_filter, used,
                      all - place, behind);
#pragma unroll
          for (int i = 0; i < VEC; i++)
            if (tap_at[i] >= 0)
              store_first(to + ((long)tap_at[i] * count + c) * WIDTH + part, square[i], width);
        }
      }
#else
      // Of a filter, all taps of all channels lie side by side; of a block, its channels may.
      const int joint = CHANNELS_LAST && count < channels ? 1 : taps, length = joint * count;
      for (int outer = 0; outer < taps; outer += joint)
        for (int place = 0; place < length; place += VEC) {
          load_turned(square, from + outer * w_tap + part * w_filter + place, w_filter, used,
                      length - place, behind);
          int channel = place / taps, tap = place % taps;
          for (int i = 0; i < min(VEC, length - place); i++) {
            const long at = CHANNELS_LAST ? (long)outer * count + place + i : (long)tap * count + channel;
            store_first(to + at * WIDTH + part, square[i], width);
            if (++tap == taps) {
              channel++;
              tap = 0;
            }
          }
        }
#endif
    }
  }
}

#endif  // CPU_PACK_H
