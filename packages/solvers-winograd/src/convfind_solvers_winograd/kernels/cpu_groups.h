// Fused Winograd convolution of groups of few channels, channels last, for CPU devices.
//
// One work-item computes a run of tiles (all images in one row) of one group. For up to TILES of them at a time it copies
// the rows of x under them, tile row by tile row, to private memory, where there are zeros around the image and
// the channels of the group lie side by side, so that no tile is a special one; then
//
//   V[xi][tile][channel] = transformed data
//   M[xi][tile][filter] = V[xi] U[xi]          a product for each of the points xi
//   result = transformed M
//
// A group has so few channels and filters that a product's weights stay in the level-1 cache for all of the tiles. U comes
// from winograd_cpu_groups_pack. In a data gradient channels and filters have changed places, and the window is turned round.
#ifndef CPU_GROUPS_H
#define CPU_GROUPS_H

#ifndef CHANNELS
#define CHANNELS 24  // of a group, a multiple of 8
#endif
#ifndef FILTERS
#define FILTERS 24   // of a group, a multiple of 8
#endif
#ifndef MR
#define MR 4         // tiles of the register tile
#endif
#ifndef VECTORS
#define VECTORS 3    // vectors of filters of the register tile; divides FILTERS / 8
#endif
#ifndef TILES
#define TILES 16     // room for tiles, at least MR
#endif
#ifndef SPAN
#define SPAN 16      // most tiles of a tile row that are copied at a time
#endif

#define N (OUTPUTS + TAPS - 1)
#define POINTS (N * N)
#define NR (VECTORS * LANES)
#define COLUMNS (SPAN * OUTPUTS + TAPS - 1)
#define V_STEP (TILES * CHANNELS + 16)  // from point to point: no power of two
#define M_STEP (TILES * FILTERS + 16)
#define U_STEP (CHANNELS * FILTERS)

INLINE void transform_all(float8 *values, float8 *points) {
  float8 between[POINTS];
#pragma unroll
  for (int i = 0; i < N; i++) transform_data(values + i * N, 1, between + i * N, 1);
#pragma unroll
  for (int j = 0; j < N; j++) transform_data(between + j, N, points + j, N);
}

// V of one tile; `rows` is where it begins in what has been copied.
INLINE void transform_tile(float *to, const float *rows) {
  for (int c = 0; c < CHANNELS; c += LANES) {
    float8 values[POINTS], points[POINTS];
#pragma unroll
    for (int i = 0; i < N; i++)
#pragma unroll
      for (int j = 0; j < N; j++) values[i * N + j] = vload8(0, rows + (i * COLUMNS + j) * CHANNELS + c);
    transform_all(values, points);
#pragma unroll
    for (int xi = 0; xi < POINTS; xi++) vstore8(points[xi], 0, to + xi * V_STEP + c);
  }
}

// sums[tile][filter] = values[tile][channel] * weights[channel][filter] of MR tiles and NR filters in registers.
INLINE void multiply(const float *values, __global const float *weights, float *sums) {
  float8 sum[MR][VECTORS];
#pragma unroll
  for (int i = 0; i < MR; i++)
#pragma unroll
    for (int v = 0; v < VECTORS; v++) sum[i][v] = 0.0f;
#pragma unroll 4
  for (int c = 0; c < CHANNELS; c++) {
    float8 right[VECTORS];
#pragma unroll
    for (int v = 0; v < VECTORS; v++) right[v] = vload8(v, weights + c * FILTERS);
#pragma unroll
    for (int i = 0; i < MR; i++) {
      const float8 left = values[i * CHANNELS + c];
#pragma unroll
      for (int v = 0; v < VECTORS; v++) sum[i][v] = fma(left, right[v], sum[i][v]);
    }
  }
#pragma unroll
  for (int i = 0; i < MR; i++)
#pragma unroll
    for (int v = 0; v < VECTORS; v++) vstore8(sum[i][v], v, sums + i * FILTERS);
}

// All products of `count` tiles. The last ones overlap others: tiles that are computed twice are computed alike. The weights
// of the next point are asked for where they come from memory.
INLINE void multiply_all(const float *data, __global const float *weights, float *sums, const int count,
                         const bool fetches) {
  for (int xi = 0; xi < POINTS; xi++, data += V_STEP, weights += U_STEP, sums += M_STEP) {
    if (fetches && xi + 1 < POINTS) {
      for (int i = 0; i < U_STEP; i += 16) PREFETCH(weights + U_STEP + i);
    }
    for (int k = 0; k < FILTERS; k += NR)
      for (int t = 0; t < count; t += MR) {
        const int at = max(min(t, count - MR), 0);
        multiply(data + at * CHANNELS, weights + k, sums + at * FILTERS + k);
      }
  }
}

// Results of a tile and 8 filters, the first `rows` and `columns` of which exist.
INLINE void store_tile(__global float *y, const float *sums, const int rows, const int columns, const int y_w,
                       const long y_pixel, const int filter, const Epilogue epilogue) {
  float8 values[POINTS], between[OUTPUTS * N], results[OUTPUTS * OUTPUTS];
#pragma unroll
  for (int xi = 0; xi < POINTS; xi++) values[xi] = vload8(0, sums + xi * M_STEP);
#pragma unroll
  for (int j = 0; j < N; j++) transform_result(values + j, N, between + j, N);
#pragma unroll
  for (int i = 0; i < OUTPUTS; i++) transform_result(between + i * N, 1, results + i * OUTPUTS, 1);
#pragma unroll
  for (int i = 0; i < OUTPUTS; i++) {
    if (i >= rows) break;
#pragma unroll
    for (int j = 0; j < OUTPUTS; j++) {
      if (j >= columns) break;
      store_lanes(results[i * OUTPUTS + j], y + ((long)i * y_w + j) * y_pixel, filter, epilogue);
    }
  }
}

// U of a group: packed[xi][channel][filter]. Global size: (vectors of filters, vectors of channels, groups).
__kernel ONE_ITEM void winograd_cpu_groups_pack(__global const float *restrict w, __global float *restrict packed,
                                                const long w_group, const long w_filter, const long w_channel,
                                                const long w_tap, const int flipped) {
  const int k = get_global_id(0) * LANES, first = get_global_id(1) * LANES;
  w += get_global_id(2) * w_group + k * w_filter;
  packed += get_global_id(2) * POINTS * U_STEP + k;
  for (int c = first; c < first + LANES; c++) {
    float8 window[TAPS * TAPS], between[N * TAPS], points[POINTS];
    for (int tap = 0; tap < TAPS * TAPS; tap++) {
      float part[LANES];
      __global const float *from = w + c * w_channel + (flipped ? TAPS * TAPS - 1 - tap : tap) * w_tap;
      for (int i = 0; i < LANES; i++) part[i] = from[i * w_filter];
      window[tap] = vload8(0, part);
    }
#pragma unroll
    for (int j = 0; j < TAPS; j++) transform_filter(window + j, TAPS, between + j, TAPS);
#pragma unroll
    for (int i = 0; i < N; i++) transform_filter(between + i * TAPS, 1, points + i * N, 1);
#pragma unroll
    for (int xi = 0; xi < POINTS; xi++) vstore8(points[xi], 0, packed + xi * U_STEP + c * FILTERS);
  }
}

// Global size: (runs of `share` tiles, 1, groups). Pixels of y are `pitch` apart.
__kernel ONE_ITEM void winograd_cpu_groups(__global const float *restrict x, __global const float *restrict packed,
                                           __global float *restrict y, const int images, const int groups,
                                           const int x_h, const int x_w, const int y_h, const int y_w, const int pad_h,
                                           const int pad_w, CF_EPILOGUE_PARAMETERS, const int share,
                                           const int pitch) {
  const Epilogue whole = CF_EPILOGUE(y);
  float rows[N * COLUMNS * CHANNELS] __attribute__((aligned(64)));
  float data[POINTS * V_STEP] __attribute__((aligned(64)));
  float sums[POINTS * M_STEP] __attribute__((aligned(64)));
  const int group = get_global_id(2);
  const int down = (y_h + OUTPUTS - 1) / OUTPUTS, across = (y_w + OUTPUTS - 1) / OUTPUTS;
  const int first = get_global_id(0) * share, end = min(first + share, images * down * across);
  const long x_pixel = (long)groups * CHANNELS, y_pixel = pitch;
  const Epilogue epilogue = CF_EPILOGUE_FROM(whole, group * FILTERS);
  x += group * CHANNELS;
  y += group * FILTERS;
  packed += (long)group * POINTS * U_STEP;
  for (int t0 = first; t0 < end; t0 += TILES) {
    const int count = min(TILES, end - t0);
    for (int t = 0, run; t < count; t += run) {
      const int line = (t0 + t) / across, j = (t0 + t) % across;
      run = min(min(count - t, SPAN), across - j);
      copy_places(rows, x + (long)(line / down) * x_h * x_w * x_pixel, CHANNELS, line % down * OUTPUTS - pad_h,
                  j * OUTPUTS - pad_w, N, run * OUTPUTS + TAPS - 1, COLUMNS * CHANNELS, x_h, x_w, x_pixel);
      for (int i = 0; i < run; i++) transform_tile(data + (t + i) * CHANNELS, rows + i * OUTPUTS * CHANNELS);
    }
    for (int t = count; t < MR; t++)  // a register tile's, whose results nobody reads
      for (int xi = 0; xi < POINTS; xi++)
        for (int c = 0; c < CHANNELS; c += LANES) vstore8((float8)(0.0f), 0, data + xi * V_STEP + t * CHANNELS + c);
    multiply_all(data, packed, sums, count, t0 == first);
    for (int t = 0; t < count; t++) {
      const int line = (t0 + t) / across, j = (t0 + t) % across * OUTPUTS, i = line % down * OUTPUTS;
      __global float *to = y + (((long)(line / down) * y_h + i) * y_w + j) * y_pixel;
      for (int k = 0; k < FILTERS; k += LANES)
        store_tile(to + k, sums + t * FILTERS + k, min(OUTPUTS, y_h - i), min(OUTPUTS, y_w - j), y_w, y_pixel, k, epilogue);
    }
  }
}

#endif  // CPU_GROUPS_H
