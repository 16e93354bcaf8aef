// operators-gather: elements of x chosen by number along one of its axes, in any type.
//
// The walk goes over y; x has no step along what the indices take the place of.
#include "walk.h"

#ifndef BYTES
#define BYTES 4  // of an element: 1, 2, 4 or 8
#endif
#ifndef INDEX
#define INDEX CF_LONG  // of an index: int or CF_LONG
#endif

#define ELEMENT CF_JOIN(ELEMENT_OF_, BYTES)
#define ELEMENT_OF_1 unsigned char
#define ELEMENT_OF_2 CF_USHORT
#define ELEMENT_OF_4 CF_UINT
#define ELEMENT_OF_8 CF_LONG

// Numbers below zero count from the end; those out of range choose the first or the last.
CF_KERNEL void operators_gather(CF_GLOBAL const ELEMENT *x, STEPS(x), CF_GLOBAL const INDEX *indices, STEPS(indices),
                                CF_GLOBAL ELEMENT *y, STEPS(y), ROW_SIZES, const int length, const CF_LONG all,
                                const CF_LONG size, const CF_LONG step) {
  for (CF_LONG index = CF_GLOBAL_ID(0); index < all; index += CF_GLOBAL_SIZE(0)) {
    const int i = index % length;
    const Row row = ROW_OF(index / length);
    CF_LONG chosen = indices[ROW_START(indices, row) + i * indices_step];
    if (chosen < 0) chosen += size;
    chosen = chosen < 0 ? 0 : chosen >= size ? size - 1 : chosen;
    y[ROW_START(y, row) + i * y_step] = x[ROW_START(x, row) + i * x_step + chosen * step];
  }
}
