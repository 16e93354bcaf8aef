// Implicit GEMM for CPU devices, the gradient of the weights: dw (filters x window) = y * windows of x,
// summed over the positions of y.
//
// One work-item computes a run of filters by a run of the window's columns (tap, then channel) of one
// group over a run of positions. For DEPTH positions at a time it copies the filters of y into panels
// of MR; for NR columns at a time it gathers their windows, which stay in the level-1 cache, padding
// as zeros; a register tile of MR x NR walks the filters. Sums go straight to dw, or, where positions
// are split or dw lies in another order, to workspace, which igemm_cpu_sum adds up in a fixed order.
#ifndef CHANNELS_LAST
#define CHANNELS_LAST 0     // 0: channels first; 1: channels last
#endif

#include "cpu_filters.h"
#include "cpu_sum.h"
#if CHANNELS_LAST
#include "cpu_runs.h"
#else
#include "cpu_pieces.h"
#endif

#define MOST_LINES (8 * DEPTH)  // of x that are asked for ahead
#define LINE (DEPTH + VEC)  // floats of a column of positions, with room for a vector's spill

// Lines that are read soon: a tile asks for `count` of them, spread over its products.
typedef struct {
  __global const float *from;
  const long *lines;
  int count;
} Soon;

INLINE void tile(const int rows_, const int vectors, int depth, const float *left,
                 const float *right, __global float *out, long pitch, int rows, int columns,
                 const Epilogue epilogue, Soon soon) {
  float16 sum[MR][VECTORS];
#pragma unroll
  for (int i = 0; i < rows_; i++) {
    PREFETCH(out + min(i, rows - 1) * pitch);
    PREFETCH(out + min(i, rows - 1) * pitch + columns - 1);
#pragma unroll
    for (int j = 0; j < vectors; j++) sum[i][j] = 0.0f;
  }
  for (int k = 0; k < depth; k++) {
    float16 b[VECTORS];
#pragma unroll
    for (int j = 0; j < vectors; j++) b[j] = vload16(k * VECTORS + j, right);
    PREFETCH(soon.from + soon.lines[k * soon.count / DEPTH]);
#pragma unroll
    for (int i = 0; i < rows_; i++) {
      const float16 a = left[k * LEFT_STEP + i * LEFT_ROW];
#pragma unroll
      for (int j = 0; j < vectors; j++) sum[i][j] = fma(a, b[j], sum[i][j]);
    }
  }
  if (rows >= rows_ && columns >= vectors * VEC) {
#pragma unroll
    for (int i = 0; i < rows_; i++) {
#pragma unroll
      for (int j = 0; j < vectors; j++) store_whole(sum[i][j], out + i * pitch + j * VEC, NO_BIAS, epilogue);
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
      store_part(rest[i * vectors + j], out + i * pitch + j * VEC, columns - j * VEC, NO_BIAS, epilogue);
}

INLINE void tile_of_height(const int vectors, int depth, const float *left, const float *right,
                           __global float *out, long pitch, int rows, int columns,
                           const Epilogue epilogue, Soon soon) {
  if (MR > 8 && rows > 8)
    tile(MR, vectors, depth, left, right, out, pitch, rows, columns, epilogue, soon);
  else if (MR > 4 && rows > 4)
    tile(MR < 8 ? MR : 8, vectors, depth, left, right, out, pitch, rows, columns, epilogue, soon);
  else
    tile(4, vectors, depth, left, right, out, pitch, rows, columns, epilogue, soon);
}

#if CHANNELS_LAST
// What a position reads: its pixel, and where that lies in the axes of x.
typedef struct {
  long base;
  int d, h, w;
} Place;

INLINE void places_of(Place *places, int p, int count, GEOMETRY) {
  int o = p % o_w, row = p / o_w;
  int r = row % o_h, slice = row / o_h;
  int s = slice % o_d, n = slice / o_d;
  for (int i = 0; i < count; i++) {
    const int d = s * stride_d - pad_d, h = r * stride_h - pad_h, w = o * stride_w - pad_w;
    places[i] = (Place){((((long)n * x_d + d) * x_h + h) * x_w + w) * groups * channels, d, h, w};
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
}

INLINE bool reaches_no_padding(int out, int size, int stride, int taps, int dilation, int pad) {
  return pad == 0 && (long)(out - 1) * stride + (long)(taps - 1) * dilation < size;
}

// A run of columns that lie side by side in x, and where it lies in the axes of a window.
typedef struct {
  long offset;
  int d, h, w, to, count, skip;
} Run;

// Up to NR columns from `column` on of the windows of `depth` positions; with `is_inside` none of them is
// of padding. A vector store spills over into the next run or position, which is stored later.
INLINE void gather_right(float *right, __global const float *x, const Place *places, bool is_inside,
                         int column, int columns, int depth, long x_size, GEOMETRY) {
  // Taps along the last axis that lie side by side in x.
  const int joined = groups == 1 && dilation_w == 1 ? f_w : 1;
  const int size = joined * channels, runs_w = f_w / joined;
  Run runs[NR];
  int used = 0;
  for (int to = 0; to < columns; used++) {
    const int q = (column + to) / size, skip = (column + to) % size, line = q / runs_w;
    const int d = line / f_h * dilation_d, h = line % f_h * dilation_h;
    const int w = q % runs_w * joined * dilation_w, count = min(size - skip, columns - to);
    const long offset = (((long)d * x_h + h) * x_w + w) * groups * channels + skip;
    runs[used] = (Run){offset, d, h, w, to, count, skip};
    to += count;
  }
  if (is_inside && used == 1 && columns == NR) {
    x += runs[0].offset;
    for (int k = 0; k < depth; k++)
#pragma unroll
      for (int j = 0; j < VECTORS; j++) vstore16(vload16(j, x + places[k].base), k * VECTORS + j, right);
    return;
  }
  for (int k = 0; k < depth; k++, right += NR)
    for (int i = 0; i < used; i++) {
      const Run run = runs[i];
      const int in_d = places[k].d + run.d, in_h = places[k].h + run.h, at = places[k].w + run.w;
      if (in_d >= 0 && in_d < x_d && in_h >= 0 && in_h < x_h && at + joined > 0 && at < x_w)
        copy_pixels(right + run.to, x, places[k].base + run.offset, at, joined, x_w, channels,
                    run.skip, run.count, x_size);
      else
        clear_run(right + run.to, run.count);
    }
}
#else
// NR channels from `from` on, in the first of the images, of `depth` positions from `p` on that lie side by side
// in an image.
INLINE void gather_flat(float *right, __global const float *x, long from, int p, int depth, int size, long image,
                        long x_size) {
  const int16 lane = (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  for (int k = 0; k < depth; k += VEC) {
    const int at = (p + k) % size, count = min(VEC, depth - k), inside = min(size - at, count);
    const long first = from + (p + k) / size * image + at;
    const bool is_whole = inside == VEC && first + (NR - 1) * size + VEC <= x_size;
    for (int part = 0; part < NR; part += VEC) {
      __global const float *rows = x + first + (long)part * size;
      float16 square[VEC];
      if (is_whole) {
#pragma unroll
        for (int i = 0; i < VEC; i++) square[i] = vload16(0, rows + (long)i * size);
      } else {
        for (int i = 0; i < VEC; i++, rows += size) {
          square[i] = load_part(rows, rows + VEC <= x + x_size ? VEC : inside);
          if (inside == count) continue;
          __global const float *next = rows + image - size;  // the rest is the next image's
          const float16 other = load_part(next, next + VEC <= x + x_size ? VEC : count);
          square[i] = select(square[i], other, lane >= inside);
        }
      }
      transpose(square);
      float *to = right + k * NR + part;
      if (is_whole) {
#pragma unroll
        for (int i = 0; i < VEC; i++) vstore16(square[i], 0, to + i * NR);
      } else {
        for (int i = 0; i < count; i++) vstore16(square[i], 0, to + i * NR);
      }
    }
  }
}

// Up to NR columns from `column` on of the windows of `depth` positions: lines of positions, turned.
INLINE void gather_right(float *right, float *lines, __global const float *x, const Segment *segments,
                         int found, Piece *pieces, int group, int column, int columns, int p, int depth,
                         long x_size, GEOMETRY) {
  const long plane = (long)x_d * x_h * x_w;
  if (f_d * f_h * f_w == 1 && o_w == plane && plane >= VEC && columns == NR) {
    gather_flat(right, x, ((long)group * channels + column) * plane, p, depth, (int)plane,
                groups * channels * plane, x_size);
    return;
  }
  const Quarters whole = {0, 0, 0, true};
  for (int half_ = 0; half_ < columns; half_ += VEC) {
    const int width = min(VEC, columns - half_);
    for (int to = 0; to < width;) {
      const int tap = (column + half_ + to) / channels, c = (column + half_ + to) % channels;
      const int count = min(channels - c, width - to), row = tap / f_w;
      const int used = pieces_of(pieces, segments, found, row / f_h * dilation_d - pad_d,
                                 row % f_h * dilation_h - pad_h, tap % f_w * dilation_w - pad_w, count,
                                 (long)group * channels + c, (long)groups * channels, x_size, x_d, x_h,
                                 x_w, stride_d, stride_h, stride_w);
      gather(lines + to * LINE, LINE, x, pieces, used, count, plane, stride_w, &whole);
      to += count;
    }
    for (int k = 0; k < depth; k += VEC) {
      float16 square[VEC];
#pragma unroll
      for (int i = 0; i < VEC; i++) square[i] = vload16(0, lines + i * LINE + k);
      transpose(square);
#pragma unroll
      for (int i = 0; i < VEC; i++)
        if (k + i < depth) vstore16(square[i], 0, right + (k + i) * NR + half_);
    }
  }
}
#endif

// Where a position's window begins in x, if it is none of padding.
INLINE long origin_of(int p, GEOMETRY) {
  const int o = p % o_w, row = p / o_w, r = row % o_h, slice = row / o_h;
  const int d = slice % o_d * stride_d - pad_d, h = r * stride_h - pad_h, w = o * stride_w - pad_w;
  const long n = slice / o_d;
#if CHANNELS_LAST
  return (((n * x_d + d) * x_h + h) * x_w + w) * groups * channels;
#else
  return ((n * groups * channels * x_d + d) * x_h + h) * x_w + w;
#endif
}

// Lines of NR channels of one tap at `depth` positions from `p` on, behind the first; as many as there is
// room for. The rest repeats the last.
#if CHANNELS_LAST
INLINE int lines_of_x(long *lines, const Place *places, int depth, GEOMETRY) {
  for (int i = 0; i < VECTORS * DEPTH; i++)
    lines[i] = places[min(i % DEPTH, depth - 1)].base - places[0].base + i / DEPTH * VEC;
  return VECTORS * DEPTH;
}
#else
INLINE int lines_of_x(long *lines, const Segment *segments, int found, int p, GEOMETRY) {
  const long plane = (long)x_d * x_h * x_w, first = origin_of(p, GEOMETRY_NAMES);
  int used = 0;
  for (int i = 0; i < found; i++) {
    const long from = origin_of(p + segments[i].to, GEOMETRY_NAMES) - first;
    const int last = (segments[i].count - 1) * stride_w;
    for (int c = 0; c < NR; c++) {
      const int more = min(last / VEC + 1, MOST_LINES - used);
      for (int j = 0; j < more; j++) lines[used + j] = from + c * plane + j * VEC;
      used += more;
    }
  }
  const int all = (used + DEPTH - 1) / DEPTH * DEPTH;
  for (int i = used; i < all; i++) lines[i] = lines[used - 1];
  return all;
}
#endif

// .. and of MR filters of y.
INLINE void lines_of_y(long *lines, long pixel, int size) {
  for (int i = 0; i < DEPTH; i++) lines[i] = CHANNELS_LAST ? i * pixel : (long)(i / 16) * size + i % 16 * VEC;
}

// Global size: (runs of filters, runs of columns, groups * runs of positions); `share` filters, a
// multiple of MR, `strip` columns, a multiple of NR, and `span` positions each. Sums go to
// out[run of positions][group][filter][column].
__kernel ONE_ITEM void igemm_cpu_bwd_weights(__global const float *restrict x,
                                             __global const float *restrict y,
                                             __global float *restrict out, GEOMETRY,
                                             CF_EPILOGUE_PARAMETERS, const int share,
                                             const int strip, const int span) {
  const Epilogue whole = CF_EPILOGUE(out);
  const int group = get_global_id(2) % groups, part = get_global_id(2) / groups;
  const int size = o_d * o_h * o_w, positions = images * size;
  const int first = part * span, end = min(positions, first + span);
  const int m0 = get_global_id(0) * share, m1 = min(filters, m0 + share);
  const int window = f_d * f_h * f_w * channels;
  const int n0 = get_global_id(1) * strip, n1 = min(window, n0 + strip);
  const long x_size = (long)images * groups * channels * x_d * x_h * x_w;
  const long y_size = (long)positions * groups * filters;
  out += ((long)part * groups + group) * filters * window;

  float left[LEFT_FLOATS] __attribute__((aligned(64)));
  float right[DEPTH * NR + VEC] __attribute__((aligned(64)));
  long lines_x[MOST_LINES], lines_y[DEPTH];
  lines_of_y(lines_y, (long)groups * filters, size);
#if CHANNELS_LAST
  const bool is_inside = reaches_no_padding(o_d, x_d, stride_d, f_d, dilation_d, pad_d) &&
                         reaches_no_padding(o_h, x_h, stride_h, f_h, dilation_h, pad_h) &&
                         reaches_no_padding(o_w, x_w, stride_w, f_w, dilation_w, pad_w);
  Place places[DEPTH];
  x += (long)group * channels;
#else
  float lines[VEC * LINE] __attribute__((aligned(64)));
  Segment segments[DEPTH];
  Piece pieces[DEPTH];
  const long image = (long)groups * filters * size;
#endif
  for (int p = first; p < end; p += DEPTH) {
    const int depth = min(DEPTH, end - p);
    const Epilogue epilogue = cf_epilogue_of_pass(whole, p == first, p + DEPTH >= end);
#if CHANNELS_LAST
    places_of(places, p, depth, GEOMETRY_NAMES);
    const int asked = lines_of_x(lines_x, places, depth, GEOMETRY_NAMES);
    pack_left(left, y + (long)group * filters, m0, m1, p, depth, (long)groups * filters,
              y_size - (long)group * filters);
#else
    const int found = split(segments, p, depth, o_d, o_h, o_w);
    const int asked = lines_of_x(lines_x, segments, found, p, GEOMETRY_NAMES);
    pack_left(left, y + (long)group * filters * size, m0, m1, p, depth, size, image,
              y_size - (long)group * filters * size);
#endif
    const long next_p = p + DEPTH;
    const long next_y = CHANNELS_LAST
                            ? (next_p * groups + group) * filters
                            : (next_p / size * groups + group) * filters * size + next_p % size;
    const int n_y = n0 + ((n1 - n0 - 1) / NR - 1) * NR;  // while these columns are summed, y is asked for
    for (int n = n0; n < n1; n += NR) {
      const int columns = min(NR, n1 - n);
#if CHANNELS_LAST
      gather_right(right, x, places, is_inside, n, columns, depth, x_size - (long)group * channels,
                   GEOMETRY_NAMES);
#else
      gather_right(right, lines, x, segments, found, pieces, group, n, columns, p, depth, x_size,
                   GEOMETRY_NAMES);
#endif
      const bool is_last = n + NR >= n1;  // then the first columns of the next positions come
      const int tap = (is_last ? n0 : n + NR) / channels, c = (is_last ? n0 : n + NR) % channels;
      const long offset = ((long)tap / f_w / f_h * dilation_d * x_h + tap / f_w % f_h * dilation_h) * x_w +
                          tap % f_w * dilation_w;
      const long next = origin_of(is_last ? p + DEPTH : p, GEOMETRY_NAMES) +
                        (CHANNELS_LAST ? offset * groups * channels + c
                                       : offset + ((long)group * channels + c) * x_d * x_h * x_w);
      const int tiles = (m1 - m0 + MR - 1) / MR, share_of_x = (asked + tiles - 1) / tiles;
      for (int m = m0; m < m1; m += MR) {
        const float *panel = left + (m - m0) / MR * LEFT_PANEL;
        __global float *to = out + (long)m * window + n;
        Soon soon = {x + next, lines_x + min((m - m0) / MR * share_of_x, asked - share_of_x), share_of_x};
        if (n == max(n0, n_y))
          soon = (Soon){y + next_y + m * (CHANNELS_LAST ? 1L : size), lines_y, DEPTH};
        if (VECTORS > 1 && columns > VEC)
          tile_of_height(VECTORS, depth, panel, right, to, window, m1 - m, columns, epilogue, soon);
        else
          tile_of_height(1, depth, panel, right, to, window, m1 - m, columns, epilogue, soon);
      }
    }
  }
}
