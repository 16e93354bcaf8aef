// The transforms of FFT convolution on GPUs, with device memory between them and the products. A spectrum lies as
//
//   spectra[point, part][group][line][unit]   units: tiles or filters, lines: channels; with CHANNELS_LAST turned
//
// A product of complex numbers is three of real ones: (a + b)c, a(d - c), b(c + d) are of the parts a + b, a, b and
// c, d - c, c + d; their sums give ac - bd and ad + bc.
#include "gpu_view.h"

#define PARTS 3

// A point's parts, or with `filter` those of the other operand, which is conjugated and weighted.
CF_INLINE void put_point(CF_GLOBAL float *to, CF_LONG part, float re, float im, int filter, float weight) {
  if (filter) {
    re *= weight;
    im *= -weight;
    to[0] = re;
    to[part] = im - re;
    to[2 * part] = re + im;
  } else {
    to[0] = re + im;
    to[part] = re;
    to[2 * part] = im;
  }
}

CF_INLINE void take_point(CF_GLOBAL const float *from, CF_LONG part, float *re, float *im) {
  const float common = from[0];
  *re = common - from[2 * part];
  *im = common + from[part];
}

// Tiles of a tensor to spectra. One-dimensional grid: UNITS units, then lines of all groups.
CF_KERNEL CF_WORK_GROUP_SIZE(GROUP, 1, 1) void fft_gpu_spectra(
    CF_GLOBAL float *spectra, CF_GLOBAL const float *x, VIEW_PARAMETERS(x), TILING_PARAMETERS, const int lines,
    const int pitch, const CF_LONG part, const int filter) {
  CF_LOCAL float units[UNITS * UNIT_STEP];
  const View view = VIEW(x);
  const Tiling tiling = TILING;
  const int item = (int)CF_LOCAL_ID(0), blocks = (pitch + UNITS - 1) / UNITS;
  const int line = (int)CF_GROUP_ID(0) / blocks, unit = (int)CF_GROUP_ID(0) % blocks * UNITS;
  read_tiles(units, x, view, tiling, line / lines, line % lines, unit);
  CF_BARRIER();
  const int row = item / UNITS;
  if (unit + row_unit(item) >= pitch) return;
  float re[TILE], im[TILE];
  take_row(units + row_unit(item) * UNIT_STEP, row, re, im);
  spectra += (CF_LONG)line * pitch + unit + row_unit(item);
  if (row > 0) {
    spectra += FIRST_POINT(row) * PARTS * part;
    FOR_UNROLLED(i, TILE) put_point(spectra + i * PARTS * part, part, re[i], im[i], filter, WEIGHT);
    return;
  }
  FOR_UNROLLED(i, EDGE_POINTS) {
    float low[2], high[2];
    untangle(re[i], im[i], re[OPPOSITE(i)], im[OPPOSITE(i)], low, high);
    put_point(spectra + (FIRST_POINT(0) + i) * PARTS * part, part, low[0], low[1], filter, WEIGHT);
    put_point(spectra + (FIRST_POINT(HALF) + i) * PARTS * part, part, high[0], high[1], filter, WEIGHT);
  }
}

// And back, from what the products gave. The same grid.
CF_KERNEL CF_WORK_GROUP_SIZE(GROUP, 1, 1) void fft_gpu_tensor(
    CF_GLOBAL const float *spectra, CF_GLOBAL float *y, VIEW_PARAMETERS(y), TILING_PARAMETERS, const int lines,
    const int pitch, const CF_LONG part, CF_EPILOGUE_PARAMETERS) {
  const Epilogue epilogue = CF_EPILOGUE(y);
  CF_LOCAL float units[UNITS * UNIT_STEP];
  const View view = VIEW(y);
  const Tiling tiling = TILING;
  const int item = (int)CF_LOCAL_ID(0), row = item / UNITS, blocks = (pitch + UNITS - 1) / UNITS;
  const int line = (int)CF_GROUP_ID(0) / blocks, unit = (int)CF_GROUP_ID(0) % blocks * UNITS;
  spectra += (CF_LONG)line * pitch + min(unit + row_unit(item), pitch - 1);
  float re[TILE], im[TILE];
  if (row > 0) {
    CF_GLOBAL const float *from = spectra + FIRST_POINT(row) * PARTS * part;
    FOR_UNROLLED(i, TILE) take_point(from + i * PARTS * part, part, re + i, im + i);
  } else {
    FOR_UNROLLED(i, EDGE_POINTS) {
      float low[2], high[2];
      take_point(spectra + (FIRST_POINT(0) + i) * PARTS * part, part, low, low + 1);
      take_point(spectra + (FIRST_POINT(HALF) + i) * PARTS * part, part, high, high + 1);
      tangle(low, high, i, re, im);
    }
  }
  put_row(units + row_unit(item) * UNIT_STEP, row, re, im);
  CF_BARRIER();
  write_tiles(units, y, view, tiling, line / lines, line % lines, unit, epilogue);
}
