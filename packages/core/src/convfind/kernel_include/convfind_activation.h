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
#define CF_BODY_OF_SIGMOID(type) return 1 / (1 + CF_EXP(-x));
#define CF_BODY_OF_TANH(type) return b * CF_MATH(tanh)(a * x);
#define CF_BODY_OF_SILU(type) return x / (1 + CF_EXP(-x));
#define CF_BODY_OF_HARD_SWISH(type)            \
  const type factor = x / 6 + CF_LITERAL(0.5); \
  return x * CF_BETWEEN(type, 0, factor, 1);
#define CF_BODY_OF_HARD_SIGMOID(type) \
  const type line = a * x + b;        \
  return CF_BETWEEN(type, 0, line, 1);
#define CF_BODY_OF_GELU_ERF(type) return CF_LITERAL(0.5) * x * CF_MATH(erfc)(CF_LITERAL(-0.70710678118654752) * x);
// (1 + tanh(t)) / 2 is the sigmoid of 2 t.
#define CF_BODY_OF_GELU_TANH(type) \
  return x / (1 + CF_EXP(CF_LITERAL(-1.5957691216057308) * x * (1 + CF_LITERAL(0.044715) * x * x)));
// With e = exp(x) the factor is (e^2 + 2 e) / (e^2 + 2 e + 2), which above 20 is 1.
#define CF_BODY_OF_MISH(type)                                 \
  const type e = CF_EXP(CF_BETWEEN(type, x, x, 20));          \
  return x * (e * (e + 2) / (e * (e + 2) + 2));
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
