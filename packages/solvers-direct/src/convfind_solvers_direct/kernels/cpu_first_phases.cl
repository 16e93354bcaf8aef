// First layers with strides by Winograd's algorithm over phases, channels last, on CPUs: forward.
//
// A work-item transforms the columns of bands of tiles along whole rows, then rows tile by tile; for each of the
// 36 frequencies TILES_AT_ONCE tiles times VECTORS_AT_ONCE vectors of filters stay in registers over all phases.
#define IS_WEIGHTS 0
#include "cpu_first_phases.h"

#ifndef TILES_AT_ONCE
#define TILES_AT_ONCE TILES  // divides TILES
#endif
#ifndef VECTORS_AT_ONCE
#define VECTORS_AT_ONCE 2    // 1 or 2
#endif

// Block of filters, frequency, virtual channel, filter. Global size: (vectors of filters, even).
__kernel ONE_ITEM void direct_cpu_first_phases_pack(__global const float *restrict w, __global float *restrict packed,
                                              const int filters) {
  const int first = get_global_id(0) * VEC;
  packed += (long)(first / BLOCK) * SIDE * SIDE * DEPTH * BLOCK + first % BLOCK;
  for (int phase = 0; phase < STRIDE_H * STRIDE_W; phase++) {
    const int above = phase / STRIDE_W, left = phase % STRIDE_W;
    for (int c = 0; c < CHANNELS; c++) {
      float16 g[POINTS][POINTS];
#pragma unroll
      for (int b = 0; b < POINTS; b++) {
#pragma unroll
        for (int a = 0; a < POINTS; a++) {
          const int i = a * STRIDE_H + above, j = b * STRIDE_W + left;
          float taps[VEC];
          for (int k = 0; k < VEC; k++)
            taps[k] = i < FILTER_H && j < FILTER_W && first + k < filters
                          ? w[(((long)(first + k) * FILTER_H + i) * FILTER_W + j) * CHANNELS + c]
                          : 0.0f;
          g[b][a] = vload16(0, taps);
        }
      }
      transform_factor(g, packed + (above * LINE + left * CHANNELS + c) * BLOCK, DEPTH * BLOCK);
    }
  }
}

// A tile of results of a vector of filters from its sums; `rows` and `columns`: how many there are.
INLINE void write_tile(__global const float *restrict sums, __global float *restrict y, int rows, int columns, int y_w,
                       int filters, int count, const Epilogue epilogue) {
  float16 half_done[OUTPUTS][SIDE];
  transform_columns(half_done, sums, TILES * BLOCK);
  const float16 bias = biases_of(epilogue, 0, count);
  const bool whole = rows >= OUTPUTS && columns >= OUTPUTS && count >= VEC && !CF_READS_RESULT(epilogue);
  float16 done[OUTPUTS][OUTPUTS];
#pragma unroll
  for (int i = 0; i < OUTPUTS; i++) {
    result_points(done[i], half_done[i]);
    if (whole) {
#pragma unroll
      for (int j = 0; j < OUTPUTS; j++) {
        __global float *to = y + ((long)i * y_w + j) * filters;
        vstore16(result_of(done[i][j], to, bias, epilogue), 0, to);
      }
    }
  }
  if (whole) return;
#pragma unroll 1
  for (int i = 0; i < min(rows, OUTPUTS); i++)
#pragma unroll 1
    for (int j = 0; j < min(columns, OUTPUTS); j++)
      store_part(done[i][j], y + ((long)i * y_w + j) * filters, count, bias, epilogue);
}

// Products of a frequency over all phases.
INLINE void multiply(__global float *restrict to, __global const float *restrict value,
                     __global const float *restrict weights) {
  float16 sum[TILES_AT_ONCE][VECTORS_AT_ONCE];
#pragma unroll
  for (int t = 0; t < TILES_AT_ONCE; t++)
#pragma unroll
    for (int v = 0; v < VECTORS_AT_ONCE; v++) sum[t][v] = 0.0f;
#pragma unroll 2
  for (int d = 0; d < DEPTH; d++, weights += BLOCK) {
    float16 weight[VECTORS_AT_ONCE];
#pragma unroll
    for (int v = 0; v < VECTORS_AT_ONCE; v++) weight[v] = vload16(v, weights);
#pragma unroll
    for (int t = 0; t < TILES_AT_ONCE; t++) {
      const float16 one = value[t * DEPTH + d];
#pragma unroll
      for (int v = 0; v < VECTORS_AT_ONCE; v++) sum[t][v] = fma(one, weight[v], sum[t][v]);
    }
  }
#pragma unroll
  for (int t = 0; t < TILES_AT_ONCE; t++)
#pragma unroll
    for (int v = 0; v < VECTORS_AT_ONCE; v++) vstore16(sum[t][v], v, to + t * BLOCK);
}

// Global size: (images, work-items of one); each takes `bands` bands of `band` tile rows.
__kernel ONE_ITEM void direct_cpu_first_phases(__global const float *restrict x, __global const float *restrict packed,
                                         __global float *restrict y, __global float *restrict work,
                                         CF_EPILOGUE_PARAMETERS, const int filters, const int x_h, const int x_w,
                                         const int y_h, const int y_w, const int pad_h, const int pad_w,
                                         const int bands, const int band, const int pitch) {
  const Epilogue epilogue = CF_EPILOGUE(y);
  const int height = (y_h + OUTPUTS - 1) / OUTPUTS, width = (y_w + OUTPUTS - 1) / OUTPUTS;
  const long row_floats = (long)SIDE * STRIDE_H * pitch;
  const long floats = band * row_floats + SIDE * SIDE * (SPECTRUM + TILES * BLOCK);
  __global float *lines = work + (get_global_id(0) * get_global_size(1) + get_global_id(1)) * floats;
  __global float *spectra = lines + band * row_floats, *sums = spectra + SIDE * SIDE * SPECTRUM;
  x += get_global_id(0) * x_h * x_w * CHANNELS;
  y += get_global_id(0) * y_h * y_w * filters;
  for (long i = 0; i < band * row_floats; i += VEC) vstore16((float16)(0.0f), 0, lines + i);
  const int first = get_global_id(1) * bands * band, last = min(first + bands * band, height);
  for (int top = first; top < last; top += band) {
    const int count = min(band, last - top), tiles = count * width;
    for (int row = 0; row < count; row++)
      transform_lines(x, lines + row * row_floats, (top + row) * OUTPUTS * STRIDE_H - pad_h, x_h, x_w, pad_w, pitch);
    for (int next = 0; next < tiles; next += TILES) {
      const int tile0 = !CF_READS_RESULT(epilogue) ? max(0, min(next, tiles - TILES)) : next;
      for (int t = 0; t < TILES; t++) {
        const int tile = min(tile0 + t, tiles - 1);
        __global const float *from = lines + tile / width * row_floats + tile % width * OUTPUTS * LINE;
        transform_tile(from, spectra + t * DEPTH, pitch);
      }
      for (int k = 0; k < filters; k += BLOCK) {
        __global const float *weights = packed + (long)k * SIDE * SIDE * DEPTH;
        for (int f = 0; f < SIDE * SIDE; f++) {
          __global const float *value = spectra + f * SPECTRUM;
          // Lines that will be written wait for their old contents: they are on their way.
          if (f < 2 * TILES) {
            const int tile = min(tile0 + f % TILES, tiles - 1);
            const long pixel = (long)(top + tile / width) * OUTPUTS * y_w + tile % width * OUTPUTS;
            __global float *to = y + pixel * filters + k;
#pragma unroll
            for (int i = 0; i < OUTPUTS; i += 2)
#pragma unroll
              for (int j = 0; j < OUTPUTS; j++) {
                PREFETCH(to + ((long)(i + f / TILES) * y_w + j) * filters);
                PREFETCH(to + ((long)(i + f / TILES) * y_w + j) * filters + VEC);
              }
          }
          __global float *of_tiles = sums + f * TILES * BLOCK;
          for (int t = 0; t < TILES; t += TILES_AT_ONCE)
            for (int v = 0; v < BLOCK; v += VECTORS_AT_ONCE * VEC)
              multiply(of_tiles + t * BLOCK + v, value + t * DEPTH, weights + f * DEPTH * BLOCK + v);
        }
        const int vectors = min(2, (filters - k + VEC - 1) / VEC), many = min(TILES, tiles - tile0);
        for (int i = 0; i < many * vectors; i++) {
          const int t = i / vectors, v = i % vectors, tile = tile0 + t;
          const int row = (top + tile / width) * OUTPUTS, column = tile % width * OUTPUTS;
          write_tile(sums + (t * 2 + v) * VEC, y + ((long)row * y_w + column) * filters + k + v * VEC, y_h - row,
                     y_w - column, y_w, filters, filters - k - v * VEC,
                     CF_EPILOGUE_FROM(epilogue, k + v * VEC));
        }
      }
    }
  }
}
