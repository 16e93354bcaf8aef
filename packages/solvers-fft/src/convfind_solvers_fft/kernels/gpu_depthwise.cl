// FFT convolution of each channel by its own filter on GPUs, for tensors of channels first: tiles are transformed,
// multiplied and transformed back in local memory.
//
//   packed[channel][re, im][frequency][row]  from the weights, by fft_gpu_filter; conjugated
//   result                                   by fft_gpu_depthwise
#include "gpu_tile.h"

// What lies in packed memory of a channel: a row of which items have neighbouring elements, HALF of them; those of
// row 0 as one spectrum each of frequency 0 and, behind all, of HALF.
#define ROW_STEP (HALF + 1)
#define CHANNEL_STEP (2 * TILE * ROW_STEP)

CF_INLINE void put_number(CF_GLOBAL float *packed, int row, int i, float re, float im, float weight) {
  packed[i * ROW_STEP + row] = re * weight;
  packed[(TILE + i) * ROW_STEP + row] = -im * weight;
}

CF_INLINE void times(CF_GLOBAL const float *packed, int row, int i, float *re, float *im) {
  const float u = packed[i * ROW_STEP + row], v = packed[(TILE + i) * ROW_STEP + row], a = *re, b = *im;
  *re = a * u - b * v;
  *im = a * v + b * u;
}

// Two-dimensional grid: one, UNITS channels.
CF_KERNEL CF_WORK_GROUP_SIZE(GROUP, 1, 1) void fft_gpu_filter(CF_GLOBAL const float *w, CF_GLOBAL float *packed,
                                                              const int channels, const int rows, const int columns,
                                                              const int flipped) {
  CF_LOCAL float units[UNITS * UNIT_STEP];
  const int item = (int)CF_LOCAL_ID(0), first = (int)CF_GROUP_ID(1) * UNITS, unit = column_unit(item);
  w += (CF_LONG)(first + unit) * rows * columns;
  for (int column = item % HALF; column < TILE; column += HALF) {
    float numbers[TILE];
    FOR_UNROLLED(i, TILE) {
      const int place = i * columns + column;
      numbers[i] = 0.0f;
      if (i < rows && column < columns && first + unit < channels)
        numbers[i] = w[flipped ? rows * columns - 1 - place : place];
    }
    put_column(units + unit * UNIT_STEP, column, numbers);
  }
  CF_BARRIER();
  const int channel = first + row_unit(item), row = item / UNITS;
  if (channel >= channels) return;
  float re[TILE], im[TILE];
  take_row(units + row_unit(item) * UNIT_STEP, row, re, im);
  packed += (CF_LONG)channel * CHANNEL_STEP;
  if (row > 0) {
    FOR_UNROLLED(i, TILE) put_number(packed, row, i, re[i], im[i], WEIGHT);
    return;
  }
  FOR_UNROLLED(i, EDGE_POINTS) {
    float low[2], high[2];
    untangle(re, im, i, low, high);
    put_number(packed, 0, i, low[0], low[1], WEIGHT_OF_EDGE(i));
    put_number(packed, HALF, i, high[0], high[1], WEIGHT_OF_EDGE(i));
  }
}

// Two-dimensional grid: UNITS tiles, channels.
CF_KERNEL CF_WORK_GROUP_SIZE(GROUP, 1, 1) void fft_gpu_depthwise(
    CF_GLOBAL const float *x, CF_GLOBAL const float *packed, CF_GLOBAL float *y, const int channels, const int x_h,
    const int x_w, const int y_h, const int y_w, const int tiles, const int tiles_h, const int tiles_w,
    const int step_h, const int step_w, const int pad_h, const int pad_w, const float alpha, const float beta) {
  CF_LOCAL float units[UNITS * UNIT_STEP];
  const int item = (int)CF_LOCAL_ID(0), channel = (int)CF_GROUP_ID(1);
  const int unit = column_unit(item), place = (int)CF_GROUP_ID(0) * UNITS + unit;
  const int image = place / (tiles_h * tiles_w);
  const int top = place / tiles_w % tiles_h * step_h, left = place % tiles_w * step_w;
  x += ((CF_LONG)image * channels + channel) * x_h * x_w;
  for (int column = item % HALF; column < TILE; column += HALF) {
    float numbers[TILE];
    const int from = left - pad_w + column;
    const int there = place < tiles && (CF_UINT)from < (CF_UINT)x_w;
    FOR_UNROLLED(i, TILE) {
      numbers[i] = 0.0f;
      if (there && (CF_UINT)(top - pad_h + i) < (CF_UINT)x_h) numbers[i] = x[(top - pad_h + i) * x_w + from];
    }
    put_column(units + unit * UNIT_STEP, column, numbers);
  }
  CF_BARRIER();
  {
    CF_LOCAL_PTR float *own = units + row_unit(item) * UNIT_STEP;
    const int row = item / UNITS;
    float re[TILE], im[TILE];
    take_row(own, row, re, im);
    packed += (CF_LONG)channel * CHANNEL_STEP;
    if (row > 0) {
      FOR_UNROLLED(i, TILE) times(packed, row, i, re + i, im + i);
    } else {
      FOR_UNROLLED(i, EDGE_POINTS) {
        float low[2], high[2];
        untangle(re, im, i, low, high);
        times(packed, 0, i, low, low + 1);
        times(packed, HALF, i, high, high + 1);
        tangle(low, high, i, re, im);
      }
    }
    put_row(own, row, re, im);
  }
  CF_BARRIER();
  if (place >= tiles) return;
  y += ((CF_LONG)image * channels + channel) * y_h * y_w;
  for (int column = item % HALF; column < min(step_w, y_w - left); column += HALF) {
    float numbers[TILE];
    take_column(units + unit * UNIT_STEP, column, numbers);
    FOR_UNROLLED(i, TILE) {
      if (i >= step_h || top + i >= y_h) continue;
      CF_GLOBAL float *to = y + (top + i) * y_w + left + column;
      float value = alpha * numbers[i];
      if (beta != 0.0f) value = CF_FMA(beta, *to, value);
      *to = value;
    }
  }
}
