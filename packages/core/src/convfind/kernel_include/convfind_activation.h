// Activations, each by its name: a function of a number, or of vectors on CPU devices, and up to three numbers a, b and c.
#ifndef CONVFIND_ACTIVATION_H
#define CONVFIND_ACTIVATION_H

#include "convfind_kernel.h"

// CF_ACTIVATION: one of the names below; not defined: there is none.
#ifndef CF_ARITHMETIC
#define CF_ARITHMETIC FLOAT32  // type in which results are computed: FLOAT32, FLOAT64; INT32: without activation
#endif
#define CF_NUMBER CF_TYPE(CF_ARITHMETIC)

#define CF_NUMBERS_OF_RELU 0
#define CF_NUMBERS_OF_CLIP 2          // between a and b
#define CF_NUMBERS_OF_LEAKY 1         // below zero a * x
#define CF_NUMBERS_OF_ELU 1           // below zero a * (exp(x) - 1)
#define CF_NUMBERS_OF_SIGMOID 0
#define CF_NUMBERS_OF_TANH 2          // b * tanh(a * x)
#define CF_NUMBERS_OF_SILU 0          // x * sigmoid(x)
#define CF_NUMBERS_OF_HARD_SWISH 0    // x * (x / 6 + 1 / 2), the factor between 0 and 1
#define CF_NUMBERS_OF_HARD_SIGMOID 2  // a * x + b, between 0 and 1
#define CF_NUMBERS_OF_GELU_ERF 0      // x * (1 + erf(x / sqrt(2))) / 2
#define CF_NUMBERS_OF_GELU_TANH 0     // x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))) / 2
#define CF_NUMBERS_OF_MISH 0          // x * tanh(log(1 + exp(x)))
#define CF_NUMBERS_OF_SOFTPLUS 1      // log(1 + exp(a * x)) / a, of an a above zero
#define CF_NUMBERS_OF_ABS 0
#define CF_NUMBERS_OF_POWER 3         // (a + b * x)^c; 0 where the base is at most 1e-6

#ifdef CF_ACTIVATION
#define CF_ACTIVATION_NUMBERS CF_JOIN(CF_NUMBERS_OF_, CF_ACTIVATION)
#else
#define CF_ACTIVATION_NUMBERS 0
#endif

// The numbers behind other parameters of a kernel, and behind other values.
#if CF_ACTIVATION_NUMBERS == 3
#define CF_ACTIVATION_PARAMETERS , const CF_NUMBER cf_a, const CF_NUMBER cf_b, const CF_NUMBER cf_c
#define CF_ACTIVATION_VALUES , cf_a, cf_b, cf_c
#elif CF_ACTIVATION_NUMBERS == 2
#define CF_ACTIVATION_PARAMETERS , const CF_NUMBER cf_a, const CF_NUMBER cf_b
#define CF_ACTIVATION_VALUES , cf_a, cf_b, 0
#elif CF_ACTIVATION_NUMBERS == 1
#define CF_ACTIVATION_PARAMETERS , const CF_NUMBER cf_a
#define CF_ACTIVATION_VALUES , cf_a, 0, 0
#elif defined(CF_ACTIVATION)
#define CF_ACTIVATION_PARAMETERS
#define CF_ACTIVATION_VALUES , 0, 0, 0
#else
#define CF_ACTIVATION_PARAMETERS
#define CF_ACTIVATION_VALUES
#endif

#ifdef __OPENCL_VERSION__
#define CF_MATH(function) function
#else
#define CF_MATH(function) CF_JOIN(CF_MATH_, CF_ARITHMETIC)(function)
#define CF_MATH_FLOAT32(function) function##f
#define CF_MATH_FLOAT64(function) function
#endif
#ifndef CF_EXP
#define CF_EXP(x) CF_MATH(exp)(x)  // in activations: a kernel may bring one of its own
#endif
#define CF_LITERAL(number) CF_JOIN(CF_LITERAL_, CF_ARITHMETIC)(number)
#define CF_LITERAL_FLOAT32(number) number##f
#define CF_LITERAL_FLOAT64(number) number

// A quotient to a few roundings; 0 for some whose denominator is above 2^126.
#ifndef __CUDACC_RTC__
#define CF_QUOTIENT(x, y) ((x) / (y))
#else
#define CF_QUOTIENT(x, y) CF_JOIN(CF_QUOTIENT_, CF_ARITHMETIC)(x, y)
#define CF_QUOTIENT_FLOAT32(x, y) __fdividef(x, y)
#define CF_QUOTIENT_FLOAT64(x, y) ((x) / (y))
#endif

// `tail`: erfc(|x| / sqrt(2)) / 2, the part of a normal distribution that is beyond |x|. In float32, where libraries take 90
// instructions, t * P(t) * exp(-x^2 / 2) with t = 1 / (1 + 0.35 |x|), which is within 3.2e-8 of it, fitted by least squares.
#define CF_NORMAL_TAIL(type, tail, x) CF_JOIN(CF_NORMAL_TAIL_, CF_ARITHMETIC)(type, tail, x)
#define CF_NORMAL_TAIL_FLOAT64(type, tail, x) \
  const type tail = CF_LITERAL(0.5) * erfc(CF_LITERAL(0.70710678118654752) * fabs(x));
#define CF_NORMAL_TAIL_FLOAT32(type, tail, x)                                                                         \
  const type cf_t = CF_QUOTIENT((type)(1), 1 + 0.35f * CF_MATH(fabs)(x));                                             \
  const type cf_high = ((-0.0291457253f * cf_t + 0.143970804f) * cf_t - 0.255712619f) * cf_t + 0.159172528f;          \
  const type cf_low = ((cf_high * cf_t - 0.0231088685f) * cf_t + 0.105507659f) * cf_t + 0.119832939f;                 \
  const type tail = cf_t * ((cf_low * cf_t + 0.139861862f) * cf_t + 0.139621405f) * CF_EXP(-0.5f * (x) * (x));

// Defines `function` of `type`: CF_NUMBER, or in OpenCL C a vector of them. A NaN stays one.
#define CF_DEFINE_ACTIVATION(function, type)                                                       \
  CF_INLINE type function(const type x, const CF_NUMBER a, const CF_NUMBER b, const CF_NUMBER c) { \
    CF_JOIN(CF_BODY_OF_, CF_ACTIVATION)(type)                                                      \
  }
#define CF_BETWEEN(type, low, x, high) ((x) < (type)(low) ? (type)(low) : (x) > (type)(high) ? (type)(high) : (x))

#define CF_BODY_OF_RELU(type) return x < (type)(0) ? (type)(0) : x;
#define CF_BODY_OF_CLIP(type) return CF_BETWEEN(type, a, x, b);
#define CF_BODY_OF_LEAKY(type) return x < (type)(0) ? a * x : x;
#define CF_BODY_OF_ELU(type) return x > (type)(0) ? x : a * CF_MATH(expm1)(x);
#define CF_BODY_OF_SIGMOID(type) return CF_QUOTIENT((type)(1), 1 + CF_EXP(-x));
#define CF_BODY_OF_TANH(type) return b * CF_MATH(tanh)(a * x);
#define CF_BODY_OF_SILU(type) return CF_QUOTIENT(x, 1 + CF_EXP(-x));
// A product, since GPUs branch in a quotient.
#define CF_BODY_OF_HARD_SWISH(type)                                          \
  const type factor = x * CF_LITERAL(0.16666666666666667) + CF_LITERAL(0.5); \
  return x * CF_BETWEEN(type, 0, factor, 1);
#define CF_BODY_OF_HARD_SIGMOID(type) \
  const type line = a * x + b;        \
  return CF_BETWEEN(type, 0, line, 1);
#define CF_BODY_OF_GELU_ERF(type) \
  CF_NORMAL_TAIL(type, tail, x)   \
  return x * (x < (type)(0) ? tail : 1 - tail);
// (1 + tanh(t)) / 2 is the sigmoid of 2 t.
#define CF_BODY_OF_GELU_TANH(type) \
  return CF_QUOTIENT(x, 1 + CF_EXP(CF_LITERAL(-1.5957691216057308) * x * (1 + CF_LITERAL(0.044715) * x * x)));
// With e = exp(x) the factor is (e^2 + 2 e) / (e^2 + 2 e + 2), which above 20 is 1.
#define CF_BODY_OF_MISH(type)                                 \
  const type e = CF_EXP(CF_BETWEEN(type, x, x, 20));          \
  return x * CF_QUOTIENT(e * (e + 2), e * (e + 2) + 2);
#define CF_BODY_OF_SOFTPLUS(type) \
  const type t = a * x;           \
  return (CF_BETWEEN(type, 0, t, t) + CF_MATH(log1p)(CF_MATH(exp)(-CF_MATH(fabs)(t)))) / a;
#define CF_BODY_OF_ABS(type) return CF_MATH(fabs)(x);
#define CF_BODY_OF_POWER(type)  \
  const type base = a + b * x; \
  return base <= (type)(CF_LITERAL(1e-6)) ? (type)(0) : CF_MATH(pow)(base, (type)(c));

#ifdef CF_ACTIVATION
CF_DEFINE_ACTIVATION(cf_activation, CF_NUMBER)
#endif

#endif  // CONVFIND_ACTIVATION_H
