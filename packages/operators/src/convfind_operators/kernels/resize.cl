// operators-resize: x at other sizes along up to three axes: the nearest element, or sums of 2 or 4 along each axis, of more
// where it shrinks and is to be smooth.
//
// Rows and lanes of the walk are the other axes. Weights of a position are computed once for some rows and their lanes.
#include "fours.h"
#include "resize.h"

#ifndef SINGLE
#define SINGLE 0  // 1: rows have one element
#endif
#ifndef WHOLE
#define WHOLE 0  // 1: rows are multiples of FOUR
#endif
#ifndef INDEX
#define INDEX CF_LONG  // counts FOURs of y in some rows, and what a launch has beyond them: CF_UINT where it can
#endif
#if WIDTH == 1
#define ARRAY(name) NUMBER name[FOUR]
#define LOAD_TAP(array, pointer) LOAD_FIRST(DTYPE, array, pointer, left, 0)
#define STORE_SUM(pointer, array) STORE_FIRST(DTYPE, pointer, array, left)
#define EACH_OF_FOUR for (int e = 0; e < FOUR; ++e)
#else
#define ARRAY(name) VALUE name[1]
#define LOAD_TAP(array, pointer) ((array)[0] = LOAD_STEPPED(DTYPE, pointer, 1, 1, left))
#define STORE_SUM(pointer, array) STORE_STEPPED(DTYPE, pointer, 1, 1, left, (array)[0])
#define EACH_OF_FOUR for (int e = 0; e < 1; ++e)
#endif

// all: positions, lanes of FOUR and parts of the rows, of which each has `share`; rows: all of them.
CF_KERNEL void operators_resize(CF_GLOBAL const CF_TYPE(DTYPE) *x, STEPS(x), CF_GLOBAL CF_TYPE(DTYPE) *y, STEPS(y),
                                ROW_SIZES, const int length, AXIS(d), AXIS(h), AXIS(w), const CF_LONG all,
                                const CF_LONG per_item, const int rows, const int share, const COORDINATE cubic,
                                const NUMBER outside) {
#if WIDTH == 1
  const INDEX lanes = (length + FOUR - 1) / FOUR;
  for (INDEX index = CF_GLOBAL_ID(0); index < all; index += CF_GLOBAL_SIZE(0)) {
    const int i = SINGLE ? 0 : index % lanes * FOUR, left = WHOLE ? FOUR : length - i;
    INDEX at = SINGLE ? index : index / lanes;
#else
  const CF_LONG first = CF_GLOBAL_ID(0) * per_item;
  for (CF_LONG index = first; index < min(first + per_item, all); ++index) {
    CF_LONG at = index;
#endif
    const int to_w = at % w_to;
    at /= w_to;
    const int to_h = at % h_to;
    at /= h_to;
    const int to_d = at % d_to, begin = at / d_to * share;
    DECLARED(d, TAPS_D)
    DECLARED(h, TAPS_H)
    DECLARED(w, TAPS_W)
    const int outside_d = FOUND(3, d, TAPS_D, to_d), outside_h = FOUND(2, h, TAPS_H, to_h), outside_w = FOUND(1, w, TAPS_W, to_w);
    const int is_outside = outside_d || outside_h || outside_w;
    const CF_LONG place = to_d * d_y + to_h * h_y + to_w * w_y;
    for (int number = begin; number < begin + share && number < rows; ++number) {
      const Row row = ROW_OF(number);
      CF_GLOBAL const CF_TYPE(DTYPE) *const from = x + ROW_START(x, row);
      CF_GLOBAL CF_TYPE(DTYPE) *const to = y + ROW_START(y, row) + place;
#if WIDTH > 1
      for (int i = 0; i < length; i += WIDTH) {
        const int left = min(length - i, WIDTH);
#else
      {
#endif
        ARRAY(sums);
#if INTERPOLATION == 0
        LOAD_TAP(sums, from + d_at[0] + h_at[0] + w_at[0] + i);
#else
        EACH_OF_FOUR sums[e] = EACH(0);
        UNROLL_TAPS
        for (int a = 0; a < TAPS_D; ++a)
          UNROLL_TAPS
          for (int b = 0; b < TAPS_H; ++b)
            UNROLL_TAPS
            for (int c = 0; c < TAPS_W; ++c) {
              const NUMBER weight = d_weights[a] * h_weights[b] * w_weights[c];
#if WIDTH > 1
              if (weight == 0) continue;
#endif
              ARRAY(taps);
              LOAD_TAP(taps, from + d_at[a] + h_at[b] + w_at[c] + i);
              // Infinity is not multiplied by zero.
              EACH_OF_FOUR sums[e] += weight == 0 ? EACH(0) : EACH(weight) * taps[e];
            }
#endif
        if (is_outside) EACH_OF_FOUR sums[e] = EACH(outside);
        STORE_SUM(to + i, sums);
      }
    }
  }
}
