// A convolution as the GPU kernels see it: its sizes, in three spatial axes, and the walk through its windows.
//
// Forward, and the data gradient, compute a result from a source. The data gradient of stride s is s convolutions
// of stride 1 along each axis, one for each phase (the index of the result modulo s), each with the taps of the
// filter that meet the phase: no sum has to be added to by two work-items. The weight gradient walks through the
// windows as forward does; its source is x, its result y.
#include "convfind_kernel.h"

#ifndef FIXED
#define FIXED 0  // 1: every GEOMETRY name is a macro, and the arguments of these names are not used
#endif
#ifndef CHANNELS_LAST
#define CHANNELS_LAST 0  // 0: N, C, spatial; 1: N, spatial, C
#endif
#ifndef BACKWARD
#define BACKWARD 0  // 0: windows of the source (forward, weight gradient); 1: phases (data gradient)
#endif

#ifndef FUSED
#define FUSED 0  // 1, with BACKWARD: phases are channels of the result, which all see the taps of any phase
#endif

#if FIXED
#define ARGUMENT(name) const int unused_##name
#else
#define ARGUMENT(name) const int name
#endif
#define PER_AXIS(name) ARGUMENT(name##_D), ARGUMENT(name##_H), ARGUMENT(name##_W)

// Channels are those of one group. REPEAT is the stride divided by its greatest common divisor with the dilation,
// INVERSE the inverse of the dilation, divided by the same, modulo REPEAT; both are for the data gradient only.
#define GEOMETRY                                                                                            \
  ARGUMENT(IMAGES), ARGUMENT(GROUPS), ARGUMENT(SOURCE_CHANNELS), ARGUMENT(RESULT_CHANNELS), PER_AXIS(SOURCE), \
      PER_AXIS(RESULT), PER_AXIS(WINDOW), PER_AXIS(STRIDE), PER_AXIS(DILATION), PER_AXIS(PAD),               \
      PER_AXIS(REPEAT), PER_AXIS(INVERSE)

#define TAPS (WINDOW_D * WINDOW_H * WINDOW_W)
#define SOURCE_SPACE (SOURCE_D * SOURCE_H * SOURCE_W)
#define RESULT_SPACE (RESULT_D * RESULT_H * RESULT_W)
#define STRIDES (STRIDE_D * STRIDE_H * STRIDE_W)
#define PHASES (BACKWARD && !FUSED ? STRIDES : 1)
#define FUSED_CHANNELS (FUSED ? RESULT_CHANNELS * STRIDES : RESULT_CHANNELS)  // channel and phase, channels first

// Elements from one channel to the next, from one position to the next, and from one image to the next.
#define SOURCE_CHANNEL_STEP (CHANNELS_LAST ? 1 : SOURCE_SPACE)
#define SOURCE_POSITION_STEP (CHANNELS_LAST ? GROUPS * SOURCE_CHANNELS : 1)
#define SOURCE_IMAGE_STEP ((CF_LONG)GROUPS * SOURCE_CHANNELS * SOURCE_SPACE)
#define RESULT_CHANNEL_STEP (CHANNELS_LAST ? 1 : RESULT_SPACE)
#define RESULT_POSITION_STEP (CHANNELS_LAST ? GROUPS * RESULT_CHANNELS : 1)
#define RESULT_IMAGE_STEP ((CF_LONG)GROUPS * RESULT_CHANNELS * RESULT_SPACE)

// One axis of a convolution (of one phase of it).
typedef struct {
  int count;       // results along the axis
  int step;        // from one result's window to the next, in the source
  int origin;      // where the window of the first one starts; may be outside
  int taps;        // of a window; may be none
  int tap_step;    // from one tap to the next, in the source
  int out_step;    // from one result to the next
  int out_origin;  // the first one
  int w_first;     // the first tap's index in the filter
  int w_step;      // from one tap's to the next
} Axis;

CF_INLINE Axis window_axis(int result, int window, int stride, int dilation, int pad) {
  Axis axis;
  axis.count = result;
  axis.step = stride;
  axis.origin = -pad;
  axis.taps = window;
  axis.tap_step = dilation;
  axis.out_step = 1;
  axis.out_origin = 0;
  axis.w_first = 0;
  axis.w_step = 1;
  return axis;
}

// Result h takes from source (h + pad - r * dilation) / stride where that is whole: with gcd = stride / repeat, r is
// the solution of r * dilation = h + pad (mod stride), and every repeat-th index behind it. Phases are counted so
// that phase 0, whose first tap is 0, has the most taps.
CF_INLINE Axis phase_axis(int phase, int result, int window, int stride, int dilation, int pad, int repeat,
                          int inverse) {
  Axis axis;
  axis.step = 1;
  axis.out_step = stride;
  axis.w_step = repeat;
  if (stride == 1) {
    axis.count = result;
    axis.out_origin = 0;
    axis.origin = pad;
    axis.w_first = 0;
    axis.taps = window;
    axis.tap_step = -dilation;
    return axis;
  }
  // Divisions take long, and a work-group starts with these.
  int gcd = 1, first = phase, has_taps = 1;
  if (dilation > 1) {
    gcd = stride / repeat;
    first = (int)((CF_UINT)(phase / gcd % repeat) * (CF_UINT)inverse % (CF_UINT)repeat);
    has_taps = phase % gcd == 0;
  }
  axis.tap_step = dilation > 1 ? -(dilation / gcd) : -1;
  axis.out_origin = phase + stride - pad % stride;
  if (axis.out_origin >= stride) axis.out_origin -= stride;
  axis.count = axis.out_origin < result ? (result - axis.out_origin + stride - 1) / stride : 0;
  axis.w_first = first;
  axis.taps = has_taps && first < window ? (window - first + repeat - 1) / repeat : 0;
  axis.origin = axis.taps > 0 ? (axis.out_origin + pad - first * dilation) / stride : 0;
  return axis;
}

// All phases at once, where the dilation is 1 or there is only one phase. Tap j of the phase p is the filter's
// p + w_first + j * w_step, if there is one; the first and the last position may not have all phases. Where any phase
// then has fewer taps, the first position begins before the results: with what the padding is beyond whole strides.
CF_INLINE Axis fused_axis(int result, int window, int stride, int dilation, int pad) {
  Axis axis;
  axis.out_origin = 0;
  if (stride > 1 && (window - 1) / stride < (window - 1 + (stride - pad % stride) % stride) / stride)
    axis.out_origin = -(pad % stride);
  pad += axis.out_origin;
  const int last = (stride - 1 + pad) / stride;  // the furthest source index that any phase takes from
  axis.count = (result - axis.out_origin + stride - 1) / stride;
  axis.step = 1;
  axis.origin = last;
  axis.out_step = stride;
  axis.w_first = pad - last * stride;
  axis.w_step = stride;
  axis.tap_step = stride == 1 ? -dilation : -1;
  axis.taps = stride == 1 ? window : (window - 1 - axis.w_first) / stride + 1;
  return axis;
}

#if FUSED
#define AXIS(name, phase) fused_axis(RESULT_##name, WINDOW_##name, STRIDE_##name, DILATION_##name, PAD_##name)
#elif BACKWARD
#define AXIS(name, phase)                                                                                   \
  phase_axis(phase, RESULT_##name, WINDOW_##name, STRIDE_##name, DILATION_##name, PAD_##name, REPEAT_##name, \
             INVERSE_##name)
#else
#define AXIS(name, phase) window_axis(RESULT_##name, WINDOW_##name, STRIDE_##name, DILATION_##name, PAD_##name)
#endif

// An image and a place in it.
typedef struct {
  int image, d, h, w;
} Place;

CF_INLINE Place place_of(int position, int count_d, int count_h, int count_w) {
  Place place;
  place.w = position % count_w;
  position /= count_w;
  place.h = position % count_h;
  position /= count_h;
  place.d = position % count_d;
  place.image = position / count_d;
  return place;
}

// The place so many positions further on as lie before the place `by`: digits are added, with carry.
CF_INLINE Place moved_place(Place place, Place by, int count_d, int count_h, int count_w) {
  place.w += by.w;
  place.h += by.h;
  place.d += by.d;
  place.image += by.image;
  if (place.w >= count_w) {
    place.w -= count_w;
    ++place.h;
  }
  if (place.h >= count_h) {
    place.h -= count_h;
    ++place.d;
  }
  if (place.d >= count_d) {
    place.d -= count_d;
    ++place.image;
  }
  return place;
}

// A tap of a window, its number, and the block of channels that it is walked through with: taps change first.
typedef struct {
  int block, number, d, h, w;
} Tap;

CF_INLINE Tap tap_of(int step, int taps_d, int taps_h, int taps_w) {
  const int taps = max(taps_d * taps_h * taps_w, 1);
  Tap tap;
  tap.block = step / taps;
  tap.number = step % taps;
  tap.w = tap.number % max(taps_w, 1);
  tap.h = tap.number / max(taps_w, 1) % max(taps_h, 1);
  tap.d = tap.number / max(taps_w * taps_h, 1);
  return tap;
}

CF_INLINE Tap next_tap(Tap tap, int taps_d, int taps_h, int taps_w) {
  ++tap.number;
  if (++tap.w == taps_w) {
    tap.w = 0;
    if (++tap.h == taps_h) {
      tap.h = 0;
      if (++tap.d == taps_d) {
        tap.d = 0;
        tap.number = 0;
        ++tap.block;
      }
    }
  }
  return tap;
}

CF_INLINE int is_inside(int index, int size) { return (CF_UINT)index < (CF_UINT)size; }

// How far a tap lies behind the first one in the source.
CF_INLINE int tap_shift(Tap tap, Axis d, Axis h, Axis w, int size_h, int size_w) {
  return (tap.d * d.tap_step * size_h + tap.h * h.tap_step) * size_w + tap.w * w.tap_step;
}

// How far the first result of an image is from where it begins.
CF_INLINE CF_LONG origin_of(Axis d, Axis h, Axis w, int result_h, int result_w) {
  return ((CF_LONG)d.out_origin * result_h + h.out_origin) * result_w + w.out_origin;
}

#if FUSED
// Which phase a channel of the result is, and how many phases a position has, along each axis; in the bits behind these
// phases that the first position does not have, and whether a position is the first.
#define PACKED(d, h, w, bit_d, bit_h, bit_w) \
  ((d) | (h) << 8 | (w) << 16 | (bit_d) << 24 | (bit_h) << 25 | (bit_w) << 26)
#define MEETS(row, column) (CHANNELS_LAST ? has_phase(row, column) : has_phase(column, row))
CF_INLINE int has_phase(int position, int phase) {
  return (phase & 255) < (position & 255) && (phase >> 8 & 255) < (position >> 8 & 255) &&
         (phase >> 16 & 255) < (position >> 16 & 255) && (phase & position) >> 24 == 0;
}

CF_INLINE int mark_of_phase(Place phase, Axis d, Axis h, Axis w) {
  return PACKED(phase.d, phase.h, phase.w, phase.d < -d.out_origin, phase.h < -h.out_origin, phase.w < -w.out_origin);
}

CF_INLINE int phases_left(int place, Axis axis, int result) {
  return min(axis.out_step, result - axis.out_origin - place * axis.out_step);
}

CF_INLINE int mark_of_position(Place place, Axis d, Axis h, Axis w, int result_d, int result_h, int result_w) {
  return PACKED(phases_left(place.d, d, result_d), phases_left(place.h, h, result_h),
                phases_left(place.w, w, result_w), place.d == 0, place.h == 0, place.w == 0);
}
#endif
