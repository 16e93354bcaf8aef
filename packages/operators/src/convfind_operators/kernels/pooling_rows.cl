// operators-pooling: on CPUs, where neighbours in memory are neighbouring columns, for any stride and dilation.
//
// A work-item computes whole rows of y. The rows of x that a row of windows meets become one in private memory, with its
// padding, so that the second pass, along the row, needs no bounds.
#include "pooling.h"

#ifndef BUFFER
#define BUFFER 2048  // columns in private memory
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
  const int reach = (taps_w - 1) * gap_w + 1;
  const CF_UINT first = CF_GLOBAL_ID(0) * per_item;
  for (CF_UINT index = first; index < min(first + per_item, all); ++index) {
    const int out_h = index % y_h, outer = index / y_h;
    const int out_d = outer % y_d, planes = outer / y_d, c = planes % channels;
    const CF_LONG n = planes / channels;
    const int d = out_d * stride_d - pad_d, h = out_h * stride_h - pad_h;
    CF_GLOBAL const CF_TYPE(DTYPE) *const from = x + n * x_step_n + c * x_step_c;
    CF_GLOBAL CF_TYPE(DTYPE) *const to = y + n * y_step_n + c * y_step_c + out_d * y_step_d + out_h * y_step_h;
    const int first_d = first_tap(d, gap_d, 0), end_d = end_tap(d, gap_d, taps_d, x_d);
    const int first_h = first_tap(h, gap_h, 0), end_h = end_tap(h, gap_h, taps_h, x_h);
    for (int begin = 0; begin < y_w; begin += chunk) {
      const int count = min(chunk, y_w - begin), w = begin * stride_w - pad_w;
      const int width = max(count, WIDTH) * stride_w + reach;
      const int low = min(max(-w, 0), width), high = max(min(x_w - w, width), low);
      for (int at = low; at < high; at += WIDTH) {
        // The last vector overlaps the one before where there is one. Others may hold what is behind the row.
        const int here = at + WIDTH > high && high - low >= WIDTH ? high - WIDTH : at, left = high - here;
        VALUE kept = EACH(NOTHING);
        for (int i = first_d; i < end_d; ++i)
          for (int j = first_h; j < end_h; ++j) {
            CF_GLOBAL const CF_TYPE(DTYPE) *const at_x =
                from + (d + i * gap_d) * x_step_d + (h + j * gap_h) * x_step_h + w + here;
            const VALUE next = left >= WIDTH || at_x - x + WIDTH <= readable ? LOAD(DTYPE, at_x)
                                                                             : LOAD_SOME(DTYPE, at_x, 1, left, NOTHING);
            kept = KEPT(kept, next);
          }
        vstore16(kept, 0, buffer + here);
      }
      for (int at = 0; at < low; ++at) buffer[at] = NOTHING;
      for (int at = high; at < width; ++at) buffer[at] = NOTHING;
      for (int next_o = 0; next_o < count; next_o += WIDTH) {
        // The last vector overlaps here, too: the same numbers are written twice.
        const int o = next_o + WIDTH > count && count >= WIDTH ? count - WIDTH : next_o;
        VALUE kept = EACH(NOTHING);
        for (int k = 0; k < taps_w; ++k) {
          const VALUE next = apart(buffer + o * stride_w + k * gap_w, stride_w);
          kept = KEPT(kept, next);
        }
#if AVERAGE
        const int at = w + o * stride_w;
        if (divisor != 0) {
          kept /= EACH(divisor);
        } else {
          const NUMBER others = COUNTED(d, d) * COUNTED(h, h);
          if (at >= -uncounted_w && at + (WIDTH - 1) * stride_w + reach <= counted_w) {
            kept /= EACH(others * taps_w);
          } else {
            NUMBER counts[WIDTH];
            for (int lane = 0; lane < WIDTH; ++lane) counts[lane] = others * COUNTED(w, at + lane * stride_w);
            kept /= vload16(0, counts);
          }
        }
#endif
        const int left = min(count - o, WIDTH);
        STORE_STEPPED(DTYPE, to + begin + o, 1, 1, left, kept);
      }
    }
  }
}

#endif  // WIDTH
