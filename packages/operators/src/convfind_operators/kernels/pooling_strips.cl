// operators-pooling: on GPUs, where the window is known when the kernel is compiled.
//
// A work-item has STRIP windows below each other, of FOUR channels, or of FOUR columns where channels come first, and reads an
// element of x once for all of them.
#ifndef TAPS_H
#define TAPS_H 3  // of the window, with its stride and dilation
#define TAPS_W 3
#define STRIDE_H 1
#define STRIDE_W 1
#define GAP_H 1
#define GAP_W 1
#endif
#include "pooling.h"

#ifndef CHANNELS_LAST
#define CHANNELS_LAST 0  // neighbouring work-items have neighbouring: 0 columns, 1 channels
#endif
#ifndef STRIP
#define STRIP 4
#endif
#ifndef INDEX
#define INDEX CF_LONG  // counts strips, and what a launch has beyond them: CF_UINT where it can
#endif

#define STRIDES(t) \
  const CF_LONG t##_n, const CF_LONG t##_c, const CF_LONG t##_d, const CF_LONG t##_h, const CF_LONG t##_w
#define ROWS ((STRIP - 1) * STRIDE_H + (TAPS_H - 1) * GAP_H + 1)
// Whether the row is one of the window's.
#define IS_MET(row, window) IS_IN(row, window, STRIDE_H, GAP_H, TAPS_H)
#define IS_IN(at, window, stride, gap, taps)                                             \
  ((at) >= (window) * (stride) && ((at) - (window) * (stride)) % (gap) == 0 &&           \
   ((at) - (window) * (stride)) / (gap) < (taps))

// Sums become means: by one quotient for all of FOUR, except of whole numbers.
#define MEANS_OF(sums, count) CF_JOIN(MEANS_OF_, CF_ARITHMETIC)(sums, count)
#define MEANS_OF_FLOAT32(sums, count) \
  const NUMBER share = 1 / count;     \
  for (int e = 0; e < FOUR; ++e) sums[e] = sums[e] * share;
#define MEANS_OF_FLOAT64(sums, count) MEANS_OF_FLOAT32(sums, count)
#define MEANS_OF_INT32(sums, count) \
  for (int e = 0; e < FOUR; ++e) sums[e] = sums[e] / count;
#define MEANS_OF_INT64(sums, count) MEANS_OF_INT32(sums, count)
#define MEANS_OF_UINT64(sums, count) MEANS_OF_INT32(sums, count)

CF_INLINE int within(const int at, const int size) { return at < 0 ? 0 : at >= size ? size - 1 : at; }

#ifndef ALIGNED
#define ALIGNED 0  // 1: rows of x are FOUR columns at a time, each inside or beside; PAD_W: the window's padding
#endif
#if ALIGNED  // blocks of FOUR columns that the windows meet
#define FIRST_BLOCK (-((PAD_W + FOUR - 1) / FOUR))
#define LAST_BLOCK ((SPAN - 1 - PAD_W + FOUR) / FOUR - 1)
#endif

#if CHANNELS_LAST
#define SPAN TAPS_W  // places along a row that the windows meet, and the column of each
#define COLUMN(k) ((k) * GAP_W)
#else
#define SPAN ((FOUR - 1) * STRIDE_W + (TAPS_W - 1) * GAP_W + 1)
#define COLUMN(k) (k)
#endif
// Where neighbouring work-items have the same column, few of them are beside one that meets the padding.
#define SPLIT (CHANNELS_LAST && AVERAGE)
#define LAST_COLUMN COLUMN(SPAN - 1)

// Whether a window meets the column at k of those that all may meet.
CF_INLINE int is_column_met(const int k) {
  int is_met = 0;
  CF_UNROLL
  for (int e = 0; e < FOUR; ++e) is_met |= k < SPAN && IS_IN(k, e, STRIDE_W, GAP_W, TAPS_W);
  return is_met;
}

// Keeps what windows have of a plane. Without `inside`, which is known when this is compiled, some of it lies in the padding: it
// is read at the border, and then does not count, so that no load waits for a branch.
CF_INLINE void keep(NUMBER (*kept)[FOUR], CF_GLOBAL const CF_TYPE(DTYPE) *plane, const int h, const int w, const int x_h,
                    const int x_w, const CF_LONG x_step_h, const CF_LONG x_step_w, const int inside) {
  CF_LONG columns[SPAN];
  int has_column[SPAN];
  CF_UNROLL
  for (int k = 0; k < SPAN; ++k) {
    has_column[k] = inside || (w + COLUMN(k) >= 0 && w + COLUMN(k) < x_w);
    columns[k] = (inside ? w + COLUMN(k) : within(w + COLUMN(k), x_w)) * x_step_w;
  }
  CF_UNROLL
  for (int j = 0; j < ROWS; ++j) {
    int is_met = 0;
    CF_UNROLL
    for (int o = 0; o < STRIP; ++o) is_met |= IS_MET(j, o);
    if (is_met) {
      const int has_row = inside || (h + j >= 0 && h + j < x_h);
      CF_GLOBAL const CF_TYPE(DTYPE) *const row = plane + (inside ? h + j : within(h + j, x_h)) * x_step_h;
      NUMBER of_row[FOUR];
#if CHANNELS_LAST
      CF_UNROLL
      for (int k = 0; k < SPAN; ++k) {
        NUMBER next[FOUR];
        LOAD_FOUR(DTYPE, next, row + columns[k]);
        for (int e = 0; e < FOUR; ++e) {
          const NUMBER counted = has_row && has_column[k] ? next[e] : (NUMBER)(NOTHING);
          of_row[e] = k == 0 ? counted : KEPT(of_row[e], counted);
        }
      }
#else
      NUMBER line[SPAN];
#if ALIGNED
      CF_UNROLL
      for (int block = FIRST_BLOCK; block <= LAST_BLOCK; ++block) {
        const int column = w + PAD_W + block * FOUR, is_inside_row = has_row && column >= 0 && column < x_w;
        CF_GLOBAL const CF_TYPE(DTYPE) *const first = row + (is_inside_row ? column : 0);
        NUMBER next[FOUR];
        int met = 0;
        CF_UNROLL
        for (int e = 0; e < FOUR; ++e) met += is_column_met(PAD_W + block * FOUR + e);
        if (2 * met >= FOUR) LOAD_FOUR(DTYPE, next, first);
        CF_UNROLL
        for (int e = 0; e < FOUR; ++e)
          if (is_column_met(PAD_W + block * FOUR + e)) {
            if (2 * met < FOUR) next[e] = LOAD(DTYPE, first + e);
            line[PAD_W + block * FOUR + e] = is_inside_row ? next[e] : (NUMBER)(NOTHING);
          }
      }
#else
      CF_UNROLL
      for (int k = 0; k < SPAN; ++k)
        if (is_column_met(k)) {
          const NUMBER next = LOAD(DTYPE, row + columns[k]);
          line[k] = has_row && has_column[k] ? next : (NUMBER)(NOTHING);
        }
#endif
      CF_UNROLL
      for (int e = 0; e < FOUR; ++e) {
        of_row[e] = line[e * STRIDE_W];
        CF_UNROLL
        for (int k = 1; k < TAPS_W; ++k) of_row[e] = KEPT(of_row[e], line[e * STRIDE_W + k * GAP_W]);
      }
#endif
      CF_UNROLL
      for (int o = 0; o < STRIP; ++o)
        if (IS_MET(j, o))
          for (int e = 0; e < FOUR; ++e) kept[o][e] = KEPT(kept[o][e], of_row[e]);
    }
  }
}

// strips: of a column of y; all: of all columns and channels, of which each strip has FOUR.
CF_KERNEL void operators_pooling_strips(CF_GLOBAL const CF_TYPE(DTYPE) *x, CF_GLOBAL CF_TYPE(DTYPE) *y, STRIDES(x_step),
                                        STRIDES(y_step), const int channels, const int strips, const CF_LONG all,
                                        WINDOW) {
  for (INDEX index = CF_GLOBAL_ID(0); index < all; index += CF_GLOBAL_SIZE(0)) {
    KNOWN_WINDOW
    INDEX rest = index;
#if CHANNELS_LAST
    const INDEX fours = channels / FOUR;
    const int c = rest % fours * FOUR;
    rest /= fours;
    const int out_w = rest % y_w;
    rest /= y_w;
#else
    const INDEX fours = y_w / FOUR;
    const int out_w = rest % fours * FOUR;
    rest /= fours;
#endif
    const int first_h = rest % strips * STRIP;
    rest /= strips;
    const int out_d = rest % y_d;
    rest /= y_d;
#if !CHANNELS_LAST
    const int c = rest % channels;
    rest /= channels;
#endif
    const CF_LONG n = rest;
    const int d = out_d * stride_d - pad_d, h = first_h * STRIDE_H - pad_h, w = out_w * STRIDE_W - pad_w;
    const int first_d = first_tap(d, gap_d, 0), end_d = end_tap(d, gap_d, taps_d, x_d);
    CF_GLOBAL const CF_TYPE(DTYPE) *const from = x + n * x_step_n + c * x_step_c;
    NUMBER kept[STRIP][FOUR];
    CF_UNROLL
    for (int o = 0; o < STRIP; ++o)
      for (int e = 0; e < FOUR; ++e) kept[o][e] = NOTHING;
    const int is_inside = h >= 0 && h + ROWS <= x_h && w >= 0 && w + LAST_COLUMN < x_w;
    for (int i = first_d; i < end_d; ++i) {
      CF_GLOBAL const CF_TYPE(DTYPE) *const plane = from + (d + i * gap_d) * x_step_d;
#if SPLIT
      if (is_inside)
        keep(kept, plane, h, w, x_h, x_w, x_step_h, x_step_w, 1);
      else
#endif
        keep(kept, plane, h, w, x_h, x_w, x_step_h, x_step_w, 0);
    }
    CF_GLOBAL CF_TYPE(DTYPE) *const to =
        y + n * y_step_n + c * y_step_c + out_d * y_step_d + first_h * y_step_h + out_w * y_step_w;
    CF_UNROLL
    for (int o = 0; o < STRIP; ++o)
      if (first_h + o < y_h) {
#if AVERAGE
        const int counted = COUNTED(d, d) * COUNTED(h, h + o * STRIDE_H) * COUNTED(w, w);
        const NUMBER count = divisor != 0 ? divisor : counted;
        if (CHANNELS_LAST || FOUR == 1 || is_inside || divisor != 0) {
          MEANS_OF(kept[o], count)
        } else {
          const int planes = COUNTED(d, d) * COUNTED(h, h + o * STRIDE_H);
          for (int e = 0; e < FOUR; ++e) kept[o][e] = kept[o][e] / (NUMBER)(planes * COUNTED(w, w + e * STRIDE_W));
        }
#endif
        STORE_FOUR(DTYPE, to + o * y_step_h, kept[o]);
      }
  }
}
