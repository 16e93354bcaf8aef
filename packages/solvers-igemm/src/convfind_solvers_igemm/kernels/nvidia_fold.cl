// What surrounds igemm_nvidia_weights: x in its form where channels are not whole pieces of 16 bytes, and the sum of the
// parts in the order of w.
//
// A stride is folded into the channels: along each axis a position has `kept` neighbouring places of x, of which the
// first lies `before` behind stride times its index, and a window so many taps fewer. Place q of tap a is tap a * stride
// + q of the filter.
#include "convfind_epilogue.h"
#include "convfind_nvidia.h"
#include "gpu_geometry.h"

#ifndef DTYPE
#define DTYPE FLOAT32  // FLOAT32, FLOAT16, BFLOAT16
#endif

#define ELEMENT CF_TYPE(DTYPE)
#define BITS CF_JOIN(BITS_, DTYPE)  // an element that is only moved
#define BITS_FLOAT32 CF_UINT
#define BITS_FLOAT16 CF_USHORT
#define BITS_BFLOAT16 CF_USHORT
#define PER_PIECE (16 / (int)sizeof(BITS))
#define OF_AXES(name) const int name##_d, const int name##_h, const int name##_w

// x, packed and channels last, of sizes x and channels, becomes positions of so many pieces: folded channels and zeros
// behind them. Global size: all pieces, rounded up.
CF_KERNEL void igemm_nvidia_fold(CF_GLOBAL const BITS *x, CF_GLOBAL CF_UINT *folded, const int pieces,
                                 const int in_position, const int channels, OF_AXES(x), OF_AXES(size),
                                 OF_AXES(stride), OF_AXES(kept), OF_AXES(before)) {
  const int item = (int)CF_GLOBAL_ID(0);
  if (item >= pieces) return;
  const Place place = place_of(item / in_position, size_d, size_h, size_w);
  const int first = item % in_position * PER_PIECE;
  int channel = first % channels, q_w = first / channels % kept_w, q_h = first / channels / kept_w % kept_h;
  int q_d = first / channels / kept_w / kept_h;
  x += (CF_LONG)place.image * x_d * x_h * x_w * channels;
  CF_UINT words[4] = {0, 0, 0, 0};
  CF_UNROLL for (int i = 0; i < PER_PIECE; ++i) {
    const int d = place.d * stride_d + q_d - before_d, h = place.h * stride_h + q_h - before_h;
    const int w = place.w * stride_w + q_w - before_w;
    const int there = q_d < kept_d && is_inside(d, x_d) && is_inside(h, x_h) && is_inside(w, x_w);
    const CF_UINT bits = there ? x[((d * x_h + h) * x_w + w) * channels + channel] : 0;
    words[i * 4 / PER_PIECE] |= bits << i % (PER_PIECE / 4) * 16;
    if (++channel == channels) {
      channel = 0;
      if (++q_w == kept_w) {
        q_w = 0;
        if (++q_h == kept_h) {
          q_h = 0;
          ++q_d;
        }
      }
    }
  }
  CF_STORE_4(folded + (CF_LONG)item * 4, words);
}

// Items of a work-group share out the parts of neighbouring elements: item i has element i % ELEMENTS and every
// SHARES-th part from i / ELEMENTS on.
#define ELEMENTS 32
#define SHARES 8

// result = alpha * (sum of the parts) + beta * result, always in the same order. A part has `size` elements: for each
// filter taps and positions' channels. Global size: SHARES times elements of w, rounded up to work-groups.
CF_KERNEL CF_WORK_GROUP_SIZE(ELEMENTS *SHARES, 1, 1) void igemm_nvidia_sum(
    CF_GLOBAL const float *parts, CF_GLOBAL ELEMENT *result, CF_EPILOGUE_PARAMETERS, const int size,
    const int count, const int elements, const int channels, const int folded_channels, OF_AXES(window),
    OF_AXES(taps), OF_AXES(stride), OF_AXES(kept)) {
  const Epilogue epilogue = CF_EPILOGUE(result);
  CF_LOCAL float shares[SHARES][ELEMENTS];
  const int item = (int)CF_LOCAL_ID(0), share = item / ELEMENTS;
  const int at = (int)CF_GROUP_ID(0) * ELEMENTS + item % ELEMENTS;
  float sum = 0.0f;
  if (at < elements) {
    const Place r = place_of(at / channels, window_d, window_h, window_w);  // the image is a filter
    const int tap = (r.d / stride_d * taps_h + r.h / stride_h) * taps_w + r.w / stride_w;
    const int place = (r.d % stride_d * kept_h + r.h % stride_h) * kept_w + r.w % stride_w;
    const int from = (r.image * taps_d * taps_h * taps_w + tap) * folded_channels + place * channels + at % channels;
    for (int i = share; i < count; i += SHARES) sum += parts[(CF_LONG)i * size + from];
  }
  shares[share][item % ELEMENTS] = sum;
  CF_BARRIER();
  if (share > 0 || at >= elements) return;
  for (int i = 1; i < SHARES; ++i) sum += shares[i][item];
  CF_STORE_RESULT(DTYPE, result + at, 0, sum, epilogue);
}
