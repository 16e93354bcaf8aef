// Weight gradient with few channels a group on CPUs, channels first, and the sum of its parts.
//
// A work-item sums over a part of all rows of y, and leaves its sums as a part of the result. Lanes are
// neighbouring columns, and the rows that x is read from are copied first, with zeros around them.
#include "convfind_cpu_vector.h"
#include "window.h"

#ifndef CHUNK
#define CHUNK FILTER_H      // filter rows whose sums are in registers: 1..FILTER_H
#endif
#ifndef FILTERS_AT_ONCE
#define FILTERS_AT_ONCE 1   // divides FILTERS
#endif
#ifndef STRIP_FLOATS
#define STRIP_FLOATS 16384  // room for copied rows
#endif

#define TOTAL(k, i, f) (((k) * FILTER_H + (i)) * FILTER_W + (f))  // of a filter and a tap
#define TOTALS ((FILTERS * TAPS + VEC - 1) / VEC * VEC)
#define TAP_AT(f, part) ((f) * DILATION_W % STRIDE_W * (part) + (f) * DILATION_W / STRIDE_W)
#include "cpu_rows.h"

#define LANES (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)

// Adds what `count` columns of a row of y are in the sums, lanes of zeros behind them; `whole`: the rows of x exist.
INLINE void add_vector(float16 sum[FILTERS_AT_ONCE][CHUNK][FILTER_W], const bool whole, __global const float *gradient,
                       const float *line, long plane, int from, int row0, int row1, int i0, int pitch, int part,
                       int count) {
  float16 value[FILTERS_AT_ONCE];
#pragma unroll
  for (int j = 0; j < FILTERS_AT_ONCE; j++) value[j] = load_part(gradient + j * plane, count);
#pragma unroll
  for (int i = 0; i < CHUNK; i++) {
    const int at = from + i * DILATION_H;
    if (!whole && (at < row0 || at >= row1 || i0 + i >= FILTER_H)) continue;
#pragma unroll
    for (int f = 0; f < FILTER_W; f++) {
      const float16 tap = vload16(0, line + i * DILATION_H * pitch + TAP_AT(f, part));
#pragma unroll
      for (int j = 0; j < FILTERS_AT_ONCE; j++) sum[j][i][f] = fma(tap, value[j], sum[j][i][f]);
    }
  }
}

// Adds rows `top` to `bottom` of y to the totals: all whole vectors of columns, or the `last` vector, of columns that
// are left over. That has lanes of columns that were added before, or do not exist. They are left out of its sums at
// the end: zeros for their gradients would not do, times what x has there, which may be infinite.
INLINE void add_rows(float16 *total, const bool last, __global const float *gradient, const float *rows, long plane,
                     int k, int i0, int top, int bottom, int row0, int row1, int pad_h, int pitch, int part, int y_w) {
  const int column0 = last ? max(y_w - VEC, 0) : 0, column1 = last ? column0 + 1 : y_w - VEC + 1;
  const int count = last ? y_w : VEC;
  const int16 lanes = LANES + column0 >= (int16)(y_w - y_w % VEC) && LANES < (int16)(y_w);
  float16 sum[FILTERS_AT_ONCE][CHUNK][FILTER_W];
#pragma unroll
  for (int j = 0; j < FILTERS_AT_ONCE; j++)
#pragma unroll
    for (int i = 0; i < CHUNK; i++)
#pragma unroll
      for (int f = 0; f < FILTER_W; f++)
        sum[j][i][f] = last ? (float16)(0.0f) : total[TOTAL(k + j, min(i0 + i, FILTER_H - 1), f)];
  for (int row = top; row < bottom; row++) {
    const int from = row * STRIDE_H - pad_h + i0 * DILATION_H;
    __global const float *values = gradient + (long)row * y_w;
    const float *line = rows + (from - row0) * pitch;
    if (from >= row0 && from + (CHUNK - 1) * DILATION_H < row1 && i0 + CHUNK <= FILTER_H) {
      for (int column = column0; column < column1; column += VEC)
        add_vector(sum, true, values + column, line + column, plane, from, row0, row1, i0, pitch, part, count);
    } else {
      for (int column = column0; column < column1; column += VEC)
        add_vector(sum, false, values + column, line + column, plane, from, row0, row1, i0, pitch, part, count);
    }
  }
#pragma unroll
  for (int j = 0; j < FILTERS_AT_ONCE; j++) {
#pragma unroll
    for (int i = 0; i < CHUNK; i++) {
      if (i0 + i >= FILTER_H) continue;
#pragma unroll
      for (int f = 0; f < FILTER_W; f++) {
        float16 *to = total + TOTAL(k + j, i0 + i, f);
        *to = last ? *to + select((float16)(0.0f), sum[j][i][f], lanes) : sum[j][i][f];
      }
    }
  }
}

// Global size: (runs of `share` groups, parts of `span` images). A part lies like w. `band` rows of y at a
// time; a copied row is STRIDE_W times `part` floats.
__kernel ONE_ITEM void direct_cpu_weights(__global const float *restrict x, __global const float *restrict y,
                                          __global float *restrict parts, const int images, const int groups,
                                          const int x_h, const int x_w, const int y_h, const int y_w,
                                          const int pad_h, const int pad_w, const int share, const int span,
                                          const int band, const int part) {
  float rows[STRIP_FLOATS] __attribute__((aligned(64)));
  float16 total[TOTALS];
  const int pitch = STRIDE_W * part, held = min(SPAN(band, FILTER_H, STRIDE_H, DILATION_H), x_h);
  const int first_image = get_global_id(1) * span, last_image = min(images, first_image + span);
  parts += get_global_id(1) * groups * FILTERS * CHANNELS * TAPS;
  for (int i = 0; i < held * pitch; i += VEC) vstore16((float16)(0.0f), 0, rows + i);
  for (int source = get_global_id(0) * share * CHANNELS;
       source < min(groups, ((int)get_global_id(0) + 1) * share) * CHANNELS; source++) {
    const int group = source / CHANNELS;
    for (int i = 0; i < TOTALS; i++) total[i] = 0.0f;
    for (int image = first_image; image < last_image; image++) {
      for (int top = 0; top < y_h; top += band) {
        const int above = top * STRIDE_H - pad_h, row0 = max(above, 0);
        const int row1 = min(above + SPAN(band, FILTER_H, STRIDE_H, DILATION_H), x_h), bottom = min(top + band, y_h);
        for (int row = row0; row < row1; row++)
          copy_row(rows + (row - row0) * pitch, x + (((long)image * groups * CHANNELS + source) * x_h + row) * x_w,
                   x_w, part, pad_w);
        for (int k = 0; k < FILTERS; k += FILTERS_AT_ONCE) {
          __global const float *gradient = y + (((long)image * groups + group) * FILTERS + k) * y_h * y_w;
          for (int i0 = 0; i0 < FILTER_H; i0 += CHUNK) {
            // Whole vectors come first: they bring the lines of y in the order of memory.
            if (y_w >= VEC)
              add_rows(total, false, gradient, rows, (long)y_h * y_w, k, i0, top, bottom, row0, row1, pad_h, pitch,
                       part, y_w);
            if (y_w % VEC)
              add_rows(total, true, gradient, rows, (long)y_h * y_w, k, i0, top, bottom, row0, row1, pad_h, pitch, part,
                       y_w);
          }
        }
      }
    }
    __global float *sums = parts + ((long)group * FILTERS * CHANNELS + source % CHANNELS) * TAPS;
    for (int next = 0; next < TOTALS; next += VEC) {
      transpose(total + next);
      float16 sum = 0.0f;
#pragma unroll
      for (int i = 0; i < VEC; i++) sum += total[next + i];
      float lanes[VEC];
      vstore16(sum, 0, lanes);
      for (int i = 0; i < min(VEC, FILTERS * TAPS - next); i++)
        sums[(next + i) / TAPS * CHANNELS * TAPS + (next + i) % TAPS] = lanes[i];
    }
  }
}

// Global size: (runs of 16 weights).
__kernel ONE_ITEM void direct_cpu_sum(__global const float *restrict parts, __global float *restrict w,
                                      CF_EPILOGUE_PARAMETERS, const int groups, const int count) {
  const Epilogue epilogue = CF_EPILOGUE(w);
  const long size = (long)groups * FILTERS * CHANNELS * TAPS, at = get_global_id(0) * VEC;
  float16 sum = 0.0f;
  for (int i = 0; i < count; i++) sum += load_part(parts + i * size + at, (int)min(size - at, (long)VEC));
  store_part(sum, w + at, (int)min(size - at, (long)VEC), NO_BIAS, epilogue);
}
