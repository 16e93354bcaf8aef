// The weight gradient by FFT of depthwise convolution on CPU devices, overlap-save.
//
//   sums[run of tiles][block of 16 channels][point][re, im][channel]  by fft_cpu_depthwise_sum
//   w                                                                 from the sums, by fft_cpu_weights
//
// Tiles of y are as large as their results in a forward convolution; the rest is zero.
#include "cpu_tile.h"

// Global size: (runs of `share` tiles, blocks of 16 channels).
__kernel ONE_ITEM void fft_cpu_depthwise_sum(__global const float *restrict x, __global const float *restrict y,
                                             __global float *restrict sums, const int images, const int channels,
                                             const int x_h, const int x_w, const int y_h, const int y_w,
                                             const int tiles_h, const int tiles_w, const int step_h, const int step_w,
                                             const int pad_h, const int pad_w, const int share) {
  const int c = get_global_id(1) * VEC, count = min(VEC, channels - c);
  const int first = get_global_id(0) * share, end = min(images * tiles_h * tiles_w, first + share);
  const Image data = {x_h, x_w, CHANNELS_LAST ? channels : 1, CHANNELS_LAST ? 1 : (long)x_h * x_w,
                      (long)images * channels * x_h * x_w};
  const Image gradient = {y_h, y_w, CHANNELS_LAST ? channels : 1, CHANNELS_LAST ? 1 : (long)y_h * y_w,
                          (long)images * channels * y_h * y_w};
  sums += (get_global_id(0) * get_global_size(1) + get_global_id(1)) * POINTS * 2 * VEC;
  float16 left_tile[AREA], right_tile[AREA], re[TILE], im[TILE], other_re[TILE], other_im[TILE];
  for (int place = first; place < end; place++) {
    const int n = place / (tiles_h * tiles_w);
    const int top = place / tiles_w % tiles_h * step_h, left = place % tiles_w * step_w;
    load_tile(left_tile, x, data, (long)n * channels * x_h * x_w + c * data.channel, top - pad_h, left - pad_w, TILE,
              TILE, count);
    load_tile(right_tile, y, gradient, (long)n * channels * y_h * y_w + c * gradient.channel, top, left, step_h, step_w,
              count);
    transform_rows(left_tile, TILE);
    transform_rows(right_tile, step_h);
    for (int column = 0; column <= HALF; column++) {
      transform_column(left_tile, column, re, im);
      transform_column(right_tile, column, other_re, other_im);
      __global float *to = sums + FIRST_POINT(column) * 2 * VEC;
      for (int i = 0; i < (column % HALF ? TILE : EDGE_POINTS); i++) {
        float16 sum_re = place > first ? vload16(2 * i, to) : (float16)(0.0f);
        float16 sum_im = place > first ? vload16(2 * i + 1, to) : (float16)(0.0f);
        sum_re = fma(re[i], other_re[i], fma(im[i], other_im[i], sum_re));
        sum_im = fma(im[i], other_re[i], fma(-re[i], other_im[i], sum_im));
        vstore16(sum_re, 2 * i, to);
        vstore16(sum_im, 2 * i + 1, to);
      }
    }
  }
}

// Global size: (blocks of 16 channels).
__kernel ONE_ITEM void fft_cpu_weights(__global const float *restrict sums, __global float *restrict w,
                                       CF_EPILOGUE_PARAMETERS, const int runs, const int channels,
                                       const int rows, const int columns, const long w_channel, const long w_tap) {
  const Epilogue epilogue = CF_EPILOGUE(w), rest = cf_epilogue_of_scaled(epilogue);
  const int c = get_global_id(0) * VEC;
  const long step = (long)get_global_size(0) * POINTS * 2 * VEC;
  float16 tile[AREA], re[TILE], im[TILE], line[TILE];
  sums += (long)get_global_id(0) * POINTS * 2 * VEC;
  for (int column = 0; column <= HALF; column++) {
    __global const float *from = sums + FIRST_POINT(column) * 2 * VEC;
    for (int i = 0; i < (column % HALF ? TILE : EDGE_POINTS); i++) {
      re[i] = im[i] = 0.0f;
      for (int run = 0; run < runs; run++) {
        re[i] += vload16(2 * i, from + run * step);
        im[i] += vload16(2 * i + 1, from + run * step);
      }
      re[i] *= weight_of(column, i);
      im[i] *= weight_of(column, i);
    }
    invert_column(re, im, column, tile);
  }
  w += c * w_channel;
  for (int i = 0; i < rows; i++) {
    fft_adjoint(tile + i * LINE, tile + i * LINE + HALF, 1, line, 1);
    for (int j = 0; j < columns; j++) {
      float part[VEC];
      vstore16(line[j] * epilogue.alpha, 0, part);
      __global float *to = w + (i * columns + j) * w_tap;
      for (int e = 0; e < min(VEC, channels - c); e++) CF_STORE_RESULT(FLOAT32, to + e * w_channel, 0, part[e], rest);
    }
  }
}
