// FFT convolution of each channel by its own filter on GPUs: tiles are transformed, multiplied and transformed back in
// local memory.
//
//   packed[channel][number], with CHANNELS_LAST packed[UNITS channels][number][channel]   by fft_gpu_filter; conjugated
//   result                                                                                by fft_gpu_depthwise
#include "gpu_depthwise.h"

#define STEP (CHANNELS_LAST ? UNITS : 1)  // from a packed number to the next

CF_INLINE void put_number(CF_GLOBAL float *packed, int row, int i, float re, float im, float weight) {
  packed[NUMBER(row, i) * STEP] = re * weight;
  packed[(NUMBERS / 2 + NUMBER(row, i)) * STEP] = -im * weight;
}

CF_INLINE void times(CF_GLOBAL const float *packed, int row, int i, float *re, float *im) {
  const float u = packed[NUMBER(row, i) * STEP], v = packed[(NUMBERS / 2 + NUMBER(row, i)) * STEP];
  const float a = *re, b = *im;
  *re = a * u - b * v;
  *im = a * v + b * u;
}

// The weights of UNITS channels. One-dimensional grid.
CF_KERNEL CF_WORK_GROUP_SIZE(GROUP, 1, 1) void fft_gpu_filter(CF_GLOBAL const float *w, CF_GLOBAL float *packed,
                                                              VIEW_PARAMETERS(w), const int channels) {
  CF_LOCAL float units[UNITS * UNIT_STEP];
  const View view = VIEW(w);
  const Tiling tiling = TILING_OF_WEIGHTS;
  const int item = (int)CF_LOCAL_ID(0), unit = (int)CF_GROUP_ID(0) * UNITS, row = item / UNITS;
  read_tiles(units, w, view, tiling, 0, 0, unit);
  CF_BARRIER();
  if (unit + row_unit(item) >= channels) return;
  float re[TILE], im[TILE];
  take_row(units + row_unit(item) * UNIT_STEP, row, re, im);
  packed += (CF_LONG)unit * NUMBERS + (CHANNELS_LAST ? row_unit(item) : row_unit(item) * NUMBERS);
  if (row > 0) {
    FOR_UNROLLED(i, TILE) put_number(packed, row, i, re[i], im[i], WEIGHT);
    return;
  }
  FOR_UNROLLED(i, EDGE_POINTS) {
    float low[2], high[2];
    untangle(re[i], im[i], re[OPPOSITE(i)], im[OPPOSITE(i)], low, high);
    put_number(packed, 0, i, low[0], low[1], WEIGHT);
    put_number(packed, HALF, i, high[0], high[1], WEIGHT);
  }
}

// One-dimensional grid: UNITS tiles, then channels; with CHANNELS_LAST UNITS channels, then tiles.
CF_KERNEL CF_WORK_GROUP_SIZE(GROUP, 1, 1) void fft_gpu_depthwise(
    CF_GLOBAL const float *x, CF_GLOBAL const float *packed, CF_GLOBAL float *y, VIEW_PARAMETERS(x), VIEW_PARAMETERS(y),
    TILING_PARAMETERS, CF_EPILOGUE_PARAMETERS) {
  const Epilogue epilogue = CF_EPILOGUE(y);
  CF_LOCAL float units[UNITS * UNIT_STEP];
  const View source = VIEW(x), result = VIEW(y);
  const Tiling tiling = TILING;
  const int blocks = ((CHANNELS_LAST ? x_channels : tiles) + UNITS - 1) / UNITS;
  const int line = (int)CF_GROUP_ID(0) / blocks, unit = (int)CF_GROUP_ID(0) % blocks * UNITS;
  read_tiles(units, x, source, tiling, 0, line, unit);
  CF_BARRIER();
  {
    const int item = (int)CF_LOCAL_ID(0), row = item / UNITS;
    CF_LOCAL_PTR float *own = units + row_unit(item) * UNIT_STEP;
    float re[TILE], im[TILE];
    take_row(own, row, re, im);
    packed += (CF_LONG)(CHANNELS_LAST ? unit : line) * NUMBERS + (CHANNELS_LAST ? row_unit(item) : 0);
    if (row > 0) {
      FOR_UNROLLED(i, TILE) times(packed, row, i, re + i, im + i);
    } else {
      FOR_UNROLLED(i, EDGE_POINTS) {
        float low[2], high[2];
        untangle(re[i], im[i], re[OPPOSITE(i)], im[OPPOSITE(i)], low, high);
        times(packed, 0, i, low, low + 1);
        times(packed, HALF, i, high, high + 1);
        tangle(low, high, i, re, im);
      }
    }
    put_row(own, row, re, im);
  }
  CF_BARRIER();
  write_tiles(units, y, result, tiling, 0, line, unit, epilogue);
}
