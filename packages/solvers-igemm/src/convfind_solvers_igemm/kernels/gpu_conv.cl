// Implicit GEMM on GPUs, forward and the data gradient: result = alpha * convolution + beta * result.
//
// The product of a filter matrix and of the source's windows, which are gathered tile by tile: rows are channels of the
// result and columns positions, channels last the other way round. Positions run over all images. The sum runs over
// blocks of TILE_K channels and, inside a block, over the taps: neighbouring taps read nearly the same memory.
#include "gpu_gather.h"
#include "gpu_filter.h"

#if CHANNELS_LAST
#define A_SKEW GATHER_SKEW
#define B_SKEW FILTER_SKEW
#else
#define A_SKEW FILTER_SKEW
#define B_SKEW GATHER_SKEW
#endif
#define A_FLOATS TILE_FLOATS(TILE_M, A_SKEW)
#define B_FLOATS TILE_FLOATS(TILE_N, B_SKEW)

// Where an item puts what it reads for one of the two tiles.
#if FETCH
#define WINDOWS_TO(tile) (windows_to + (tile) * 4 * B_FLOATS)
#define FILTER_TO(tile) (filter_to + (tile) * 4 * A_FLOATS)
#else
#define WINDOWS_TO(tile) windows_part
#define FILTER_TO(tile) filter_part
#endif

#if GATHER == GATHER_TABLE
// An index that is in bounds nowhere.
#define NOWHERE (1 << 30)

// The first items look up where the products of a step lie: theirs are `at`, digits of an index along the sum, taps,
// and channels in the place of images.
CF_INLINE void fill_table(CF_LOCAL_PTR Table *table, int item, Place at, int channels, Axis d, Axis h, Axis w,
                          int size_h, int size_w, int position_step, int channel_step, int window_h, int window_w,
                          int filter_source_step, int filter_tap_step) {
  if (item >= TILE_K) return;
  const int there = at.image < channels && d.taps * h.taps * w.taps > 0;
  const int number = ((d.w_first + at.d * d.w_step) * window_h + h.w_first + at.h * h.w_step) * window_w +
                     w.w_first + at.w * w.w_step;
  Tap tap;
  tap.d = at.d;
  tap.h = at.h;
  tap.w = at.w;
  table->shift[item] = tap_shift(tap, d, h, w, size_h, size_w) * position_step + at.image * channel_step;
  table->d[item] = there ? tap.d * d.tap_step : NOWHERE;
  table->h[item] = tap.h * h.tap_step;
  table->w[item] = tap.w * w.tap_step;
  table->filter[item] = there ? at.image * filter_source_step + number * filter_tap_step : -1;
}
// Step after step.
#define FILL_TABLE(step)                                                                                           \
  do {                                                                                                             \
    fill_table(&table[(step) % 3], item, along, SOURCE_CHANNELS, d, h, w, SOURCE_H, SOURCE_W,                      \
               SOURCE_POSITION_STEP, SOURCE_CHANNEL_STEP, WINDOW_H, WINDOW_W, FILTER_SOURCE_STEP,                  \
               FILTER_TAP_STEP);                                                                                   \
    along = moved_place(along, by, max(d.taps, 1), max(h.taps, 1), max(w.taps, 1));                                \
  } while (0)
#define READ(step, into)                                                                                           \
  do {                                                                                                             \
    gather(WINDOWS_TO(into), &windows, &table[(step) % 3], item, SOURCE_D, SOURCE_H, SOURCE_W);                    \
    read_filter(FILTER_TO(into), filter, &table[(step) % 3], item, last_channel, TILE_K, FILTER_RESULT_STEP, 0);   \
  } while (0)
#elif FUSED
#define READ(step, into)                                                                                           \
  do {                                                                                                             \
    const int room = SOURCE_CHANNELS - tap.block * TILE_K;                                                         \
    const int shift = tap_shift(tap, d, h, w, SOURCE_H, SOURCE_W) * SOURCE_POSITION_STEP +                         \
                      tap.block * TILE_K * SOURCE_CHANNEL_STEP;                                                    \
    const int r_d = own.d + tap.d * d.w_step, r_h = own.h + tap.h * h.w_step, r_w = own.w + tap.w * w.w_step;      \
    const int there = is_inside(r_d, WINDOW_D) && is_inside(r_h, WINDOW_H) && is_inside(r_w, WINDOW_W);            \
    const int number = (r_d * WINDOW_H + r_h) * WINDOW_W + r_w;                                                    \
    gather(WINDOWS_TO(into), &windows, tap.number, shift, room, item, SOURCE_CHANNEL_STEP);                        \
    read_filter(FILTER_TO(into), filter + (tap.block * TILE_K * FILTER_SOURCE_STEP + number * FILTER_TAP_STEP), 0, \
                item, 0, there ? room : 0, FILTER_RESULT_STEP, FILTER_SOURCE_STEP);                                \
  } while (0)
#else
#define READ(step, into)                                                                                           \
  do {                                                                                                             \
    const int room = SOURCE_CHANNELS - tap.block * TILE_K;                                                         \
    const int shift = tap_shift(tap, d, h, w, SOURCE_H, SOURCE_W) * SOURCE_POSITION_STEP +                         \
                      tap.block * TILE_K * SOURCE_CHANNEL_STEP;                                                    \
    const int number = ((d.w_first + tap.d * d.w_step) * WINDOW_H + h.w_first + tap.h * h.w_step) * WINDOW_W +     \
                       w.w_first + tap.w * w.w_step;                                                               \
    gather(WINDOWS_TO(into), &windows, tap.number, shift, room, item, SOURCE_CHANNEL_STEP);                        \
    read_filter(FILTER_TO(into), filter + (tap.block * TILE_K * FILTER_SOURCE_STEP + number * FILTER_TAP_STEP), 0, \
                item, last_channel, room, FILTER_RESULT_STEP, FILTER_SOURCE_STEP);                                 \
  } while (0)
#endif

// One-dimensional grid: channel tiles * position_tiles * groups * parts * phases work-groups of THREADS items.
// The result of part i, of several, lies behind those of the parts before it.
CF_KERNEL CF_WORK_GROUP_SIZE(THREADS, 1, 1) void igemm_gpu_conv(
    CF_GLOBAL const ELEMENT *source, CF_GLOBAL const ELEMENT *filter, CF_GLOBAL RESULT_ELEMENT *result,
    CF_EPILOGUE_PARAMETERS, const int position_tiles, const int parts, GEOMETRY) {
  const Epilogue epilogue = CF_EPILOGUE(result);
  CF_LOCAL float a_tile[2][A_FLOATS] __attribute__((aligned(16)));
  CF_LOCAL float b_tile[2][B_FLOATS] __attribute__((aligned(16)));
  CF_LOCAL CF_LONG row_at[TILE_M], column_at[TILE_N];
  CF_LOCAL Positions places;
#if FUSED
  CF_LOCAL int row_mark[TILE_M], column_mark[TILE_N];
#else
  CF_LOCAL_PTR const int *row_mark = 0, *column_mark = 0;
#endif
#if GATHER == GATHER_TABLE
  CF_LOCAL Table table[3];  // of the last step, of this one and of the next: see the barriers
#endif

  const int channel_tiles = (FUSED_CHANNELS + TILE_C - 1) / TILE_C;
  CF_UINT at = (CF_UINT)CF_GROUP_ID(0);
  const int first_channel = (int)(at % channel_tiles) * TILE_C;
  at /= channel_tiles;
  const int first = (int)(at % position_tiles) * TILE_P;
  at /= position_tiles;
  const int group = at % GROUPS;
  at /= GROUPS;
  const int part = at % parts, phase = PHASES == 1 ? 0 : at / parts;
  Axis w = AXIS(W, phase % STRIDE_W), h = AXIS(H, phase / STRIDE_W % STRIDE_H);
  Axis d = AXIS(D, phase / (STRIDE_W * STRIDE_H));
  if (POINTWISE) d = h = window_axis(1, 1, 1, 1, 0);
  const int positions = IMAGES * d.count * h.count * w.count;
  if (first >= positions) return;

  const int item = (int)CF_LOCAL_ID(0);
  for (int i = item; i < TILE_P; i += THREADS) {
    // Positions behind the last are read as one of the last four, so that groups of four stay aligned; their
    // results are never stored.
    const int position = first + i < positions ? first + i : max(positions - 4 + (i & 3), 0);
    const Place place = place_of(position, d.count, h.count, w.count);
    note_window(&places, i, place, d, h, w, SOURCE_D, SOURCE_H, SOURCE_W, SOURCE_POSITION_STEP, SOURCE_IMAGE_STEP);
    const int spot = (place.d * d.out_step * RESULT_H + place.h * h.out_step) * RESULT_W + place.w * w.out_step;
    (CHANNELS_LAST ? row_at : column_at)[i] =
        first + i < positions ? place.image * RESULT_IMAGE_STEP + (CF_LONG)spot * RESULT_POSITION_STEP : -1;
#if FUSED
    (CHANNELS_LAST ? row_mark : column_mark)[i] =
        mark_of_position(place, d, h, w, RESULT_D, RESULT_H, RESULT_W);
#endif
  }
  for (int i = item; i < TILE_C; i += THREADS) {
    const int x = first_channel + i;
#if FUSED
    const Place own = place_of(x / RESULT_CHANNELS, STRIDE_D, STRIDE_H, STRIDE_W);
    const CF_LONG spot = ((CF_LONG)own.d * RESULT_H + own.h) * RESULT_W + own.w;
    const CF_LONG offset = spot * RESULT_POSITION_STEP + (CF_LONG)(x % RESULT_CHANNELS) * RESULT_CHANNEL_STEP;
    (CHANNELS_LAST ? column_mark : row_mark)[i] = mark_of_phase(own, d, h, w);
#else
    const CF_LONG offset = (CF_LONG)x * RESULT_CHANNEL_STEP;
#endif
    (CHANNELS_LAST ? column_at : row_at)[i] = x < FUSED_CHANNELS ? offset : -1;
  }

  CF_BARRIER();
  Windows windows;
  open_windows(&windows, source + (CF_LONG)group * SOURCE_CHANNELS * SOURCE_CHANNEL_STEP, &places, item, SOURCE_SPACE,
               SOURCE_CHANNEL_STEP);
  filter += group * FILTER_GROUP_STEP;
#if FUSED
  // The item's own channel and phase.
  const int own_channel = min(first_channel + FILTER_X(item), FUSED_CHANNELS - 1);
  Place own = place_of(own_channel / RESULT_CHANNELS, STRIDE_D, STRIDE_H, STRIDE_W);
  own.d += d.w_first;
  own.h += h.w_first;
  own.w += w.w_first;
  filter += own_channel % RESULT_CHANNELS * FILTER_RESULT_STEP;
#else
  filter += (CF_LONG)first_channel * FILTER_RESULT_STEP;
  const int last_channel = RESULT_CHANNELS - 1 - first_channel;
#endif

  VALUE sum[BLOCK_M][BLOCK_N];
  clear(sum);
#if FETCH
  const CF_UINT windows_to = CF_SHARED(b_tile[0] + FIRST_CHANNEL(item) * TILE_P + PLACE_OF(item, 0));
  const CF_UINT filter_to = CF_SHARED(a_tile[0] + FILTER_K(item) * TILE_C + SKEW(FILTER_SKEW, FILTER_K(item)) +
                                      FILTER_X(item));
#else
  float windows_part[GATHERED], filter_part[FILTERED];
#endif
  const int taps = d.taps * h.taps * w.taps;
  const int steps = GATHER == GATHER_TABLE ? (SOURCE_CHANNELS * taps + TILE_K - 1) / TILE_K
                                           : (SOURCE_CHANNELS + TILE_K - 1) / TILE_K * taps;
  int step = (int)((CF_LONG)steps * part / parts);
  const int end = (int)((CF_LONG)steps * (part + 1) / parts);
  const int m = first_row(item), n = first_column(item);
#if GATHER == GATHER_TABLE
  const Place by = place_of(TILE_K, max(d.taps, 1), max(h.taps, 1), max(w.taps, 1));
  Place along = place_of(step * TILE_K + item % TILE_K, max(d.taps, 1), max(h.taps, 1), max(w.taps, 1));
  FILL_TABLE(step);
  FILL_TABLE(step + 1);
  CF_BARRIER();
#else
  Tap tap = tap_of(step, d.taps, h.taps, w.taps);
#endif
  if (step < end) {
    READ(step, 0);
#if FETCH
    CF_COPIES_COMMIT();
#else
    put_windows(CHANNELS_LAST ? a_tile[0] : b_tile[0], windows_part, item);
    put_filter(CHANNELS_LAST ? b_tile[0] : a_tile[0], filter_part, item);
#endif
  }
#if FETCH
  for (int now = 0; step < end; ++step) {
    // What this step multiplies has arrived, and no item multiplies the other tiles any more.
    CF_COPIES_WAIT(0);
    CF_BARRIER();
    if (step + 1 < end) {
      tap = next_tap(tap, d.taps, h.taps, w.taps);
      READ(step + 1, now ^ 1);
      CF_COPIES_COMMIT();
    }
    multiply(sum, a_tile[now] + m, b_tile[now] + n, A_SKEW, B_SKEW);
    now ^= 1;
  }
#else
  // Reads stand before the barrier: a compiler may not move them behind the multiplication, which hides how long they
  // take. The last ones are made once more, for nothing, which is quicker than a condition around the writes.
  for (int now = 0; step < end; ++step) {
#if GATHER == GATHER_TABLE
    READ(step + 1, now ^ 1);
    FILL_TABLE(step + 2);
#else
    if (step + 1 < end) tap = next_tap(tap, d.taps, h.taps, w.taps);
    READ(step + 1, now ^ 1);
#endif
    CF_BARRIER();
    multiply(sum, a_tile[now] + m, b_tile[now] + n, A_SKEW, B_SKEW);
    now ^= 1;
    put_windows(CHANNELS_LAST ? a_tile[now] : b_tile[now], windows_part, item);
    put_filter(CHANNELS_LAST ? b_tile[now] : a_tile[now], filter_part, item);
  }
#endif
  CF_BARRIER();

  result += (CF_LONG)group * RESULT_CHANNELS * RESULT_CHANNEL_STEP +
            origin_of(d, h, w, RESULT_H, RESULT_W) * RESULT_POSITION_STEP;
  if (SPLIT) result += (CF_LONG)part * IMAGES * RESULT_IMAGE_STEP;
  store_tile(result, sum, row_at, column_at, row_mark, column_mark, item,
             CF_EPILOGUE_FROM(epilogue, group * RESULT_CHANNELS + first_channel));
}

#include "gpu_sum.cl"
