// The vocabulary of shared kernels: one source, OpenCL C 1.2, HIP C++ and CUDA C++.
// A shared kernel uses these words and no vector literal, swizzle or image; see docs/writing-a-solver.md.
#ifndef CONVFIND_KERNEL_H
#define CONVFIND_KERNEL_H

#ifdef __OPENCL_VERSION__

#define CF_KERNEL __kernel
#define CF_GLOBAL __global          // pointer to device memory
#define CF_LOCAL __local            // declaration of an array shared by the work-group
#define CF_LOCAL_PTR __local        // pointer to such an array
#define CF_CONSTANT __constant      // table at file scope
#define CF_RESTRICT restrict
#define CF_INLINE static inline
#define CF_WORK_GROUP_SIZE(x, y, z) __attribute__((reqd_work_group_size(x, y, z)))
#define CF_UNROLL _Pragma("unroll")
#define CF_UNROLL_READS CF_UNROLL   // before a loop that reads local memory at each step

#define CF_GLOBAL_ID(axis) get_global_id(axis)
#define CF_GROUP_ID(axis) get_group_id(axis)
#define CF_LOCAL_ID(axis) get_local_id(axis)
#define CF_GLOBAL_SIZE(axis) get_global_size(axis)
#define CF_BARRIER() barrier(CLK_LOCAL_MEM_FENCE)

#define CF_FMA(a, b, c) fma(a, b, c)
#define CF_MULTIPLY_ADD_SMALL(a, b, c) ((a) * (b) + (c))  // of whole numbers; the factors fit 24 bits

#ifndef CF_DP4A
#define CF_DP4A 0  // 1: NVIDIA's compiler, for sm_61 or later: CF_DOT4 is one instruction
#endif

// Four neighbouring floats between memory, aligned to 16 bytes, and an array of private floats. A
// dereferenced float4 and not vload4, which promises 4-byte alignment only: compilers may split it.
#define CF_LOAD4(array, pointer) CF_LOAD4_FROM(__global, array, pointer)
#define CF_LOAD4_LOCAL(array, pointer) CF_LOAD4_FROM(__local, array, pointer)
#define CF_STORE4(pointer, array) CF_STORE4_TO(__global, pointer, array)
#define CF_STORE4_LOCAL(pointer, array) CF_STORE4_TO(__local, pointer, array)

#define CF_LOAD4_FROM(space, array, pointer)                     \
  do {                                                           \
    const float4 cf_quad = *(space const float4 *)(pointer);     \
    (array)[0] = cf_quad.x;                                      \
    (array)[1] = cf_quad.y;                                      \
    (array)[2] = cf_quad.z;                                      \
    (array)[3] = cf_quad.w;                                      \
  } while (0)
#define CF_STORE4_TO(space, pointer, array)                      \
  do {                                                           \
    float4 cf_quad;                                              \
    cf_quad.x = (array)[0];                                      \
    cf_quad.y = (array)[1];                                      \
    cf_quad.z = (array)[2];                                      \
    cf_quad.w = (array)[3];                                      \
    *(space float4 *)(pointer) = cf_quad;                        \
  } while (0)

#define CF_LONG long                // 64 bits: offsets in tensors that may pass 2^31 elements
#define CF_UINT uint
#define CF_USHORT ushort
#define CF_HALF half                // only to point at; CF_LOAD and CF_STORE convert
#define CF_SHARED(pointer) ((CF_UINT)(size_t)(pointer))  // address of local memory as PTX counts it
#define CF_AS_FLOAT(bits) as_float(bits)
#define CF_AS_UINT(number) as_uint(number)
#define CF_LOAD_HALF(pointer, index) vload_half(index, pointer)
#define CF_STORE_HALF(pointer, index, value) vstore_half_rte(value, index, pointer)

#endif  // __OPENCL_VERSION__

#if defined(__HIPCC_RTC__) || defined(__CUDACC_RTC__)

#define CF_KERNEL extern "C" __global__
#define CF_GLOBAL
#define CF_LOCAL __shared__ __attribute__((aligned(16)))
#define CF_LOCAL_PTR
#define CF_CONSTANT __constant__ const
#define CF_RESTRICT __restrict__
#define CF_INLINE static __device__ __forceinline__
#define CF_UNROLL _Pragma("unroll")
#ifdef __AMDGCN__
// AMD's compiler reads first whatever it sees, and where it sees all steps it runs out of registers.
#define CF_UNROLL_READS _Pragma("unroll 2")
#else
#define CF_UNROLL_READS CF_UNROLL
#endif

#define CF_GLOBAL_ID(axis) (CF_GROUP_ID(axis) * CF_LOCAL_SIZE(axis) + CF_LOCAL_ID(axis))
#define CF_GROUP_ID(axis) CF_OF_AXIS(blockIdx, axis)
#define CF_LOCAL_ID(axis) CF_OF_AXIS(threadIdx, axis)
#define CF_LOCAL_SIZE(axis) CF_OF_AXIS(blockDim, axis)
#define CF_GLOBAL_SIZE(axis) (CF_OF_AXIS(gridDim, axis) * CF_LOCAL_SIZE(axis))
#define CF_OF_AXIS(triple, axis) ((size_t)((axis) == 0 ? triple.x : (axis) == 1 ? triple.y : triple.z))
#define CF_BARRIER() __syncthreads()

#define CF_FMA(a, b, c) cf_fma(a, b, c)
CF_INLINE float cf_fma(float a, float b, float c) { return fmaf(a, b, c); }
CF_INLINE double cf_fma(double a, double b, double c) { return fma(a, b, c); }

// The compiler sees from the pointer's origin which memory it is.
#define CF_LOAD4(array, pointer)                                 \
  do {                                                           \
    const float4 cf_quad = *(const float4 *)(pointer);           \
    (array)[0] = cf_quad.x;                                      \
    (array)[1] = cf_quad.y;                                      \
    (array)[2] = cf_quad.z;                                      \
    (array)[3] = cf_quad.w;                                      \
  } while (0)
#define CF_STORE4(pointer, array)                                \
  (*(float4 *)(pointer) = make_float4((array)[0], (array)[1], (array)[2], (array)[3]))
#define CF_LOAD4_LOCAL(array, pointer) CF_LOAD4(array, pointer)
#define CF_STORE4_LOCAL(pointer, array) CF_STORE4(pointer, array)

#define CF_LONG long long
#define CF_UINT unsigned int
#define CF_USHORT unsigned short
#define CF_AS_FLOAT(bits) __uint_as_float(bits)
#define CF_AS_UINT(number) __float_as_uint(number)

#endif  // __HIPCC_RTC__ || __CUDACC_RTC__

#ifdef __HIPCC_RTC__

#define CF_WORK_GROUP_SIZE(x, y, z) __launch_bounds__((x) * (y) * (z))
#define CF_MULTIPLY_ADD_SMALL(a, b, c) (__mul24(a, b) + (c))  // 32-bit products take 64-bit sums on gfx9
#define CF_HALF _Float16
#define CF_LOAD_HALF(pointer, index) ((float)(pointer)[index])
#define CF_STORE_HALF(pointer, index, value) ((pointer)[index] = (_Float16)(value))

// Work-items of a wave.
#define CF_WAVE_SIZE __AMDGCN_WAVEFRONT_SIZE
#if defined(__gfx908__) || defined(__gfx90a__) || defined(__gfx940__) || defined(__gfx941__) || \
    defined(__gfx942__) || defined(__gfx950__)
#define CF_MFMA 1
#endif
#if CF_MFMA || defined(__gfx906__) || defined(__gfx1030__) || defined(__gfx1031__) || defined(__gfx1032__)
#define CF_DOT4(a, b, c) __builtin_amdgcn_sdot4((int)(a), (int)(b), c, false)
#elif defined(__gfx1100__) || defined(__gfx1101__) || defined(__gfx1102__)
#define CF_DOT4(a, b, c) __builtin_amdgcn_sudot4(true, (int)(a), true, (int)(b), c, false)
#endif

#endif  // __HIPCC_RTC__

#ifdef __CUDACC_RTC__

typedef unsigned long long ulong;

// In a header that the compiler need not have.
#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fffffff)

// The compiler ignores its option for registers where it knows the size of a work-group, and takes one of the two here.
#ifdef CF_MOST_REGISTERS
#define CF_WORK_GROUP_SIZE(x, y, z) __maxnreg__(CF_MOST_REGISTERS)
#else
#define CF_WORK_GROUP_SIZE(x, y, z) __launch_bounds__((x) * (y) * (z))
#endif
#define CF_MULTIPLY_ADD_SMALL(a, b, c) ((a) * (b) + (c))
#define CF_SHARED(pointer) ((CF_UINT)__cvta_generic_to_shared(pointer))
#define CF_HALF CfHalf
#define CF_LOAD_HALF(pointer, index) cf_float_of((pointer)[index])
#define CF_STORE_HALF(pointer, index, value) ((pointer)[index] = cf_half_of(value))

// A half as it lies in memory: CUDA's own type is in a header that the compiler need not have.
struct CfHalf {
  unsigned short bits;
};
CF_INLINE float cf_float_of(const CfHalf half) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(half.bits));
  return value;
}
CF_INLINE CfHalf cf_half_of(const float value) {
  CfHalf half;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half.bits) : "f"(value));
  return half;
}

#define CF_WAVE_SIZE 32
#define CF_DOT4(a, b, c) __dp4a((int)(a), (int)(b), c)

#endif  // __CUDACC_RTC__

#ifndef CF_MFMA
#define CF_MFMA 0  // 1: the device multiplies matrices with MFMA instructions, see convfind_gpu_mfma.h
#endif

// Elements of tensors by the upper-case name of their data type: FLOAT64, FLOAT32, FLOAT16,
// BFLOAT16, INT8 or INT32. CF_LOAD gives a float (FLOAT64: double; INT8, INT32: int) and CF_STORE
// takes one. No device extension is needed except for FLOAT64.
#define CF_TYPE(dtype) CF_JOIN(CF_TYPE_, dtype)
#define CF_LOAD(dtype, pointer, index) CF_JOIN(CF_LOAD_, dtype)(pointer, index)
#define CF_STORE(dtype, pointer, index, value) CF_JOIN(CF_STORE_, dtype)(pointer, index, value)
#define CF_JOIN(left, right) CF_JOIN_EXPANDED(left, right)
#define CF_JOIN_EXPANDED(left, right) left##right

#define CF_TYPE_FLOAT64 double
#define CF_TYPE_FLOAT32 float
#define CF_TYPE_FLOAT16 CF_HALF
#define CF_TYPE_BFLOAT16 CF_USHORT
#define CF_TYPE_INT8 signed char
#define CF_TYPE_INT32 int

#define CF_LOAD_FLOAT64(pointer, index) ((pointer)[index])
#define CF_LOAD_FLOAT32(pointer, index) ((pointer)[index])
#define CF_LOAD_FLOAT16(pointer, index) CF_LOAD_HALF(pointer, index)
#define CF_LOAD_BFLOAT16(pointer, index) CF_AS_FLOAT((CF_UINT)(pointer)[index] << 16)
#define CF_LOAD_INT8(pointer, index) ((int)(pointer)[index])
#define CF_LOAD_INT32(pointer, index) ((pointer)[index])

#define CF_STORE_FLOAT64(pointer, index, value) ((pointer)[index] = (value))
#define CF_STORE_FLOAT32(pointer, index, value) ((pointer)[index] = (value))
#define CF_STORE_FLOAT16(pointer, index, value) CF_STORE_HALF(pointer, index, value)
#define CF_STORE_BFLOAT16(pointer, index, value) ((pointer)[index] = cf_bfloat16(value))
#define CF_STORE_INT8(pointer, index, value) ((pointer)[index] = (signed char)(value))
#define CF_STORE_INT32(pointer, index, value) ((pointer)[index] = (value))

// An element, or four floats, of memory whose elements nobody writes but who has read them. NVIDIA's compilers keep a
// read behind all stores before it, which may be to the same place; so each would wait for the one before.
#if defined(__CUDACC_RTC__) || defined(__NV_CL_C_VERSION)
#define CF_LOAD_EARLY(dtype, pointer) CF_JOIN(cf_early_, dtype)(pointer)
#define CF_EARLY(dtype, type, kind, constraint)                                          \
  CF_INLINE type cf_early_##dtype(CF_GLOBAL const CF_TYPE(dtype) * from) {               \
    type value;                                                                          \
    asm("ld.global.nc." kind " %0, [%1];" : "=" constraint(value) : "l"(from));          \
    return value;                                                                        \
  }
CF_EARLY(FLOAT32, float, "f32", "f")
CF_EARLY(INT32, int, "s32", "r")
CF_EARLY(INT8, int, "s8", "r")
CF_EARLY(FLOAT64, double, "f64", "d")
CF_INLINE float cf_early_BFLOAT16(CF_GLOBAL const CF_USHORT *from) {
  CF_UINT bits;
  asm("ld.global.nc.u16 %0, [%1];" : "=r"(bits) : "l"(from));
  return CF_AS_FLOAT(bits << 16);
}
CF_INLINE float cf_early_FLOAT16(CF_GLOBAL const CF_HALF *from) {
  float value;
  asm("{.reg .b16 bits; ld.global.nc.b16 bits, [%1]; cvt.f32.f16 %0, bits;}" : "=f"(value) : "l"(from));
  return value;
}
CF_INLINE void cf_four_early(float *to, CF_GLOBAL const float *from) {
  asm("ld.global.nc.v4.f32 {%0,%1,%2,%3}, [%4];" : "=f"(to[0]), "=f"(to[1]), "=f"(to[2]), "=f"(to[3]) : "l"(from));
}
#define CF_LOAD4_EARLY(array, pointer) cf_four_early(array, (CF_GLOBAL const float *)(pointer))
#else
#define CF_LOAD_EARLY(dtype, pointer) CF_LOAD(dtype, pointer, 0)
#define CF_LOAD4_EARLY(array, pointer) CF_LOAD4(array, pointer)
#endif

// The upper half of a float, rounded to nearest, ties to even; a NaN stays one.
CF_INLINE CF_USHORT cf_bfloat16(float value) {
  const CF_UINT bits = CF_AS_UINT(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return (CF_USHORT)((bits >> 16) | 0x40u);
  return (CF_USHORT)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

// The sum of four products and c, whole numbers: a and b are words of four signed bytes.
#ifndef CF_DOT4
#define CF_DOT4(a, b, c) cf_dot4((CF_UINT)(a), (CF_UINT)(b), c)
CF_INLINE int cf_dot4(CF_UINT a, CF_UINT b, int c) {
#if CF_DP4A
  int sum;
  asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(b), "r"(c));
  return sum;
#else
  CF_UNROLL
  for (int bit = 0; bit < 32; bit += 8)
    c = CF_MULTIPLY_ADD_SMALL((int)(signed char)(a >> bit), (int)(signed char)(b >> bit), c);
  return c;
#endif
}
#endif

#endif  // CONVFIND_KERNEL_H
