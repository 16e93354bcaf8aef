// First layers on GPUs, the weight gradient: few channels, all taps of all of them in the registers of a work-group.
//
// A work-group sums over a part of all positions, of BLOCK filters. ROWS x COLUMNS positions of y and the part of x that
// they meet lie in local memory at a time, lines of x from a whole four on and with zeros around them: patches are never
// written. A line is all that lies side by side: channels last, a row with its channels. An item has the sums of KEPT
// filters and OWN lines of a filter's taps; it takes runs of four columns, so that a value of x is read once for all taps
// and columns that meet it. At the end items of the same sums add up through local memory, in a fixed order.
#ifndef KEPT
#define KEPT 8          // filters of an item: 4, 8
#endif
#ifndef FILTER_ITEMS
#define FILTER_ITEMS 4  // items along the filters: 1 and up
#endif
#ifndef LINE_ITEMS
#define LINE_ITEMS 3    // items along the lines of a filter: OWN * LINE_ITEMS lines are all
#endif
#ifndef OWN
#define OWN 1           // lines of an item: 1 and up
#endif
#ifndef SHARERS
#define SHARERS 8       // items with the same sums: 1 and up
#endif
#define UNIT (FILTER_ITEMS * LINE_ITEMS)
#define ITEMS (UNIT * SHARERS)
#ifndef ASYNC
#define ASYNC 0         // 1, NVIDIA's since sm_80, FLOAT32: the next tile is copied while this one is added
#endif
#include "gpu_window.h"
#include "gpu_edge.h"
#include "gpu_copy.h"

#ifndef CHANNELS_LAST
#define CHANNELS_LAST 0
#endif
#ifndef COLUMNS
#define COLUMNS 16      // columns of a tile: multiple of 4
#endif
#ifndef LEAD
#define LEAD 0          // elements before the first tap of a tile's first column, from a whole four on: 0..3
#endif
#ifndef X_WIDTH
#define X_WIDTH 1       // neighbouring elements that are copied at a time: 4 where lines of x are whole fours
#endif
#ifndef Y_WIDTH
#define Y_WIDTH 1       // the same of y, whose lines are channels last a pixel's
#endif
#ifndef SPLIT
#define SPLIT 0         // 1: the sums are parts of the result, which direct_gpu_sum adds up
#endif

#define PLANES (CHANNELS_LAST ? 1 : CHANNELS)
#define PIXEL (CHANNELS_LAST ? CHANNELS : 1)
#define LINES (PLANES * FILTER_H)
#define LINE_TAPS (FILTER_W * PIXEL)
#define BLOCK (KEPT * FILTER_ITEMS)
#define RUNS_ACROSS (COLUMNS / 4)
#define RUNS (ROWS * RUNS_ACROSS)
#define TURNS ((RUNS + SHARERS - 1) / SHARERS)

// Lines of x: what a run takes starts at a whole four.
#define STEP (4 * STRIDE_W * PIXEL)
#define LINE_FOURS ((LEAD + (3 * STRIDE_W + FILTER_W) * PIXEL + 3) / 4)
#define X_ROWS SPAN(ROWS, FILTER_H, STRIDE_H, 1)
#define X_LINE ((RUNS_ACROSS - 1) * STEP + 4 * LINE_FOURS)
#define X_FLOATS (PLANES * X_ROWS * X_LINE)
// y: channels last, the filters of a position, and runs so far apart that neighbouring sharers' lie in other banks;
// channels first, the positions of a filter, neighbouring filters in other banks.
#define Y_RUN (4 * BLOCK + (BLOCK % 32 ? 0 : 4 * FILTER_ITEMS % 32))
#define Y_PLANE ((RUNS | 1) * 4)
#define Y_FLOATS (CHANNELS_LAST ? RUNS * Y_RUN : BLOCK * Y_PLANE)
#define PART_FLOATS (X_FLOATS + Y_FLOATS)

// Sums pass through local memory in as few turns as it has room for.
#define PASSED (SHARERS / 2 * UNIT * OWN * LINE_TAPS)  // of each filter
#define FLOATS_OF(filters) ((filters) * PASSED <= PART_FLOATS * (1 + ASYNC))
#define AT_ONCE (FLOATS_OF(KEPT) ? KEPT : FLOATS_OF(4) ? 4 : FLOATS_OF(2) ? 2 : 1)
#define FLOATS (PART_FLOATS * (1 + ASYNC) > AT_ONCE * PASSED ? PART_FLOATS * (1 + ASYNC) : AT_ONCE * PASSED)

#define COPY(width, to, from, is_inside)                   \
  do {                                                     \
    if ((width) == 4) COPY_FOUR(to, from, is_inside);      \
    else COPY_ONE(to, from, is_inside);                    \
  } while (0)

// Items that copy a line of `width` pieces, one beside the other; of teams that are whole.
#define TEAM(width) ((width) > 16 ? 32 : (width) > 8 ? 16 : 8)
#define FOR_LINES(line, lines, width) \
  for (int line = item / TEAM(width); line < (lines) && item < ITEMS / TEAM(width) * TEAM(width); \
       line += ITEMS / TEAM(width))
#define FOR_PIECES(piece, width)                                          \
  CF_UNROLL for (int piece = item % TEAM(width), cf_end = 0; cf_end < (width); \
                 piece += TEAM(width), cf_end += TEAM(width))             \
    if ((width) % TEAM(width) == 0 || piece < (width))

// A tile's part of an image of x: from `row` and element `at` of a line of `width` on.
CF_INLINE void fetch_x(CF_LOCAL_PTR float *to, CF_GLOBAL const ELEMENT *x, const int row, const int at,
                       const int height, const int width, const int item) {
  FOR_LINES(line, PLANES * X_ROWS, X_LINE / X_WIDTH) {
    const int r = row + line % X_ROWS, is_row = r >= 0 && r < height;
    CF_GLOBAL const ELEMENT *from = x + ((line / X_ROWS * height + r) * width + at);
    FOR_PIECES(piece, X_LINE / X_WIDTH) {
      const int e = piece * X_WIDTH, is_inside = is_row && at + e >= 0 && at + e < width;
      COPY(X_WIDTH, to + line * X_LINE + e, from + e, is_inside);
    }
  }
}

// A tile's part of an image of y, of `filters`: from `row`, `column` and filter `first` on.
CF_INLINE void fetch_y(CF_LOCAL_PTR float *to, CF_GLOBAL const ELEMENT *y, const int row, const int column,
                       const int first, const int height, const int width, const int filters, const int item) {
#if CHANNELS_LAST
  FOR_LINES(run, RUNS, 4 * BLOCK / Y_WIDTH) {
    const int r = row + run / RUNS_ACROSS, c = column + run % RUNS_ACROSS * 4;
    CF_GLOBAL const ELEMENT *from = y + ((r * width + c) * filters + first);
    FOR_PIECES(piece, 4 * BLOCK / Y_WIDTH) {
      const int p = piece / (BLOCK / Y_WIDTH), k = piece % (BLOCK / Y_WIDTH) * Y_WIDTH;
      const int is_inside = r < height && c + p < width && first + k < filters;
      COPY(Y_WIDTH, to + (run * Y_RUN + p * BLOCK + k), from + (p * filters + k), is_inside);
    }
  }
#else
  FOR_LINES(line, BLOCK * ROWS, COLUMNS / Y_WIDTH) {
    const int k = line / ROWS, r = row + line % ROWS, is_row = r < height && first + k < filters;
    CF_GLOBAL const ELEMENT *from = y + (((first + k) * height + r) * width + column);
    FOR_PIECES(piece, COLUMNS / Y_WIDTH) {
      const int c = piece * Y_WIDTH, is_inside = is_row && column + c < width;
      COPY(Y_WIDTH, to + (k * Y_PLANE + line % ROWS * COLUMNS + c), from + c, is_inside);
    }
  }
#endif
}

#if SPLIT
#define RESULT float
#define WRITE(to, sum, epilogue) (*(to) = (sum))
#else
#define RESULT ELEMENT
#define WRITE(to, sum, epilogue) store(to, sum, 0, epilogue)
#endif

// Global size: ITEMS for each block of filters (inside) and `per_part` of the `tiles`, which are counted along columns,
// rows and images.
CF_KERNEL CF_WORK_GROUP_SIZE(ITEMS, 1, 1) void direct_gpu_first_weights(
    CF_GLOBAL const ELEMENT *CF_RESTRICT x, CF_GLOBAL const ELEMENT *CF_RESTRICT y, CF_GLOBAL RESULT *CF_RESTRICT w,
    CF_EPILOGUE_PARAMETERS, const int filters, const int x_h, const int x_w, const int y_h, const int y_w,
    const int pad_h, const int pad_w, const int tiles, const int per_part) {
  const Epilogue epilogue = CF_EPILOGUE(w);
  CF_LOCAL float memory[FLOATS] __attribute__((aligned(16)));
  const int item = (int)CF_LOCAL_ID(0), blocks = (filters + BLOCK - 1) / BLOCK;
  const int first_filter = (int)(CF_GROUP_ID(0) % blocks) * BLOCK, part = (int)(CF_GROUP_ID(0) / blocks);
  const int first = part * per_part, end = min(first + per_part, tiles);
  const int tiles_w = (y_w + COLUMNS - 1) / COLUMNS, tiles_h = (y_h + ROWS - 1) / ROWS;
  const int sharer = item / UNIT, own_line = item % UNIT / FILTER_ITEMS, own_filter = item % FILTER_ITEMS;
  int lines[OWN];  // where lines start in a tile; those behind the last one are added to no result
  FOR_UNROLLED(i, OWN) {
    const int line = min(own_line + i * LINE_ITEMS, LINES - 1);
    lines[i] = (line / FILTER_H * X_ROWS + line % FILTER_H) * X_LINE;
  }

  float sum[KEPT][OWN][LINE_TAPS];
  FOR_UNROLLED(k, KEPT) {
    FOR_UNROLLED(i, OWN) { FOR_UNROLLED(t, LINE_TAPS) sum[k][i][t] = 0.0f; }
  }

#define FETCH(to)                                                                                            \
  do {                                                                                                       \
    fetch_x(to, x + (CF_LONG)n * (CHANNELS * x_h * x_w), down * (ROWS * STRIDE_H) - pad_h,                   \
            right * (COLUMNS * STRIDE_W * PIXEL) - pad_w * PIXEL - LEAD, x_h, x_w * PIXEL, item);            \
    fetch_y((to) + X_FLOATS, y + (CF_LONG)n * filters * y_h * y_w, down * ROWS, right * COLUMNS, first_filter, \
            y_h, y_w, filters, item);                                                                        \
    if (++right == tiles_w) right = 0, ++down;                                                               \
    if (down == tiles_h) down = 0, ++n;                                                                      \
  } while (0)

  int right = first % tiles_w, down = first / tiles_w % tiles_h, n = first / tiles_w / tiles_h;
  int rows = y_h - down * ROWS, columns = y_w - right * COLUMNS;  // from the tile that is added on
#if ASYNC
  if (first < end) FETCH(memory);
  CF_COPIES_COMMIT();
#endif
  for (int tile = first; tile < end; ++tile) {
#if ASYNC
    CF_LOCAL_PTR const float *image = memory + (tile - first) % 2 * PART_FLOATS;
    CF_COPIES_WAIT(0);
    CF_BARRIER();  // everybody has read what lies in the other half, too
    if (tile + 1 < end) FETCH(memory + (tile - first + 1) % 2 * PART_FLOATS);
    CF_COPIES_COMMIT();
#else
    CF_LOCAL_PTR const float *image = memory;
    if (tile > first) CF_BARRIER();
    FETCH(memory);
    CF_BARRIER();
#endif
    _Pragma("unroll 1") for (int turn = 0; turn < TURNS; ++turn) {
      const int run = turn * SHARERS + sharer;
      if (RUNS % SHARERS && run >= RUNS) break;
      const int left = columns - run % RUNS_ACROSS * 4;
      if (run / RUNS_ACROSS >= rows || left <= 0) continue;
      CF_LOCAL_PTR const float *from = image + (run / RUNS_ACROSS * (STRIDE_H * X_LINE) + run % RUNS_ACROSS * STEP);
      CF_LOCAL_PTR const float *of = image + X_FLOATS;
      of += CHANNELS_LAST ? run * Y_RUN + own_filter * 4 : own_filter * Y_PLANE + run * 4;
      float value[OWN][4 * LINE_FOURS];
      FOR_UNROLLED(i, OWN) {
        FOR_UNROLLED(q, LINE_FOURS) CF_LOAD4_LOCAL(value[i] + 4 * q, from + lines[i] + 4 * q);
      }
#define ADD(k, p, factor)                                                                                \
  FOR_UNROLLED(i, OWN) {                                                                                 \
    FOR_UNROLLED(t, LINE_TAPS)                                                                           \
      sum[k][i][t] = CF_FMA(value[i][LEAD + (p) * (STRIDE_W * PIXEL) + t], factor, sum[k][i][t]);        \
  }
      if (CHANNELS_LAST) {
        FOR_UNROLLED(p, 4) {
          if (IS_BEHIND(p, left)) continue;
          FOR_UNROLLED(g, KEPT / 4) {
            float four[4];
            CF_LOAD4_LOCAL(four, of + p * BLOCK + g * (4 * FILTER_ITEMS));
            FOR_UNROLLED(f, 4) { ADD(4 * g + f, p, four[f]) }
          }
        }
      } else {
        FOR_UNROLLED(k, KEPT) {
          float four[4];
          CF_LOAD4_LOCAL(four, of + k * (FILTER_ITEMS * Y_PLANE));
          FOR_UNROLLED(p, 4) {
            if (IS_BEHIND(p, left)) continue;
            ADD(k, p, four[p])
          }
        }
      }
    }
    columns -= COLUMNS;
    if (columns <= 0) columns = y_w, rows -= ROWS;
    if (rows <= 0) rows = y_h;
  }

  _Pragma("unroll 1") for (int sharers = SHARERS; sharers > 1; sharers = (sharers + 1) / 2) {
    const int kept = (sharers + 1) / 2;
    FOR_UNROLLED(turn, KEPT / AT_ONCE) {
      CF_BARRIER();
      if (sharer >= kept && sharer < sharers) {
        FOR_UNROLLED(k, AT_ONCE) {
          FOR_UNROLLED(i, OWN) {
            FOR_UNROLLED(t, LINE_TAPS)
              memory[((k * OWN + i) * LINE_TAPS + t) * (SHARERS / 2 * UNIT) + item - kept * UNIT] =
                  sum[turn * AT_ONCE + k][i][t];
          }
        }
      }
      CF_BARRIER();
      if (sharer < sharers - kept) {
        FOR_UNROLLED(k, AT_ONCE) {
          FOR_UNROLLED(i, OWN) {
            FOR_UNROLLED(t, LINE_TAPS)
              sum[turn * AT_ONCE + k][i][t] += memory[((k * OWN + i) * LINE_TAPS + t) * (SHARERS / 2 * UNIT) + item];
          }
        }
      }
    }
  }
  if (sharer > 0) return;
  w += SPLIT ? (CF_LONG)part * filters * (LINES * LINE_TAPS) : 0;
  FOR_UNROLLED(k, KEPT) {
    const int filter = first_filter + (CHANNELS_LAST ? own_filter * 4 + k / 4 * (4 * FILTER_ITEMS) + k % 4
                                                     : own_filter + k * FILTER_ITEMS);
    FOR_UNROLLED(i, OWN) {
      const int line = own_line + i * LINE_ITEMS;
      if (filter < filters && line < LINES) {
        FOR_UNROLLED(t, LINE_TAPS) WRITE(w + (filter * LINES + line) * LINE_TAPS + t, sum[k][i][t], epilogue);
      }
    }
  }
}
