// Implicit GEMM on Hopper's matrix units, forward and the data gradient: result = alpha * convolution + beta * result.
//
// The product of the source's windows, which are gathered tile by tile, and of the filter: rows are positions of the
// result, over all images, columns its channels. The sum runs over blocks of channels and, inside a block, over the
// taps. Rows of the filter are a channel of the result each: taps, and in a tap channels of the source, see
// igemm_nvidia_pack.
#include "nvidia_gather.h"

#ifndef WIDE
#define WIDE 0  // 1: channels last, whole pieces of them: results are written 16 bytes at a time
#endif

#define BLOCKS ((SOURCE_CHANNELS + PER_ROW - 1) / PER_ROW)
#define FILTER_STEP(elements) ((SPLIT_BEFORE ? 2 : 1) * (elements))  // what they take
#define AHEAD (STAGES > 2 ? STAGES - 2 : 1)  // stages that are fetched before they are multiplied, with PRODUCTS 1
#define RESULT_ROW (TILE_N * ELEMENT_BYTES)
#define MEMORY_BYTES (WIDE && TILE_M * RESULT_ROW > TILE_BYTES ? TILE_M * RESULT_ROW : TILE_BYTES)

// n / number, n below 2^31: `by` holds a factor, and from bit 32 on a shift; see reciprocal() in nvidia_conv.py.
#if FIXED
#define DIVIDED(n, number, by) ((n) / (number))
#else
#define DIVIDED(n, number, by) ((int)((ulong)(CF_UINT)(n) * (CF_UINT)(by) >> (int)((by) >> 32)))
#endif

CF_INLINED void store_one(CF_GLOBAL ELEMENT *to, float value, const float alpha, const float beta) {
  value *= alpha;
  if (beta != 0.0f) value = CF_FMA(beta, CF_LOAD(DTYPE, to, 0), value);
  CF_STORE(DTYPE, to, 0, value);
}

#if WIDE
// A wave's 16 rows of the tile as elements, rows of RESULT_ROW bytes, whose pieces are spread over the banks.
#define RESULT_PIECE(row, piece) \
  ((row) * RESULT_ROW + (((piece) ^ (ELEMENT_BYTES == 2 ? (row) & 7 : ((row) & 3) * 2)) << 4))

CF_INLINED void put_sums(const CF_UINT tile, const float sums[SUMS], const int item, const float alpha) {
  CF_UNROLL for (int upper = 0; upper < 2; ++upper) {
    const int row = OWN_ROW(item) + 8 * upper;
    CF_UNROLL for (int j = 0; j < TILE_N / 8; ++j) {
      const int byte = (8 * j + OWN_COLUMN(item)) * ELEMENT_BYTES;
      CF_STORE_SHARED_PAIR(DTYPE, tile + RESULT_PIECE(row, byte / 16) + byte % 16, alpha * sums[4 * j + 2 * upper],
                           alpha * sums[4 * j + 2 * upper + 1]);
    }
  }
}

// Four pieces at a time are read before they are stored.
CF_INLINED void store_rows(CF_GLOBAL ELEMENT *result, const CF_UINT tile, CF_LOCAL_PTR const CF_LONG *result_at,
                           const int item, const int columns) {
  const int first = item / 32 * 16, lane = item % 32;
  CF_UNROLL for (int i = 0; i < RESULT_ROW / 32; i += 4) {
    CF_UINT bits[4][4];
    CF_LONG at[4];
    CF_UNROLL for (int k = 0; k < 4; ++k) {
      const int number = (i + k) * 32 + lane, row = first + number / (RESULT_ROW / 16);
      CF_LOAD_SHARED_4(bits[k], tile + RESULT_PIECE(row, number % (RESULT_ROW / 16)));
      at[k] = result_at[row];
    }
    CF_UNROLL for (int k = 0; k < 4; ++k) {
      const int column = ((i + k) * 32 + lane) % (RESULT_ROW / 16) * PER_PIECE;
      if (at[k] >= 0 && column < columns) CF_STORE_4(result + (at[k] + column), bits[k]);
    }
  }
}
#endif

#if IS_FLAT
// Step after step.
#define NOTE_ENTRIES(step)                                                                                       \
  do {                                                                                                           \
    if (item < ENTRIES) {                                                                                        \
      entries[(step) % 2][item] =                                                                                \
          entry_of(along, d, h, w, SOURCE_H, SOURCE_W, SOURCE_POSITION_STEP, SOURCE_CHANNEL_STEP);               \
      along = moved_place(along, by, h.taps, w.taps, SOURCE_CHANNELS / UNIT);                                    \
    }                                                                                                            \
  } while (0)
#if IN_PIECES
#define FETCH_WINDOWS(step)                                                                                      \
  do {                                                                                                           \
    const Entry entry = entries[(step) % 2][item % 8];                                                           \
    Window own[4];                                                                                               \
    read_windows(own, windows, item);                                                                            \
    fetch_pieces(STAGE_ROWS(tiles, step), source, own, item, entry.shift, (ulong)1 << entry.tap);                \
  } while (0)
#else
#define FETCH_WINDOWS(step) \
  fetch_windows(STAGE_ROWS(tiles, step), source, windows, entries[(step) % 2], item, 0, 0, 0, 0)
#endif
#define FETCH(step)                                                                                              \
  do {                                                                                                           \
    if ((step) < steps) {                                                                                        \
      FETCH_WINDOWS(step);                                                                                       \
      fetch_filter(STAGE_COLUMNS(tiles, step), filter + (step) * FILTER_STEP(PER_ROW), item,                     \
                   FILTER_STEP(FILTER_ROW), columns, FILTER_ROW - (step) * PER_ROW);                             \
    }                                                                                                            \
    CF_COPIES_COMMIT();                                                                                          \
    NOTE_ENTRIES((step) + 1);                                                                                    \
  } while (0)
#else
#if GATHER == GATHER_EACH
#define FETCH_WINDOWS(step) \
  fetch_windows(STAGE_ROWS(tiles, step), source, windows, entries, item, shift, tap, room, SOURCE_CHANNEL_STEP)
#else
#define FETCH_WINDOWS(step)                                                                \
  do {                                                                                     \
    Window own[4];                                                                         \
    read_windows(own, windows, item);                                                      \
    fetch_pieces(STAGE_ROWS(tiles, step), source, own, item, shift + item % 8 * PER_PIECE, \
                 item % 8 * PER_PIECE < room ? (ulong)1 << tap : 0);                       \
  } while (0)
#endif
#define FETCH(step)                                                                                    \
  do {                                                                                                 \
    if ((step) < steps) {                                                                              \
      const Entry entry = entries[tap];                                                                \
      const int room = SOURCE_CHANNELS - channel, shift = entry.shift + channel * SOURCE_CHANNEL_STEP; \
      FETCH_WINDOWS(step);                                                                             \
      fetch_filter(STAGE_COLUMNS(tiles, step), filter + FILTER_STEP(entry.filter + channel), item,     \
                   FILTER_STEP(FILTER_ROW), columns, room);                                            \
      if (++tap == taps) {                                                                             \
        tap = 0;                                                                                       \
        channel += PER_ROW;                                                                            \
      }                                                                                                \
    }                                                                                                  \
    CF_COPIES_COMMIT();                                                                                \
  } while (0)
#endif

// One-dimensional grid: channel tiles * position_tiles * groups * phases work-groups of THREADS items. A row of the
// filter has FILTER_ROW elements, a tap in it FILTER_CHANNELS. by_... are for DIVIDED, the sizes of the result for a
// single phase.
CF_KERNEL CF_WORK_GROUP_SIZE(THREADS, 1, 1) void igemm_nvidia_conv(
    CF_GLOBAL const ELEMENT *source, CF_GLOBAL const ELEMENT *filter, CF_GLOBAL ELEMENT *result, const float alpha,
    const float beta, const int position_tiles, const int FILTER_ROW, const int FILTER_CHANNELS,
    const CF_LONG by_channel_tiles, const CF_LONG by_position_tiles, const CF_LONG by_groups, const CF_LONG by_d,
    const CF_LONG by_h, const CF_LONG by_w, GEOMETRY) {
  CF_LOCAL unsigned char memory[MEMORY_BYTES] __attribute__((aligned(1024)));
  CF_LOCAL Window windows[TILE_M] __attribute__((aligned(16)));
  CF_LOCAL CF_LONG result_at[TILE_M];
#if IS_FLAT
  CF_LOCAL Entry entries[2][ENTRIES];
#else
  CF_LOCAL Entry entries[MOST_TAPS];
#endif
  const CF_UINT tiles = CF_SHARED(memory);

  const int channel_tiles = (RESULT_CHANNELS + TILE_N - 1) / TILE_N;
  const int number = (int)CF_GROUP_ID(0), tile = DIVIDED(number, channel_tiles, by_channel_tiles);
  const int first_channel = (number - tile * channel_tiles) * TILE_N;
  const int part = DIVIDED(tile, position_tiles, by_position_tiles);
  const int first = (tile - part * position_tiles) * TILE_M;
  const int phase = PHASES == 1 ? 0 : DIVIDED(part, GROUPS, by_groups), group = part - phase * GROUPS;
  const Axis w = AXIS(W, phase % STRIDE_W), h = AXIS(H, phase / STRIDE_W % STRIDE_H);
  const Axis d = AXIS(D, phase / (STRIDE_W * STRIDE_H));
  const int positions = IMAGES * d.count * h.count * w.count;
  if (first >= positions) return;

  const int item = (int)CF_LOCAL_ID(0);
  if (item < TILE_M) {
    const int is_there = first + item < positions;
    const int position = is_there ? first + item : 0;
    Place place;
    if (PHASES > 1) {
      place = place_of(position, d.count, h.count, w.count);
    } else {
      const int line = DIVIDED(position, w.count, by_w), plane = DIVIDED(line, h.count, by_h);
      place.image = DIVIDED(plane, d.count, by_d);
      place.d = plane - place.image * d.count;
      place.h = line - plane * h.count;
      place.w = position - line * w.count;
    }
    windows[item] = window_of(place, d, h, w, SOURCE_D, SOURCE_H, SOURCE_W, SOURCE_POSITION_STEP, SOURCE_IMAGE_STEP);
    const int spot = ((place.d * d.out_step + d.out_origin) * RESULT_H + place.h * h.out_step + h.out_origin) *
                         RESULT_W +
                     place.w * w.out_step + w.out_origin;
    result_at[item] = is_there ? place.image * RESULT_IMAGE_STEP + (CF_LONG)spot * RESULT_POSITION_STEP : -1;
  }
  source += (CF_LONG)group * SOURCE_CHANNELS * SOURCE_CHANNEL_STEP;
  filter += FILTER_STEP((group * RESULT_CHANNELS + first_channel) * FILTER_ROW);
  const int columns = RESULT_CHANNELS - first_channel;
  const int taps = d.taps * h.taps * w.taps;
#if IS_FLAT
  const int steps = (SOURCE_CHANNELS * taps + PER_ROW - 1) / PER_ROW;
  const Place by = place_of(ENTRIES, h.taps, w.taps, SOURCE_CHANNELS / UNIT);
  Place along = place_of(item % ENTRIES, h.taps, w.taps, SOURCE_CHANNELS / UNIT);
  NOTE_ENTRIES(0);
#else
  const int steps = BLOCKS * taps;
  int tap = 0, channel = 0;
  if (item < taps)
    entries[item] = entry_of(tap_of(item, d.taps, h.taps, w.taps), d, h, w, WINDOW_H, WINDOW_W, SOURCE_H, SOURCE_W,
                             SOURCE_POSITION_STEP, FILTER_CHANNELS);
#endif
  float sums[SUMS];
  CF_UNROLL for (int i = 0; i < SUMS; ++i) sums[i] = 0.0f;

#if PRODUCTS == 1
  // From three stages on two products are on their way at a time, and the stage that is filled again is the one before.
  for (int step = 0; step < AHEAD; ++step) {
    CF_BARRIER();
    FETCH(step);
  }
  if (steps > 0) {
    for (int step = 0; step < steps; ++step) {
      CF_COPIES_WAIT(AHEAD - 1);
      CF_FENCE_MATRICES();
      CF_BARRIER();
      FETCH(step + AHEAD);
      multiply_stage(sums, STAGE_ROWS(tiles, step), STAGE_COLUMNS(tiles, step), item, step > 0);
      CF_WGMMA_WAIT(STAGES > 2 ? 1 : 0);
    }
    CF_WGMMA_WAIT(0);
  }
#elif SPLIT_BEFORE
  // Each stage is a part. An item that hands products over waits for most of them, so what else is to be done overlaps
  // with those of other work-groups of the unit.
  float parts[SUMS];
  SplitRows rows;
  for (int step = 0; step < STAGES - 1; ++step) {
    CF_BARRIER();
    FETCH(step);
  }
  for (int step = 0; step < steps; ++step) {
    CF_COPIES_WAIT(STAGES - 2);
    CF_FENCE_MATRICES();
    CF_BARRIER();
    FETCH(step + STAGES - 1);
    load_rows(&rows, STAGE_ROWS(tiles, step), item);
    split_rows(&rows);
    multiply_split(parts, &rows, STAGE_COLUMNS(tiles, step), 0);
    CF_WGMMA_WAIT(0);
    CF_UNROLL for (int i = 0; i < SUMS; ++i) sums[i] += parts[i];
  }
#elif STAGES == 2
  // Weights come as they are. A stage after the other, each a part: meanwhile other work-groups of the unit work.
  float parts[SUMS];
  SplitRows rows;
  CF_BARRIER();
  FETCH(0);
  for (int step = 0; step < steps; ++step) {
    CF_COPIES_WAIT(0);
    CF_BARRIER();
    FETCH(step + 1);
    load_rows(&rows, STAGE_ROWS(tiles, step), item);
    split_columns(SPLIT_COLUMNS(tiles, 0), STAGE_COLUMNS(tiles, step), item);
    split_rows(&rows);
    CF_FENCE_MATRICES();
    CF_BARRIER();
    multiply_split(parts, &rows, SPLIT_COLUMNS(tiles, 0), 0);
    CF_WGMMA_WAIT(0);
    CF_UNROLL for (int i = 0; i < SUMS; ++i) sums[i] += parts[i];
  }
#else
#define SPLIT(to, step)                                                          \
  do {                                                                           \
    CF_COPIES_WAIT(STAGES - 2);                                                  \
    CF_BARRIER();                                                                \
    FETCH((step) + STAGES - 1);                                                  \
    load_rows(to, STAGE_ROWS(tiles, step), item);                                \
    split_columns(SPLIT_COLUMNS(tiles, step), STAGE_COLUMNS(tiles, step), item); \
    split_rows(to);                                                              \
    CF_FENCE_MATRICES();                                                         \
  } while (0)
  // While a stage is multiplied the next one is split: two of them go into a part.
  float parts[SUMS];
  SplitRows even, odd;
  for (int step = 0; step < STAGES - 1; ++step) {
    CF_BARRIER();
    FETCH(step);
  }
  if (steps > 0) SPLIT(&even, 0);
  for (int step = 0; step < steps; step += 2) {
    CF_BARRIER();
    multiply_split(parts, &even, SPLIT_COLUMNS(tiles, 0), 0);
    if (step + 1 < steps) {
      SPLIT(&odd, step + 1);
      CF_BARRIER();
      multiply_split(parts, &odd, SPLIT_COLUMNS(tiles, 1), 1);
      CF_WGMMA_WAIT(1);
      if (step + 2 < steps) SPLIT(&even, step + 2);
    }
    CF_WGMMA_WAIT(0);
    CF_UNROLL for (int i = 0; i < SUMS; ++i) sums[i] += parts[i];
  }
#endif

  result += (CF_LONG)group * RESULT_CHANNELS * RESULT_CHANNEL_STEP;
#if WIDE
  if (beta == 0.0f) {
    CF_BARRIER();  // no product reads a stage any more
    put_sums(tiles, sums, item, alpha);
    CF_WAVE_BARRIER();
    store_rows(result + first_channel, tiles, result_at, item, columns);
    return;
  }
#endif
  CF_UNROLL for (int upper = 0; upper < 2; ++upper) {
    const CF_LONG row = result_at[OWN_ROW(item) + 8 * upper];
    if (row < 0) continue;
    CF_GLOBAL ELEMENT *to = result + (row + (CF_LONG)(first_channel + OWN_COLUMN(item)) * RESULT_CHANNEL_STEP);
    CF_UNROLL for (int j = 0; j < TILE_N / 8; ++j) {
      const int column = 8 * j + OWN_COLUMN(item);
      if (column < columns) store_one(to, sums[4 * j + 2 * upper], alpha, beta);
      if (column + 1 < columns) store_one(to + RESULT_CHANNEL_STEP, sums[4 * j + 2 * upper + 1], alpha, beta);
      to += (CF_LONG)8 * RESULT_CHANNEL_STEP;
    }
  }
}

#include "nvidia_pack.cl"
