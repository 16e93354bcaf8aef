// Implicit GEMM for CPU devices, channels last: y (positions x filters) = windows of x * w.
//
// One work-item computes a run of positions (all images in one row) by a run of filters of one
// group. For MR positions at a time it copies a block of their windows to private memory, which
// stays in the level-1 cache, padding as zeros; a register tile of MR x NR walks the filters.
// Weights come in panels of NR filters from igemm_cpu_pack (PACKED 1: block = channels, width =
// NR), or each work-item packs a block of them into private memory, which stays in the level-2
// cache, when it comes to it (PACKED 0).
#include "cpu_tile.h"

#ifndef PACKED
#define PACKED 1            // 0, 1
#endif
#ifndef PANEL_FLOATS
#define PANEL_FLOATS 131072 // PACKED 0: room for a block of weights, at least strip * DEPTH
#endif

#if PACKED
#define PANEL_SPACE __global
#else
#define PANEL_SPACE __private
#endif

#define PITCH (DEPTH + VEC) // floats from one position's window to the next: no power of two

// `count` floats to private memory; the last vector may write up to 15 floats behind them.
INLINE void copy_run(float *to, __global const float *from, int count, long left) {
  int i = 0;
  for (; i + VEC <= count; i += VEC) vstore16(vload16(0, from + i), 0, to + i);
  if (i < count) vstore16(load_part(from + i, left >= i + VEC ? VEC : count - i), 0, to + i);
}

INLINE void clear_run(float *to, int count) {
  for (int i = 0; i < count; i += VEC) vstore16((float16)(0.0f), 0, to + i);
}

INLINE void tile(const int rows_, const int vectors, int depth, const float *windows,
                 PANEL_SPACE const float *panel, __global float *y, long y_row, int rows, int columns,
                 float alpha, float beta) {
  float16 sum[MR][VECTORS];
#pragma unroll
  for (int i = 0; i < rows_; i++)
#pragma unroll
    for (int j = 0; j < vectors; j++) sum[i][j] = 0.0f;
  for (int k = 0; k < depth; k++) {
    float16 right[VECTORS];
#pragma unroll
    for (int j = 0; j < vectors; j++) right[j] = vload16(k * VECTORS + j, panel);
#pragma unroll
    for (int i = 0; i < rows_; i++) {
      const float16 left = windows[i * PITCH + k];
#pragma unroll
      for (int j = 0; j < vectors; j++) sum[i][j] = fma(left, right[j], sum[i][j]);
    }
  }
#pragma unroll
  for (int i = 0; i < rows_; i++)
    if (i < rows) {
#pragma unroll
      for (int j = 0; j < vectors; j++)
        store_part(sum[i][j] * alpha, y + i * y_row + j * VEC, columns - j * VEC, beta);
    }
}

INLINE void tile_of_height(const int vectors, int depth, const float *windows,
                           PANEL_SPACE const float *panel, __global float *y, long y_row, int rows,
                           int columns, float alpha, float beta) {
  if (MR > 8 && rows > 8)
    tile(MR, vectors, depth, windows, panel, y, y_row, rows, columns, alpha, beta);
  else if (MR > 4 && rows > 4)
    tile(MR < 8 ? MR : 8, vectors, depth, windows, panel, y, y_row, rows, columns, alpha, beta);
  else
    tile(4, vectors, depth, windows, panel, y, y_row, rows, columns, alpha, beta);
}

// One block of the weights of `columns` filters into panels [depth][NR], zero behind the last filter.
INLINE void pack_block(float *panels, __global const float *w, int columns, int channels, int taps,
                       int b, int depth, WEIGHT_STEPS) {
  for (int k = 0; k < columns; k += VEC) {
    float *to = panels + k / NR * depth * NR + k % NR;
    const int used = min(VEC, columns - k);
    if (!flipped && w_channel == 1) {  // a filter's weights lie side by side
      for (int place = 0; place < depth; place += VEC) {
        const int length = min(VEC, depth - place);
        float16 square[VEC];
#pragma unroll
        for (int i = 0; i < VEC; i++) {
          square[i] = 0.0f;
          if (i < used) {
            __global const float *row = w + (k + i) * w_filter + b + place;
            PREFETCH(row + 4 * VEC);
            square[i] = load_part(row, length);
          }
        }
        transpose(square);
#pragma unroll
        for (int i = 0; i < VEC; i++)
          if (i < length) vstore16(square[i], 0, to + (place + i) * NR);
      }
    } else {  // filters lie side by side
      int channel = b % channels, tap = b / channels;
      for (int place = 0; place < depth; place++) {
        __global const float *row =
            w + channel * w_channel + (flipped ? taps - 1 - tap : tap) * w_tap + k;
        vstore16(load_part(row, used), 0, to + place * NR);
        if (++channel == channels) {
          channel = 0;
          tap++;
        }
      }
    }
  }
}

// Blocks of the windows of `rows` positions: of position i from its `filled`-th float on.
INLINE void gather(float *windows, __global const float *x, const long *base, const int *in_d,
                   const int *in_h, const int *in_w, int rows, int b, int depth, int channels,
                   int joined, long x_size, long x_pixel, int x_d, int x_h, int x_w, int f_h,
                   int f_w, int dilation_d, int dilation_h, int dilation_w) {
  const int run = joined * channels, runs_w = f_w / joined;
  int q = b / run, skip = b % run;
  int t_w = q % runs_w * joined, t_h = q / runs_w % f_h, t_d = q / runs_w / f_h;
  for (int filled = 0; filled < depth;) {
    const int count = min(run - skip, depth - filled);
    const int d = t_d * dilation_d, h = t_h * dilation_h, w = t_w * dilation_w;
    const long offset = (((long)d * x_h + h) * x_w + w) * x_pixel + skip;
    for (int i = 0; i < rows; i++) {
      float *to = windows + i * PITCH + filled;
      const long from = base[i] + offset;
      const int at = in_w[i] + w;
      const bool inside = in_d[i] + d >= 0 && in_d[i] + d < x_d && in_h[i] + h >= 0 &&
                          in_h[i] + h < x_h && at + joined > 0 && at < x_w;
      if (inside && at >= 0 && at + joined <= x_w) {
        copy_run(to, x + from, count, x_size - from);
      } else if (inside) {
        const int low = clamp(max(-at, 0) * channels - skip, 0, count);
        const int high = clamp(min(joined, x_w - at) * channels - skip, low, count);
        clear_run(to, low);
        copy_run(to + low, x + from + low, high - low, x_size - from - low);
        clear_run(to + high, count - high);
      } else {
        clear_run(to, count);
      }
    }
    filled += count;
    skip = 0;
    t_w += joined;
    if (t_w == f_w) {
      t_w = 0;
      if (++t_h == f_h) {
        t_h = 0;
        t_d++;
      }
    }
  }
}

// Global size: (runs of positions, runs of filters, groups); `share` positions and `strip` filters
// each, `strip` a multiple of NR. `joined` taps along the last axis lie side by side in x, too.
__kernel ONE_ITEM void igemm_cpu_nhwc(__global const float *restrict x,
                                      __global const float *restrict weights,
                                      __global float *restrict y, GEOMETRY, const float alpha,
                                      const float beta, const int share, const int strip,
                                      const int joined, WEIGHT_STEPS) {
  const int positions = images * o_d * o_h * o_w, group = get_global_id(2);
  const int first = get_global_id(0) * share, end = min(positions, first + share);
  const int k0 = get_global_id(1) * strip, k1 = min(filters, k0 + strip);
  const int reduction = f_d * f_h * f_w * channels;
  const long x_pixel = (long)groups * channels, y_row = (long)groups * filters;
  const long x_size = (long)images * x_d * x_h * x_w * x_pixel;
  y += (long)group * filters;
#if PACKED
  weights += ((long)group * ((filters + NR - 1) / NR) + k0 / NR) * reduction * NR;
#else
  weights += group * w_group + k0 * w_filter;
  float panels[PANEL_FLOATS] __attribute__((aligned(64)));
#endif

  float windows[MR * PITCH + VEC] __attribute__((aligned(64)));
  for (int b = 0; b < reduction; b += DEPTH) {
    const int depth = min(DEPTH, reduction - b);
#if !PACKED
    pack_block(panels, weights, k1 - k0, channels, f_d * f_h * f_w, b, depth, w_group, w_filter,
               w_channel, w_tap, flipped);
#endif
    int o = first % o_w, row = first / o_w;
    int r = row % o_h, slice = row / o_h;
    int s = slice % o_d, n = slice / o_d;
    for (int p = first; p < end; p += MR) {
      const int rows = min(MR, end - p);
      long base[MR];
      int in_d[MR], in_h[MR], in_w[MR];
      for (int i = 0; i < rows; i++) {
        in_d[i] = s * stride_d - pad_d;
        in_h[i] = r * stride_h - pad_h;
        in_w[i] = o * stride_w - pad_w;
        base[i] = ((((long)n * x_d + in_d[i]) * x_h + in_h[i]) * x_w + in_w[i]) * x_pixel +
                  (long)group * channels;
        if (++o == o_w) {
          o = 0;
          if (++r == o_h) {
            r = 0;
            if (++s == o_d) {
              s = 0;
              n++;
            }
          }
        }
      }
      gather(windows, x, base, in_d, in_h, in_w, rows, b, depth, channels, joined, x_size, x_pixel,
             x_d, x_h, x_w, f_h, f_w, dilation_d, dilation_h, dilation_w);
      for (int k = k0; k < k1; k += NR) {
#if PACKED
        __global const float *panel = weights + ((long)((k - k0) / NR) * reduction + b) * NR;
#else
        const float *panel = panels + (k - k0) * depth;
#endif
        __global float *to = y + p * y_row + k;
        const float scale = b == 0 ? beta : 1.0f;
        if (VECTORS > 1 && k1 - k > VEC)
          tile_of_height(VECTORS, depth, windows, panel, to, y_row, rows, k1 - k, alpha, scale);
        else
          tile_of_height(1, depth, windows, panel, to, y_row, rows, k1 - k, alpha, scale);
      }
    }
  }
}
