// What `convfind_cpu_vector.h` does with vectors.
#include "convfind_cpu_vector.h"

__kernel ONE_ITEM void turned(__global const float *x, __global float *y) {
  float16 rows[VEC];
#pragma unroll
  for (int i = 0; i < VEC; i++) rows[i] = vload16(i, x);
  transpose(rows);
#pragma unroll
  for (int i = 0; i < VEC; i++) vstore16(rows[i], i, y);
}
