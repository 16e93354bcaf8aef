// Implicit GEMM for CPU devices, channels last: y (positions x filters) = windows of x * w.
//
// One work-item computes a run of positions (all images in one row) by a run of filters of one
// group. For MR positions at a time, or TILES times as many, it copies a block of their windows to
// private memory, padding as zeros. One tile's windows stay in the level-1 cache while a register tile
// of MR x NR walks the filters; of more tiles it is a block of a panel that stays there while the
// register tile walks the windows, of which a tile reads less than of the weights where NR is small.
// Weights come in panels of NR filters from igemm_cpu_pack (PACKED 1), or each work-item packs a
// block of them into private memory, which stays in the level-2 cache, when it comes to it (PACKED 0).
// Large results are written past the caches, and so are the zeros between those of a strided gradient.
#define CF_PASSES 1
#include "cpu_tile.h"

#define CHANNELS_LAST 1
#define WIDTH NR
#include "cpu_half.h"
#include "cpu_pack.h"
#include "cpu_runs.h"
#include "cpu_steps.h"

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

#ifndef TILES
#define TILES (VECTORS > 1 ? 1 : 10) // register tiles of windows that are held, at most
#endif
#define PANEL_AHEAD 64      // rows of a panel in global memory that are asked for ahead by a tile alone
#define PITCH (DEPTH + VEC) // floats from one position's window to the next: no power of two

// The results up to the next position along each axis, which nothing reaches, and their steps in y.
typedef struct {
  bool is_wanted, is_streamed;
  const int *d, *h, *w;  // of each position, itself included
  long slice, row, pixel;
} Gaps;

// Those behind position i.
INLINE void fill_gap(__global float *y, int i, Gaps gaps, int columns, Epilogue epilogue) {
  epilogue = cf_epilogue_of_first_only(cf_epilogue_of_scaled(epilogue));
  const float16 zeros = 0.0f;
  for (int d = 0; d < gaps.d[i]; d++)
    for (int h = 0; h < gaps.h[i]; h++)
      for (int w = 0; w < gaps.w[i]; w++) {
        if (d + h + w == 0) continue;
        __global float *to = y + d * gaps.slice + h * gaps.row + w * gaps.pixel;
        for (int j = 0; j < columns; j += VEC) {
          const float16 bias = biases_of(epilogue, j, columns - j);
          if (gaps.is_streamed && columns - j >= VEC)
            STORE_STREAMED(result_of(zeros, to + j, bias, epilogue), to + j);
          else
            store_part(zeros, to + j, columns - j, bias, epilogue);
        }
      }
}

// What tiles ask for: rows of x, and from `panel` on so many rows of weights every VEC products.
typedef struct {
  Ahead x;
  PANEL_SPACE const float *panel;
  int rows;
} Coming;

// The product of one float of each window by one row of weights.
INLINE void add_product(float16 (*sum)[VECTORS], const int rows_, const int vectors, const float *windows,
                        PANEL_SPACE const float *panel) {
  float16 right[VECTORS];
#pragma unroll
  for (int j = 0; j < vectors; j++) {
    right[j] = vload16(j, panel);
    if (PACKED && TILES == 1) PREFETCH(panel + PANEL_AHEAD * NR + j * VEC);
  }
#pragma unroll
  for (int i = 0; i < rows_; i++) {
    const float16 left = windows[i * PITCH];
#pragma unroll
    for (int j = 0; j < vectors; j++) sum[i][j] = fma(left, right[j], sum[i][j]);
  }
}

// With `fills`, gaps are filled between products, so that neither waits for the other.
INLINE void tile(const int rows_, const int vectors, const bool fills, int depth, const float *windows,
                 PANEL_SPACE const float *panel, __global float *y, const long *at, int rows, int columns,
                 const Epilogue epilogue, Coming coming, Gaps gaps, bool is_streamed) {
  float16 sum[MR][VECTORS];
#pragma unroll
  for (int i = 0; i < rows_; i++) {
    __global float *to = y + at[min(i, rows - 1)];
    if (!is_streamed) {
      PREFETCH(to);
      PREFETCH(to + columns - 1);
    }
    PREFETCH_Z(to, epilogue);
#pragma unroll
    for (int j = 0; j < vectors; j++) sum[i][j] = 0.0f;
  }
  const int parts = fills ? rows_ : 1;
  for (int part = 0, k = 0; part < parts; part++) {
    for (const int last = fills ? depth * (part + 1) / parts : depth; k < last;) {
      prefetch_lines(coming.x, k);
      for (int i = 0; TILES > 1 && i < coming.rows; i++, coming.panel += NR) PREFETCH(coming.panel);
      const int end = min(last, k + VEC), times = STEPS > 1 ? (end - k) / STEPS : 0;
      for (int n = 0; n < times; n++, k += STEPS)
#pragma unroll
        for (int s = 0; s < STEPS; s++) add_product(sum, rows_, vectors, windows + k + s, panel + (k + s) * NR);
      for (; k < end; k++) add_product(sum, rows_, vectors, windows + k, panel + k * NR);
    }
    if (fills) fill_gap(y + at[part], part, gaps, columns, epilogue);
  }
  for (int i = 0; GRADIENT && !fills && gaps.is_wanted && i < rows; i++)
    fill_gap(y + at[i], i, gaps, columns, epilogue);
  float16 bias[VECTORS];
#pragma unroll
  for (int j = 0; j < vectors; j++) bias[j] = biases_of(epilogue, j * VEC, columns - j * VEC);
  if (rows >= rows_ && columns >= vectors * VEC) {
    // Asked once a tile, not at every store.
    if (CF_READS_RESULT(epilogue)) {
#pragma unroll
      for (int i = 0; i < rows_; i++)
#pragma unroll
        for (int j = 0; j < vectors; j++) store_whole(sum[i][j], y + at[i] + j * VEC, bias[j], epilogue);
    } else if (is_streamed) {
#pragma unroll
      for (int i = 0; i < rows_; i++)
#pragma unroll
        for (int j = 0; j < vectors; j++) {
          __global float *to = y + at[i] + j * VEC;
          STORE_STREAMED(result_of(sum[i][j], to, bias[j], epilogue), to);
        }
    } else {
#pragma unroll
      for (int i = 0; i < rows_; i++)
#pragma unroll
        for (int j = 0; j < vectors; j++) {
          __global float *to = y + at[i] + j * VEC;
          vstore16(result_of(sum[i][j], to, bias[j], epilogue), 0, to);
        }
    }
    return;
  }
  float16 rest[MR * VECTORS];
#pragma unroll
  for (int i = 0; i < rows_; i++) {
#pragma unroll
    for (int j = 0; j < vectors; j++) rest[i * vectors + j] = sum[i][j];
  }
#pragma unroll 1
  for (int i = 0; i < min(rows, rows_); i++)
#pragma unroll 1
    for (int j = 0; j < vectors; j++)
      store_part(rest[i * vectors + j], y + at[i] + j * VEC, columns - j * VEC, bias[j], epilogue);
}

INLINE void tile_of_height(const int vectors, int depth, const float *windows,
                           PANEL_SPACE const float *panel, __global float *y, const long *at,
                           int rows, int columns, const Epilogue epilogue, Coming coming, Gaps gaps,
                           bool is_streamed) {
  if (GRADIENT && gaps.is_wanted && rows == MR)
    tile(MR, vectors, true, depth, windows, panel, y, at, rows, columns, epilogue, coming, gaps, is_streamed);
  else if (MR > 8 && rows > 8)
    tile(MR, vectors, false, depth, windows, panel, y, at, rows, columns, epilogue, coming, gaps, is_streamed);
  else if (MR > 4 && rows > 4)
    tile(MR < 8 ? MR : 8, vectors, false, depth, windows, panel, y, at, rows, columns, epilogue, coming, gaps,
         is_streamed);
  else
    tile(4, vectors, false, depth, windows, panel, y, at, rows, columns, epilogue, coming, gaps, is_streamed);
}

INLINE void add_half(float8 *sum, const int rows_, const float *windows, PANEL_SPACE const float *panel) {
  const float8 right = vload8(0, panel);
#pragma unroll
  for (int i = 0; i < rows_; i++) sum[i] = fma((float8)(windows[i * PITCH]), right, sum[i]);
}

// The same for half a vector of filters or less, and up to twice as many positions: as many sums, none in vain.
INLINE void half_tile(const int rows_, int depth, const float *windows, PANEL_SPACE const float *panel,
                      __global float *y, const long *at, int rows, int columns, const Epilogue epilogue,
                      Coming coming) {
  float8 sum[2 * MR];
#pragma unroll
  for (int i = 0; i < rows_; i++) {
    __global float *to = y + at[min(i, rows - 1)];
    PREFETCH(to);
    PREFETCH_Z(to, epilogue);
    sum[i] = 0.0f;
  }
  for (int k = 0; k < depth;) {
    prefetch_lines(coming.x, k);
    for (int i = 0; TILES > 1 && i < coming.rows; i++, coming.panel += NR) PREFETCH(coming.panel);
    const int end = min(depth, k + VEC), times = STEPS > 1 ? (end - k) / STEPS : 0;
    for (int n = 0; n < times; n++, k += STEPS)
#pragma unroll
      for (int s = 0; s < STEPS; s++) add_half(sum, rows_, windows + k + s, panel + (k + s) * NR);
    for (; k < end; k++) add_half(sum, rows_, windows + k, panel + k * NR);
  }
  const float16 bias = biases_of(epilogue, 0, columns);
  if (rows >= rows_ && columns == HALF) {
#pragma unroll
    for (int i = 0; i < rows_; i++) store_half(sum[i], y + at[i], bias, epilogue);
    return;
  }
  float8 rest[2 * MR];
#pragma unroll
  for (int i = 0; i < rows_; i++) rest[i] = sum[i];
#pragma unroll 1
  for (int i = 0; i < min(rows, rows_); i++)
    store_part((float16)(rest[i], (float8)(0.0f)), y + at[i], columns, bias, epilogue);
}

NOINLINE void multiply_half(int depth, const float *windows, PANEL_SPACE const float *panel, __global float *y,
                            const long *at, int rows, int columns, const Epilogue epilogue, Coming coming) {
  if (rows > MR)
    half_tile(2 * MR, depth, windows, panel, y, at, rows, columns, epilogue, coming);
  else
    half_tile(MR, depth, windows, panel, y, at, rows, columns, epilogue, coming);
}

// What the kernel keeps in registers would push sums out of few of them: then a call of its own.
#if MR * VECTORS > 8
INLINE
#else
NOINLINE
#endif
void multiply(int depth, const float *windows, PANEL_SPACE const float *panel, __global float *y,
              const long *at, int rows, int columns, const Epilogue epilogue, Coming coming, Gaps gaps,
              bool is_streamed) {
  if (VECTORS > 1 && columns > VEC)
    tile_of_height(VECTORS, depth, windows, panel, y, at, rows, columns, epilogue, coming, gaps,
                   is_streamed);
  else
    tile_of_height(1, depth, windows, panel, y, at, rows, min(VEC, columns), epilogue, coming, gaps,
                   is_streamed);
}

// One block of the weights of `columns` filters into panels [depth][NR]; w ends at `behind`.
#if GRADIENT
// Filters lie side by side: VEC rows of all columns, then the next.
INLINE void pack_block(float *panels, __global const float *w, __global const float *behind,
                       int columns, int channels, int b, int depth, long w_filter, long w_channel,
                       long w_tap, const Phase *phase, int f_h, int f_w) {
  for (int place = 0; place < depth; place += VEC) {
    const int count = min(VEC, depth - place);
    __global const float *rows[VEC];
    for (int i = 0; i < count; i++)
      rows[i] = w + filter_tap(phase, (b + place + i) / channels, f_h, f_w) * w_tap +
                (b + place + i) % channels * w_channel;
    for (int k = 0; k < columns; k += VEC) {
      float *to = panels + k / NR * depth * NR + k % NR + place * NR;
      for (int i = 0; i < count; i++) {
        PREFETCH(rows[i] + k + 4 * VEC);
        vstore16(load_part(rows[i] + k, columns - k), 0, to + i * NR);
      }
    }
  }
}
#else
// A filter's weights lie side by side.
INLINE void pack_block(float *panels, __global const float *w, __global const float *behind,
                       int columns, int channels, int b, int depth, long w_filter, long w_channel,
                       long w_tap, const Phase *phase, int f_h, int f_w) {
  for (int k = 0; k < columns; k += VEC) {
    float *to = panels + k / NR * depth * NR + k % NR;
    for (int place = 0; place < depth; place += VEC) {
      float16 square[VEC];
      load_turned(square, w + k * w_filter + b + place, w_filter, min(VEC, columns - k), depth - place, behind);
#pragma unroll
      for (int i = 0; i < VEC; i++)
        if (place + i < depth) vstore16(square[i], 0, to + (place + i) * NR);
    }
  }
}
#endif

// Blocks of the windows of `rows` positions: of position i from its `filled`-th float on. Returns whether any of it
// is not padding.
INLINE bool gather(float *windows, __global const float *x, const long *base, const int *in_d,
                   const int *in_h, const int *in_w, int rows, int b, int depth, int channels,
                   int joined, long x_size, long x_pixel, int x_d, int x_h, int x_w, int f_h,
                   int f_w, int dilation_d, int dilation_h, int dilation_w) {
  const int run = joined * channels, runs_w = max(1, f_w / joined);
  int q = b / run, skip = b % run;
  int t_w = q % runs_w * joined, t_h = q / runs_w % max(1, f_h), t_d = q / runs_w / max(1, f_h);
  bool is_any_inside = false;
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
      is_any_inside |= inside;
      if (inside)
        copy_pixels(to, x, from, at, joined, x_w, channels, skip, count, x_size);
      else
        clear_run(to, count);
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
  return is_any_inside;
}

// The windows of 1x1 filters without padding; whole ones with as few instructions as can be, which keep the
// multiply-adds waiting.
INLINE void copy_rows(float *windows, __global const float *x, const long *base, int rows, int depth, long left) {
  if (rows < MR || depth % VEC) {
    for (int i = 0; i < rows; i++) copy_run(windows + i * PITCH, x + base[i], depth, left - base[i]);
    return;
  }
  for (int k = 0; k < depth; k += VEC) {
#pragma unroll
    for (int i = 0; i < MR; i++) vstore16(vload16(0, x + base[i] + k), 0, windows + i * PITCH + k);
  }
}

// Tiles that are held next, of those that `left` positions take: about as many each time.
INLINE int next_tiles(int left) {
  const int tiles = (left + MR - 1) / MR, times = (tiles + TILES - 1) / TILES;
  return (tiles + times - 1) / times;
}

// Whether no window reads padding.
INLINE bool is_inside(const Axis *axis, int size, int step) {
  return axis->pad == 0 && (long)(axis->out - 1) * step + (long)(axis->taps - 1) * axis->dilation < size;
}

// Global size: (runs of positions, runs of filters, groups * phases, or groups: then the first phase has all taps
// and the others are filled); `share` positions and `strip` filters each, `strip` a multiple of NR.
__kernel ONE_ITEM void igemm_cpu_nhwc(__global const float *restrict x,
                                      __global const float *restrict weights,
                                      __global float *restrict y, GEOMETRY,
                                      CF_EPILOGUE_PARAMETERS, const int share, const int strip) {
  const Epilogue whole = CF_EPILOGUE(y);
  const bool fills = GRADIENT && get_global_size(2) < groups * phases_of(GEOMETRY_NAMES);
  const int phases = fills ? 1 : phases_of(GEOMETRY_NAMES), group = get_global_id(2) / phases;
  const Phase phase = phase_of(get_global_id(2) % phases, GEOMETRY_NAMES);
  const int out_d = phase.d.out, out_h = phase.h.out, out_w = phase.w.out;
  const int positions = images * out_d * out_h * out_w;
  const int first = get_global_id(0) * share, end = min(positions, first + share);
  const int k0 = get_global_id(1) * strip, k1 = min(filters, k0 + strip);
  const int all = f_d * f_h * f_w, reduction = phase.taps * channels;
  // Taps along the last axis that lie side by side in x.
  const int joined = groups == 1 && phase.w.dilation == 1 ? max(1, phase.w.taps) : 1;
  const long x_pixel = (long)groups * channels, y_pixel = (long)groups * filters;
  const long x_size = (long)images * x_d * x_h * x_w * x_pixel;
  y += (long)group * filters;
  // Nothing is read of y, it will not stay near, and vectors of it are lines.
  const bool is_large = !CF_READS_RESULT(whole) && (long)images * o_d * o_h * o_w * y_pixel >= STREAMED_FLOATS &&
                        y_pixel % VEC == 0 && ((size_t)y & 63) == 0;
  const bool is_plain = phase.taps == 1 && is_inside(&phase.d, x_d, SOURCE_STEP(stride_d)) &&
                        is_inside(&phase.h, x_h, SOURCE_STEP(stride_h)) &&
                        is_inside(&phase.w, x_w, SOURCE_STEP(stride_w));
  // All pixels are one row.
  const bool is_flat = is_plain && stride_w == 1 && o_d * o_h == 1 && x_d * x_h == 1 && o_w == x_w;
#if PACKED
  const long panels_before = (long)group * ((filters + NR - 1) / NR) + k0 / NR;
  weights += (panels_before * all + phase.before) * channels * NR;
#else
  const long w_filter = W_FILTER(filters, channels, all);
  __global const float *behind = weights + (long)groups * filters * channels * all;
  weights += (long)group * filters * channels * all + k0 * w_filter;
  float panels[PANEL_FLOATS] __attribute__((aligned(64)));
#endif

  float windows[TILES * MR * PITCH + VEC] __attribute__((aligned(64)));
  // Where the windows and the results of the positions lie, from `first_x` and `first_y` on.
  long base[TILES * MR], at[TILES * MR];
  for (int i = 0; i < TILES * MR; i++) {
    base[i] = i * x_pixel + (long)group * channels;
    at[i] = i * y_pixel;
  }
  // A filter's share of the next MR positions, which its tile asks for: in 65536ths, rounded up to miss none.
  const int asked = ((MR << 16) + k1 - k0 - 1) / (k1 - k0);
  for (int b = 0; b == 0 || b < reduction; b += DEPTH) {  // once where nothing reaches the phase
    const int depth = min(DEPTH, reduction - b);
    const Epilogue epilogue = cf_epilogue_of_pass(whole, b == 0, b + DEPTH >= reduction);
#if !PACKED
    pack_block(panels, weights, behind, k1 - k0, channels, b, depth, w_filter,
               W_CHANNEL(filters, channels, all), W_TAP(filters, channels), &phase, f_h, f_w);
#endif
    int o = first % out_w, row = first / out_w;
    int r = row % out_h, slice = row / out_h;
    int s = slice % out_d, n = slice / out_d;
    for (int p = first, tiles; p < end; p += tiles * MR) {
      tiles = next_tiles(end - p);
      const int positions_held = min(tiles * MR, end - p);
      int in_d[TILES * MR], in_h[TILES * MR], in_w[TILES * MR];
      int gap_d[TILES * MR], gap_h[TILES * MR], gap_w[TILES * MR];
      for (int i = 0; !is_flat && i < positions_held; i++) {
        in_d[i] = s * SOURCE_STEP(stride_d) - phase.d.pad;
        in_h[i] = r * SOURCE_STEP(stride_h) - phase.h.pad;
        in_w[i] = o * SOURCE_STEP(stride_w) - phase.w.pad;
        base[i] = ((((long)n * x_d + in_d[i]) * x_h + in_h[i]) * x_w + in_w[i]) * x_pixel +
                  (long)group * channels;
        const long line =
            ((long)n * o_d + phase.d.first + s * RESULT_STEP(stride_d)) * o_h + phase.h.first +
            r * RESULT_STEP(stride_h);
        at[i] = (line * o_w + phase.w.first + o * RESULT_STEP(stride_w)) * y_pixel;
        if (fills) {
          gap_d[i] = min(stride_d, o_d - s * stride_d);
          gap_h[i] = min(stride_h, o_h - r * stride_h);
          gap_w[i] = min(stride_w, o_w - o * stride_w);
        }
        if (++o == out_w) {
          o = 0;
          if (++r == out_h) {
            r = 0;
            if (++s == out_d) {
              s = 0;
              n++;
            }
          }
        }
      }
      const long first_x = is_flat ? p * x_pixel : 0, first_y = is_flat ? p * y_pixel : 0;
      // Taps that all positions of a tile have in the padding add nothing to it, between its first and last pass.
      bool is_idle[TILES];
      for (int i = 0; i < positions_held; i += MR) {
        const int rows = min(MR, positions_held - i);
        float *to = windows + i * PITCH;
        is_idle[i / MR] = false;
        if (is_plain)
          copy_rows(to, x + first_x + b, base + i, rows, depth, x_size - first_x - b);
        else
          is_idle[i / MR] = !gather(to, x, base + i, in_d + i, in_h + i, in_w + i, rows, b, depth, channels, joined,
                                    x_size, x_pixel, x_d, x_h, x_w, phase.h.taps, phase.w.taps, phase.d.dilation,
                                    phase.h.dilation, phase.w.dilation) &&
                            b > 0 && b + DEPTH < reduction;
      }
      // Weights that nobody has read before come evenly, each tile asking for a part of the next block.
      const int weights_asked = PACKED && p == first && tiles > 1 ? (VEC + tiles - 1) / tiles : 0;
      for (int k = k0; k < k1; k += NR) {
#if PACKED
        __global const float *panel = weights + ((long)((k - k0) / NR) * all * channels + b) * NR;
        __global const float *next = k + NR < k1 ? panel + (long)all * channels * NR : weights + (b + DEPTH) * NR;
#else
        const float *panel = panels + (k - k0) * depth, *next = panel;
#endif
        const bool is_streamed = is_large && reduction <= DEPTH;
        const int before = (k - k0) * asked >> 16, behind = (min(k + NR, k1) - k0) * asked >> 16;
        const long pixel = SOURCE_STEP(stride_w) * x_pixel;
        const bool is_half = VECTORS == 1 && k1 - k <= HALF && !fills;
        // Where windows come one by one, the next tile's are asked for together with this one's.
        const int height = is_half && phase.taps > 1 ? 2 * MR : MR, rows_asked = height / MR * weights_asked;
        for (int i = 0; i < positions_held; i += height, next += depth / VEC * rows_asked * NR) {
          if (is_idle[i / MR] && is_idle[(min(i + height, positions_held) - 1) / MR]) continue;
          Coming coming = {{x, 0, 0}, next, rows_asked};
          if (phase.taps == 1)
            coming.x = (Ahead){x + first_x + base[i] + b + (tiles * MR + before) * pixel, pixel, behind - before};
          if (is_half) {
            multiply_half(depth, windows + i * PITCH, panel, y + first_y + k, at + i,
                          min(height, positions_held - i), k1 - k,
                          CF_EPILOGUE_FROM(epilogue, group * filters + k), coming);
            continue;
          }
          const Gaps gaps = {fills && b == 0, is_large, gap_d + i, gap_h + i, gap_w + i, o_h * o_w * y_pixel,
                             o_w * y_pixel, y_pixel};
          multiply(depth, windows + i * PITCH, panel, y + first_y + k, at + i, min(MR, positions_held - i),
                   min(NR, k1 - k), CF_EPILOGUE_FROM(epilogue, group * filters + k), coming, gaps, is_streamed);
        }
      }
    }
  }
}
