// Winograd convolution of volumes for CPU devices: planes are transformed as images are, and the
// planes of a filter are summed up with the channels.
//
// One work-item computes a run of blocks by a run of filters of one group. A block is the same tiles of
// neighbouring planes of results, so that a plane of data is transformed once for all planes of a filter:
//
//   for FILTERS filters, for CHANNELS channels:
//     V[xi][plane][tile][channel] = transformed data of all planes that the block needs
//     for planes of the filter:
//       M[xi][plane][tile][filter] += V[xi][plane + that of the filter] U[xi]
//   result = transformed M
//
// U comes from winograd_cpu_pack_volumes.
#ifndef CPU_VOLUMES_H
#define CPU_VOLUMES_H

#define PACKED 1
#ifndef CHANNELS_LAST
#define CHANNELS_LAST 1    // 0, 1: layout of data and result
#endif
#ifndef MR
#define MR 12              // tiles of the register tile: 4, 6, 8, 12
#endif
#ifndef VECTORS
#define VECTORS 2          // float16 filters of the register tile: 1, 2
#endif
#ifndef TILES
#define TILES 24           // results of a block, multiple of MR
#endif
#ifndef SLOTS
#define SLOTS 48           // tiles of data of a block, and up to MR more
#endif
#ifndef CHANNELS
#define CHANNELS 64        // block of the reduction, multiple of 16
#endif
#ifndef FILTERS
#define FILTERS 64         // block of filters, multiple of 16 * VECTORS
#endif

#define NR (VEC * VECTORS)
#define POINT_STEP ((CHANNELS + 1) * NR)  // floats from one point's U to the next: no power of two
#define PANEL (POINTS * POINT_STEP)  // floats of U for NR filters, CHANNELS channels and one plane
#define DATA_SPACE __private

#include "cpu_axes.h"
#include "cpu_filters.h"
#include "cpu_tiles.h"
#include "cpu_points.h"
#include "cpu_results.h"

// Weights of a group to [panel of NR filters][block of CHANNELS channels][plane][xi][channel][filter].
// Global size: (panels, blocks * planes of a filter, groups).
__kernel ONE_ITEM void winograd_cpu_pack_volumes(
    __global const ELEMENT *restrict w, __global float *restrict packed, const int filters,
    const int channels, const int taps_d, const long w_group, const long w_filter,
    const long w_channel, const long w_tap, const int flipped) {
  const int k = get_global_id(0) * NR, c = get_global_id(1) / taps_d * CHANNELS;
  const int tap = get_global_id(1) % taps_d;
  const long at = ((long)get_global_id(2) * get_global_size(0) + get_global_id(0)) *
                      get_global_size(1) + get_global_id(1);
  w += get_global_id(2) * w_group + k * w_filter + c * w_channel;
  w += (flipped ? taps_d - 1 - tap : tap) * WINDOW * w_tap;
  transform_weights(packed + at * PANEL, w, min(NR, filters - k), min(CHANNELS, channels - c),
                    w_filter, w_channel, w_tap, flipped);
}

// Global size: (runs of `share` blocks, runs of `strip` filters, groups); `strip` is a multiple of NR.
// A block is `across` tiles of up to `planes` planes.
__kernel ONE_ITEM void winograd_cpu_volumes(
    __global const ELEMENT *restrict x, __global const float *restrict weights,
    __global ELEMENT *restrict y, const int images, const int groups, const int channels,
    const int filters, const int x_d, const int x_h, const int x_w, const int y_d, const int y_h,
    const int y_w, const int pad_d, const int pad_h, const int pad_w, const int dilation_d,
    const int dilation_h, const int dilation_w, const int taps_d, CF_EPILOGUE_PARAMETERS,
    const int across, const int planes, const int share, const int strip) {
  const Epilogue epilogue = CF_EPILOGUE(y);
  const int group = get_global_id(2);
  const Grid grid = grid_of(y_h, y_w, OUTPUTS, dilation_h, dilation_w);
  const int tiles = tiles_of(grid);
  const int runs = (tiles + across - 1) / across, chunks = (y_d + planes - 1) / planes;
  const int first = get_global_id(0) * share, end = min(images * chunks * runs, first + share);
  const int k_first = get_global_id(1) * strip, k_end = min(filters, k_first + strip);
#if CHANNELS_LAST
  const long x_pixel = (long)groups * channels, x_channel = 1, x_plane = x_pixel * x_h * x_w;
  const long y_pixel = (long)groups * filters, y_filter = 1, y_plane = y_pixel * y_h * y_w;
#else
  const long x_pixel = 1, x_plane = (long)x_h * x_w, x_channel = x_d * x_plane;
  const long y_pixel = 1, y_plane = (long)y_h * y_w, y_filter = y_d * y_plane;
#endif
  const long x_image = (long)groups * channels * x_d * x_h * x_w;
  const long y_image = (long)groups * filters * y_d * y_h * y_w;
  const int blocks = (channels + CHANNELS - 1) / CHANNELS;

  float data[POINTS * SLOTS * CHANNELS] __attribute__((aligned(64)));
  float sums[FILTERS * POINTS * TILES] __attribute__((aligned(64)));

  for (int block = first; block < end; block++) {
    const int image = block / (runs * chunks), chunk = block / runs % chunks;
    const int t0 = block % runs * across, d0 = chunk * planes;
    const int wide = min(across, tiles - t0), deep = min(planes, y_d - d0);
    const int top = d0 - pad_d;  // plane of the data that the first tap of the first plane meets
    for (int k0 = k_first; k0 < k_end; k0 += FILTERS) {
      const int k1 = min(k_end, k0 + FILTERS), vectors = (k1 - k0 + VEC - 1) / VEC;
      for (int i = 0; i < (k1 - k0 + NR - 1) / NR * POINTS * TILES * VECTORS; i++)
        vstore16((float16)(0.0f), i, sums);
      for (int b = 0; b < blocks; b++) {
        const int c0 = b * CHANNELS, depth = min(CHANNELS, channels - c0);
        if (blocks > 1 || k0 == k_first) {
          for (int d = 0; d < deep + (taps_d - 1) * dilation_d; d++) {
            // A plane outside has no rows, and becomes zeros.
            const bool inside = top + d >= 0 && top + d < x_d;
            const long at = (long)(group * channels + c0) * x_channel + image * x_image +
                            (inside ? top + d : 0) * x_plane;
            transform_tiles(data + d * wide * VEC, SLOTS * CHANNELS, SLOTS, VALUES, x + at, t0, wide,
                            grid, depth, inside ? x_h : 0, x_w, pad_h, pad_w, x_image, x_pixel,
                            x_channel, images * x_image - at);
          }
        }
        for (int k = k0; k < k1; k += NR) {
          for (int tap = 0; tap < taps_d; tap++) {
            // Planes of results for which the tap meets a plane of the data.
            const int from = max(0, -top - tap * dilation_d);
            const int to = min(deep, x_d - top - tap * dilation_d);
            const long at = ((long)group * ((filters + NR - 1) / NR) + k / NR) * blocks + b;
            __global const float *panel = weights + (at * taps_d + tap) * PANEL;
            for (int xi = 0; xi < POINTS && from < to; xi++)
              multiply_tiles((to - from) * wide, depth,
                             data + xi * SLOTS * CHANNELS + (from + tap * dilation_d) * wide * VEC,
                             SLOTS, panel + xi * POINT_STEP,
                             sums + (((k - k0) / NR * POINTS + xi) * TILES + from * wide) * NR, false);
          }
        }
      }
      for (int i = 0; i < deep * wide * vectors; i++) {
        // Along the innermost axis of y.
        const int t = CHANNELS_LAST ? i / vectors : i % (deep * wide);
        const int k = k0 + (CHANNELS_LAST ? i % vectors : i / (deep * wide)) * VEC;
        const Place place = place_of(t0 + t % wide, grid, OUTPUTS);
        const float *from = sums + ((k - k0) / NR * POINTS * TILES + t) * NR + (k - k0) % NR;
        store_tile((const float16 *)from, TILES * VECTORS,
                   y + image * y_image + (d0 + t / wide) * y_plane + (group * filters + k) * y_filter,
                   place.row, place.column, grid.dilation_h, grid.dilation_w, min(VEC, k1 - k), y_h,
                   y_w, y_pixel, y_filter, CF_EPILOGUE_FROM(epilogue, group * filters + k));
      }
    }
  }
}

#endif  // CPU_VOLUMES_H
