// exp of numbers and vectors for kernels on CPU devices, in OpenCL C.
#ifndef CONVFIND_CPU_EXP_H
#define CONVFIND_CPU_EXP_H

// Without the calls of runtimes' libraries, around which tiles of sums leave the registers. What one core has under way bounds
// it, so steps are few and do not wait for each other: a polynomial of degree 5, beside which n log(2) gets its last bits. Within
// 4.5 parts in 2^24; 0 below 2^-125.5.
//
// The product by 2 is not in the function: it becomes one with a sum around it, `1 + EXP_INLINE(x)`.
#define EXP_INLINE(x) (2 * half_of_exp(x))
#define DEFINE_HALF_OF_EXP(type, whole)                                                       \
  __attribute__((overloadable, always_inline)) inline type half_of_exp(type x) {              \
    x = x > (type)(88.9f) ? (type)(88.9f) : x;                                                \
    x = x < (type)(-87.6f) ? (type)(-87.6f) : x;                                              \
    /* n - 1 with the bias of powers of two, in the lowest bits of a number that has no others. */ \
    const type shifted = fma(x, (type)(1.44269504f), (type)(12583038.0f));                    \
    const type times = shifted - 12583038.0f;                                                 \
    const type rest = fma(times, (type)(-0.69314718f), x), square = rest * rest;              \
    const type first = fma(times, (type)(1.9046542e-9f), rest);                               \
    const type low = fma(rest, (type)(0.16667116f), (type)(0.4999923f));                      \
    const type high = fma(rest, (type)(8.312468e-3f), (type)(4.1890256e-2f));                 \
    const type sum = fma(fma(high, square, low), square, first);                              \
    const type power = as_##type(as_##whole(shifted) << 23);                                  \
    return fma(sum, power, power);                                                            \
  }
DEFINE_HALF_OF_EXP(float, int)
DEFINE_HALF_OF_EXP(float4, int4)
DEFINE_HALF_OF_EXP(float8, int8)
DEFINE_HALF_OF_EXP(float16, int16)

#endif  // CONVFIND_CPU_EXP_H
