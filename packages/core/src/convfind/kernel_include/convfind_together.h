// Neighbouring elements on GPUs, between memory and private arrays of numbers: one load or store of 2, 4 or 8 of 16-bit types,
// or of 2 or 4 floats. They begin at multiples of as many.
#ifndef CONVFIND_TOGETHER_H
#define CONVFIND_TOGETHER_H

#include "convfind_kernel.h"

// Numbers of FLOAT32, FLOAT16 or BFLOAT16 in global memory; `count` is a literal, or a macro for one.
#define CF_LOAD_TOGETHER(dtype, count, array, pointer) CF_TOGETHER(CF_LOAD_, dtype, count)(array, pointer)
#define CF_STORE_TOGETHER(dtype, count, pointer, array) CF_TOGETHER(CF_STORE_, dtype, count)(pointer, array)
// Loads in two steps: CF_PACKED is the type of what lies in memory, of half as many bytes as numbers where these have 16
// bits; a variable of it becomes numbers where it is used. CF_PACKED_ZERO has zeros alone.
#define CF_PACKED(dtype, count) CF_TOGETHER(CF_PACKED_, dtype, count)
#define CF_LOAD_PACKED(dtype, count, pointer) (*(CF_GLOBAL const CF_PACKED(dtype, count) *)(pointer))
#define CF_UNPACK(dtype, count, array, packed) CF_TOGETHER(CF_UNPACK_, dtype, count)(array, packed)
#define CF_TOGETHER(doing, dtype, count) CF_TOGETHER_EXPANDED(doing, dtype, count)
#define CF_TOGETHER_EXPANDED(doing, dtype, count) doing##dtype##_BY_##count

#define CF_LOAD_FLOAT32_BY_4(array, pointer) CF_LOAD4(array, pointer)
#define CF_STORE_FLOAT32_BY_4(pointer, array) CF_STORE4(pointer, array)

#ifdef __OPENCL_VERSION__

#define CF_LOAD_FLOAT32_BY_2(array, pointer) CF_SPREAD_2(array, *(CF_GLOBAL const float2 *)(pointer))
#define CF_LOAD_FLOAT16_BY_2(array, pointer) CF_SPREAD_2(array, vloada_half2(0, pointer))
#define CF_LOAD_FLOAT16_BY_4(array, pointer) CF_SPREAD_4(array, vloada_half4(0, pointer))
#define CF_LOAD_FLOAT16_BY_8(array, pointer) CF_SPREAD_8(array, vloada_half8(0, pointer))
#define CF_LOAD_BFLOAT16_BY_2(array, pointer) CF_SPREAD_2(array, CF_WIDENED(2, pointer))
#define CF_LOAD_BFLOAT16_BY_4(array, pointer) CF_SPREAD_4(array, CF_WIDENED(4, pointer))
#define CF_LOAD_BFLOAT16_BY_8(array, pointer) CF_SPREAD_8(array, CF_WIDENED(8, pointer))
#define CF_STORE_FLOAT32_BY_2(pointer, array) (*(CF_GLOBAL float2 *)(pointer) = CF_GATHER_2(float2, , array))
#define CF_STORE_FLOAT16_BY_2(pointer, array) vstorea_half2_rte(CF_GATHER_2(float2, , array), 0, pointer)
#define CF_STORE_FLOAT16_BY_4(pointer, array) vstorea_half4_rte(CF_GATHER_4(float4, , array), 0, pointer)
#define CF_STORE_FLOAT16_BY_8(pointer, array) vstorea_half8_rte(CF_GATHER_8(float8, , array), 0, pointer)
#define CF_STORE_BFLOAT16_BY_2(pointer, array) \
  (*(CF_GLOBAL ushort2 *)(pointer) = CF_GATHER_2(ushort2, cf_bfloat16, array))
#define CF_STORE_BFLOAT16_BY_4(pointer, array) \
  (*(CF_GLOBAL ushort4 *)(pointer) = CF_GATHER_4(ushort4, cf_bfloat16, array))
#define CF_STORE_BFLOAT16_BY_8(pointer, array) \
  (*(CF_GLOBAL ushort8 *)(pointer) = CF_GATHER_8(ushort8, cf_bfloat16, array))

#define CF_PACKED_FLOAT32_BY_1 float
#define CF_PACKED_FLOAT32_BY_2 float2
#define CF_PACKED_FLOAT32_BY_4 float4
#define CF_PACKED_FLOAT16_BY_2 ushort2
#define CF_PACKED_FLOAT16_BY_4 ushort4
#define CF_PACKED_BFLOAT16_BY_2 ushort2
#define CF_PACKED_BFLOAT16_BY_4 ushort4
#define CF_UNPACK_FLOAT32_BY_1(array, packed) ((array)[0] = (packed))
#define CF_UNPACK_FLOAT32_BY_2(array, packed) CF_SPREAD_2(array, packed)
#define CF_UNPACK_FLOAT32_BY_4(array, packed) CF_SPREAD_4(array, packed)
#define CF_UNPACK_FLOAT16_BY_2(array, packed) CF_SPREAD_2(array, vload_half2(0, (__private const half *)&(packed)))
#define CF_UNPACK_FLOAT16_BY_4(array, packed) CF_SPREAD_4(array, vload_half4(0, (__private const half *)&(packed)))
#define CF_UNPACK_BFLOAT16_BY_2(array, packed) CF_SPREAD_2(array, CF_WIDE(2, packed))
#define CF_UNPACK_BFLOAT16_BY_4(array, packed) CF_SPREAD_4(array, CF_WIDE(4, packed))

#define CF_PACKED_ZERO(dtype, count) ((CF_PACKED(dtype, count))(0))
#define CF_WIDE(count, packed) as_float##count(convert_uint##count(packed) << 16)
#define CF_WIDENED(count, pointer) CF_WIDE(count, *(CF_GLOBAL const ushort##count *)(pointer))
#define CF_SPREAD_2(array, vector)  \
  do {                              \
    const float2 cf_vector = vector; \
    (array)[0] = cf_vector.s0;      \
    (array)[1] = cf_vector.s1;      \
  } while (0)
#define CF_SPREAD_4(array, vector)   \
  do {                               \
    const float4 cf_vector = vector; \
    (array)[0] = cf_vector.s0;       \
    (array)[1] = cf_vector.s1;       \
    (array)[2] = cf_vector.s2;       \
    (array)[3] = cf_vector.s3;       \
  } while (0)
#define CF_SPREAD_8(array, vector)   \
  do {                               \
    const float8 cf_vector = vector; \
    (array)[0] = cf_vector.s0;       \
    (array)[1] = cf_vector.s1;       \
    (array)[2] = cf_vector.s2;       \
    (array)[3] = cf_vector.s3;       \
    (array)[4] = cf_vector.s4;       \
    (array)[5] = cf_vector.s5;       \
    (array)[6] = cf_vector.s6;       \
    (array)[7] = cf_vector.s7;       \
  } while (0)
#define CF_GATHER_2(type, rounded, array) ((type)(rounded((array)[0]), rounded((array)[1])))
#define CF_GATHER_4(type, rounded, array) \
  ((type)(rounded((array)[0]), rounded((array)[1]), rounded((array)[2]), rounded((array)[3])))
#define CF_GATHER_8(type, rounded, array)                                                     \
  ((type)(rounded((array)[0]), rounded((array)[1]), rounded((array)[2]), rounded((array)[3]), \
          rounded((array)[4]), rounded((array)[5]), rounded((array)[6]), rounded((array)[7])))

#else

template <typename Element, int COUNT>
struct alignas(COUNT * sizeof(Element)) cf_Together {
  Element at[COUNT];
};

#define CF_LOAD_FLOAT32_BY_2(array, pointer) CF_LOAD_COUNTED(FLOAT32, 2, array, pointer)
#define CF_LOAD_FLOAT16_BY_2(array, pointer) CF_LOAD_COUNTED(FLOAT16, 2, array, pointer)
#define CF_LOAD_FLOAT16_BY_4(array, pointer) CF_LOAD_COUNTED(FLOAT16, 4, array, pointer)
#define CF_LOAD_FLOAT16_BY_8(array, pointer) CF_LOAD_COUNTED(FLOAT16, 8, array, pointer)
#define CF_LOAD_BFLOAT16_BY_2(array, pointer) CF_LOAD_COUNTED(BFLOAT16, 2, array, pointer)
#define CF_LOAD_BFLOAT16_BY_4(array, pointer) CF_LOAD_COUNTED(BFLOAT16, 4, array, pointer)
#define CF_LOAD_BFLOAT16_BY_8(array, pointer) CF_LOAD_COUNTED(BFLOAT16, 8, array, pointer)
#define CF_STORE_FLOAT32_BY_2(pointer, array) CF_STORE_COUNTED(FLOAT32, 2, pointer, array)
#define CF_STORE_FLOAT16_BY_2(pointer, array) CF_STORE_COUNTED(FLOAT16, 2, pointer, array)
#define CF_STORE_FLOAT16_BY_4(pointer, array) CF_STORE_COUNTED(FLOAT16, 4, pointer, array)
#define CF_STORE_FLOAT16_BY_8(pointer, array) CF_STORE_COUNTED(FLOAT16, 8, pointer, array)
#define CF_STORE_BFLOAT16_BY_2(pointer, array) CF_STORE_COUNTED(BFLOAT16, 2, pointer, array)
#define CF_STORE_BFLOAT16_BY_4(pointer, array) CF_STORE_COUNTED(BFLOAT16, 4, pointer, array)
#define CF_STORE_BFLOAT16_BY_8(pointer, array) CF_STORE_COUNTED(BFLOAT16, 8, pointer, array)

#define CF_PACKED_FLOAT32_BY_1 cf_Together<float, 1>
#define CF_PACKED_FLOAT32_BY_2 cf_Together<float, 2>
#define CF_PACKED_FLOAT32_BY_4 cf_Together<float, 4>
#define CF_PACKED_FLOAT16_BY_2 cf_Together<CF_HALF, 2>
#define CF_PACKED_FLOAT16_BY_4 cf_Together<CF_HALF, 4>
#define CF_PACKED_BFLOAT16_BY_2 cf_Together<CF_USHORT, 2>
#define CF_PACKED_BFLOAT16_BY_4 cf_Together<CF_USHORT, 4>
#define CF_UNPACK_FLOAT32_BY_1(array, packed) CF_UNPACK_COUNTED(FLOAT32, 1, array, packed)
#define CF_UNPACK_FLOAT32_BY_2(array, packed) CF_UNPACK_COUNTED(FLOAT32, 2, array, packed)
#define CF_UNPACK_FLOAT32_BY_4(array, packed) CF_UNPACK_COUNTED(FLOAT32, 4, array, packed)
#define CF_UNPACK_FLOAT16_BY_2(array, packed) CF_UNPACK_COUNTED(FLOAT16, 2, array, packed)
#define CF_UNPACK_FLOAT16_BY_4(array, packed) CF_UNPACK_COUNTED(FLOAT16, 4, array, packed)
#define CF_UNPACK_BFLOAT16_BY_2(array, packed) CF_UNPACK_COUNTED(BFLOAT16, 2, array, packed)
#define CF_UNPACK_BFLOAT16_BY_4(array, packed) CF_UNPACK_COUNTED(BFLOAT16, 4, array, packed)

#define CF_PACKED_ZERO(dtype, count) CF_PACKED(dtype, count)()
#define CF_UNPACK_COUNTED(dtype, count, array, packed)                                         \
  do {                                                                                         \
    CF_UNROLL                                                                                  \
    for (int cf_e = 0; cf_e < count; ++cf_e) (array)[cf_e] = CF_LOAD(dtype, (packed).at, cf_e); \
  } while (0)
#define CF_LOAD_COUNTED(dtype, count, array, pointer)                                      \
  do {                                                                                     \
    const cf_Together<CF_TYPE(dtype), count> cf_of =                                       \
        *(const cf_Together<CF_TYPE(dtype), count> *)(pointer);                            \
    CF_UNROLL                                                                              \
    for (int cf_e = 0; cf_e < count; ++cf_e) (array)[cf_e] = CF_LOAD(dtype, cf_of.at, cf_e); \
  } while (0)
#define CF_STORE_COUNTED(dtype, count, pointer, array)                                       \
  do {                                                                                       \
    cf_Together<CF_TYPE(dtype), count> cf_of;                                                \
    CF_UNROLL                                                                                \
    for (int cf_e = 0; cf_e < count; ++cf_e) CF_STORE(dtype, cf_of.at, cf_e, (array)[cf_e]); \
    *(cf_Together<CF_TYPE(dtype), count> *)(pointer) = cf_of;                                \
  } while (0)

#endif  // __OPENCL_VERSION__

#endif  // CONVFIND_TOGETHER_H
