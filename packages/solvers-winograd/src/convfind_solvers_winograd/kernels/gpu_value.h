// What a value is in the transforms on GPUs: a float; and the axes of a transform.
#ifndef GPU_VALUE_H
#define GPU_VALUE_H

#include "convfind_kernel.h"

#ifndef DTYPE
#define DTYPE FLOAT32  // elements of tensors: FLOAT32, FLOAT16; what is transformed is float32
#endif
#define ELEMENT CF_TYPE(DTYPE)
#ifndef ALONG_H
#define ALONG_H 1  // 0, 1: rows are transformed; if not, filters have one row, and so have tiles
#endif
#ifndef ALONG_W
#define ALONG_W 1  // 0, 1: the same of columns
#endif

#ifndef DILATED
#define DILATED 0  // 0, 1: whether taps lie apart
#endif

#define VALUE float
#define INLINE CF_INLINE
#define MULTIPLY_ADD(constant, value, addend) CF_FMA(constant, value, addend)

#define SIZE (OUTPUTS + TAPS - 1)
#define SIZE_H(size) (ALONG_H ? (size) : 1)  // rows of what has `size` places along a transformed axis
#define SIZE_W(size) (ALONG_W ? (size) : 1)
#define AREA(size) (SIZE_H(size) * SIZE_W(size))
#define POINTS AREA(SIZE)
#define FOR_UNROLLED(index, end) CF_UNROLL for (int index = 0; index < (end); ++index)

// As many values as `extent` makes along the transformed axes to as many as `results` makes.
#define TRANSFORM(function, from, extent, to, results)                         \
  do {                                                                         \
    const int across = SIZE_W(extent);                                         \
    VALUE between[SIZE_H(results) * SIZE_W(extent)];                           \
    FOR_UNROLLED(j, across) {                                                  \
      if (ALONG_H)                                                             \
        function((from) + j, across, between + j, across);                     \
      else                                                                     \
        between[j] = (from)[j];                                                \
    }                                                                          \
    FOR_UNROLLED(i, SIZE_H(results)) {                                         \
      if (ALONG_W)                                                             \
        function(between + i * across, 1, (to) + i * SIZE_W(results), 1);      \
      else                                                                     \
        (to)[i] = between[i];                                                  \
    }                                                                          \
  } while (0)

#endif  // GPU_VALUE_H
