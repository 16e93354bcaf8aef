// FFT convolution of each channel by its own filter on CPU devices, overlap-save: a tile of 16 channels is transformed,
// multiplied and transformed back in private memory.
//
//   packed[block of 16 channels][point][re, im][channel]  from the weights, by fft_cpu_filter
//   result                                                by fft_cpu_depthwise
//
// Filters are conjugated, so that products belong to correlations.
#include "cpu_tile.h"

// Global size: (blocks of 16 channels).
__kernel ONE_ITEM void fft_cpu_filter(__global const float *restrict w, __global float *restrict packed,
                                      const int channels, const int rows, const int columns, const long w_channel,
                                      const long w_tap, const int flipped) {
  const int c = get_global_id(0) * VEC;
  float16 tile[AREA], re[TILE], im[TILE];
  load_window(tile, w + c * w_channel, rows, columns, min(VEC, channels - c), w_channel, w_tap, flipped);
  transform_rows(tile, rows);
  packed += (long)c * 2 * POINTS;
  for (int column = 0; column <= HALF; column++) {
    transform_column(tile, column, re, im);
    __global float *to = packed + FIRST_POINT(column) * 2 * VEC;
    for (int i = 0; i < (column % HALF ? TILE : EDGE_POINTS); i++) {
      const float weight = weight_of(column, i);
      vstore16(re[i] * weight, 2 * i, to);
      vstore16(im[i] * -weight, 2 * i + 1, to);
    }
  }
}

// Global size: (runs of `share` tiles, blocks of 16 channels).
__kernel ONE_ITEM void fft_cpu_depthwise(__global const float *restrict x, __global const float *restrict packed,
                                         __global float *restrict y, const int images, const int channels,
                                         const int x_h, const int x_w, const int y_h, const int y_w, const int tiles_h,
                                         const int tiles_w, const int step_h, const int step_w, const int pad_h,
                                         const int pad_w, CF_EPILOGUE_PARAMETERS, const int share) {
  const Epilogue epilogue = CF_EPILOGUE(y);
  const int c = get_global_id(1) * VEC, count = min(VEC, channels - c);
  const int first = get_global_id(0) * share, end = min(images * tiles_h * tiles_w, first + share);
  const Image source = {x_h, x_w, CHANNELS_LAST ? channels : 1, CHANNELS_LAST ? 1 : (long)x_h * x_w,
                        (long)images * channels * x_h * x_w};
  const Image result = {y_h, y_w, CHANNELS_LAST ? channels : 1, CHANNELS_LAST ? 1 : (long)y_h * y_w, 0};
  packed += (long)c * 2 * POINTS;
  float16 tile[AREA], re[TILE], im[TILE];
  for (int place = first; place < end; place++) {
    const int n = place / (tiles_h * tiles_w);
    const int top = place / tiles_w % tiles_h * step_h, left = place % tiles_w * step_w;
    load_tile(tile, x, source, (long)n * channels * x_h * x_w + c * source.channel, top - pad_h, left - pad_w, TILE,
              TILE, count);
    transform_rows(tile, TILE);
    for (int column = 0; column <= HALF; column++) {
      transform_column(tile, column, re, im);
      __global const float *filter = packed + FIRST_POINT(column) * 2 * VEC;
      for (int i = 0; i < (column % HALF ? TILE : EDGE_POINTS); i++) {
        const float16 a = re[i], b = im[i], u = vload16(2 * i, filter), v = vload16(2 * i + 1, filter);
        re[i] = fma(a, u, -b * v);
        im[i] = fma(a, v, b * u);
      }
      invert_column(re, im, column, tile);
    }
    store_rows(tile, y, result, (long)n * channels * y_h * y_w + c * result.channel, top, left, step_h, step_w, count,
               CF_EPILOGUE_FROM(epilogue, c));
  }
}
