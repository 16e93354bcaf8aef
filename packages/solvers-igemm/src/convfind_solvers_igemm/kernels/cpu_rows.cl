// Implicit GEMM for CPU devices along rows: y = windows of x * w, positions by filters.
//
// One work-item computes a run of tiles by a run of filters of one group; a tile is up to MR
// positions of one row of y. What the tile reads of x is copied once, padding as zeros, into a strip
// in private memory: pixels PITCH / stride floats apart (JOINED 1) or a block of DEPTH channels of each
// (JOINED 0). Neighbouring positions lie PITCH floats apart in it whatever the tap, so that the taps of
// a window are runs of the strip, and a register tile of MR x NR walks the filters over all of them.
// Channels first, strip and results go through transposes. Weights come in panels of NR filters from
// igemm_cpu_pack.
#ifndef CHANNELS_LAST
#define CHANNELS_LAST 1    // 0: channels first; 1: channels last
#endif
#ifndef DEPTH
#define DEPTH 64           // channels of a block, multiple of 16: 16..1024
#endif
#ifndef JOINED
#define JOINED 0           // 1: all channels of neighbouring taps side by side, for few channels
#endif
#ifndef PITCH
#define PITCH (DEPTH + 16) // JOINED 1: stride_w * channels
#endif
#ifndef STRIP_FLOATS
#define STRIP_FLOATS 16384 // room for a strip
#endif

#define CF_PASSES 1
#include "cpu_tile.h"

#define WIDTH NR
#define BLOCK(channels, taps) (JOINED ? (channels) : min(channels, DEPTH))
#include "cpu_pack.h"
#include "cpu_steps.h"
#include "cpu_strip.h"

#if CHANNELS_LAST
#define PIXEL(groups, channels) ((long)(groups) * (channels))  // floats from a pixel to the next
#else
#define PIXEL(groups, channels) 1L
#endif

#if !CHANNELS_LAST
// `count` results `step` apart.
INLINE void store_row(float16 sum, __global float *y, long step, int count, int channel, const Epilogue epilogue) {
  if (step == 1) {
    store_part(sum, y, count, bias_of(epilogue, channel), epilogue);
    return;
  }
  float part[VEC];
  vstore16(sum, 0, part);
  for (int i = 0; i < count; i++) CF_STORE_RESULT(FLOAT32, y + i * step, channel, part[i], epilogue);
}
#endif

// The product of one float of each window by one row of weights.
INLINE void add_product(float16 (*sum)[VECTORS], const int rows_, const int vectors, const float *window,
                        __global const float *panel) {
  float16 right[VECTORS];
#pragma unroll
  for (int j = 0; j < vectors; j++) {
    right[j] = vload16(j, panel);
    PREFETCH(panel + 8 * NR + j * VEC);
  }
#pragma unroll
  for (int i = 0; i < rows_; i++) {
    const float16 left = window[i * PITCH];
#pragma unroll
    for (int j = 0; j < vectors; j++) sum[i][j] = fma(left, right[j], sum[i][j]);
  }
}

INLINE void tile(const int rows_, const int vectors, const Strip *strip, int length,
                 const float *windows, __global const float *panel, float *part) {
  float16 sum[MR][VECTORS];
#pragma unroll
  for (int i = 0; i < rows_; i++)
#pragma unroll
    for (int j = 0; j < vectors; j++) sum[i][j] = 0.0f;
  for (int run = 0; run < strip->runs; run++) {
    const float *window = windows + strip->offset[run];
    const int times = STEPS > 1 ? length / STEPS : 0;
    for (int n = 0; n < times; n++, window += STEPS, panel += STEPS * NR)
#pragma unroll
      for (int s = 0; s < STEPS; s++) add_product(sum, rows_, vectors, window + s, panel + s * NR);
    for (int k = times * STEPS; k < length; k++, window++, panel += NR)
      add_product(sum, rows_, vectors, window, panel);
  }
#pragma unroll
  for (int i = 0; i < rows_; i++)
#pragma unroll
    for (int j = 0; j < vectors; j++) vstore16(sum[i][j], i * VECTORS + j, part);
}

// Of a low register tile there are all heights from 4 on, and rows are cut evenly.
#define IS_LOW (MR <= 6)

INLINE void tile_of_width(const int vectors, int rows, const Strip *strip, int length,
                          const float *windows, __global const float *panel, float *part) {
  if (IS_LOW ? rows == MR : rows > MR / 2)
    tile(MR, vectors, strip, length, windows, panel, part);
  else if ((IS_LOW || MR / 2 > 4) && rows > 4)
    tile(IS_LOW ? 5 : MR / 2, vectors, strip, length, windows, panel, part);
  else
    tile(4, vectors, strip, length, windows, panel, part);
}

// A call of its own: what the kernel keeps in registers would push sums out of them.
NOINLINE void multiply(int columns, int rows, const Strip *strip, int length, const float *windows,
                       __global const float *panel, float *part) {
  if (VECTORS > 1 && columns > VEC)
    tile_of_width(VECTORS, rows, strip, length, windows, panel, part);
  else
    tile_of_width(1, rows, strip, length, windows, panel, part);
}

// Results of `rows` positions `pitch` floats apart by `columns` filters, channels first `plane` apart.
INLINE void store_tile(const float *part, __global float *y, long pitch, long plane, int rows,
                       int columns, const Epilogue epilogue) {
  const int vectors = VECTORS > 1 && columns > VEC ? VECTORS : 1;
#if CHANNELS_LAST
  for (int i = 0; i < rows; i++)
    for (int j = 0; j < vectors; j++)
      store_part(vload16(i * VECTORS + j, part), y + i * pitch + j * VEC, columns - j * VEC,
                 biases_of(epilogue, j * VEC, columns - j * VEC), epilogue);
#else
  for (int j = 0; j < vectors; j++) {
    float16 square[VEC];
    float turned[VEC * VEC] __attribute__((aligned(64)));
#pragma unroll
    for (int i = 0; i < VEC; i++) {
      square[i] = 0.0f;
      if (i < MR) square[i] = vload16(i * VECTORS + j, part);
    }
    transpose(square);
#pragma unroll
    for (int i = 0; i < VEC; i++) vstore16(square[i], i, turned);
    for (int i = 0; i < min(VEC, columns - j * VEC); i++)
      store_row(vload16(i, turned), y + (j * VEC + i) * plane, pitch, rows, j * VEC + i, epilogue);
  }
#endif
}

// Global size: (runs of tiles, runs of filters, groups * phases); `share` tiles and `strip` filters
// each, `strip` a multiple of NR.
__kernel ONE_ITEM void igemm_cpu_rows(__global const float *restrict x,
                                           __global const float *restrict packed,
                                           __global float *restrict y, GEOMETRY,
                                           CF_EPILOGUE_PARAMETERS, const int share, const int strip) {
  const Epilogue whole = CF_EPILOGUE(y);
  const int phases = phases_of(GEOMETRY_NAMES), group = get_global_id(2) / phases;
  const Phase phase = phase_of(get_global_id(2) % phases, GEOMETRY_NAMES);
  const int out_d = phase.d.out, out_h = phase.h.out, out_w = phase.w.out, taps_w = phase.w.taps;
  const int in_row = (out_w + MR - 1) / MR, tiles = images * out_d * out_h * in_row;
  const int height = IS_LOW ? (out_w + in_row - 1) / in_row : MR;
  const int first = get_global_id(0) * share, end = min(tiles, first + share);
  const int k0 = get_global_id(1) * strip, k1 = min(filters, k0 + strip);
  const int all = f_d * f_h * f_w, step = SOURCE_STEP(stride_w);
  const int block = BLOCK(channels, phase.taps);
  const long x_pixel = PIXEL(groups, channels), y_pixel = PIXEL(groups, filters);
  const long x_plane = (long)x_d * x_h * x_w, y_plane = (long)o_d * o_h * o_w;
  const long x_size = (long)images * groups * channels * x_plane;
  packed += (((long)group * ((filters + NR - 1) / NR) + k0 / NR) * all + phase.before) * channels * NR;
  y += (long)group * filters * (CHANNELS_LAST ? 1 : y_plane);

  float windows[STRIP_FLOATS] __attribute__((aligned(64)));
  float part[MR * NR] __attribute__((aligned(64)));
  Strip plan_;
  plan(&plan_, phase.d.taps * phase.h.taps, taps_w, step, phase.w.dilation, channels, MR);
  for (int c0 = 0; c0 < channels; c0 += block) {
    const int count = min(block, channels - c0), length = JOINED ? taps_w * channels : count;
    const Epilogue epilogue = cf_epilogue_of_pass(whole, c0 == 0, c0 + block >= channels);
    for (int index = first; index < end; index++) {
      const int o = index % in_row * height, row = index / in_row;
      const int r = row % out_h, slice = row / out_h;
      const int s = slice % out_d, n = slice / out_d;
      const int rows = min(height, out_w - o), at = o * step - phase.w.pad;
      for (int line = 0; line < plan_.lines; line++) {
        const int in_d = s * SOURCE_STEP(stride_d) - phase.d.pad + line / phase.h.taps * phase.d.dilation;
        const int in_h = r * SOURCE_STEP(stride_h) - phase.h.pad + line % phase.h.taps * phase.h.dilation;
        const bool inside = in_d >= 0 && in_d < x_d && in_h >= 0 && in_h < x_h;
        const long channel = (long)group * channels + c0;
        const long line_ = ((long)in_d * x_h + in_h) * x_w + at;
        const long from = CHANNELS_LAST ? (n * x_plane + line_) * x_pixel + channel
                                        : ((long)n * groups * channels + channel) * x_plane + line_;
        fill_line(windows + line * plan_.line, &plan_, x, from, at, inside, rows, taps_w, step, x_w,
                  channels, count, x_pixel, x_plane, x_size, x_w);
      }
      const long result = ((long)phase.d.first + s * RESULT_STEP(stride_d)) * o_h + phase.h.first +
                          r * RESULT_STEP(stride_h);
      const long pitch = RESULT_STEP(stride_w) * y_pixel;
      __global float *to = y + n * y_plane * groups * filters +
                           (result * o_w + phase.w.first) * y_pixel + o * pitch;
      for (int k = k0; k < k1; k += NR) {
        __global const float *panel =
            packed + ((long)((k - k0) / NR) * all * channels + (long)c0 * phase.taps) * NR;
        multiply(k1 - k, rows, &plan_, length, windows, panel, part);
        store_tile(part, to + k * (CHANNELS_LAST ? 1 : y_plane), pitch, y_plane, rows, k1 - k,
                   CF_EPILOGUE_FROM(epilogue, group * filters + k));
      }
    }
  }
}
