// Implicit GEMM on Hopper's matrix units, forward and the data gradient: result = alpha * convolution + beta * result.
//
// The product of the source's windows, which are gathered tile by tile, and of the filter: rows are positions of the
// result, over all images, columns its channels. The sum runs over blocks of channels and, inside a block, over the
// taps. Rows of the filter are a channel of the result each: taps, and in a tap channels of the source, see
// igemm_nvidia_pack.
#include "nvidia_gather.h"

#ifndef PAIRS
#define PAIRS 0  // 1: channels last, an even number of them: results are written two at a time
#endif

#define BLOCKS (GATHER == GATHER_FLAT ? 1 : (SOURCE_CHANNELS + PER_ROW - 1) / PER_ROW)

CF_INLINED void store_one(CF_GLOBAL ELEMENT *to, float value, const float alpha, const float beta) {
  value *= alpha;
  if (beta != 0.0f) value = CF_FMA(beta, CF_LOAD(DTYPE, to, 0), value);
  CF_STORE(DTYPE, to, 0, value);
}

#if PAIRS
CF_INLINED void store_pair(CF_GLOBAL ELEMENT *to, float first, float second, const float alpha, const float beta) {
  first *= alpha;
  second *= alpha;
  if (beta != 0.0f) {
    first = CF_FMA(beta, CF_LOAD(DTYPE, to, 0), first);
    second = CF_FMA(beta, CF_LOAD(DTYPE, to, 1), second);
  }
  CF_STORE_PAIR(DTYPE, to, first, second);
}
#endif

#if GATHER == GATHER_FLAT
CF_INLINED void note_entry(CF_LOCAL_PTR Entry *entry, int product, int channels, Axis d, Axis h, Axis w, int size_h,
                          int size_w, int position_step, int channel_step) {
  const int number = product / channels, channel = product - number * channels;
  Tap tap;
  tap.w = number % w.taps;
  tap.h = number / w.taps % h.taps;
  tap.d = number / w.taps / h.taps;
  const int there = number < d.taps * h.taps * w.taps;
  entry->shift = there ? tap_shift(tap, d, h, w, size_h, size_w) * position_step + channel * channel_step : 0;
  entry->tap = there ? number : NO_TAP;
}
#define NOTE_ENTRIES(step)                                                                                   \
  if (item < PER_ROW)                                                                                        \
  note_entry(&entries[(step) % 2][item], (step) * PER_ROW + item, SOURCE_CHANNELS, d, h, w, SOURCE_H, SOURCE_W, \
             SOURCE_POSITION_STEP, SOURCE_CHANNEL_STEP)
#define FETCH(step)                                                                                                   \
  do {                                                                                                                \
    if ((step) < steps) {                                                                                             \
      fetch_windows(STAGE_ROWS(tiles, step), source, windows, entries[(step) % 2], item, 0, 0, 0, 0);                 \
      fetch_filter(STAGE_COLUMNS(tiles, step), filter + (step) * PER_ROW, item, FILTER_ROW, columns, PER_ROW);        \
    }                                                                                                                 \
    CF_COPIES_COMMIT();                                                                                               \
    NOTE_ENTRIES((step) + 1);                                                                                         \
  } while (0)
#else
#if GATHER == GATHER_EACH
#define FETCH_WINDOWS(step) \
  fetch_windows(STAGE_ROWS(tiles, step), source, windows, 0, item, shift, tap.number, room, SOURCE_CHANNEL_STEP)
#else
#define FETCH_WINDOWS(step) fetch_windows(STAGE_ROWS(tiles, step), source, windows, item, shift, tap.number, room)
#endif
#define FETCH(step)                                                                                               \
  do {                                                                                                            \
    if ((step) < steps) {                                                                                         \
      const int room = SOURCE_CHANNELS - tap.block * PER_ROW;                                                     \
      const int shift = tap_shift(tap, d, h, w, SOURCE_H, SOURCE_W) * SOURCE_POSITION_STEP +                      \
                        tap.block * PER_ROW * SOURCE_CHANNEL_STEP;                                                \
      const int number = ((d.w_first + tap.d * d.w_step) * WINDOW_H + h.w_first + tap.h * h.w_step) * WINDOW_W +  \
                         w.w_first + tap.w * w.w_step;                                                            \
      FETCH_WINDOWS(step);                                                                                        \
      fetch_filter(STAGE_COLUMNS(tiles, step), filter + (number * FILTER_CHANNELS + tap.block * PER_ROW), item,   \
                   FILTER_ROW, columns, room);                                                                    \
      tap = next_tap(tap, d.taps, h.taps, w.taps);                                                                \
    }                                                                                                             \
    CF_COPIES_COMMIT();                                                                                           \
  } while (0)
#endif

// One-dimensional grid: channel tiles * position_tiles * groups * phases work-groups of THREADS items. A row of the
// filter has FILTER_ROW elements, a tap in it FILTER_CHANNELS.
CF_KERNEL CF_WORK_GROUP_SIZE(THREADS, 1, 1) void igemm_nvidia_conv(
    CF_GLOBAL const ELEMENT *source, CF_GLOBAL const ELEMENT *filter, CF_GLOBAL ELEMENT *result, const float alpha,
    const float beta, const int position_tiles, const int FILTER_ROW, const int FILTER_CHANNELS, GEOMETRY) {
  CF_LOCAL unsigned char memory[TILE_BYTES] __attribute__((aligned(1024)));
  CF_LOCAL Window windows[TILE_M] __attribute__((aligned(16)));
  CF_LOCAL CF_LONG result_at[TILE_M];
#if GATHER == GATHER_FLAT
  CF_LOCAL Entry entries[2][PER_ROW];
#endif
  const CF_UINT tiles = CF_SHARED(memory);

  const int channel_tiles = (RESULT_CHANNELS + TILE_N - 1) / TILE_N;
  CF_UINT at = (CF_UINT)CF_GROUP_ID(0);
  const int first_channel = (int)(at % channel_tiles) * TILE_N;
  at /= channel_tiles;
  const int first = (int)(at % position_tiles) * TILE_M;
  at /= position_tiles;
  const int group = at % GROUPS, phase = PHASES == 1 ? 0 : at / GROUPS;
  const Axis w = AXIS(W, phase % STRIDE_W), h = AXIS(H, phase / STRIDE_W % STRIDE_H);
  const Axis d = AXIS(D, phase / (STRIDE_W * STRIDE_H));
  const int positions = IMAGES * d.count * h.count * w.count;
  if (first >= positions) return;

  const int item = (int)CF_LOCAL_ID(0);
  if (item < TILE_M) {
    const int is_there = first + item < positions;
    const Place place = place_of(is_there ? first + item : 0, d.count, h.count, w.count);
    windows[item] = window_of(place, d, h, w, SOURCE_D, SOURCE_H, SOURCE_W, SOURCE_POSITION_STEP, SOURCE_IMAGE_STEP);
    const int spot = ((place.d * d.out_step + d.out_origin) * RESULT_H + place.h * h.out_step + h.out_origin) *
                         RESULT_W +
                     place.w * w.out_step + w.out_origin;
    result_at[item] = is_there ? place.image * RESULT_IMAGE_STEP + (CF_LONG)spot * RESULT_POSITION_STEP : -1;
  }
  source += (CF_LONG)group * SOURCE_CHANNELS * SOURCE_CHANNEL_STEP;
  filter += (group * RESULT_CHANNELS + first_channel) * FILTER_ROW;
  const int columns = RESULT_CHANNELS - first_channel;
  const int taps = d.taps * h.taps * w.taps;
#if GATHER == GATHER_FLAT
  const int steps = (SOURCE_CHANNELS * taps + PER_ROW - 1) / PER_ROW;
  NOTE_ENTRIES(0);
#else
  const int steps = BLOCKS * taps;
  Tap tap = tap_of(0, d.taps, h.taps, w.taps);
#endif
  float sums[SUMS];
  CF_UNROLL for (int i = 0; i < SUMS; ++i) sums[i] = 0.0f;

#if PRODUCTS == 1
  // Two products are on their way at a time, so the stage that is filled again is the one before them.
  for (int step = 0; step < STAGES - 2; ++step) {
    CF_BARRIER();
    FETCH(step);
  }
  if (steps > 0) {
    for (int step = 0; step < steps; ++step) {
      CF_COPIES_WAIT(STAGES - 3);
      CF_FENCE_MATRICES();
      CF_BARRIER();
      FETCH(step + STAGES - 2);
      multiply_stage(sums, STAGE_ROWS(tiles, step), STAGE_COLUMNS(tiles, step), item, step > 0);
      CF_WGMMA_WAIT(1);
    }
    CF_WGMMA_WAIT(0);
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
  CF_UNROLL for (int upper = 0; upper < 2; ++upper) {
    const CF_LONG row = result_at[OWN_ROW(item) + 8 * upper];
    if (row < 0) continue;
    CF_UNROLL for (int j = 0; j < TILE_N / 8; ++j) {
      const int column = 8 * j + OWN_COLUMN(item);
      const float one = sums[4 * j + 2 * upper], two = sums[4 * j + 2 * upper + 1];
      CF_GLOBAL ELEMENT *to = result + (row + (CF_LONG)(first_channel + column) * RESULT_CHANNEL_STEP);
#if PAIRS
      if (column < columns) store_pair(to, one, two, alpha, beta);
#else
      if (column < columns) store_one(to, one, alpha, beta);
      if (column + 1 < columns) store_one(to + RESULT_CHANNEL_STEP, two, alpha, beta);
#endif
    }
  }
}

#include "nvidia_pack.cl"
