// Elements in kernels of operators: one at a time, or on CPUs in OpenCL C vectors of 16 neighbours, by the same words.
#ifndef OPERATORS_ELEMENTS_H
#define OPERATORS_ELEMENTS_H

#ifndef WIDTH
#define WIDTH 1  // elements at a time: 1; 16 in OpenCL C for CPUs
#endif

// The exponential where what is below 2^-125.5 may be 0: on CPUs without a call.
#if WIDTH > 1
#include "convfind_cpu_exp.h"
#define EXP(x) CF_JOIN(EXP_OF_, CF_ARITHMETIC)(x)
#define EXP_OF_FLOAT32(x) EXP_INLINE(x)
#define EXP_OF_FLOAT64(x) exp(x)
#define CF_EXP(x) EXP(x)
#else
#define EXP(x) CF_MATH(exp)(x)
#endif

#include "convfind_activation.h"  // computes in CF_ARITHMETIC: FLOAT32, FLOAT64; here also INT32, INT64, UINT64

#ifndef STREAMED
#define STREAMED 0  // 1: y is float32 that caches would not keep, and is written past them where it can
#endif

// Element types beside convfind_kernel.h's, and what is computed in 64 whole bits.
#define CF_TYPE_UINT8 unsigned char
#define CF_TYPE_BOOL unsigned char
#define CF_TYPE_INT64 CF_LONG
#define CF_TYPE_INT16 short
#define CF_TYPE_UINT16 CF_USHORT
#define CF_TYPE_UINT32 CF_UINT
#define CF_TYPE_UINT64 CF_ULONG
#define CF_ULONG unsigned CF_LONG
#define CF_LOAD_UINT8(pointer, index) ((int)(pointer)[index])
#define CF_LOAD_BOOL(pointer, index) ((int)((pointer)[index] != 0))
#define CF_LOAD_INT64(pointer, index) ((pointer)[index])
#define CF_LOAD_INT16(pointer, index) ((int)(pointer)[index])
#define CF_LOAD_UINT16(pointer, index) ((int)(pointer)[index])
#define CF_LOAD_UINT32(pointer, index) ((pointer)[index])
#define CF_LOAD_UINT64(pointer, index) ((pointer)[index])
#define CF_STORE_UINT8(pointer, index, value) ((pointer)[index] = (unsigned char)(value))
#define CF_STORE_BOOL(pointer, index, value) ((pointer)[index] = (value) != 0)
#define CF_STORE_INT64(pointer, index, value) ((pointer)[index] = (CF_LONG)(value))
#define CF_STORE_INT16(pointer, index, value) ((pointer)[index] = (short)(value))
#define CF_STORE_UINT16(pointer, index, value) ((pointer)[index] = (CF_USHORT)(value))
#define CF_STORE_UINT32(pointer, index, value) ((pointer)[index] = (CF_UINT)(value))
#define CF_STORE_UINT64(pointer, index, value) ((pointer)[index] = (CF_ULONG)(value))

#define NUMBER CF_NUMBER

// The ends of what is computed in.
#define LEAST_NUMBER CF_JOIN(LEAST_OF_, CF_ARITHMETIC)
#define LARGEST_NUMBER CF_JOIN(LARGEST_OF_, CF_ARITHMETIC)
#define LEAST_OF_FLOAT32 (-LARGEST_OF_FLOAT32)
#define LEAST_OF_FLOAT64 (-LARGEST_OF_FLOAT32)
#define LEAST_OF_INT32 (-LARGEST_OF_INT32 - 1)
#define LEAST_OF_INT64 (-LARGEST_OF_INT64 - 1)
#define LEAST_OF_UINT64 0
#define LARGEST_OF_FLOAT32 CF_AS_FLOAT(0x7f800000u)
#define LARGEST_OF_FLOAT64 CF_AS_FLOAT(0x7f800000u)
#define LARGEST_OF_INT32 2147483647
#define LARGEST_OF_INT64 9223372036854775807L
#define LARGEST_OF_UINT64 (~(CF_ULONG)0)

// The least number that an element holds.
#define LEAST_ELEMENT(dtype) CF_JOIN(LEAST_ELEMENT_, dtype)
#define LEAST_ELEMENT_FLOAT64 LEAST_OF_FLOAT64
#define LEAST_ELEMENT_FLOAT32 LEAST_OF_FLOAT32
#define LEAST_ELEMENT_FLOAT16 LEAST_OF_FLOAT32
#define LEAST_ELEMENT_BFLOAT16 LEAST_OF_FLOAT32
#define LEAST_ELEMENT_INT8 (-128)
#define LEAST_ELEMENT_INT16 (-32768)
#define LEAST_ELEMENT_INT32 LEAST_OF_INT32
#define LEAST_ELEMENT_INT64 LEAST_OF_INT64
#define LEAST_ELEMENT_UINT8 0
#define LEAST_ELEMENT_BOOL 0
#define LEAST_ELEMENT_UINT16 0
#define LEAST_ELEMENT_UINT32 0
#define LEAST_ELEMENT_UINT64 0

// Vectors are written out: compilers are not to make others of neighbouring work-items, which would take these apart.
#if WIDTH == 1
#define ONE_ITEM
#else
#define ONE_ITEM __attribute__((reqd_work_group_size(1, 1, 1))) __attribute__((vec_type_hint(float16)))
#endif

#if WIDTH == 1

#define VALUE NUMBER
#define EACH(number) ((NUMBER)(number))
#define LOAD(dtype, pointer) ((NUMBER)CF_LOAD(dtype, pointer, 0))
#define STORE(dtype, pointer, value) CF_STORE(dtype, pointer, 0, value)

#else

#define VALUE CF_JOIN(VALUE_, CF_ARITHMETIC)
#define VALUE_FLOAT32 float16
#define VALUE_FLOAT64 double16
#define VALUE_INT32 int16
#define VALUE_INT64 long16
#define VALUE_UINT64 ulong16
#define TO_VALUE_FLOAT32 convert_float16
#define TO_VALUE_FLOAT64 convert_double16
#define TO_VALUE_INT32 convert_int16
#define TO_VALUE_INT64 convert_long16
#define TO_VALUE_UINT64 convert_ulong16

#define EACH(number) ((VALUE)(number))
#define LOAD(dtype, pointer) CF_JOIN(TO_VALUE_, CF_ARITHMETIC)(CF_JOIN(VECTOR_OF_, dtype)(pointer))
#define STORE(dtype, pointer, value) CF_JOIN(PUT_VECTOR_, dtype)(pointer, value)

#define VECTOR_OF_FLOAT64(pointer) vload16(0, pointer)
#define VECTOR_OF_FLOAT32(pointer) vload16(0, pointer)
#define VECTOR_OF_FLOAT16(pointer) vload_half16(0, pointer)
#define VECTOR_OF_BFLOAT16(pointer) as_float16(convert_uint16(vload16(0, pointer)) << 16)
#define VECTOR_OF_INT8(pointer) vload16(0, (const CF_GLOBAL char *)(pointer))
#define VECTOR_OF_UINT8(pointer) vload16(0, pointer)
#define VECTOR_OF_BOOL(pointer) min(vload16(0, pointer), (uchar16)(1))
#define VECTOR_OF_INT32(pointer) vload16(0, pointer)
#define VECTOR_OF_INT64(pointer) vload16(0, pointer)
#define VECTOR_OF_INT16(pointer) vload16(0, pointer)
#define VECTOR_OF_UINT16(pointer) vload16(0, pointer)
#define VECTOR_OF_UINT32(pointer) vload16(0, pointer)
#define VECTOR_OF_UINT64(pointer) vload16(0, pointer)

#define PUT_VECTOR_FLOAT64(pointer, value) vstore16(convert_double16(value), 0, pointer)
#define PUT_VECTOR_FLOAT32(pointer, value) vstore16(convert_float16(value), 0, pointer)
#define PUT_VECTOR_FLOAT16(pointer, value) vstore_half16_rte(value, 0, pointer)
#define PUT_VECTOR_BFLOAT16(pointer, value) vstore16(bfloat16s_of(convert_float16(value)), 0, pointer)
#define PUT_VECTOR_INT8(pointer, value) vstore16(convert_char16(value), 0, (CF_GLOBAL char *)(pointer))
#define PUT_VECTOR_UINT8(pointer, value) vstore16(convert_uchar16(value), 0, pointer)
#define PUT_VECTOR_BOOL(pointer, value) vstore16(convert_uchar16((value) != 0) & (uchar16)(1), 0, pointer)
#define PUT_VECTOR_INT32(pointer, value) vstore16(convert_int16(value), 0, pointer)
#define PUT_VECTOR_INT64(pointer, value) vstore16(convert_long16(value), 0, pointer)
#define PUT_VECTOR_INT16(pointer, value) vstore16(convert_short16(value), 0, pointer)
#define PUT_VECTOR_UINT16(pointer, value) vstore16(convert_ushort16(value), 0, pointer)
#define PUT_VECTOR_UINT32(pointer, value) vstore16(convert_uint16(value), 0, pointer)
#define PUT_VECTOR_UINT64(pointer, value) vstore16(convert_ulong16(value), 0, pointer)

// A whole line of float32, on a multiple of 64 bytes, that nobody reads first: past the caches.
#ifdef __has_builtin
#if __has_builtin(__builtin_nontemporal_store)
#define STORE_STREAMED(pointer, value) __builtin_nontemporal_store(value, (CF_GLOBAL float16 *)(pointer))
#endif
#endif

// Asks for what lies a few thousand bytes on: prefetchers of processors alone stay behind two cores' arithmetic.
#ifdef __has_builtin
#if __has_builtin(__builtin_prefetch)
#define PREFETCH(pointer) __builtin_prefetch((const void *)(size_t)(pointer))
#endif
#endif
#ifndef PREFETCH
#define PREFETCH(pointer)
#endif

CF_INLINE ushort16 bfloat16s_of(const float16 value) {
  const uint16 bits = as_uint16(value);
  const uint16 rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return convert_ushort16((bits & 0x7fffffffu) > 0x7f800000u ? (bits >> 16) | 0x40u : rounded);
}

#endif  // WIDTH

#if STREAMED && defined(STORE_STREAMED)
#define STORE_WHOLE(dtype, pointer, value)       \
  do {                                           \
    if (((size_t)(pointer) & 63) == 0)           \
      STORE_STREAMED(pointer, value);            \
    else                                         \
      STORE(dtype, pointer, value);              \
  } while (0)
#else
#define STORE_WHOLE(dtype, pointer, value) STORE(dtype, pointer, value)
#endif

// Elements that lie `step` apart, where they are fewer than WIDTH or not neighbours: the first `count`, then `rest`.
#if WIDTH == 1
#define LOAD_SOME(dtype, pointer, step, count, rest) LOAD(dtype, pointer)
#define STORE_SOME(dtype, pointer, step, count, value) STORE(dtype, pointer, value)
#else
#define LOAD_SOME(dtype, pointer, step, count, rest)                                     \
  ({                                                                                     \
    NUMBER cf_lanes[WIDTH];                                                              \
    vstore16(EACH(rest), 0, cf_lanes);                                                   \
    for (int cf_lane = 0; cf_lane < (count); ++cf_lane)                                  \
      cf_lanes[cf_lane] = (NUMBER)CF_LOAD(dtype, pointer, cf_lane * (CF_LONG)(step));    \
    vload16(0, cf_lanes);                                                                \
  })
#define STORE_SOME(dtype, pointer, step, count, value)                                   \
  do {                                                                                   \
    NUMBER cf_lanes[WIDTH];                                                              \
    vstore16(value, 0, cf_lanes);                                                        \
    for (int cf_lane = 0; cf_lane < (count); ++cf_lane)                                  \
      CF_STORE(dtype, pointer, cf_lane * (CF_LONG)(step), cf_lanes[cf_lane]);            \
  } while (0)
#endif

// Elements `step` apart; what lies behind the last is 1, by which whole numbers can be divided. `is` is known when the kernel is
// compiled: 0 one for all, 1 neighbours, 2 any distance.
#define LOAD_STEPPED(dtype, pointer, is, step, count) CF_JOIN(LOAD_STEPPED_, is)(dtype, pointer, step, count)
#define LOAD_STEPPED_0(dtype, pointer, step, count) EACH(CF_LOAD(dtype, pointer, 0))
#define LOAD_STEPPED_1(dtype, pointer, step, count) \
  ((count) >= WIDTH ? LOAD(dtype, pointer) : LOAD_SOME(dtype, pointer, 1, count, 1))
#define LOAD_STEPPED_2(dtype, pointer, step, count) LOAD_SOME(dtype, pointer, step, AT_MOST_WIDTH(count), 1)
#define STORE_STEPPED(dtype, pointer, is, step, count, value) \
  CF_JOIN(STORE_STEPPED_, is)(dtype, pointer, step, count, value)
#define STORE_STEPPED_1(dtype, pointer, step, count, value)          \
  do {                                                               \
    if ((count) >= WIDTH)                                            \
      STORE_WHOLE(dtype, pointer, value);                            \
    else                                                             \
      STORE_SOME(dtype, pointer, 1, count, value);                   \
  } while (0)
#define STORE_STEPPED_2(dtype, pointer, step, count, value) \
  STORE_SOME(dtype, pointer, step, AT_MOST_WIDTH(count), value)
#define AT_MOST_WIDTH(count) ((count) < WIDTH ? (count) : WIDTH)

#endif  // OPERATORS_ELEMENTS_H
