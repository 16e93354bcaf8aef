// The gradient of the weights of 1x1 convolutions with stride 1, channels last, on CPU devices: dw = y' * x.
//
// A run of positions is a block of both matrices as they lie in memory, so nothing is copied. One work-item
// takes a run of positions; for DEPTH of them at a time, which stay in the level-1 cache, tiles of MR filters by NR
// channels of the sums come from the level-2 cache, and go back to it. igemm_cpu_sum adds up the runs.
#define CHANNELS_LAST 1
#include "cpu_sum.h"

#ifndef MR
#define MR 12       // rows of the register tile, filters: 4, 8, 12
#endif
#ifndef VECTORS
#define VECTORS 2   // float16 columns of the register tile: 1, 2
#endif
#ifndef DEPTH
#define DEPTH 48    // positions at a time
#endif

#define NR (VEC * VECTORS)

// Adds the products of `depth` positions to a tile; each position asks for a line of what comes next.
INLINE void tile(const int rows, const int vectors, int depth, __global const float *restrict x,
                 __global const float *restrict y, __global float *restrict sums, int channels, int filters,
                 __global const float *soon) {
  float16 sum[MR][VECTORS];
#pragma unroll
  for (int i = 0; i < rows; i++)
#pragma unroll
    for (int j = 0; j < vectors; j++) sum[i][j] = vload16(j, sums + i * channels);
  for (int k = 0; k < depth; k++, x += channels, y += filters) {
    float16 b[VECTORS];
#pragma unroll
    for (int j = 0; j < vectors; j++) b[j] = vload16(j, x);
    PREFETCH(soon + k * VEC);
#pragma unroll
    for (int i = 0; i < rows; i++) {
      const float16 a = y[i];
#pragma unroll
      for (int j = 0; j < vectors; j++) sum[i][j] = fma(a, b[j], sum[i][j]);
    }
  }
#pragma unroll
  for (int i = 0; i < rows; i++)
#pragma unroll
    for (int j = 0; j < vectors; j++) vstore16(sum[i][j], j, sums + i * channels);
}

// What the next positions read, asked for one tile after the other.
typedef struct {
  __global const float *x, *y;
  int of_x, of_y;  // tiles that ask for x, and then for y
} Soon;

INLINE __global const float *next_lines(Soon *soon) {
  if (soon->of_x > 0) {
    soon->of_x--;
    return soon->x += DEPTH * VEC;
  }
  if (soon->of_y > 0) {
    soon->of_y--;
    soon->y += DEPTH * VEC;
  }
  return soon->y;
}

INLINE void tiles(const int vectors, int depth, __global const float *restrict x, __global const float *restrict y,
                  __global float *restrict sums, int channels, int filters, Soon *soon) {
  int k = 0;
  for (; k + MR <= filters; k += MR)
    tile(MR, vectors, depth, x, y + k, sums + (long)k * channels, channels, filters, next_lines(soon));
  for (; k < filters; k += 4)
    tile(4, vectors, depth, x, y + k, sums + (long)k * channels, channels, filters, next_lines(soon));
}

// Global size: (parts); each takes `span` positions. Channels are a multiple of 16, filters of 4.
__kernel ONE_ITEM void igemm_cpu_bwd_weights_pointwise(__global const float *restrict x,
                                                       __global const float *restrict y,
                                                       __global float *restrict parts, const int channels,
                                                       const int filters, const int positions, const int span) {
  const int first = get_global_id(0) * span, end = min(positions, first + span);
  __global float *sums = parts + (long)get_global_id(0) * filters * channels;
  for (int i = 0; i < filters * channels; i += VEC) vstore16((float16)(0.0f), 0, sums + i);
  for (int p = first; p < end; p += DEPTH) {
    const int depth = min(DEPTH, end - p);
    __global const float *from = x + (long)p * channels, *gradient = y + (long)p * filters;
    Soon soon = {from + DEPTH * (channels - VEC), gradient + DEPTH * (filters - VEC), channels / VEC,
                 (filters + VEC - 1) / VEC};
    int c = 0;
    for (; c + NR <= channels; c += NR)
      tiles(VECTORS, depth, from + c, gradient, sums + c, channels, filters, &soon);
    for (; c < channels; c += VEC) tiles(1, depth, from + c, gradient, sums + c, channels, filters, &soon);
  }
}
