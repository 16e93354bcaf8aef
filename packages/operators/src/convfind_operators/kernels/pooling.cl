// operators-pooling: the largest or mean element of each window, in any layout; where they are, too.
//
// A work-item computes one element of y, or on CPUs 16 of neighbouring channels where those are neighbours in memory.
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

#if VECTORS
#define KEPT_TYPE VALUE
#define KEPT_NONE EACH(NOTHING)
#else
#define KEPT_TYPE NUMBER
#define KEPT_NONE ((NUMBER)(NOTHING))
#endif

CF_KERNEL void operators_pooling(CF_GLOBAL const CF_TYPE(DTYPE) *x, CF_GLOBAL CF_TYPE(DTYPE) *y,
#if INDICES
                                 CF_GLOBAL CF_LONG *indices, STRIDES(indices_step),
#endif
                                 STRIDES(x_step), STRIDES(y_step), const int channels, const CF_LONG all,
                                 const CF_LONG per_item, WINDOW) {
#if VECTORS
  const int parts = (channels + WIDTH - 1) / WIDTH;
#else
  const int parts = channels;
#endif
  const CF_LONG positions = (CF_LONG)y_d * y_h * y_w;
#if WIDTH == 1
  for (CF_LONG index = CF_GLOBAL_ID(0); index < all; index += CF_GLOBAL_SIZE(0)) {
#else
  const CF_LONG begin = CF_GLOBAL_ID(0) * per_item;
  for (CF_LONG index = begin; index < min(begin + per_item, all); ++index) {
#endif
#if CHANNELS_LAST
    const int part = index % parts;
    const CF_LONG place = index / parts % positions;
#else
    const CF_LONG place = index % positions;
    const int part = index / positions % parts;
#endif
    const CF_LONG n = index / positions / parts;
    const int out_w = place % y_w, out_h = place / y_w % y_h, out_d = place / y_w / y_h;
    const int d = out_d * stride_d - pad_d, h = out_h * stride_h - pad_h, w = out_w * stride_w - pad_w;
#if VECTORS
    const int c = part * WIDTH, left = min(channels - c, WIDTH);
#else
    const int c = part;
#endif
    CF_GLOBAL const CF_TYPE(DTYPE) *const from = x + n * x_step_n + c * x_step_c;
    KEPT_TYPE kept = KEPT_NONE;
    CF_LONG where = -1;
    const int end_d = end_tap(d, gap_d, taps_d, x_d), end_h = end_tap(h, gap_h, taps_h, x_h),
              end_w = end_tap(w, gap_w, taps_w, x_w);
    for (int i = first_tap(d, gap_d, 0); i < end_d; ++i)
      for (int j = first_tap(h, gap_h, 0); j < end_h; ++j)
        for (int k = first_tap(w, gap_w, 0); k < end_w; ++k) {
          const int in_d = d + i * gap_d, in_h = h + j * gap_h, in_w = w + k * gap_w;
          CF_GLOBAL const CF_TYPE(DTYPE) *const at = from + in_d * x_step_d + in_h * x_step_h + in_w * x_step_w;
#if VECTORS
          const VALUE next = LOAD_STEPPED(DTYPE, at, 1, 1, left);
#else
          const NUMBER next = (NUMBER)CF_LOAD(DTYPE, at, 0);
#endif
#if INDICES
          if (where < 0 || next > kept || (next != next && kept == kept))
            where = (((n * channels + c) * x_d + in_d) * x_h + in_h) * x_w + in_w;
#endif
          kept = KEPT(kept, next);
        }
#if AVERAGE
    kept = kept / DIVISOR(d, h, w);
#endif
    CF_GLOBAL CF_TYPE(DTYPE) *const to =
        y + n * y_step_n + c * y_step_c + out_d * y_step_d + out_h * y_step_h + out_w * y_step_w;
#if VECTORS
    STORE_STEPPED(DTYPE, to, 1, 1, left, kept);
#else
    CF_STORE(DTYPE, to, 0, kept);
#endif
#if INDICES
    indices[n * indices_step_n + c * indices_step_c + out_d * indices_step_d + out_h * indices_step_h +
            out_w * indices_step_w] = where;
#endif
  }
}
