// First layers by Winograd's algorithm, channels last, on CPUs: what the directions share.
//
// A convolution with a stride is one of stride 1 whose channels are those of all phases of the image, with
// filters of POINTS x POINTS taps. With IN_BLOCKS the stride is 1, and the filter is cut into blocks of so many
// taps, which are filters of images that begin further on. Tiles of 6 x 6 of the image meet OUTPUTS x OUTPUTS pixels
// of y in each of these pieces, and 36 products of a channel do. A tile of results comes of a source, and of a factor.
#ifndef CONVFIND_CPU_FIRST_PHASES_H
#define CONVFIND_CPU_FIRST_PHASES_H

#include "convfind_cpu_vector.h"
#include "window.h"

#ifndef POINTS
#define POINTS 4  // taps of a piece along each axis: 3 or 4
#endif
#ifndef TILES
#define TILES 14  // tiles at a time: 1 and up
#endif
#ifndef IN_BLOCKS
#define IN_BLOCKS 0  // 1: blocks of taps instead of phases
#endif

#define SIDE 6                      // of a tile
#define OUTPUTS (SIDE + 1 - POINTS)
#if IN_BLOCKS                       // tap i is tap i % POINTS of piece i / POINTS
#define PIECES_H ((FILTER_H + POINTS - 1) / POINTS)
#define PIECES_W ((FILTER_W + POINTS - 1) / POINTS)
#define APART POINTS                // rows and columns from a piece to the next one
#else                               // tap i is tap i / STRIDE of piece i % STRIDE
#define PIECES_H STRIDE_H
#define PIECES_W STRIDE_W
#define APART 1
#endif
#define LINE (PIECES_W * CHANNELS)  // numbers of a virtual pixel in a row of the image: of phases up to 16
#define DEPTH (PIECES_H * LINE)     // channels of all pieces
#define BLOCK (2 * VEC)             // filters at a time

// A frequency of tiles of a row has STEP numbers a tile, and HALO behind the last one; number d of a tile is at
// PLACE(d). Of phases it has those of a tile one after another. In blocks it has each place of the image from the first
// tile to the last once for each row of pieces, whose numbers are a PLANE.
#if IN_BLOCKS
#define STEP (OUTPUTS * CHANNELS)
#define HALO ((PIECES_W - 1) * POINTS * CHANNELS)
#define PLANE (TILES * (STEP + HALO) + VEC)
#define SPECTRUM (PIECES_H * PLANE)     // numbers of a frequency
#define PLACE(d) ((d) / LINE * PLANE + (d) % LINE / CHANNELS * POINTS * CHANNELS + (d) % CHANNELS)
#else
#define STEP DEPTH
#define HALO 0
#define SPECTRUM (TILES * DEPTH + VEC)  // numbers of a frequency
#define PLACE(d) (d)
#endif
#if IS_WEIGHTS                      // y is the factor, and w the result
#define FACTOR_SIDE OUTPUTS
#define RESULT_SIDE POINTS
#else
#define FACTOR_SIDE POINTS
#define RESULT_SIDE OUTPUTS
#endif

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

INLINE void result_points(float16 y[RESULT_SIDE], const float16 m[SIDE]) {
  const float16 near = NEAR, far = FAR;
  const float16 a = m[1] + m[2], b = m[1] - m[2], c = m[3] + m[4], d = m[3] - m[4];
  y[0] = m[0] + a + c;
  y[1] = fma(far, d, near * b);
  y[2] = fma(far * far, c, near * near * a);
#if RESULT_SIDE == 4
  y[3] = fma(far * far * far, d, fma(near * near * near, b, m[5]));
#else
  y[2] += m[5];
#endif
}

INLINE void factor_points(float16 u[SIDE], const float16 g[FACTOR_SIDE]) {
  const float16 near = NEAR * NEAR, far = FAR * FAR;
#if FACTOR_SIDE == 4
  const float16 odd = NEAR * fma(near, g[3], g[1]), far_odd = FAR * fma(far, g[3], g[1]);
#else
  const float16 odd = NEAR * g[1], far_odd = FAR * g[1];
#endif
  const float16 even = fma(near, g[2], g[0]), far_even = fma(far, g[2], g[0]);
  u[0] = SCALE_ZERO * g[0];
  u[1] = SCALE_NEAR * (even + odd), u[2] = SCALE_NEAR * (even - odd);
  u[3] = SCALE_FAR * (far_even + far_odd), u[4] = SCALE_FAR * (far_even - far_odd);
  u[5] = g[FACTOR_SIDE - 1];
}

// Frequencies of a factor, `step` floats apart; g: columns of it.
INLINE void transform_factor(const float16 g[FACTOR_SIDE][FACTOR_SIDE], __global float *to, int step) {
  float16 half_done[FACTOR_SIDE][SIDE];
#pragma unroll
  for (int b = 0; b < FACTOR_SIDE; b++) factor_points(half_done[b], g[b]);
#pragma unroll
  for (int u = 0; u < SIDE; u++) {
    float16 row[FACTOR_SIDE], done[SIDE];
#pragma unroll
    for (int b = 0; b < FACTOR_SIDE; b++) row[b] = half_done[b][u];
    factor_points(done, row);
#pragma unroll
    for (int v = 0; v < SIDE; v++) vstore16(done[v], 0, to + (u * SIDE + v) * step);
  }
}

// Columns of a tile row: SIDE times PIECES_H lines of `pitch` floats.
INLINE void transform_lines(__global const float *restrict x, __global float *restrict lines, int top, int x_h, int x_w,
                            int pad_w, int pitch) {
  const int line = x_w * CHANNELS;
  for (int piece = 0; piece < PIECES_H; piece++) {
    for (int next = 0; next < line; next += VEC) {
      const int i = line >= VEC ? min(next, line - VEC) : 0;
      float16 d[SIDE];
#pragma unroll
      for (int a = 0; a < SIDE; a++) {
        const int row = top + a * STRIDE_H + piece * APART;
        d[a] = row >= 0 && row < x_h ? load_part(x + (long)row * line + i, line - i) : (float16)(0.0f);
      }
      source_points(d);
#pragma unroll
      for (int a = 0; a < SIDE; a++)
        put_part(d[a], lines + (a * PIECES_H + piece) * pitch + pad_w * CHANNELS + i, line - i);
    }
  }
}

#if IN_BLOCKS
// Frequencies of all places of the image that `tiles` neighbouring tiles meet. Up to 15 floats behind them are written.
INLINE void transform_run(__global const float *lines, __global float *to, int tiles, int pitch) {
  const int numbers = tiles * STEP + HALO;
  for (int piece = 0; piece < PIECES_H; piece++, to += PLANE)
    for (int u = 0; u < SIDE; u++)
      for (int i = 0; i < numbers; i += VEC) {
        float16 d[SIDE];
#pragma unroll
        for (int b = 0; b < SIDE; b++) d[b] = vload16(0, lines + (u * PIECES_H + piece) * pitch + i + b * CHANNELS);
        source_points(d);
#pragma unroll
        for (int v = 0; v < SIDE; v++) vstore16(d[v], 0, to + (u * SIDE + v) * SPECTRUM + i);
      }
}
#else
// Frequencies of a tile from its lines, SPECTRUM apart. Up to 15 floats behind those of each are written, too.
INLINE void transform_tile(__global const float *lines, __global float *to, int pitch) {
  for (int piece = 0; piece < PIECES_H; piece++, to += LINE) {
#pragma unroll 1
    for (int u = 0; u < SIDE; u++) {
      float16 d[SIDE];
#pragma unroll
      for (int b = 0; b < SIDE; b++) d[b] = vload16(0, lines + (u * PIECES_H + piece) * pitch + b * LINE);
      source_points(d);
#pragma unroll
      for (int v = 0; v < SIDE; v++) vstore16(d[v], 0, to + (u * SIDE + v) * SPECTRUM);
    }
  }
}

INLINE void transform_run(__global const float *lines, __global float *to, int tiles, int pitch) {
  for (int t = 0; t < tiles; t++) transform_tile(lines + t * OUTPUTS * LINE, to + t * DEPTH, pitch);
}
#endif

// Columns of results from sums whose frequencies are `step` floats apart, then rows.
INLINE void transform_columns(float16 half_done[RESULT_SIDE][SIDE], __global const float *sums, int step) {
#pragma unroll
  for (int j = 0; j < SIDE; j++) {
    float16 m[SIDE], done[RESULT_SIDE];
#pragma unroll
    for (int i = 0; i < SIDE; i++) m[i] = vload16(0, sums + (i * SIDE + j) * step);
    result_points(done, m);
#pragma unroll
    for (int i = 0; i < RESULT_SIDE; i++) half_done[i][j] = done[i];
  }
}

#endif  // CONVFIND_CPU_FIRST_PHASES_H
