// Weight gradient with few channels a group on CPUs, channels last, and the sum of its parts.
//
// A work-item sums over a part of all rows of y, and leaves its sums as a part of the result. Lanes are
// neighbouring channels. ROWS x COLUMNS pixels of y at a time stay in registers, and so do the sums of a
// vector of channels; each vector that is read of x goes into all the sums that it meets. Several channels a group
// meet each other in turns: in turn t each source channel its own number XOR t, for which only pixels of y are
// exchanged between lanes.
#include "convfind_cpu_vector.h"
#include "window.h"
#include "cpu_lanes.h"

#ifndef CHUNK
#define CHUNK FILTER_H  // filter rows whose sums are in registers: 1..FILTER_H
#endif
#ifndef COLUMNS
#define COLUMNS 2       // neighbouring columns of y at a time: 1 and up
#endif
// CHANNELS and FILTERS are the same: 1, 2, 4 or 8; or CHANNELS is 1, and what is read of x goes into all lanes of
// its filters. ROWS are those of y at a time.
#define SPREAD (FILTERS / CHANNELS)  // lanes of a source channel

#define CHUNK_SPAN SPAN(ROWS, CHUNK, STRIDE_H, DILATION_H)
#define CHUNK_MEETS(o, r) MEET(o, r, CHUNK, STRIDE_H, DILATION_H)
#define COLUMN_SPAN SPAN(COLUMNS, FILTER_W, STRIDE_W, DILATION_W)
#define COLUMNS_MEET(p, j) MEET(p, j, FILTER_W, STRIDE_W, DILATION_W)
#define COLUMN_TAP(p, j) (DISTANCE(p, j, FILTER_W, STRIDE_W, DILATION_W) / DILATION_W)
// Rows of x and y that the next strip adds.
#define LINES_X (ROWS * STRIDE_H)
#define LINES_Y ROWS
#define BLOCK (CHANNELS * TAPS * VEC)  // floats of the sums of a vector of channels
#define FILTER_OF(lane, t) ((lane) ^ (t))
#include "cpu_weights_sum.h"

// A vector of lanes of x, of which the first `count` exist.
INLINE float16 load_source(const bool whole, __global const float *from, int count) {
#if SPREAD == 1
  return whole ? vload16(0, from) : load_part(from, count);
#else
  const float16 part = whole ? (float16)(0.0f) : load_part(from, min(count, VEC) / SPREAD);
#if SPREAD == 2
  return (whole ? vload8(0, from) : part.lo).s0011223344556677;
#elif SPREAD == 4
  return (whole ? vload4(0, from) : part.s0123).s0000111122223333;
#else
  const float2 two = whole ? vload2(0, from) : part.s01;
  return (float16)((float8)(two.s0), (float8)(two.s1));
#endif
#endif
}

// Adds pixels to sums of CHUNK filter rows from i0 on and turn t; `rows` and `rest`: how many rows and
// columns of y there are; `inside`: all that they take exists; `whole`: in whole vectors.
INLINE void add_pixels(float16 sum[CHUNK][FILTER_W], const bool inside, const bool whole,
                       __global const float *restrict x, __global const float *restrict y, int t, int i0, int row0,
                       int column0, int rows, int rest, int x_h, int x_w, int y_w, int channels, int count) {
  const int sources = channels / SPREAD;
  float16 gradient[ROWS][COLUMNS];
#pragma unroll
  for (int o = 0; o < ROWS; o++) {
#pragma unroll
    for (int p = 0; p < COLUMNS; p++) {
      gradient[o][p] = 0.0f;
      __global const float *from = y + (long)(o * y_w + p) * channels;
      if (inside || (o < rows && p < rest)) gradient[o][p] = whole ? vload16(0, from) : load_part(from, count);
      gradient[o][p] = exchange(gradient[o][p], t);
    }
  }
#pragma unroll
  for (int r = 0; r < CHUNK_SPAN; r++) {
    const int row = row0 + r;
    if (!inside && (row < 0 || row >= x_h)) continue;
    __global const float *from = x + ((long)row * x_w + column0) * sources;
#pragma unroll
    for (int j = 0; j < COLUMN_SPAN; j++) {
      float16 value = 0.0f;
      if (inside || (column0 + j >= 0 && column0 + j < x_w))
        value = load_source(whole, from + (long)j * sources, count);
#pragma unroll
      for (int o = 0; o < ROWS; o++) {
        if (!CHUNK_MEETS(o, r)) continue;
        const int i = DISTANCE(o, r, CHUNK, STRIDE_H, DILATION_H) / DILATION_H;
        if ((!inside && o >= rows) || i0 + i >= FILTER_H) continue;
#pragma unroll
        for (int p = 0; p < COLUMNS; p++)
          if (COLUMNS_MEET(p, j) && (inside || p < rest))
            sum[i][COLUMN_TAP(p, j)] = fma(value, gradient[o][p], sum[i][COLUMN_TAP(p, j)]);
      }
    }
  }
}

// Adds up rows of y for CHUNK filter rows from i0 on and turn t. A part of the next strip of x and y begins at next_x
// and next_y; it is fetched in the order in which it lies, since memory is slow in any other.
INLINE void add_rows(__global const float *restrict x, __global const float *restrict y, __global float *sums,
                     __global const float *next_x, __global const float *next_y, int t, int i0, int row0, int rows,
                     int pad_w, int x_h, int x_w, int y_w, int channels, int count) {
  float16 sum[CHUNK][FILTER_W];
#pragma unroll
  for (int i = 0; i < CHUNK; i++)
#pragma unroll
    for (int f = 0; f < FILTER_W; f++) sum[i][f] = vload16(min(i0 + i, FILTER_H - 1) * FILTER_W + f, sums);
  const bool rows_inside = row0 >= 0 && row0 + CHUNK_SPAN <= x_h && rows >= ROWS && i0 + CHUNK <= FILTER_H;
  for (int column = 0; column < y_w; column += COLUMNS) {
    const int column0 = column * STRIDE_W - pad_w, rest = y_w - column;
    if (t == 0 && i0 == 0) {
      fetch_lines(next_x + (long)column * STRIDE_W * LINES_X * VEC / SPREAD,
                  (COLUMNS * STRIDE_W * LINES_X + SPREAD - 1) / SPREAD);
      fetch_lines(next_y + (long)column * LINES_Y * VEC, COLUMNS * LINES_Y);
    }
    __global const float *gradient = y + (long)column * channels;
    if (count < VEC)
      add_pixels(sum, false, false, x, gradient, t, i0, row0, column0, rows, rest, x_h, x_w, y_w, channels, count);
    else if (rows_inside && column0 >= 0 && column0 + COLUMN_SPAN <= x_w && rest >= COLUMNS)
      add_pixels(sum, true, true, x, gradient, t, i0, row0, column0, rows, rest, x_h, x_w, y_w, channels, count);
    else if (rest >= COLUMNS)
      add_pixels(sum, false, true, x, gradient, t, i0, row0, column0, rows, COLUMNS, x_h, x_w, y_w, channels, count);
    else
      add_pixels(sum, false, true, x, gradient, t, i0, row0, column0, rows, rest, x_h, x_w, y_w, channels, count);
  }
#pragma unroll
  for (int i = 0; i < CHUNK; i++)
#pragma unroll
    for (int f = 0; f < FILTER_W; f++)
      if (i0 + i < FILTER_H) vstore16(sum[i][f], (i0 + i) * FILTER_W + f, sums);
}

// Global size: (parts); each takes `share` strips, ROWS rows of y of one image. A part is, for each vector of
// channels, turn and tap, a vector of sums.
__kernel ONE_ITEM void direct_cpu_weights(__global const float *restrict x, __global const float *restrict y,
                                          __global float *restrict parts, const int images, const int groups,
                                          const int x_h, const int x_w, const int y_h, const int y_w,
                                          const int pad_h, const int pad_w, const long share) {
  const int channels = groups * FILTERS, sources = channels / SPREAD, blocks = (channels + VEC - 1) / VEC;
  const int strips = (y_h + ROWS - 1) / ROWS;
  const long first = get_global_id(0) * share, last = min(first + share, (long)images * strips);
  parts += get_global_id(0) * blocks * BLOCK;
  for (long i = 0; i < (long)blocks * CHANNELS * TAPS; i++) vstore16((float16)(0.0f), i, parts);
  for (long strip = first; strip < last; strip++) {
    const long image = strip / strips;
    const int row = (int)(strip % strips) * ROWS, row0 = row * STRIDE_H - pad_h;
    __global const float *from = x + image * x_h * x_w * sources, *gradient = y + (image * y_h + row) * y_w * channels;
    __global const float *next_x = from + ((long)row0 + SPAN(ROWS, FILTER_H, STRIDE_H, DILATION_H)) * x_w * sources;
    __global const float *next_y = gradient + (long)ROWS * y_w * channels;
    for (int k = 0; k < channels; k += VEC, next_x += (long)LINES_X * x_w * VEC / SPREAD, next_y += (long)LINES_Y * y_w * VEC)
      for (int t = 0; t < CHANNELS; t++)
        for (int i = 0; i < FILTER_H; i += CHUNK)
          add_rows(from + k / SPREAD, gradient + k, parts + (long)k / VEC * BLOCK + t * TAPS * VEC, next_x, next_y, t, i,
                   row0 + i * DILATION_H, y_h - row, pad_w, x_h, x_w, y_w, channels, channels - k);
  }
}
