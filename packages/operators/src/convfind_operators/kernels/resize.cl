// operators-resize: x at other sizes along up to three axes: the nearest element, or sums of 2 or 4 along each axis, of more
// where it shrinks and is to be smooth.
//
// Rows and lanes of the walk are the other axes. Weights of a position are computed once, for all lanes of a row.
#include "elements.h"
#include "walk.h"

#ifndef DTYPE
#define DTYPE FLOAT32
#endif
#ifndef COORDINATE
#define COORDINATE float  // double where the device has it
#endif
#ifndef INTERPOLATION
#define INTERPOLATION 1  // 0: the nearest element; 1: linear; 2: cubic
#endif
#ifndef ROUNDING
#define ROUNDING 0  // to the nearest element: 0 halves down, 1 halves up, 2 always down, 3 always up
#endif
#ifndef NORMALIZED
#define NORMALIZED 0  // 1: weights are divided by their sum
#endif
#ifndef EXCLUDED
#define EXCLUDED 0  // 1: elements outside of x do not count; 0: they are those at its border
#endif
#ifndef CROPPED
#define CROPPED 0  // 1: positions outside of x are `outside`
#endif
#ifndef AXES
#define AXES 3  // that change: the last of d, h and w; the others have one element
#endif
#ifndef INDEX
#define INDEX CF_LONG  // counts elements of y, and what a launch has beyond them
#endif
#define MOST_TAPS 32  // along an axis

// Where an element i of y lies in x: (i + shift) * factor / divisor + offset; `narrow`: steps of taps, below 1 more of them.
#define AXIS(a)                                                                                                     \
  const int a##_from, const int a##_to, const CF_LONG a##_x, const CF_LONG a##_y, const COORDINATE a##_shift,       \
      const COORDINATE a##_factor, const COORDINATE a##_divisor, const COORDINATE a##_offset, const COORDINATE a##_narrow

typedef struct {
  int first, count, is_outside;
  NUMBER weights[MOST_TAPS];
} Taps;

CF_INLINE COORDINATE weight_at(COORDINATE distance, const COORDINATE cubic) {
  const COORDINATE t = distance < 0 ? -distance : distance;
#if INTERPOLATION == 1
  return t < 1 ? 1 - t : 0;
#else
  if (t <= 1) return ((cubic + 2) * t - (cubic + 3)) * t * t + 1;
  return t < 2 ? ((cubic * t - 5 * cubic) * t + 8 * cubic) * t - 4 * cubic : 0;
#endif
}

CF_INLINE void find_taps(Taps *taps, const int i, const int size, const COORDINATE shift, const COORDINATE factor,
                         const COORDINATE divisor, const COORDINATE offset, const COORDINATE narrow,
                         const COORDINATE cubic) {
  const COORDINATE at = (i + shift) * factor / divisor + offset;
  taps->is_outside = CROPPED && (at < 0 || at > size - 1);
#if INTERPOLATION == 0
  const COORDINATE middle = 0.5f;
  const COORDINATE nearest = ROUNDING == 0   ? ceil(at - middle)
                             : ROUNDING == 1 ? floor(at + middle)
                                           : ROUNDING == 2 ? floor(at) : ceil(at);
  taps->first = nearest < 0 ? 0 : nearest > size - 1 ? size - 1 : (int)nearest;
  taps->count = 1;
  taps->weights[0] = 1;
#else
  const int reach = (int)ceil(INTERPOLATION / narrow);
  const COORDINATE below = floor(at);
  taps->first = (int)below + 1 - reach;
  taps->count = 2 * reach;
  COORDINATE sum = 0;
  for (int t = 0; t < 2 * reach; ++t) {
    const int tap = taps->first + t;
    COORDINATE weight = weight_at((tap - at) * narrow, cubic);
    if (EXCLUDED && (tap < 0 || tap >= size)) weight = 0;
    taps->weights[t] = weight;
    sum += weight;
  }
#if NORMALIZED
  for (int t = 0; t < 2 * reach; ++t) taps->weights[t] = taps->weights[t] / sum;
#endif
#endif
}
#define FIND_NONE(a) (a.first = 0, a.count = 1, a.is_outside = 0, a.weights[0] = 1)
#define FIND(a, i) find_taps(&a, i, a##_from, a##_shift, a##_factor, a##_divisor, a##_offset, a##_narrow, cubic)

CF_INLINE int within(const int tap, const int size) { return tap < 0 ? 0 : tap >= size ? size - 1 : tap; }

CF_KERNEL void operators_resize(CF_GLOBAL const CF_TYPE(DTYPE) *x, STEPS(x), CF_GLOBAL CF_TYPE(DTYPE) *y, STEPS(y),
                                ROW_SIZES, const int length, AXIS(d), AXIS(h), AXIS(w), const CF_LONG all,
                                const CF_LONG per_item, const COORDINATE cubic, const NUMBER outside) {
#if WIDTH == 1
  for (INDEX index = CF_GLOBAL_ID(0); index < all * length; index += CF_GLOBAL_SIZE(0)) {
    const INDEX at = index / length;
#else
  const CF_LONG first = CF_GLOBAL_ID(0) * per_item;
  for (INDEX at = first; at < min(first + per_item, all); ++at) {
#endif
    const int to_w = at % w_to, to_h = at / w_to % h_to, to_d = at / w_to / h_to % d_to;
    const Row row = ROW_OF(at / w_to / h_to / d_to);
    Taps d, h, w;
#if AXES >= 3
    FIND(d, to_d);
#else
    FIND_NONE(d);
#endif
#if AXES >= 2
    FIND(h, to_h);
#else
    FIND_NONE(h);
#endif
#if AXES >= 1
    FIND(w, to_w);
#else
    FIND_NONE(w);
#endif
    CF_GLOBAL CF_TYPE(DTYPE) *const to = y + ROW_START(y, row) + to_d * d_y + to_h * h_y + to_w * w_y;
    CF_GLOBAL const CF_TYPE(DTYPE) *const from = x + ROW_START(x, row);
#if WIDTH == 1
    const int i = index % length, left = 1;
    {
#else
    for (int i = 0; i < length; i += WIDTH) {
      const int left = min(length - i, WIDTH);
#endif
#if INTERPOLATION == 0
      VALUE sum = LOAD_STEPPED(DTYPE, from + d.first * d_x + h.first * h_x + w.first * w_x + i, 1, 1, left);
#else
      VALUE sum = EACH(0);
      for (int a = 0; a < d.count; ++a)
        for (int b = 0; b < h.count; ++b)
          for (int c = 0; c < w.count; ++c) {
            const NUMBER weight = d.weights[a] * h.weights[b] * w.weights[c];
            if (weight == 0) continue;  // not to multiply infinity by it
            const CF_LONG tap =
                within(d.first + a, d_from) * d_x + within(h.first + b, h_from) * h_x + within(w.first + c, w_from) * w_x;
            sum += EACH(weight) * LOAD_STEPPED(DTYPE, from + tap + i, 1, 1, left);
          }
#endif
      if (d.is_outside || h.is_outside || w.is_outside) sum = EACH(outside);
      STORE_STEPPED(DTYPE, to + i, 1, 1, left, sum);
    }
  }
}
