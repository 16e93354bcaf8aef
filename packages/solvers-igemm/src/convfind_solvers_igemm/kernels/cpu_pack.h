// Weights into panels of WIDTH filters: [group][panel][product][phase][block of channels][tap][channel][WIDTH];
// behind the last filter lies anything. The including kernel defines CHANNELS_LAST and WIDTH.
#ifndef CPU_PACK_H
#define CPU_PACK_H

#include "cpu_strassen.h"
#include "cpu_tile.h"

// Channels of a block.
#ifndef BLOCK
#define BLOCK(channels, taps) (channels)
#endif

#define ROWS_AT_ONCE 16    // of a panel that are packed before the next panel's

// Steps in w of a filter, a channel and a tap, as the kernel sees them: `filters` of the result.
#define W_FILTER(filters, channels, taps) \
  (GRADIENT ? (CHANNELS_LAST ? 1L : (long)(taps)) : (long)HALVES * (channels) * (taps))
#define W_CHANNEL(filters, channels, taps) \
  (GRADIENT ? (long)HALVES * (filters) * (taps) : (CHANNELS_LAST ? 1L : (long)(taps)))
#define W_TAP(filters, channels) \
  (CHANNELS_LAST ? (long)HALVES * (GRADIENT ? (filters) : (channels)) : 1L)

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

// A call: sixteen copies of what loads less than a vector would take compilers longer than the kernel itself.
NOINLINE float16 load_end(__global const float *source, int count) { return load_part(source, count); }

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
      square[i] = whole ? vload16(0, from + i * step) : load_end(from + i * step, length);
    }
  }
  transpose(square);
}

// The quarters of w behind the first: of other channels and of other filters.
typedef struct {
  long below, right;
} WeightQuarters;

INLINE __global const float *weight_quarter(__global const float *w, const WeightQuarters *quarters, int i) {
  return w + i / 2 * quarters->below + i % 2 * quarters->right;
}

// Sums of quarters into the panels of all products, `apart` floats apart. What is no `end` may spill over into
// what is stored next.
INLINE void store_products(__global float *to, long apart, const float16 *quarter, int step, const int width,
                           bool is_end) {
#pragma unroll
  for (int i = 0; i < PRODUCTS; i++) {
    const Product product = products[i];
    float16 sum = quarter[product.w_0 * step];
    if (product.w_sign != 0.0f) sum = fma((float16)(product.w_sign), quarter[product.w_1 * step], sum);
    if (is_end)
      store_first(to + i * apart, sum, width);
    else
      vstore16(sum, 0, to + i * apart);
  }
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

#if GRADIENT
// Filters that lie side by side: some panels of a row, then of the next, so that lines are read once.
INLINE void pack_rows(__global float *packed, __global const float *w, __global const float *behind,
                      int panels, int used, const WeightQuarters *quarters, long w_channel, long w_tap,
                      GEOMETRY) {
  const long apart = (long)f_d * f_h * f_w * channels * WIDTH;
  for (int tap = 0; tap < f_d * f_h * f_w; tap++) {
    const Slot slot = slot_of(tap, GEOMETRY_NAMES);
    if (slot.taps == 0) continue;
    for (int c0 = 0; c0 < channels; c0 += slot.block) {
      const int end = min(channels, c0 + slot.block);
      for (int c1 = c0; c1 < end; c1 += ROWS_AT_ONCE)
        for (int panel = 0; panel < panels; panel++) {
          __global float *to = slot_place(packed, &slot, c0, channels) + panel * PRODUCTS * apart;
          __global const float *from = w + tap * w_tap + panel * WIDTH;
          for (int c = c1; c < min(end, c1 + ROWS_AT_ONCE); c++) {
#pragma unroll
            for (int part = 0; part < WIDTH; part += VEC) {
              float16 loaded[QUARTERS];
#pragma unroll
              for (int i = 0; i < QUARTERS; i++) {
                __global const float *at = weight_quarter(from + c * w_channel + part, quarters, i);
                if (panel == 0)
                  for (int line = 0; line < panels * WIDTH; line += VEC)
                    PREFETCH(at + ROWS_AT_ONCE * w_channel + line);
                // What lies behind the last filter, if there is anything, is multiplied in vain.
                loaded[i] = load_part(at, at + VEC <= behind ? VEC : used - panel * WIDTH - part);
              }
              store_products(to + (c - c0) * WIDTH + part, apart, loaded, 1, min(VEC, WIDTH - part),
                             WIDTH > VEC || c + (VEC - 1) / WIDTH >= end);
            }
          }
        }
    }
  }
}

// A panel of filters whose taps lie side by side.
INLINE void pack_panel(__global float *packed, __global const float *w, __global const float *behind,
                       int rows, const WeightQuarters *quarters, long w_filter, long w_channel, long w_tap,
                       GEOMETRY) {
  const int all = f_d * f_h * f_w;
  const long apart = (long)all * channels * WIDTH;
  for (int place = 0; place < all; place += VEC) {
    Slot slots[VEC];
    for (int i = 0; i < VEC; i++)
      slots[i] = place + i < all ? slot_of(place + i, GEOMETRY_NAMES) : (Slot){0, 0, 0, 0};
#pragma unroll
    for (int part = 0; part < WIDTH; part += VEC) {
      __global float *to[VEC];
      int left[VEC];  // channels of the block
      for (int i = 0; i < VEC; i++) left[i] = 0;
      for (int c = 0; c < channels; c++) {
        float16 squares[QUARTERS * VEC];
        for (int i = 0; i < QUARTERS; i++)
          load_turned(squares + i * VEC,
                      weight_quarter(w + c * w_channel + part * w_filter + place, quarters, i), w_filter,
                      min(VEC, rows - part), all - place, behind);
#pragma unroll
        for (int i = 0; i < VEC; i++)
          if (slots[i].taps) {
            if (left[i] == 0) {
              left[i] = slots[i].block;
              to[i] = slot_place(packed, &slots[i], c, channels) + part;
            }
            store_products(to[i], apart, squares + i, VEC, min(VEC, WIDTH - part), true);
            to[i] += WIDTH;
            left[i]--;
          }
      }
    }
  }
}
#else
// A panel of filters whose channels and taps lie side by side.
INLINE void pack_panel(__global float *packed, __global const float *w, __global const float *behind,
                       int rows, const WeightQuarters *quarters, long w_filter, long w_channel, long w_tap,
                       GEOMETRY) {
  const int all = f_d * f_h * f_w, block = BLOCK(channels, all);
  const long apart = (long)all * channels * WIDTH;
  for (int c0 = 0; c0 < channels; c0 += block) {
    const int count = min(block, channels - c0);
    __global float *to = packed + (long)c0 * all * WIDTH;
    __global const float *from = w + c0 * w_channel;
    // Of a filter, all taps of all channels lie side by side; of a block, its channels may.
    const int joint = CHANNELS_LAST && (STRASSEN || count < channels) ? 1 : all, length = joint * count;
#pragma unroll
    for (int part = 0; part < WIDTH; part += VEC) {
      const int used = min(VEC, rows - part), width = min(VEC, WIDTH - part);
      for (int outer = 0; outer < all; outer += joint)
        for (int place = 0; place < length; place += VEC) {
          float16 squares[QUARTERS * VEC];
          for (int i = 0; i < QUARTERS; i++)
            load_turned(squares + i * VEC,
                        weight_quarter(from + outer * w_tap + part * w_filter + place, quarters, i), w_filter,
                        used, length - place, behind);
          if (all == 1 && WIDTH < VEC && length - place >= 2 * VEC) {
#pragma unroll
            for (int i = 0; i < VEC; i++)
              store_products(to + (place + i) * WIDTH, apart, squares + i, VEC, width, false);
            continue;
          }
          int channel = place / all, tap = place % all;
          for (int i = 0; i < min(VEC, length - place); i++) {
            const long at = CHANNELS_LAST ? (long)outer * count + place + i : (long)tap * count + channel;
            store_products(to + at * WIDTH + part, apart, squares + i, VEC, width, true);
            if (++tap == all) {
              channel++;
              tap = 0;
            }
          }
        }
    }
  }
}
#endif

// Global size: (runs of panels, groups); `share` panels each.
__kernel ONE_ITEM void igemm_cpu_pack(__global const float *restrict w, __global float *restrict packed,
                                      GEOMETRY, const int share) {
  const int group = get_global_id(1), all = f_d * f_h * f_w, panels = (filters + WIDTH - 1) / WIDTH;
  const int panel = get_global_id(0) * share, first = panel * WIDTH;
  const int count = min(share, panels - panel);
  const long w_filter = W_FILTER(filters, channels, all), w_tap = W_TAP(filters, channels);
  const long w_channel = W_CHANNEL(filters, channels, all);
  const WeightQuarters quarters = {channels * w_channel, filters * w_filter};
  const long size = (long)QUARTERS * filters * channels * all;
  const long length = (long)PRODUCTS * all * channels * WIDTH;
  __global const float *behind = w + groups * size;
  w += group * size + first * w_filter;
  packed += ((long)group * panels + panel) * length;
#if GRADIENT
  if (w_filter == 1) {
    pack_rows(packed, w, behind, count, filters - first, &quarters, w_channel, w_tap, GEOMETRY_NAMES);
    return;
  }
#endif
  for (int i = 0; i < count; i++)
    pack_panel(packed + i * length, w + i * WIDTH * w_filter, behind, min(WIDTH, filters - first - i * WIDTH),
               &quarters, w_filter, w_channel, w_tap, GEOMETRY_NAMES);
}

#endif  // CPU_PACK_H
