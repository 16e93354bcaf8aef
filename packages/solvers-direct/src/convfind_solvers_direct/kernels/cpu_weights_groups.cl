// Weight gradient of groups of 8 channels on CPUs, channels last, and the sum of its parts.
//
// A work-item sums over a part of all bands of y, and leaves its sums as a part of the result. Vectors are the source
// channels of a group; an element of y goes into the sums of its filter. The pixels of two groups, a line of the
// cache, are copied first, with zeros around x: channels last they lie apart by a power of two as often as not, and
// meet in few places of the cache.
#ifndef CHANNELS
#define CHANNELS 8  // a vector of the narrowest registers, and no other number
#define FILTERS 8
#endif
#include "convfind_cpu_vector.h"
#include "window.h"
#include "cpu_lanes.h"

#ifndef FILTERS_AT_ONCE
#define FILTERS_AT_ONCE 4   // whose sums are in registers: divides FILTERS
#endif
#ifndef STRIP_FLOATS
#define STRIP_FLOATS 16384  // room for copied pixels
#endif

#define BLOCK (FILTERS * TAPS * VEC)  // floats of the sums of two groups
#define FILTER_OF(lane, t) ((lane) / CHANNELS * CHANNELS + (t))
#include "cpu_weights_sum.h"

// Copies neighbouring pixels of two groups, or of the last one.
INLINE void copy_pixels(float *to, __global const float *from, int pixels, int channels, const bool both) {
  for (int i = 0; i < pixels; i++, to += VEC, from += channels) {
    if (both)
      vstore16(vload16(0, from), 0, to);
    else
      vstore8(vload8(0, from), 0, to);
  }
}

INLINE void clear_pixels(float *to, int pixels) {
  for (int i = 0; i < pixels; i++) vstore16((float16)(0.0f), i, to);
}

// `rows` rows of x from row0 on, `columns` columns from -pad_w on; zeros outside of the image.
INLINE void copy_band(float *to, __global const float *x, int row0, int rows, int columns, int pad_w, int x_h, int x_w,
                      int channels, const bool both) {
  const int left = min(pad_w, columns), inside = clamp(columns - pad_w, 0, x_w);
  for (int row = row0; row < row0 + rows; row++, to += columns * VEC) {
    if (row < 0 || row >= x_h) {
      clear_pixels(to, columns);
      continue;
    }
    clear_pixels(to, left);
    copy_pixels(to + left * VEC, x + (long)row * x_w * channels, inside, channels, both);
    clear_pixels(to + (left + inside) * VEC, columns - left - inside);
  }
}

// Adds a band to the sums of FILTERS_AT_ONCE filters and a row of taps. If `fetches`, lines of x and y, pixel by pixel
// from next_x and next_y on, are needed later.
INLINE void add_band(__global float *sums, const bool fetches, const float *x, const float *y, int rows, int columns,
                     int pitch, __global const float *next_x, __global const float *next_y, int x_w, int channels) {
  float8 sum[FILTERS_AT_ONCE][FILTER_W];
#pragma unroll
  for (int j = 0; j < FILTERS_AT_ONCE; j++)
#pragma unroll
    for (int f = 0; f < FILTER_W; f++) sum[j][f] = vload8(0, sums + (j * TAPS + f) * VEC);
  for (int row = 0; row < rows; row++, x += STRIDE_H * pitch * VEC, y += columns * VEC) {
    for (int column = 0; column < columns; column++) {
      if (fetches) {
        fetch_lines(next_x + ((long)row * STRIDE_H * x_w + column * STRIDE_W) * channels, 1);
        fetch_lines(next_y + ((long)row * columns + column) * channels, 1);
      }
      float8 tap[FILTER_W];
#pragma unroll
      for (int f = 0; f < FILTER_W; f++) tap[f] = vload8(0, x + (column * STRIDE_W + f * DILATION_W) * VEC);
#pragma unroll
      for (int j = 0; j < FILTERS_AT_ONCE; j++) {
        const float8 gradient = y[column * VEC + j];
#pragma unroll
        for (int f = 0; f < FILTER_W; f++) sum[j][f] = fma(tap[f], gradient, sum[j][f]);
      }
    }
  }
#pragma unroll
  for (int j = 0; j < FILTERS_AT_ONCE; j++)
#pragma unroll
    for (int f = 0; f < FILTER_W; f++) vstore8(sum[j][f], 0, sums + (j * TAPS + f) * VEC);
}

// Global size: (parts); each takes `share` bands, `band` rows of y of one image. A part is, for two groups, each
// filter and tap, a vector of sums.
__kernel ONE_ITEM void direct_cpu_weights(__global const float *restrict x, __global const float *restrict y,
                                          __global float *restrict parts, const int images, const int groups,
                                          const int x_h, const int x_w, const int y_h, const int y_w,
                                          const int pad_h, const int pad_w, const long share, const int band) {
  float copied[STRIP_FLOATS] __attribute__((aligned(64)));
  const int channels = groups * CHANNELS, blocks = (channels + VEC - 1) / VEC;
  const int pitch = SPAN(y_w, FILTER_W, STRIDE_W, DILATION_W), bands = (y_h + band - 1) / band;
  const long first = get_global_id(0) * share, last = min(first + share, (long)images * bands);
  parts += get_global_id(0) * blocks * BLOCK;
  for (long i = 0; i < (long)blocks * FILTERS * TAPS; i++) vstore16((float16)(0.0f), i, parts);
  for (long at = first; at < last; at++) {
    const long image = at / bands;
    const int top = (int)(at % bands) * band, rows = min(band, y_h - top), row0 = top * STRIDE_H - pad_h;
    const int span = SPAN(rows, FILTER_H, STRIDE_H, DILATION_H);
    float *gradients = copied + span * pitch * VEC;
    for (int block = 0; block < blocks; block++) {
      __global const float *from = x + image * x_h * x_w * channels + block * VEC;
      __global const float *gradient = y + (image * y_h + top) * y_w * channels + block * VEC;
      __global const float *next_x = from + (long)max(row0, 0) * x_w * channels + VEC, *next_y = gradient + VEC;
      const bool both = channels - block * VEC >= VEC;
      if (both) {
        copy_band(copied, from, row0, span, pitch, pad_w, x_h, x_w, channels, true);
        copy_pixels(gradients, gradient, rows * y_w, channels, true);
      } else {
        copy_band(copied, from, row0, span, pitch, pad_w, x_h, x_w, channels, false);
        copy_pixels(gradients, gradient, rows * y_w, channels, false);
      }
      for (int lane = 0; lane < (both ? VEC : CHANNELS); lane += CHANNELS) {
        for (int i = 0; i < FILTER_H; i++) {
          for (int k = 0; k < FILTERS; k += FILTERS_AT_ONCE) {
            __global float *sums = parts + (long)block * BLOCK + (k * TAPS + i * FILTER_W) * VEC + lane;
            const float *line = copied + i * DILATION_H * pitch * VEC + lane, *values = gradients + lane + k;
            if (lane == 0 && i == 0 && k == 0)
              add_band(sums, true, line, values, rows, y_w, pitch, next_x, next_y, x_w, channels);
            else
              add_band(sums, false, line, values, rows, y_w, pitch, next_x, next_y, x_w, channels);
          }
        }
      }
    }
  }
}
