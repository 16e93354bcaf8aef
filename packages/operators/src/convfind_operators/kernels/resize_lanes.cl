// operators-resize: on CPUs, where neighbours in memory are lanes of an axis that does not change, as channels are.
//
// A work-item computes rows of y, of CHUNK columns at a time, whose places and weights it finds once: it goes along memory.
#include "resize.h"

#ifndef CHUNK
#define CHUNK 256  // columns of y at a time
#endif

#if WIDTH == 16

// What an element of y is made of; infinity is not multiplied by zero.
#define TAP LOAD_STEPPED(DTYPE, at_x + d_at[a] + h_at[b] + w_at[c] + i, 1, 1, left)
#define WEIGHT (d_weights[a] * h_weights[b] * w_weights[c])

// all: rows of y, of which a work-item has `per_item`, and of each so many columns.
CF_KERNEL ONE_ITEM void operators_resize_lanes(CF_GLOBAL const CF_TYPE(DTYPE) *x, STEPS(x), CF_GLOBAL CF_TYPE(DTYPE) *y,
                                               STEPS(y), ROW_SIZES, const int length, AXIS(d), AXIS(h), AXIS(w),
                                               const CF_LONG all, const CF_LONG per_item, const CF_LONG columns,
                                               const COORDINATE cubic, const NUMBER outside) {
  CF_LONG places[CHUNK][TAPS_W];
  NUMBER weights[CHUNK][TAPS_W];
  int is_column_outside[CHUNK];
  const CF_LONG first = CF_GLOBAL_ID(0) * per_item, last = min(first + per_item, all);
  const CF_LONG low = CF_GLOBAL_ID(1) * columns, high = min(low + columns, (CF_LONG)w_to);
  for (CF_LONG begin = low; begin < high; begin += CHUNK) {
    const int count = min((CF_LONG)CHUNK, high - begin);
    for (int o = 0; o < count; ++o) {
      DECLARED(w, TAPS_W)
      is_column_outside[o] = FOUND(1, w, TAPS_W, begin + o);
      for (int k = 0; k < TAPS_W; ++k) {
        places[o][k] = w_at[k];
        weights[o][k] = w_weights[k];
      }
    }
    for (CF_LONG index = first; index < last; ++index) {
      const CF_LONG outer = index / h_to;
      const int to_h = index % h_to, to_d = outer % d_to;
      const Row row = ROW_OF(outer / d_to);
      DECLARED(d, TAPS_D)
      DECLARED(h, TAPS_H)
      const int outside_d = FOUND(3, d, TAPS_D, to_d), outside_h = FOUND(2, h, TAPS_H, to_h);
      CF_GLOBAL const CF_TYPE(DTYPE) *const at_x = x + ROW_START(x, row);
      CF_GLOBAL CF_TYPE(DTYPE) *to = y + ROW_START(y, row) + to_d * d_y + to_h * h_y + begin * w_y;
      for (int o = 0; o < count; ++o, to += w_y) {
        const CF_LONG *const w_at = places[o];
        const NUMBER *const w_weights = weights[o];
        const int is_outside = outside_d || outside_h || is_column_outside[o];
#if INTERPOLATION > 0
        int is_any_zero = 0;
        FOR_TAPS is_any_zero |= WEIGHT == 0;
#endif
        for (int i = 0; i < length; i += WIDTH) {
          const int left = length - i;
#if INTERPOLATION == 0
          VALUE sum = LOAD_STEPPED(DTYPE, at_x + d_at[0] + h_at[0] + w_at[0] + i, 1, 1, left);
#else
          VALUE sum = EACH(0);
          if (is_any_zero) {
            FOR_TAPS if (WEIGHT != 0) sum += EACH(WEIGHT) * TAP;
          } else {
            FOR_TAPS sum += EACH(WEIGHT) * TAP;
          }
#endif
          if (is_outside) sum = EACH(outside);
          STORE_STEPPED(DTYPE, to + i, 1, 1, left, sum);
        }
      }
    }
  }
}

#endif  // WIDTH
