// Convolution of few input channels, channels first, on CPUs: forward.
//
// A work-item copies the rows that a band of y takes to private memory, with zeros around them and the
// columns of each phase of the stride side by side, so that the taps of 16 neighbouring results are
// vectors there. A tile of VECTORS of these times FILTERS_AT_ONCE filters stays in registers; weights are
// broadcast. The vectors of a tile may lie in different rows.
#include "convfind_cpu_vector.h"
#include "window.h"

#ifndef VECTORS
#define VECTORS 3           // vectors of results at a time: 1 and up
#endif
#ifndef FILTERS_AT_ONCE
#define FILTERS_AT_ONCE 8   // 1 and up
#endif
#ifndef STRIP_FLOATS
#define STRIP_FLOATS 16384  // room for the rows
#endif

#include "cpu_first.h"

#define PHASES STRIDE_W
// Where in a copied row the first result finds its tap.
#define TAP_AT(f, part) ((f) % STRIDE_W * (part) + (f) / STRIDE_W)
#include "cpu_rows.h"

INLINE void multiply(float16 sum[BLOCK][VECTORS], const float *from[VECTORS], __global const float *weights, int plane,
                     int pitch, int part) {
#pragma unroll
  for (int k = 0; k < BLOCK; k++)
#pragma unroll
    for (int v = 0; v < VECTORS; v++) sum[k][v] = 0.0f;
  for (int c = 0; c < CHANNELS; c++) {
    for (int i = 0; i < FILTER_H; i++) {
      const int line = c * plane + i * pitch;
#pragma unroll
      for (int f = 0; f < FILTER_W; f++, weights += BLOCK) {
        float16 value[VECTORS];
#pragma unroll
        for (int v = 0; v < VECTORS; v++) value[v] = vload16(0, from[v] + line + TAP_AT(f, part));
#pragma unroll
        for (int k = 0; k < BLOCK; k++)
#pragma unroll
          for (int v = 0; v < VECTORS; v++) sum[k][v] = fma(value[v], (float16)(weights[k]), sum[k][v]);
      }
    }
  }
}

// Global size: (images, work-items of one); each takes `bands` bands of `band` rows of y. A copied row is
// PHASES times `part` floats.
__kernel ONE_ITEM void direct_cpu_first_planes(__global const float *restrict x, __global const float *restrict packed,
                                               __global float *restrict y, CF_EPILOGUE_PARAMETERS,
                                               const int filters, const int x_h, const int x_w, const int y_h,
                                               const int y_w, const int pad_h, const int pad_w, const int bands,
                                               const int band, const int part) {
  const Epilogue epilogue = CF_EPILOGUE(y);
  float rows[STRIP_FLOATS] __attribute__((aligned(64)));
  const int pitch = PHASES * part, plane = ((band - 1) * STRIDE_H + FILTER_H) * pitch;
  x += get_global_id(0) * CHANNELS * x_h * x_w;
  y += get_global_id(0) * filters * y_h * y_w;
  // The last vector of a row overlaps its neighbour, where that does not count twice.
  const bool overlaps = !CF_READS_RESULT(epilogue) && y_w >= VEC;
  const int first = get_global_id(1) * bands * band, last = min(first + bands * band, y_h);
  for (int i = 0; i < CHANNELS * plane; i += VEC) vstore16((float16)(0.0f), 0, rows + i);
  for (int top = first; top < last; top += band) {
    const int bottom = min(top + band, last);
    const int above = top * STRIDE_H - pad_h, held = (bottom - top - 1) * STRIDE_H + FILTER_H;
    for (int c = 0; c < CHANNELS; c++) {
      for (int row = 0; row < held; row++) {
        float *to = rows + c * plane + row * pitch;
        if (above + row >= 0 && above + row < x_h)
          copy_row(to, x + ((long)c * x_h + above + row) * x_w, x_w, part, pad_w);
        else
          for (int i = 0; i < pitch; i += VEC) vstore16((float16)(0.0f), 0, to + i);
      }
    }
    for (int k = 0; k < filters; k += BLOCK) {
      for (int row = top, next = 0; row < bottom;) {
        const float *from[VECTORS];
        __global float *to[VECTORS];
        int count[VECTORS];
#pragma unroll
        for (int v = 0; v < VECTORS; v++) {
          const int here = min(row, bottom - 1), column = overlaps ? min(next, y_w - VEC) : next;
          from[v] = rows + (here - top) * STRIDE_H * pitch + column;
          to[v] = y + ((long)k * y_h + here) * y_w + column;
          count[v] = row < bottom ? y_w - column : 0;
          // Rows of so many planes are no streams that the device sees.
#pragma unroll
          for (int j = 0; j < BLOCK; j++)
            if (k + j < filters) PREFETCH(to[v] + (long)j * y_h * y_w);
          next += VEC;
          if (next >= y_w) next = 0, row++;
        }
        float16 sum[BLOCK][VECTORS];
        multiply(sum, from, packed + (long)k * DEPTH, plane, pitch, part);
#pragma unroll
        for (int v = 0; v < VECTORS; v++) {
#pragma unroll
          for (int j = 0; j < BLOCK; j++) {
            if (k + j >= filters) continue;
            __global float *at = to[v] + (long)j * y_h * y_w;
            const float16 bias = bias_of(epilogue, k + j);
            if (overlaps && count[v] >= VEC)
              vstore16(result_of(sum[j][v], at, bias, epilogue), 0, at);
            else
              store_part(sum[j][v], at, count[v], bias, epilogue);
          }
        }
      }
    }
  }
}
