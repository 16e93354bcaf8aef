// Convolution with few channels a group, channels last, on CPUs: forward and backward-data.
//
// A work-item computes rows of one image, ROWS x COLUMNS results of a vector of channels at a time. It
// walks down the source, and each vector that it reads goes into all the results that it meets. With
// CHANNELS of a group > 1 lanes take their channels out of the vector one after the other.
#include "convfind_cpu_vector.h"
#include "window.h"
#include "cpu_lanes.h"

#ifndef COLUMNS
#define COLUMNS 4   // neighbouring columns of the result; multiple of STRIDE_W with GRADIENT
#endif
#ifndef PARTIAL
#define PARTIAL 1   // whether channels are no multiple of VEC
#endif
#if defined(CF_Z) || defined(CF_Z_LAST)
#define HAS_Z  // a z, read as far as whole vectors of results go
#endif
#ifndef UNROLLED
#define UNROLLED 1  // 0: filter rows are a loop
#endif
// CHANNELS and FILTERS are the same: 1, 2, 4 or 8; or, of a gradient, FILTERS is 1: then lanes are source channels
// to the end, where those of a group are added up.
#define FOLD (CHANNELS / FILTERS)   // lanes that are one result
#define TURNS (CHANNELS / FOLD)     // source channels that a lane meets

#define COLUMN_SPAN SPAN(COLUMNS, FILTER_W, STRIDE_W, DILATION_W)
// The source column, of those that a tile takes, where result p finds tap f; whether there is one.
#define COLUMN_OF(p, f)                                                                                       \
  (GRADIENT ? REACH(FILTER_W, STRIDE_W, DILATION_W) + ((p) - (f) * DILATION_W) / STRIDE_W \
            : (p) * STRIDE_W + (f) * DILATION_W)
#define HAS_TAP(p, f) (!GRADIENT || ((p) - (f) * DILATION_W) % STRIDE_W == 0)
#define CACHED_FLOATS 262144  // larger images are in no cache of a core
#define COLUMN_STEP (GRADIENT ? COLUMNS / STRIDE_W : COLUMNS * STRIDE_W)  // source columns from tile to tile
// A multiple of these, less the shift, begins a tile.
#define STEP_H (GRADIENT ? STRIDE_H : 1)
#define STEP_W (GRADIENT ? STRIDE_W : 1)
#define RUN 96  // channels of these that stay in the level-1 cache from tile to tile: multiple of VEC
#define BLOCK (TURNS * TAPS * VEC)  // floats of the weights of a vector of channels

// Weights as vector of lanes, source channel of the group, tap, lane; zeros behind the last.
// w lies as output channel, tap, input channel of the group. Global size: (vectors of channels).
__kernel ONE_ITEM void direct_cpu_pack(__global const float *restrict w, __global float *restrict packed,
                                       const int channels) {
  const int first = get_global_id(0) * VEC;
  packed += (long)get_global_id(0) * BLOCK;
#if GRADIENT && TURNS > 1
  for (int lane = 0; lane < VEC; lane++) {
    const int k = first + lane;
    __global const float *from = w + (long)(k / TURNS * TURNS) * TAPS * TURNS + k % TURNS;
    for (int c = 0; c < TURNS; c++)
      for (int tap = 0; tap < TAPS; tap++)
        packed[(c * TAPS + tap) * VEC + lane] = k < channels ? from[(c * TAPS + tap) * TURNS] : 0.0f;
  }
#else
  const long size = (long)channels * TAPS * TURNS;
  for (int next = 0; next < TAPS * TURNS; next += VEC) {
    float16 line[VEC];
#pragma unroll
    for (int i = 0; i < VEC; i++) {
      const long at = (long)(first + i) * TAPS * TURNS + next;
      line[i] = load_part(w + at, (int)min(size - at, (long)VEC));
    }
    transpose(line);
#pragma unroll
    for (int i = 0; i < VEC; i++) {
      const int at = next + i;
      if (at < TAPS * TURNS) vstore16(line[i], at % TURNS * TAPS + at / TURNS, packed);
    }
  }
#endif
}

// Adds what source row r, of those that a tile takes, is in the tile's results.
INLINE void add(float16 sum[ROWS][COLUMNS], const float16 *value, __global const float *packed, const int r) {
#pragma unroll
  for (int c = 0; c < TURNS; c++) {
    float16 part[COLUMN_SPAN];
#pragma unroll
    for (int j = 0; j < COLUMN_SPAN; j++) part[j] = TURNS == 1 ? value[j] : channel_of(value[j], c);
#pragma unroll
    for (int o = 0; o < ROWS; o++) {
      if (!ROWS_MEET(o, r)) continue;
#pragma unroll
      for (int f = 0; f < FILTER_W; f++) {
        const float16 weight = vload16(c * TAPS + ROW_TAP(o, r) * FILTER_W + f, packed);
#pragma unroll
        for (int p = 0; p < COLUMNS; p++)
          if (HAS_TAP(p, f)) sum[o][p] = fma(part[COLUMN_OF(p, f)], weight, sum[o][p]);
      }
    }
  }
}

// What lanes of sums are together, of which the first `count` exist.
INLINE void store_folded(float16 sum, __global float *y, int count, float16 bias, const Epilogue epilogue) {
#if FOLD == 1
  store_part(sum, y, count, bias, epilogue);
#else
  const float8 two = sum.even + sum.odd;
  const float4 four = two.even + two.odd;
#if FOLD == 2
  const float16 folded = (float16)(two, two);
#elif FOLD == 4
  const float16 folded = (float16)(four, four, four, four);
#else
  const float16 folded = (four.even + four.odd).s0101010101010101;
#endif
#ifdef HAS_Z
  const bool is_plain = false;
#else
  const bool is_plain = !CF_READS_RESULT(epilogue);
#endif
  if (count < VEC || !is_plain) {
    store_part(folded, y, min(count, VEC) / FOLD, bias, epilogue);
    return;
  }
  const float16 value = finished(BIASED(folded, bias, epilogue), y, VEC / FOLD, epilogue);
  if (FOLD == 2) vstore8(value.lo, 0, y);
  if (FOLD == 4) vstore4(value.s0123, 0, y);
  if (FOLD == 8) vstore2(value.s01, 0, y);
#endif
}

// Results from (row, column) on; `inside`: all that they take exists; `whole`: all of them do, they are only written, and
// whole vectors can be read and written; `far`: what the next tile reads and writes is fetched ahead. Behind less than a
// vector of channels the next pixel is written, too, but not where the last column `ends` a row.
INLINE void tile(const bool inside, const bool whole, const bool far, __global const float *restrict x,
                 __global const float *restrict packed, __global float *restrict y, int row, int column, int x_h,
                 int x_w, long x_row, long y_row, int channels, int count, bool ends, int r_h, int r_w,
                 const Epilogue epilogue, int pad_h, int pad_w) {
  const int results = channels / FOLD;
  const int row0 = SOURCE_OF(row, pad_h, FILTER_H, STRIDE_H, DILATION_H);
  const int column0 = SOURCE_OF(column, pad_w, FILTER_W, STRIDE_W, DILATION_W);
  if (far && TAPS <= 9) {
    // Lines that are written wait for their old contents, too; of larger filters they come in time.
#pragma unroll
    for (int o = 0; o < ROWS; o++)
#pragma unroll
      for (int p = 0; p < COLUMNS; p++) PREFETCH(y + (row + o) * y_row + (long)(column + COLUMNS + p) * results);
  }
  float16 sum[ROWS][COLUMNS];
#pragma unroll
  for (int o = 0; o < ROWS; o++)
#pragma unroll
    for (int p = 0; p < COLUMNS; p++) sum[o][p] = 0.0f;
#if UNROLLED
#pragma unroll
  for (int r = 0; r < ROW_SPAN; r++) {
    if (!inside && (row0 + r < 0 || row0 + r >= x_h)) continue;
    __global const float *from = x + (row0 + r) * x_row + (long)column0 * channels;
    // A column that exists.
    const int j0 = clamp(column0, 0, x_w - 1) - column0;
    float16 value[COLUMN_SPAN];
#pragma unroll
    for (int j = 0; j < COLUMN_SPAN; j++) {
      if (inside) {
        value[j] = vload16(0, from + (long)j * channels);
      } else {
        const bool exists = column0 + j >= 0 && column0 + j < x_w;
        __global const float *at = from + (long)(exists ? j : j0) * channels;
        const float16 found = whole ? vload16(0, at) : load_part(at, count);
        value[j] = exists ? found : (float16)(0.0f);
      }
    }
    if (far) {
#pragma unroll
      for (int j = 0; j < COLUMN_STEP; j++) PREFETCH(from + (long)(COLUMN_SPAN + j) * channels);
    }
    add(sum, value, packed, r);
  }
#else
  for (int i = 0; i < FILTER_H; i++) {
    for (int o = 0; o < ROWS; o++) {
      const int offset = o + REACH(FILTER_H, STRIDE_H, DILATION_H) * STRIDE_H - i * DILATION_H;
      const int r = GRADIENT ? offset / STRIDE_H : o * STRIDE_H + i * DILATION_H;
      if (row0 + r < 0 || row0 + r >= x_h || (GRADIENT && offset % STRIDE_H != 0)) continue;
      __global const float *from = x + (row0 + r) * x_row + (long)column0 * channels;
      for (int j = 0; j < COLUMN_SPAN; j++) {
        if (column0 + j < 0 || column0 + j >= x_w) continue;
        const float16 value = load_part(from + (long)j * channels, count);
#pragma unroll
        for (int p = 0; p < COLUMNS; p++) {
          const int distance =
              GRADIENT ? p + (REACH(FILTER_W, STRIDE_W, DILATION_W) - j) * STRIDE_W : j - p * STRIDE_W;
          if (distance < 0 || distance % DILATION_W != 0 || distance / DILATION_W >= FILTER_W) continue;
          for (int c = 0; c < TURNS; c++)
            sum[o][p] = fma(TURNS == 1 ? value : channel_of(value, c),
                            vload16(c * TAPS + i * FILTER_W + distance / DILATION_W, packed), sum[o][p]);
        }
      }
    }
  }
#endif
  y += row * y_row + (long)column * results;
  if (whole && FOLD == 1) {
    const float16 bias = !PARTIAL || count == VEC ? biases_of(epilogue, 0, VEC) : biases_of(epilogue, 0, count);
#pragma unroll
    for (int o = 0; o < ROWS; o++)
#pragma unroll
      for (int p = 0; p < COLUMNS; p++) {
        __global float *to = y + o * y_row + (long)p * channels;
        const float16 result = result_of(sum[o][p], to, bias, epilogue);
        if (PARTIAL && p == COLUMNS - 1 && ends)
          put_part(result, to, count);
        else
          vstore16(result, 0, to);
      }
    return;
  }
  const float16 bias = biases_of(epilogue, 0, count / FOLD);
  // Loops: compilers would sink the sums of each result to where it is stored.
  float16 kept[ROWS][COLUMNS];
#pragma unroll
  for (int o = 0; o < ROWS; o++)
#pragma unroll
    for (int p = 0; p < COLUMNS; p++) kept[o][p] = sum[o][p];
#pragma unroll 1
  for (int o = max(0, -row); o < min(ROWS, r_h - row); o++)
#pragma unroll 1
    for (int p = max(0, -column); p < min(COLUMNS, r_w - column); p++)
      store_folded(kept[o][p], y + o * y_row + (long)p * results, count, bias, epilogue);
}

// Global size: (images, bands of `strips` times ROWS rows). `channels` are those of all groups; x is the
// source, y the result.
__kernel ONE_ITEM void direct_cpu_pixels(__global const float *restrict x, __global const float *restrict packed,
                                         __global float *restrict y, CF_EPILOGUE_PARAMETERS,
                                         const int channels, const int x_h, const int x_w, const int r_h,
                                         const int r_w, const int pad_h, const int pad_w, const int shift_h,
                                         const int shift_w, const int strips) {
  const Epilogue epilogue = CF_EPILOGUE(y);
  const long x_row = (long)x_w * channels, y_row = (long)r_w * (channels / FOLD);
  const long left = (get_global_size(0) - get_global_id(0)) * x_h * x_row;
#ifdef HAS_Z
  const long y_left = (get_global_size(0) - get_global_id(0)) * r_h * y_row;
#endif
  x += get_global_id(0) * x_h * x_row;
  y += get_global_id(0) * r_h * y_row;
  const bool far = x_h * x_row > CACHED_FLOATS;
  const int step = far ? RUN : channels;
  // Where y is only written, the last tiles overlap their neighbours.
  const bool overlaps = !CF_READS_RESULT(epilogue) && STEP_H == 1 && STEP_W == 1 && r_h >= ROWS && r_w >= COLUMNS;
  for (int strip = get_global_id(1) * strips; strip < ((int)get_global_id(1) + 1) * strips; strip++) {
    const int next_row = strip * ROWS - shift_h;
    if (next_row >= r_h) break;
    const int row = overlaps ? min(next_row, r_h - ROWS) : next_row;
    const int row0 = SOURCE_OF(row, pad_h, FILTER_H, STRIDE_H, DILATION_H);
    const bool rows_inside = row0 >= 0 && row0 + ROW_SPAN <= x_h;
    const bool rows_exist = !CF_READS_RESULT(epilogue) && row >= 0 && row + ROWS <= r_h;
    // The first channels come later, and overwrite what is written behind the last ones.
    const int last_run = (channels - 1) / step * step;
    for (int done = 0; done <= last_run; done += step) {
      const int run = PARTIAL ? last_run - done : done, last = (min(run + step, channels) - 1) / VEC * VEC;
      for (int next = -shift_w; next < r_w; next += COLUMNS) {
        const int column = overlaps ? min(next, r_w - COLUMNS) : next;
        const int column0 = SOURCE_OF(column, pad_w, FILTER_W, STRIDE_W, DILATION_W);
        const bool inside = rows_inside && column0 >= 0 && column0 + COLUMN_SPAN <= x_w;
        const bool exists = rows_exist && column >= 0 && column + COLUMNS <= r_w;
        // The furthest pixel that is read.
        const long columns_read = max(min(column0 + COLUMN_SPAN, x_w), 1);
        const long furthest = min(row0 + ROW_SPAN, x_h) * x_row - (x_w + 1 - columns_read) * channels;
        for (int ahead = last - run; ahead >= 0; ahead -= VEC) {
          const int k = PARTIAL ? run + ahead : last - ahead, count = PARTIAL ? min(channels - k, VEC) : VEC;
          bool whole = exists && (!PARTIAL || (furthest + k + VEC <= left && VEC - count <= channels));
#ifdef HAS_Z
          whole &= !PARTIAL || (row + ROWS - 1) * y_row + (column + COLUMNS - 1L) * channels + k + VEC <= y_left;
#endif
          const bool ends = count < VEC && column + COLUMNS == r_w;
          __global const float *weights = packed + (long)k / VEC * BLOCK;
          const Epilogue own = CF_EPILOGUE_FROM(epilogue, k / FOLD);
          if (inside && whole)
            tile(true, true, far, x + k, weights, y + k / FOLD, row, column, x_h, x_w, x_row, y_row, channels, count, ends,
                 r_h, r_w, own, pad_h, pad_w);
          else if (whole)
            tile(false, true, far, x + k, weights, y + k / FOLD, row, column, x_h, x_w, x_row, y_row, channels, count, ends,
                 r_h, r_w, own, pad_h, pad_w);
          else
            tile(false, false, far, x + k, weights, y + k / FOLD, row, column, x_h, x_w, x_row, y_row, channels, count, ends,
                 r_h, r_w, own, pad_h, pad_w);
        }
      }
    }
  }
}
