// Interpolation along up to three axes: where the elements that count lie, and their weights.
#ifndef OPERATORS_RESIZE_H
#define OPERATORS_RESIZE_H

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
#define AXES 2  // that change: the last of d, h and w; the others have one element
#endif
#ifndef TAPS_D
#define TAPS_D 1  // elements along an axis that an element of y is made of
#endif
#ifndef TAPS_H
#define TAPS_H 2
#endif
#ifndef TAPS_W
#define TAPS_W 2
#endif
#if TAPS_D * TAPS_H * TAPS_W <= 16
#define UNROLL_TAPS CF_UNROLL
#else
#define UNROLL_TAPS
#endif
#define FOR_TAPS                        \
  UNROLL_TAPS                           \
  for (int a = 0; a < TAPS_D; ++a)      \
    UNROLL_TAPS                         \
    for (int b = 0; b < TAPS_H; ++b)    \
      UNROLL_TAPS                       \
      for (int c = 0; c < TAPS_W; ++c)

// Where an element i of y lies in x: (i + shift) * factor / divisor + offset; `narrow`: steps of taps, below 1 more of them.
#define AXIS(a)                                                                                                     \
  const int a##_from, const int a##_to, const CF_LONG a##_x, const CF_LONG a##_y, const COORDINATE a##_shift,       \
      const COORDINATE a##_factor, const COORDINATE a##_divisor, const COORDINATE a##_offset, const COORDINATE a##_narrow

CF_INLINE COORDINATE weight_at(COORDINATE distance, const COORDINATE cubic) {
  const COORDINATE t = distance < 0 ? -distance : distance;
#if INTERPOLATION == 1
  return t < 1 ? 1 - t : 0;
#else
  if (t <= 1) return ((cubic + 2) * t - (cubic + 3)) * t * t + 1;
  return t < 2 ? ((cubic * t - 5 * cubic) * t + 8 * cubic) * t - 4 * cubic : 0;
#endif
}

CF_INLINE int within(const int tap, const int size) { return tap < 0 ? 0 : tap >= size ? size - 1 : tap; }

// Says whether the position is outside of x, and finds the places of its taps and their weights.
CF_INLINE int find_taps(CF_LONG *places, NUMBER *weights, const int taps, const int i, const int size, const CF_LONG step,
                        const COORDINATE shift, const COORDINATE factor, const COORDINATE divisor, const COORDINATE offset,
                        const COORDINATE narrow, const COORDINATE cubic) {
  const COORDINATE at = (i + shift) * factor / divisor + offset;
#if INTERPOLATION == 0
  const COORDINATE middle = 0.5f;
  const COORDINATE nearest = ROUNDING == 0   ? ceil(at - middle)
                             : ROUNDING == 1 ? floor(at + middle)
                                           : ROUNDING == 2 ? floor(at) : ceil(at);
  places[0] = (nearest < 0 ? 0 : nearest > size - 1 ? size - 1 : (int)nearest) * step;
#else
  const int first = (int)floor(at) + 1 - taps / 2;
  COORDINATE sum = 0;
  UNROLL_TAPS
  for (int t = 0; t < taps; ++t) {
    const int tap = first + t;
    COORDINATE weight = weight_at((tap - at) * narrow, cubic);
    if (EXCLUDED && (tap < 0 || tap >= size)) weight = 0;
    places[t] = within(tap, size) * step;
    weights[t] = weight;
    sum += weight;
  }
#if NORMALIZED
  UNROLL_TAPS
  for (int t = 0; t < taps; ++t) weights[t] = weights[t] / sum;
#endif
#endif
  return CROPPED && (at < 0 || at > size - 1);
}

#define DECLARED(a, taps)  \
  CF_LONG a##_at[taps];   \
  NUMBER a##_weights[taps];
// An axis that does not change has one element, at 0.
#define FOUND(number, a, taps, i)                                                                                         \
  (AXES < number                                                                                                    \
       ? (a##_at[0] = 0, a##_weights[0] = 1, 0)                                                                     \
       : find_taps(a##_at, a##_weights, taps, i, a##_from, a##_x, a##_shift, a##_factor, a##_divisor, a##_offset, \
                   a##_narrow, cubic))

#endif  // OPERATORS_RESIZE_H
