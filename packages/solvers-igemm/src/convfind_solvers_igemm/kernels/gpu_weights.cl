// Implicit GEMM on GPUs, the weight gradient: w = alpha * (sum over images and positions of y * window of x) + beta * w.
//
// Rows are filters, columns taps and, inside a tap, channels; the sum runs over positions of all images, in parts where
// there are too few tiles to fill the device. Both operands are gathered: y is walked through like x, without taps.
//
// GATHER says how items share the work:
//   GATHER_RUN       an item has a position, and reads a run of filters of y and a run of channels of x at one tap:
//                    SOURCE_CHANNELS is a multiple of the run
//   GATHER_CHANNELS  channels last: an item reads four neighbouring channels at a time; both numbers of channels are
//                    multiples of four
//   GATHER_TABLE     as GATHER_RUN, but what a column of x is is looked up for each
#include "gpu_geometry.h"
#include "convfind_gpu_tile.h"

#define GATHER_RUN 0
#define GATHER_CHANNELS 1
#define GATHER_TABLE 3
#ifndef GATHER
#define GATHER GATHER_TABLE
#endif
#ifndef WHOLE_RESULT
#define WHOLE_RESULT 0  // 1: RESULT_CHANNELS is a multiple of TILE_M
#endif

#define A_READ (TILE_M * TILE_K / THREADS)  // elements of y that an item reads: a multiple of 4
#define B_READ (TILE_N * TILE_K / THREADS)  // and of x
#if GATHER == GATHER_CHANNELS
#define A_SKEW SKEW_NONE
#define B_SKEW SKEW_NONE
#define A_FIRST(item) ((item) % (TILE_M / 4) * 4)
#define B_FIRST(item) ((item) % (TILE_N / 4) * 4)
#define A_LINE(item, q) ((item) / (TILE_M / 4) + (q) * (4 * THREADS / TILE_M))
#define B_LINE(item, q) ((item) / (TILE_N / 4) + (q) * (4 * THREADS / TILE_N))
#else
#define A_SKEW SKEW_ROWS
#define B_SKEW SKEW_ROWS
#define A_FIRST(item) ((item) / TILE_K * A_READ)
#define B_FIRST(item) ((item) / TILE_K * B_READ)
#endif
#define A_FLOATS TILE_FLOATS(TILE_M, A_SKEW)
#define B_FLOATS TILE_FLOATS(TILE_N, B_SKEW)
#define COLUMNS (TAPS * SOURCE_CHANNELS)
// An index that is in bounds nowhere.
#define NOWHERE (1 << 30)

// A position: where y and the window's start in x are, and the indices of the latter.
typedef struct {
  CF_LONG result, source;
  int d, h, w, there;
} Spot;

// A column of x: its tap and channel, as a distance in memory and in indices.
typedef struct {
  int shift, d, h, w;
} Column;

CF_INLINE Column column_of(int column, int columns, int channels, int window_d, int window_h, int window_w,
                           int dilation_d, int dilation_h, int dilation_w, int size_h, int size_w, int position_step,
                           int channel_step) {
  const Tap tap = tap_of(column / channels, window_d, window_h, window_w);
  Column found;
  found.d = column < columns ? tap.d * dilation_d : NOWHERE;
  found.h = tap.h * dilation_h;
  found.w = tap.w * dilation_w;
  found.shift = ((tap.d * dilation_d * size_h + found.h) * size_w + found.w) * position_step +
                column % channels * channel_step;
  return found;
}
#define COLUMN(column)                                                                                              \
  column_of(column, COLUMNS, SOURCE_CHANNELS, WINDOW_D, WINDOW_H, WINDOW_W, DILATION_D, DILATION_H, DILATION_W, \
            SOURCE_H, SOURCE_W, SOURCE_POSITION_STEP, SOURCE_CHANNEL_STEP)

CF_INLINE int meets(Spot spot, Column column, int size_d, int size_h, int size_w) {
  return spot.there && is_inside(spot.d + column.d, size_d) && is_inside(spot.h + column.h, size_h) &&
         is_inside(spot.w + column.w, size_w);
}

#if GATHER == GATHER_CHANNELS
#define READ()                                                                                                      \
  do {                                                                                                              \
    FOR_UNROLLED(q, A_READ / 4) {                                                                                \
      const Spot spot = spots[turn][A_LINE(item, q)];                                                               \
      FOR_UNROLLED(e, 4) a_part[4 * q + e] = 0.0f;                                                               \
      if (spot.there) LOAD_FOUR(a_part + 4 * q, y + spot.result);                                                   \
    }                                                                                                               \
    FOR_UNROLLED(q, B_READ / 4) {                                                                                \
      const Spot spot = spots[turn][B_LINE(item, q)];                                                               \
      FOR_UNROLLED(e, 4) b_part[4 * q + e] = 0.0f;                                                               \
      if (meets(spot, column, SOURCE_D, SOURCE_H, SOURCE_W)) LOAD_FOUR(b_part + 4 * q, x + spot.source);            \
    }                                                                                                               \
  } while (0)
#else
#define READ()                                                                                                      \
  do {                                                                                                              \
    CF_GLOBAL const ELEMENT *from = y + spot.result;                                                                \
    FOR_UNROLLED(i, A_READ) {                                                                                    \
      a_part[i] = spot.there ? LOAD(from, 0) : 0.0f;                                                                \
      if (WHOLE_RESULT || i < last_row) from += RESULT_CHANNEL_STEP;                                                \
    }                                                                                                               \
    READ_WINDOWS();                                                                                                 \
  } while (0)
#if GATHER == GATHER_RUN
#define READ_WINDOWS()                                                                                              \
  do {                                                                                                              \
    from = x + spot.source;                                                                                         \
    const int inside = meets(spot, column, SOURCE_D, SOURCE_H, SOURCE_W);                                           \
    FOR_UNROLLED(i, B_READ) {                                                                                    \
      b_part[i] = inside ? LOAD(from, 0) : 0.0f;                                                                    \
      from += SOURCE_CHANNEL_STEP;                                                                                  \
    }                                                                                                               \
  } while (0)
#else
#define READ_WINDOWS()                                                                                              \
  do {                                                                                                              \
    from = x + spot.source;                                                                                         \
    FOR_UNROLLED(i, B_READ) {                                                                                    \
      const Column column = columns[B_FIRST(item) + i];                                                             \
      b_part[i] = meets(spot, column, SOURCE_D, SOURCE_H, SOURCE_W) ? LOAD(from, column.shift) : 0.0f;              \
    }                                                                                                               \
  } while (0)
#endif
#endif

CF_INLINE void put(CF_LOCAL_PTR float *a, CF_LOCAL_PTR float *b, const float *a_part, const float *b_part, int item) {
#if GATHER == GATHER_CHANNELS
  FOR_UNROLLED(q, A_READ / 4) { CF_STORE4_LOCAL(a + A_LINE(item, q) * TILE_M + A_FIRST(item), a_part + 4 * q); }
  FOR_UNROLLED(q, B_READ / 4) { CF_STORE4_LOCAL(b + B_LINE(item, q) * TILE_N + B_FIRST(item), b_part + 4 * q); }
#else
  const int k = item % TILE_K;
  a += k * TILE_M + SKEW(A_SKEW, k) + A_FIRST(item);
  b += k * TILE_N + SKEW(B_SKEW, k) + B_FIRST(item);
  FOR_UNROLLED(q, A_READ / 4) { CF_STORE4_LOCAL(a + 4 * q, a_part + 4 * q); }
  FOR_UNROLLED(q, B_READ / 4) { CF_STORE4_LOCAL(b + 4 * q, b_part + 4 * q); }
#endif
}

CF_INLINE Spot spot_of(Place place, int there, int result_h, int result_w, int result_step, CF_LONG result_image,
                       int at_d, int at_h, int at_w, int source_h, int source_w, int source_step,
                       CF_LONG source_image) {
  Spot spot;
  spot.there = there;
  spot.d = at_d;
  spot.h = at_h;
  spot.w = at_w;
  spot.result = place.image * result_image + ((place.d * result_h + place.h) * result_w + place.w) * result_step;
  spot.source = place.image * source_image + (((CF_LONG)at_d * source_h + at_h) * source_w + at_w) * source_step;
  return spot;
}
#define SPOT(place, position)                                                                                     \
  spot_of(place, (position) < last, RESULT_H, RESULT_W, RESULT_POSITION_STEP, RESULT_IMAGE_STEP,                  \
          place.d * STRIDE_D - PAD_D, place.h * STRIDE_H - PAD_H, place.w * STRIDE_W - PAD_W, SOURCE_H, SOURCE_W, \
          SOURCE_POSITION_STEP, SOURCE_IMAGE_STEP)

// One-dimensional grid: row tiles * column tiles * parts * groups work-groups of THREADS items.
CF_KERNEL CF_WORK_GROUP_SIZE(THREADS, 1, 1) void igemm_gpu_weights(
    CF_GLOBAL const ELEMENT *x, CF_GLOBAL const ELEMENT *y, CF_GLOBAL RESULT_ELEMENT *result,
    CF_EPILOGUE_PARAMETERS, const int parts, GEOMETRY) {
  const Epilogue epilogue = CF_EPILOGUE(result);
  CF_LOCAL float a_tile[2][A_FLOATS] __attribute__((aligned(16)));
  CF_LOCAL float b_tile[2][B_FLOATS] __attribute__((aligned(16)));
  CF_LOCAL CF_LONG row_at[TILE_M], column_at[TILE_N];
#if GATHER == GATHER_CHANNELS
  CF_LOCAL Spot spots[3][TILE_K];  // of the last step, of this one and of the next
  int turn = 0;
#elif GATHER == GATHER_TABLE
  CF_LOCAL Column columns[TILE_N];
#endif

  const int row_tiles = (RESULT_CHANNELS + TILE_M - 1) / TILE_M, column_tiles = (COLUMNS + TILE_N - 1) / TILE_N;
  CF_UINT at = (CF_UINT)CF_GROUP_ID(0);
  const int m0 = (int)(at % row_tiles) * TILE_M;
  at /= row_tiles;
  const int n0 = (int)(at % column_tiles) * TILE_N;
  at /= column_tiles;
  const int part = at % parts, group = at / parts;

  const int item = (int)CF_LOCAL_ID(0);
  for (int i = item; i < TILE_M; i += THREADS)
    row_at[i] = m0 + i < RESULT_CHANNELS ? (CF_LONG)(m0 + i) * COLUMNS : -1;
  for (int i = item; i < TILE_N; i += THREADS) {
    const int column = n0 + i, channel = column % SOURCE_CHANNELS, tap = column / SOURCE_CHANNELS;
    const int moved = SPLIT || CHANNELS_LAST ? column : channel * TAPS + tap;
    column_at[i] = column < COLUMNS ? moved : -1;
#if GATHER == GATHER_TABLE
    columns[i] = COLUMN(column);
#endif
  }

  const int positions = IMAGES * RESULT_SPACE, steps = (positions + TILE_K - 1) / TILE_K;
  int step = (int)((CF_LONG)steps * part / parts);
  const int end = (int)((CF_LONG)steps * (part + 1) / parts), last = min(positions, end * TILE_K);
  const Place by = place_of(TILE_K, RESULT_D, RESULT_H, RESULT_W);
  int position = step * TILE_K + item % TILE_K;
  Place place = place_of(position, RESULT_D, RESULT_H, RESULT_W);

  y += (CF_LONG)group * RESULT_CHANNELS * RESULT_CHANNEL_STEP;
  x += (CF_LONG)group * SOURCE_CHANNELS * SOURCE_CHANNEL_STEP;
#if GATHER == GATHER_CHANNELS
  y += min(m0 + A_FIRST(item), RESULT_CHANNELS - 4);
#else
  y += (CF_LONG)min(m0 + A_FIRST(item), RESULT_CHANNELS - 1) * RESULT_CHANNEL_STEP;
  const int last_row = RESULT_CHANNELS - 1 - m0 - A_FIRST(item);
#endif
#if GATHER != GATHER_TABLE
  const Column column = COLUMN(n0 + B_FIRST(item));
  x += column.shift;
#endif

  VALUE sum[BLOCK_M][BLOCK_N];
  clear(sum);
  float a_part[A_READ], b_part[B_READ];
  const int m = first_row(item), n = first_column(item);
#if GATHER == GATHER_CHANNELS
#define NEXT_SPOT(slot)                                                                \
  do {                                                                                 \
    if (item < TILE_K) spots[slot][item] = SPOT(place, position);                      \
    position += TILE_K;                                                                \
    place = moved_place(place, by, RESULT_D, RESULT_H, RESULT_W);                      \
  } while (0)
  NEXT_SPOT(0);
  NEXT_SPOT(1);
  CF_BARRIER();
#else
  CF_BARRIER();
  Spot spot = SPOT(place, position);
#endif
  READ();
  put(a_tile[0], b_tile[0], a_part, b_part, item);
  // The reads of the next tile stand before the barrier, where they start early; the last ones find nothing.
  for (int now = 0; step < end; ++step) {
#if GATHER == GATHER_CHANNELS
    turn = turn == 2 ? 0 : turn + 1;
    READ();
    NEXT_SPOT(turn == 2 ? 0 : turn + 1);
#else
    position += TILE_K;
    place = moved_place(place, by, RESULT_D, RESULT_H, RESULT_W);
    spot = SPOT(place, position);
    READ();
#endif
    CF_BARRIER();
    multiply(sum, a_tile[now] + m, b_tile[now] + n, A_SKEW, B_SKEW);
    now ^= 1;
    put(a_tile[now], b_tile[now], a_part, b_part, item);
  }
  CF_BARRIER();

  result += (CF_LONG)group * RESULT_CHANNELS * COLUMNS;
  if (SPLIT) result += (CF_LONG)part * GROUPS * RESULT_CHANNELS * COLUMNS;
  store_tile(result, sum, row_at, column_at, 0, 0, item, epilogue);
}

#include "gpu_sum.cl"
