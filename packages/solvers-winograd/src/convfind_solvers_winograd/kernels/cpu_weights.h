// The weight gradient of a convolution for CPU devices, by F(m, r) with the m outputs as the
// taps of the window: tiles of r x r results are filters that are used once.
//
// One work-item computes a block of filters by a block of channels of one group over a run of tiles:
//
//   for TILES tiles:
//     V[xi][tile][channel] = transformed x, U[xi][tile][filter] = transformed y
//     M[xi][filter][channel] += U[xi]^T V[xi]        a product for each of the points xi
//   w = transformed M
//
// All of it stays in private memory, which stays in the level-2 cache. Where there are few blocks, runs
// of tiles give parts of w, which winograd_cpu_sum adds in their order.
#ifndef CPU_WEIGHTS_H
#define CPU_WEIGHTS_H

#ifndef CHANNELS_LAST
#define CHANNELS_LAST 1    // 0, 1: layout of x, y and w
#endif
#ifndef MR
#define MR 8               // filters of the register tile: 4, 8, 16
#endif
#ifndef VECTORS
#define VECTORS 2          // float16 channels of the register tile: 1, 2
#endif
#ifndef TILES
#define TILES 24           // tiles at a time
#endif
#ifndef CHANNELS
#define CHANNELS 64        // block of channels, multiple of 16 * VECTORS
#endif
#ifndef FILTERS
#define FILTERS 64         // block of filters, multiple of 16
#endif

#define NR (VEC * VECTORS)
#ifndef STRIDE
#define STRIDE TAPS
#endif

#include "cpu_axes.h"
#include "cpu_tiles.h"

// sums[filter][channel] (+)= y[tile][filter] * x[tile][channel] in registers.
INLINE void multiply(const int depth, const float *y, const float *x, float *sums,
                     const bool first) {
  float16 sum[MR][VECTORS];
#pragma unroll
  for (int i = 0; i < MR; i++)
#pragma unroll
    for (int j = 0; j < VECTORS; j++)
      sum[i][j] = first ? (float16)(0.0f) : vload16(j, sums + i * CHANNELS);
  for (int t = 0; t < depth; t++) {
    float16 right[VECTORS];
#pragma unroll
    for (int j = 0; j < VECTORS; j++) right[j] = vload16(j * TILES + t, x);
#pragma unroll
    for (int i = 0; i < MR; i++) {
      const float16 left = y[t * VEC + i];
#pragma unroll
      for (int j = 0; j < VECTORS; j++) sum[i][j] = fma(left, right[j], sum[i][j]);
    }
  }
#pragma unroll
  for (int i = 0; i < MR; i++)
#pragma unroll
    for (int j = 0; j < VECTORS; j++) vstore16(sum[i][j], j, sums + i * CHANNELS);
}

// The windows of one filter and up to 16 channels.
INLINE void store_windows(const float *sums, __global float *w, int channels, long w_tap,
                          const Epilogue epilogue) {
  float16 taps[(AREA(OUTPUTS) + VEC - 1) / VEC * VEC];
  TRANSFORM_BOTH(transform_result, (const float16 *)sums, FILTERS * CHANNELS / VEC, N, taps,
                 OUTPUTS);
#pragma unroll
  for (int i = 0; i < AREA(OUTPUTS); i++) taps[i] *= epilogue.alpha;
  const Epilogue rest = cf_epilogue_of_scaled(epilogue);
#if CHANNELS_LAST
#pragma unroll
  for (int tap = 0; tap < AREA(OUTPUTS); tap++)
    store_part(taps[tap], w + tap * w_tap, channels, NO_BIAS, rest);
#else
#pragma unroll
  for (int first = 0; first < AREA(OUTPUTS); first += VEC) {
    const int count = min(AREA(OUTPUTS) - first, VEC);
#pragma unroll
    for (int i = count; i < VEC; i++) taps[first + i] = 0.0f;
    transpose(taps + first);
#pragma unroll
    for (int c = 0; c < VEC; c++)
      if (c < channels) store_part(taps[first + c], w + c * AREA(OUTPUTS) + first, count, NO_BIAS, rest);
  }
#endif
}

// Global size: (blocks of filters, blocks of channels, groups times parts of `share` tiles).
__kernel ONE_ITEM void winograd_cpu_weights(
    __global const float *restrict x, __global const float *restrict y, __global float *restrict w,
    const int images, const int groups, const int channels, const int filters, const int x_h,
    const int x_w, const int y_h, const int y_w, const int pad_h, const int pad_w,
    const int dilation_h, const int dilation_w, CF_EPILOGUE_PARAMETERS,
    const int share) {
  const Epilogue epilogue = CF_EPILOGUE(w);
  const int group = get_global_id(2) % groups, part = get_global_id(2) / groups;
  const Grid grid = grid_of(y_h, y_w, TAPS, dilation_h, dilation_w);
  const int first = part * share, end = min(images * tiles_of(grid), first + share);
  const int k0 = get_global_id(0) * FILTERS, k_count = min(FILTERS, filters - k0);
  const int c0 = get_global_id(1) * CHANNELS, c_count = min(CHANNELS, channels - c0);
#if CHANNELS_LAST
  const long x_pixel = (long)groups * channels, x_channel = 1;
  const long y_pixel = (long)groups * filters, y_filter = 1;
  const long w_channel = 1, w_tap = channels;
#else
  const long x_pixel = 1, x_channel = (long)x_h * x_w;
  const long y_pixel = 1, y_filter = (long)y_h * y_w;
  const long w_channel = AREA(OUTPUTS), w_tap = 1;
#endif
  const long x_image = (long)groups * channels * x_h * x_w;
  const long y_image = (long)groups * filters * y_h * y_w;
  const long x_at = (long)(group * channels + c0) * x_channel;
  const long y_at = (long)(group * filters + k0) * y_filter;

  float data[POINTS * TILES * CHANNELS] __attribute__((aligned(64)));
  float gradient[POINTS * TILES * FILTERS] __attribute__((aligned(64)));
  float sums[POINTS * FILTERS * CHANNELS] __attribute__((aligned(64)));

  for (int t0 = first; t0 < end; t0 += TILES) {
    const int count = min(TILES, end - t0);
    transform_tiles(data, TILES * CHANNELS, TILES, VALUES, x + x_at, t0, count, grid, c_count, x_h,
                    x_w, pad_h, pad_w, x_image, x_pixel, x_channel, images * x_image - x_at);
    transform_tiles(gradient, TILES * FILTERS, TILES, TAPS, y + y_at, t0, count, grid, k_count,
                    y_h, y_w, 0, 0, y_image, y_pixel, y_filter, images * y_image - y_at);
    for (int xi = 0; xi < POINTS; xi++)
      for (int c = 0; c < c_count; c += NR)
        for (int k = 0; k < k_count; k += MR)
          multiply(count, gradient + (xi * FILTERS + k / VEC * VEC) * TILES + k % VEC,
                   data + (xi * CHANNELS + c) * TILES,
                   sums + (xi * FILTERS + k) * CHANNELS + c, t0 == first);
  }
  w += (((long)part * groups + group) * filters + k0) * channels * AREA(OUTPUTS);
  for (int k = 0; k < k_count; k++)
    for (int c = 0; c < c_count; c += VEC)
      store_windows(sums + k * CHANNELS + c,
                    w + (long)k * channels * AREA(OUTPUTS) + (c0 + c) * w_channel, c_count - c,
                    w_tap, epilogue);
}

// w = alpha * the sum of its parts + beta * w. Global size: vectors of 16 elements.
__kernel ONE_ITEM void winograd_cpu_sum(__global const float *restrict parts,
                                        __global float *restrict w, const int count,
                                        const long elements, CF_EPILOGUE_PARAMETERS) {
  const Epilogue epilogue = CF_EPILOGUE(w);
  const long at = (long)get_global_id(0) * VEC;
  const int used = (int)min((long)VEC, elements - at);
  float16 sum = load_part(parts + at, used);
  for (int part = 1; part < count; part++) sum += load_part(parts + part * elements + at, used);
  store_part(sum, w + at, used, NO_BIAS, epilogue);
}

#endif  // CPU_WEIGHTS_H
