// Activations of kernels for GPUs whose results may be rough, in front of convfind_epilogue.h: those of 16 bits are, so
// exponentials within 2^-22 of themselves do for them, and a GELU without a quotient.
#ifndef CONVFIND_ROUGH_ACTIVATION_H
#define CONVFIND_ROUGH_ACTIVATION_H

#include "convfind_kernel.h"

#ifndef DTYPE
#define DTYPE FLOAT32  // elements of results: FLOAT32, FLOAT16, BFLOAT16
#endif
#define CF_IS_ROUGH CF_JOIN(CF_IS_ROUGH_, DTYPE)
#define CF_IS_ROUGH_FLOAT32 0
#define CF_IS_ROUGH_FLOAT16 1
#define CF_IS_ROUGH_BFLOAT16 1

#if defined(__CUDACC_RTC__) && CF_IS_ROUGH
CF_INLINE float cf_quick_exp2(const float x) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
}
#else
#define cf_quick_exp2(x) CF_MATH(exp2)(x)
#endif
#if CF_IS_ROUGH
#define CF_EXP(x) cf_quick_exp2((x) * 1.44269504f)
#define cf_activation cf_thorough_activation  // the header's, whose place the one below takes
#endif
#include "convfind_activation.h"
#if CF_IS_ROUGH
#undef cf_activation
// The tail of GELU as a power of 2: |x| * tail is within 2^-18 of itself and 2^-31.
#undef CF_NORMAL_TAIL_FLOAT32
#define CF_NORMAL_TAIL_FLOAT32(type, tail, x)                                                                       \
  const type cf_size = CF_MATH(fabs)(x);                                                                            \
  const type cf_high = (-9.50233311e-7f * cf_size + 4.83241208e-5f) * cf_size - 8.53265308e-4f;                     \
  const type cf_middle = ((cf_high * cf_size + 8.28849802e-3f) * cf_size - 0.0536470057f) * cf_size - 0.458670857f; \
  const type tail = cf_quick_exp2((cf_middle * cf_size - 1.15120245f) * cf_size - 0.99999685f);
#ifdef CF_ACTIVATION
CF_DEFINE_ACTIVATION(cf_activation, CF_NUMBER)
#endif
#endif

#endif  // CONVFIND_ROUGH_ACTIVATION_H
