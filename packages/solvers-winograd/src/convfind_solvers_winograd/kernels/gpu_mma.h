// Tensor cores of NVIDIA GPUs, from sm_80 on: inline PTX in OpenCL C.
//
// Factors are TF32 numbers, which have 11 bits. With PRODUCTS 3 each is split into a high and a low one, and all
// products but that of the low ones are added up, which leaves the precision of float32. Tensor cores truncate their
// sums, so these are short and go into registers with ordinary additions.
#ifndef GPU_MMA_H
#define GPU_MMA_H

#include "convfind_nvidia.h"

#ifndef PRODUCTS
#define PRODUCTS 3  // 3: as precise as float32; 1: as TF32
#endif

// sum = a * b for 16 x 8 x 8 elements; CF_MMA adds.
#define MULTIPLY(sum, a, b)                                                                                         \
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%10,%10,%10};" \
      : "=f"((sum)[0]), "=f"((sum)[1]), "=f"((sum)[2]), "=f"((sum)[3])                                              \
      : "r"((a)[0]), "r"((a)[1]), "r"((a)[2]), "r"((a)[3]), "r"((b)[0]), "r"((b)[1]), "f"(0.0f))

// The nearest TF32 number, and what is left of the value, of which tensor cores read the upper bits.
#if PRODUCTS == 1
#define HIGH_OF(value) cf_tf32_nearest(CF_AS_UINT(value))
#else
#define HIGH_OF(value) cf_tf32_high(CF_AS_UINT(value))
#endif
#define LOW_OF(value, high) cf_tf32_low(CF_AS_UINT(value), high)

#endif  // GPU_MMA_H
