// The products of transformed data and filters on Hopper's matrix units, channels last: OpenCL C with PTX for sm_90a.
//
// A work-group takes tile after tile, and copies run ahead into the next one. Rows are tiles of the image, as the data's
// transform leaves them: [point][group][tile][channel]; columns are filters, which their transform has split: see
// SPLIT_FILTERS in gpu_conv.h. How floats are split and what that costs: convfind_nvidia_tile.h.
#define PRODUCTS 2
#ifndef STAGES
#define STAGES 4  // tiles in local memory or on their way there: 3 or more
#endif
#include "convfind_nvidia_tile.h"
#include "gpu_split_half.h"

#define WHOLE_STAGE (ROWS_BYTES + 2 * COLUMNS_BYTES)
#define STAGE_AT(step) (memory_at + (step) % STAGES * WHOLE_STAGE)
#define PIECES 8  // of 16 bytes, of a row
#define ROW_STEP (THREADS / PIECES)           // between the rows of which an item copies pieces
#define COLUMN_STEP (THREADS / (2 * PIECES))  // the same of columns, which have two rows each
#define ROW_COPIES (TILE_M / ROW_STEP)
#define COLUMN_COPIES (TILE_N / COLUMN_STEP)
#define PER_PART 2  // steps whose products are left to the matrix units to add up

// What is copied next: a tile and a place along the sum; where an item's first pieces of it are, and how many rows and
// columns there are from these on.
typedef struct {
  CF_UINT tile;
  int matrix, block, row_from, rows, column_from, columns;
} Cursor;

// Which tile: neighbours share rows.
typedef struct {
  int top, left, matrix;
} TilePlace;

CF_INLINED TilePlace place_of(const CF_UINT number, const int row_tiles, const int column_tiles) {
  TilePlace place;
  const CF_UINT rest = number / (CF_UINT)column_tiles;
  place.left = (int)(number % (CF_UINT)column_tiles) * TILE_N;
  place.top = (int)(rest % (CF_UINT)row_tiles) * TILE_M;
  place.matrix = (int)(rest / (CF_UINT)row_tiles);
  return place;
}

#define ENTER_TILE()                                                                         \
  do {                                                                                       \
    const TilePlace entered = place_of(next.tile, row_tiles, column_tiles);                  \
    next.matrix = entered.matrix;                                                            \
    next.row_from = (entered.top + item / PIECES) * depth + item % PIECES * 4;               \
    next.rows = rows - entered.top - item / PIECES;                                          \
    next.column_from = (entered.left + item / (2 * PIECES)) * blocks * 64 + item % (2 * PIECES) * 4; \
    next.columns = padded_columns - entered.left - item / (2 * PIECES);                      \
  } while (0)

// Copies one step ahead, if there is one.
#define FETCH(step)                                                                                         \
  do {                                                                                                      \
    if (next.tile < tiles) {                                                                                \
      const CF_LONG matrix = next.matrix;                                                                   \
      CF_GLOBAL const float *from_row = data + (matrix * data_matrix + next.block * 32 + next.row_from);    \
      CF_GLOBAL const CF_UINT *from_column =                                                                \
          filters + ((matrix * padded_columns * blocks + next.block) * 64 + next.column_from);              \
      const CF_UINT to = STAGE_AT(step);                                                                    \
      const int row_count = next.block * 32 + item % PIECES * 4 < depth ? next.rows : 0;                    \
      CF_UNROLL for (int q = 0; q < ROW_COPIES; ++q)                                                        \
        cf_copy_16(to + CF_PIECE(item / PIECES + q * ROW_STEP, item % PIECES), from_row + q * ROW_STEP * depth, \
                   q * ROW_STEP < row_count ? 16 : 0);                                                      \
      CF_UNROLL for (int q = 0; q < COLUMN_COPIES; ++q)                                                     \
        cf_copy_16(to + ROWS_BYTES + item / PIECES % 2 * COLUMNS_BYTES +                                    \
                       CF_PIECE(item / (2 * PIECES) + q * COLUMN_STEP, item % PIECES),                      \
                   from_column + q * COLUMN_STEP * blocks * 64, q * COLUMN_STEP < next.columns ? 16 : 0);   \
      if (++next.block == blocks) {                                                                         \
        next.block = 0;                                                                                     \
        next.tile += apart;                                                                                 \
        ENTER_TILE();                                                                                       \
      }                                                                                                     \
    }                                                                                                       \
    CF_COPIES_COMMIT();                                                                                     \
  } while (0)

// Waits for a step's copies. The stage that is filled is that of two steps before, which is done.
#define ENTER_STEP(step)      \
  do {                        \
    CF_COPIES_WAIT(STAGES - 3); \
    CF_FENCE_MATRICES();      \
    CF_BARRIER();             \
    FETCH((step) + STAGES - 2); \
  } while (0)
#define SPLIT_HALF(to, step, second) split_half(to, STAGE_AT(step), second, item)
#define MULTIPLY_HALF(half, step, second, more) multiply_half(parts, half, STAGE_AT(step) + ROWS_BYTES, second, more)

// One-dimensional grid of as many work-groups of THREADS items as run at a time. `depth` is the channels' number,
// `blocks` the number of 32 that the filters are filled up to: an even one. Rows of the sums have sums_step elements.
CF_KERNEL CF_WORK_GROUP_SIZE(THREADS, 1, 1) void winograd_gpu_product(
    CF_GLOBAL const float *data, CF_GLOBAL const CF_UINT *filters, CF_GLOBAL float *sums_to, const CF_LONG data_matrix,
    const int rows, const int columns, const int depth, const int padded_columns, const int sums_step,
    const int blocks, const int matrices) {
  CF_LOCAL unsigned char memory[STAGES * WHOLE_STAGE] __attribute__((aligned(1024)));
  const CF_UINT memory_at = CF_SHARED(memory);
  const int item = (int)CF_LOCAL_ID(0);
  const int row_tiles = (rows + TILE_M - 1) / TILE_M, column_tiles = (columns + TILE_N - 1) / TILE_N;
  const CF_UINT tiles = (CF_UINT)matrices * row_tiles * column_tiles;
  const CF_UINT apart = (CF_UINT)CF_GLOBAL_SIZE(0) / THREADS;

  Cursor next;
  next.tile = (CF_UINT)CF_GROUP_ID(0);
  next.block = 0;
  ENTER_TILE();
  CF_UNROLL for (int step = 0; step < STAGES - 2; ++step) FETCH(step);

  // While a half is multiplied the next one is split.
  float held[SUMS], parts[SUMS];
  SplitHalf first, second;
  CF_UINT step = 0;
  ENTER_STEP(0);
  SPLIT_HALF(&first, 0, 0);
  for (CF_UINT tile = (CF_UINT)CF_GROUP_ID(0); tile < tiles; tile += apart) {
    CF_UNROLL for (int i = 0; i < SUMS; ++i) held[i] = 0.0f;
    for (int block = 0; block < blocks; block += PER_PART, step += PER_PART) {
      MULTIPLY_HALF(&first, step, 0, 0);
      SPLIT_HALF(&second, step, 1);
      MULTIPLY_HALF(&second, step, 1, 1);
      CF_WGMMA_WAIT(1);
      ENTER_STEP(step + 1);
      SPLIT_HALF(&first, step + 1, 0);
      MULTIPLY_HALF(&first, step + 1, 0, 1);
      CF_WGMMA_WAIT(1);
      SPLIT_HALF(&second, step + 1, 1);
      MULTIPLY_HALF(&second, step + 1, 1, 1);
      CF_WGMMA_WAIT(1);
      ENTER_STEP(step + 2);
      SPLIT_HALF(&first, step + 2, 0);
      CF_WGMMA_WAIT(0);
      CF_UNROLL for (int i = 0; i < SUMS; ++i) held[i] += parts[i];
    }
    const TilePlace place = place_of(tile, row_tiles, column_tiles);
    CF_UNROLL for (int upper = 0; upper < 2; ++upper) {
      const int row = place.top + OWN_ROW(item) + 8 * upper;
      CF_GLOBAL float *to = sums_to + ((CF_LONG)place.matrix * rows + row) * sums_step;
      CF_UNROLL for (int j = 0; j < TILE_N / 8; ++j) {
        const int column = place.left + 8 * j + OWN_COLUMN(item);
        if (row < rows && column < columns)
          cf_store_pair(to + column, held[4 * j + 2 * upper], held[4 * j + 2 * upper + 1]);
      }
    }
  }
}
