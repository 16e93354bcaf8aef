// First layers on GPUs, forward: few channels, all of them in the sum of every result.
//
// Lines of the image lie in local memory as in device memory, from a whole four on and with zeros around them, and the
// weights as BLOCK filters of a tap. A line is all that lies side by side: channels last, a row with its channels. An item
// has ROWS x COLUMNS results of 4 * QUADS filters, for which it reads lines in fours. A work-group computes `run` tiles
// one after the other: with AHEAD the next one's part of the image is on its way meanwhile.
#ifndef FILTER_ITEMS
#define FILTER_ITEMS 8  // items that share pixels: 1, 2, 3, 4, 6, 8, 12, 16, 24
#endif
#ifndef ACROSS
#define ACROSS 8        // items along the columns of a tile: 1, 2, 4, 7, 8, 14, 16
#endif
#ifndef DOWN
#define DOWN 2          // items along its rows: 1, 2, 4, 8
#endif
#define ITEMS (FILTER_ITEMS * ACROSS * DOWN)
#include "gpu_window.h"
#include "gpu_stage.h"

#ifndef CHANNELS_LAST
#define CHANNELS_LAST 0  // 1: neighbouring items are neighbouring filters; 0: neighbouring columns
#endif
#ifndef COLUMNS
#define COLUMNS 4       // neighbouring columns of an item: COLUMNS * STRIDE_W pixels of a line are whole fours
#endif
#ifndef QUADS
#define QUADS 1         // filters of an item, in fours: 1, 2
#endif
#ifndef LEAD
#define LEAD 0          // elements before the first tap of a tile's first column, from a whole four on: 0..3
#endif
#ifndef DEPTH
#define DEPTH 1         // lines of a filter in local memory at a time: 1 and up
#endif
#ifndef AHEAD
#define AHEAD 0         // 1: the next tile's part of the image is read while this one is computed
#endif
#ifndef STORES_FOUR
#define STORES_FOUR 0   // 1: results are FLOAT32; with CHANNELS_LAST filters are whole fours, else COLUMNS
#endif

#define PLANES (CHANNELS_LAST ? 1 : CHANNELS)
#define PIXEL (CHANNELS_LAST ? CHANNELS : 1)
#define LINES (PLANES * FILTER_H)
#define LINE_TAPS (FILTER_W * PIXEL)
#define STEP (COLUMNS * STRIDE_W * PIXEL)
#define LINE_FOURS ((LEAD + ((COLUMNS - 1) * STRIDE_W + FILTER_W) * PIXEL + 3) / 4)
#define ROW_FLOATS ((ACROSS - 1) * STEP + 4 * LINE_FOURS)
#define TILE_ROWS SPAN(DOWN * ROWS, FILTER_H, STRIDE_H, 1)
#define FOURS (PLANES * TILE_ROWS * ROW_FLOATS / 4)
#define COPIES ((FOURS + ITEMS - 1) / ITEMS)
#define KEPT (4 * QUADS)
#define BLOCK (KEPT * FILTER_ITEMS)
#define TAP_FLOATS (BLOCK + 4)  // neighbouring taps of a filter lie in other banks

// An item's share of a tile's part of the image, from `row` and element `at` of a line of `width` on.
CF_INLINE void fetch(float part[COPIES][4], CF_GLOBAL const ELEMENT *x, const int row, const int at,
                     const int height, const int width, const int item) {
  FOR_UNROLLED(m, COPIES) {
    const int index = item + m * ITEMS, line = index / (ROW_FLOATS / 4);
    const int r = row + line % TILE_ROWS, e = at + index % (ROW_FLOATS / 4) * 4;
    const int is_inside = index < FOURS && r >= 0 && r < height, from = (line / TILE_ROWS * height + r) * width + e;
    FOR_UNROLLED(f, 4) part[m][f] = 0.0f;
    if (width % 4 == 0) {
      if (is_inside && e >= 0 && e < width) LOAD_FOUR(part[m], x + from);
    } else {
      FOR_UNROLLED(f, 4) {
        if (is_inside && e + f >= 0 && e + f < width) part[m][f] = LOAD(x, from + f);
      }
    }
  }
}

// Global size: ITEMS for each block of filters (inside) and `run` of the `tiles`, which are counted along columns, rows
// and images.
CF_KERNEL CF_WORK_GROUP_SIZE(ITEMS, 1, 1) void direct_gpu_first(
    CF_GLOBAL const ELEMENT *CF_RESTRICT x, CF_GLOBAL const ELEMENT *CF_RESTRICT w,
    CF_GLOBAL ELEMENT *CF_RESTRICT y, CF_EPILOGUE_PARAMETERS, const int filters, const int x_h,
    const int x_w, const int y_h, const int y_w, const int pad_h, const int pad_w, const int tiles, const int run) {
  const Epilogue epilogue = CF_EPILOGUE(y);
  CF_LOCAL float image[FOURS * 4] __attribute__((aligned(16)));
  CF_LOCAL float weights[DEPTH * LINE_TAPS * TAP_FLOATS] __attribute__((aligned(16)));
  const int item = (int)CF_LOCAL_ID(0), blocks = (filters + BLOCK - 1) / BLOCK;
  const int tiles_w = (y_w + ACROSS * COLUMNS - 1) / (ACROSS * COLUMNS), tiles_h = (y_h + DOWN * ROWS - 1) / (DOWN * ROWS);
  const int first_filter = (int)(CF_GROUP_ID(0) % blocks) * BLOCK, first_tile = (int)(CF_GROUP_ID(0) / blocks) * run;
  const int end = min(first_tile + run, tiles), x_line = x_w * PIXEL;
  const int pixel = CHANNELS_LAST ? item / FILTER_ITEMS : item % ACROSS + item / (ACROSS * FILTER_ITEMS) * ACROSS;
  const int quad = (CHANNELS_LAST ? item % FILTER_ITEMS : item / ACROSS % FILTER_ITEMS) * 4;
  const int strip = pixel / ACROSS, across = pixel % ACROSS;
  float part[COPIES][4];

#define FETCH(n, down, right)                                                                             \
  fetch(part, x + (CF_LONG)(n) * (CHANNELS * x_h * x_w), (down) * (DOWN * ROWS * STRIDE_H) - pad_h,       \
        (right) * (ACROSS * STEP) - pad_w * PIXEL - LEAD, x_h, x_line, item)

  int right = first_tile % tiles_w, down = first_tile / tiles_w % tiles_h, n = first_tile / tiles_w / tiles_h;
  if (AHEAD) FETCH(n, down, right);
  for (int tile = first_tile; tile < end; ++tile) {
    if (!AHEAD) FETCH(n, down, right);
    int next_right = right + 1, next_down = down, next_n = n;
    if (next_right == tiles_w) next_right = 0, ++next_down;
    if (next_down == tiles_h) next_down = 0, ++next_n;
    if (tile > first_tile) CF_BARRIER();
    FOR_UNROLLED(m, COPIES) {
      if (item + m * ITEMS < FOURS) CF_STORE4_LOCAL(image + (item + m * ITEMS) * 4, part[m]);
    }
    float sum[ROWS][COLUMNS][KEPT];
    FOR_UNROLLED(o, ROWS) {
      FOR_UNROLLED(p, COLUMNS) { FOR_UNROLLED(k, KEPT) sum[o][p][k] = 0.0f; }
    }
    for (int first_line = 0; first_line < LINES; first_line += DEPTH) {
      if (first_line > 0) CF_BARRIER();
      if (tile == first_tile || DEPTH < LINES) {
        for (int index = item; index < DEPTH * LINE_TAPS * BLOCK / 4; index += ITEMS) {
          const int tap = index % (DEPTH * LINE_TAPS), k = index / (DEPTH * LINE_TAPS) * 4;
          const int of = first_line * LINE_TAPS + tap;
          float four[4];
          FOR_UNROLLED(f, 4) {
            four[f] = 0.0f;
            if (first_filter + k + f < filters && of < LINES * LINE_TAPS)
              four[f] = LOAD(w, (first_filter + k + f) * (LINES * LINE_TAPS) + of);
          }
          CF_STORE4_LOCAL(weights + tap * TAP_FLOATS + k, four);
        }
      }
      CF_BARRIER();
      if (AHEAD && first_line == 0 && tile + 1 < end) FETCH(next_n, next_down, next_right);

      for (int line = first_line; line < min(first_line + DEPTH, LINES); ++line) {
        CF_LOCAL_PTR const float *from = image + across * STEP;
        from += (line / FILTER_H * TILE_ROWS + strip * (ROWS * STRIDE_H) + line % FILTER_H) * ROW_FLOATS;
        CF_LOCAL_PTR const float *of = weights + (line - first_line) * (LINE_TAPS * TAP_FLOATS) + quad;
        FOR_UNROLLED(q, LINE_FOURS) {
          float value[ROWS][4];
          FOR_UNROLLED(o, ROWS) CF_LOAD4_LOCAL(value[o], from + o * (STRIDE_H * ROW_FLOATS) + 4 * q);
          FOR_UNROLLED(f, 4) {
            FOR_UNROLLED(p, COLUMNS) {
              const int tap = 4 * q + f - LEAD - p * (STRIDE_W * PIXEL);
              if (tap < 0 || tap >= LINE_TAPS) continue;
              float weight[KEPT];
              FOR_UNROLLED(g, QUADS) CF_LOAD4_LOCAL(weight + 4 * g, of + tap * TAP_FLOATS + g * (4 * FILTER_ITEMS));
              FOR_UNROLLED(o, ROWS) {
                FOR_UNROLLED(k, KEPT) sum[o][p][k] = CF_FMA(value[o][f], weight[k], sum[o][p][k]);
              }
            }
          }
        }
      }
    }

    const int row = (down * DOWN + strip) * ROWS, column = (right * ACROSS + across) * COLUMNS;
    CF_GLOBAL ELEMENT *to = y + (CF_LONG)n * filters * y_h * y_w;
    right = next_right, down = next_down, n = next_n;
    FOR_UNROLLED(o, ROWS) {
      if (row + o >= y_h) continue;
      const int pixel_at = (row + o) * y_w + column;
      FOR_UNROLLED(g, QUADS) {
        const int k0 = first_filter + quad + g * (4 * FILTER_ITEMS);
#if STORES_FOUR && CHANNELS_LAST
        if (!CF_READS_RESULT(epilogue)) {
          FOR_UNROLLED(p, COLUMNS) {
            if (k0 < filters && column + p < y_w)
              cf_store_four_results(to + (pixel_at + p) * filters + k0, k0, 1, sum[o][p] + 4 * g, epilogue);
          }
          continue;
        }
#elif STORES_FOUR
        if (!CF_READS_RESULT(epilogue) && y_w % 4 == 0) {
          FOR_UNROLLED(k, 4) {
            FOR_UNROLLED(p, COLUMNS / 4) {
              float four[4];
              FOR_UNROLLED(f, 4) four[f] = sum[o][4 * p + f][4 * g + k];
              if (k0 + k < filters && column + 4 * p < y_w)
                cf_store_four_results(to + (k0 + k) * y_h * y_w + pixel_at + 4 * p, k0 + k, 0, four, epilogue);
            }
          }
          continue;
        }
#endif
        FOR_UNROLLED(p, COLUMNS) {
          FOR_UNROLLED(k, 4) {
            if (k0 + k >= filters || column + p >= y_w) continue;
            const int at = CHANNELS_LAST ? (pixel_at + p) * filters + k0 + k : (k0 + k) * y_h * y_w + pixel_at + p;
            store(to + at, sum[o][p][4 * g + k], k0 + k, epilogue);
          }
        }
      }
    }
  }
}
