// Tiles on GPUs: UNITS of them at a time are transformed by a work-group, each by HALF work-items.
//
// An item first transforms two columns of real numbers. Local memory turns the half spectra round, [frequency][column] as
// in fft.h, and the item transforms one row of complex numbers. Row 0 holds those of frequency 0 and HALF, which are
// real, as real and imaginary parts. The way back is the same, backwards.
#ifndef GPU_TILE_H
#define GPU_TILE_H

#include "convfind_kernel.h"

#define VALUE float
#define INLINE CF_INLINE
#define MULTIPLY_ADD(constant, value, addend) CF_FMA(constant, value, addend)
#include "fft.h"

#ifndef UNITS
#define UNITS 8  // tiles of a work-group: 1, 2, 4, 8
#endif

#define GROUP (UNITS * HALF)
#define PITCH (TILE + 1)
// Tiles lie so that neither way through local memory meets a bank twice: see column_unit and row_unit.
#define UNIT_STEP (TILE * PITCH + (36 - TILE * PITCH % 32) % 32)
#define FOR_UNROLLED(index, end) CF_UNROLL for (int index = 0; index < (end); ++index)

// Which tile an item has, while it works on columns `item % HALF` and HALF behind it: those of 32 items lie apart.
CF_INLINE int column_unit(int item) {
#if HALF < 32 && 32 % HALF == 0 && UNITS * HALF >= 32
  return item / HALF % (32 / HALF) * (GROUP / 32) + item / 32;
#else
  return item / HALF;
#endif
}

// While it works on row `item / UNITS`: neighbouring items have neighbouring tiles.
CF_INLINE int row_unit(int item) { return item % UNITS; }

// A column of numbers to its spectrum in local memory.
CF_INLINE void put_column(CF_LOCAL_PTR float *unit, int column, const float *numbers) {
  float spectrum[TILE];
  fft_real(numbers, 1, spectrum, spectrum + HALF, 1);
  FOR_UNROLLED(i, TILE) unit[i * PITCH + column] = spectrum[i];
}

// And back.
CF_INLINE void take_column(CF_LOCAL_PTR const float *unit, int column, float *numbers) {
  float spectrum[TILE];
  FOR_UNROLLED(i, TILE) spectrum[i] = unit[i * PITCH + column];
  fft_adjoint(spectrum, spectrum + HALF, 1, numbers, 1);
}

CF_INLINE void take_row(CF_LOCAL_PTR const float *unit, int row, float *re, float *im) {
  FOR_UNROLLED(j, TILE) re[j] = unit[row * PITCH + j];
  FOR_UNROLLED(j, TILE) im[j] = unit[(HALF + row) * PITCH + j];
  fft_complex(re, im, 1, re, im, 1);
}

CF_INLINE void put_row(CF_LOCAL_PTR float *unit, int row, float *re, float *im) {
  fft_complex(im, re, 1, im, re, 1);
  FOR_UNROLLED(j, TILE) unit[row * PITCH + j] = re[j];
  FOR_UNROLLED(j, TILE) unit[(HALF + row) * PITCH + j] = im[j];
}

// Row 0 after the transform, as two spectra of real numbers: number i of 0 to HALF, from itself and its opposite.
#define OPPOSITE(i) ((TILE - (i)) % TILE)
CF_INLINE void untangle(float re, float im, float other_re, float other_im, float *low, float *high) {
  low[0] = 0.5f * (re + other_re);
  low[1] = 0.5f * (im - other_im);
  high[0] = 0.5f * (im + other_im);
  high[1] = 0.5f * (other_re - re);
}

// And back; what `i` and its opposite have in common is halved, see WEIGHT.
CF_INLINE void tangle(const float *low, const float *high, int i, float *re, float *im) {
  re[OPPOSITE(i)] = 0.5f * (low[0] + high[1]);
  im[OPPOSITE(i)] = 0.5f * (high[0] - low[1]);
  re[i] = 0.5f * (low[0] - high[1]);
  im[i] = 0.5f * (low[1] + high[0]);
}

// What an operand's numbers are multiplied with so that the inverse needs no factors.
#define WEIGHT (2.0f / (TILE * TILE))

#endif  // GPU_TILE_H
