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
#ifndef PARTS
#define PARTS 1  // rows whose elements are all loaded before the first is stored, where rows share weights
#endif
#define ALL_TAPS (TAPS_D * TAPS_H * TAPS_W)
#define TAP ((a * TAPS_H + b) * TAPS_W + c)
#define PLACE_OF_TAP (d_at[a] + h_at[b] + w_at[c])
#define WEIGHT_OF_TAP (d_weights[a] * h_weights[b] * w_weights[c])

// all: positions, lanes of FOUR and parts of the rows, of which each has `share`; rows: all of them.
CF_KERNEL void operators_resize(CF_GLOBAL const CF_TYPE(DTYPE) *x, STEPS(x), CF_GLOBAL CF_TYPE(DTYPE) *y, STEPS(y),
                                ROW_SIZES, const int length, AXIS(d), AXIS(h), AXIS(w), const CF_LONG all,
                                const int rows, const int share, const COORDINATE cubic,
                                const NUMBER outside) {
  const INDEX lanes = (length + FOUR - 1) / FOUR;
  for (INDEX index = CF_GLOBAL_ID(0); index < all; index += CF_GLOBAL_SIZE(0)) {
    const int i = SINGLE ? 0 : index % lanes * FOUR, left = WHOLE ? FOUR : length - i;
    INDEX at = SINGLE ? index : index / lanes;
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
    const int end = min(begin + share, rows);
    for (int number = begin; number < end; number += PARTS) {
#if PARTS > 1
      NUMBER taps[PARTS][ALL_TAPS][FOUR];
      CF_UNROLL
      for (int part = 0; part < PARTS; ++part) {
        // The last is read again where there are no more.
        const Row row = ROW_OF(min(number + part, end - 1));
        CF_GLOBAL const CF_TYPE(DTYPE) *const from = x + ROW_START(x, row) + i;
        FOR_TAPS LOAD_FIRST(DTYPE, taps[part][TAP], from + PLACE_OF_TAP, left, 0);
      }
#define LOAD_TAP
#define OF_TAP taps[part][TAP]
#else
#define LOAD_TAP   \
  NUMBER tap[FOUR]; \
  LOAD_FIRST(DTYPE, tap, x + ROW_START(x, row) + i + PLACE_OF_TAP, left, 0);
#define OF_TAP tap
#endif
      CF_UNROLL
      for (int part = 0; part < PARTS; ++part) {
        const Row row = ROW_OF(min(number + part, end - 1));
        NUMBER sums[FOUR];
        for (int e = 0; e < FOUR; ++e) sums[e] = 0;
        FOR_TAPS {
          LOAD_TAP
#if INTERPOLATION == 0
          for (int e = 0; e < FOUR; ++e) sums[e] = OF_TAP[e];
#else
          const NUMBER weight = WEIGHT_OF_TAP;
          // Infinity is not multiplied by zero.
          for (int e = 0; e < FOUR; ++e) sums[e] += weight == 0 ? 0 : weight * OF_TAP[e];
#endif
        }
        if (is_outside)
          for (int e = 0; e < FOUR; ++e) sums[e] = outside;
        if (number + part < end) STORE_FIRST(DTYPE, y + ROW_START(y, row) + place + i, sums, left);
      }
    }
  }
}
