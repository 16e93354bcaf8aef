// Implicit GEMM for CPU devices, channels first: y (filters x positions) = w * columns of x.
//
// One work-item computes a run of filters by a run of positions (all images in one row) of one
// group. For NR positions at a time it gathers a block of their columns into private memory, which
// stays in the level-1 cache, padding as zeros; a register tile of MR x NR walks the filters.
// Weights come in panels of MR filters from igemm_cpu_pack.
#include "cpu_tile.h"

#define CHANNELS_LAST 0
#define WIDTH MR
// All taps of a block of channels fit into DEPTH where they can.
#define BLOCK(channels, taps) ((taps) == 0 ? (channels) : min(channels, max(1, DEPTH / (taps))))
#include "cpu_pack.h"
#include "cpu_pieces.h"

// One vector of results; images follow each other `image` floats apart.
INLINE void store_positions(float16 value, __global float *y, int at, int size, long image,
                            int count, float beta) {
  if (count >= VEC && at + VEC <= size) {
    store_part(value, y + at, VEC, beta);
    return;
  }
  float part[2 * VEC];
  vstore16(value, 0, part);
  for (int i = 0; i < min(count, VEC);) {
    const int length = min(min(count, VEC) - i, size - at);
    store_part(vload16(0, part + i), y + at, length, beta);
    i += length;
    at = 0;
    y += image;
  }
}

// One vector of results that lie anywhere.
INLINE void scatter(float16 value, __global float *y, const long *at, int count, float beta) {
  float part[VEC];
  vstore16(value, 0, part);
  for (int i = 0; i < min(count, VEC); i++)
    y[at[i]] = beta != 0.0f ? fma(beta, y[at[i]], part[i]) : part[i];
}

// Where the results of NR positions go: side by side from `place` on in images of `size`, `image`
// floats apart; or, with steps between them, where `at` says.
typedef struct {
  int place, size;
  long image;
  const long *at;
} Target;

INLINE void tile(const int rows_, const int vectors, int depth, __global const float *left_panel,
                 const float *panel, __global float *y, const Target *target, int rows, int columns,
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
      const float16 left = left_panel[k * MR + i];
#pragma unroll
      for (int j = 0; j < vectors; j++) sum[i][j] = fma(left, right[j], sum[i][j]);
    }
  }
  const int size = target->size;
#pragma unroll
  for (int j = 0; j < vectors; j++) {
    const int past = target->place + j * VEC;
    const int skipped = past / size;
    __global float *to = y + skipped * target->image;
#pragma unroll
    for (int i = 0; i < rows_; i++)
      if (i < rows) {
        if (GRADIENT && target->at)
          scatter(sum[i][j] * alpha, y + (long)i * size, target->at + j * VEC, columns - j * VEC,
                  beta);
        else
          store_positions(sum[i][j] * alpha, to + (long)i * size, past - skipped * size, size,
                          target->image, columns - j * VEC, beta);
      }
  }
}

INLINE void tile_of_width(const int vectors, int depth, __global const float *left_panel,
                          const float *panel, __global float *y, const Target *target, int rows,
                          int columns, float alpha, float beta) {
  if (MR > 8 && rows > 8)
    tile(MR, vectors, depth, left_panel, panel, y, target, rows, columns, alpha, beta);
  else if (MR > 4 && rows > 4)
    tile(MR < 8 ? MR : 8, vectors, depth, left_panel, panel, y, target, rows, columns, alpha, beta);
  else
    tile(4, vectors, depth, left_panel, panel, y, target, rows, columns, alpha, beta);
}

// Global size: (runs of positions, runs of filters, groups * phases); `strip` positions, a multiple
// of NR, and `share` filters, a multiple of MR, each.
__kernel ONE_ITEM void igemm_cpu_nchw(__global const float *restrict x,
                                      __global const float *restrict packed,
                                      __global float *restrict y, GEOMETRY, const float alpha,
                                      const float beta, const int strip, const int share) {
  const int phases = phases_of(GEOMETRY_NAMES), group = get_global_id(2) / phases;
  const Phase phase = phase_of(get_global_id(2) % phases, GEOMETRY_NAMES);
  const int out_d = phase.d.out, out_h = phase.h.out, out_w = phase.w.out;
  const int positions = images * out_d * out_h * out_w, size = o_d * o_h * o_w;
  const int first = get_global_id(0) * strip, end = min(positions, first + strip);
  const int m0 = get_global_id(1) * share, m1 = min(filters, m0 + share);
  const int all = f_d * f_h * f_w, taps = phase.taps, block = BLOCK(channels, taps);
  const int step = SOURCE_STEP(stride_w);
  const bool is_stepped =
      RESULT_STEP(stride_d) > 1 || RESULT_STEP(stride_h) > 1 || RESULT_STEP(stride_w) > 1;
  const long plane = (long)x_d * x_h * x_w, image = (long)groups * filters * size;
  const long x_size = images * groups * channels * plane;
  packed += ((long)group * ((filters + MR - 1) / MR) * all + phase.before) * channels * MR;
  y += (long)group * filters * size;

  float panel[(DEPTH + 1) * NR] __attribute__((aligned(64)));
  Segment segments[NR];
  Piece pieces[NR];
  long at[NR];
  for (int c0 = 0; c0 < channels; c0 += block)
    for (int t0 = 0; t0 == 0 || t0 < taps; t0 += DEPTH) {  // once where nothing reaches the phase
      const int count = min(block, channels - c0), t1 = min(taps, t0 + DEPTH);
      const int depth = (t1 - t0) * count;
      const float scale = c0 + t0 == 0 ? beta : 1.0f;
      for (int p = first; p < end; p += NR) {
        const int columns = min(NR, end - p);
        const int found = split(segments, p, columns, out_d, out_h, out_w);
        int v = t0 % max(1, phase.w.taps), row = t0 / max(1, phase.w.taps);
        int u = row % max(1, phase.h.taps), t = row / max(1, phase.h.taps);
        for (int tap = t0; tap < t1; tap++) {
          const int used = pieces_of(
              pieces, segments, found, t * phase.d.dilation - phase.d.pad,
              u * phase.h.dilation - phase.h.pad, v * phase.w.dilation - phase.w.pad, count,
              (long)group * channels + c0, (long)groups * channels, x_size, x_d, x_h, x_w,
              SOURCE_STEP(stride_d), SOURCE_STEP(stride_h), step);
          gather(panel + (tap - t0) * count * NR, NR, x, pieces, used, count, plane, step);
          if (++v == phase.w.taps) {
            v = 0;
            if (++u == phase.h.taps) {
              u = 0;
              t++;
            }
          }
        }
        Target target = {p % size, size, image, 0};
        __global float *to = y + p / size * image;
        if (GRADIENT && is_stepped) {
          target = (Target){0, size, image, at};
          to = y;
          for (int i = 0; i < found; i++) {
            const Segment s = segments[i];
            const long line = (phase.d.first + (long)s.d * RESULT_STEP(stride_d)) * o_h +
                              phase.h.first + s.h * RESULT_STEP(stride_h);
            for (int j = 0; j < s.count; j++)
              at[s.to + j] = s.n * image + line * o_w + phase.w.first +
                             (s.w + j) * RESULT_STEP(stride_w);
          }
        }
        for (int m = m0; m < m1; m += MR) {
          const long place = (long)(m / MR) * all * channels + (long)c0 * taps + (long)t0 * count;
          __global const float *left = packed + place * MR;
          if (VECTORS > 1 && columns > VEC)
            tile_of_width(VECTORS, depth, left, panel, to + (long)m * size, &target, m1 - m, columns,
                          alpha, scale);
          else
            tile_of_width(1, depth, left, panel, to + (long)m * size, &target, m1 - m, columns, alpha,
                          scale);
        }
      }
    }
}
