// Tensor cores of NVIDIA GPUs, from sm_80 on: inline PTX in OpenCL C.
//
// Factors are TF32 numbers, which have 11 bits. With PRODUCTS 3 each is split into a high and a low one, and all
// products but that of the low ones are added up, which leaves the precision of float32. Tensor cores truncate their
// sums, so these are short and go into registers with ordinary additions.
#ifndef GPU_MMA_H
#define GPU_MMA_H

#include "convfind_kernel.h"
#include "gpu_copies.h"

#ifndef PRODUCTS
#define PRODUCTS 3  // 3: as precise as float32; 1: as TF32
#endif

// sum += a * b for 16 x 8 x 8 elements; MULTIPLY: sum = a * b.
#define MULTIPLY_ADD_TO(sum, a, b)                                                                               \
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" \
      : "+f"((sum)[0]), "+f"((sum)[1]), "+f"((sum)[2]), "+f"((sum)[3])                                        \
      : "r"((a)[0]), "r"((a)[1]), "r"((a)[2]), "r"((a)[3]), "r"((b)[0]), "r"((b)[1]))
#define MULTIPLY(sum, a, b)                                                                                         \
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%10,%10,%10};" \
      : "=f"((sum)[0]), "=f"((sum)[1]), "=f"((sum)[2]), "=f"((sum)[3])                                              \
      : "r"((a)[0]), "r"((a)[1]), "r"((a)[2]), "r"((a)[3]), "r"((b)[0]), "r"((b)[1]), "f"(0.0f))

// The nearest TF32 number, and what is left of the value, of which tensor cores read the upper bits.
// Whole-number arithmetic is quicker than the conversion; a NaN that it loses is still in what is left.
CF_INLINE CF_UINT high_of(float value) {
#if PRODUCTS == 1
  CF_UINT high;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(high) : "f"(value));
  return high;
#else
  return (CF_AS_UINT(value) + 0x1000u) & 0xffffe000u;
#endif
}
CF_INLINE CF_UINT low_of(float value, CF_UINT high) { return CF_AS_UINT(value - CF_AS_FLOAT(high)); }

#endif  // GPU_MMA_H
