// Half a vector of filters, which is what may be left of them: where registers are of 8 floats, half a tile.
#ifndef CPU_HALF_H
#define CPU_HALF_H

#include "convfind_cpu_vector.h"

#define HALF (VEC / 2)

// The results of half a vector of sums.
INLINE void store_half(float8 sum, __global float *y, float16 bias, const Epilogue epilogue) {
  const float8 none = 0.0f;
  float16 value = BIASED((float16)(sum, none), bias, epilogue);
  if (CF_ADDS_Z(epilogue))
    value = fma((float16)(epilogue.beta), (float16)(vload8(0, Z_OF(y, epilogue)), none), value);
  vstore8(finished(value, y, 8, epilogue).lo, 0, y);
}

#endif  // CPU_HALF_H
