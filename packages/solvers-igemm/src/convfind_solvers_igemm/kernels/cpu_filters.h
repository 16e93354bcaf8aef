// y into panels for the gradient of the weights. The including kernel defines CHANNELS_LAST.
#ifndef CPU_FILTERS_H
#define CPU_FILTERS_H

#ifndef LEFT_FLOATS
#define LEFT_FLOATS 147456  // room for a block of y, at least share / MR * LEFT_PANEL: stays in the level-2 cache
#endif

#include "cpu_tile.h"

// Floats from one filter to the next in a block, from one position to the next, and from MR filters to the next;
// each with room for a vector's spill.
#if CHANNELS_LAST
#define LEFT_ROW 1
#define LEFT_STEP MR
#define LEFT_PANEL (DEPTH * MR + VEC)
#else
#define LEFT_ROW (DEPTH + VEC)
#define LEFT_STEP 1
#define LEFT_PANEL (MR * LEFT_ROW)
#endif

#if CHANNELS_LAST
#define ROWS_OF_Y 16  // whose filters lie side by side are read at a time

// Filters m0 .. m1 of `depth` positions into panels of MR. A vector store spills over into the next
// position, which is stored later.
INLINE void pack_left(float *left, __global const float *y, int m0, int m1, int p, int depth,
                      long y_pixel, long y_size) {
  for (int k0 = 0; k0 < depth; k0 += ROWS_OF_Y) {
    const int end = min(depth, k0 + ROWS_OF_Y);
    for (int m = m0; m < m1; m += MR) {
      float *panel = left + (m - m0) / MR * LEFT_PANEL;
      __global const float *from = y + p * y_pixel + m;
      if ((p + end - 1) * y_pixel + m + VEC <= y_size)
        for (int k = k0; k < end; k++) vstore16(vload16(0, from + k * y_pixel), 0, panel + k * MR);
      else
        for (int k = k0; k < end; k++)
          vstore16(load_part(from + k * y_pixel, min(VEC, m1 - m)), 0, panel + k * MR);
    }
  }
}
#else
// Filters m0 .. m1 of `depth` positions, a row each. A vector store spills over into the next image's
// positions, which are stored later.
INLINE void pack_left(float *left, __global const float *y, int m0, int m1, int p, int depth, int size,
                      long image, long y_size) {
  for (int k = 0; k < depth;) {
    const int at = (p + k) % size, count = min(depth - k, size - at);
    const long first = (p + k) / size * image + at;
    for (int m = m0; m < m1; m++) {
      const long from = first + (long)m * size;
      float *to = left + (m - m0) * LEFT_ROW + k;
      if (from + (count + VEC - 1) / VEC * VEC <= y_size)
        for (int i = 0; i < count; i += VEC) vstore16(vload16(0, y + from + i), 0, to + i);
      else
        for (int i = 0; i < count; i += VEC) vstore16(load_part(y + from + i, count - i), 0, to + i);
    }
    k += count;
  }
}
#endif

#endif  // CPU_FILTERS_H
