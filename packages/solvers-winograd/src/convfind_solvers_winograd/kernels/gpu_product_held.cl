// The products of gpu_product_wgmma.cl where the filters of a tile fit into local memory: OpenCL C with PTX for sm_90a.
//
// A work-group holds the filters of a point, and rows of the data go by. Each wave copies the rows that it multiplies:
// nobody waits for another wave before the filters change, so that some waves multiply while others store their sums.
#define PRODUCTS 2
#ifndef BLOCKS
#define BLOCKS 4  // of 32 channels, which the filters are filled up to: an even number
#endif
#ifndef STAGES
#define STAGES 6  // rows of 32 channels in local memory or on their way there: 3 or more
#endif
#include "convfind_nvidia_tile.h"
#include "gpu_split_half.h"

#define COLUMNS_AT(block) (memory_at + (block) * 2 * COLUMNS_BYTES)
#define ROWS_AT(step) (COLUMNS_AT(BLOCKS) + (step) % STAGES * ROWS_BYTES)
#define PIECES 8  // of 16 bytes, of a row
#define ROW_STEP (32 / PIECES)                // between the rows of which an item copies pieces
#define COLUMN_STEP (THREADS / (2 * PIECES))  // the same of columns, which have two rows each
#define PER_PART 2  // steps whose products are left to the matrix units to add up

// What is copied next: a tile and a place along the sum; where an item's first piece of it is, and how many rows there
// are from its row on.
typedef struct {
  int tile, block, rows;
  CF_GLOBAL const float *from;
} Cursor;

#define ENTER_TILE()                                                                              \
  do {                                                                                            \
    const int top = next.tile % row_tiles * TILE_M + own_row;                                     \
    next.rows = rows - top;                                                                       \
    next.from = data + next.tile / row_tiles / column_tiles * data_matrix + (top * depth + own_piece * 4); \
  } while (0)

// Copies one step ahead, if there is one.
#define FETCH(step)                                                                                  \
  do {                                                                                               \
    if (next.tile < end) {                                                                           \
      const int count = next.block * 32 + own_piece * 4 < depth ? next.rows : 0;                     \
      CF_UNROLL for (int q = 0; q < 16 / ROW_STEP; ++q)                                              \
        cf_copy_16(ROWS_AT(step) + CF_PIECE(own_row + q * ROW_STEP, own_piece), next.from + q * ROW_STEP * depth, \
                   q * ROW_STEP < count ? 16 : 0);                                                   \
      next.from += 32;                                                                               \
      if (++next.block == BLOCKS) {                                                                  \
        next.block = 0;                                                                              \
        ++next.tile;                                                                                 \
        ENTER_TILE();                                                                                \
      }                                                                                              \
    }                                                                                                \
    CF_COPIES_COMMIT();                                                                              \
  } while (0)

// Waits for a step's rows. Those of the step before it are in registers.
#define ENTER_STEP(step)          \
  do {                            \
    CF_COPIES_WAIT(STAGES - 2);   \
    CF_WAVE_BARRIER();            \
    FETCH((step) + STAGES - 1);   \
  } while (0)
#define SPLIT_HALF(to, step, second) split_half(to, ROWS_AT(step), second, item)
#define MULTIPLY_HALF(half, block, second, more) multiply_half(parts, half, COLUMNS_AT(block), second, more)

// One-dimensional grid of as many work-groups of THREADS items as run at a time. Tiles are numbered along the rows
// first; each work-group takes `share` neighbours, the first `longer` ones take one more. `depth` is the channels'
// number. Rows of the sums have sums_step elements.
CF_KERNEL CF_WORK_GROUP_SIZE(THREADS, 1, 1) void winograd_gpu_product(
    CF_GLOBAL const float *data, CF_GLOBAL const CF_UINT *filters, CF_GLOBAL float *sums_to, const CF_LONG data_matrix,
    const int rows, const int columns, const int depth, const int padded_columns, const int sums_step,
    const int share, const int longer) {
  CF_LOCAL unsigned char memory[BLOCKS * 2 * COLUMNS_BYTES + STAGES * ROWS_BYTES] __attribute__((aligned(1024)));
  const CF_UINT memory_at = CF_SHARED(memory);
  const int item = (int)CF_LOCAL_ID(0), number = (int)CF_GROUP_ID(0);
  const int row_tiles = (rows + TILE_M - 1) / TILE_M, column_tiles = (columns + TILE_N - 1) / TILE_N;
  const int own_row = item / 32 * 16 + item % 32 / PIECES, own_piece = item % PIECES;
  int tile = number * share + min(number, longer);
  const int end = tile + share + (number < longer);

  Cursor next;
  next.tile = tile;
  next.block = 0;
  ENTER_TILE();
  CF_UNROLL for (int step = 0; step < STAGES - 1; ++step) FETCH(step);

  // While a half is multiplied the next one is split.
  float held[SUMS], parts[SUMS];
  SplitHalf first, second;
  CF_UINT step = 0;
  ENTER_STEP(0);
  SPLIT_HALF(&first, 0, 0);
  while (tile < end) {
    const int matrix = tile / row_tiles / column_tiles, left = tile / row_tiles % column_tiles * TILE_N;
    const int changes = min(end, (tile / row_tiles + 1) * row_tiles);
    CF_BARRIER();
    CF_UNROLL for (int q = 0; q < TILE_N / COLUMN_STEP; ++q) {
      const int column = q * COLUMN_STEP + item / (2 * PIECES);
      CF_GLOBAL const CF_UINT *from = filters + ((CF_LONG)matrix * padded_columns + left + column) * (BLOCKS * 64);
      CF_UNROLL for (int block = 0; block < BLOCKS; ++block)
        cf_copy_16(COLUMNS_AT(block) + item / PIECES % 2 * COLUMNS_BYTES + CF_PIECE(column, item % PIECES),
                   from + block * 64 + item % (2 * PIECES) * 4, left + column < padded_columns ? 16 : 0);
    }
    CF_COPIES_COMMIT();
    CF_COPIES_WAIT(0);
    CF_FENCE_MATRICES();
    CF_BARRIER();
    for (; tile < changes; ++tile) {
      CF_UNROLL for (int i = 0; i < SUMS; ++i) held[i] = 0.0f;
      for (int block = 0; block < BLOCKS; block += PER_PART, step += PER_PART) {
        MULTIPLY_HALF(&first, block, 0, 0);
        SPLIT_HALF(&second, step, 1);
        MULTIPLY_HALF(&second, block, 1, 1);
        CF_WGMMA_WAIT(1);
        ENTER_STEP(step + 1);
        SPLIT_HALF(&first, step + 1, 0);
        MULTIPLY_HALF(&first, block + 1, 0, 1);
        CF_WGMMA_WAIT(1);
        SPLIT_HALF(&second, step + 1, 1);
        MULTIPLY_HALF(&second, block + 1, 1, 1);
        CF_WGMMA_WAIT(1);
        ENTER_STEP(step + 2);
        SPLIT_HALF(&first, step + 2, 0);
        CF_WGMMA_WAIT(0);
        CF_UNROLL for (int i = 0; i < SUMS; ++i) held[i] += parts[i];
      }
      const int top = tile % row_tiles * TILE_M + OWN_ROW(item);
      CF_GLOBAL float *to = sums_to + ((CF_LONG)matrix * rows + top) * sums_step;
      CF_UNROLL for (int upper = 0; upper < 2; ++upper) {
        CF_UNROLL for (int j = 0; j < TILE_N / 8; ++j) {
          const int column = left + 8 * j + OWN_COLUMN(item);
          if (top + 8 * upper < rows && column < columns)
            cf_store_pair(to + 8 * upper * sums_step + column, held[4 * j + 2 * upper], held[4 * j + 2 * upper + 1]);
        }
      }
    }
  }
}
