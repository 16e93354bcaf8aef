// First layers on GPUs, forward: few channels, all of them in the sum of every result.
//
// A work-group computes the results of BLOCK filters in a tile of STRIPS * ROWS rows and COLUMNS columns. An item
// has ROWS of them below each other, of 4 * QUADS filters. For each column of taps it walks down the image in local
// memory: a value is read once for all results that it goes into, a weight once for all rows.
#ifndef STRIPS
#define STRIPS 1        // runs of ROWS rows of a tile
#endif
#ifndef COLUMNS
#define COLUMNS 32      // of a tile: 8, 16, 32
#endif
#ifndef FILTER_ITEMS
#define FILTER_ITEMS 4  // items that share pixels: 1, 2, 3, 4, 6, 8, 12, 16
#endif
#define PIXEL_ITEMS (STRIPS * COLUMNS)
#define ITEMS (FILTER_ITEMS * PIXEL_ITEMS)
#include "gpu_window.h"

#ifndef CHANNELS_LAST
#define CHANNELS_LAST 0  // 1: neighbouring items are neighbouring filters; 0: neighbouring columns
#endif
#ifndef QUADS
#define QUADS 2         // filters of an item, in fours: 1, 2
#endif
#ifndef STORES_FOUR
#define STORES_FOUR 0   // 1 with CHANNELS_LAST where results are FLOAT32 and filters a multiple of 4
#endif
#ifndef DEPTH
#define DEPTH 1         // channels in local memory at a time: a divisor of CHANNELS
#endif
#ifndef ROW_FLOATS
#define ROW_FLOATS 40   // floats from one row in local memory to the next: STRIDE_W * PHASE_FLOATS and more
#endif
#ifndef PHASE_FLOATS
#define PHASE_FLOATS 34  // floats of every STRIDE_W-th column of a row
#endif

#define KEPT (4 * QUADS)
#define BLOCK (KEPT * FILTER_ITEMS)
#define TAP_FLOATS (BLOCK + 4)  // neighbouring taps of a filter lie in other banks
#define TILE_ROWS SPAN(STRIPS * ROWS, FILTER_H, STRIDE_H, 1)
#define TILE_COLUMNS SPAN(COLUMNS, FILTER_W, STRIDE_W, 1)
#define PLANE_FLOATS (TILE_ROWS * ROW_FLOATS)
#define COLUMN_AT(column) ((column) % STRIDE_W * PHASE_FLOATS + (column) / STRIDE_W)

// Teams of items copy: neighbours along lines of the image, and along the taps of a filter.
#define TEAM (ITEMS % 32 == 0 ? 32 : ITEMS % 16 == 0 ? 16 : 4)
#define TEAMS (ITEMS / TEAM)
#define LINES (CHANNELS_LAST ? TILE_ROWS : DEPTH * TILE_ROWS)
#define LINE (CHANNELS_LAST ? DEPTH * TILE_COLUMNS : TILE_COLUMNS)

// Global size: ITEMS for each block of filters (inside), tile of columns, tile of rows and image.
CF_KERNEL CF_WORK_GROUP_SIZE(ITEMS, 1, 1) void direct_gpu_first(
    CF_GLOBAL const ELEMENT *CF_RESTRICT x, CF_GLOBAL const ELEMENT *CF_RESTRICT w,
    CF_GLOBAL ELEMENT *CF_RESTRICT y, const float alpha, const float beta, const int filters, const int x_h,
    const int x_w, const int y_h, const int y_w, const int pad_h, const int pad_w) {
  CF_LOCAL float image[DEPTH * PLANE_FLOATS] __attribute__((aligned(16)));
  CF_LOCAL float weights[DEPTH * TAPS * TAP_FLOATS] __attribute__((aligned(16)));
  const int item = (int)CF_LOCAL_ID(0), lane = item % TEAM, team = item / TEAM, blocks = (filters + BLOCK - 1) / BLOCK;
  const int tiles_w = (y_w + COLUMNS - 1) / COLUMNS, tiles_h = (y_h + STRIPS * ROWS - 1) / (STRIPS * ROWS);
  int place = (int)CF_GROUP_ID(0);
  const int first_filter = place % blocks * BLOCK;
  place /= blocks;
  const int left = place % tiles_w * COLUMNS;
  place /= tiles_w;
  const int top = place % tiles_h * (STRIPS * ROWS), n = place / tiles_h;
  x += (CF_LONG)n * CHANNELS * x_h * x_w;
  y += (CF_LONG)n * filters * y_h * y_w;

  const int pixel = CHANNELS_LAST ? item / FILTER_ITEMS : item % PIXEL_ITEMS;
  const int quad = (CHANNELS_LAST ? item % FILTER_ITEMS : item / PIXEL_ITEMS) * 4;
  const int strip = pixel / COLUMNS, column = pixel % COLUMNS;
  float sum[ROWS][KEPT];
  FOR_UNROLLED(o, ROWS) { FOR_UNROLLED(k, KEPT) sum[o][k] = 0.0f; }

  for (int c0 = 0; c0 < CHANNELS; c0 += DEPTH) {
    if (c0 > 0) CF_BARRIER();
    for (int e = lane; e < LINE; e += TEAM) {
      const int c = CHANNELS_LAST ? e % DEPTH : 0, q = CHANNELS_LAST ? e / DEPTH : e;
      const int col = left * STRIDE_W - pad_w + q;
      CF_LOCAL_PTR float *to = image + c * PLANE_FLOATS + COLUMN_AT(q);
      for (int line = team; line < LINES; line += TEAMS) {
        const int plane = line / TILE_ROWS, r = line % TILE_ROWS, row = top * STRIDE_H - pad_h + r;
        float value = 0.0f;
        if (row >= 0 && row < x_h && col >= 0 && col < x_w) {
          const int last = (row * x_w + col) * CHANNELS + c0 + c, first = ((c0 + plane) * x_h + row) * x_w + col;
          value = LOAD(x, CHANNELS_LAST ? last : first);
        }
        to[plane * PLANE_FLOATS + r * ROW_FLOATS] = value;
      }
    }
    // Of a filter, a channel's taps are neighbours (channels last, a tap's channels); here its columns of taps are.
    for (int e = lane; e < DEPTH * TAPS; e += TEAM) {
      const int c = CHANNELS_LAST ? e % DEPTH : e / TAPS, tap = CHANNELS_LAST ? e / DEPTH : e % TAPS;
      const int of = CHANNELS_LAST ? tap * CHANNELS + c0 + c : (c0 + c) * TAPS + tap;
      CF_LOCAL_PTR float *to = weights + ((c * FILTER_W + tap % FILTER_W) * FILTER_H + tap / FILTER_W) * TAP_FLOATS;
      for (int k = team; k < BLOCK; k += TEAMS) {
        to[k] = first_filter + k < filters ? LOAD(w, (first_filter + k) * (CHANNELS * TAPS) + of) : 0.0f;
      }
    }
    CF_BARRIER();

    for (int c = 0; c < DEPTH; ++c) {
      for (int j = 0; j < FILTER_W; ++j) {
        CF_LOCAL_PTR const float *from = image + c * PLANE_FLOATS + strip * (ROWS * STRIDE_H * ROW_FLOATS);
        CF_LOCAL_PTR const float *of = weights + (c * FILTER_W + j) * (FILTER_H * TAP_FLOATS) + quad;
        from += column + COLUMN_AT(j);
        float value[ROW_SPAN];
        FOR_UNROLLED(r, ROW_SPAN) value[r] = from[r * ROW_FLOATS];
        FOR_UNROLLED(i, FILTER_H) {
          float weight[KEPT];
          FOR_UNROLLED(q, QUADS) CF_LOAD4_LOCAL(weight + 4 * q, of + i * TAP_FLOATS + q * (4 * FILTER_ITEMS));
          FOR_UNROLLED(o, ROWS) {
            FOR_UNROLLED(k, KEPT) sum[o][k] = CF_FMA(value[o * STRIDE_H + i], weight[k], sum[o][k]);
          }
        }
      }
    }
  }

  const int row = top + strip * ROWS;
  if (left + column >= y_w) return;
  FOR_UNROLLED(o, ROWS) {
    if (row + o >= y_h) continue;
    const int pixel_at = (row + o) * y_w + left + column;
    FOR_UNROLLED(q, QUADS) {
      const int k0 = first_filter + quad + q * (4 * FILTER_ITEMS);
#if STORES_FOUR
      if (beta == 0.0f) {
        float scaled[4];
        FOR_UNROLLED(k, 4) scaled[k] = alpha * sum[o][4 * q + k];
        if (k0 < filters) CF_STORE4(y + pixel_at * filters + k0, scaled);
        continue;
      }
#endif
      FOR_UNROLLED(k, 4) {
        if (k0 + k >= filters) continue;
        const int to = CHANNELS_LAST ? pixel_at * filters + k0 + k : (k0 + k) * y_h * y_w + pixel_at;
        store(y, to, sum[o][4 * q + k], alpha, beta);
      }
    }
  }
}
