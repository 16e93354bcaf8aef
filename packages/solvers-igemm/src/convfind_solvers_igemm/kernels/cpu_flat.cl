// 1x1 convolutions of stride 1 for CPU devices, channels last: y (positions x filters) = x * w, nothing copied.
//
// One work-item computes a run of positions by a run of filters, a chunk of positions at a time, which stays in the
// level-2 cache. A block of a panel of NR filters' weights stays in the level-1 cache while register tiles of up to
// MR x NR walk down the chunk; sums of long products are kept in private memory from block to block. Weights come in
// panels from igemm_cpu_pack.
#include "cpu_tile.h"

#define CHANNELS_LAST 1
#define WIDTH NR
#include "cpu_pack.h"

#define CHUNK 96              // positions that are computed before others are read, at most: multiple of 4 * MR
#define CACHED_FLOATS 65536   // of them that stay in the level-2 cache

// Positions of the next of so many that are left: tiles are about as high as each other.
INLINE int next_height(int left) {
  const int tiles = (left + MR - 1) / MR;
  return (left + tiles - 1) / tiles;
}

// `rows` positions, of which `height` exist and others are the last once more.
INLINE void tile(const int height, const int rows, const bool first, const bool last, int depth,
                 __global const float *x, int channels, __global const float *panel, float *sums, __global float *y,
                 int filters, int columns, const Epilogue epilogue, Ahead ahead) {
  float16 sum[MR][VECTORS];
#pragma unroll
  for (int i = 0; i < rows; i++) {
    PREFETCH(y + (long)min(i, height - 1) * filters);
#pragma unroll
    for (int j = 0; j < VECTORS; j++)
      sum[i][j] = first ? (float16)(0.0f) : vload16(min(i, height - 1) * VECTORS + j, sums);
  }
  for (int k = 0; k < depth;) {
    prefetch_lines(ahead, k);
    for (const int behind = min(depth, k + VEC); k < behind; k++) {
      float16 right[VECTORS];
#pragma unroll
      for (int j = 0; j < VECTORS; j++) right[j] = vload16(k * VECTORS + j, panel);
#pragma unroll
      for (int i = 0; i < rows; i++) {
        const float16 left = x[(long)min(i, height - 1) * channels + k];
#pragma unroll
        for (int j = 0; j < VECTORS; j++) sum[i][j] = fma(left, right[j], sum[i][j]);
      }
    }
  }
  if (!last) {
#pragma unroll
    for (int i = 0; i < rows; i++)
#pragma unroll
      for (int j = 0; j < VECTORS; j++)
        if (i < height) vstore16(sum[i][j], i * VECTORS + j, sums);
    return;
  }
  if (columns >= NR && height == rows && !CF_READS_RESULT(epilogue)) {
    float16 bias[VECTORS];
#pragma unroll
    for (int j = 0; j < VECTORS; j++) bias[j] = biases_of(epilogue, j * VEC, VEC);
#pragma unroll
    for (int i = 0; i < rows; i++)
#pragma unroll
      for (int j = 0; j < VECTORS; j++) {
        __global float *to = y + (long)i * filters + j * VEC;
        vstore16(result_of(sum[i][j], to, bias[j], epilogue), 0, to);
      }
    return;
  }
  float16 rest[MR * VECTORS];
#pragma unroll
  for (int i = 0; i < rows; i++)
#pragma unroll
    for (int j = 0; j < VECTORS; j++) rest[i * VECTORS + j] = sum[i][j];
#pragma unroll 1
  for (int i = 0; i < height; i++)
#pragma unroll 1
    for (int j = 0; j < VECTORS; j++)
      store_part(rest[i * VECTORS + j], y + (long)i * filters + j * VEC, columns - j * VEC,
                 biases_of(epilogue, j * VEC, columns - j * VEC), epilogue);
}

INLINE void tile_of_height(int height, const bool first, const bool last, int depth, __global const float *x,
                           int channels, __global const float *panel, float *sums, __global float *y, int filters,
                           int columns, const Epilogue epilogue, Ahead ahead) {
  if (height == MR)
    tile(MR, MR, first, last, depth, x, channels, panel, sums, y, filters, columns, epilogue, ahead);
  else if (height == MR - 1)
    tile(MR - 1, MR - 1, first, last, depth, x, channels, panel, sums, y, filters, columns, epilogue, ahead);
  else if (MR > 8 && height > 8)
    tile(height, MR, first, last, depth, x, channels, panel, sums, y, filters, columns, epilogue, ahead);
  else if (MR > 4 && height > 4)
    tile(height, MR < 8 ? MR : 8, first, last, depth, x, channels, panel, sums, y, filters, columns, epilogue, ahead);
  else if (height > 1)
    tile(height, 4, first, last, depth, x, channels, panel, sums, y, filters, columns, epilogue, ahead);
  else
    tile(1, 1, first, last, depth, x, channels, panel, sums, y, filters, columns, epilogue, ahead);
}

// Calls of their own: what the kernel keeps in registers would push sums out of them.
NOINLINE void multiply(int height, int depth, __global const float *x, int channels, __global const float *panel,
                       float *sums, __global float *y, int filters, int columns, const Epilogue epilogue, Ahead ahead) {
  tile_of_height(height, true, true, depth, x, channels, panel, sums, y, filters, columns, epilogue, ahead);
}

NOINLINE void multiply_part(int height, bool first, bool last, int depth, __global const float *x, int channels,
                            __global const float *panel, float *sums, __global float *y, int filters, int columns,
                            const Epilogue epilogue, Ahead ahead) {
  tile_of_height(height, first, last, depth, x, channels, panel, sums, y, filters, columns, epilogue, ahead);
}

// Global size: (runs of positions, runs of filters, 1); `share` positions and `strip` filters each, `strip` a multiple
// of NR. All pixels are one row.
__kernel ONE_ITEM void igemm_cpu_flat(__global const float *restrict x, __global const float *restrict packed,
                                      __global float *restrict y, GEOMETRY, CF_EPILOGUE_PARAMETERS, const int share,
                                      const int strip) {
  const Epilogue epilogue = CF_EPILOGUE(y);
  const int begin = get_global_id(0) * share, end = min(o_w, begin + share);
  const int k0 = get_global_id(1) * strip, k1 = min(filters, k0 + strip);
  const int blocks = max(1, (channels + DEPTH - 1) / DEPTH), block = (channels + blocks - 1) / blocks;
  float sums[CHUNK * NR] __attribute__((aligned(64)));
  const int chunk = clamp(CACHED_FLOATS / max(1, channels) / MR * MR, 4 * MR, CHUNK);
  for (int from = begin; from < end; from += chunk) {
    const int behind = min(end, from + chunk);
    for (int k = k0; k < k1; k += NR) {
      const Epilogue own = CF_EPILOGUE_FROM(epilogue, k);
      __global const float *panel = packed + (long)(k / NR) * channels * NR;
      for (int b = 0; b < blocks; b++) {
        const int c = b * block, depth = min(block, channels - c);
        for (int p = from; p < behind;) {
          const int height = next_height(behind - p);
          __global const float *source = x + (long)p * channels + c;
          __global float *to = y + (long)p * filters + k;
          // What comes from far away is asked for where it is read first.
          const Ahead ahead = {source + (long)height * channels, channels, k == k0 ? min(MR, end - p - height) : 0};
          if (blocks == 1)
            multiply(height, depth, source, channels, panel, sums, to, filters, k1 - k, own, ahead);
          else
            multiply_part(height, b == 0, b + 1 == blocks, depth, source, channels, panel + (long)c * NR,
                          sums + (p - from) * NR, to, filters, k1 - k, own, ahead);
          p += height;
        }
      }
    }
  }
}
