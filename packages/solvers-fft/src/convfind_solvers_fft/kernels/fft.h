// The Fourier transforms of one size of tiles. Whoever includes this has defined VALUE, INLINE and MULTIPLY_ADD.
#ifndef FFT_H
#define FFT_H

#ifndef TILE
#define TILE 16  // rows and columns of a tile: 16, 24, 32, 48, 64
#endif

#if TILE == 16
#include "fft_complex_16.h"
#include "fft_real_16.h"
#elif TILE == 24
#include "fft_complex_24.h"
#include "fft_real_24.h"
#elif TILE == 32
#include "fft_complex_32.h"
#include "fft_real_32.h"
#elif TILE == 48
#include "fft_complex_48.h"
#include "fft_real_48.h"
#else
#include "fft_complex_64.h"
#include "fft_real_64.h"
#endif

// The spectrum of a real tile has so many independent points: first the columns of frequencies 1 to HALF - 1, whole;
// then those of 0 and HALF, which are spectra of real numbers: frequencies 0 to HALF. A row that is transformed holds
// re of 0 to HALF, then im of 1 to HALF - 1.
#define HALF (TILE / 2)
#define POINTS (TILE * HALF + 2)
#define EDGE_POINTS (HALF + 1)
#define FIRST_POINT(column) \
  ((column) == 0 ? (HALF - 1) * TILE : (column) == HALF ? (HALF - 1) * TILE + EDGE_POINTS : ((column) - 1) * TILE)

#endif  // FFT_H
