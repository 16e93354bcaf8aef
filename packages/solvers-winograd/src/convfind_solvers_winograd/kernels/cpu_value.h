// Values on CPU devices: a vector of channels or filters in the transforms, and elements of tensors.
#ifndef CPU_VALUE_H
#define CPU_VALUE_H

#include "convfind_cpu_vector.h"

#ifndef HALF
#define HALF 0  // 0, 1: whether tensors are of float16, which is converted where it is read and written
#endif

#define VALUE float16
#define MULTIPLY_ADD(constant, value, addend) fma((float16)(constant), value, addend)

#if HALF
#define ELEMENT half
#define ELEMENT_TYPE FLOAT16
#define LOAD_ELEMENT(pointer) vload_half(0, pointer)
#define LOAD_ELEMENTS(pointer) vload_half16(0, pointer)
#define LOAD_PART load_half_part
#define STORE_PART store_half_part

INLINE float16 load_half_part(__global const half *source, int count) {
  if (count >= VEC) return vload_half16(0, source);
  float part[VEC];
  for (int i = 0; i < VEC; i++) part[i] = i < count ? vload_half(i, source) : 0.0f;
  return vload16(0, part);
}

INLINE void store_half_part(float16 sum, __global half *y, int count, float16 bias, const Epilogue epilogue) {
  float16 value = BIASED(sum, bias, epilogue);
  if (CF_ADDS_Z(epilogue))
    value = fma((float16)(epilogue.beta), load_half_part(CF_Z_OF(y, epilogue), count), value);
  value = activated(value, epilogue);
#ifdef CF_Z_LAST
  value = fma((float16)(epilogue.beta_last), load_half_part(CF_Z_LAST_OF(y, epilogue), count), value);
#endif
  if (count >= VEC) {
    vstore_half16_rte(value, 0, y);
    return;
  }
  float part[VEC];
  vstore16(value, 0, part);
  for (int i = 0; i < count; i++) vstore_half_rte(part[i], i, y);
}
#else
#define ELEMENT float
#define ELEMENT_TYPE FLOAT32
#define LOAD_ELEMENT(pointer) (*(pointer))
#define LOAD_ELEMENTS(pointer) vload16(0, pointer)
#define LOAD_PART load_part
#define STORE_PART store_part
#endif

#endif  // CPU_VALUE_H
