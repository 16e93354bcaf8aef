// Convolution with few channels a group, channels first, on GPUs: forward and backward-data.
//
// A set is the channels of one group of one image. A work-group copies what it needs of a few sets, or
// of a band of rows (and, where rows are long, of columns) of one set, to local memory. An item computes
// ROWS results below each other of RESULTS channels: it walks down the source, and each row that it reads
// goes into all the results that the row meets. Neighbouring items are neighbouring columns.
#include "gpu_window.h"
#include "gpu_stage.h"

#ifndef RESULTS
#define RESULTS 1   // result channels of an item: 1..FILTERS
#endif
#ifndef SLOTS
#define SLOTS FILTER_W  // taps along a row that a result has: with GRADIENT every TAP_STEP-th of FILTER_W
#endif
#ifndef TAP_STEP
#define TAP_STEP 1      // GRADIENT: STRIDE_W / gcd(STRIDE_W, DILATION_W)
#endif
#ifndef SLOT_STEP
#define SLOT_STEP 1     // source columns from one of these taps to the next: DILATION_W; with GRADIENT
#endif                  // -DILATION_W / gcd(STRIDE_W, DILATION_W)
#define BLOCKS ((FILTERS + RESULTS - 1) / RESULTS)

// Global size: ITEMS for each column tile (axis 0 inside), band and run of `sets` sets. Sizes s_ are the
// source's, r_ the result's. `shift` results before the first row align bands with the stride.
CF_KERNEL CF_WORK_GROUP_SIZE(ITEMS, 1, 1) void direct_gpu_planes(
    CF_GLOBAL const ELEMENT *CF_RESTRICT source, CF_GLOBAL const ELEMENT *CF_RESTRICT weights,
    CF_GLOBAL ELEMENT *CF_RESTRICT result, CF_EPILOGUE_PARAMETERS, const CF_LONG all_sets,
    const int groups, const int s_h, const int s_w, const int r_h, const int r_w, const int pad_h,
    const int pad_w, const int shift, const int sets, const int bands, const int band, const int tiles,
    const int tile, const int tile_source, const int per_strips, const int per_columns) {
  const Epilogue epilogue = CF_EPILOGUE(result);
  CF_LOCAL float staged[TILE_FLOATS] __attribute__((aligned(16)));
  const int item = (int)CF_LOCAL_ID(0);
  CF_LONG place = CF_GROUP_ID(0);
  const int column_tile = (int)(place % tiles);
  place /= tiles;
  const int band_index = (int)(place % bands);
  const CF_LONG first_set = place / bands * sets;
  const int own_sets = (int)min((CF_LONG)sets, all_sets - first_set);

  const int top = band_index * band - shift, left = column_tile * tile;
  const int strips = band / ROWS;
  int row0 = SOURCE_OF(top, pad_h, FILTER_H, STRIDE_H, DILATION_H);
  const int row1 = min(row0 + SPAN(band, FILTER_H, STRIDE_H, DILATION_H), s_h);
  row0 = bands == 1 ? 0 : max(row0, 0);
  const int rows = bands == 1 ? s_h : max(row1 - row0, 0);
  int column0 = 0;
  if (tiles > 1) {
    const int from = GRADIENT ? left + pad_w - (FILTER_W - 1) * DILATION_W : left * STRIDE_W - pad_w;
    column0 = min(max(GRADIENT ? from / STRIDE_W : from, 0), s_w);
  }
  const int width = tiles > 1 ? min(tile_source, s_w - column0) : s_w;

  // Channels lie `pitch` floats apart in local memory, all behind one another where sets are whole.
  const int plane = s_h * s_w, whole = bands == 1 && tiles == 1;
  const int pitch = whole ? plane : tiles > 1 ? rows * width : (rows * width + 3) / 4 * 4 + 4;
  const CF_LONG size = all_sets * CHANNELS * plane;
  const CF_LONG start = first_set * CHANNELS * plane + (CF_LONG)row0 * s_w + column0;
  if (whole) {
    stage(staged, source, start, own_sets * CHANNELS * plane, size, item);
  } else {
    for (int c = 0; c < CHANNELS; ++c) {
      const CF_LONG from = start + (CF_LONG)c * plane;
      if (tiles > 1)
        stage_rows(staged + c * pitch, source + from, rows, width, s_w, item);
      else
        stage(staged + c * pitch, source, from, rows * width, size, item);
    }
  }
  CF_BARRIER();

  for (int index = item; index < own_sets * BLOCKS * strips * tile; index += ITEMS) {
    const int line = QUOTIENT(index, per_columns), above = QUOTIENT(line, per_strips);
    const int column = left + index - line * tile, row = top + (line - above * strips) * ROWS;
    const int set = above / BLOCKS, k0 = above % BLOCKS * RESULTS;
    if (column >= r_w) continue;
    const int group = (int)((first_set + set) % groups);

    // Tap `slot` of a row is filter column tap + slot * TAP_STEP at source column at + slot * SLOT_STEP.
    int tap = 0, at = column * STRIDE_W - pad_w;
    if (GRADIENT) {
      while (tap < TAP_STEP && (column + pad_w - tap * DILATION_W) % STRIDE_W != 0) ++tap;
      at = (column + pad_w - tap * DILATION_W) / STRIDE_W;
      if (tap == TAP_STEP) tap = FILTER_W;
    }
    int used[SLOTS];
    FOR_UNROLLED(slot, SLOTS) {
      const int from = at + slot * SLOT_STEP;
      used[slot] = from >= 0 && from < s_w && tap + slot * TAP_STEP < FILTER_W;
    }
    float sum[RESULTS][ROWS];
    FOR_UNROLLED(k, RESULTS) { FOR_UNROLLED(o, ROWS) sum[k][o] = 0.0f; }

    const int first = SOURCE_OF(row, pad_h, FILTER_H, STRIDE_H, DILATION_H);
    for (int c = 0; c < CHANNELS; ++c) {
      const int skip = tiles > 1 ? 0 : SKIP(start + (whole ? 0 : (CF_LONG)c * plane));
      CF_LOCAL_PTR const float *from = staged + skip + (whole ? (set * CHANNELS + c) * plane : c * pitch);
      from += (first - row0) * width + at - column0;
      CF_GLOBAL const ELEMENT *of[RESULTS];
      FOR_UNROLLED(k, RESULTS) of[k] = weights + WEIGHTS_OF(group, min(k0 + k, FILTERS - 1), c) * TAPS + tap;
#if UNROLLED
      float weight[RESULTS][FILTER_H][SLOTS];
      FOR_UNROLLED(k, RESULTS) {
        FOR_UNROLLED(i, FILTER_H) {
          FOR_UNROLLED(slot, SLOTS)
            weight[k][i][slot] = tap + slot * TAP_STEP < FILTER_W ? LOAD(of[k], i * FILTER_W + slot * TAP_STEP) : 0.0f;
        }
      }
      FOR_UNROLLED(r, ROW_SPAN) {
        float value[SLOTS];
        const int inside = first + r >= 0 && first + r < s_h;
        FOR_UNROLLED(slot, SLOTS)
          value[slot] = inside && used[slot] ? from[r * width + slot * SLOT_STEP] : 0.0f;
        FOR_UNROLLED(o, ROWS) {
          if (!ROWS_MEET(o, r)) continue;
          FOR_UNROLLED(k, RESULTS) {
            FOR_UNROLLED(slot, SLOTS) sum[k][o] = CF_FMA(value[slot], weight[k][ROW_TAP(o, r)][slot], sum[k][o]);
          }
        }
      }
#else
      for (int i = 0; i < FILTER_H; ++i) {
        for (int slot = 0; slot < SLOTS; ++slot) {
          const int place_w = at + slot * SLOT_STEP;
          if (place_w < 0 || place_w >= s_w || tap + slot * TAP_STEP >= FILTER_W) continue;
          float weight[RESULTS];
          FOR_UNROLLED(k, RESULTS) weight[k] = LOAD(of[k], i * FILTER_W + slot * TAP_STEP);
          FOR_UNROLLED(o, ROWS) {
            const int offset = o + REACH(FILTER_H, STRIDE_H, DILATION_H) * STRIDE_H - i * DILATION_H;
            const int r = GRADIENT ? offset / STRIDE_H : o * STRIDE_H + i * DILATION_H;
            if (first + r < 0 || first + r >= s_h || (GRADIENT && offset % STRIDE_H != 0)) continue;
            const float value = from[r * width + slot * SLOT_STEP];
            FOR_UNROLLED(k, RESULTS) sum[k][o] = CF_FMA(value, weight[k], sum[k][o]);
          }
        }
      }
#endif
    }

    const CF_LONG to = ((first_set + set) * FILTERS + k0) * r_h * r_w + (CF_LONG)row * r_w + column;
    FOR_UNROLLED(k, RESULTS) {
      if (k0 + k >= FILTERS) continue;
      FOR_UNROLLED(o, ROWS) {
        if (row + o >= 0 && row + o < r_h)
          store(result + (to + ((CF_LONG)k * r_h + o) * r_w), sum[k][o], group * FILTERS + k0 + k, epilogue);
      }
    }
  }
}
