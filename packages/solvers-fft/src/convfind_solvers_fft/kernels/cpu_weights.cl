// The weight gradient by FFT on CPU devices, overlap-save: tiles of x and y lie in memory as spectra.
//
//   values[point][tile][re, im][channel], gradients[point][tile][re, im][filter]  from x and y, by fft_cpu_data
//   sums[point][channel of all groups][re, im][filter] (+)= values gradients      summed over tiles
//   w                                                                             from the sums, by fft_cpu_weights
//
// Tiles of y are as large as their results in a forward convolution, the rest is zero, and take the filters' part.
#include "cpu_matrices.h"

// Global size: (POINTS).
__kernel ONE_ITEM void fft_cpu_sum(__global const float *restrict values, __global const float *restrict gradients,
                                   __global float *restrict sums, const int tiles, const int groups,
                                   const int channels, const int filters, const int values_pitch,
                                   const int gradients_pitch, const int sums_pitch, const long values_point,
                                   const long gradients_point, const long sums_point, const int add) {
  const long p = get_global_id(0);
  values += p * values_point;
  gradients += p * gradients_point;
  sums += p * sums_point;
  for (int group = 0; group < groups; group++)
    for (int k = 0; k < filters; k += PANEL)
      multiply_rows(channels, tiles, values + group * channels, 1, 2 * values_pitch, values_pitch,
                    gradients + group * filters + k, 2 * gradients_pitch, gradients_pitch,
                    sums + (long)group * channels * 2 * sums_pitch + k, 2 * sums_pitch, sums_pitch, add);
}

// Global size: (channels, vectors of filters, groups).
__kernel ONE_ITEM void fft_cpu_weights(__global const float *restrict sums, __global float *restrict w,
                                       CF_EPILOGUE_PARAMETERS, const int channels, const int filters,
                                       const int rows, const int columns, const int pitch, const long point,
                                       const long w_group, const long w_filter, const long w_channel,
                                       const long w_tap) {
  const Epilogue epilogue = CF_EPILOGUE(w), rest = cf_epilogue_of_scaled(epilogue);
  const int c = get_global_id(0), k = get_global_id(1) * VEC, group = get_global_id(2);
  float16 tile[AREA], re[TILE], im[TILE], line[TILE];
  sums += ((long)group * channels + c) * 2 * pitch + k;
  for (int column = 0; column <= HALF; column++) {
    __global const float *from = sums + FIRST_POINT(column) * point;
    for (int i = 0; i < (column % HALF ? TILE : EDGE_POINTS); i++) {
      re[i] = vload16(0, from + i * point);
      im[i] = vload16(0, from + i * point + pitch);
    }
    invert_column(re, im, column, tile);
  }
  w += group * w_group + k * w_filter + c * w_channel;
  for (int i = 0; i < rows; i++) {
    fft_adjoint(tile + i * LINE, tile + i * LINE + HALF, 1, line, 1);
    for (int j = 0; j < columns; j++) {
      float part[VEC];
      vstore16(line[j] * epilogue.alpha, 0, part);
      __global float *to = w + (i * columns + j) * w_tap;
      for (int e = 0; e < min(VEC, filters - k); e++) CF_STORE_RESULT(FLOAT32, to + e * w_filter, 0, part[e], rest);
    }
  }
}
