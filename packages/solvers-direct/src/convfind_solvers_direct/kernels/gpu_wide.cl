// Few channels a group and stride 1, channels first, on GPUs: forward and backward-data, four columns an item.
//
// A set is the channels of one group of one image. A work-group copies some sets, or a band of rows of one, to local
// memory with zeros around every plane. An item computes ROWS x 4 results of RESULTS channels: it walks down the source
// in fours, without a question where the image ends.
#include "gpu_window.h"
#include "gpu_stage.h"

#ifndef RESULTS
#define RESULTS 1  // result channels of an item: a divisor of FILTERS
#endif
#ifndef LEAD
#define LEAD 3  // columns before the first result's first tap, which aligns the source: 0..3
#endif
#ifndef COPIES
#define COPIES 8  // fours that an item copies at a time: these are on their way together
#endif
#define FOURS ((LEAD + FILTER_W + 6) / 4)  // of a source row, for four results
#define BLOCKS (FILTERS / RESULTS)

// Global size: ITEMS for each band (inside) and run of `run` sets. Sizes s_ are the source's, r_ the result's, whole
// fours; `above` rows and 4 * `before` columns of zeros are before the source's first, a row has 4 * `pitch` columns.
CF_KERNEL CF_WORK_GROUP_SIZE(ITEMS, 1, 1) void direct_gpu_wide(
    CF_GLOBAL const float *CF_RESTRICT source, CF_GLOBAL const float *CF_RESTRICT weights,
    CF_GLOBAL float *CF_RESTRICT result, const float alpha, const float beta, const CF_LONG sets,
    const int groups, const int s_h, const int s_w, const int r_h, const int r_w, const int above, const int before,
    const int pitch, const int run, const int bands, const int strips, const int per_pitch, const int per_rows,
    const int per_fours, const int per_strips) {
  CF_LOCAL float staged[TILE_FLOATS] __attribute__((aligned(16)));
  const int item = (int)CF_LOCAL_ID(0), band = (int)(CF_GROUP_ID(0) % bands);
  const CF_LONG first_set = CF_GROUP_ID(0) / bands * run;
  const int first_group = (int)(first_set % groups), own = (int)min((CF_LONG)run, sets - first_set);
  const int rows = strips * ROWS + FILTER_H - 1, top = band * strips * ROWS;
  source += first_set * CHANNELS * s_h * s_w;
  result += first_set * FILTERS * r_h * r_w;

  for (int first = item; first < own * CHANNELS * rows * pitch; first += COPIES * ITEMS) {
    float part[COPIES][4];
    FOR_UNROLLED(m, COPIES) {
      const int index = first + m * ITEMS, line = QUOTIENT(index, per_pitch), plane = QUOTIENT(line, per_rows);
      const int row = top - above + line - plane * rows, column = 4 * (index - line * pitch - before);
      FOR_UNROLLED(e, 4) part[m][e] = 0.0f;
      if (plane < own * CHANNELS && (CF_UINT)row < (CF_UINT)s_h && (CF_UINT)column < (CF_UINT)s_w)
        CF_LOAD4(part[m], source + (plane * s_h + row) * s_w + column);
    }
    FOR_UNROLLED(m, COPIES) {
      if (first + m * ITEMS < TILE_FLOATS / 4) CF_STORE4_LOCAL(staged + 4 * (first + m * ITEMS), part[m]);
    }
  }
  CF_BARRIER();

  const int fours = r_w / 4;
  for (int index = item; index < own * BLOCKS * strips * fours; index += ITEMS) {
    const int line = QUOTIENT(index, per_fours), block = QUOTIENT(line, per_strips);
    const int strip = line - block * strips, column = 4 * (index - line * fours), row = top + strip * ROWS;
    const int set = block / BLOCKS, k0 = block % BLOCKS * RESULTS, group = (first_group + set) % groups;
    if (row >= r_h) continue;
    float sum[RESULTS][ROWS][4];
    FOR_UNROLLED(k, RESULTS) {
      FOR_UNROLLED(o, ROWS) { FOR_UNROLLED(p, 4) sum[k][o][p] = 0.0f; }
    }
    for (int c = 0; c < CHANNELS; ++c) {
      float weight[RESULTS][FILTER_H][FILTER_W];
      FOR_UNROLLED(k, RESULTS) {
        CF_GLOBAL const float *of = weights + WEIGHTS_OF(group, k0 + k, c) * TAPS;
        FOR_UNROLLED(i, FILTER_H) {
          FOR_UNROLLED(j, FILTER_W)
            weight[k][i][j] = of[GRADIENT ? TAPS - 1 - i * FILTER_W - j : i * FILTER_W + j];
        }
      }
      CF_LOCAL_PTR const float *from = staged + ((set * CHANNELS + c) * rows + strip * ROWS) * 4 * pitch + column;
      FOR_UNROLLED(r, ROWS + FILTER_H - 1) {
        float value[4 * FOURS];
        FOR_UNROLLED(q, FOURS) CF_LOAD4_LOCAL(value + 4 * q, from + 4 * q);
        from += 4 * pitch;
        FOR_UNROLLED(o, ROWS) {
          if (r - o < 0 || r - o >= FILTER_H) continue;
          FOR_UNROLLED(j, FILTER_W) {
            FOR_UNROLLED(k, RESULTS) {
              FOR_UNROLLED(p, 4) sum[k][o][p] = CF_FMA(value[LEAD + p + j], weight[k][r - o][j], sum[k][o][p]);
            }
          }
        }
      }
    }
    CF_GLOBAL float *to = result + ((set * FILTERS + k0) * r_h + row) * r_w + column;
    FOR_UNROLLED(k, RESULTS) {
      FOR_UNROLLED(o, ROWS) {
        if (row + o >= r_h) continue;
        CF_GLOBAL float *four = to + (k * r_h + o) * r_w;
        float scaled[4];
        FOR_UNROLLED(p, 4) {
          scaled[p] = alpha * sum[k][o][p];
          // A beta of zero never reads the result, which may hold NaN.
          if (beta != 0.0f) scaled[p] = CF_FMA(beta, four[p], scaled[p]);
        }
        CF_STORE4(four, scaled);
      }
    }
  }
}
