// Weights of int8 as 16 * high + low, of which float32 holds longer sums exactly, and results joined.
//
// One work-item does `share` neighbouring elements.
#include "convfind_kernel.h"

#ifndef TO
#define TO INT32       // of the results: INT32, FLOAT32
#endif

#define ONE_ITEM __attribute__((reqd_work_group_size(1, 1, 1)))

// Both halves lie from -8 to 8.
__kernel ONE_ITEM void igemm_cpu_halve(__global const char *restrict from, __global float *restrict low,
                                       __global float *restrict high, const long size,
                                       const long share) {
  const long first = get_global_id(0) * share, end = min(size, first + share);
  for (long i = first; i < end; i++) {
    const int value = from[i], rest = ((value & 15) ^ 8) - 8;
    low[i] = rest;
    high[i] = (value - rest) / 16;
  }
}

__kernel ONE_ITEM void igemm_cpu_join(__global const float *restrict low,
                                      __global const float *restrict high,
                                      __global CF_TYPE(TO) *restrict to, const long size,
                                      const long share) {
  const long first = get_global_id(0) * share, end = min(size, first + share);
  for (long i = first; i < end; i++) to[i] = 16 * convert_int_rte(high[i]) + convert_int_rte(low[i]);
}
