// operators-pooling: the largest or mean element of each window, in any layout; where they are, too.
//
// A work-item computes one element of y after the other, or on CPUs all channels of a position where those are neighbours
// in memory, 16 at a time.
#include "pooling.h"

#ifndef CHANNELS_LAST
#define CHANNELS_LAST 0  // neighbouring work-items have neighbouring: 0 positions, 1 channels
#endif
#ifndef VECTORS
#define VECTORS 0  // 1: with WIDTH 16, channels are neighbours in x and in y
#endif
#ifndef INDICES
#define INDICES 0  // 1: the largest elements' places in the flattened x are written, too
#endif

#define STRIDES(t) \
  const CF_LONG t##_n, const CF_LONG t##_c, const CF_LONG t##_d, const CF_LONG t##_h, const CF_LONG t##_w

// Of an element, or of WIDTH neighbours.
#if VECTORS
#define KEPT_TYPE VALUE
#define KEPT_NONE EACH(NOTHING)
#define NEXT(at) LOAD_STEPPED(DTYPE, at, 1, 1, left)
#define KEEP(to) STORE_STEPPED(DTYPE, to, 1, 1, left, kept)
#else
#define KEPT_TYPE NUMBER
#define KEPT_NONE ((NUMBER)(NOTHING))
#define NEXT(at) ((NUMBER)CF_LOAD(DTYPE, at, 0))
#define KEEP(to) CF_STORE(DTYPE, to, 0, kept)
#endif

// `all` counts elements of y; where channels come in vectors, positions.
CF_KERNEL ONE_ITEM void operators_pooling(CF_GLOBAL const CF_TYPE(DTYPE) *x, CF_GLOBAL CF_TYPE(DTYPE) *y,
#if INDICES
                                 CF_GLOBAL CF_LONG *indices, STRIDES(indices_step),
#endif
                                 STRIDES(x_step), STRIDES(y_step), const int channels, const CF_UINT all,
                                 const CF_UINT per_item, WINDOW) {
  const CF_UINT positions = (CF_UINT)y_d * y_h * y_w;
#if WIDTH == 1
  for (CF_UINT index = CF_GLOBAL_ID(0); index < all; index += CF_GLOBAL_SIZE(0)) {
#else
  const CF_UINT begin = CF_GLOBAL_ID(0) * per_item;
  for (CF_UINT index = begin; index < min(begin + per_item, all); ++index) {
#endif
    KNOWN_WINDOW
#if VECTORS
    const CF_UINT place = index % positions;
    const CF_LONG n = index / positions;
#elif CHANNELS_LAST
    const int c = index % channels;
    const CF_UINT place = index / channels % positions;
    const CF_LONG n = index / channels / positions;
#else
    const CF_UINT place = index % positions;
    const int c = index / positions % channels;
    const CF_LONG n = index / positions / channels;
#endif
    const int out_w = place % y_w, rows = place / y_w, out_h = rows % y_h, out_d = rows / y_h;
    const int d = out_d * stride_d - pad_d, h = out_h * stride_h - pad_h, w = out_w * stride_w - pad_w;
    const int first_d = first_tap(d, gap_d, 0), end_d = end_tap(d, gap_d, taps_d, x_d);
    const int first_h = first_tap(h, gap_h, 0), end_h = end_tap(h, gap_h, taps_h, x_h);
    const int first_w = first_tap(w, gap_w, 0), end_w = end_tap(w, gap_w, taps_w, x_w);
    CF_GLOBAL const CF_TYPE(DTYPE) *const from = x + n * x_step_n + d * x_step_d + h * x_step_h + w * x_step_w;
    CF_GLOBAL CF_TYPE(DTYPE) *const to = y + n * y_step_n + out_d * y_step_d + out_h * y_step_h + out_w * y_step_w;
#if VECTORS
    for (int c = 0; c < channels; c += WIDTH) {
      const int left = min(channels - c, WIDTH);
#else
    {
#endif
      KEPT_TYPE kept = KEPT_NONE;
      CF_LONG where = -1;
      for (int i = first_d; i < end_d; ++i)
        for (int j = first_h; j < end_h; ++j) {
          CF_GLOBAL const CF_TYPE(DTYPE) *const row = from + c * x_step_c + i * gap_d * x_step_d + j * gap_h * x_step_h;
          for (int k = first_w; k < end_w; ++k) {
            const KEPT_TYPE next = NEXT(row + k * gap_w * x_step_w);
#if INDICES
            if (where < 0 || next > kept || (next != next && kept == kept))
              where = (((n * channels + c) * x_d + d + i * gap_d) * x_h + h + j * gap_h) * x_w + w + k * gap_w;
#endif
            kept = KEPT(kept, next);
          }
        }
#if AVERAGE
      kept = kept / DIVISOR(d, h, w);
#endif
      KEEP(to + c * y_step_c);
#if INDICES
      indices[n * indices_step_n + c * indices_step_c + out_d * indices_step_d + out_h * indices_step_h +
              out_w * indices_step_w] = where;
#endif
    }
  }
}
