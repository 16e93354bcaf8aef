// Implicit GEMM for CPU devices, channels first: y (filters x positions) = w * columns of x.
//
// One work-item computes a run of filters by a run of positions (all images in one row) of one
// group. For NR positions at a time it gathers a block of their columns into private memory, which
// stays in the level-1 cache, padding as zeros; a register tile of MR x NR walks the filters.
// Weights come in panels of MR filters from igemm_cpu_pack (block = `block`, width = MR).
#include "cpu_tile.h"

// Up to 16 positions of one tap: place in the panel, place in x (none: padding), how many.
typedef struct {
  long from;
  int to, count;
  bool inside, whole;
} Piece;

// NR positions as pieces of rows of y.
typedef struct {
  int to, count, n, d, h, w;
} Segment;

INLINE int split(Segment *segments, int p, int count, int o_d, int o_h, int o_w) {
  int w = p % o_w, row = p / o_w;
  int h = row % o_h, slice = row / o_h;
  int d = slice % o_d, n = slice / o_d, found = 0;
  for (int to = 0; to < count; found++) {
    const int length = min(count - to, o_w - w);
    segments[found] = (Segment){to, length, n, d, h, w};
    to += length;
    w = 0;
    if (++h == o_h) {
      h = 0;
      if (++d == o_d) {
        d = 0;
        n++;
      }
    }
  }
  return found;
}

// Sixteen floats `step` apart; with `whole` all that a vector load touches lies inside of x.
INLINE float16 load_steps(__global const float *x, int step, int count, bool whole) {
  if (whole && step == 1) return vload16(0, x);
  if (whole && step == 2) return (float16)(vload16(0, x).even, vload16(0, x + VEC).even);
  float part[VEC];
  for (int i = 0; i < VEC; i++) part[i] = i < count ? x[(long)i * step] : 0.0f;
  return vload16(0, part);
}

// `depth` rows of the panel. A vector store spills over what its piece has, to be overwritten by
// the next piece or row; `panel` has room for VEC floats more.
INLINE void gather(float *panel, __global const float *x, const Piece *pieces, int used, int depth,
                   long plane, int step) {
  if (used == 1 && pieces[0].whole && step == 1) {
    for (int c = 0; c < depth; c++)
      vstore16(vload16(0, x + pieces[0].from + c * plane), 0, panel + c * NR);
    return;
  }
  if (used == 2 && pieces[0].whole && pieces[1].whole && step == 1) {
    __global const float *a = x + pieces[0].from, *b = x + pieces[1].from;
    const int at = pieces[1].to;
    for (int c = 0; c < depth; c++) {
      vstore16(vload16(0, a + c * plane), 0, panel + c * NR);
      vstore16(vload16(0, b + c * plane), 0, panel + c * NR + at);
    }
    return;
  }
  for (int c = 0; c < depth; c++)
    for (int i = 0; i < used; i++) {
      float16 value = 0.0f;
      if (pieces[i].inside)
        value = load_steps(x + pieces[i].from + c * plane, step, pieces[i].count, pieces[i].whole);
      vstore16(value, 0, panel + c * NR + pieces[i].to);
    }
}

// One vector of results; images follow each other `image` floats apart.
INLINE void store_positions(float16 value, __global float *y, int at, int size, long image,
                            int count, float beta) {
  if (count >= VEC && at + VEC <= size) {
    store_part(value, y + at, VEC, beta);
    return;
  }
  float part[VEC];
  vstore16(value, 0, part);
  for (int i = 0; i < min(count, VEC); i++) {
    if (at == size) {
      at = 0;
      y += image;
    }
    y[at] = beta != 0.0f ? fma(beta, y[at], part[i]) : part[i];
    at++;
  }
}

INLINE void tile(const int rows_, const int vectors, int depth, __global const float *left_panel,
                 const float *panel, __global float *y, int at, int size, long image, int rows,
                 int columns, float alpha, float beta) {
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
#pragma unroll
  for (int j = 0; j < vectors; j++) {
    const int past = at + j * VEC;
    const int skipped = past / size;
    __global float *to = y + skipped * image;
    const int place = past - skipped * size;
#pragma unroll
    for (int i = 0; i < rows_; i++)
      if (i < rows)
        store_positions(sum[i][j] * alpha, to + (long)i * size, place, size, image,
                        columns - j * VEC, beta);
  }
}

INLINE void tile_of_width(const int vectors, int depth, __global const float *left_panel,
                          const float *panel, __global float *y, int at, int size, long image,
                          int rows, int columns, float alpha, float beta) {
  if (MR > 8 && rows > 8)
    tile(MR, vectors, depth, left_panel, panel, y, at, size, image, rows, columns, alpha, beta);
  else if (MR > 4 && rows > 4)
    tile(MR < 8 ? MR : 8, vectors, depth, left_panel, panel, y, at, size, image, rows, columns,
         alpha, beta);
  else
    tile(4, vectors, depth, left_panel, panel, y, at, size, image, rows, columns, alpha, beta);
}

// Global size: (runs of positions, runs of filters, groups); `strip` positions, a multiple of NR,
// and `share` filters, a multiple of MR, each. `block` channels are summed at a time.
__kernel ONE_ITEM void igemm_cpu_nchw(__global const float *restrict x,
                                      __global const float *restrict packed,
                                      __global float *restrict y, GEOMETRY, const float alpha,
                                      const float beta, const int share, const int strip,
                                      const int block, WEIGHT_STEPS) {
  const int size = o_d * o_h * o_w, positions = images * size, group = get_global_id(2);
  const int first = get_global_id(0) * strip, end = min(positions, first + strip);
  const int m0 = get_global_id(1) * share, m1 = min(filters, m0 + share);
  const int taps = f_d * f_h * f_w, panels = (filters + MR - 1) / MR;
  const long plane = (long)x_d * x_h * x_w, image = (long)groups * filters * size;
  const long x_size = images * groups * channels * plane;
  packed += (long)group * panels * channels * taps * MR;
  y += (long)group * filters * size;

  float panel[(DEPTH + 1) * NR] __attribute__((aligned(64)));
  Segment segments[NR];
  Piece pieces[NR];
  for (int c0 = 0; c0 < channels; c0 += block)
    for (int t0 = 0; t0 < taps; t0 += DEPTH) {
      const int count = min(block, channels - c0), t1 = min(taps, t0 + DEPTH);
      const int depth = (t1 - t0) * count;
      const float scale = c0 + t0 == 0 ? beta : 1.0f;
      for (int p = first; p < end; p += NR) {
        const int columns = min(NR, end - p);
        const int found = split(segments, p, columns, o_d, o_h, o_w);
        int v = t0 % f_w, u = t0 / f_w % f_h, t = t0 / f_w / f_h;
        for (int tap = t0; tap < t1; tap++) {
          int used = 0;
          for (int i = 0; i < found; i++) {
            const Segment s = segments[i];
            const int in_d = s.d * stride_d - pad_d + t * dilation_d;
            const int in_h = s.h * stride_h - pad_h + u * dilation_h;
            const int in_w = s.w * stride_w - pad_w + v * dilation_w;
            int low = s.count, high = s.count;  // of the segment, what lies inside of x
            if (in_d >= 0 && in_d < x_d && in_h >= 0 && in_h < x_h) {
              low = in_w >= 0 ? 0 : min(s.count, (stride_w - 1 - in_w) / stride_w);
              high = in_w >= x_w ? low : clamp((x_w - 1 - in_w) / stride_w + 1, low, s.count);
            }
            const long base =
                (((long)(s.n * groups + group) * channels + c0) * x_d + in_d) * x_h * x_w +
                (long)in_h * x_w + in_w;
            for (int at = 0; at < s.count;) {
              const bool inside = at >= low && at < high;
              const int limit = at < low ? low : inside ? high : s.count;
              const int length = min(VEC, limit - at);
              const long from = base + (long)at * stride_w;
              const long last = from + (count - 1) * plane + VEC * min(stride_w, 2);
              pieces[used++] =
                  (Piece){from, s.to + at, length, inside, inside && last <= x_size};
              at += length;
            }
          }
          gather(panel + (tap - t0) * count * NR, x, pieces, used, count, plane, stride_w);
          if (++v == f_w) {
            v = 0;
            if (++u == f_h) {
              u = 0;
              t++;
            }
          }
        }
        const int n = p / size, at = p % size;
        for (int m = m0; m < m1; m += MR) {
          __global const float *left =
              packed + ((long)(m / MR) * channels * taps + (long)c0 * taps + (long)t0 * count) * MR;
          __global float *to = y + n * image + (long)m * size;
          if (VECTORS > 1 && columns > VEC)
            tile_of_width(VECTORS, depth, left, panel, to, at, size, image, m1 - m, columns, alpha,
                          scale);
          else
            tile_of_width(1, depth, left, panel, to, at, size, image, m1 - m, columns, alpha,
                          scale);
        }
      }
    }
}
