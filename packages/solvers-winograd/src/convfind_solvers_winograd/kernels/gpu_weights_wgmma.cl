// The weight gradient's products on Hopper's matrix units: OpenCL C with PTX for sm_90a.
//
// Rows are filters, columns are channels, and the sum runs over tiles. Both lie as their transforms leave them:
// [point][group][block][row][32 tiles], the 16-byte pieces of each 128 bytes where CF_PIECE has them: what a tile reads
// of a block is in one place and comes in one copy. How floats are split: convfind_nvidia_tile.h. The high parts of
// columns stay as they came, as the matrix units cut them off: what is lost is twice as much, within the rounding that
// a plain sum of 2048 products may have.
//
// The turns of all tiles (see gpu_weights_pairs.h), one behind the other, are shared out evenly: a work-group begins
// and ends within a tile. What it has summed up of one goes to a place of its own, the tile's number plus its own, and
// the transform of results adds up.
#define PRODUCTS 2
#ifndef STAGES
#define STAGES 4  // steps in local memory or on their way there: 3 or more
#endif
#include "convfind_nvidia_barrier.h"
#include "convfind_nvidia_tile.h"
#include "gpu_split_half.h"
#include "gpu_weights_pairs.h"

#define WAVES (THREADS / 32)
#define WHOLE_STAGE (ROWS_BYTES + 2 * COLUMNS_BYTES)
#define STAGE_AT(step) (memory_at + (step) % STAGES * WHOLE_STAGE)
#define COLUMNS_AT(step) (STAGE_AT(step) + ROWS_BYTES)
#define PHASE(step) ((step) / STAGES)
#define PER_PART 2  // steps whose products are left to the matrix units to add up
#define OWN_EIGHTS (TILE_N / (8 * WAVES))  // eights of columns that an item splits

// Of a stage: its step has come, columns are split, all is multiplied.
#define COME(step) (barriers_at + (step) % STAGES * 24)
#define SPLIT(step) (COME(step) + 8)
#define FREE(step) (COME(step) + 16)

// Where a step is: a tile, a block along the sum and where the tile's end, and what is copied for it.
typedef struct {
  int tile, block, end;
  CF_LONG rows_at, columns_at;
  CF_UINT rows_bytes, columns_bytes;
} Cursor;

// Where a tile's rows and columns are, from its `in_tile`-th block on.
CF_INLINED void enter_tile(Cursor *at, const int in_tile, const int groups, const int row_tiles,
                           const int column_tiles, const int padded_rows, const int padded_columns,
                           const Ends pairs) {
  const int point = at->tile / (groups * row_tiles * column_tiles);
  const int last_row = point / SIZE == SIZE - 1, last_column = point % SIZE == SIZE - 1;
  at->block = PER_PART * span_begin(pairs, last_column) + in_tile;
  at->end = PER_PART * span_end(pairs, last_row, last_column);
  const int left = at->tile % column_tiles * TILE_N, rest = at->tile / column_tiles;
  const int top = rest % row_tiles * TILE_M;
  const CF_LONG block = (CF_LONG)(rest / row_tiles) * (PER_PART * pairs.last) + at->block;
  at->rows_at = (block * padded_rows + top) * 32;
  at->columns_at = (block * padded_columns + left) * 32;
  at->rows_bytes = min(TILE_M, padded_rows - top) * 128;
  at->columns_bytes = min(TILE_N, padded_columns - left) * 128;
}

// Copies a step once its stage is free.
#define FETCH(step)                                                                                \
  do {                                                                                             \
    if ((step) >= STAGES) barrier_wait(FREE(step), PHASE(step) + 1);                               \
    barrier_expect(COME(step), next.rows_bytes + next.columns_bytes);                              \
    copy_run(STAGE_AT(step), filters + next.rows_at, next.rows_bytes, COME(step));                 \
    copy_run(COLUMNS_AT(step), channels + next.columns_at, next.columns_bytes, COME(step));        \
    next.rows_at += padded_rows * 32;                                                              \
    next.columns_at += padded_columns * 32;                                                        \
    if (++next.block == next.end) {                                                                \
      ++next.tile;                                                                                 \
      enter_tile(&next, 0, groups, row_tiles, column_tiles, padded_rows, padded_columns, pairs);   \
    }                                                                                              \
  } while (0)

// Makes pairs of a step's columns, as split_columns() does.
CF_INLINED void make_pairs(const CF_UINT columns, const int item) {
  const int eight = item % 4, row = item / 32 * 8 + (item % 32 / 8 ^ (item / 4 % 2 * 5));
  CF_UINT bits[OWN_EIGHTS][2][4];
  CF_UNROLL for (int i = 0; i < OWN_EIGHTS; ++i) {
    CF_UNROLL for (int j = 0; j < 2; ++j)
      CF_LOAD_SHARED_4(bits[i][j], columns + CF_PIECE(row + i * 8 * WAVES, 2 * eight + j));
  }
  CF_UNROLL for (int i = 0; i < OWN_EIGHTS; ++i) {
    CF_UINT pairs[2][4];
    CF_UNROLL for (int q = 0; q < 4; ++q) {
      CF_UINT high[2], low[2];
      CF_UNROLL for (int j = 0; j < 2; ++j) {
        high[j] = bits[i][j][q] & 0xffffe000u;
        low[j] = cf_tf32_low(bits[i][j][q], high[j]);
      }
      pairs[0][q] = PAIR(high[0], high[1]);
      pairs[1][q] = PAIR(low[0], low[1]);
    }
    CF_UNROLL for (int j = 0; j < 2; ++j)
      CF_STORE_SHARED_4(columns + COLUMNS_BYTES + CF_PIECE(row + i * 8 * WAVES, 4 * j + eight), pairs[j]);
  }
}

// All items split a step's columns, one after the other; the first one copies ahead.
#define MAKE_PAIRS(step)                   \
  do {                                     \
    barrier_wait(COME(step), PHASE(step)); \
    make_pairs(COLUMNS_AT(step), item);    \
    CF_FENCE_MATRICES();                   \
    barrier_arrive(SPLIT(step));           \
  } while (0)
#define FETCH_AHEAD(step)                                                     \
  do {                                                                        \
    if (item == 0 && (step) + STAGES - 1 < steps) FETCH((step) + STAGES - 1); \
  } while (0)
// Waves stay together around these, as the products ask for.
#define ENTER_STEP(step)                    \
  do {                                      \
    barrier_wait(SPLIT(step), PHASE(step)); \
    CF_WAVE_BARRIER();                      \
  } while (0)
#define LEAVE_STEP(step)                            \
  do {                                              \
    if (item % 32 == 0) barrier_arrive(FREE(step)); \
    CF_WAVE_BARRIER();                              \
  } while (0)
#define SPLIT_HALF(to, step, second) split_half(to, STAGE_AT(step), second, item)
#define MULTIPLY_HALF(half, step, second, more) multiply_half(parts, half, COLUMNS_AT(step), second, more)

// One-dimensional grid of as many work-groups of THREADS items as run at a time. Ends are those of regions of the sum,
// in pairs of blocks; of all turns each work-group takes `share`, 2 or more, the first `longer` ones take one more.
// Rows and columns are filled up to multiples of 64. With `add` the sums go on from those of the places.
CF_KERNEL CF_WORK_GROUP_SIZE(THREADS, 1, 1) void winograd_gpu_product(
    CF_GLOBAL const float *filters, CF_GLOBAL const float *channels, CF_GLOBAL float *sums_to, const int groups,
    const int row_tiles, const int column_tiles, const int padded_rows, const int padded_columns, const int share,
    const int longer, const int add, const int first_end, const int second_end, const int third_end,
    const int last_end) {
  CF_LOCAL unsigned char memory[STAGES * WHOLE_STAGE] __attribute__((aligned(1024)));
  CF_LOCAL ulong barriers[3 * STAGES];
  const CF_UINT memory_at = CF_SHARED(memory), barriers_at = CF_SHARED(barriers);
  const int item = (int)CF_LOCAL_ID(0), number = (int)CF_GROUP_ID(0);
  const CF_UINT first_turn = number * share + min(number, longer);
  const CF_UINT last_turn = first_turn + share + (number < longer);  // and not that one
  if (item == 0) {
    CF_UNROLL for (int stage = 0; stage < STAGES; ++stage) {
      barrier_start(COME(stage), 1);
      barrier_start(SPLIT(stage), THREADS);
      barrier_start(FREE(stage), WAVES);
    }
    CF_FENCE_MATRICES();
  }
  CF_BARRIER();

  const Ends pairs = {first_end, second_end, third_end, last_end};
  const int tiles = groups * row_tiles * column_tiles;
  int in_tile, tile = tile_with(pairs, tiles, first_turn, &in_tile), unused;
  // Before a turn there are as many ends as tiles.
  const int ends = tile_with(pairs, tiles, last_turn, &unused) - tile;
  const CF_UINT steps = PER_PART * (last_turn - first_turn - ends);
  if (in_tile == pairs_of(pairs, tile / tiles / SIZE, tile / tiles % SIZE)) {
    in_tile = 0;
    ++tile;
  }
  Cursor next;
  next.tile = tile;
  enter_tile(&next, PER_PART * in_tile, groups, row_tiles, column_tiles, padded_rows, padded_columns, pairs);
  if (item == 0) {
    for (CF_UINT step = 0; step < STAGES - 1 && step < steps; ++step) FETCH(step);
  }

  // While a half is multiplied the next one is split; of a step that does not come it is left alone.
  float held[SUMS], parts[SUMS];
  SplitHalf first, second;
  CF_UINT step = 0;
  MAKE_PAIRS(0);
  ENTER_STEP(0);
  SPLIT_HALF(&first, 0, 0);
  while (step < steps) {
    CF_GLOBAL float *to = sums_to + (CF_LONG)(tile + number) * (TILE_M * TILE_N);
    to += OWN_ROW(item) * TILE_N + OWN_COLUMN(item);
    CF_UNROLL for (int i = 0; i < SUMS; ++i)
      held[i] = add ? to[i / 2 % 2 * 8 * TILE_N + i / 4 * 8 + i % 2] : 0.0f;
    const int own_pairs = pairs_of(pairs, tile / tiles / SIZE, tile / tiles % SIZE);
    for (; in_tile < own_pairs && step < steps; ++in_tile, step += PER_PART) {
      MULTIPLY_HALF(&first, step, 0, 0);
      SPLIT_HALF(&second, step, 1);
      MULTIPLY_HALF(&second, step, 1, 1);
      MAKE_PAIRS(step + 1);
      CF_WGMMA_WAIT(1);
      ENTER_STEP(step + 1);
      SPLIT_HALF(&first, step + 1, 0);
      MULTIPLY_HALF(&first, step + 1, 0, 1);
      CF_WGMMA_WAIT(1);
      LEAVE_STEP(step);
      FETCH_AHEAD(step);
      SPLIT_HALF(&second, step + 1, 1);
      MULTIPLY_HALF(&second, step + 1, 1, 1);
      if (step + 2 < steps) MAKE_PAIRS(step + 2);
      CF_WGMMA_WAIT(1);
      if (step + 2 < steps) ENTER_STEP(step + 2);
      SPLIT_HALF(&first, step + 2, 0);
      CF_WGMMA_WAIT(0);
      LEAVE_STEP(step + 1);
      FETCH_AHEAD(step + 1);
      CF_UNROLL for (int i = 0; i < SUMS; ++i) held[i] += parts[i];
    }
    in_tile = 0;
    ++tile;
    CF_UNROLL for (int i = 0; i < SUMS; i += 2)
      cf_store_pair(to + i / 2 % 2 * 8 * TILE_N + i / 4 * 8, held[i], held[i + 1]);
  }
}
