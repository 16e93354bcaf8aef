// Fused Winograd convolution for CPU devices: data transform, products and result transform
// of up to TILES tiles at a time stay in private memory, which stays in the level-2 cache.
//
// One work-item computes a run of tiles (all images in one row) by a run of filters of one group:
//
//   for FILTERS filters, for CHANNELS channels:
//     V[xi][tile][channel] = transformed data, U[xi][channel][filter] = transformed weights
//     M[xi][tile][filter] += V[xi] U[xi]        a product for each of the points xi
//   result = transformed M
//
// U comes from winograd_cpu_pack (PACKED 1), or each work-item transforms the weights itself (PACKED 0),
// which is less to read where there are few tiles. There items share tiles, and V may come from
// winograd_cpu_data (DATA_AHEAD 1). In a data gradient channels and filters have
// changed places, and the window is turned round.
#ifndef CPU_FUSED_H
#define CPU_FUSED_H

#ifndef CHANNELS_LAST
#define CHANNELS_LAST 1    // 0, 1: layout of data and result
#endif
#ifndef PACKED
#define PACKED 1           // 0, 1
#endif
#ifndef DATA_AHEAD
#define DATA_AHEAD 0       // 0, 1: data is transformed before, by winograd_cpu_data
#endif
#ifndef MR
#define MR 12              // tiles of the register tile: 4, 6, 8, 12
#endif
#ifndef VECTORS
#define VECTORS 2          // float16 filters of the register tile: 1, 2
#endif
#ifndef TILES
#define TILES 24           // multiple of MR
#endif
#ifndef CHANNELS
#define CHANNELS 64        // block of the reduction, multiple of 16
#endif
#ifndef FILTERS
#define FILTERS 64         // block of filters, multiple of 16 * VECTORS
#endif

#define NR (VEC * VECTORS)
#define POINT_STEP ((CHANNELS + 1) * NR)  // floats from one point's U to the next: no power of two
#define SHARED (FILTER_POINTS < N)        // whether several points have the same U
#define PANEL (WEIGHT_POINTS * POINT_STEP)  // floats of U for NR filters and CHANNELS channels

#if DATA_AHEAD
#define DATA_SPACE __global
#define DATA float  // of what the products read
#else
#define DATA_SPACE __private
#define DATA ELEMENT
#endif

#include "cpu_axes.h"
#include "cpu_filters.h"
#include "cpu_tiles.h"
#include "cpu_points.h"
#include "cpu_results.h"

#if DATA_AHEAD
// V of a group: [run of `span` tiles][block of CHANNELS channels][xi][channel / 16][tile][channel % 16].
// Global size: (runs of up to TILES tiles, blocks, groups).
__kernel ONE_ITEM void winograd_cpu_data(
    __global const ELEMENT *restrict x, __global float *restrict values, const int images,
    const int groups, const int channels, const int x_h, const int x_w, const int y_h,
    const int y_w, const int pad_h, const int pad_w, const int dilation_h, const int dilation_w,
    const int span) {
  const int run = get_global_id(0), block = get_global_id(1), group = get_global_id(2);
  const Grid grid = grid_of(y_h, y_w, OUTPUTS, dilation_h, dilation_w);
  const int c0 = block * CHANNELS, count = min(TILES, images * tiles_of(grid) - run * TILES);
#if CHANNELS_LAST
  const long x_pixel = (long)groups * channels, x_channel = 1;
#else
  const long x_pixel = 1, x_channel = (long)x_h * x_w;
#endif
  const long x_image = (long)groups * channels * x_h * x_w;
  const long from = (long)(group * channels + c0) * x_channel;
  const long to = ((long)group * get_global_size(0) + run) * get_global_size(1) + block;
  transform_tiles(values + to * POINTS * span * CHANNELS, span * CHANNELS, span, VALUES, x + from,
                  run * TILES, count, grid, min(CHANNELS, channels - c0), x_h, x_w, pad_h, pad_w,
                  x_image, x_pixel, x_channel, images * x_image - from);
}
#endif

// Global size: (runs of `share` tiles, runs of `strip` filters, groups); `strip` is a multiple of NR.
// Channels last, pixels of y are `pitch` apart.
__kernel ONE_ITEM void winograd_cpu_fused(
    __global const DATA *restrict x, __global const WEIGHT *restrict weights,
    __global ELEMENT *restrict y, const int images, const int groups, const int channels,
    const int filters, const int x_h, const int x_w, const int y_h, const int y_w, const int pad_h,
    const int pad_w, const int dilation_h, const int dilation_w, CF_EPILOGUE_PARAMETERS, const int share, const int strip, const int span, const long w_group,
    const long w_filter, const long w_channel, const long w_tap, const int flipped, const int pitch) {
  const Epilogue epilogue = CF_EPILOGUE(y);
  const int group = get_global_id(2);
  const Grid grid = grid_of(y_h, y_w, OUTPUTS, dilation_h, dilation_w);
  const int tiles = images * tiles_of(grid);
  const int first = get_global_id(0) * share, end = min(tiles, first + share);
  const int k_first = get_global_id(1) * strip, k_end = min(filters, k_first + strip);
#if CHANNELS_LAST
  const long x_pixel = (long)groups * channels, x_channel = 1;
  const long y_pixel = pitch, y_filter = 1, y_image = (long)pitch * y_h * y_w;
#else
  const long x_pixel = 1, x_channel = (long)x_h * x_w;
  const long y_pixel = 1, y_filter = (long)y_h * y_w, y_image = (long)groups * filters * y_filter;
#endif
  const long x_image = (long)groups * channels * x_h * x_w;
  const int blocks = (channels + CHANNELS - 1) / CHANNELS;
  const int apart = DATA_AHEAD ? span : TILES;  // vectors of tiles, from channels to channels

#if !DATA_AHEAD
  float data[POINTS * TILES * CHANNELS] __attribute__((aligned(64)));
#endif
  float sums[FILTERS * POINTS * TILES] __attribute__((aligned(64)));
#if !PACKED
  float panel[PANEL] __attribute__((aligned(64)));
#endif

  for (int t0 = first; t0 < end; t0 += TILES) {
    const int count = min(TILES, end - t0);
    for (int k0 = k_first; k0 < k_end; k0 += FILTERS) {
      const int k1 = min(k_end, k0 + FILTERS);
      for (int b = 0; b < blocks; b++) {
        const int c0 = b * CHANNELS, depth = min(CHANNELS, channels - c0);
#if DATA_AHEAD
        const long run = ((long)group * ((tiles + TILES - 1) / TILES) + t0 / TILES) * blocks + b;
        __global const float *data = x + run * POINTS * span * CHANNELS;
#else
        if (blocks > 1 || k0 == k_first) {
          const long at = (long)(group * channels + c0) * x_channel;
          transform_tiles(data, TILES * CHANNELS, TILES, VALUES, x + at, t0, count, grid, depth, x_h,
                          x_w, pad_h, pad_w, x_image, x_pixel, x_channel, images * x_image - at);
        }
#endif
        for (int k = k0; k < k1; k += NR) {
#if PACKED
          const long at = ((long)group * ((filters + NR - 1) / NR) + k / NR) * blocks + b;
          __global const float *panel = weights + at * PANEL;
#else
          __global const ELEMENT *w = weights + group * w_group;
          transform_weights(panel, w + k * w_filter + c0 * w_channel, min(NR, filters - k), depth,
                            w_filter, w_channel, w_tap, flipped);
          const int next_k = k + NR < k1 ? k + NR : k0, next_c = c0 + (k + NR < k1 ? 0 : CHANNELS);
#endif
          for (int u = 0; u < WEIGHT_POINTS; u++) {
#if !PACKED
            fetch_weights(w + next_k * w_filter + next_c * w_channel, u, filters - next_k,
                          channels - next_c, w_filter, w_channel, w_tap);
#endif
            const int i0 = u / SIZE_W(FILTER_POINTS), j0 = u % SIZE_W(FILTER_POINTS);
            const int i1 = SHARED && i0 + 1 == SIZE_H(FILTER_POINTS) ? SIZE_H(N) : i0 + 1;
            const int j1 = SHARED && j0 + 1 == SIZE_W(FILTER_POINTS) ? SIZE_W(N) : j0 + 1;
            for (int i = i0; i < i1; i++)
              for (int j = j0; j < j1; j++) {
                const int xi = i * SIZE_W(N) + j;
                multiply_tiles(count, depth, data + xi * apart * CHANNELS, apart,
                               panel + u * POINT_STEP,
                               sums + ((k - k0) / NR * POINTS + xi) * TILES * NR, b == 0);
              }
          }
        }
      }
      const int vectors = (k1 - k0 + VEC - 1) / VEC;
      for (int i = 0; i < count * vectors; i++) {
        // Along the innermost axis of y.
        const int t = CHANNELS_LAST ? i / vectors : i % count;
        const int k = k0 + (CHANNELS_LAST ? i % vectors : i / count) * VEC;
        const Place place = place_of(t0 + t, grid, OUTPUTS);
        const float *from = sums + ((k - k0) / NR * POINTS * TILES + t) * NR + (k - k0) % NR;
        store_tile((const float16 *)from, TILES * VECTORS,
                   y + place.image * y_image + (group * filters + k) * y_filter, place.row,
                   place.column, grid.dilation_h, grid.dilation_w, min(VEC, k1 - k), y_h, y_w,
                   y_pixel, y_filter, CF_EPILOGUE_FROM(epilogue, group * filters + k));
      }
    }
  }
}

#endif  // CPU_FUSED_H
