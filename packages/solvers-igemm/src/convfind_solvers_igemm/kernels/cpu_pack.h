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

#if GRADIENT
// Where a tap of the filter goes: the `index`-th of `taps` of a phase, whose blocks have `block` channels.
typedef struct {
  int taps, index, block;
  long before;  // taps of the phases in front of it
} Slot;

// The phase along one axis that a tap belongs to; that of no result is as large as `size` or larger.
INLINE int owner_of(int tap, int stride, int dilation, int pad) {
  const int rest = (int)(((long)tap * dilation - pad) % stride);
  return rest < 0 ? rest + stride : rest;
}

INLINE Slot slot_of(int tap, GEOMETRY) {
  Slot slot = {0, 0, 0, 0};
  const int d = owner_of(tap / f_w / f_h, stride_d, dilation_d, pad_d);
  const int h = owner_of(tap / f_w % f_h, stride_h, dilation_h, pad_h);
  const int w = owner_of(tap % f_w, stride_w, dilation_w, pad_w);
  const int in_h = PHASES(stride_h, o_h), in_w = PHASES(stride_w, o_w);
  if (d >= PHASES(stride_d, o_d) || h >= in_h || w >= in_w) return slot;
  const Phase phase = phase_of((d * in_h + h) * in_w + w, GEOMETRY_NAMES);
  slot.taps = phase.taps;
  slot.before = phase.before;
  slot.block = BLOCK(channels, phase.joined_taps);
  while (filter_tap(&phase, slot.index, f_h, f_w) != tap) slot.index++;
  return slot;
}

// Where the weights of a channel go, if its block begins with it.
INLINE __global float *slot_place(__global float *packed, const Slot *slot, int c, int channels) {
  const int count = min(slot->block, channels - c);
  return packed + (slot->before * channels + (long)c * slot->taps + (long)slot->index * count) * WIDTH;
}
#endif

// Global size: (panels of a group, groups).
__kernel ONE_ITEM void igemm_cpu_pack(__global const float *restrict w,
                                      __global float *restrict packed, GEOMETRY) {
  const int first = get_global_id(0) * WIDTH, rows = min(WIDTH, filters - first);
  const int group = get_global_id(1), panels = get_global_size(0), all = f_d * f_h * f_w;
  const long w_filter = W_FILTER(filters, channels, all), w_tap = W_TAP(filters, channels);
  const long w_channel = W_CHANNEL(filters, channels, all);
  __global const float *behind = w + (long)groups * filters * channels * all;
  w += (long)group * filters * channels * all + first * w_filter;
  packed += ((long)group * panels + get_global_id(0)) * all * channels * WIDTH;
#if GRADIENT
  if (w_filter == 1) {  // filters lie side by side
    for (int tap = 0; tap < all; tap++) {
      const Slot slot = slot_of(tap, GEOMETRY_NAMES);
      if (slot.taps == 0) continue;
      __global const float *from = w + tap * w_tap;
      for (int c0 = 0; c0 < channels; c0 += slot.block) {
        __global float *to = slot_place(packed, &slot, c0, channels);
        for (int c = c0; c < min(channels, c0 + slot.block); c++, to += WIDTH) {
#pragma unroll
          for (int part = 0; part < WIDTH; part += VEC) {
            PREFETCH(from + (c + 8) * w_channel + part);
            // What lies behind the last filter, if there is anything, is multiplied in vain.
            const bool whole = from + c * w_channel + part + VEC <= behind;
            store_first(to + part, load_part(from + c * w_channel + part, whole ? VEC : rows - part),
                        min(VEC, WIDTH - part));
          }
        }
      }
    }
    return;
  }
  for (int place = 0; place < all; place += VEC) {  // a filter's taps lie side by side
    Slot slots[VEC];
    for (int i = 0; i < VEC; i++)
      slots[i] = place + i < all ? slot_of(place + i, GEOMETRY_NAMES) : (Slot){0, 0, 0, 0};
#pragma unroll
    for (int part = 0; part < WIDTH; part += VEC) {
      __global float *to[VEC];
      int left[VEC];  // channels of the block
      for (int i = 0; i < VEC; i++) left[i] = 0;
      for (int c = 0; c < channels; c++) {
        float16 square[VEC];
        load_turned(square, w + c * w_channel + part * w_filter + place, w_filter,
                    min(VEC, rows - part), all - place, behind);
#pragma unroll
        for (int i = 0; i < VEC; i++)
          if (slots[i].taps) {
            if (left[i] == 0) {
              left[i] = slots[i].block;
              to[i] = slot_place(packed, &slots[i], c, channels) + part;
            }
            store_first(to[i], square[i], min(VEC, WIDTH - part));
            to[i] += WIDTH;
            left[i]--;
          }
      }
    }
  }
#else
  const int block = BLOCK(channels, all);
  for (int c0 = 0; c0 < channels; c0 += block) {
    const int count = min(block, channels - c0);
    __global float *to = packed + (long)c0 * all * WIDTH;
    __global const float *from = w + c0 * w_channel;
    // Of a filter, all taps of all channels lie side by side; of a block, its channels may.
    const int joint = CHANNELS_LAST && count < channels ? 1 : all, length = joint * count;
#pragma unroll
    for (int part = 0; part < WIDTH; part += VEC) {
      const int used = min(VEC, rows - part), width = min(VEC, WIDTH - part);
      for (int outer = 0; outer < all; outer += joint)
        for (int place = 0; place < length; place += VEC) {
          float16 square[VEC];
          load_turned(square, from + outer * w_tap + part * w_filter + place, w_filter, used,
                      length - place, behind);
          int channel = place / all, tap = place % all;
          for (int i = 0; i < min(VEC, length - place); i++) {
            const long at = CHANNELS_LAST ? (long)outer * count + place + i : (long)tap * count + channel;
            store_first(to + at * WIDTH + part, square[i], width);
            if (++tap == all) {
              channel++;
              tap = 0;
            }
          }
        }
    }
  }
#endif
}

#endif  // CPU_PACK_H
