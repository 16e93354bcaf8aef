// FFT convolution on CPU devices, overlap-save: tiles of the source, filters and products lie in memory as spectra.
//
//   values[point][tile][re, im][channel]                  from the source, by fft_cpu_data
//   packed[group][point][panel][channel][re, im][filter]  from the weights, by fft_cpu_filter
//   sums[point][tile][re, im][filter] = values packed     a complex matrix product for each point and group
//   result                                                from the sums, by fft_cpu_result
//
// Filters are conjugated, so that products belong to correlations. Points lie a cache line more apart than they need,
// so that those of a tile do not meet in one set of a cache.
#include "cpu_matrices.h"

// Global size: (vectors of filters, filled up to panels; blocks of 16 channels; groups).
__kernel ONE_ITEM void fft_cpu_filter(__global const float *restrict w, __global float *restrict packed,
                                      const int filters, const int channels, const int rows, const int columns,
                                      const long point, const long w_group, const long w_filter, const long w_channel,
                                      const long w_tap, const int flipped) {
  const int k = get_global_id(0) * VEC, group = get_global_id(2);
  float16 tile[AREA], re[TILE], im[TILE];
  packed += group * POINTS * point + (long)(k / PANEL) * channels * 2 * PANEL + k % PANEL;
  w += group * w_group + k * w_filter;
  const int end = min(channels, (int)get_global_id(1) * VEC + VEC);
  for (int c = get_global_id(1) * VEC; c < end; c++) {
    load_window(tile, w + c * w_channel, rows, columns, min(VEC, filters - k), w_filter, w_tap, flipped);
    transform_rows(tile, rows);
    for (int column = 0; column <= HALF; column++) {
      transform_column(tile, column, re, im);
      __global float *to = packed + FIRST_POINT(column) * point + c * 2 * PANEL;
      for (int i = 0; i < (column % HALF ? TILE : EDGE_POINTS); i++) {
        const float weight = weight_of(column, i);
        vstore16(re[i] * weight, 0, to + i * point);
        vstore16(im[i] * -weight, 0, to + i * point + PANEL);
      }
    }
  }
}

// The last panel of a group may reach into the next group's sums, which come later. Global size: (POINTS).
__kernel ONE_ITEM void fft_cpu_product(__global const float *restrict values, __global const float *restrict packed,
                                       __global float *restrict sums, const int tiles, const int groups,
                                       const int channels, const int filters, const int pitch, const int sums_pitch,
                                       const long values_point, const long packed_point, const long sums_point) {
  const long p = get_global_id(0);
  values += p * values_point;
  sums += p * sums_point;
  for (int group = 0; group < groups; group++)
    for (int k = 0; k < filters; k += PANEL)
      multiply_rows(tiles, channels, values + group * channels, 2 * pitch, 1, pitch,
                    packed + (group * POINTS + p) * packed_point + (long)k * channels * 2, 2 * PANEL, PANEL,
                    sums + group * filters + k, 2 * sums_pitch, sums_pitch, 0);
}

// Global size: (tiles, vectors of filters of all groups).
__kernel ONE_ITEM void fft_cpu_result(__global const float *restrict sums, __global float *restrict y,
                                      CF_EPILOGUE_PARAMETERS, const int filters, const int height, const int width,
                                      const int first, const int tiles_h, const int tiles_w, const int step_h,
                                      const int step_w, const int pitch, const long point) {
  const Epilogue epilogue = CF_EPILOGUE(y);
  const int place = first + get_global_id(0), k = get_global_id(1) * VEC;
  const int n = place / (tiles_h * tiles_w), row = place / tiles_w % tiles_h, column_ = place % tiles_w;
  float16 tile[AREA], re[TILE], im[TILE];
  sums += (long)get_global_id(0) * 2 * pitch + k;
  for (int column = 0; column <= HALF; column++) {
    __global const float *from = sums + FIRST_POINT(column) * point;
    for (int i = 0; i < (column % HALF ? TILE : EDGE_POINTS); i++) {
      re[i] = vload16(0, from + i * point);
      im[i] = vload16(0, from + i * point + pitch);
    }
    invert_column(re, im, column, tile);
  }
  const Image image = {height, width, CHANNELS_LAST ? filters : 1, CHANNELS_LAST ? 1 : (long)height * width, 0};
  store_rows(tile, y, image, (long)n * filters * height * width + k * image.channel, row * step_h, column_ * step_w,
             step_h, step_w, min(VEC, filters - k), CF_EPILOGUE_FROM(epilogue, k));
}
