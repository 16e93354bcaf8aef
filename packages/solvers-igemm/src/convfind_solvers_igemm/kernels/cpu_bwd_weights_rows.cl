// Implicit GEMM for CPU devices, the gradient of the weights along rows: dw (filters x window) = y *
// windows of x, summed over the positions of y.
//
// One work-item computes a run of filters by a run of channels of one group over a run of rows of y.
// For up to DEPTH positions at a time it packs the filters of y into panels of MR; for NR channels
// at a time it copies what these positions read of x into strips, each line of x once; a register tile
// of MR x NR walks the filters for each tap. Sums are kept as tiles in workspace,
// [part][group][block of channels][tap][filter][NR]. Where the positions are not split the work-item
// turns them into dw; else igemm_cpu_sum_tiles adds up the parts in a fixed order.
#ifndef STRIP_FLOATS
#define STRIP_FLOATS 65536  // room for the strips of a block
#endif
#ifndef MOST_LINES
#define MOST_LINES 1024     // of the windows of a block of rows
#endif

#define CHANNELS_LAST 0
#define JOINED 0
#define PITCH NR
#include "cpu_strip.h"
#include "cpu_filters.h"

#define LOOK_BACK 64  // lines among which one that was copied is looked for

// A line of x in the strips; padding: `n` is below 0.
typedef struct {
  int n, d, h;
} Line;

// Which line of the strips it is: what rows have in common, and all padding, is there once.
INLINE int find_line(Line *lines, int *used, Line wanted) {
  for (int i = *used - 1; i >= max(0, *used - LOOK_BACK); i--)
    if (lines[i].n == wanted.n && lines[i].d == wanted.d && lines[i].h == wanted.h) return i;
  lines[*used] = wanted;
  return (*used)++;
}

// `at` says where in the strips the windows of each of `lines` lines of `length` positions begin.
INLINE void tile(const int rows_, const int vectors, int lines, int length, const int *at,
                 const float *left, const float *windows, __global float *sums, bool is_first) {
  float16 sum[MR][VECTORS];
#pragma unroll
  for (int i = 0; i < rows_; i++) {
    PREFETCH(sums + i * NR);
#pragma unroll
    for (int j = 0; j < vectors; j++) sum[i][j] = 0.0f;
  }
  for (int line = 0; line < lines; line++) {
    const float *right = windows + at[line];
    for (int k = 0; k < length; k++, left++) {
      float16 b[VECTORS];
#pragma unroll
      for (int j = 0; j < vectors; j++) b[j] = vload16(k * VECTORS + j, right);
#pragma unroll
      for (int i = 0; i < rows_; i++) {
        const float16 a = left[i * LEFT_ROW];
#pragma unroll
        for (int j = 0; j < vectors; j++) sum[i][j] = fma(a, b[j], sum[i][j]);
      }
    }
  }
#pragma unroll
  for (int i = 0; i < rows_; i++)
#pragma unroll
    for (int j = 0; j < vectors; j++) {
      if (!is_first) sum[i][j] += vload16(i * VECTORS + j, sums);
      vstore16(sum[i][j], i * VECTORS + j, sums);
    }
}

INLINE void tile_of_height(const int vectors, int rows, int lines, int length, const int *at,
                           const float *left, const float *windows, __global float *sums,
                           bool is_first) {
  if (MR > 8 && rows > 8)
    tile(MR, vectors, lines, length, at, left, windows, sums, is_first);
  else if (MR > 4 && rows > 4)
    tile(MR < 8 ? MR : 8, vectors, lines, length, at, left, windows, sums, is_first);
  else
    tile(4, vectors, lines, length, at, left, windows, sums, is_first);
}

// Floats of a tap's sums in NR channels.
INLINE long floats_of_tap(int filters) { return (long)(filters + MR - 1) / MR * MR * NR; }

// A call: sixteen copies of what stores less than a vector would take compilers longer than all else here.
__attribute__((noinline)) void store_few(float16 sum, __global float *y, int count, const Epilogue epilogue) {
  store_part(sum, y, count, NO_BIAS, epilogue);
}

// `used` channels from `c` on of a filter's weights: alpha * (parts added up, in order) + beta * w. Weights
// behind them, in front of channel `free`, are still to be written.
INLINE void finish(__global const float *sums, int parts, long part, long tap_floats, __global float *w,
                   int c, int used, int free, int channels, int taps, const Epilogue epilogue) {
  const Epilogue rest = cf_epilogue_of_scaled(epilogue);
  for (int tap = 0; tap < taps; tap += VEC)
    for (int i = 0; i < used; i += VEC) {
      const int count = min(VEC, taps - tap);
      float16 square[VEC];
#pragma unroll
      for (int j = 0; j < VEC; j++) {
        square[j] = 0.0f;
        if (j < count) {
          __global const float *from = sums + (tap + j) * tap_floats + i;
          square[j] = vload16(0, from);
          for (int k = 1; k < parts; k++) square[j] += vload16(0, from + k * part);
          square[j] *= epilogue.alpha;
        }
      }
      if (taps == 1) {
        store_part(square[0], w + c + i, used - i, NO_BIAS, rest);
        continue;
      }
      transpose(square);
#pragma unroll
      for (int j = 0; j < VEC; j++)
        if (i + j < used) {
          const long to = (long)(c + i + j) * taps + tap;
          const bool spills = !CF_READS_RESULT(rest) && taps < VEC && to + VEC <= (long)free * taps;
          if (spills)
            store_part(square[j], w + to, VEC, NO_BIAS, rest);
          else
            store_few(square[j], w + to, count, rest);
        }
    }
}

// Global size: (runs of filters, runs of channels, groups * runs of positions); `share` filters, a
// multiple of MR, `strip` channels, a multiple of NR, and `span` rows each; a row is cut into pieces of
// DEPTH positions, which count as rows.
__kernel ONE_ITEM void igemm_cpu_bwd_weights_rows(__global const float *restrict x,
                                                  __global const float *restrict y,
                                                  __global float *restrict w,
                                                  __global float *restrict sums, GEOMETRY,
                                                  CF_EPILOGUE_PARAMETERS,
                                                  const int share, const int strip, const int span) {
  const Epilogue epilogue = CF_EPILOGUE(w);
  const int length = min(o_w, DEPTH), in_row = (o_w + length - 1) / length;
  const int rows = images * o_d * o_h * in_row, lines = f_d * f_h, taps = lines * f_w;
  const int group = get_global_id(2) % groups, part = get_global_id(2) / groups;
  const int first = part * span, end = min(rows, first + span);
  const int m0 = get_global_id(0) * share, m1 = min(filters, m0 + share);
  const int c0 = get_global_id(1) * strip, c1 = min(channels, c0 + strip);
  const int size = o_d * o_h * o_w;
  const long x_plane = (long)x_d * x_h * x_w;
  const long x_size = (long)images * groups * channels * x_plane;
  const long y_size = (long)images * size * groups * filters, image = (long)groups * filters * size;
  const long tap_floats = floats_of_tap(filters), block_floats = taps * tap_floats;
  sums += ((long)part * groups + group) * ((channels + NR - 1) / NR) * block_floats;
  w += (long)group * filters * channels * taps;

  float left[LEFT_FLOATS] __attribute__((aligned(64)));
  float strips[STRIP_FLOATS] __attribute__((aligned(64)));
  Line found[MOST_LINES];
  int at[MOST_LINES];
  Strip plan_;
  plan(&plan_, lines, f_w, stride_w, dilation_w, channels, length);
  const int most = min(STRIP_FLOATS / plan_.line, MOST_LINES) / lines;
  const int block = in_row > 1 ? 1 : clamp(DEPTH / length, 1, most);
  const bool is_whole = span >= rows, is_single = is_whole && block >= rows;
  for (int row = first; row < end; row += block) {
    const int count = min(block, end - row), o = row % in_row * length;
    const int p = row / in_row * o_w + o, here = min(length, o_w - o), depth = count * here;
    pack_left(left, y + (long)group * filters * size, m0, m1, p, depth, size, image,
              y_size - (long)group * filters * size);
    int used = 0;
    for (int i = 0; i < count; i++) {
      const int line = (row + i) / in_row, r = line % o_h, slice = line / o_h;
      const int d = slice % o_d * stride_d - pad_d, h = r * stride_h - pad_h;
      for (int u = 0; u < lines; u++) {
        const int in_d = d + u / f_h * dilation_d, in_h = h + u % f_h * dilation_h;
        const bool inside = in_d >= 0 && in_d < x_d && in_h >= 0 && in_h < x_h;
        const Line wanted = inside ? (Line){slice / o_d, in_d, in_h} : (Line){-1, 0, 0};
        at[u * count + i] = find_line(found, &used, wanted) * plan_.line;
      }
    }
    for (int c = c0; c < c1; c += NR) {
      const int columns = min(NR, c1 - c), in_w = o * stride_w - pad_w;
      const long channel = (long)group * channels + c;
      // A single block is done when its taps are: all blocks of channels may use the same tiles.
      __global float *tiles = sums + (is_single ? c0 : c) / NR * block_floats;
      for (int i = 0; i < used; i++) {
        const Line line = found[i];
        const long pixel = ((long)line.d * x_h + line.h) * x_w + in_w;
        const long from = ((long)line.n * groups * channels + channel) * x_plane + pixel;
        const int next = i + 1 < used && found[i + 1].n == line.n ? found[i + 1].h - line.h : 0;
        fill_line(strips + i * plan_.line, &plan_, x, from, in_w, line.n >= 0, here, f_w, stride_w, x_w,
                  channels, columns, 1, x_plane, x_size, next * x_w);
      }
      for (int tap = 0; tap < taps; tap++) {
        const int *line = at + tap / f_w * count;
        const float *windows = strips + plan_.offset[tap % f_w];
        for (int m = m0; m < m1; m += MR) {
          const float *panel = left + (m - m0) / MR * LEFT_PANEL;
          __global float *to = tiles + tap * tap_floats + m * NR;
          if (VECTORS > 1 && columns > VEC)
            tile_of_height(VECTORS, m1 - m, count, here, line, panel, windows, to, row == first);
          else
            tile_of_height(1, m1 - m, count, here, line, panel, windows, to, row == first);
          if (is_whole && tap == taps - 1 && row + block >= end)
            for (int i = m; i < min(m + MR, m1); i++)
              finish(tiles + i * NR, 1, 0, tap_floats, w + (long)i * channels * taps, c, columns, c1,
                     channels, taps, epilogue);
        }
      }
    }
  }
}

// Global size: (runs of filters, blocks of channels, groups); `share` filters each.
__kernel ONE_ITEM void igemm_cpu_sum_tiles(__global const float *restrict sums, __global float *restrict w,
                                           const int groups, const int channels, const int filters,
                                           const int taps, const int parts, CF_EPILOGUE_PARAMETERS,
                                           const int share) {
  const Epilogue epilogue = CF_EPILOGUE(w);
  const int c = get_global_id(1) * NR, group = get_global_id(2), columns = min(NR, channels - c);
  const int first = get_global_id(0) * share, end = min(filters, first + share);
  const long tap_floats = floats_of_tap(filters), block_floats = taps * tap_floats;
  const long group_floats = (channels + NR - 1) / NR * block_floats;
  sums += group * group_floats + get_global_id(1) * block_floats;
  w += (long)group * filters * channels * taps;
  for (int m = first; m < end; m++)
    finish(sums + m * NR, parts, groups * group_floats, tap_floats, w + (long)m * channels * taps, c,
           columns, c + columns, channels, taps, epilogue);
}
