// operators-pooling: on CPUs, where neighbours in memory are neighbouring columns, or channels and then columns, for any stride
// and dilation.
//
// A work-item computes whole rows of y. The rows of x that a row of windows meets become one in private memory, with its
// padding, so that the second pass, along the row, needs no bounds.
#include "pooling.h"

#ifndef BUFFER
#define BUFFER 4096  // elements in private memory
#endif
#ifndef CHANNELS_LAST
#define CHANNELS_LAST 0  // 1: a column is all channels, a multiple of 16
#endif
#if CHANNELS_LAST
#define PITCH channels
#else
#define PITCH 1
#endif

#if WIDTH == 16

#define STRIDES(t) const CF_LONG t##_n, const CF_LONG t##_c, const CF_LONG t##_d, const CF_LONG t##_h

// 16 columns so far apart, of private memory.
CF_INLINE VALUE apart(const NUMBER *from, const int step) {
  if (step == 1) return vload16(0, from);
  VALUE first = vload16(0, from), second = vload16(1, from);
  if (step == 2) {
    first.lo = first.even;
    first.hi = second.even;
    return first;
  }
  NUMBER lanes[WIDTH];
  for (int lane = 0; lane < WIDTH; ++lane) lanes[lane] = from[lane * step];
  return vload16(0, lanes);
}

// chunk: windows that one filling of the buffer is for. readable: elements of x in memory, gaps included.
CF_KERNEL void operators_pooling_rows(CF_GLOBAL const CF_TYPE(DTYPE) *x, CF_GLOBAL CF_TYPE(DTYPE) *y, STRIDES(x_step),
                                      STRIDES(y_step), const int channels, const CF_UINT all, const CF_UINT per_item,
                                      const int chunk, const CF_LONG readable, WINDOW) {
  NUMBER buffer[BUFFER];
#if AVERAGE
  NUMBER counts[BUFFER];
#endif
  const CF_UINT first = CF_GLOBAL_ID(0) * per_item, last = min(first + per_item, all);
  for (int begin = 0; begin < y_w; begin += chunk) {
    KNOWN_WINDOW
    const int reach = (taps_w - 1) * gap_w + 1;
    const int count = min(chunk, y_w - begin), w = begin * stride_w - pad_w;
    const int width = (CHANNELS_LAST ? count : max(count, WIDTH)) * stride_w + reach;
    const int low = min(max(-w, 0), width), high = max(min(x_w - w, width), low);
    // The padding is there for all rows.
    for (int at = 0; at < low * PITCH; ++at) buffer[at] = NOTHING;
    for (int at = high * PITCH; at < width * PITCH; ++at) buffer[at] = NOTHING;
#if AVERAGE
    for (int o = 0; o < max(count, WIDTH); ++o)
      counts[o] = divisor != 0 || o >= count ? 1 : COUNTED(w, w + o * stride_w);
#endif
    for (CF_UINT index = first; index < last; ++index) {
      const int out_h = index % y_h, outer = index / y_h;
      const int out_d = outer % y_d, planes = outer / y_d, c = CHANNELS_LAST ? 0 : planes % channels;
      const CF_LONG n = CHANNELS_LAST ? planes : planes / channels;
      const int d = out_d * stride_d - pad_d, h = out_h * stride_h - pad_h;
      CF_GLOBAL const CF_TYPE(DTYPE) *const from = x + n * x_step_n + c * x_step_c;
      CF_GLOBAL CF_TYPE(DTYPE) *const to = y + n * y_step_n + c * y_step_c + out_d * y_step_d + out_h * y_step_h;
      const int first_d = first_tap(d, gap_d, 0), end_d = end_tap(d, gap_d, taps_d, x_d);
      const int first_h = first_tap(h, gap_h, 0), end_h = end_tap(h, gap_h, taps_h, x_h);
      const int from_low = low * PITCH, to_high = high * PITCH;
      for (int at = from_low; at < to_high; at += WIDTH) {
        // The last vector overlaps the one before where there is one. Others may hold what is behind the row.
        const int here = at + WIDTH > to_high && to_high - from_low >= WIDTH ? to_high - WIDTH : at;
        const int left = to_high - here;
        VALUE kept = EACH(NOTHING);
        for (int i = first_d; i < end_d; ++i)
          for (int j = first_h; j < end_h; ++j) {
            CF_GLOBAL const CF_TYPE(DTYPE) *const at_x =
                from + (d + i * gap_d) * x_step_d + (h + j * gap_h) * x_step_h + w * PITCH + here;
            const VALUE next = left >= WIDTH || at_x - x + WIDTH <= readable ? LOAD(DTYPE, at_x)
                                                                             : LOAD_SOME(DTYPE, at_x, 1, left, NOTHING);
            kept = KEPT(kept, next);
          }
        if (left >= WIDTH)
          vstore16(kept, 0, buffer + here);
        else
          for (int lane = 0; lane < left; ++lane) buffer[here + lane] = ((NUMBER *)&kept)[lane];
      }
#if AVERAGE
      const NUMBER others = divisor != 0 ? divisor : COUNTED(d, d) * COUNTED(h, h);
#endif
#if CHANNELS_LAST
      for (int o = 0; o < count; ++o)
        for (int at = 0; at < channels; at += WIDTH) {
          VALUE kept = EACH(NOTHING);
          CF_UNROLL
          for (int k = 0; k < taps_w; ++k) {
            const VALUE next = vload16(0, buffer + (o * stride_w + k * gap_w) * channels + at);
            kept = KEPT(kept, next);
          }
#if AVERAGE
          kept /= EACH(others * counts[o]);
#endif
          STORE_STEPPED(DTYPE, to + (begin + o) * (CF_LONG)channels + at, 1, 1, WIDTH, kept);
        }
#else
      for (int next_o = 0; next_o < count; next_o += WIDTH) {
        // The last vector overlaps here, too: the same numbers are written twice.
        const int o = next_o + WIDTH > count && count >= WIDTH ? count - WIDTH : next_o;
        VALUE kept = EACH(NOTHING);
        CF_UNROLL
        for (int k = 0; k < taps_w; ++k) {
          const VALUE next = apart(buffer + o * stride_w + k * gap_w, stride_w);
          kept = KEPT(kept, next);
        }
#if AVERAGE
        kept /= EACH(others) * vload16(0, counts + o);
#endif
        const int left = min(count - o, WIDTH);
        STORE_STEPPED(DTYPE, to + begin + o, 1, 1, left, kept);
      }
#endif
    }
  }
}

#endif  // WIDTH
