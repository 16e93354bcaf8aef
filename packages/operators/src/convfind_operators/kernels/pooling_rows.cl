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

#define MOST_AT_ONCE 8  // rows of y that share the buffer

#if WIDTH == 16

// Means by one quotient for all rows, except of whole numbers.
#define IN_WHOLE CF_JOIN(IN_WHOLE_, CF_ARITHMETIC)
#define IN_WHOLE_FLOAT32 0
#define IN_WHOLE_FLOAT64 0
#define IN_WHOLE_INT32 1
#define IN_WHOLE_INT64 1
#define IN_WHOLE_UINT64 1
#define MEAN_OF(sum, share) (IN_WHOLE ? (sum) / (share) : (sum) * (share))

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

// 16 windows of a row from one on, of which so many are there.
#if AVERAGE
#define FINISHED_ROW(kept, o) MEAN_OF(kept, vload16(0, shares + (o)))
#else
#define FINISHED_ROW(kept, o) (kept)
#endif
#define ROW_OF_WINDOWS(o, left)                                             \
  {                                                                         \
    VALUE kept = apart(line + (o) * stride_w, stride_w);                    \
    CF_UNROLL                                                               \
    for (int k = 1; k < taps_w; ++k) {                                      \
      const VALUE next = apart(line + (o) * stride_w + k * gap_w, stride_w); \
      kept = KEPT(kept, next);                                              \
    }                                                                       \
    const VALUE value = FINISHED_ROW(kept, o);                              \
    STORE_STEPPED(DTYPE, to + (o), 1, 1, left, value);                      \
  }

// chunk: windows that one filling of the buffer is for; at_once: rows of y that share it, so that no vector is read right after
// halves of it were written; readable: elements of x in memory, gaps included.
CF_KERNEL ONE_ITEM void operators_pooling_rows(CF_GLOBAL const CF_TYPE(DTYPE) *x, CF_GLOBAL CF_TYPE(DTYPE) *y,
                                               STRIDES(x_step), STRIDES(y_step), const int channels, const CF_UINT all,
                                               const CF_UINT per_item, const int chunk, const int at_once,
                                               const CF_LONG readable, WINDOW) {
  NUMBER buffer[BUFFER];
  CF_GLOBAL CF_TYPE(DTYPE) *rows_of_y[MOST_AT_ONCE];
#if AVERAGE
  NUMBER others[MOST_AT_ONCE];  // elements along other axes that count for a row's means
  NUMBER counts[BUFFER], shares[BUFFER];
#endif
  const CF_UINT first = CF_GLOBAL_ID(0) * per_item, last = min(first + per_item, all);
  for (int begin = 0; begin < y_w; begin += chunk) {
    KNOWN_WINDOW
    const int reach = (taps_w - 1) * gap_w + 1;
    const int count = min(chunk, y_w - begin), w = begin * stride_w - pad_w;
    const int width = (CHANNELS_LAST ? count : max(count, WIDTH)) * stride_w + reach;
    const int pitch = BUFFER / at_once / WIDTH * WIDTH;
    const int low = min(max(-w, 0), width), high = max(min(x_w - w, width), low);
    // The padding is there for all rows.
    for (int r = 0; r < at_once; ++r) {
      for (int at = 0; at < low * PITCH; ++at) buffer[r * pitch + at] = NOTHING;
      for (int at = high * PITCH; at < width * PITCH; ++at) buffer[r * pitch + at] = NOTHING;
    }
#if AVERAGE
    NUMBER others_of_shares = 0;
    for (int o = 0; o < max(count, WIDTH); ++o)
      counts[o] = divisor != 0 || o >= count ? 1 : COUNTED(w, w + o * stride_w);
#endif
    // Steps to the next row instead of divisions.
    int out_h = first % y_h, out_d = first / y_h % y_d, c = CHANNELS_LAST ? 0 : first / y_h / y_d % channels;
    CF_LONG n = CHANNELS_LAST ? first / y_h / y_d : first / y_h / y_d / channels;
    for (CF_UINT index = first; index < last; index += at_once) {
      const int rows = min((CF_UINT)at_once, last - index);
      for (int r = 0; r < rows; ++r) {
        NUMBER *const line = buffer + r * pitch;
        const int d = out_d * stride_d - pad_d, h = out_h * stride_h - pad_h;
        const int first_d = first_tap(d, gap_d, 0), end_d = end_tap(d, gap_d, taps_d, x_d);
        const int first_h = first_tap(h, gap_h, 0), end_h = end_tap(h, gap_h, taps_h, x_h);
        const int from_low = low * PITCH, to_high = high * PITCH;
        CF_GLOBAL const CF_TYPE(DTYPE) *const from = x + n * x_step_n + c * x_step_c + d * x_step_d + h * x_step_h + w * PITCH;
        rows_of_y[r] = y + n * y_step_n + c * y_step_c + out_d * y_step_d + out_h * y_step_h;
#if AVERAGE
        others[r] = divisor != 0 ? divisor : COUNTED(d, d) * COUNTED(h, h);
#endif
        int at = from_low;
        if (taps_d == 1 && end_d == 1 && first_h == 0 && end_h == taps_h) {
          for (; at + WIDTH <= to_high; at += WIDTH) {
            VALUE kept = LOAD(DTYPE, from + at);
            CF_UNROLL
            for (int j = 1; j < taps_h; ++j) {
              const VALUE next = LOAD(DTYPE, from + j * gap_h * x_step_h + at);
              kept = KEPT(kept, next);
            }
            vstore16(kept, 0, line + at);
          }
        }
        for (; at < to_high; at += WIDTH) {
          // The last vector overlaps the one before where there is one. Others may hold what is behind the row.
          const int here = at + WIDTH > to_high && to_high - from_low >= WIDTH ? to_high - WIDTH : at;
          const int left = to_high - here;
          VALUE kept = EACH(NOTHING);
          for (int i = first_d; i < end_d; ++i)
            for (int j = first_h; j < end_h; ++j) {
              CF_GLOBAL const CF_TYPE(DTYPE) *const at_x = from + i * gap_d * x_step_d + j * gap_h * x_step_h + here;
              const VALUE next = left >= WIDTH || at_x - x + WIDTH <= readable
                                     ? LOAD(DTYPE, at_x)
                                     : LOAD_SOME(DTYPE, at_x, 1, left, NOTHING);
              kept = KEPT(kept, next);
            }
          if (left >= WIDTH)
            vstore16(kept, 0, line + here);
          else
            for (int lane = 0; lane < left; ++lane) line[here + lane] = ((NUMBER *)&kept)[lane];
        }
        if (++out_h == y_h) {
          out_h = 0;
          if (++out_d == y_d) {
            out_d = 0;
            if (CHANNELS_LAST || ++c == channels) {
              c = 0;
              ++n;
            }
          }
        }
      }
      for (int r = 0; r < rows; ++r) {
        const NUMBER *const line = buffer + r * pitch;
        CF_GLOBAL CF_TYPE(DTYPE) *const to = rows_of_y[r] + begin * (CF_LONG)PITCH;
#if AVERAGE
        if (others[r] != others_of_shares) {
          others_of_shares = others[r];
          for (int o = 0; o < max(count, WIDTH); ++o) shares[o] = IN_WHOLE ? others[r] * counts[o] : 1 / (others[r] * counts[o]);
        }
#endif
#if CHANNELS_LAST
        for (int o = 0; o < count; ++o)
          for (int at = 0; at < channels; at += WIDTH) {
            VALUE kept = vload16(0, line + o * stride_w * channels + at);
            CF_UNROLL
            for (int k = 1; k < taps_w; ++k) {
              const VALUE next = vload16(0, line + (o * stride_w + k * gap_w) * channels + at);
              kept = KEPT(kept, next);
            }
#if AVERAGE
            kept = MEAN_OF(kept, EACH(shares[o]));
#endif
            STORE_STEPPED(DTYPE, to + o * (CF_LONG)channels + at, 1, 1, WIDTH, kept);
          }
#else
        int o = 0;
        for (; o + WIDTH <= count; o += WIDTH) ROW_OF_WINDOWS(o, WIDTH)
        // The last vector overlaps here, too: the same numbers are written twice.
        if (o < count) {
          const int last_o = count >= WIDTH ? count - WIDTH : 0, left = min(count, WIDTH);
          ROW_OF_WINDOWS(last_o, left)
        }
#endif
      }
    }
  }
}

#endif  // WIDTH
