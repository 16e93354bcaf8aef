// Vectors of 8 floats for kernels on CPU devices, in OpenCL C: groups of channels that vectors of 16 would not fill,
// channels last.
#ifndef CONVFIND_CPU_LANES_H
#define CONVFIND_CPU_LANES_H

#include "convfind_cpu_vector.h"

#define LANES 8  // floats of a vector

// Copies `rows` x `columns` places of `channels`, a multiple of 8, side by side, zeros where the image has none; the first
// place may lie outside of it. Rows of the copy are `pitch` floats apart, places of the image `pixel`.
INLINE void copy_places(float *to, __global const float *image, const int channels, const int row, const int column,
                        const int rows, const int columns, const int pitch, const int height, const int width,
                        const long pixel) {
  const int west = clamp(-column, 0, columns), east = clamp(width - column, west, columns);
  for (int i = 0; i < rows; i++, to += pitch) {
    const bool exists = row + i >= 0 && row + i < height;
    const int low = exists ? west : columns, high = exists ? east : columns;
    for (int e = 0; e < low * channels; e += LANES) vstore8((float8)(0.0f), 0, to + e);
    __global const float *from = image + ((long)(row + i) * width + column) * pixel;
    for (int j = low; j < high; j++) {
#pragma unroll
      for (int c = 0; c < channels; c += LANES) vstore8(vload8(0, from + j * pixel + c), 0, to + j * channels + c);
    }
    for (int e = high * channels; e < columns * channels; e += LANES) vstore8((float8)(0.0f), 0, to + e);
  }
}

#ifdef CF_ACTIVATION
CF_DEFINE_ACTIVATION(activation_of_lanes, float8)
#endif

// The results of 8 sums in place; lanes are channels from `channel` on.
INLINE void store_lanes(float8 sum, __global float *y, const int channel, const Epilogue epilogue) {
#ifdef CF_BIAS
  float8 value = fma((float8)(epilogue.alpha), sum, vload8(0, epilogue.bias + channel));
#else
  float8 value = epilogue.alpha * sum;
#endif
  if (CF_ADDS_Z(epilogue)) value = fma((float8)(epilogue.beta), vload8(0, Z_OF(y, epilogue)), value);
#ifdef CF_ACTIVATION
  value = activation_of_lanes(value, epilogue.a, epilogue.b, epilogue.c);
#endif
#ifdef CF_Z_LAST
  value = fma((float8)(epilogue.beta_last), vload8(0, Z_LAST_OF(y, epilogue)), value);
#endif
  vstore8(value, 0, y);
}

#endif  // CONVFIND_CPU_LANES_H
