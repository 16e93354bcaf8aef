// First layers by Winograd's algorithm, channels last, on CPUs: the gradient of the weights, over phases or in blocks.
//
// A work-item takes rows of tiles. It collects TILES tiles of x, transforms those of y that they meet for 2 vectors of
// filters, and adds their products to the sums of each of the 36 frequencies, of which ROWS numbers of the image times
// VECTORS_AT_ONCE vectors of filters are in registers; meanwhile the next tiles of y come from memory. What it has of w
// in the end is a part, which another launch adds up.
#define IS_WEIGHTS 1
#include "cpu_first_phases.h"
#include "cpu_lanes.h"

#ifndef ROWS
#define ROWS 12            // numbers of a virtual pixel at a time: 1 and up
#endif
#ifndef VECTORS_AT_ONCE
#define VECTORS_AT_ONCE 2  // of filters in registers: 1 or 2
#endif

#define AHEAD 2  // tiles by which y comes early from the level-2 cache
#define PASSES ((DEPTH + ROWS - 1) / ROWS)  // the last one may count what is no number, for nobody
#define FACTOR_FLOATS (TILES * BLOCK)       // floats of a frequency of y
#define SUMS (PASSES * ROWS * BLOCK)        // floats of a frequency of the sums
#define NUMBERS (TAPS * CHANNELS)

// A tile of y for a vector of filters; `rows`, `columns` and `count`: how many there are.
INLINE void factor_of(__global const float *y, __global float *to, int rows, int columns, int y_w, int filters,
                      int count) {
  float16 g[FACTOR_SIDE][FACTOR_SIDE];
  const bool whole = rows >= FACTOR_SIDE && columns >= FACTOR_SIDE && count >= VEC;
  if (whole) {
#pragma unroll
    for (int b = 0; b < FACTOR_SIDE; b++)
#pragma unroll
      for (int a = 0; a < FACTOR_SIDE; a++) g[b][a] = vload16(0, y + ((long)a * y_w + b) * filters);
    transform_factor(g, to, FACTOR_FLOATS);
    return;
  }
#pragma unroll
  for (int b = 0; b < FACTOR_SIDE; b++)
#pragma unroll
    for (int a = 0; a < FACTOR_SIDE; a++)
      g[b][a] = a < rows && b < columns ? load_part(y + ((long)a * y_w + b) * filters, count) : (float16)(0.0f);
  transform_factor(g, to, FACTOR_FLOATS);
}

// Where a tile of y begins; `line`: its row among those of all images.
INLINE long first_pixel(int line, int column, int y_h, int y_w) {
  const int height = (y_h + OUTPUTS - 1) / OUTPUTS;
  return ((long)(line / height) * y_h + line % height * OUTPUTS) * y_w + column * OUTPUTS;
}

// Pixels of a tile for the `vectors` of a block, which soon are transformed.
INLINE void fetch_tile(__global const float *y, int y_w, int filters, int vectors) {
#pragma unroll
  for (int a = 0; a < FACTOR_SIDE; a++)
#pragma unroll
    for (int b = 0; b < FACTOR_SIDE; b++) {
      PREFETCH(y + ((long)a * y_w + b) * filters);
      if (vectors > 1) PREFETCH(y + ((long)a * y_w + b) * filters + VEC);
    }
}

// Of a tile for all filters the share of a block: in the order of memory, to the level-2 cache, while products run.
INLINE void fetch_share(__global const float *y, int y_w, int filters, int block, int vectors) {
#pragma unroll
  for (int a = 0; a < FACTOR_SIDE; a++) {
    __global const float *from = y + ((long)a * y_w * filters + block * FACTOR_SIDE * BLOCK);
    fetch_lines(from, FACTOR_SIDE);
    if (vectors > 1) fetch_lines(from + FACTOR_SIDE * VEC, FACTOR_SIDE);
  }
}

// Products of `tiles` tiles, for numbers `from` to `from` + ROWS of the image and the `vectors` of a block of filters.
// Tiles of a row are neighbours: `run` of the first row, `width` of others.
INLINE void add_tiles(const int vectors, __global float *restrict sums, __global const float *restrict value,
                      __global const float *restrict factor, const int from, int tiles, int run, int width) {
  float16 sum[ROWS][2];
#pragma unroll
  for (int i = 0; i < ROWS * 2; i++)
    if (i % 2 < vectors) sum[i / 2][i % 2] = vload16(i, sums);
  for (; tiles > 0; tiles -= run, run = min(tiles, width), value += HALO)
    for (int t = 0; t < run; t++, value += STEP, factor += BLOCK) {
      const float16 low = vload16(0, factor), high = vectors > 1 ? vload16(1, factor) : low;
#pragma unroll
      for (int d = 0; d < ROWS; d++) {
        const float16 one = value[PLACE(from + d)];
        sum[d][0] = fma(one, low, sum[d][0]);
        if (vectors > 1) sum[d][1] = fma(one, high, sum[d][1]);
      }
    }
#pragma unroll
  for (int i = 0; i < ROWS * 2; i++)
    if (i % 2 < vectors) vstore16(sum[i / 2][i % 2], i, sums);
}

// Taps of a vector of filters from their sums: number of a filter, filter.
INLINE void write_taps(__global const float *restrict sums, __global float *restrict part, int filters) {
  for (int d = 0; d < DEPTH; d++) {
    const int above = d / LINE, left = d % LINE / CHANNELS, c = d % CHANNELS;
    float16 half_done[POINTS][SIDE];
    transform_columns(half_done, sums + d * BLOCK, SUMS);
#pragma unroll
    for (int a = 0; a < POINTS; a++) {
      const int i = a * STRIDE_H + above * APART;
      float16 taps[POINTS];
      result_points(taps, half_done[a]);
#pragma unroll
      for (int b = 0; b < POINTS; b++) {
        const int j = b * STRIDE_W + left * APART;
        if (i >= FILTER_H || j >= FILTER_W) continue;
        vstore16(taps[b], 0, part + (long)((i * FILTER_W + j) * CHANNELS + c) * filters);
      }
    }
  }
}

// Global size: (parts); each takes `share` rows of tiles, of all images. A part has a number of filters that is a
// multiple of BLOCK.
__kernel ONE_ITEM void direct_cpu_first_phases_weights(__global const float *restrict x,
                                                       __global const float *restrict y,
                                                       __global float *restrict parts, __global float *restrict work,
                                                       const int images, const int filters, const int x_h,
                                                       const int x_w, const int y_h, const int y_w, const int pad_h,
                                                       const int pad_w, const int share, const int pitch) {
  const int height = (y_h + OUTPUTS - 1) / OUTPUTS, width = (y_w + OUTPUTS - 1) / OUTPUTS;
  const int blocks = (filters + BLOCK - 1) / BLOCK, lines_floats = SIDE * PIECES_H * pitch;
  const long sums_floats = (long)blocks * SIDE * SIDE * SUMS;
  const long floats = lines_floats + SIDE * SIDE * (SPECTRUM + FACTOR_FLOATS) + sums_floats;
  __global float *lines = work + get_global_id(0) * floats;
  __global float *spectra = lines + lines_floats, *factors = spectra + SIDE * SIDE * SPECTRUM;
  __global float *sums = factors + SIDE * SIDE * FACTOR_FLOATS;
  for (int i = 0; i < lines_floats; i += VEC) vstore16((float16)(0.0f), 0, lines + i);
  for (long i = 0; i < sums_floats; i += VEC) vstore16((float16)(0.0f), 0, sums + i);
  const int first = get_global_id(0) * share, last = min(first + share, images * height);
  const int tiles = (last - first) * width;
  __global float *to = spectra;
  int collected = 0;
  for (int row = first; row < last; row++) {
    transform_lines(x + (long)(row / height) * x_h * x_w * CHANNELS, lines,
                    row % height * OUTPUTS * STRIDE_H - pad_h, x_h, x_w, pad_w, pitch);
    for (int next = 0, run; next < width; next += run) {
      run = min(TILES - collected, width - next);
      transform_run(lines + next * OUTPUTS * STRIDE_W * CHANNELS, to, run, pitch);
      to += run * STEP + HALO;
      collected += run;
      const int end = (row - first) * width + next + run;
      if (collected < TILES && end < tiles) continue;
      const int begin = end - collected, run0 = HALO ? min(collected, width - begin % width) : collected;
      for (int block = 0; block < blocks; block++) {
        __global const float *of_block = y + block * BLOCK;
        const int vectors = min(2, (filters - block * BLOCK + VEC - 1) / VEC);
        for (int t = 0; t < collected; t++) {
          const int tile = begin + t, soon = min(tile + AHEAD, tiles - 1);
          const int line = first + tile / width, column = tile % width;
          __global const float *from = of_block + first_pixel(line, column, y_h, y_w) * filters;
          fetch_tile(of_block + first_pixel(first + soon / width, soon % width, y_h, y_w) * filters, y_w, filters,
                     vectors);
          for (int v = 0; v < vectors * VEC; v += VEC)
            factor_of(from + v, factors + t * BLOCK + v, y_h - line % height * OUTPUTS, y_w - column * OUTPUTS, y_w,
                      filters, filters - block * BLOCK - v);
        }
        for (int f = 0; f < SIDE * SIDE; f++) {
          if (f < TILES) {
            const int later = min(end + f, tiles - 1);
            fetch_share(y + first_pixel(first + later / width, later % width, y_h, y_w) * filters, y_w, filters, block,
                        vectors);
          }
#if IN_BLOCKS
#pragma unroll  // places are constants
#endif
          for (int pass = 0; pass < PASSES; pass++) {
            __global float *of_pass = sums + ((long)block * SIDE * SIDE + f) * SUMS + pass * ROWS * BLOCK;
            __global const float *value = spectra + f * SPECTRUM, *factor = factors + f * FACTOR_FLOATS;
            if (vectors > 1 && VECTORS_AT_ONCE > 1)
              add_tiles(2, of_pass, value, factor, pass * ROWS, collected, run0, width);
            else
              for (int v = 0; v < vectors * VEC; v += VEC)
                add_tiles(1, of_pass + v, value, factor + v, pass * ROWS, collected, run0, width);
          }
        }
      }
      collected = 0;
      to = spectra;
    }
  }
  parts += (long)get_global_id(0) * NUMBERS * blocks * BLOCK;
  for (int k = 0; k < filters; k += VEC)
    write_taps(sums + (long)(k / BLOCK) * SIDE * SIDE * SUMS + k % BLOCK, parts + k, blocks * BLOCK);
}

// Adds up the parts. Global size: (vectors of filters, vectors of a filter's numbers).
__kernel ONE_ITEM void direct_cpu_first_phases_sum(__global const float *restrict parts, __global float *restrict w,
                                                   CF_EPILOGUE_PARAMETERS, const int filters,
                                                   const int count) {
  const Epilogue epilogue = CF_EPILOGUE(w);
  const int first = get_global_id(0) * VEC, number = get_global_id(1) * VEC;
  const int whole = (filters + BLOCK - 1) / BLOCK * BLOCK;
  parts += (long)number * whole + first;
  float16 sum[VEC];
#pragma unroll
  for (int n = 0; n < VEC; n++) {
    sum[n] = 0.0f;
    if (number + n >= NUMBERS) continue;
    for (int i = 0; i < count; i++) sum[n] += vload16(0, parts + ((long)i * NUMBERS + n) * whole);
  }
  transpose(sum);
#pragma unroll
  for (int k = 0; k < VEC; k++)
    if (first + k < filters)
      store_part(sum[k], w + (long)(first + k) * NUMBERS + number, NUMBERS - number, NO_BIAS, epilogue);
}
