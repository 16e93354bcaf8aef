// First layers with strides by Winograd's algorithm, channels last, on CPUs: forward.
//
// A convolution with a stride is one of stride 1 whose channels are those of all phases of the image, with
// filters of POINTS x POINTS taps. On tiles of 6 x 6 these take 36 products of a channel for OUTPUTS x OUTPUTS
// results. A work-item transforms the columns of bands of tiles along whole rows, then rows tile by tile; for
// each of the 36 frequencies TILES tiles times 2 vectors of filters stay in registers over all phases.
#include "convfind_cpu_vector.h"
#include "window.h"

#ifndef POINTS
#define POINTS 4  // taps of a phase along each axis: 3 or 4
#endif
#ifndef TILES
#define TILES 14  // tiles at a time: 1 and up
#endif

#define SIDE 6                      // of a tile
#define OUTPUTS (SIDE + 1 - POINTS)
#define LINE (STRIDE_W * CHANNELS)  // numbers of a virtual pixel in a row of the image: up to 16
#define DEPTH (STRIDE_H * LINE)     // channels of the convolution of stride 1
#define BLOCK (2 * VEC)             // filters at a time
#define SPECTRUM (TILES * DEPTH + VEC)  // numbers of a frequency

// The points of the transforms are 0, NEAR, -NEAR, FAR, -FAR and infinity: errors grow least with these.
#define NEAR 0.75f
#define FAR 1.5f
#define SCALE_ZERO (1.0f / (NEAR * NEAR * FAR * FAR))
#define SCALE_NEAR (1.0f / (2.0f * NEAR * NEAR * (NEAR * NEAR - FAR * FAR)))
#define SCALE_FAR (1.0f / (2.0f * FAR * FAR * (FAR * FAR - NEAR * NEAR)))

INLINE void source_points(float16 d[SIDE]) {
  const float16 near = NEAR * NEAR, far = FAR * FAR, both = NEAR * NEAR * FAR * FAR;
  const float16 a = fma(-far, d[2], d[4]), b = NEAR * fma(-far, d[1], d[3]);
  const float16 c = fma(-near, d[2], d[4]), e = FAR * fma(-near, d[1], d[3]);
  d[0] = fma(both, d[0], fma(-near - far, d[2], d[4]));
  d[5] = fma(both, d[1], fma(-near - far, d[3], d[5]));
  d[1] = a + b, d[2] = a - b, d[3] = c + e, d[4] = c - e;
}

INLINE void result_points(float16 y[OUTPUTS], const float16 m[SIDE]) {
  const float16 near = NEAR, far = FAR;
  const float16 a = m[1] + m[2], b = m[1] - m[2], c = m[3] + m[4], d = m[3] - m[4];
  y[0] = m[0] + a + c;
  y[1] = fma(far, d, near * b);
  y[2] = fma(far * far, c, near * near * a);
#if OUTPUTS == 4
  y[3] = fma(far * far * far, d, fma(near * near * near, b, m[5]));
#else
  y[2] += m[5];
#endif
}

INLINE void filter_points(float16 u[SIDE], const float16 g[POINTS]) {
  const float16 near = NEAR * NEAR, far = FAR * FAR;
#if POINTS == 4
  const float16 odd = NEAR * fma(near, g[3], g[1]), far_odd = FAR * fma(far, g[3], g[1]);
#else
  const float16 odd = NEAR * g[1], far_odd = FAR * g[1];
#endif
  const float16 even = fma(near, g[2], g[0]), far_even = fma(far, g[2], g[0]);
  u[0] = SCALE_ZERO * g[0];
  u[1] = SCALE_NEAR * (even + odd), u[2] = SCALE_NEAR * (even - odd);
  u[3] = SCALE_FAR * (far_even + far_odd), u[4] = SCALE_FAR * (far_even - far_odd);
  u[5] = g[POINTS - 1];
}

// Block of filters, frequency, virtual channel, filter. Global size: (vectors of filters, even).
__kernel ONE_ITEM void direct_cpu_first_phases_pack(__global const float *restrict w, __global float *restrict packed,
                                              const int filters) {
  const int first = get_global_id(0) * VEC;
  packed += (long)(first / BLOCK) * SIDE * SIDE * DEPTH * BLOCK + first % BLOCK;
  for (int phase = 0; phase < STRIDE_H * STRIDE_W; phase++) {
    const int above = phase / STRIDE_W, left = phase % STRIDE_W;
    for (int c = 0; c < CHANNELS; c++) {
      float16 half_done[POINTS][SIDE];
#pragma unroll
      for (int b = 0; b < POINTS; b++) {
        float16 g[POINTS];
#pragma unroll
        for (int a = 0; a < POINTS; a++) {
          const int i = a * STRIDE_H + above, j = b * STRIDE_W + left;
          float taps[VEC];
          for (int k = 0; k < VEC; k++)
            taps[k] = i < FILTER_H && j < FILTER_W && first + k < filters
                          ? w[(((long)(first + k) * FILTER_H + i) * FILTER_W + j) * CHANNELS + c]
                          : 0.0f;
          g[a] = vload16(0, taps);
        }
        filter_points(half_done[b], g);
      }
#pragma unroll
      for (int u = 0; u < SIDE; u++) {
        float16 g[POINTS], done[SIDE];
#pragma unroll
        for (int b = 0; b < POINTS; b++) g[b] = half_done[b][u];
        filter_points(done, g);
#pragma unroll
        for (int v = 0; v < SIDE; v++)
          vstore16(done[v], 0, packed + ((u * SIDE + v) * DEPTH + above * LINE + left * CHANNELS + c) * BLOCK);
      }
    }
  }
}

// Columns of a tile row: SIDE times STRIDE_H lines of `pitch` floats.
INLINE void transform_lines(__global const float *restrict x, __global float *restrict lines, int top, int x_h, int x_w,
                            int pad_w, int pitch) {
  const int line = x_w * CHANNELS;
  for (int phase = 0; phase < STRIDE_H; phase++) {
    for (int next = 0; next < line; next += VEC) {
      const int i = line >= VEC ? min(next, line - VEC) : 0;
      float16 d[SIDE];
#pragma unroll
      for (int a = 0; a < SIDE; a++) {
        const int row = top + a * STRIDE_H + phase;
        d[a] = row >= 0 && row < x_h ? load_part(x + (long)row * line + i, line - i) : (float16)(0.0f);
      }
      source_points(d);
#pragma unroll
      for (int a = 0; a < SIDE; a++)
        store_part(d[a], lines + (a * STRIDE_H + phase) * pitch + pad_w * CHANNELS + i, line - i, 0.0f);
    }
  }
}

// A tile of results of a vector of filters from its sums; `rows` and `columns`: how many there are.
INLINE void write_tile(__global const float *restrict sums, __global float *restrict y, int rows, int columns, int y_w,
                       int filters, int count, float alpha, float beta) {
  float16 half_done[OUTPUTS][SIDE];
#pragma unroll
  for (int j = 0; j < SIDE; j++) {
    float16 m[SIDE], done[OUTPUTS];
#pragma unroll
    for (int i = 0; i < SIDE; i++) m[i] = vload16((i * SIDE + j) * TILES * 2, sums);
    result_points(done, m);
#pragma unroll
    for (int i = 0; i < OUTPUTS; i++) half_done[i][j] = done[i];
  }
  const bool whole = rows >= OUTPUTS && columns >= OUTPUTS && count >= VEC && beta == 0.0f;
  float16 done[OUTPUTS][OUTPUTS];
#pragma unroll
  for (int i = 0; i < OUTPUTS; i++) {
    result_points(done[i], half_done[i]);
    if (whole) {
#pragma unroll
      for (int j = 0; j < OUTPUTS; j++) vstore16(alpha * done[i][j], 0, y + ((long)i * y_w + j) * filters);
    }
  }
  if (whole) return;
#pragma unroll 1
  for (int i = 0; i < min(rows, OUTPUTS); i++)
#pragma unroll 1
    for (int j = 0; j < min(columns, OUTPUTS); j++)
      store_part(alpha * done[i][j], y + ((long)i * y_w + j) * filters, count, beta);
}

// Global size: (images, work-items of one); each takes `bands` bands of `band` tile rows.
__kernel ONE_ITEM void direct_cpu_first_phases(__global const float *restrict x, __global const float *restrict packed,
                                         __global float *restrict y, __global float *restrict work, const float alpha,
                                         const float beta, const int filters, const int x_h, const int x_w,
                                         const int y_h, const int y_w, const int pad_h, const int pad_w,
                                         const int bands, const int band, const int pitch) {
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
      const int tile0 = beta == 0.0f ? max(0, min(next, tiles - TILES)) : next;
      for (int t = 0; t < TILES; t++) {
        const int tile = min(tile0 + t, tiles - 1);
        __global const float *from = lines + tile / width * row_floats + tile % width * OUTPUTS * LINE;
        for (int phase = 0; phase < STRIDE_H; phase++) {
          __global float *to = spectra + t * DEPTH + phase * LINE;
#pragma unroll 1
          for (int u = 0; u < SIDE; u++) {
            float16 d[SIDE];
#pragma unroll
            for (int b = 0; b < SIDE; b++) d[b] = vload16(0, from + (u * STRIDE_H + phase) * pitch + b * LINE);
            source_points(d);
#pragma unroll
            for (int v = 0; v < SIDE; v++) vstore16(d[v], 0, to + (u * SIDE + v) * SPECTRUM);
          }
        }
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
          float16 sum[TILES][2];
#pragma unroll
          for (int t = 0; t < TILES; t++) sum[t][0] = 0.0f, sum[t][1] = 0.0f;
#pragma unroll 2
          for (int d = 0; d < DEPTH; d++, weights += BLOCK) {
            const float16 low = vload16(0, weights), high = vload16(1, weights);
#pragma unroll
            for (int t = 0; t < TILES; t++) {
              const float16 one = value[t * DEPTH + d];
              sum[t][0] = fma(one, low, sum[t][0]);
              sum[t][1] = fma(one, high, sum[t][1]);
            }
          }
#pragma unroll
          for (int t = 0; t < TILES; t++) {
            vstore16(sum[t][0], (f * TILES + t) * 2, sums);
            vstore16(sum[t][1], (f * TILES + t) * 2 + 1, sums);
          }
        }
        const int vectors = min(2, (filters - k + VEC - 1) / VEC), many = min(TILES, tiles - tile0);
        for (int i = 0; i < many * vectors; i++) {
          const int t = i / vectors, v = i % vectors, tile = tile0 + t;
          const int row = (top + tile / width) * OUTPUTS, column = tile % width * OUTPUTS;
          write_tile(sums + (t * 2 + v) * VEC, y + ((long)row * y_w + column) * filters + k + v * VEC, y_h - row,
                     y_w - column, y_w, filters, filters - k - v * VEC, alpha, beta);
        }
      }
    }
  }
}
