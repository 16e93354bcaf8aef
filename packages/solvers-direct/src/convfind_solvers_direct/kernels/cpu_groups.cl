// Convolution of groups of some channels, channels last, on CPUs: whole vectors of 8 channels and filters a group.
//
// A work-item computes blocks of ROWS x COLUMNS results of one group. It copies the source under a block to private memory,
// with zeros around the image and the channels of the group side by side, so that nothing is left to be told apart, and
// computes its results MR at a time in registers, wherever they lie: each has a place of its own in the copy, from which
// the taps are equally far.
#include "convfind_cpu_lanes.h"
#include "window.h"

#ifndef MR
#define MR 4              // results of the register tile
#endif
#ifndef VECTORS
#define VECTORS 3         // vectors of 8 filters of the register tile; divides FILTERS / 8
#endif
#ifndef STRIP_FLOATS
#define STRIP_FLOATS 16384  // room for the copy
#endif

#define NR (VECTORS * LANES)

// Weights of a group as packed[tap][channel][filter]. Global size: (taps, groups).
__kernel ONE_ITEM void direct_cpu_groups_pack(__global const float *restrict w, __global float *restrict packed) {
  const int tap = get_global_id(0);
  w += ((long)get_global_id(1) * FILTERS * TAPS + tap) * CHANNELS;
  packed += ((long)get_global_id(1) * TAPS + tap) * CHANNELS * FILTERS;
  for (int c = 0; c < CHANNELS; c++)
    for (int k = 0; k < FILTERS; k++) packed[c * FILTERS + k] = w[(long)k * TAPS * CHANNELS + c];
}

// Global size: (work-items of a group, groups); each takes `share` of `blocks`.
__kernel ONE_ITEM void direct_cpu_groups(__global const float *restrict x, __global const float *restrict packed,
                                         __global float *restrict y, CF_EPILOGUE_PARAMETERS, const int groups,
                                         const int x_h, const int x_w, const int y_h, const int y_w, const int pad_h,
                                         const int pad_w, const int rows, const int columns, const int blocks,
                                         const int share) {
  const Epilogue whole = CF_EPILOGUE(y);
  float copy[STRIP_FLOATS] __attribute__((aligned(64)));
  const int group = get_global_id(1);
  const Epilogue epilogue = CF_EPILOGUE_FROM(whole, group * FILTERS);
  const long x_pixel = (long)groups * CHANNELS, y_pixel = (long)groups * FILTERS;
  const int bands = (y_h + rows - 1) / rows, parts = (y_w + columns - 1) / columns;
  const int pitch = (columns - 1) * STRIDE_W + (FILTER_W - 1) * DILATION_W + 1;
  x += group * CHANNELS;
  y += group * FILTERS;
  packed += (long)group * TAPS * CHANNELS * FILTERS;
  const int first = get_global_id(0) * share, last = min(first + share, blocks);
  for (int block = first; block < last; block++) {
    const int image = block / (bands * parts), top = block / parts % bands * rows, left = block % parts * columns;
    const int height = min(rows, y_h - top), width = min(columns, y_w - left), count = height * width;
    copy_places(copy, x + (long)image * x_h * x_w * x_pixel, CHANNELS, top * STRIDE_H - pad_h, left * STRIDE_W - pad_w,
                (height - 1) * STRIDE_H + (FILTER_H - 1) * DILATION_H + 1,
                (width - 1) * STRIDE_W + (FILTER_W - 1) * DILATION_W + 1, pitch * CHANNELS, x_h, x_w, x_pixel);
    __global float *to = y + (((long)image * y_h + top) * y_w + left) * y_pixel;
    for (int q = 0; q < count; q += MR) {
      const float *from[MR];
#pragma unroll
      for (int i = 0; i < MR; i++) {
        const int at = min(q + i, count - 1);
        from[i] = copy + (at / width * STRIDE_H * pitch + at % width * STRIDE_W) * CHANNELS;
      }
      for (int k = 0; k < FILTERS; k += NR) {
        float8 sum[MR][VECTORS];
#pragma unroll
        for (int i = 0; i < MR; i++)
#pragma unroll
          for (int v = 0; v < VECTORS; v++) sum[i][v] = 0.0f;
        __global const float *weights = packed + k;
        for (int tap_h = 0; tap_h < FILTER_H; tap_h++)
          for (int tap_w = 0; tap_w < FILTER_W; tap_w++) {
            const int away = (tap_h * DILATION_H * pitch + tap_w * DILATION_W) * CHANNELS;
#pragma unroll 4
            for (int c = 0; c < CHANNELS; c++, weights += FILTERS) {
              float8 right[VECTORS];
#pragma unroll
              for (int v = 0; v < VECTORS; v++) right[v] = vload8(v, weights);
#pragma unroll
              for (int i = 0; i < MR; i++) {
                const float8 value = from[i][away + c];
#pragma unroll
                for (int v = 0; v < VECTORS; v++) sum[i][v] = fma(value, right[v], sum[i][v]);
              }
            }
          }
#pragma unroll
        for (int i = 0; i < MR; i++) {
          if (q + i >= count) break;
          __global float *result = to + ((long)((q + i) / width) * y_w + (q + i) % width) * y_pixel + k;
#pragma unroll
          for (int v = 0; v < VECTORS; v++)
            store_lanes(sum[i][v], result + v * LANES, k + v * LANES, epilogue);
        }
      }
    }
  }
}
