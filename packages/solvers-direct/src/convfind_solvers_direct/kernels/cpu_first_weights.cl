// Convolution of few input channels on CPUs: the gradient of the weights.
//
// A work-item takes bands of rows of y. It copies the rows of x that a band takes to private memory, with
// zeros around them; there the taps of a line (of a row of taps, channels last of all channels) are
// neighbours. Sums of TAPS_AT_ONCE of these times VECTORS vectors of filters stay in registers over all pixels of
// a tile of the band; values of x are broadcast. STAGED copies the tile of y, too: into pixels of vectors of filters.
// Channels last what the next band takes comes to the level-2 cache meanwhile, in the order of memory, a line a pixel.
#include "convfind_cpu_vector.h"
#include "window.h"
#include "cpu_lanes.h"  // takes CHANNELS

#ifndef CHANNELS_LAST
#define CHANNELS_LAST 0     // 0: channels first; 1: channels last
#endif
#ifndef STAGED
#define STAGED 1            // 0: vectors of filters are whole in y: channels last, filters a multiple of VECTORS * 16
#endif
#ifndef VECTORS
#define VECTORS 4           // vectors of filters at a time: 1 and up
#endif
#ifndef TAPS_AT_ONCE
#define TAPS_AT_ONCE 7      // 1 and up
#endif
#ifndef STRIP_FLOATS
#define STRIP_FLOATS 16384  // room for the rows of x
#endif
#ifndef TILE_FLOATS
#define TILE_FLOATS 8192    // room for a tile of y: pixels * VECTORS * 16
#endif

#define BLOCK (VECTORS * VEC)
#define LINES (CHANNELS_LAST ? FILTER_H : CHANNELS * FILTER_H)
#define LINE (CHANNELS_LAST ? FILTER_W * CHANNELS : FILTER_W)
#define STEP (CHANNELS_LAST ? STRIDE_W * CHANNELS : STRIDE_W)  // floats from a result's first value to the next one's
#define PASSES ((LINE + TAPS_AT_ONCE - 1) / TAPS_AT_ONCE)      // the last one may count what is no tap, for nobody
#define SUMS (LINES * PASSES * TAPS_AT_ONCE * BLOCK)           // floats of the sums of a block of filters

#if STAGED
#define PIXELS const float
#else
#define PIXELS __global const float
#endif

// Adds a tile of `rows` by `columns` pixels to the sums of some taps; fetches what is `ahead`, `step` floats a pixel.
INLINE void add_tile(__global float *sums, const float *x, PIXELS *y, int rows, int columns, int x_row, long y_row,
                     int y_pixel, __global const float *ahead, int step) {
  float16 sum[TAPS_AT_ONCE][VECTORS];
#pragma unroll
  for (int t = 0; t < TAPS_AT_ONCE; t++)
#pragma unroll
    for (int v = 0; v < VECTORS; v++) sum[t][v] = vload16(t * VECTORS + v, sums);
  for (int row = 0; row < rows; row++) {
    const float *from = x + row * x_row;
    PIXELS *gradient = y + row * y_row;
    for (int p = 0; p < columns; p++, from += STEP, gradient += y_pixel) {
      float16 g[VECTORS];
#if CHANNELS_LAST
      fetch_lines(ahead, 1);
      ahead += step;
#endif
#pragma unroll
      for (int v = 0; v < VECTORS; v++) g[v] = vload16(v, gradient);
#pragma unroll
      for (int t = 0; t < TAPS_AT_ONCE; t++) {
        const float16 value = from[t];
#pragma unroll
        for (int v = 0; v < VECTORS; v++) sum[t][v] = fma(value, g[v], sum[t][v]);
      }
    }
  }
#pragma unroll
  for (int t = 0; t < TAPS_AT_ONCE; t++)
#pragma unroll
    for (int v = 0; v < VECTORS; v++) vstore16(sum[t][v], t * VECTORS + v, sums);
}

#if STAGED
// Copies a tile of y for BLOCK filters from the first on, zeros behind the last of `count`.
INLINE void stage(float *to, __global const float *from, int rows, int columns, int count, long y_row, long y_pixel,
                  long y_filter) {
  for (int row = 0; row < rows; row++, from += y_row) {
#if CHANNELS_LAST
    for (int p = 0; p < columns; p++, to += BLOCK)
#pragma unroll
      for (int v = 0; v < VECTORS; v++)
        vstore16(load_part(from + p * y_pixel + v * VEC, count - v * VEC), v, to);
#else
    for (int p = 0; p < columns; p += VEC) {
      const int pixels = min(VEC, columns - p);
      for (int v = 0; v < VECTORS; v++) {
        float16 line[VEC];
#pragma unroll
        for (int k = 0; k < VEC; k++) {
          line[k] = 0.0f;
          if (v * VEC + k < count) line[k] = load_part(from + (v * VEC + k) * y_filter + p, pixels);
        }
        transpose(line);
#pragma unroll
        for (int k = 0; k < VEC; k++)
          if (k < pixels) vstore16(line[k], v, to + k * BLOCK);
      }
      to += pixels * BLOCK;
    }
#endif
  }
}
#endif

// Global size: (parts); each takes `share` bands, of all images, of `band` rows of y, in tiles of `high` by `wide`
// pixels. A copied row has `pitch` floats, which begin with those of the padding. A part is SUMS for each block.
__kernel ONE_ITEM void direct_cpu_first_weights(__global const float *restrict x, __global const float *restrict y,
                                                __global float *restrict parts, const int images, const int filters,
                                                const int x_h, const int x_w, const int y_h, const int y_w,
                                                const int pad_h, const int pad_w, const int share, const int band,
                                                const int high, const int wide, const int pitch) {
  float rows[STRIP_FLOATS] __attribute__((aligned(64)));
#if STAGED
  float tile[TILE_FLOATS] __attribute__((aligned(64)));
#endif
  const int planes = CHANNELS_LAST ? 1 : CHANNELS, line = CHANNELS_LAST ? x_w * CHANNELS : x_w;
  const int margin = CHANNELS_LAST ? pad_w * CHANNELS : pad_w;
  const int plane = ((band - 1) * STRIDE_H + FILTER_H) * pitch;
  const int y_pixel = CHANNELS_LAST ? filters : 1;
  const long y_row = (long)y_w * y_pixel, y_filter = CHANNELS_LAST ? 1 : (long)y_h * y_w;
  const int bands = (y_h + band - 1) / band, blocks = (filters + BLOCK - 1) / BLOCK;
  const int first = get_global_id(0) * share, last = min(first + share, images * bands);
  parts += (long)get_global_id(0) * blocks * SUMS;
  for (long i = 0; i < (long)blocks * SUMS; i += VEC) vstore16((float16)(0.0f), 0, parts + i);
  for (int i = 0; i < planes * plane; i += VEC) vstore16((float16)(0.0f), 0, rows + i);
  for (int index = first; index < last; index++) {
    const int image = index / bands, top = index % bands * band, bottom = min(top + band, y_h);
    const int above = top * STRIDE_H - pad_h, held = (bottom - top - 1) * STRIDE_H + FILTER_H;
    for (int c = 0; c < planes; c++) {
      for (int row = 0; row < held; row++) {
        float *to = rows + c * plane + row * pitch;
        if (above + row < 0 || above + row >= x_h) {
          for (int i = 0; i < pitch; i += VEC) vstore16((float16)(0.0f), 0, to + i);
          continue;
        }
        __global const float *from = x + (((long)image * planes + c) * x_h + above + row) * line;
        for (int i = 0; i < line; i += VEC) {
          if (i + VEC <= line)
            vstore16(vload16(0, from + i), 0, to + margin + i);
          else
            for (int j = i; j < line; j++) to[margin + j] = from[j];
        }
      }
    }
    __global const float *y_ahead = y + ((long)image * y_h + bottom) * y_w * filters;
    __global const float *x_ahead = x + ((long)image * x_h + min(above + held, x_h)) * line;
    __global const float *x_end = x_ahead + band * STRIDE_H * line;
    for (int k = 0; k < filters; k += BLOCK) {
      __global float *sums = parts + (long)(k / BLOCK) * SUMS;
      for (int row = top; row < bottom; row += high) {
        const int tile_rows = min(high, bottom - row);
        for (int column = 0; column < y_w; column += wide) {
          const int tile_columns = min(wide, y_w - column);
          __global const float *from = y + image * (long)filters * y_h * y_w + row * y_row;
          from += (long)column * y_pixel + k * y_filter;
#if STAGED
          stage(tile, from, tile_rows, tile_columns, filters - k, y_row, y_pixel, y_filter);
          PIXELS *gradient = tile;
          const int y_step = BLOCK;
          const long row_step = (long)tile_columns * BLOCK;
#else
          PIXELS *gradient = from;
          const int y_step = y_pixel;
          const long row_step = y_row;
#endif
          const float *window = rows + (row - top) * STRIDE_H * pitch + column * STEP;
          for (int l = 0; l < LINES; l++)
            for (int pass = 0; pass < PASSES; pass++) {
              __global const float *ahead = x_ahead;
              int step = 0;
#if CHANNELS_LAST
              const int fetched = tile_rows * tile_columns * VEC;
              if (l * PASSES + pass < VECTORS) {
                ahead = y_ahead, step = VEC;
                y_ahead += fetched;
              } else if (x_ahead < x_end) {
                step = VEC;
                x_ahead += fetched;
              }
#endif
              add_tile(sums + (l * PASSES + pass) * TAPS_AT_ONCE * BLOCK,
                       window + l / FILTER_H * plane + l % FILTER_H * pitch + pass * TAPS_AT_ONCE, gradient, tile_rows,
                       tile_columns, STRIDE_H * pitch, row_step, y_step, ahead, step);
            }
        }
      }
    }
  }
}

// Adds up the parts. Global size: (blocks of filters, lines of taps).
__kernel ONE_ITEM void direct_cpu_first_sum(__global const float *restrict parts, __global float *restrict w,
                                            CF_EPILOGUE_PARAMETERS, const int filters, const int count) {
  const Epilogue epilogue = CF_EPILOGUE(w), rest = cf_epilogue_of_scaled(epilogue);
  const int block = get_global_id(0), line = get_global_id(1), blocks = get_global_size(0);
  parts += ((long)block * LINES + line) * PASSES * TAPS_AT_ONCE * BLOCK;
  for (int t = 0; t < LINE; t++) {
    for (int v = 0; v < VECTORS; v++) {
      float16 sum = 0.0f;
      for (int i = 0; i < count; i++) sum += vload16(t * VECTORS + v, parts + (long)i * blocks * SUMS);
      float lanes[VEC];
      vstore16(epilogue.alpha * sum, 0, lanes);
      const int k = block * BLOCK + v * VEC;
      for (int lane = 0; lane < min(VEC, filters - k); lane++) {
        __global float *to = w + ((long)(k + lane) * LINES + line) * LINE + t;
        CF_STORE_RESULT(FLOAT32, to, 0, lanes[lane], rest);
      }
    }
  }
}
