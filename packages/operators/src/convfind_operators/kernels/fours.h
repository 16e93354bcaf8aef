// Four or eight neighbouring elements at a time on GPUs, between memory and private arrays of numbers: one load or store of
// 16 bytes, or of 8. They begin at multiples of as many elements.
#ifndef OPERATORS_FOURS_H
#define OPERATORS_FOURS_H

#include "elements.h"

#ifndef FOUR
#define FOUR 1  // elements at a time: 8, where all tensors are of 16-bit types and lie so; 4, of these and float32; otherwise 1
#endif

#if FOUR == 1

#define LOAD_FOUR(dtype, array, pointer) ((array)[0] = LOAD(dtype, pointer))
#define STORE_FOUR(dtype, pointer, array) STORE(dtype, pointer, (array)[0])

#else

#define LOAD_FOUR(dtype, array, pointer) CF_JOIN(LOAD_FOUR_, dtype)(array, pointer)
#define STORE_FOUR(dtype, pointer, array) CF_JOIN(STORE_FOUR_, dtype)(pointer, array)
#define LOAD_FOUR_FLOAT32(array, pointer) CF_LOAD4(array, pointer)
#define STORE_FOUR_FLOAT32(pointer, array) CF_STORE4(pointer, array)

#if defined(__OPENCL_VERSION__) && FOUR == 8

#define LOAD_FOUR_FLOAT16(array, pointer) LOAD_EIGHT_AS(array, vloada_half8(0, pointer))
#define STORE_FOUR_FLOAT16(pointer, array) vstorea_half8_rte(EIGHT_OF(float8, , array), 0, pointer)
#define LOAD_FOUR_BFLOAT16(array, pointer) \
  LOAD_EIGHT_AS(array, as_float8(convert_uint8(*(const CF_GLOBAL ushort8 *)(pointer)) << 16))
#define STORE_FOUR_BFLOAT16(pointer, array) (*(CF_GLOBAL ushort8 *)(pointer) = EIGHT_OF(ushort8, cf_bfloat16, array))
#define EIGHT_OF(type, rounded, array)                                                                \
  ((type)(rounded((array)[0]), rounded((array)[1]), rounded((array)[2]), rounded((array)[3]),         \
          rounded((array)[4]), rounded((array)[5]), rounded((array)[6]), rounded((array)[7])))
#define LOAD_EIGHT_AS(array, vector)  \
  do {                                \
    const float8 cf_eight = vector;   \
    (array)[0] = cf_eight.s0;         \
    (array)[1] = cf_eight.s1;         \
    (array)[2] = cf_eight.s2;         \
    (array)[3] = cf_eight.s3;         \
    (array)[4] = cf_eight.s4;         \
    (array)[5] = cf_eight.s5;         \
    (array)[6] = cf_eight.s6;         \
    (array)[7] = cf_eight.s7;         \
  } while (0)

#elif defined(__OPENCL_VERSION__)

#define LOAD_FOUR_FLOAT16(array, pointer) LOAD_FOUR_AS(array, vloada_half4(0, pointer))
#define STORE_FOUR_FLOAT16(pointer, array) \
  vstorea_half4_rte((float4)((array)[0], (array)[1], (array)[2], (array)[3]), 0, pointer)
#define LOAD_FOUR_BFLOAT16(array, pointer) \
  LOAD_FOUR_AS(array, as_float4(convert_uint4(*(const CF_GLOBAL ushort4 *)(pointer)) << 16))
#define STORE_FOUR_BFLOAT16(pointer, array)                                                                       \
  (*(CF_GLOBAL ushort4 *)(pointer) = (ushort4)(cf_bfloat16((array)[0]), cf_bfloat16((array)[1]),                  \
                                               cf_bfloat16((array)[2]), cf_bfloat16((array)[3])))
#define LOAD_FOUR_AS(array, vector)  \
  do {                               \
    const float4 cf_four = vector;   \
    (array)[0] = cf_four.x;          \
    (array)[1] = cf_four.y;          \
    (array)[2] = cf_four.z;          \
    (array)[3] = cf_four.w;          \
  } while (0)

#else

template <typename Element>
struct alignas(FOUR * sizeof(Element)) Four {
  Element at[FOUR];
};

#define LOAD_FOUR_FLOAT16(array, pointer) LOAD_FOUR_OF(FLOAT16, array, pointer)
#define LOAD_FOUR_BFLOAT16(array, pointer) LOAD_FOUR_OF(BFLOAT16, array, pointer)
#define STORE_FOUR_FLOAT16(pointer, array) STORE_FOUR_OF(FLOAT16, pointer, array)
#define STORE_FOUR_BFLOAT16(pointer, array) STORE_FOUR_OF(BFLOAT16, pointer, array)
#define LOAD_FOUR_OF(dtype, array, pointer)                                        \
  do {                                                                             \
    const Four<CF_TYPE(dtype)> cf_four = *(const Four<CF_TYPE(dtype)> *)(pointer); \
    for (int cf_e = 0; cf_e < FOUR; ++cf_e) (array)[cf_e] = CF_LOAD(dtype, cf_four.at, cf_e); \
  } while (0)
#define STORE_FOUR_OF(dtype, pointer, array)                                                 \
  do {                                                                                       \
    Four<CF_TYPE(dtype)> cf_four;                                                            \
    for (int cf_e = 0; cf_e < FOUR; ++cf_e) CF_STORE(dtype, cf_four.at, cf_e, (array)[cf_e]);   \
    *(Four<CF_TYPE(dtype)> *)(pointer) = cf_four;                                            \
  } while (0)

#endif  // __OPENCL_VERSION__

#endif  // FOUR

// The first `count` of them, which lie so only if they are FOUR; what is behind them is `rest`, and not stored.
#if FOUR == 1
#define LOAD_FIRST(dtype, array, pointer, count, rest) LOAD_FOUR(dtype, array, pointer)
#define STORE_FIRST(dtype, pointer, array, count) STORE_FOUR(dtype, pointer, array)
#else
#define LOAD_FIRST(dtype, array, pointer, count, rest)                                            \
  do {                                                                                            \
    if ((count) >= FOUR) {                                                                        \
      LOAD_FOUR(dtype, array, pointer);                                                           \
    } else {                                                                                      \
      for (int cf_e = 0; cf_e < FOUR; ++cf_e)                                                     \
        (array)[cf_e] = cf_e < (count) ? LOAD(dtype, (pointer) + cf_e) : (NUMBER)(rest);          \
    }                                                                                             \
  } while (0)
#define STORE_FIRST(dtype, pointer, array, count)                                                 \
  do {                                                                                            \
    if ((count) >= FOUR) {                                                                        \
      STORE_FOUR(dtype, pointer, array);                                                          \
    } else {                                                                                      \
      for (int cf_e = 0; cf_e < FOUR; ++cf_e)                                                     \
        if (cf_e < (count)) STORE(dtype, (pointer) + cf_e, (array)[cf_e]);                        \
    }                                                                                             \
  } while (0)
#endif

#endif  // OPERATORS_FOURS_H
