// Spectra of tiles as matrices on CPU devices, one for each point, and products of complex matrices.
//
//   values[point][tile][re, im][channel]  from a tensor, by fft_cpu_data
//
// Points lie a cache line more apart than they need, so that those of a tile do not meet in one set of a cache.
#ifndef CPU_MATRICES_H
#define CPU_MATRICES_H

#include "cpu_tile.h"

#ifndef ROWS
#define ROWS 6     // rows of the register tile: 2 to 6
#endif
#ifndef VECTORS
#define VECTORS 2  // vectors of filters of the register tile: 1, 2
#endif

#define PANEL (VECTORS * VEC)

// Tiles from the first one on; `gradient`: they take the filters' part in products. Global size: (tiles, blocks of 16
// channels of all groups).
__kernel ONE_ITEM void fft_cpu_data(__global const float *restrict x, __global float *restrict values, const int images,
                                    const int channels, const int height, const int width, const int first,
                                    const int tiles_h, const int tiles_w, const int step_h, const int step_w,
                                    const int pad_h, const int pad_w, const int rows, const int columns,
                                    const int pitch, const long point, const int gradient) {
  const int place = first + get_global_id(0), c = get_global_id(1) * VEC;
  const int n = place / (tiles_h * tiles_w), row = place / tiles_w % tiles_h, column_ = place % tiles_w;
  const Image image = {height, width, CHANNELS_LAST ? channels : 1, CHANNELS_LAST ? 1 : (long)height * width,
                       (long)images * channels * height * width};
  float16 tile[AREA], re[TILE], im[TILE];
  load_tile(tile, x, image, (long)n * channels * height * width + c * image.channel, row * step_h - pad_h,
            column_ * step_w - pad_w, rows, columns, channels - c);
  transform_rows(tile, rows);
  values += (long)get_global_id(0) * 2 * pitch + c;
  for (int column = 0; column <= HALF; column++) {
    transform_column(tile, column, re, im);
    __global float *to = values + FIRST_POINT(column) * point;
    for (int i = 0; i < (column % HALF ? TILE : EDGE_POINTS); i++) {
      const float weight = weight_of(column, i);
      vstore16(gradient ? re[i] * weight : re[i], 0, to + i * point);
      vstore16(gradient ? im[i] * -weight : im[i], 0, to + i * point + pitch);
    }
  }
}

// c (+)= a b: `rows` x PANEL complex numbers in registers; im lies a_im, b_im, c_im floats behind re.
INLINE void multiply(const int rows, int depth, __global const float *a, long a_row, long a_depth, long a_im,
                     __global const float *b, long b_depth, long b_im, __global float *c, long c_row, long c_im,
                     int add) {
  float16 re[ROWS][VECTORS], im[ROWS][VECTORS];
#pragma unroll
  for (int i = 0; i < rows; i++)
#pragma unroll
    for (int j = 0; j < VECTORS; j++) {
      re[i][j] = add ? vload16(j, c + i * c_row) : (float16)(0.0f);
      im[i][j] = add ? vload16(j, c + i * c_row + c_im) : (float16)(0.0f);
    }
  for (int d = 0; d < depth; d++) {
    float16 b_re[VECTORS], b_imag[VECTORS];
#pragma unroll
    for (int j = 0; j < VECTORS; j++) b_re[j] = vload16(j, b + d * b_depth), b_imag[j] = vload16(j, b + d * b_depth + b_im);
#pragma unroll
    for (int i = 0; i < rows; i++) {
      const float16 a_re = a[i * a_row + d * a_depth], a_imag = a[i * a_row + d * a_depth + a_im];
#pragma unroll
      for (int j = 0; j < VECTORS; j++) {
        re[i][j] = fma(a_re, b_re[j], re[i][j]);
        im[i][j] = fma(a_re, b_imag[j], im[i][j]);
        re[i][j] = fma(-a_imag, b_imag[j], re[i][j]);
        im[i][j] = fma(a_imag, b_re[j], im[i][j]);
      }
    }
  }
#pragma unroll
  for (int i = 0; i < rows; i++)
#pragma unroll
    for (int j = 0; j < VECTORS; j++) {
      vstore16(re[i][j], j, c + i * c_row);
      vstore16(im[i][j], j, c + i * c_row + c_im);
    }
}

// A panel of the result: all rows.
INLINE void multiply_rows(int rows, int depth, __global const float *a, long a_row, long a_depth, long a_im,
                          __global const float *b, long b_depth, long b_im, __global float *c, long c_row, long c_im,
                          int add) {
  int i = 0;
  for (; i + ROWS <= rows; i += ROWS)
    multiply(ROWS, depth, a + i * a_row, a_row, a_depth, a_im, b, b_depth, b_im, c + i * c_row, c_row, c_im, add);
  for (; i + 2 <= rows; i += 2)
    multiply(2, depth, a + i * a_row, a_row, a_depth, a_im, b, b_depth, b_im, c + i * c_row, c_row, c_im, add);
  if (i < rows)
    multiply(1, depth, a + i * a_row, a_row, a_depth, a_im, b, b_depth, b_im, c + i * c_row, c_row, c_im, add);
}

#endif  // CPU_MATRICES_H
