// hip_gemm_store: w = sum + beta * w, from sums in single precision to the type of the weights.
//
// Work-items: elements. With a beta of 0 the weights are never read.
#include "convfind_kernel.h"

#ifndef DTYPE
#define DTYPE FLOAT16  // elements of w: FLOAT16, BFLOAT16, FLOAT32
#endif

CF_KERNEL void hip_gemm_store(CF_GLOBAL const float *CF_RESTRICT sums, CF_GLOBAL CF_TYPE(DTYPE) *CF_RESTRICT w,
                              const CF_LONG elements, const float beta) {
  for (CF_LONG i = CF_GLOBAL_ID(0); i < elements; i += CF_GLOBAL_SIZE(0)) {
    const float value = beta != 0.0f ? CF_FMA(beta, CF_LOAD(DTYPE, w, i), sums[i]) : sums[i];
    CF_STORE(DTYPE, w, i, value);
  }
}
