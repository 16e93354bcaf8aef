// Weight gradient with few channels a group on CPUs, and the sum of its parts.
//
// A work-item sums over a part of all rows of y, and leaves its sums as a part of the result. Channels
// last, lanes are neighbouring channels; channels first, they are neighbouring columns, and the rows
// that x is read from are copied first, with zeros around them.
#include "convfind_cpu_vector.h"
#include "window.h"
#include "cpu_lanes.h"

#ifndef CHANNELS_LAST
#define CHANNELS_LAST 0     // 0: channels first; 1: channels last, CHANNELS and FILTERS the same: 1, 2, 4 or 8
#endif
#ifndef CHUNK
#define CHUNK FILTER_H      // filter rows whose sums are in registers: 1..FILTER_H
#endif
#ifndef COLUMNS
#define COLUMNS 4           // channels last: neighbouring columns of y at a time
#endif
#ifndef FILTERS_AT_ONCE
#define FILTERS_AT_ONCE 1   // channels first: divides FILTERS
#endif
#ifndef STRIP_FLOATS
#define STRIP_FLOATS 16384  // channels first: room for copied rows
#endif

#if CHANNELS_LAST
#define COLUMN_SPAN SPAN(COLUMNS, FILTER_W, STRIDE_W, DILATION_W)
#define COLUMNS_MEET(p, j) MEET(p, j, FILTER_W, STRIDE_W, DILATION_W)
#define COLUMN_TAP(p, j) (DISTANCE(p, j, FILTER_W, STRIDE_W, DILATION_W) / DILATION_W)
#define BLOCK (CHANNELS * TAPS * VEC)  // floats of the sums of a vector of channels

// Adds COLUMNS pixels to sums of CHUNK filter rows from i0 on and source channel c; `inside`: all that they take
// exists; `whole`: in whole vectors.
INLINE void add_pixels(float16 sum[CHUNK][FILTER_W], const bool inside, const bool whole,
                       __global const float *restrict x, __global const float *restrict y, int c, int i0, int row0,
                       int column0, int rest, int x_h, int x_w, int y_w, int channels, int count) {
  // The next rows are on their way: pixels of many channels are steps that the device does not foresee.
  if (inside && c == 0 && i0 == 0) {
    __global const float *below = x + ((long)(row0 + (FILTER_H - 1) * DILATION_H + 1) * x_w + column0) * channels;
#pragma unroll
    for (int p = 0; p < COLUMNS; p++) {
      PREFETCH(y + (long)(y_w + p) * channels);
#pragma unroll
      for (int j = 0; j < STRIDE_W; j++)
#pragma unroll
        for (int i = 0; i < STRIDE_H; i++) PREFETCH(below + (long)(i * x_w + p * STRIDE_W + j) * channels);
    }
  }
  float16 gradient[COLUMNS];
#pragma unroll
  for (int p = 0; p < COLUMNS; p++) {
    gradient[p] = 0.0f;
    if (inside || p < rest)
      gradient[p] = whole ? vload16(0, y + (long)p * channels) : load_part(y + (long)p * channels, count);
  }
#pragma unroll
  for (int i = 0; i < CHUNK; i++) {
    const int row = row0 + i * DILATION_H;
    if (row < 0 || row >= x_h || i0 + i >= FILTER_H) continue;
    __global const float *from = x + ((long)row * x_w + column0) * channels;
#pragma unroll
    for (int j = 0; j < COLUMN_SPAN; j++) {
      float16 value = 0.0f;
      if (inside || (column0 + j >= 0 && column0 + j < x_w))
        value = whole ? vload16(0, from + (long)j * channels) : load_part(from + (long)j * channels, count);
      value = channel_of(value, c);
#pragma unroll
      for (int p = 0; p < COLUMNS; p++)
        if (COLUMNS_MEET(p, j)) sum[i][COLUMN_TAP(p, j)] = fma(value, gradient[p], sum[i][COLUMN_TAP(p, j)]);
    }
  }
}

// Adds up a row of y for CHUNK filter rows from i0 on and source channel c.
INLINE void add_row(__global const float *restrict x, __global const float *restrict y, __global float *sums, int c,
                    int i0, int row0, int pad_w, int x_h, int x_w, int y_w, int channels, int count) {
  float16 sum[CHUNK][FILTER_W];
#pragma unroll
  for (int i = 0; i < CHUNK; i++)
#pragma unroll
    for (int f = 0; f < FILTER_W; f++) sum[i][f] = vload16(min(i0 + i, FILTER_H - 1) * FILTER_W + f, sums);
  for (int column = 0; column < y_w; column += COLUMNS) {
    const int column0 = column * STRIDE_W - pad_w, rest = y_w - column;
    __global const float *gradient = y + (long)column * channels;
    if (count < VEC)
      add_pixels(sum, false, false, x, gradient, c, i0, row0, column0, rest, x_h, x_w, y_w, channels, count);
    else if (column0 >= 0 && column0 + COLUMN_SPAN <= x_w && rest >= COLUMNS)
      add_pixels(sum, true, true, x, gradient, c, i0, row0, column0, rest, x_h, x_w, y_w, channels, count);
    else
      add_pixels(sum, false, true, x, gradient, c, i0, row0, column0, rest, x_h, x_w, y_w, channels, count);
  }
#pragma unroll
  for (int i = 0; i < CHUNK; i++)
#pragma unroll
    for (int f = 0; f < FILTER_W; f++)
      if (i0 + i < FILTER_H) vstore16(sum[i][f], (i0 + i) * FILTER_W + f, sums);
}

// Global size: (parts); each takes `share` rows of y of all images. A part is, for each vector of channels,
// source channel of the group and tap, a vector of sums.
__kernel ONE_ITEM void direct_cpu_weights(__global const float *restrict x, __global const float *restrict y,
                                          __global float *restrict parts, const int images, const int groups,
                                          const int x_h, const int x_w, const int y_h, const int y_w,
                                          const int pad_h, const int pad_w, const long share) {
  const int channels = groups * CHANNELS, blocks = (channels + VEC - 1) / VEC;
  const long rows = (long)images * y_h, first = get_global_id(0) * share;
  parts += get_global_id(0) * blocks * BLOCK;
  for (long i = 0; i < (long)blocks * CHANNELS * TAPS; i++) vstore16((float16)(0.0f), i, parts);
  for (long index = first; index < min(first + share, rows); index++) {
    const long image = index / y_h;
    const int row0 = (int)(index % y_h) * STRIDE_H - pad_h;
    __global const float *from = x + image * x_h * x_w * channels, *gradient = y + index * y_w * channels;
    for (int k = 0; k < channels; k += VEC)
      for (int c = 0; c < CHANNELS; c++)
        for (int i = 0; i < FILTER_H; i += CHUNK)
          add_row(from + k, gradient + k, parts + (long)k / VEC * BLOCK + c * TAPS * VEC, c, i,
                  row0 + i * DILATION_H, pad_w, x_h, x_w, y_w, channels, channels - k);
  }
}

// Global size: (vectors of channels).
__kernel ONE_ITEM void direct_cpu_sum(__global const float *restrict parts, __global float *restrict w,
                                      const float alpha, const float beta, const int groups, const int count) {
  const int channels = groups * CHANNELS, first = get_global_id(0) * VEC;
  const long size = (long)(channels + VEC - 1) / VEC * BLOCK;
  for (int c = 0; c < CHANNELS; c++) {
    for (int tap = 0; tap < TAPS; tap++) {
      float16 sum = 0.0f;
      for (int i = 0; i < count; i++)
        sum += vload16(c * TAPS + tap, parts + i * size + get_global_id(0) * BLOCK);
      float lanes[VEC];
      vstore16(alpha * sum, 0, lanes);
      for (int lane = 0; lane < min(VEC, channels - first); lane++) {
        __global float *to = w + ((long)(first + lane) * TAPS + tap) * CHANNELS + c;
        *to = beta != 0.0f ? fma(beta, *to, lanes[lane]) : lanes[lane];
      }
    }
  }
}

#else

#define TAP_AT(f, part) ((f) * DILATION_W % STRIDE_W * (part) + (f) * DILATION_W / STRIDE_W)
#include "cpu_rows.h"

#define LANES (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)

// Global size: (runs of `share` groups, parts of `span` images). A part lies like w. `band` rows of y at a
// time; a copied row is STRIDE_W times `part` floats.
__kernel ONE_ITEM void direct_cpu_weights(__global const float *restrict x, __global const float *restrict y,
                                          __global float *restrict parts, const int images, const int groups,
                                          const int x_h, const int x_w, const int y_h, const int y_w,
                                          const int pad_h, const int pad_w, const int share, const int span,
                                          const int band, const int part) {
  float rows[STRIP_FLOATS] __attribute__((aligned(64)));
  const int pitch = STRIDE_W * part, held = min(SPAN(band, FILTER_H, STRIDE_H, DILATION_H), x_h);
  const int first_image = get_global_id(1) * span, last_image = min(images, first_image + span);
  const bool overlaps = y_w >= VEC;
  parts += get_global_id(1) * groups * FILTERS * CHANNELS * TAPS;
  for (int i = 0; i < held * pitch; i += VEC) vstore16((float16)(0.0f), 0, rows + i);
  for (int source = get_global_id(0) * share * CHANNELS;
       source < min(groups, ((int)get_global_id(0) + 1) * share) * CHANNELS; source++) {
    const int group = source / CHANNELS;
    __global float *sums = parts + ((long)group * FILTERS * CHANNELS + source % CHANNELS) * TAPS;
    for (int k = 0; k < FILTERS; k++)
      for (int i = 0; i < TAPS; i++) sums[k * CHANNELS * TAPS + i] = 0.0f;
    for (int image = first_image; image < last_image; image++) {
      for (int top = 0; top < y_h; top += band) {
        const int above = top * STRIDE_H - pad_h, row0 = max(above, 0);
        const int row1 = min(above + SPAN(band, FILTER_H, STRIDE_H, DILATION_H), x_h), bottom = min(top + band, y_h);
        for (int row = row0; row < row1; row++)
          copy_row(rows + (row - row0) * pitch, x + (((long)image * groups * CHANNELS + source) * x_h + row) * x_w,
                   x_w, part, pad_w);
        for (int k = 0; k < FILTERS; k += FILTERS_AT_ONCE) {
          __global const float *gradient = y + (((long)image * groups + group) * FILTERS + k) * y_h * y_w;
          for (int i0 = 0; i0 < FILTER_H; i0 += CHUNK) {
            float16 sum[FILTERS_AT_ONCE][CHUNK][FILTER_W];
#pragma unroll
            for (int j = 0; j < FILTERS_AT_ONCE; j++)
#pragma unroll
              for (int i = 0; i < CHUNK; i++)
#pragma unroll
                for (int f = 0; f < FILTER_W; f++) sum[j][i][f] = 0.0f;
            for (int row = top; row < bottom; row++) {
              const int from = row * STRIDE_H - pad_h + i0 * DILATION_H;
              for (int next = 0; next < y_w; next += VEC) {
                // The last vector of a row overlaps its neighbour, with zeros where that counts.
                const int column = overlaps ? min(next, y_w - VEC) : next;
                float16 value[FILTERS_AT_ONCE];
#pragma unroll
                for (int j = 0; j < FILTERS_AT_ONCE; j++) {
                  __global const float *at = gradient + ((long)j * y_h + row) * y_w + column;
                  if (!overlaps)
                    value[j] = load_part(at, y_w - column);
                  else
                    value[j] = select((float16)(0.0f), vload16(0, at), LANES >= (int16)(next - column));
                }
                const float *line = rows + (from - row0) * pitch + column;
#pragma unroll
                for (int i = 0; i < CHUNK; i++) {
                  const int at = from + i * DILATION_H;
                  if (at < row0 || at >= row1 || i0 + i >= FILTER_H) continue;
#pragma unroll
                  for (int f = 0; f < FILTER_W; f++) {
                    const float16 tap = vload16(0, line + i * DILATION_H * pitch + TAP_AT(f, part));
#pragma unroll
                    for (int j = 0; j < FILTERS_AT_ONCE; j++) sum[j][i][f] = fma(tap, value[j], sum[j][i][f]);
                  }
                }
              }
            }
#pragma unroll
            for (int j = 0; j < FILTERS_AT_ONCE; j++) {
#pragma unroll
              for (int i = 0; i < CHUNK; i++) {
                if (i0 + i >= FILTER_H) continue;
#pragma unroll
                for (int f = 0; f < FILTER_W; f++) {
                  const float8 eight = sum[j][i][f].lo + sum[j][i][f].hi;
                  const float4 four = eight.lo + eight.hi;
                  sums[(k + j) * CHANNELS * TAPS + (i0 + i) * FILTER_W + f] += four.x + four.y + four.z + four.w;
                }
              }
            }
          }
        }
      }
    }
  }
}

// Global size: (runs of 16 weights).
__kernel ONE_ITEM void direct_cpu_sum(__global const float *restrict parts, __global float *restrict w,
                                      const float alpha, const float beta, const int groups, const int count) {
  const long size = (long)groups * FILTERS * CHANNELS * TAPS, at = get_global_id(0) * VEC;
  float16 sum = 0.0f;
  for (int i = 0; i < count; i++) sum += load_part(parts + i * size + at, (int)min(size - at, (long)VEC));
  store_part(alpha * sum, w + at, (int)min(size - at, (long)VEC), beta);
}
#endif
