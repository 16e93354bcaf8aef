// Tiles of 16 channels on CPU devices: reading, transforming, writing. A tile is TILE rows of vectors in private memory.
#ifndef CPU_TILE_H
#define CPU_TILE_H

#include "convfind_cpu_vector.h"

#define VALUE float16
#define MULTIPLY_ADD(constant, value, addend) fma((float16)(constant), value, addend)
#include "fft.h"

#ifndef CHANNELS_LAST
#define CHANNELS_LAST 0  // 0, 1: layout of data and result
#endif

#define LINE (TILE + 1)  // vectors from a row to the next: those of a column do not meet in one set of a cache
#define AREA (TILE * LINE)

// Each of the four numbers that stand for themselves alone has this part of the others' weight.
#define SINGLE 0.5f

typedef struct {
  int height, width;    // of an image
  long pixel, channel;  // elements from one to the next
  long elements;        // of the tensor
} Image;

// TILE x TILE vectors from `at` on, of which rows x columns are read, the rest and what lies outside of the image zero.
INLINE void load_tile(float16 *tile, __global const float *x, const Image image, long at, int top, int left, int rows,
                      int columns, int channels) {
  for (int i = 0; i < TILE; i++) {
    float16 *line = tile + i * LINE;
    const int row = top + i;
    if (i >= rows || row < 0 || row >= image.height) {
#pragma unroll
      for (int j = 0; j < TILE; j++) line[j] = 0.0f;
      continue;
    }
    const int first = max(0, -left), last = min(columns, image.width - left);
#if CHANNELS_LAST
    __global const float *from = x + at + ((long)row * image.width + left) * image.pixel;
    for (int j = 0; j < TILE; j++) {
      line[j] = 0.0f;
      if (j >= first && j < last) line[j] = load_part(from + j * image.pixel, channels);
    }
#else
    const int16 lane = (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    for (int block = 0; block < TILE; block += VEC) {
      const int j = min(block, TILE - VEC);
      const int16 inside = lane + j >= first && lane + j < last;
      float16 square[VEC];
#pragma unroll
      for (int c = 0; c < VEC; c++) {
        square[c] = 0.0f;
        if (c >= channels || first >= j + VEC || last <= j) continue;
        const long from = at + c * image.channel + (long)row * image.width + left + j;
        if (from >= 0 && from + VEC <= image.elements) {
          square[c] = select((float16)(0.0f), vload16(0, x + from), inside);
        } else {
          float part[VEC];
          for (int e = 0; e < VEC; e++) part[e] = j + e >= first && j + e < last ? x[from + e] : 0.0f;
          square[c] = vload16(0, part);
        }
      }
      transpose(square);
#pragma unroll
      for (int e = 0; e < VEC; e++) line[j + e] = square[e];
    }
#endif
  }
}

// A window of weights in the corner of a tile, the rest zero: up to 16 filters, `lane` elements apart.
INLINE void load_window(float16 *tile, __global const float *w, int rows, int columns, int filters, long lane,
                        long tap, int flipped) {
  for (int i = 0; i < TILE; i++)
    for (int j = 0; j < TILE; j++) {
      tile[i * LINE + j] = 0.0f;
      if (i >= rows || j >= columns) continue;
      const int place = i * columns + j;
      __global const float *from = w + (flipped ? rows * columns - 1 - place : place) * tap;
      float part[VEC];
      vstore16((float16)(0.0f), 0, part);
      if (filters == VEC) {
#pragma unroll
        for (int k = 0; k < VEC; k++) part[k] = from[k * lane];
      } else {
        for (int k = 0; k < filters; k++) part[k] = from[k * lane];
      }
      tile[i * LINE + j] = vload16(0, part);
    }
}

// All of the others are zero.
INLINE void transform_rows(float16 *tile, int rows) {
  for (int i = 0; i < rows; i++) fft_real(tile + i * LINE, 1, tile + i * LINE, tile + i * LINE + HALF, 1);
}

// A column of the spectrum, TILE numbers, or of columns 0 and HALF the first EDGE_POINTS.
INLINE void transform_column(float16 *tile, int column, float16 *re, float16 *im) {
  if (column == 0 || column == HALF) {
    fft_real(tile + column, LINE, re, im, 1);
    im[0] = im[HALF] = 0.0f;
  } else {
    fft_complex(tile + column, tile + HALF + column, LINE, re, im, 1);
  }
}

INLINE void invert_column(const float16 *re, const float16 *im, int column, float16 *tile) {
  if (column == 0 || column == HALF)
    fft_adjoint(re, im, 1, tile + column, LINE);
  else
    fft_complex(im, re, 1, tile + HALF + column, tile + column, LINE);
}

// What an operand's numbers are multiplied with so that the inverse needs no factors.
INLINE float weight_of(int column, int i) {
  const bool single = (column == 0 || column == HALF) && (i == 0 || i == HALF);
  return (single ? SINGLE : 1.0f) * (2.0f / (TILE * TILE));
}

// rows x columns results of up to 16 filters.
INLINE void store_rows(const float16 *tile, __global float *y, const Image image, long at, int top, int left, int rows,
                       int columns, int filters, const Epilogue epilogue) {
  for (int i = 0; i < min(rows, image.height - top); i++) {
    float16 line[(TILE + VEC - 1) / VEC * VEC];
    fft_adjoint(tile + i * LINE, tile + i * LINE + HALF, 1, line, 1);
    const int count = min(columns, image.width - left);
    __global float *to = y + at + ((long)(top + i) * image.width + left) * image.pixel;
#if CHANNELS_LAST
    const float16 bias = biases_of(epilogue, 0, filters);
    for (int j = 0; j < count; j++) store_part(line[j], to + j * image.pixel, filters, bias, epilogue);
#else
    for (int j = 0; j < count; j += VEC) {
      transpose(line + j);
      for (int k = 0; k < filters; k++)
        store_part(line[j + k], to + k * image.channel + j, count - j, bias_of(epilogue, k), epilogue);
    }
#endif
  }
}

#endif  // CPU_TILE_H
