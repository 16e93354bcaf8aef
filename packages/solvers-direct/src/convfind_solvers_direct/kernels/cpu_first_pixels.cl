// Convolution of few input channels on CPUs to channels last: forward.
//
// A work-item copies the rows that a band of y takes to private memory, with zeros around them. There the
// channels of the taps of a row are neighbours, or with FROM_PLANES those of a channel are: a tile of PIXELS
// neighbouring results times VECTORS vectors of filters stays in registers, and values of x are broadcast.
#include "convfind_cpu_vector.h"
#include "window.h"

#ifndef VECTORS
#define VECTORS 2           // vectors of filters at a time: 1..4
#endif
#ifndef PIXELS
#define PIXELS 14           // results of a row at a time: 1 and up
#endif
#ifndef FROM_PLANES
#define FROM_PLANES 0       // 1: x and w lie channels first
#endif
#ifndef STREAMS
#define STREAMS 1           // 1: large results are written past the caches
#endif
#ifndef STRIP_FLOATS
#define STRIP_FLOATS 16384  // room for the rows
#endif

#define FILTERS_AT_ONCE (VECTORS * VEC)
#include "cpu_first.h"

#define PLANES (FROM_PLANES ? CHANNELS : 1)  // of an image: rows of each are copied
#define PIXEL (CHANNELS / PLANES)            // floats of one in a row
#define LINE (FILTER_W * PIXEL)              // products of a row of taps
#define STEP (STRIDE_W * PIXEL)              // floats from a result's first value to the next one's

// Each by itself: compilers shuffle neighbours out of a vector, on a port that multiply-adds need.
typedef const volatile float *Values;

INLINE void multiply(float16 sum[PIXELS][VECTORS], Values from, __global const float *weights, int pitch, int plane) {
#pragma unroll
  for (int p = 0; p < PIXELS; p++)
#pragma unroll
    for (int v = 0; v < VECTORS; v++) sum[p][v] = 0.0f;
  for (int c = 0; c < PLANES; c++, from += plane - FILTER_H * pitch) {
    for (int i = 0; i < FILTER_H; i++, from += pitch) {
      // Of several at a time the weights, too, would want registers: a tenth slower, or half.
#pragma unroll 1
      for (int t = 0; t < LINE; t++, weights += BLOCK) {
        float16 weight[VECTORS];
#pragma unroll
        for (int v = 0; v < VECTORS; v++) weight[v] = vload16(v, weights);
#pragma unroll
        for (int p = 0; p < PIXELS; p++) {
          const float16 value = from[p * STEP + t];
#pragma unroll
          for (int v = 0; v < VECTORS; v++) sum[p][v] = fma(value, weight[v], sum[p][v]);
        }
      }
    }
  }
}

// Global size: (images, work-items of one); each takes `bands` bands of `band` rows of y. A copied row has
// `pitch` floats, which begin with those of the padding.
__kernel ONE_ITEM void direct_cpu_first_pixels(__global const float *restrict x, __global const float *restrict packed,
                                               __global float *restrict y, CF_EPILOGUE_PARAMETERS,
                                               const int filters, const int x_h, const int x_w, const int y_h,
                                               const int y_w, const int pad_h, const int pad_w, const int bands,
                                               const int band, const int pitch) {
  const Epilogue epilogue = CF_EPILOGUE(y);
  float rows[STRIP_FLOATS] __attribute__((aligned(64)));
  const int line = x_w * PIXEL, margin = pad_w * PIXEL;
  const int plane = ((band - 1) * STRIDE_H + FILTER_H) * pitch;
  x += get_global_id(0) * PLANES * x_h * line;
  y += get_global_id(0) * y_h * y_w * filters;
  // Vectors of y are lines, and nothing is read of them.
  const bool is_streamed = STREAMS && !CF_READS_RESULT(epilogue) && filters % VEC == 0 && ((size_t)y & 63) == 0 &&
                           (long)get_global_size(0) * y_h * y_w * filters >= STREAMED_FLOATS;
  const int first = get_global_id(1) * bands * band, last = min(first + bands * band, y_h);
  for (int top = first; top < last; top += band) {
    const int bottom = min(top + band, last);
    const int above = top * STRIDE_H - pad_h, held = (bottom - top - 1) * STRIDE_H + FILTER_H;
    for (int each = 0; each < PLANES * held; each++) {
      const int channel = each / held, row = each % held;
      float *to = rows + channel * plane + row * pitch;
      const bool exists = above + row >= 0 && above + row < x_h;
      if (top == first || !exists)
        for (int i = 0; i < pitch; i += VEC) vstore16((float16)(0.0f), 0, to + i);
      if (!exists) continue;
      __global const float *from = x + ((long)channel * x_h + above + row) * line;
      for (int i = 0; i < line; i += VEC) {
        if (i + VEC <= line)
          vstore16(vload16(0, from + i), 0, to + margin + i);
        else
          for (int j = i; j < line; j++) to[margin + j] = from[j];
      }
    }
    for (int row = top; row < bottom; row++) {
      for (int k = 0; k < filters; k += BLOCK) {
        for (int next = 0; next < y_w; next += PIXELS) {
          // The last tile overlaps its neighbour, where that does not count twice.
          const int column = !CF_READS_RESULT(epilogue) && y_w >= PIXELS ? min(next, y_w - PIXELS) : next;
          __global float *to = y + ((long)row * y_w + column) * filters + k;
          // Lines that are written wait for their old contents: the next tile's are on their way.
          if (!is_streamed) {
#pragma unroll
            for (int p = 0; p < PIXELS; p++)
#pragma unroll
              for (int v = 0; v < VECTORS; v++) PREFETCH(to + (long)(p + PIXELS) * filters + v * VEC);
          }
          float16 sum[PIXELS][VECTORS];
          multiply(sum, rows + (row - top) * STRIDE_H * pitch + column * STEP, packed + (long)k * DEPTH, pitch,
                   plane);
          float16 bias[VECTORS];
#pragma unroll
          for (int v = 0; v < VECTORS; v++) bias[v] = biases_of(epilogue, k + v * VEC, filters - k - v * VEC);
          const bool is_whole = !CF_READS_RESULT(epilogue) && k + BLOCK <= filters && column + PIXELS <= y_w;
          if (is_whole && is_streamed) {
#pragma unroll
            for (int p = 0; p < PIXELS; p++)
#pragma unroll
              for (int v = 0; v < VECTORS; v++) {
                __global float *at = to + (long)p * filters + v * VEC;
                STORE_STREAMED(result_of(sum[p][v], at, bias[v], epilogue), at);
              }
          } else if (is_whole) {
#pragma unroll
            for (int p = 0; p < PIXELS; p++)
#pragma unroll
              for (int v = 0; v < VECTORS; v++) {
                __global float *at = to + (long)p * filters + v * VEC;
                vstore16(result_of(sum[p][v], at, bias[v], epilogue), 0, at);
              }
          } else {
#pragma unroll
            for (int p = 0; p < PIXELS; p++)
#pragma unroll
              for (int v = 0; v < VECTORS; v++)
                if (column + p < y_w)
                  store_part(sum[p][v], to + (long)p * filters + v * VEC, filters - k - v * VEC, bias[v], epilogue);
          }
        }
      }
    }
  }
}
