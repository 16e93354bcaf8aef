// The transforms of FFT convolution on GPUs, with device memory between them and the products, for tensors of channels
// first. Matrices lie one behind the other:
//
//   packed[point, part][group][channel][filter]  from the weights, by fft_gpu_filter; conjugated
//   values[point, part][group][channel][tile]    from the source, by fft_gpu_data
//   sums[point, part][group][filter][tile]       packed values, to the result by fft_gpu_result
//
// A product of complex numbers is three of real ones: (a + b)c, a(d - c), b(c + d) are of the parts a + b, a, b and
// c, d - c, c + d; their sums give ac - bd and ad + bc.
#include "gpu_tile.h"

#define PARTS 3

// A point's parts of the data, or with `filter` of a filter, which is conjugated and weighted.
CF_INLINE void put_point(CF_GLOBAL float *to, CF_LONG matrix, float re, float im, int filter, float weight) {
  if (filter) {
    re *= weight;
    im *= -weight;
    to[0] = re;
    to[matrix] = im - re;
    to[2 * matrix] = re + im;
  } else {
    to[0] = re + im;
    to[matrix] = re;
    to[2 * matrix] = im;
  }
}

CF_INLINE void put_points(CF_LOCAL_PTR const float *unit, int row, CF_GLOBAL float *to, CF_LONG matrix, int filter) {
  float re[TILE], im[TILE];
  take_row(unit, row, re, im);
  if (row > 0) {
    to += FIRST_POINT(row) * PARTS * matrix;
    FOR_UNROLLED(i, TILE) put_point(to + i * PARTS * matrix, matrix, re[i], im[i], filter, WEIGHT);
    return;
  }
  FOR_UNROLLED(i, EDGE_POINTS) {
    float low[2], high[2];
    untangle(re, im, i, low, high);
    put_point(to + (FIRST_POINT(0) + i) * PARTS * matrix, matrix, low[0], low[1], filter, WEIGHT_OF_EDGE(i));
    put_point(to + (FIRST_POINT(HALF) + i) * PARTS * matrix, matrix, high[0], high[1], filter, WEIGHT_OF_EDGE(i));
  }
}

// Two-dimensional grid: UNITS filters, channels of all groups.
CF_KERNEL CF_WORK_GROUP_SIZE(GROUP, 1, 1) void fft_gpu_filter(
    CF_GLOBAL const float *w, CF_GLOBAL float *packed, const int filters, const int channels, const int rows,
    const int columns, const int pitch, const CF_LONG matrix, const CF_LONG w_group, const CF_LONG w_filter,
    const CF_LONG w_channel, const int w_tap, const int flipped) {
  CF_LOCAL float units[UNITS * UNIT_STEP];
  const int item = (int)CF_LOCAL_ID(0), first = (int)CF_GROUP_ID(0) * UNITS, all = (int)CF_GROUP_ID(1);
  const int unit = column_unit(item);
  w += all / channels * w_group + (CF_LONG)(first + unit) * w_filter + all % channels * w_channel;
  for (int column = item % HALF; column < TILE; column += HALF) {
    float numbers[TILE];
    FOR_UNROLLED(i, TILE) {
      const int place = i * columns + column;
      numbers[i] = 0.0f;
      if (i < rows && column < columns && first + unit < filters)
        numbers[i] = w[(flipped ? rows * columns - 1 - place : place) * w_tap];
    }
    put_column(units + unit * UNIT_STEP, column, numbers);
  }
  CF_BARRIER();
  const int filter = first + row_unit(item);
  if (filter < pitch)
    put_points(units + row_unit(item) * UNIT_STEP, item / UNITS, packed + (CF_LONG)all * pitch + filter, matrix, 1);
}

// Tiles from the first one on. Two-dimensional grid: UNITS tiles, channels of all groups.
CF_KERNEL CF_WORK_GROUP_SIZE(GROUP, 1, 1) void fft_gpu_data(
    CF_GLOBAL const float *x, CF_GLOBAL float *values, const int channels, const int height, const int width,
    const int first, const int tiles, const int tiles_h, const int tiles_w, const int step_h, const int step_w,
    const int pad_h, const int pad_w, const int pitch, const CF_LONG matrix) {
  CF_LOCAL float units[UNITS * UNIT_STEP];
  const int item = (int)CF_LOCAL_ID(0), channel = (int)CF_GROUP_ID(1);
  const int unit = column_unit(item), number = (int)CF_GROUP_ID(0) * UNITS + unit, place = first + number;
  const int image = place / (tiles_h * tiles_w);
  const int top = place / tiles_w % tiles_h * step_h - pad_h, left = place % tiles_w * step_w - pad_w;
  x += ((CF_LONG)image * channels + channel) * height * width;
  for (int column = item % HALF; column < TILE; column += HALF) {
    float numbers[TILE];
    const int there = number < tiles && (CF_UINT)(left + column) < (CF_UINT)width;
    FOR_UNROLLED(i, TILE) {
      numbers[i] = 0.0f;
      if (there && (CF_UINT)(top + i) < (CF_UINT)height) numbers[i] = x[(top + i) * width + left + column];
    }
    put_column(units + unit * UNIT_STEP, column, numbers);
  }
  CF_BARRIER();
  const int tile = (int)CF_GROUP_ID(0) * UNITS + row_unit(item);
  if (tile < pitch)
    put_points(units + row_unit(item) * UNIT_STEP, item / UNITS, values + (CF_LONG)channel * pitch + tile, matrix, 0);
}

CF_INLINE void take_point(CF_GLOBAL const float *from, CF_LONG matrix, float *re, float *im) {
  const float common = from[0];
  *re = common - from[2 * matrix];
  *im = common + from[matrix];
}

// Two-dimensional grid: UNITS tiles, filters of all groups.
CF_KERNEL CF_WORK_GROUP_SIZE(GROUP, 1, 1) void fft_gpu_result(
    CF_GLOBAL const float *sums, CF_GLOBAL float *y, const float alpha, const float beta, const int filters,
    const int height, const int width, const int first, const int tiles, const int tiles_h, const int tiles_w,
    const int step_h, const int step_w, const int pitch, const CF_LONG matrix) {
  CF_LOCAL float units[UNITS * UNIT_STEP];
  const int item = (int)CF_LOCAL_ID(0), filter = (int)CF_GROUP_ID(1), row = item / UNITS;
  const int tile = min((int)CF_GROUP_ID(0) * UNITS + row_unit(item), pitch - 1);
  float re[TILE], im[TILE];
  sums += (CF_LONG)filter * pitch + tile;
  if (row > 0) {
    CF_GLOBAL const float *from = sums + FIRST_POINT(row) * PARTS * matrix;
    FOR_UNROLLED(i, TILE) take_point(from + i * PARTS * matrix, matrix, re + i, im + i);
  } else {
    FOR_UNROLLED(i, EDGE_POINTS) {
      float low[2], high[2];
      take_point(sums + (FIRST_POINT(0) + i) * PARTS * matrix, matrix, low, low + 1);
      take_point(sums + (FIRST_POINT(HALF) + i) * PARTS * matrix, matrix, high, high + 1);
      tangle(low, high, i, re, im);
    }
  }
  put_row(units + row_unit(item) * UNIT_STEP, row, re, im);
  CF_BARRIER();
  const int unit = column_unit(item), number = (int)CF_GROUP_ID(0) * UNITS + unit, place = first + number;
  const int image = place / (tiles_h * tiles_w);
  const int top = place / tiles_w % tiles_h * step_h, left = place % tiles_w * step_w;
  if (number >= tiles) return;
  y += ((CF_LONG)image * filters + filter) * height * width;
  for (int column = item % HALF; column < min(step_w, width - left); column += HALF) {
    float numbers[TILE];
    take_column(units + unit * UNIT_STEP, column, numbers);
    FOR_UNROLLED(i, TILE) {
      if (i >= step_h || top + i >= height) continue;
      CF_GLOBAL float *to = y + (top + i) * width + left + column;
      float value = alpha * numbers[i];
      if (beta != 0.0f) value = CF_FMA(beta, *to, value);
      *to = value;
    }
  }
}
