// Implicit GEMM on Hopper's matrix units, forward and the data gradient, from tiles that the copy engine fetches:
// result = alpha * convolution + beta * result. Channels last, PRODUCTS 1; CUDA C++ alone.
//
// The product of the source's windows and of the filter: rows are positions of the result, over all images, columns its
// channels. The sum runs over blocks of channels and, inside a block, over the taps. One item of a wave of its own
// fetches, ahead of the others, which multiply: the engine finds the windows, fills zeros in, spreads rows over the
// banks and rounds floats to TF32. With a LINE of taps a row of the result has further positions behind its own, which
// are not stored, so that the taps read the same rows, each some further on. With PARTIAL work-groups share a sum: each
// adds up a run of its steps.
#define WIDE 1
#include "convfind_nvidia_tile.h"
#include "nvidia_result.h"
#include "convfind_nvidia_tma.h"

#ifndef LINE
#define LINE 1  // taps along w that read the same rows: 1, or all of the window
#endif

#ifndef OVERLAP
#define OVERLAP 0  // 1: a work-group computes one tile after the other, and fetches the next while it stores one
#endif

#ifndef TURNS
#define TURNS 1  // 2, with OVERLAP: two groups of THREADS items compute tiles in turn; one multiplies while the other stores
#endif

// Items behind the others, the first of which fetches. Four waves may give registers to the others.
#define FETCHING (TURNS > 1 ? 128 : 32)
#if TURNS > 1
#define FEW 40
#define MANY ((CF_MOST_REGISTERS * (TURNS * THREADS + FETCHING) - FETCHING * FEW) / (TURNS * THREADS) / 8 * 8)
#endif
#define EXTRA_ROWS (LINE > 1 ? 8 : 0)  // for the taps behind a tile's last position
#define FETCHED_BYTES ((TILE_M + EXTRA_ROWS) * 128)
#define STEP_BYTES (FETCHED_BYTES + LINE * COLUMNS_BYTES)
#define STAGES_BYTES (STAGES * STEP_BYTES)
#define TILE_BYTES (TILE_M * RESULT_ROW)
// Results lie behind the stages, or in their place.
#define RESULTS_AT (OVERLAP ? STAGES_BYTES : 0)
#define RESULTS_BYTES (TURNS * TILE_BYTES)
#define MEMORY_BYTES (RESULTS_AT + RESULTS_BYTES > STAGES_BYTES ? RESULTS_AT + RESULTS_BYTES : STAGES_BYTES)

// A tile of the result, by its number: channels change first.
typedef struct {
  int first, first_channel, group, part_of_sum, from, steps;
} Tile;
CF_INLINED Tile tile_of(const int number, const int channel_tiles, const int position_tiles, const int groups,
                        const int steps, const int parts_of_sum) {
  const int at = number / channel_tiles, product = at / position_tiles;
  Tile tile;
  tile.first_channel = (number - at * channel_tiles) * TILE_N;
  tile.first = (at - product * position_tiles) * TILE_M;
  tile.part_of_sum = PARTIAL ? product / groups : 0;
  tile.group = product - tile.part_of_sum * groups;
  tile.from = PARTIAL ? (int)((CF_LONG)steps * tile.part_of_sum / parts_of_sum) : 0;
  tile.steps = PARTIAL ? (int)((CF_LONG)steps * (tile.part_of_sum + 1) / parts_of_sum) - tile.from : steps;
  return tile;
}
#if OVERLAP
#define EACH_TILE(number) for (int number = (int)CF_GROUP_ID(0); number < tiles; number += groups_of_items)
#else
#define EACH_TILE(number) const int number = (int)CF_GROUP_ID(0);
#endif

// One-dimensional grid: channel tiles * position_tiles * groups work-groups, with PARTIAL for each of `parts_of_sum`; a
// part of the result then has `part_size` elements. With OVERLAP so many are `tiles`, and there may be fewer work-groups,
// `groups_of_items`. A tap is `first_off` and so many times `tap_step` behind where a window begins, which for the first
// result is `origin`.
CF_KERNEL CF_WORK_GROUP_SIZE(TURNS * THREADS + FETCHING, 1, 1) void igemm_nvidia_tma(
    TENSOR_MAP source, TENSOR_MAP filter, CF_GLOBAL RESULT_ELEMENT *result, CF_EPILOGUE_PARAMETERS,
    const int tiles, const int groups_of_items, const int channel_tiles, const int position_tiles, const int groups,
    const int positions, const int source_channels, const int result_channels, const int taps_h, const int taps_w,
    const int tap_step_h, const int tap_step_w, const int first_off_h, const int first_off_w, const int origin_h,
    const int origin_w, const int step_h, const int step_w, const int count_h, const int count_w, const int result_w
#if PARTIAL
    ,
    const int parts_of_sum, const CF_LONG part_size
#endif
) {
#if !PARTIAL
  const int parts_of_sum = 1;
#endif
  const Epilogue whole = CF_EPILOGUE(result);
  CF_LOCAL unsigned char memory[MEMORY_BYTES] __attribute__((aligned(1024)));
  CF_LOCAL CF_LONG all_result_at[TURNS * TILE_M];
  CF_LOCAL ulong full[STAGES], empty[STAGES], multiplied[TURNS];
  const CF_UINT stages = CF_SHARED(memory), full_at = CF_SHARED(full), empty_at = CF_SHARED(empty);
  const CF_UINT multiplied_at = CF_SHARED(multiplied);
#if KEEPS_BIAS
  CF_LOCAL float all_bias_at[TURNS * TILE_N] __attribute__((aligned(16)));
#define BIASES CF_SHARED(bias_at)
#else
#define BIASES 0
#endif

  const int number_of_item = (int)CF_LOCAL_ID(0);
  const int lines = taps_h * taps_w / LINE;  // of taps
  const int all_steps = (source_channels + PER_ROW - 1) / PER_ROW * lines;
  if (number_of_item == 0) {
    CF_UNROLL for (int i = 0; i < STAGES; ++i) {
      barrier_start(full_at + 8 * i, 1);
      barrier_start(empty_at + 8 * i, THREADS / 128);
    }
    CF_UNROLL for (int i = 0; i < TURNS; ++i) barrier_start(multiplied_at + 8 * i, THREADS / 128);
    barriers_started();
  }
  CF_BARRIER();
  // The stage of the moment, and how often it was used before.
  int stage = 0, round = 0;
#define NEXT_STAGE()         \
  do {                       \
    if (++stage == STAGES) { \
      stage = 0;             \
      ++round;               \
    }                        \
  } while (0)

  if (number_of_item >= TURNS * THREADS) {
#if TURNS > 1
    GIVE_REGISTERS(FEW);
#endif
    if (number_of_item == TURNS * THREADS) {
      EACH_TILE(number) {
        const Tile tile = tile_of(number, channel_tiles, position_tiles, groups, all_steps, parts_of_sum);
        const int row = tile.first / count_w, image = row / count_h;
        const int w = origin_w + (tile.first - row * count_w) * step_w;
        const int h = origin_h + (row - image * count_h) * step_h;
        const int block = tile.from / lines;
        int channel = block * PER_ROW, tap = (tile.from - block * lines) * LINE;
        int tap_h = tap / taps_w, tap_w = tap - tap_h * taps_w;
        const int source_group = tile.group * source_channels;
        const int filter_row = tile.group * result_channels + tile.first_channel;
        for (int step = 0; step < tile.steps; ++step) {
          const CF_UINT rows = stages + stage * STEP_BYTES, barrier = full_at + 8 * stage;
          const CF_UINT to = rows + FETCHED_BYTES;
          const int off_w = LINE > 1 ? 0 : first_off_w + tap_w * tap_step_w;
          if (round > 0) barrier_wait(empty_at + 8 * stage, round - 1);
          barrier_expect(barrier, STEP_BYTES);
          copy_windows(rows, MAP_AT(&source), barrier, source_group + channel, w, h, image, off_w,
                       first_off_h + tap_h * tap_step_h);
          CF_UNROLL for (int i = 0; i < LINE; ++i)
            copy_box(to + i * COLUMNS_BYTES, MAP_AT(&filter), barrier, channel, tap + i, filter_row);
          tap += LINE;
          if ((tap_w += LINE) == taps_w) {
            tap_w = 0;
            if (++tap_h == taps_h) {
              tap_h = tap = 0;
              channel += PER_ROW;
            }
          }
          NEXT_STAGE();
        }
      }
    }
    return;
  }

#if TURNS > 1
  TAKE_REGISTERS(MANY);
#endif
  const int turn = TURNS > 1 ? number_of_item / THREADS : 0, item = number_of_item - turn * THREADS;
  CF_LOCAL_PTR CF_LONG *const result_at = all_result_at + turn * TILE_M;
#if KEEPS_BIAS
  CF_LOCAL_PTR float *const bias_at = all_bias_at + turn * TILE_N;
#endif
  const CF_UINT own_rows = item / 128 * (64 * 128);
#if TURNS > 1
  int turns = 0;
#endif
  EACH_TILE(number) {
    const Tile tile = tile_of(number, channel_tiles, position_tiles, groups, all_steps, parts_of_sum);
#if TURNS > 1
    const int order = turns++;
    if (order % TURNS != turn) {  // its stages are others'
      stage += tile.steps;
      round += stage / STAGES;
      stage %= STAGES;
      continue;
    }
#endif
    const int columns = result_channels - tile.first_channel;
    const int channel = tile.group * result_channels + tile.first_channel;
    const Epilogue epilogue = CF_EPILOGUE_FROM(whole, channel);
    // A wave looks up its own rows, which it alone fetches and stores.
    if (item % 32 < 16) {
      const int own = item / 32 * 16 + item % 32;
      int at = tile.first + own;
      int is_there = at < positions;
#if LINE > 1
      const int row = at / count_w, place = at - row * count_w;
      is_there = is_there && place < result_w;
      at = row * result_w + place;
#endif
      result_at[own] = is_there ? (CF_LONG)at * (groups * result_channels) : -1;
    }
    CF_WAVE_BARRIER();
    CF_GLOBAL RESULT_ELEMENT *to = result + channel;
#if PARTIAL
    to += tile.part_of_sum * part_size;
#endif
    const CF_UINT results = stages + RESULTS_AT + turn * TILE_BYTES;
#if FETCHES_Z && OVERLAP
    if (WRITES_ROWS(epilogue)) fetch_z(results, Z_OF(to, epilogue), result_at, item, columns);
#endif
#if KEEPS_BIAS
    float own_biases[OWN_BIASES];
    read_biases(own_biases, item, columns, epilogue);
#endif
#if TURNS > 1
    // Whether a stage is full is known of two rounds in a row, not of those in which others read it.
    if (order > 0) barrier_wait(multiplied_at + 8 * ((order - 1) % TURNS), (order - 1) / TURNS);
#endif
    float sums[SUMS];
    CF_UNROLL for (int i = 0; i < SUMS; ++i) sums[i] = 0.0f;
    for (int step = 0; step < tile.steps; ++step) {
      const CF_UINT rows = stages + stage * STEP_BYTES;
      barrier_wait(full_at + 8 * stage, round);
      CF_WGMMA_FENCE();
      CF_UNROLL for (int i = 0; i < LINE; ++i) {
        const int shift = LINE > 1 ? (first_off_w + i * tap_step_w) * 128 : 0;
        const ulong a = CF_MATRIX(rows + own_rows + shift), b = CF_MATRIX(rows + FETCHED_BYTES + i * COLUMNS_BYTES);
        CF_UNROLL for (int k = 0; k < 4; ++k)
          CF_WGMMA(TILE_N, DTYPE, sums, a + 2 * k, b + 2 * k, k > 0 || i > 0 || step > 0);
      }
      CF_WGMMA_COMMIT();
      CF_WGMMA_WAIT(1);
      if (step > 0 && item % 128 == 0) barrier_arrive(empty_at + 8 * (stage == 0 ? STAGES - 1 : stage - 1));
      NEXT_STAGE();
    }
#if TURNS > 1
    if (item % 128 == 0) barrier_arrive(multiplied_at + 8 * turn);
#endif
    CF_WGMMA_WAIT(0);
#if OVERLAP
    if (tile.steps > 0 && item % 128 == 0) barrier_arrive(empty_at + 8 * (stage == 0 ? STAGES - 1 : stage - 1));
#endif
    MEET_AT(1 + turn, THREADS);  // what follows is written where others may have read until now
#if KEEPS_BIAS
    keep_biases(bias_at, own_biases, item);
    MEET_AT(1 + turn, THREADS);
#endif
    if (WRITES_ROWS(epilogue)) {
#if FETCHES_Z
#if !OVERLAP
      fetch_z(results, Z_OF(to, epilogue), result_at, item, columns);
#endif
      await_z();
#endif
      put_sums(results, sums, BIASES, item, epilogue);
      CF_WAVE_BARRIER();
      store_rows(to, results, result_at, item, columns);
    } else {
      CF_UNROLL for (int upper = 0; upper < 2; ++upper) {
        const CF_LONG row = result_at[OWN_ROW(item) + 8 * upper];
        if (row < 0) continue;
        CF_UNROLL for (int j = 0; j < TILE_N / 8; ++j) {
          const int column = 8 * j + OWN_COLUMN(item);
          CF_GLOBAL RESULT_ELEMENT *own = to + (row + column);
          if (column < columns) store_one(own, sums[4 * j + 2 * upper], column, epilogue);
          if (column + 1 < columns) store_one(own + 1, sums[4 * j + 2 * upper + 1], column + 1, epilogue);
        }
      }
    }
#if OVERLAP
    CF_WAVE_BARRIER();  // what its items have read is written again
#endif
  }
}

#include "nvidia_pack.cl"
#if PARTIAL
#include "nvidia_parts.cl"
#endif
