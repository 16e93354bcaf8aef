// What a value is in the transforms on GPUs: a float; and both axes of a transform.
#ifndef GPU_VALUE_H
#define GPU_VALUE_H

#include "convfind_kernel.h"

#ifndef DTYPE
#define DTYPE FLOAT32  // elements of tensors: FLOAT32, FLOAT16; what is transformed is float32
#endif
#define ELEMENT CF_TYPE(DTYPE)

#define VALUE float
#define INLINE CF_INLINE
#define MULTIPLY_ADD(constant, value, addend) CF_FMA(constant, value, addend)

#define SIZE (OUTPUTS + TAPS - 1)
#define POINTS (SIZE * SIZE)
#define FOR_UNROLLED(index, end) CF_UNROLL for (int index = 0; index < (end); ++index)

// extent x extent values to results x results.
#define TRANSFORM(function, from, extent, to, results)                                   \
  do {                                                                                   \
    VALUE between[(results) * (extent)];                                                 \
    FOR_UNROLLED(j, extent) function(from + j, extent, between + j, extent);             \
    FOR_UNROLLED(i, results) function(between + i * (extent), 1, to + i * (results), 1); \
  } while (0)

#endif  // GPU_VALUE_H
