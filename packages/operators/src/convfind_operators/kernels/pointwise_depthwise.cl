// A 1x1 convolution and a depthwise one of its result, channels last, on CPUs.
//
// A work-item has VEC channels of a band of rows of one image. It computes lines of the 1x1 convolution's result into
// private memory, which stays in the core's cache, with zeros as padding around them, and results from those lines as
// soon as a window of them is there. The panel of its weights stays in the level-1 cache.
#include "convfind_cpu_vector.h"

#ifndef FILTER_H
#define FILTER_H 3          // depthwise filter
#endif
#ifndef FILTER_W
#define FILTER_W 3
#endif
#ifndef STRIDE_H
#define STRIDE_H 1
#endif
#ifndef STRIDE_W
#define STRIDE_W 1
#endif
#ifndef ROWS
#define ROWS 6              // positions of a register tile: 6, 12
#endif
#ifndef COLUMNS
#define COLUMNS 4           // results of the depthwise filter at a time
#endif
#ifndef LINES_FLOATS
#define LINES_FLOATS 8192   // room for all lines
#endif

#define TAPS (FILTER_H * FILTER_W)
#define BLOCK(channels) (((channels) + TAPS + 2) * VEC)  // floats of packed weights and biases of VEC channels

#ifdef CF_ACTIVATION
#define ACTIVATED(value, numbers) activation_of(value, (numbers).s0, (numbers).s1, (numbers).s2)
#else
#define ACTIVATED(value, numbers) (value)
#endif

// Of VEC channels: weights by source channel, taps, bias, bias of the depthwise convolution. Global size: (blocks).
__kernel ONE_ITEM void pointwise_depthwise_pack(__global const float *restrict w, __global const float *restrict bias,
                                                __global const float *restrict taps,
                                                __global const float *restrict depthwise_bias,
                                                __global float *restrict packed, const int channels,
                                                const int filters) {
  const int first = get_global_id(0) * VEC;
  packed += (long)get_global_id(0) * BLOCK(channels);
  for (int lane = 0; lane < VEC; lane++) {
    const int k = first + lane;
    const bool exists = k < filters;
    for (int c = 0; c < channels; c++) packed[c * VEC + lane] = exists ? w[(long)k * channels + c] : 0.0f;
    for (int t = 0; t < TAPS; t++) packed[(channels + t) * VEC + lane] = exists ? taps[(long)k * TAPS + t] : 0.0f;
    packed[(channels + TAPS) * VEC + lane] = exists ? bias[k] : 0.0f;
    packed[(channels + TAPS + 1) * VEC + lane] = exists ? depthwise_bias[k] : 0.0f;
  }
}

// The 1x1 convolution at `rows` neighbouring positions, into the lines.
INLINE void expand(const int rows, __global const float *x, const int channels, __global const float *panel,
                   const float16 bias, float *lines, const int *at, const float4 numbers) {
  float16 sum[ROWS];
#pragma unroll
  for (int i = 0; i < rows; i++) sum[i] = bias;
  for (int c = 0; c < channels; c++) {
    const float16 right = vload16(c, panel);
#pragma unroll
    for (int i = 0; i < rows; i++) sum[i] = fma((float16)(x[(long)i * channels + c]), right, sum[i]);
  }
#pragma unroll
  for (int i = 0; i < rows; i++) vstore16(ACTIVATED(sum[i], numbers), 0, lines + at[i]);
}

// A call of its own: what the kernel keeps in registers would push sums out of them.
__attribute__((noinline)) void expand_tile(const int rows, __global const float *x, const int channels,
                                           __global const float *panel, float *lines, const int *at,
                                           const float4 numbers) {
  const float16 bias = vload16(channels + TAPS, panel);
  if (rows == ROWS)
    expand(ROWS, x, channels, panel, bias, lines, at, numbers);
  else if (rows == ROWS - 1)
    expand(ROWS - 1, x, channels, panel, bias, lines, at, numbers);
  else
    expand(1, x, channels, panel, bias, lines, at, numbers);
}

// Positions of the next tile: as few as can be are not of one of the two heights.
INLINE int tile_rows(int left) {
  if (left % ROWS == 0 || left > (ROWS - 1) * (ROWS - 1)) return ROWS;
  return left >= ROWS - 1 ? ROWS - 1 : 1;
}

// A row of results: COLUMNS at a time, the last ones anew where a row is no multiple.
__attribute__((noinline)) void depthwise_row(const float *const *from, __global const float *panel,
                                             const int channels, __global float *y, const int width,
                                             const int filters, const int count, const float4 numbers) {
  __global const float *taps = panel + channels * VEC;
  const float16 bias = vload16(channels + TAPS + 1, panel);
  for (int next = 0; next < width; next += COLUMNS) {
    const int column = max(0, min(next, width - COLUMNS));
    float16 sum[COLUMNS];
#pragma unroll
    for (int p = 0; p < COLUMNS; p++) sum[p] = bias;
#pragma unroll
    for (int r = 0; r < FILTER_H; r++) {
      const float *line = from[r] + column * STRIDE_W * VEC;
#pragma unroll
      for (int f = 0; f < FILTER_W; f++) {
        const float16 weight = vload16(r * FILTER_W + f, taps);
#pragma unroll
        for (int p = 0; p < COLUMNS; p++) sum[p] = fma(vload16(p * STRIDE_W + f, line), weight, sum[p]);
      }
    }
    __global float *to = y + (long)column * filters;
    if (count >= VEC && width >= COLUMNS) {
#pragma unroll
      for (int p = 0; p < COLUMNS; p++) vstore16(ACTIVATED(sum[p], numbers), 0, to + (long)p * filters);
      continue;
    }
    float16 kept[COLUMNS];
#pragma unroll
    for (int p = 0; p < COLUMNS; p++) kept[p] = ACTIVATED(sum[p], numbers);
#pragma unroll 1
    for (int p = 0; p < min(COLUMNS, width - column); p++) put_part(kept[p], to + (long)p * filters, count);
  }
}

// Global size: (images * bands, blocks of VEC channels); `band` rows of the result each. Lines are computed
// `at_once`, `kept` of them at a time, `columns` long with their padding.
__kernel ONE_ITEM void pointwise_depthwise(__global const float *restrict x, __global const float *restrict packed,
                                           __global float *restrict y, const int channels, const int filters,
                                           const int x_h, const int x_w, const int y_h, const int y_w,
                                           const int pad_h, const int pad_w, const int bands, const int band,
                                           const int at_once, const int kept, const int columns,
                                           const float inner_a, const float inner_b, const float inner_c,
                                           const float outer_a, const float outer_b, const float outer_c) {
  const float4 inner = (float4)(inner_a, inner_b, inner_c, 0.0f), outer = (float4)(outer_a, outer_b, outer_c, 0.0f);
  const int image = get_global_id(0) / bands, first = get_global_id(0) % bands * band;
  const int end = min(y_h, first + band), k = get_global_id(1) * VEC, count = min(VEC, filters - k);
  __global const float *panel = packed + (long)get_global_id(1) * BLOCK(channels);
  x += (long)image * x_h * x_w * channels;
  y += (long)image * y_h * y_w * filters + k;
  float lines[LINES_FLOATS] __attribute__((aligned(64)));
  const int line = columns * VEC;
  for (int at = 0; at < (kept + 1) * line; at += VEC) vstore16((float16)(0.0f), 0, lines + at);
  const int behind = min(x_h, (end - 1) * STRIDE_H - pad_h + FILTER_H);  // the last line that is read
  int next = max(0, first * STRIDE_H - pad_h);
  for (int o = first; o < end; o++) {
    const int top = o * STRIDE_H - pad_h, bottom = min(x_h, top + FILTER_H);
    while (next < bottom) {
      const int rows = min(at_once, behind - next), positions = rows * x_w;
      __global const float *from = x + (long)next * x_w * channels;
      int row = next % kept, column = 0;
      for (int p = 0; p < positions;) {
        const int height = tile_rows(positions - p);
        int at[ROWS];
        for (int i = 0; i < height; i++) {
          at[i] = row * line + (column + pad_w) * VEC;
          if (++column == x_w) {
            column = 0;
            row = row + 1 == kept ? 0 : row + 1;
          }
        }
        expand_tile(height, from + (long)p * channels, channels, panel, lines, at, inner);
        p += height;
      }
      next += rows;
    }
    const float *from[FILTER_H];
#pragma unroll
    for (int r = 0; r < FILTER_H; r++)
      from[r] = lines + (top + r >= 0 && top + r < x_h ? (top + r) % kept : kept) * line;
    depthwise_row(from, panel, channels, y + (long)o * y_w * filters, y_w, filters, count, outer);
  }
}
