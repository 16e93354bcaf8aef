// store_sum: w = sum + beta * w, from sums in single precision to the type of the weights.
//
// Work-items: elements.
#include "convfind_epilogue.h"

#ifndef DTYPE
#define DTYPE FLOAT16  // elements of w: FLOAT16, BFLOAT16, FLOAT32
#endif

CF_KERNEL void store_sum(CF_GLOBAL const float *CF_RESTRICT sums, CF_GLOBAL CF_TYPE(DTYPE) *CF_RESTRICT w,
                              const CF_LONG elements, CF_EPILOGUE_PARAMETERS) {
  const Epilogue epilogue = CF_EPILOGUE(w);
  for (CF_LONG i = CF_GLOBAL_ID(0); i < elements; i += CF_GLOBAL_SIZE(0)) {
    CF_STORE_RESULT(DTYPE, w + i, 0, sums[i], epilogue);
  }
}
