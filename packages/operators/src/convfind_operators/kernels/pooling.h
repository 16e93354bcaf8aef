// Poolings: how windows meet the data, in three spatial axes, and what is kept of the elements of a window.
#ifndef OPERATORS_POOLING_H
#define OPERATORS_POOLING_H

#include "fours.h"

#ifndef DTYPE
#define DTYPE FLOAT32  // elements of x and y
#endif
#ifndef AVERAGE
#define AVERAGE 0  // 0: the largest element, of which a NaN is the largest; 1: the mean
#endif

#if AVERAGE
#define NOTHING 0
#define KEPT(kept, next) ((kept) + (next))
#else
#define NOTHING LEAST_ELEMENT(DTYPE)
#define KEPT(kept, next) (((kept) > (next)) | ((kept) != (kept)) ? (kept) : (next))
#endif

// Sizes of x, y and the window, its stride, dilation, padding; `counted`: up to where elements count for the mean, from
// `uncounted` before x on; `divisor`: 0, or what counts instead.
#define PER_AXIS(name) const int name##_d, const int name##_h, const int name##_w
#define WINDOW                                                                                                \
  PER_AXIS(x), PER_AXIS(y), PER_AXIS(taps), PER_AXIS(stride), PER_AXIS(gap), PER_AXIS(pad), PER_AXIS(uncounted), \
      PER_AXIS(counted), const int divisor

// The window, where it is known when the kernel is compiled: these hide its parameters.
#ifdef TAPS_H
#define KNOWN_WINDOW                                                                                           \
  const int taps_h = TAPS_H, taps_w = TAPS_W, stride_h = STRIDE_H, stride_w = STRIDE_W, gap_h = GAP_H, gap_w = GAP_W;
#else
#define KNOWN_WINDOW
#endif

// The taps of a window along an axis that meet elements from `low` up to `high`; `at` is where the window begins.
CF_INLINE int gaps_in(const int distance, const int gap) { return gap == 1 ? distance : (distance + gap - 1) / gap; }
CF_INLINE int first_tap(const int at, const int gap, const int low) { return at >= low ? 0 : gaps_in(low - at, gap); }
CF_INLINE int end_tap(const int at, const int gap, const int taps, const int high) {
  const int inside = at >= high ? 0 : gaps_in(high - at, gap);
  return inside < taps ? inside : taps;
}
CF_INLINE int tap_count(const int at, const int gap, const int taps, const int low, const int high) {
  const int count = end_tap(at, gap, taps, high) - first_tap(at, gap, low);
  return count > 0 ? count : 0;
}

// What the mean of the window at a position is divided by.
#define COUNTED(axis, at) tap_count(at, gap_##axis, taps_##axis, -uncounted_##axis, counted_##axis)
#define DIVISOR(d, h, w) ((NUMBER)(divisor != 0 ? divisor : COUNTED(d, d) * COUNTED(h, h) * COUNTED(w, w)))

#endif  // OPERATORS_POOLING_H
