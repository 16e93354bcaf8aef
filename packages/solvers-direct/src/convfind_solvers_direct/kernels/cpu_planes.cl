// Convolution with few channels a group, channels first, on CPUs: forward and backward-data.
//
// A set is the channels of one group of one image; a work-item takes some, in their order. It copies the
// rows that a band of the result takes to private memory, with zeros around them: in forward the columns
// of each phase of the stride side by side, in backward-data with the zeros of the stride between them.
// So the taps of 16 neighbouring results are vectors there.
#include "convfind_cpu_vector.h"
#include "window.h"

#ifndef STRIP_FLOATS
#define STRIP_FLOATS 16384  // room for the rows
#endif
#ifndef FILTERS_AT_ONCE
#define FILTERS_AT_ONCE 1   // result channels at a time: divides FILTERS
#endif
#ifndef VECTORS
#define VECTORS 1           // neighbouring vectors of results at a time: they share weights
#endif

// Where in a copied row the first result finds its tap.
#if GRADIENT
#define PHASES 1
#define TAP_AT(f, part) (((FILTER_W - 1) - (f)) * DILATION_W)
#else
#define PHASES STRIDE_W
#define TAP_AT(f, part) ((f) * DILATION_W % STRIDE_W * (part) + (f) * DILATION_W / STRIDE_W)
#endif

#define NEXT (GRADIENT ? TAPS : CHANNELS * TAPS)  // weights from a result channel to the next one

#include "cpu_rows.h"

// Adds what a source channel is in ROWS rows and `vectors` vectors of results.
INLINE void add_channel(float16 sum[FILTERS_AT_ONCE][ROWS][VECTORS], const int vectors, const float *line,
                        const int column[VECTORS], __global const float *weights, int from, int row0, int row1,
                        int pitch, int part) {
#pragma unroll 1
  for (int f = 0; f < FILTER_W; f++) {
#if ROWS > 1
    // Rows share a column of weights.
    float16 shared[FILTERS_AT_ONCE][FILTER_H];
#pragma unroll
    for (int j = 0; j < FILTERS_AT_ONCE; j++)
#pragma unroll
      for (int i = 0; i < FILTER_H; i++) shared[j][i] = weights[j * NEXT + i * FILTER_W + f];
#define WEIGHT(j, i) shared[j][i]
#else
#define WEIGHT(j, i) (float16)(weights[(j) * NEXT + (i) * FILTER_W + f])
#endif
#pragma unroll
    for (int r = 0; r < ROW_SPAN; r++) {
      if (from + r < row0 || from + r >= row1) continue;
      float16 value[VECTORS];
#pragma unroll
      for (int v = 0; v < vectors; v++) value[v] = vload16(0, line + r * pitch + TAP_AT(f, part) + column[v]);
#pragma unroll
      for (int j = 0; j < FILTERS_AT_ONCE; j++) {
#pragma unroll
        for (int o = 0; o < ROWS; o++) {
          if (!ROWS_MEET(o, r)) continue;
#pragma unroll
          for (int v = 0; v < vectors; v++) sum[j][o][v] = fma(value[v], WEIGHT(j, ROW_TAP(o, r)), sum[j][o][v]);
        }
      }
    }
  }
}

// Global size: (work-items); each takes `share` sets. A band is `band` rows of the result, a multiple of
// ROWS; a copied row is PHASES times `part` floats.
__kernel ONE_ITEM void direct_cpu_planes(__global const float *restrict x, __global const float *restrict w,
                                         __global float *restrict y, CF_EPILOGUE_PARAMETERS,
                                         const long sets, const int groups, const int x_h, const int x_w,
                                         const int r_h, const int r_w, const int pad_h, const int pad_w,
                                         const int shift, const long share, const int band, const int part) {
  const Epilogue epilogue = CF_EPILOGUE(y);
  float rows[STRIP_FLOATS] __attribute__((aligned(64)));
  const int pitch = PHASES * part;
  const long first = get_global_id(0) * share, last = min(sets, first + share);
  // Vectors at the end of long rows overlap their neighbours; those of short rows pass the end of the row,
  // where what comes later is written later.
  __global float *end = y + last * FILTERS * r_h * r_w;
  const bool overlaps = !CF_READS_RESULT(epilogue) && r_w >= VEC;
  const bool passes = !CF_READS_RESULT(epilogue) && r_w < VEC &&
                      (FILTERS == 1 || (FILTERS_AT_ONCE == 1 && band >= r_h + shift));
  const int held = min(SPAN(band, FILTER_H, STRIDE_H, DILATION_H), x_h);
  for (int i = 0; i < CHANNELS * held * pitch; i += VEC) vstore16((float16)(0.0f), 0, rows + i);
  for (long set = first; set < last; set++) {
    const int group = set % groups;
    for (int top = -shift; top < r_h; top += band) {
      const int above = SOURCE_OF(top, pad_h, FILTER_H, STRIDE_H, DILATION_H);
      const int row0 = max(above, 0), row1 = min(above + SPAN(band, FILTER_H, STRIDE_H, DILATION_H), x_h);
      for (int c = 0; c < CHANNELS; c++)
        for (int row = row0; row < row1; row++)
          copy_row(rows + (c * held + row - row0) * pitch, x + ((set * CHANNELS + c) * x_h + row) * x_w, x_w, part,
                   pad_w);
      for (int k = 0; k < FILTERS; k += FILTERS_AT_ONCE) {
        for (int row = top; row < min(top + band, r_h); row += ROWS) {
          const int from = SOURCE_OF(row, pad_h, FILTER_H, STRIDE_H, DILATION_H);
          for (int next = 0; next < r_w; next += VECTORS * VEC) {
            int column[VECTORS];
            float16 sum[FILTERS_AT_ONCE][ROWS][VECTORS];
#pragma unroll
            for (int v = 0; v < VECTORS; v++) {
              column[v] = min(next + v * VEC, overlaps ? r_w - VEC : (r_w - 1) / VEC * VEC);
#pragma unroll
              for (int j = 0; j < FILTERS_AT_ONCE; j++)
#pragma unroll
                for (int o = 0; o < ROWS; o++) sum[j][o][v] = 0.0f;
            }
            for (int c = 0; c < CHANNELS; c++) {
              const long from_c = ((long)group * CHANNELS + c) * FILTERS + k;
              const long to_k = ((long)group * FILTERS + k) * CHANNELS + c;
              __global const float *weights = w + (GRADIENT ? from_c : to_k) * TAPS;
              const float *line = rows + (c * held + from - row0) * pitch + (GRADIENT ? pad_w : 0);
#if VECTORS > 1
              if (r_w > VEC)
                add_channel(sum, VECTORS, line, column, weights, from, row0, row1, pitch, part);
              else
#endif
                add_channel(sum, 1, line, column, weights, from, row0, row1, pitch, part);
            }
#pragma unroll
            for (int j = 0; j < FILTERS_AT_ONCE; j++) {
              const float16 bias = bias_of(epilogue, group * FILTERS + k + j);
#pragma unroll
              for (int o = 0; o < ROWS; o++) {
                if (row + o < 0 || row + o >= r_h) continue;
#pragma unroll
                for (int v = 0; v < VECTORS; v++) {
                  if (v > 0 && r_w <= VEC) continue;
                  __global float *to = y + ((set * FILTERS + k + j) * r_h + row + o) * r_w + column[v];
                  if (overlaps || (passes && to + VEC <= end))
                    vstore16(result_of(sum[j][o][v], to, bias, epilogue), 0, to);
                  else if (column[v] == next + v * VEC)
                    store_part(sum[j][o][v], to, r_w - column[v], bias, epilogue);
                }
              }
            }
          }
        }
      }
    }
  }
}
