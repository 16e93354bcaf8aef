// The weight gradient by FFT of depthwise convolution on GPUs.
//
//   sums[work-group][number][unit]   over a run of tiles, by fft_gpu_depthwise_sum; over all, by fft_gpu_add_runs
//   w                                from the sums, by fft_gpu_weights
//
// Tiles of y are as large as their results in a forward convolution; the rest is zero.
#include "gpu_depthwise.h"

CF_INLINE void add_number(CF_GLOBAL float *sums, int row, int i, float re, float im, float other_re, float other_im,
                          int add) {
  CF_GLOBAL float *to = sums + NUMBER(row, i) * UNITS, *imaginary = to + NUMBERS / 2 * UNITS;
  *to = CF_FMA(re, other_re, CF_FMA(im, other_im, add ? *to : 0.0f));
  *imaginary = CF_FMA(im, other_re, CF_FMA(-re, other_im, add ? *imaginary : 0.0f));
}

// An item's row where it lies: two of them are too many for registers.
CF_INLINE void transform_row(CF_LOCAL_PTR float *unit, int row) {
  float re[TILE], im[TILE];
  take_row(unit, row, re, im);
  FOR_UNROLLED(j, TILE) unit[row * PITCH + j] = re[j];
  FOR_UNROLLED(j, TILE) unit[(HALF + row) * PITCH + j] = im[j];
}

// One-dimensional grid: runs of `share` times UNITS tiles, then channels; with CHANNELS_LAST of `share` tiles, then
// UNITS channels.
CF_KERNEL CF_WORK_GROUP_SIZE(GROUP, 1, 1) void fft_gpu_depthwise_sum(
    CF_GLOBAL const float *x, CF_GLOBAL const float *y, CF_GLOBAL float *sums, VIEW_PARAMETERS(x), VIEW_PARAMETERS(y),
    TILING_PARAMETERS, const int runs, const int share) {
  CF_LOCAL float units[UNITS * UNIT_STEP], others[UNITS * UNIT_STEP];
  const View data = VIEW(x), gradient = VIEW(y);
  const Tiling tiling = TILING;
  const int item = (int)CF_LOCAL_ID(0), row = item / UNITS;
  const int at = (int)CF_GROUP_ID(0) / runs, run = (int)CF_GROUP_ID(0) % runs;
  const int end = min(CHANNELS_LAST ? tiles : (tiles + UNITS - 1) / UNITS, (run + 1) * share);
  CF_LOCAL_PTR float *own = units + row_unit(item) * UNIT_STEP, *other = others + row_unit(item) * UNIT_STEP;
  sums += CF_GROUP_ID(0) * (NUMBERS * UNITS) + row_unit(item);
  for (int place = run * share; place < end; place++) {
    const int line = CHANNELS_LAST ? place : at, unit = (CHANNELS_LAST ? at : place) * UNITS;
    read_tiles(units, x, data, tiling, 0, line, unit);
    read_tiles(others, y, gradient, tiling, 0, line, unit);
    CF_BARRIER();
    transform_row(own, row);
    transform_row(other, row);
    CF_LOCAL_PTR const float *re = own + row * PITCH, *im = re + HALF * PITCH;
    CF_LOCAL_PTR const float *other_re = other + row * PITCH, *other_im = other_re + HALF * PITCH;
    const int add = place > run * share;
    if (row > 0) {
      for (int i = 0; i < TILE; i++) add_number(sums, row, i, re[i], im[i], other_re[i], other_im[i], add);
    } else {
      for (int i = 0; i < EDGE_POINTS; i++) {
        float low[2], high[2], other_low[2], other_high[2];
        untangle(re[i], im[i], re[OPPOSITE(i)], im[OPPOSITE(i)], low, high);
        untangle(other_re[i], other_im[i], other_re[OPPOSITE(i)], other_im[OPPOSITE(i)], other_low, other_high);
        add_number(sums, 0, i, low[0], low[1], other_low[0], other_low[1], add);
        add_number(sums, HALF, i, high[0], high[1], other_high[0], other_high[1], add);
      }
    }
    CF_BARRIER();
  }
}

// All runs to the first. One-dimensional grid: numbers of all units, then channels or UNITS channels.
CF_KERNEL CF_WORK_GROUP_SIZE(GROUP, 1, 1) void fft_gpu_add_runs(CF_GLOBAL float *sums, const int runs) {
  const int each = NUMBERS * UNITS, blocks = each / GROUP;
  sums += CF_GROUP_ID(0) / blocks * runs * each + CF_GROUP_ID(0) % blocks * GROUP + CF_LOCAL_ID(0);
  float sum = 0.0f;
  for (int run = 0; run < runs; run++) sum += sums[(CF_LONG)run * each];
  *sums = sum;
}

// A channel's number.
CF_INLINE float number_of(CF_GLOBAL const float *sums, int number) {
#if CHANNELS_LAST
  return sums[number * UNITS];
#else
  float sum = 0.0f;
  FOR_UNROLLED(unit, UNITS) sum += sums[number * UNITS + unit];
  return sum;
#endif
}

// UNITS channels. One-dimensional grid.
CF_KERNEL CF_WORK_GROUP_SIZE(GROUP, 1, 1) void fft_gpu_weights(CF_GLOBAL const float *sums, CF_GLOBAL float *w,
                                                               VIEW_PARAMETERS(w), const int channels, const int runs,
                                                               CF_EPILOGUE_PARAMETERS) {
  const Epilogue epilogue = CF_EPILOGUE(w);
  CF_LOCAL float units[UNITS * UNIT_STEP];
  const View view = VIEW(w);
  const Tiling tiling = TILING_OF_WEIGHTS;
  const int item = (int)CF_LOCAL_ID(0), unit = (int)CF_GROUP_ID(0) * UNITS, row = item / UNITS;
  const int channel = min(unit + row_unit(item), channels - 1);
  sums += (CF_LONG)(CHANNELS_LAST ? channel / UNITS : channel) * runs * NUMBERS * UNITS;
  sums += CHANNELS_LAST ? channel % UNITS : 0;
  float re[TILE], im[TILE];
  if (row > 0) {
    FOR_UNROLLED(i, TILE) {
      re[i] = WEIGHT * number_of(sums, NUMBER(row, i));
      im[i] = WEIGHT * number_of(sums, NUMBERS / 2 + NUMBER(row, i));
    }
  } else {
    FOR_UNROLLED(i, EDGE_POINTS) {
      float low[2], high[2];
      low[0] = WEIGHT * number_of(sums, NUMBER(0, i));
      low[1] = WEIGHT * number_of(sums, NUMBERS / 2 + NUMBER(0, i));
      high[0] = WEIGHT * number_of(sums, NUMBER(HALF, i));
      high[1] = WEIGHT * number_of(sums, NUMBERS / 2 + NUMBER(HALF, i));
      tangle(low, high, i, re, im);
    }
  }
  put_row(units + row_unit(item) * UNIT_STEP, row, re, im);
  CF_BARRIER();
  write_tiles(units, w, view, tiling, 0, 0, unit, epilogue);
}
