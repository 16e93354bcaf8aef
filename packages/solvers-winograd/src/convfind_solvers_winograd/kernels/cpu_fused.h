// Fused Winograd convolution of stride 1 for CPU devices: data transform, products and result transform
// of up to TILES tiles at a time stay in private memory, which stays in the level-2 cache.
//
// One work-item computes a run of tiles (all images in one row) by a run of filters of one group:
//
//   for FILTERS filters, for CHANNELS channels:
//     V[xi][tile][channel] = transformed data, U[xi][channel][filter] = transformed weights
//     M[xi][tile][filter] += V[xi] U[xi]        a product for each of the N * N points xi
//   result = transformed M
//
// U comes from winograd_pack (PACKED 1), or each work-item transforms the weights itself (PACKED 0),
// which is less to read where there are few tiles. In a data gradient channels and filters have
// changed places, and the window is turned round.
#ifndef CPU_FUSED_H
#define CPU_FUSED_H

#ifndef CHANNELS_LAST
#define CHANNELS_LAST 1    // 0, 1: layout of data and result
#endif
#ifndef PACKED
#define PACKED 1           // 0, 1
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

#define N (OUTPUTS + TAPS - 1)
#define POINTS (N * N)
#define NR (VEC * VECTORS)
#define PITCH (CHANNELS + VEC)  // floats from one tile's V to the next: no power of two
#define POINT_STEP ((CHANNELS + 1) * NR)  // floats from one point's U to the next: no power of two
#define PANEL (POINTS * POINT_STEP)       // floats of U for NR filters and CHANNELS channels

#if PACKED
#define WEIGHT_SPACE __global
#else
#define WEIGHT_SPACE __private
#endif

// The window of up to 16 filters and 16 channels: window[tap][channel] is a vector of filters.
INLINE void load_window(float16 window[TAPS * TAPS][VEC], __global const float *w, int filters,
                        int channels, long w_filter, long w_channel, long w_tap, int flipped) {
  if (w_filter == 1) {
    for (int tap = 0; tap < TAPS * TAPS; tap++)
      for (int c = 0; c < channels; c++)
        window[tap][c] = load_part(w + c * w_channel + tap * w_tap, filters);
  } else if (w_channel == 1 || (w_tap == 1 && w_channel == TAPS * TAPS)) {
    // The places of a filter lie side by side, 16 at a time: channels of a tap, or taps of channels.
    const int runs = w_channel == 1 ? (channels + VEC - 1) / VEC : TAPS * TAPS;
    for (int outer = 0; outer < (w_channel == 1 ? TAPS * TAPS : runs); outer++) {
      __global const float *from = w + (w_channel == 1 ? outer * w_tap : outer * VEC);
      const int used = w_channel == 1 ? channels : channels * TAPS * TAPS - outer * VEC;
      if (used <= 0) break;
      float16 square[VEC];
#pragma unroll
      for (int i = 0; i < VEC; i++) {
        square[i] = 0.0f;
        if (i < filters) square[i] = load_part(from + i * w_filter, used);
      }
      transpose(square);
#pragma unroll
      for (int i = 0; i < VEC; i++) {
        const int place = outer * VEC + i;
        if (w_channel == 1)
          window[outer][i] = square[i];
        else
          window[place % (TAPS * TAPS)][place / (TAPS * TAPS)] = square[i];
      }
    }
  } else {
    for (int tap = 0; tap < TAPS * TAPS; tap++)
      for (int c = 0; c < channels; c++) {
        float part[VEC];
        for (int i = 0; i < VEC; i++)
          part[i] = i < filters ? w[i * w_filter + c * w_channel + tap * w_tap] : 0.0f;
        window[tap][c] = vload16(0, part);
      }
  }
  if (flipped)
    for (int tap = 0; tap < TAPS * TAPS / 2; tap++)
      for (int c = 0; c < channels; c++) {
        const float16 other = window[TAPS * TAPS - 1 - tap][c];
        window[TAPS * TAPS - 1 - tap][c] = window[tap][c];
        window[tap][c] = other;
      }
}

// U of up to NR filters and CHANNELS channels: panel[xi][channel][filter].
INLINE void transform_weights(WEIGHT_SPACE float *panel, __global const float *w, int filters,
                              int channels, long w_filter, long w_channel, long w_tap, int flipped) {
  float16 window[TAPS * TAPS][VEC];
  for (int k = 0; k < filters; k += VEC)
    for (int c0 = 0; c0 < channels; c0 += VEC) {
      const int count = min(VEC, channels - c0);
      load_window(window, w + k * w_filter + c0 * w_channel, min(VEC, filters - k), count, w_filter,
                  w_channel, w_tap, flipped);
      for (int c = 0; c < count; c++) {
        float16 taps[TAPS * TAPS], columns[N * TAPS], points[POINTS];
#pragma unroll
        for (int tap = 0; tap < TAPS * TAPS; tap++) taps[tap] = window[tap][c];
#pragma unroll
        for (int j = 0; j < TAPS; j++) transform_filter(taps + j, TAPS, columns + j, TAPS);
#pragma unroll
        for (int i = 0; i < N; i++) transform_filter(columns + i * TAPS, 1, points + i * N, 1);
        WEIGHT_SPACE float *to = panel + (c0 + c) * NR + k;
#pragma unroll
        for (int xi = 0; xi < POINTS; xi++) vstore16(points[xi], 0, to + xi * POINT_STEP);
      }
    }
}

// Weights of a group to [panel of NR filters][block of CHANNELS channels][xi][channel][filter].
// Global size: (panels, blocks, groups).
__kernel ONE_ITEM void winograd_cpu_pack(__global const float *restrict w,
                                         __global float *restrict packed, const int filters,
                                         const int channels, const long w_group,
                                         const long w_filter, const long w_channel,
                                         const long w_tap, const int flipped) {
#if PACKED
  const int k = get_global_id(0) * NR, c = get_global_id(1) * CHANNELS;
  const long at = ((long)get_global_id(2) * get_global_size(0) + get_global_id(0)) *
                      get_global_size(1) + get_global_id(1);
  transform_weights(packed + at * PANEL, w + get_global_id(2) * w_group + k * w_filter + c * w_channel,
                    min(NR, filters - k), min(CHANNELS, channels - c), w_filter, w_channel, w_tap,
                    flipped);
#endif
}

// The N x N values of a tile, vectors of up to 16 channels, zero outside of the image.
INLINE void load_tile(float16 *values, __global const float *x, int row, int column, int channels,
                      int height, int width, long x_pixel, long x_channel, long left) {
#if CHANNELS_LAST
  const bool inside = row >= 0 && column >= 0 && row + N <= height && column + N <= width;
  x += ((long)row * width + column) * x_pixel;
  if (inside && channels >= VEC) {
#pragma unroll
    for (int i = 0; i < N; i++)
#pragma unroll
      for (int j = 0; j < N; j++) values[i * N + j] = vload16(0, x + (i * width + j) * x_pixel);
    return;
  }
  for (int i = 0; i < N; i++)
    for (int j = 0; j < N; j++) {
      const int r = row + i, c = column + j;
      values[i * N + j] = 0.0f;
      if (r >= 0 && r < height && c >= 0 && c < width)
        values[i * N + j] = load_part(x + (i * width + j) * x_pixel, channels);
    }
#else
  // Two rows of 8 columns of 16 channels at a time, turned round in registers.
  const bool whole = column >= 0 && column + N <= width;
#pragma unroll
  for (int i = 0; i < N; i += 2) {
    float16 square[VEC];
#pragma unroll
    for (int c = 0; c < VEC; c++) {
      float8 rows[2];
#pragma unroll
      for (int half_ = 0; half_ < 2; half_++) {
        const int r = row + i + half_;
        rows[half_] = 0.0f;
        if (c < channels && r >= 0 && r < height) {
          const long at = c * x_channel + (long)r * width + column;
          if (whole && at + 8 <= left) {
            rows[half_] = vload8(0, x + at);
          } else {
            float part[8];
            for (int j = 0; j < 8; j++)
              part[j] = j < N && column + j >= 0 && column + j < width ? x[at + j] : 0.0f;
            rows[half_] = vload8(0, part);
          }
        }
      }
      square[c] = (float16)(rows[0], rows[1]);
    }
    transpose(square);
#pragma unroll
    for (int j = 0; j < N; j++) {
      values[i * N + j] = square[j];
      values[(i + 1) * N + j] = square[8 + j];
    }
  }
#endif
}

// V of one tile: to[xi][channel], points `step` floats apart.
INLINE void transform_tile(float *to, const int step, __global const float *x, int row, int column,
                           int channels, int height, int width, long x_pixel, long x_channel,
                           long left) {
  for (int c = 0; c < channels; c += VEC) {
    float16 values[POINTS], columns[POINTS], points[POINTS];
    load_tile(values, x + c * x_channel, row, column, channels - c, height, width, x_pixel,
              x_channel, left - c * x_channel);
#pragma unroll
    for (int j = 0; j < N; j++) transform_data(values + j, N, columns + j, N);
#pragma unroll
    for (int i = 0; i < N; i++) transform_data(columns + i * N, 1, points + i * N, 1);
#pragma unroll
    for (int xi = 0; xi < POINTS; xi++) vstore16(points[xi], 0, to + xi * step + c);
  }
}

// sums[tile][filter] (+)= values[tile][channel] * weights[channel][filter] in registers.
INLINE void multiply(const int rows, const int depth, const float *values,
                     WEIGHT_SPACE const float *weights, float *sums, const bool first) {
  float16 sum[MR][VECTORS];
#pragma unroll
  for (int i = 0; i < rows; i++)
#pragma unroll
    for (int j = 0; j < VECTORS; j++)
      sum[i][j] = first ? (float16)(0.0f) : vload16(j, sums + i * NR);
  for (int c = 0; c < depth; c++) {
    float16 right[VECTORS];
#pragma unroll
    for (int j = 0; j < VECTORS; j++) right[j] = vload16(c * VECTORS + j, weights);
#pragma unroll
    for (int i = 0; i < rows; i++) {
      const float16 left = values[i * PITCH + c];
#pragma unroll
      for (int j = 0; j < VECTORS; j++) sum[i][j] = fma(left, right[j], sum[i][j]);
    }
  }
#pragma unroll
  for (int i = 0; i < rows; i++)
#pragma unroll
    for (int j = 0; j < VECTORS; j++) vstore16(sum[i][j], j, sums + i * NR);
}

// The results of one tile and up to 16 filters; sums are `step` vectors apart.
INLINE void store_tile(const float16 *sums, const int step, __global float *y, int row, int column,
                       int filters, int height, int width, long y_pixel, long y_filter, float alpha,
                       float beta) {
  float16 columns[OUTPUTS * N], results[OUTPUTS * OUTPUTS];
#pragma unroll
  for (int j = 0; j < N; j++) transform_result(sums + j * step, N * step, columns + j, N);
#pragma unroll
  for (int i = 0; i < OUTPUTS; i++)
    transform_result(columns + i * N, 1, results + i * OUTPUTS, 1);
#pragma unroll
  for (int i = 0; i < OUTPUTS * OUTPUTS; i++) results[i] *= alpha;
  y += ((long)row * width + column) * y_pixel;
#if !CHANNELS_LAST && OUTPUTS == 4
  if (row + OUTPUTS <= height && column + OUTPUTS <= width) {
    transpose(results);
#pragma unroll
    for (int k = 0; k < VEC; k++)
      if (k < filters) {
        float4 rows[4] = {results[k].lo.lo, results[k].lo.hi, results[k].hi.lo, results[k].hi.hi};
#pragma unroll
        for (int i = 0; i < 4; i++) {
          __global float *to = y + k * y_filter + i * width;
          vstore4(beta != 0.0f ? fma((float4)(beta), vload4(0, to), rows[i]) : rows[i], 0, to);
        }
      }
    return;
  }
#endif
#pragma unroll
  for (int i = 0; i < OUTPUTS; i++)
#pragma unroll
    for (int j = 0; j < OUTPUTS; j++)
      if (row + i < height && column + j < width) {
        __global float *to = y + (i * width + j) * y_pixel;
#if CHANNELS_LAST
        store_part(results[i * OUTPUTS + j], to, filters, beta);
#else
        float part[VEC];
        vstore16(results[i * OUTPUTS + j], 0, part);
        for (int k = 0; k < filters; k++)
          to[k * y_filter] = beta != 0.0f ? fma(beta, to[k * y_filter], part[k]) : part[k];
#endif
      }
}

// Global size: (runs of `share` tiles, runs of `strip` filters, groups); `strip` is a multiple of NR.
__kernel ONE_ITEM void winograd_cpu_fused(
    __global const float *restrict x, __global const float *restrict weights,
    __global float *restrict y, const int images, const int groups, const int channels,
    const int filters, const int x_h, const int x_w, const int y_h, const int y_w, const int pad_h,
    const int pad_w, const float alpha, const float beta, const int share, const int strip,
    const long w_group, const long w_filter, const long w_channel, const long w_tap,
    const int flipped) {
  const int group = get_global_id(2);
  const int tiles_h = (y_h + OUTPUTS - 1) / OUTPUTS, tiles_w = (y_w + OUTPUTS - 1) / OUTPUTS;
  const int tiles = images * tiles_h * tiles_w;
  const int first = get_global_id(0) * share, end = min(tiles, first + share);
  const int k_first = get_global_id(1) * strip, k_end = min(filters, k_first + strip);
#if CHANNELS_LAST
  const long x_pixel = (long)groups * channels, x_channel = 1;
  const long y_pixel = (long)groups * filters, y_filter = 1;
#else
  const long x_pixel = 1, x_channel = (long)x_h * x_w;
  const long y_pixel = 1, y_filter = (long)y_h * y_w;
#endif
  const long x_image = (long)groups * channels * x_h * x_w;
  const long y_image = (long)groups * filters * y_h * y_w;
  const int blocks = (channels + CHANNELS - 1) / CHANNELS;

  float data[POINTS * TILES * PITCH] __attribute__((aligned(64)));
  float sums[FILTERS * POINTS * TILES] __attribute__((aligned(64)));
#if !PACKED
  float panels[FILTERS / NR * PANEL] __attribute__((aligned(64)));
#endif

  for (int t0 = first; t0 < end; t0 += TILES) {
    const int count = min(TILES, end - t0);
    for (int k0 = k_first; k0 < k_end; k0 += FILTERS) {
      const int k1 = min(k_end, k0 + FILTERS);
      for (int b = 0; b < blocks; b++) {
        const int c0 = b * CHANNELS, depth = min(CHANNELS, channels - c0);
        if (blocks > 1 || k0 == k_first)
          for (int t = 0; t < count; t++) {
            const int n = (t0 + t) / (tiles_h * tiles_w), place = (t0 + t) % (tiles_h * tiles_w);
            const long at = n * x_image + (long)(group * channels + c0) * x_channel;
            transform_tile(data + t * PITCH, TILES * PITCH, x + at,
                           place / tiles_w * OUTPUTS - pad_h, place % tiles_w * OUTPUTS - pad_w,
                           depth, x_h, x_w, x_pixel, x_channel, images * x_image - at);
          }
        for (int k = k0; k < k1; k += NR) {
#if PACKED
          const long panel = ((long)group * ((filters + NR - 1) / NR) + k / NR) * blocks + b;
          __global const float *from = weights + panel * PANEL;
#else
          float *from = panels + (k - k0) / NR * PANEL;
          transform_weights(from,
                            weights + group * w_group + k * w_filter + c0 * w_channel,
                            min(NR, filters - k), depth, w_filter, w_channel, w_tap, flipped);
#endif
          for (int xi = 0; xi < POINTS; xi++)
            for (int t = 0; t < count; t += MR) {
              float *to = sums + (((k - k0) / NR * POINTS + xi) * TILES + t) * NR;
              const float *values = data + (xi * TILES + t) * PITCH;
              WEIGHT_SPACE const float *right = from + xi * POINT_STEP;
              if (MR > 8 && count - t > 8)
                multiply(MR, depth, values, right, to, b == 0);
              else if (MR > 4 && count - t > 4)
                multiply(MR < 8 ? MR : 8, depth, values, right, to, b == 0);
              else
                multiply(4, depth, values, right, to, b == 0);
            }
        }
      }
      for (int t = 0; t < count; t++) {
        const int n = (t0 + t) / (tiles_h * tiles_w), place = (t0 + t) % (tiles_h * tiles_w);
        for (int k = k0; k < k1; k += VEC) {
          const float *from = sums + ((k - k0) / NR * POINTS * TILES + t) * NR + (k - k0) % NR;
          store_tile((const float16 *)from, TILES * VECTORS,
                     y + n * y_image + (group * filters + k) * y_filter,
                     place / tiles_w * OUTPUTS, place % tiles_w * OUTPUTS, min(VEC, k1 - k), y_h,
                     y_w, y_pixel, y_filter, alpha, beta);
        }
      }
    }
  }
}

#endif  // CPU_FUSED_H
