// Weight gradient with few channels a group and stride 1 on GPUs, channels first: four columns of y an item.
//
// A work-group sums over a part of all images and positions, for one group of channels. An item has the sums of one
// channel of x with RESULTS channels of y in registers. It holds ROWS x 4 values of y of each and walks down x in fours,
// which neighbouring items share in the level-1 cache. At the end items of the same sums add up through local memory, in
// a fixed order.
#include "gpu_window.h"
#include "gpu_edge.h"

#ifndef RESULTS
#define RESULTS 1  // channels of y of an item: a divisor of FILTERS
#endif
#ifndef LEAD
#define LEAD 3     // columns before the first result's first tap, which aligns x: 0..3
#endif
#ifndef BEFORE
#define BEFORE 1   // fours of columns of zeros before x
#endif
#ifndef SPLIT
#define SPLIT 0    // 1: the sums are parts of the result, which direct_gpu_sum adds up
#endif
#define FOURS ((LEAD + FILTER_W + 6) / 4)   // of a row of x, for four columns of y
#define PAIRS (CHANNELS * (FILTERS / RESULTS))
#define SHARERS (ITEMS / PAIRS)             // items with the same sums
#define TAP_ROWS MOST(1, LEAST(FILTER_H, 28 / FILTER_W))  // whose sums are in local memory at a time
#define HELPERS (SHARERS >= 64 ? 8 : SHARERS >= 16 ? 4 : 1)  // items that add up the same sum
#define MOST(a, b) ((a) > (b) ? (a) : (b))
#define LEAST(a, b) ((a) < (b) ? (a) : (b))

// Global size: (ITEMS for each group, 1, parts). Steps are pieces of ROWS x 4 places of y, of all images; `per_part` for
// each part. Rows are whole fours; `pad_w` is compiled in.
CF_KERNEL CF_WORK_GROUP_SIZE(ITEMS, 1, 1) void direct_gpu_wide_weights(
    CF_GLOBAL const float *CF_RESTRICT x, CF_GLOBAL const float *CF_RESTRICT y, CF_GLOBAL float *CF_RESTRICT w,
    CF_EPILOGUE_PARAMETERS, const int images, const int groups, const int x_h, const int x_w,
    const int y_h, const int y_w, const int pad_h, const int pad_w, const int per_part) {
  const Epilogue epilogue = CF_EPILOGUE(w);
  CF_LOCAL float shared[TAP_ROWS * FILTER_W * (ITEMS + 1)];
  CF_LOCAL float halves[PAIRS * TAP_ROWS * FILTER_W * HELPERS];
  const int item = (int)CF_LOCAL_ID(0), group = (int)CF_GROUP_ID(0);
  const int pair = PAIRS == 1 ? 0 : item / SHARERS, sharer = item - pair * SHARERS;
  const int c = pair % CHANNELS, k0 = pair / CHANNELS * RESULTS, fours = y_w / 4, strips = (y_h + ROWS - 1) / ROWS;
  const int first = (int)CF_GROUP_ID(2) * per_part, end = min(first + per_part, images * strips * fours);

  float sum[RESULTS][FILTER_H][FILTER_W];
  FOR_UNROLLED(k, RESULTS) {
    FOR_UNROLLED(i, FILTER_H) { FOR_UNROLLED(j, FILTER_W) sum[k][i][j] = 0.0f; }
  }
  for (int step = pair < PAIRS ? first + sharer : end; step < end; step += SHARERS) {
    const int line = step / fours, column = 4 * (step - line * fours), image = line / strips;
    const int row = (line - image * strips) * ROWS, above = row - pad_h, rows = y_h - row;
    const CF_LONG set = (CF_LONG)image * groups + group;
    CF_GLOBAL const float *of = y + ((set * FILTERS + k0) * y_h + row) * y_w + column;
    float gradient[RESULTS][ROWS][4];
    FOR_UNROLLED(k, RESULTS) {
      FOR_UNROLLED(o, ROWS) {
        FOR_UNROLLED(p, 4) gradient[k][o][p] = 0.0f;
        if (o < rows) CF_LOAD4(gradient[k][o], of + (k * y_h + o) * y_w);
      }
    }
    CF_GLOBAL const float *from = x + ((set * CHANNELS + c) * x_h + above) * x_w + column - 4 * BEFORE;
    FOR_UNROLLED(r, ROWS + FILTER_H - 1) {
      const int is_inside = above + r >= 0 && above + r < x_h;
      float value[4 * FOURS];
      FOR_UNROLLED(q, FOURS) {
        FOR_UNROLLED(e, 4) value[4 * q + e] = 0.0f;
        const int at = column + 4 * (q - BEFORE);
        // Of a four at the edge one element may be all that is taken.
        if (is_inside && at >= 0 && at < x_w) {
          if (4 * q + 4 <= LEAD + 1) {
            value[4 * q + 3] = from[r * x_w + 4 * q + 3];
          } else if (4 * q + 1 >= LEAD + FILTER_W + 3) {
            value[4 * q] = from[r * x_w + 4 * q];
          } else {
            CF_LOAD4(value + 4 * q, from + r * x_w + 4 * q);
          }
        }
      }
      FOR_UNROLLED(o, ROWS) {
        if (r - o < 0 || r - o >= FILTER_H || IS_BEHIND(o, rows)) continue;
        FOR_UNROLLED(j, FILTER_W) {
          FOR_UNROLLED(k, RESULTS) {
            FOR_UNROLLED(p, 4)
              sum[k][r - o][j] = CF_FMA(value[LEAD + p + j], gradient[k][o][p], sum[k][r - o][j]);
          }
        }
      }
    }
  }

  w += (SPLIT ? (CF_LONG)CF_GROUP_ID(2) * groups + group : group) * (FILTERS * CHANNELS * TAPS);
  FOR_UNROLLED(k, RESULTS) {
    for (int i0 = 0; i0 < FILTER_H; i0 += TAP_ROWS) {
      CF_BARRIER();
      FOR_UNROLLED(i, FILTER_H) {
        if (i < i0 || i >= i0 + TAP_ROWS) continue;
        FOR_UNROLLED(j, FILTER_W) shared[((i - i0) * FILTER_W + j) * (ITEMS + 1) + item] = sum[k][i][j];
      }
      CF_BARRIER();
      const int taps = min(TAP_ROWS, FILTER_H - i0) * FILTER_W;
      for (int e = item; e < PAIRS * taps * HELPERS; e += ITEMS) {
        const int t = e % taps, of = e / taps % PAIRS, helper = e / taps / PAIRS;
        float total = 0.0f;
        for (int s = helper; s < SHARERS; s += HELPERS) total += shared[t * (ITEMS + 1) + of * SHARERS + s];
        halves[e] = total;
      }
      CF_BARRIER();
      for (int e = item; e < PAIRS * taps; e += ITEMS) {
        const int t = e % taps, of = e / taps;
        float total = 0.0f;
        FOR_UNROLLED(s, HELPERS) total += halves[s * PAIRS * taps + e];
        const int to = ((of / CHANNELS * RESULTS + k) * CHANNELS + of % CHANNELS) * TAPS + i0 * FILTER_W + t;
        if (SPLIT) {
          w[to] = total;
        } else {
          store(w + to, total, 0, epilogue);
        }
      }
    }
  }
}
