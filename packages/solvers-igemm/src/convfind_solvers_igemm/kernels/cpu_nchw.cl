// Implicit GEMM for CPU devices, channels first: y (filters x positions) = w * columns of x.
//
// One work-item computes a run of filters by a run of positions (all images in one row) of one
// group. For NR positions at a time it gathers a block of their columns into private memory, which
// stays near, padding as zeros; a register tile of MR x NR walks the filters. Of a data gradient of
// stride 2 along w, both phases are computed and stored in turns. Weights come in panels of MR
// filters from igemm_cpu_pack. With STRASSEN, positions, channels and filters are halves, whose sums are
// multiplied.
#define CF_PASSES 1
#define JOINED_PHASES 1
#include "cpu_tile.h"

#define CHANNELS_LAST 0
#define WIDTH MR
// All taps of a block of channels fit into DEPTH where they can.
#define BLOCK(channels, taps) \
  ((taps) == 0 ? (channels) : EVENLY(channels, min(channels, max(1, DEPTH / (taps)))))
// Parts of at most `most`, as even as can be.
#define EVENLY(size, most) (((size) + PARTS(size, most) - 1) / PARTS(size, most))
#define PARTS(size, most) (((size) + (most) - 1) / (most))
#include "cpu_pack.h"
#include "cpu_pieces.h"

// Results that lie side by side in y: `count` of a row of the tile, `from` floats into it.
typedef struct {
  int from, count;
  long to;
} Run;

// `columns` positions from `p` on, images of `size` follow each other `image` floats apart.
INLINE int runs_of_images(Run *runs, int p, int columns, int size, long image) {
  int used = 0, at = p % size;
  long to = p / size * image;
  for (int i = 0; i < columns; used++) {
    const int count = min(columns - i, size - at);
    runs[used] = (Run){i, count, to + at};
    i += count;
    at = 0;
    to += image;
  }
  return used;
}

// Positions of a phase, or, in turns, of both: then runs of y.
INLINE int runs_of_phases(Run *runs, const Segment *segments, int found, const Phase *phase, int joined,
                          long image, int o_h, int o_w, int step_d, int step_h, int step_w) {
  int used = 0;
  for (int i = 0; i < found; i++) {
    const Segment s = segments[i];
    const long line = (phase->d.first + (long)s.d * step_d) * o_h + phase->h.first + s.h * step_h;
    const long to = s.n * image + line * o_w + phase->w.first + s.w * step_w;
    if (joined == step_w)
      runs[used++] = (Run){joined * s.to, min(joined * s.count, o_w - joined * s.w), to};
    else
      for (int j = 0; j < s.count; j++) runs[used++] = (Run){s.to + j, 1, to + j * step_w};
  }
  return used;
}

#define PANEL_FLOATS ((DEPTH + 1) * NR)
// Row m of a quarter of y.
#define QUARTER_OF_Y(q) (y + (q) / 2 * part + ((long)(q) % 2 * filters + m) * size)

// What is read soon: a line of each of some channels.
typedef struct {
  __global const float *line;
  long step;
} Next;

// To `part`; with STRASSEN it is added to that, and `sign` times to `other`.
INLINE void tile(const int rows_, const int vectors, int depth, __global const float *left_panel,
                 const float *panel, float *part, float *other, float sign, Next next) {
  float16 sum[MR][VECTORS];
#pragma unroll
  for (int i = 0; i < rows_; i++)
#pragma unroll
    for (int j = 0; j < vectors; j++) sum[i][j] = 0.0f;
  for (int k = 0; k < depth; k++) {
    float16 right[VECTORS];
#pragma unroll
    for (int j = 0; j < vectors; j++) right[j] = vload16(k * VECTORS + j, panel);
    PREFETCH(left_panel + (k + 64) * MR);
    PREFETCH(next.line + k * next.step);
#pragma unroll
    for (int i = 0; i < rows_; i++) {
      const float16 left = left_panel[k * MR + i];
#pragma unroll
      for (int j = 0; j < vectors; j++) sum[i][j] = fma(left, right[j], sum[i][j]);
    }
  }
#pragma unroll
  for (int i = 0; i < rows_; i++)
#pragma unroll
    for (int j = 0; j < vectors; j++) {
      const int at = i * VECTORS + j;
#if STRASSEN
      vstore16(vload16(at, part) + sum[i][j], at, part);
      if (sign != 0.0f) vstore16(fma((float16)(sign), sum[i][j], vload16(at, other)), at, other);
#else
      vstore16(sum[i][j], at, part);
#endif
    }
}

INLINE void tile_of_width(const int vectors, int rows, int depth, __global const float *left_panel,
                          const float *panel, float *part, float *other, float sign, Next next) {
  if (MR > 8 && rows > 8)
    tile(MR, vectors, depth, left_panel, panel, part, other, sign, next);
  else if (MR > 4 && rows > 4)
    tile(MR < 8 ? MR : 8, vectors, depth, left_panel, panel, part, other, sign, next);
  else
    tile(4, vectors, depth, left_panel, panel, part, other, sign, next);
}

// A call of its own: what the kernel keeps in registers would push sums out of them.
NOINLINE void multiply(int columns, int rows, int depth, __global const float *left_panel,
                       const float *panel, float *part, float *other, float sign, Next next) {
  if (VECTORS > 1 && columns > VEC)
    tile_of_width(VECTORS, rows, depth, left_panel, panel, part, other, sign, next);
  else
    tile_of_width(1, rows, depth, left_panel, panel, part, other, sign, next);
}

// The last `count` floats of a vector; those in front of them are stored already.
INLINE void store_last(float16 sum, __global float *y, int count, float16 bias, const Epilogue epilogue) {
  if (CF_READS_RESULT(epilogue)) {
    const int16 lane = (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const float16 old = vload16(0, y), value = fma((float16)(epilogue.beta), old, BIASED(sum, bias, epilogue));
    vstore16(select(old, finished(value, y, VEC, epilogue), lane >= VEC - count), 0, y);
    return;
  }
  vstore16(result_of(sum, y, bias, epilogue), 0, y);
}

// Positions have one tap, and lie as the places of x do.
INLINE bool is_same(const Axis *axis, int out, int size, int step) {
  return axis->taps == 1 && axis->pad == 0 && out == size && step == 1;
}

// One row of results that nothing reaches.
INLINE void store_empty_row(__global float *y, const Run *runs, int used, int channel, Epilogue epilogue) {
  epilogue = cf_epilogue_of_scaled(epilogue);
  const float16 zeros = 0.0f, bias = bias_of(epilogue, channel);
  for (int r = 0; r < used; r++) {
    __global float *to = y + runs[r].to;
    const int count = runs[r].count;
    if (count == 1) {
      CF_STORE_RESULT(FLOAT32, to, channel, 0.0f, epilogue);
      continue;
    }
    int j = 0;
    for (; j + VEC <= count; j += VEC) store_part(zeros, to + j, VEC, bias, epilogue);
    if (j < count) store_part(zeros, to + j, count - j, bias, epilogue);
  }
}

INLINE void prefetch_run(__global const float *y, int count) {
  for (int i = 0; i < count; i += VEC) PREFETCH(y + i);
  PREFETCH(y + count - 1);
}

// Rows of results, `size` floats apart in y; `joined` tiles in turns.
INLINE void store_rows(const float *part, int rows, int joined, const Run *runs, int used,
                       __global float *y, long size, const Epilogue epilogue) {
  if (joined == 1 && runs[0].count == NR) {
    for (int i = 0; i < rows; i++)
#pragma unroll
      for (int j = 0; j < VECTORS; j++)
        store_part(vload16(i * VECTORS + j, part), y + runs[0].to + i * size + j * VEC, VEC, bias_of(epilogue, i),
                   epilogue);
    return;
  }
  float turns[2 * NR + VEC] __attribute__((aligned(64)));
  for (int i = 0; i < rows; i++, part += NR, y += size) {
    const float *row = part;
    const float16 bias = bias_of(epilogue, i);
    if (joined == 2) {
#pragma unroll
      for (int j = 0; j < VECTORS; j++) {
        const float16 a = vload16(j, part), b = vload16(j, part + MR * NR);
        vstore16(zip_low(a, b), 2 * j, turns);
        vstore16(zip_high(a, b), 2 * j + 1, turns);
      }
      row = turns;
    }
    for (int r = 0; r < used; r++) {
      const Run run = runs[r];
      const float *from = row + run.from;
      __global float *to = y + run.to;
      if (run.count == 1) {
        CF_STORE_RESULT(FLOAT32, to, i, from[0], epilogue);
        continue;
      }
      int j = 0;
      for (; j + VEC <= run.count; j += VEC) store_part(vload16(0, from + j), to + j, VEC, bias, epilogue);
      if (j < run.count) {
        if (j)
          store_last(vload16(0, from + run.count - VEC), to + run.count - VEC, run.count - j, bias, epilogue);
        else
          store_part(vload16(0, from), to, run.count, bias, epilogue);
      }
    }
  }
}

// Global size: (runs of positions, runs of filters, groups * phases / joined phases); `strip`
// positions, a multiple of NR, and `share` filters, a multiple of MR, each.
__kernel ONE_ITEM void igemm_cpu_nchw(__global const float *restrict x,
                                      __global const float *restrict packed,
                                      __global float *restrict y, GEOMETRY,
                                      CF_EPILOGUE_PARAMETERS, const int strip, const int share) {
  const Epilogue whole = CF_EPILOGUE(y);
  const int joined = joined_phases(GEOMETRY_NAMES), phases = phases_of(GEOMETRY_NAMES) / joined;
  const int group = get_global_id(2) / phases, index = get_global_id(2) % phases * joined;
  const Phase phase = phase_of(index, GEOMETRY_NAMES);
  const Phase other = phase_of(index + joined - 1, GEOMETRY_NAMES);
  const int out_d = phase.d.out, out_h = phase.h.out, out_w = phase.w.out;
  const int positions = images * out_d * out_h * out_w;
  const int part = o_d * o_h * o_w, size = HALVES * part;  // of an image of y
  const int first = get_global_id(0) * strip, end = min(positions, first + strip);
  const int m0 = get_global_id(1) * share, m1 = min(filters, m0 + share);
  const int all = f_d * f_h * f_w, block = BLOCK(channels, phase.joined_taps);
  const int most = max(phase.taps, other.taps), step = SOURCE_STEP(stride_w);
  const bool is_stepped =
      RESULT_STEP(stride_d) > 1 || RESULT_STEP(stride_h) > 1 || RESULT_STEP(stride_w) > 1;
  const int x_channels = HALVES * groups * channels;
  const long plane = (long)x_d * x_h * x_w, image = (long)HALVES * groups * filters * size;
  const int row = (int)(plane / HALVES);  // of x, where all of its places are one
  Quarters quarters = {PANEL_FLOATS, channels * plane, 0, true};
  if (STRASSEN)  // halves along the first axis that is one
    quarters.below = x_d > 1   ? (long)o_d * SOURCE_STEP(stride_d) * x_h * x_w
                     : x_h > 1 ? (long)o_h * SOURCE_STEP(stride_h) * x_w
                               : (long)o_w * step;
  const long x_size = images * x_channels * plane;
  const long in_first = x_size - (STRASSEN ? quarters.right + quarters.below : 0);
  const int panels = (filters + MR - 1) / MR;
  packed += (long)group * PRODUCTS * panels * all * channels * MR;
  y += (long)HALVES * group * filters * size;

  float panel[PRODUCTS * PANEL_FLOATS] __attribute__((aligned(64)));
  float parts[QUARTERS * 2 * MR * NR + VEC] __attribute__((aligned(64)));
  Segment segments[NR];
  Piece pieces[NR];
  Run runs[NR];
  for (int c0 = 0; c0 < channels; c0 += block)
    for (int t0 = 0; t0 == 0 || t0 < most; t0 += DEPTH) {  // once where nothing reaches the phase
      const int count = min(block, channels - c0), channel = HALVES * group * channels + c0;
      const Epilogue epilogue =
          cf_epilogue_of_pass(whole, c0 + t0 == 0, c0 + block >= channels && t0 + DEPTH >= most);
      for (int p = first; p < end; p += NR) {
        const int columns = min(NR, end - p);
        const int found = split(segments, p, columns, out_d, out_h, out_w);
        float *to_panel = panel;
        for (int i = 0; i < joined; i++) {
          const Phase *at = i ? &other : &phase;
          const bool is_flat = is_same(&at->d, out_d, x_d, SOURCE_STEP(stride_d)) &&
                    is_same(&at->h, out_h, x_h, SOURCE_STEP(stride_h)) &&
                    is_same(&at->w, out_w * HALVES, x_w, step);
          if (is_flat) {  // an image is one row
            Segment rows[NR];
            const int in_images = split(rows, p, columns, 1, 1, row);
            const int used = pieces_of(pieces, rows, in_images, 0, 0, 0, count, channel, x_channels,
                                       in_first, 1, 1, (int)plane, 1, 1, 1);
            quarters.is_ahead = false;
            gather(to_panel, NR, x, pieces, used, count, plane, 1, &quarters);
            to_panel += count * NR;
            continue;
          }
          for (int tap = t0; tap < min(at->taps, t0 + DEPTH); tap++) {
            const int v = tap % at->w.taps, row = tap / at->w.taps;
            const int u = row % at->h.taps, t = row / at->h.taps;
            const int used = pieces_of(
                pieces, segments, found, t * at->d.dilation - at->d.pad, u * at->h.dilation - at->h.pad,
                v * at->w.dilation - at->w.pad, count, channel, x_channels, in_first, x_d, x_h, x_w,
                SOURCE_STEP(stride_d), SOURCE_STEP(stride_h), step);
            gather(to_panel, NR, x, pieces, used, count, plane, step, &quarters);
            to_panel += count * NR;
          }
        }
        const int used = is_stepped ? runs_of_phases(runs, segments, found, &phase, joined, image, o_h, o_w,
                                                     RESULT_STEP(stride_d), RESULT_STEP(stride_h),
                                                     RESULT_STEP(stride_w))
                                    : runs_of_images(runs, p, columns, part, image);
        for (int m = m0; m < m1; m += most ? MR : 1) {
          const int rows = min(MR, m1 - m);
          for (int i = 0; STRASSEN && i < QUARTERS * joined * MR * NR; i += VEC)
            vstore16((float16)(0.0f), 0, parts + i);
          for (int q = 0; q < (most ? PRODUCTS : 0); q++) {
            const Product product = products[q];
            if (q < QUARTERS)
              for (int r = 0; r < used; r++)
                for (int i = 0; i < rows; i++)
                  prefetch_run(QUARTER_OF_Y(q) + (long)i * size + runs[r].to, runs[r].count);
            // The lines of the next tile's panel, one at a time.
            const int soon = p + NR + (m - m0) / MR * VEC;
            Next next = {packed, 0};
            if (!quarters.is_ahead && q < QUARTERS && soon <= p + 2 * NR && soon < end)
              next = (Next){x + q / 2 * quarters.below + q % 2 * quarters.right +
                                (soon / row * (long)x_channels + channel) * plane + soon % row,
                            plane};
            const float *right = panel + q * PANEL_FLOATS;
            for (int i = 0; i < joined; i++) {
              const Phase *at = i ? &other : &phase;
              const int depth = clamp(at->taps - t0, 0, DEPTH) * count;
              const long place = (long)(m / MR * PRODUCTS + q) * all * channels + at->before * channels +
                                 (long)c0 * at->taps + (long)t0 * count;
              multiply(columns, rows, depth, packed + place * MR, right,
                       parts + (product.y_0 * joined + i) * MR * NR,
                       parts + (product.y_1 * joined + i) * MR * NR, product.y_sign, next);
              right += depth * NR;
            }
          }
          for (int q = 0; q < QUARTERS; q++) {
            const Epilogue own = CF_EPILOGUE_FROM(epilogue, (HALVES * group + q % 2) * filters + m);
            if (most)
              store_rows(parts + q * joined * MR * NR, rows, joined, runs, used, QUARTER_OF_Y(q), size, own);
            else
              store_empty_row(QUARTER_OF_Y(q), runs, used, 0, own);
          }
        }
      }
    }
}
