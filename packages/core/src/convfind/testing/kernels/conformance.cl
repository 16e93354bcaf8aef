// Small kernels, each for one thing that a backend does: the kernels of check_backend.
//
// conformance_functions.py has the same in Python, for backends that run functions instead.
#include "convfind_kernel.h"

#ifndef BUILD_FAILS
#define BUILD_FAILS 0  // 1: does not compile
#endif
#if BUILD_FAILS
#error told to fail
#endif

#ifndef VARIANT
#define VARIANT 0  // any whole number: programs that differ
#endif

#define GROUP 16  // work-items of a work-group that reverses

CF_KERNEL void conform_affine(CF_GLOBAL const float *x, CF_GLOBAL float *y, const float a, const float b,
                              const int count) {
  for (int i = CF_GLOBAL_ID(0); i < count; i += CF_GLOBAL_SIZE(0)) y[i] = a * x[i] + b;
}

// The arguments in an order that leaves gaps in a C structure.
CF_KERNEL void conform_scalars(CF_GLOBAL CF_LONG *y, const signed char i8, const float f32,
                               const unsigned char u8, const CF_LONG i64, const short i16,
                               const unsigned CF_LONG u64, const unsigned short u16, const int i32,
                               const unsigned int u32) {
  y[0] = i8;
  y[1] = (CF_LONG)f32;
  y[2] = u8;
  y[3] = i64;
  y[4] = i16;
  y[5] = (CF_LONG)u64;
  y[6] = u16;
  y[7] = i32;
  y[8] = u32;
}

CF_KERNEL void conform_reverse(CF_GLOBAL const float *x, CF_GLOBAL float *y) {
  CF_LOCAL float tile[GROUP];
  const int i = CF_LOCAL_ID(0);
  tile[i] = x[CF_GLOBAL_ID(0)];
  CF_BARRIER();
  y[CF_GLOBAL_ID(0)] = tile[GROUP - 1 - i];
}

CF_KERNEL void conform_reverse_given(CF_GLOBAL const float *x, CF_GLOBAL float *y,
                                     CF_LOCAL_PTR float *tile) {
  const int i = CF_LOCAL_ID(0);
  tile[i] = x[CF_GLOBAL_ID(0)];
  CF_BARRIER();
  y[CF_GLOBAL_ID(0)] = tile[GROUP - 1 - i];
}

CF_KERNEL void conform_coordinates(CF_GLOBAL int *y, const int size_0, const int size_1,
                                   const int size_2) {
  const int i = CF_GLOBAL_ID(0), j = CF_GLOBAL_ID(1), k = CF_GLOBAL_ID(2);
  if (i < size_0 && j < size_1 && k < size_2) y[(k * size_1 + j) * size_0 + i] = 100 * k + 10 * j + i;
}

CF_KERNEL void conform_digits(CF_GLOBAL const float *ones, CF_GLOBAL const float *tens,
                              CF_GLOBAL const float *hundreds, CF_GLOBAL float *y, const int count) {
  for (int i = CF_GLOBAL_ID(0); i < count; i += CF_GLOBAL_SIZE(0))
    y[i] = ones[i] + 10 * tens[i] + 100 * hundreds[i];
}
