// exp of numbers and vectors for kernels on CPU devices, in OpenCL C.
#ifndef CONVFIND_CPU_EXP_H
#define CONVFIND_CPU_EXP_H

// To a unit in the last place or two, without the calls of runtimes' libraries, around which tiles of sums leave the registers.
// Infinite from 2^127.5 on, and 0 instead of a denormal number.
#define DEFINE_EXP(type, whole)                                                              \
  __attribute__((overloadable, always_inline)) inline type exp_inline(type x) {              \
    x = x > (type)(88.8f) ? (type)(88.8f) : x;                                               \
    x = x < (type)(-88.0f) ? (type)(-88.0f) : x;                                             \
    /* The power of two, with its bias, in the lowest bits of a number that has no others. */ \
    const type shifted = fma(x, (type)(1.44269504f), (type)(12583039.0f));                   \
    const type power = shifted - 12583039.0f;                                                \
    const type high = fma(power, (type)(-0.693359375f), x);                                  \
    const type rest = fma(power, (type)(2.12194440e-4f), high);                              \
    type sum = fma(rest, (type)(1.9875691500e-4f), (type)(1.3981999507e-3f));                \
    sum = fma(sum, rest, (type)(8.3334519073e-3f));                                          \
    sum = fma(sum, rest, (type)(4.1665795894e-2f));                                          \
    sum = fma(sum, rest, (type)(1.6666665459e-1f));                                          \
    sum = fma(sum, rest, (type)(5.0000001201e-1f));                                          \
    sum = fma(sum, rest * rest, rest) + 1.0f;                                                \
    return sum * as_##type(as_##whole(shifted) << 23);                                       \
  }
DEFINE_EXP(float, int)
DEFINE_EXP(float4, int4)
DEFINE_EXP(float8, int8)
DEFINE_EXP(float16, int16)

#endif  // CONVFIND_CPU_EXP_H
