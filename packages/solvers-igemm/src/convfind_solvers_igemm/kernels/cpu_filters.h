// y into panels for the gradient of the weights. The including kernel defines CHANNELS_LAST.
#ifndef CPU_FILTERS_H
#define CPU_FILTERS_H

#ifndef LEFT_FLOATS
#define LEFT_FLOATS 131072  // room for a block of y, at least share * DEPTH: stays in the level-2 cache
#endif

#include "cpu_tile.h"

#if CHANNELS_LAST
// Filters m0 .. m1 of `depth` positions into panels of MR. A vector store spills over into the next
// position, which is stored later.
INLINE void pack_left(float *left, __global const float *y, int m0, int m1, int p, int depth,
                      long y_pixel, long y_size) {
  for (int m = m0; m < m1; m += MR, left += DEPTH * MR) {
    const long at = p * y_pixel + m;
    for (int k = 0; k < depth; k++) {
      const bool whole = at + k * y_pixel + VEC <= y_size;
      vstore16(load_part(y + at + k * y_pixel, whole ? VEC : min(VEC, m1 - m)), 0, left + k * MR);
    }
  }
}
#else
// Filters m0 .. m1 of `depth` positions into panels of MR, through transposes. A vector store spills
// over into the next position, which is stored later.
INLINE void pack_left(float *left, __global const float *y, int m0, int m1, int p, int depth, int size,
                      long image, long y_size) {
  for (int m = m0; m < m1; m += MR, left += DEPTH * MR)
    for (int k = 0; k < depth;) {
      const int at = (p + k) % size, count = min(min(VEC, depth - k), size - at);
      const long from = (p + k) / size * image + (long)m * size + at;
      float16 square[VEC];
#pragma unroll
      for (int i = 0; i < VEC; i++) {
        square[i] = 0.0f;
        if (i < MR && m + i < m1) {
          PREFETCH(y + from + (long)i * size + 4 * VEC);
          const bool whole = from + (long)i * size + VEC <= y_size;
          square[i] = load_part(y + from + (long)i * size, whole ? VEC : count);
        }
      }
      transpose(square);
#pragma unroll
      for (int i = 0; i < VEC; i++)
        if (i < count) vstore16(square[i], 0, left + (k + i) * MR);
      k += count;
    }
}
#endif

#endif  // CPU_FILTERS_H
