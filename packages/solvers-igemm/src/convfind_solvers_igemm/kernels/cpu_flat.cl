// 1x1 convolutions of stride 1 for CPU devices, channels last: y (positions x filters) = x * w, nothing copied.
//
// One work-item computes a run of positions by a run of filters, a chunk of positions at a time, which stays in the
// level-2 cache. A block of a panel of NR filters' weights stays in the level-1 cache while register tiles of up to
// MR x NR walk down the chunk, each of which asks for a part of the block behind it; sums of long products are kept in
// private memory from block to block. Weights come in panels from igemm_cpu_pack.
#include "cpu_tile.h"

#define CHANNELS_LAST 1
#define WIDTH NR
#include "cpu_half.h"
#include "cpu_steps.h"
#include "cpu_pack.h"

#define CHUNK 96              // positions that are computed before others are read, at most: multiple of 4 * MR
#define CACHED_FLOATS 65536   // of them that stay in the level-2 cache
#define FEW 64                // positions that are one chunk, however many floats they have

// Positions of the next of so many that are left: tiles are about as high as each other.
INLINE int next_height(int left) {
  const int tiles = (left + MR - 1) / MR;
  return (left + tiles - 1) / tiles;
}

// What tiles ask for: rows of x, and from `panel` on so many rows of weights every VEC products.
typedef struct {
  Ahead x;
  __global const float *panel;
  int rows;
} Coming;

// The product of one channel at each of `rows` positions by one row of weights.
INLINE void add_product(float16 (*sum)[VECTORS], const int rows, const int height, __global const float *x,
                        int x_pitch, __global const float *panel) {
  float16 right[VECTORS];
#pragma unroll
  for (int j = 0; j < VECTORS; j++) right[j] = vload16(j, panel);
#pragma unroll
  for (int i = 0; i < rows; i++) {
    const float16 left = x[(long)min(i, height - 1) * x_pitch];
#pragma unroll
    for (int j = 0; j < VECTORS; j++) sum[i][j] = fma(left, right[j], sum[i][j]);
  }
}

// `rows` positions, of which `height` exist and others are the last once more; those of x and y are `x_pitch` and `pitch` apart. With
// `steps`, so many channels are written out.
INLINE void tile(const int height, const int rows, const int steps, const bool first, const bool last, int depth,
                 __global const float *x, int x_pitch, __global const float *panel, float *sums, __global float *y,
                 int pitch, int columns, const Epilogue epilogue, Coming coming) {
  float16 sum[MR][VECTORS];
#pragma unroll
  for (int i = 0; i < rows; i++) {
    __global float *to = y + (long)min(i, height - 1) * pitch;
    if (last) {
      PREFETCH(to);
      PREFETCH_Z(to, epilogue);
    }
#pragma unroll
    for (int j = 0; j < VECTORS; j++)
      sum[i][j] = first ? (float16)(0.0f) : vload16(min(i, height - 1) * VECTORS + j, sums);
  }
  for (int k = 0; k < depth;) {
    prefetch_lines(coming.x, k);
    for (int i = 0; i < coming.rows; i++, coming.panel += NR)
#pragma unroll
      for (int j = 0; j < VECTORS; j++) PREFETCH(coming.panel + j * VEC);
    const int behind = min(depth, k + VEC);
    const int times = steps > 1 ? (behind - k) / steps : 0;
    k += times * steps;
    for (int n = 0; n < times; n++, x += steps, panel += steps * NR)
#pragma unroll
      for (int s = 0; s < steps; s++) add_product(sum, rows, height, x + s, x_pitch, panel + s * NR);
    for (; k < behind; k++, x++, panel += NR) add_product(sum, rows, height, x, x_pitch, panel);
  }
  if (!last) {
#pragma unroll
    for (int i = 0; i < rows; i++)
#pragma unroll
      for (int j = 0; j < VECTORS; j++)
        if (i < height) vstore16(sum[i][j], i * VECTORS + j, sums);
    return;
  }
  if (columns >= NR && height == rows) {
    float16 bias[VECTORS];
#pragma unroll
    for (int j = 0; j < VECTORS; j++) bias[j] = biases_of(epilogue, j * VEC, VEC);
    if (CF_READS_RESULT(epilogue)) {
#pragma unroll
      for (int i = 0; i < rows; i++)
#pragma unroll
        for (int j = 0; j < VECTORS; j++)
          store_whole(sum[i][j], y + (long)i * pitch + j * VEC, bias[j], epilogue);
      return;
    }
#pragma unroll
    for (int i = 0; i < rows; i++)
#pragma unroll
      for (int j = 0; j < VECTORS; j++) {
        __global float *to = y + (long)i * pitch + j * VEC;
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
      store_part(rest[i * VECTORS + j], y + (long)i * pitch + j * VEC, columns - j * VEC,
                 biases_of(epilogue, j * VEC, columns - j * VEC), epilogue);
}

INLINE void tile_of_height(int height, const bool first, const bool last, int depth, __global const float *x,
                           int x_pitch, __global const float *panel, float *sums, __global float *y, int pitch,
                           int columns, const Epilogue epilogue, Coming coming) {
  if (height == MR)
    tile(MR, MR, STEPS, first, last, depth, x, x_pitch, panel, sums, y, pitch, columns, epilogue, coming);
  else if (height == MR - 1)
    tile(MR - 1, MR - 1, STEPS, first, last, depth, x, x_pitch, panel, sums, y, pitch, columns, epilogue, coming);
  else if (MR > 8 && height > 8)
    tile(height, MR, 1, first, last, depth, x, x_pitch, panel, sums, y, pitch, columns, epilogue, coming);
  else if (MR > 4 && height > 4)
    tile(height, MR < 8 ? MR : 8, 1, first, last, depth, x, x_pitch, panel, sums, y, pitch, columns, epilogue, coming);
  else if (height > 1)
    tile(height, 4, 1, first, last, depth, x, x_pitch, panel, sums, y, pitch, columns, epilogue, coming);
  else
    tile(1, 1, 1, first, last, depth, x, x_pitch, panel, sums, y, pitch, columns, epilogue, coming);
}

// Calls of their own: what the kernel keeps in registers would push sums out of them.
NOINLINE void multiply(int height, int depth, __global const float *x, int x_pitch, __global const float *panel,
                       __global float *y, int pitch, int columns, const Epilogue epilogue, Ahead ahead) {
  tile_of_height(height, true, true, depth, x, x_pitch, panel, 0, y, pitch, columns, epilogue,
                 (Coming){ahead, panel, 0});
}

NOINLINE void multiply_asking(int height, int depth, __global const float *x, int x_pitch,
                              __global const float *panel, __global float *y, int pitch, int columns,
                              const Epilogue epilogue, Coming coming) {
  tile_of_height(height, true, true, depth, x, x_pitch, panel, 0, y, pitch, columns, epilogue, coming);
}

NOINLINE void multiply_part(int height, bool first, bool last, int depth, __global const float *x, int x_pitch,
                            __global const float *panel, float *sums, __global float *y, int pitch, int columns,
                            const Epilogue epilogue, Coming coming) {
  tile_of_height(height, first, last, depth, x, x_pitch, panel, sums, y, pitch, columns, epilogue, coming);
}

INLINE void add_half(float8 *sum, const int rows, __global const float *x, int x_pitch,
                     __global const float *panel) {
  const float8 right = vload8(0, panel);
#pragma unroll
  for (int i = 0; i < rows; i++) sum[i] = fma((float8)(x[(long)i * x_pitch]), right, sum[i]);
}

// Half a vector of filters, which may be what is left of them, at `rows` positions.
INLINE void half_tile(const int rows, int depth, __global const float *x, int x_pitch, __global const float *panel,
                      __global float *y, int pitch, const Epilogue epilogue) {
  float8 sum[2 * MR];
#pragma unroll
  for (int i = 0; i < rows; i++) sum[i] = 0.0f;
  const int times = STEPS > 1 ? depth / STEPS : 0;
  for (int n = 0; n < times; n++, x += STEPS, panel += STEPS * NR)
#pragma unroll
    for (int s = 0; s < STEPS; s++) add_half(sum, rows, x + s, x_pitch, panel + s * NR);
  for (int k = times * STEPS; k < depth; k++, x++, panel += NR) add_half(sum, rows, x, x_pitch, panel);
  const float16 bias = biases_of(epilogue, 0, 8);
#pragma unroll
  for (int i = 0; i < rows; i++) store_half(sum[i], y + (long)i * pitch, bias, epilogue);
}

NOINLINE void multiply_half(int count, int depth, __global const float *x, int x_pitch, __global const float *panel,
                            __global float *y, int pitch, const Epilogue epilogue) {
  for (int p = 0; p < count;) {
    __global const float *source = x + (long)p * x_pitch;
    __global float *to = y + (long)p * pitch;
    const int rows = count - p >= 2 * MR ? 2 * MR : count - p >= MR ? MR : 1;
    if (rows == 2 * MR)
      half_tile(2 * MR, depth, source, x_pitch, panel, to, pitch, epilogue);
    else if (rows == MR)
      half_tile(MR, depth, source, x_pitch, panel, to, pitch, epilogue);
    else
      half_tile(1, depth, source, x_pitch, panel, to, pitch, epilogue);
    p += rows;
  }
}

// Global size: (runs of filters, runs of positions, 1), so that a core that takes work-items side by side has all
// filters of its positions; `share` positions and `strip` filters each, `strip` a multiple of NR. All pixels are one
// row; those of x are `x_pitch` apart, those of y `pitch`.
__kernel ONE_ITEM void igemm_cpu_flat(__global const float *restrict x, __global const float *restrict packed,
                                      __global float *restrict y, GEOMETRY, CF_EPILOGUE_PARAMETERS, const int share,
                                      const int strip, const int x_pitch, const int pitch) {
  const Epilogue epilogue = CF_EPILOGUE(y);
  const int begin = get_global_id(1) * share, end = min(o_w, begin + share);
  const int k0 = get_global_id(0) * strip, k1 = min(filters, k0 + strip);
  const int blocks = max(1, (channels + DEPTH - 1) / DEPTH), block = (channels + blocks - 1) / blocks;
  float sums[CHUNK * NR] __attribute__((aligned(64)));
  // A second chunk would read the weights again, which come from farther away than a few positions do.
  const int cached = clamp(CACHED_FLOATS / max(1, channels) / MR * MR, 4 * MR, CHUNK);
  const int chunk = end - begin <= FEW ? FEW : cached;
  for (int from = begin; from < end; from += chunk) {
    const int behind = min(end, from + chunk);
    // Of the weights, which are in no cache before the first chunk; one tile reads them in order anyway.
    const bool is_new = from == begin && behind - from > MR;
    const int asked = is_new ? min(VEC, (VEC * MR + behind - from - 1) / (behind - from)) : 0;
    for (int k = k0; k < k1; k += NR) {
      const Epilogue own = CF_EPILOGUE_FROM(epilogue, k);
      __global const float *panel = packed + (long)(k / NR) * channels * NR;
      if (VECTORS == 1 && blocks == 1 && k1 - k == VEC / 2) {
        multiply_half(behind - from, channels, x + (long)from * x_pitch, x_pitch, panel, y + (long)from * pitch + k,
                      pitch, own);
        continue;
      }
      for (int b = 0; b < blocks; b++) {
        const int c = b * block, depth = min(block, channels - c);
        __global const float *next = panel + (long)(c + depth) * NR;
        for (int p = from; p < behind;) {
          const int height = next_height(behind - p);
          __global const float *source = x + (long)p * x_pitch + c;
          __global float *to = y + (long)p * pitch + k;
          // What comes from far away is asked for where it is read first.
          const Coming coming = {
              {source + (long)height * x_pitch, x_pitch, k == k0 ? min(MR, end - p - height) : 0}, next, asked};
          next += depth / VEC * asked * NR;
          if (blocks == 1 && asked == 0)
            multiply(height, depth, source, x_pitch, panel, to, pitch, k1 - k, own, coming.x);
          else if (blocks == 1)
            multiply_asking(height, depth, source, x_pitch, panel, to, pitch, k1 - k, own, coming);
          else
            multiply_part(height, b == 0, b + 1 == blocks, depth, source, x_pitch, panel + (long)c * NR,
                          sums + (p - from) * NR, to, pitch, k1 - k, own, coming);
          p += height;
        }
      }
    }
  }
}
