// The slopes of activations, each by its name: functions of the argument, or with CF_SLOPE_OF_RESULT of what the activation
// made of it, where that tells. At a kink they are those of PyTorch.
#ifndef CONVFIND_ACTIVATION_SLOPE_H
#define CONVFIND_ACTIVATION_SLOPE_H

#include "convfind_activation.h"

#ifndef CF_SLOPE_OF_RESULT
#define CF_SLOPE_OF_RESULT 0  // 1: x is the result: RELU, CLIP, LEAKY, ELU, SIGMOID, TANH, HARD_SIGMOID, SOFTPLUS
#endif

// Defines `function` of `type`: CF_NUMBER, or in OpenCL C a vector of them.
#define CF_DEFINE_SLOPE(function, type)                                                            \
  CF_INLINE type function(const type x, const CF_NUMBER a, const CF_NUMBER b, const CF_NUMBER c) { \
    CF_JOIN(CF_SLOPE_OF_, CF_ACTIVATION)(type)                                                     \
  }
#define CF_ONE_OR(type, condition, other) ((condition) ? (type)(other) : (type)(1))
#define CF_INSIDE(type, low, x, high, slope) \
  ((x) <= (type)(low) ? (type)(0) : (x) >= (type)(high) ? (type)(0) : (type)(slope))
#define CF_SIGMOID(type, x) CF_QUOTIENT((type)(1), 1 + CF_EXP(-(x)))

#define CF_SLOPE_OF_RELU(type) return CF_ONE_OR(type, x <= (type)(0), 0);
#define CF_SLOPE_OF_CLIP(type) return CF_INSIDE(type, a, x, b, 1);
#define CF_SLOPE_OF_LEAKY(type) return CF_ONE_OR(type, x <= (type)(0), a);
#define CF_SLOPE_OF_SILU(type)                      \
  const type s = CF_SIGMOID(type, x);               \
  const type near = CF_BETWEEN(type, -100, x, 100); \
  return s * (1 + near * (1 - s));
#define CF_SLOPE_OF_HARD_SWISH(type)                                        \
  const type slope = x * CF_LITERAL(0.33333333333333333) + CF_LITERAL(0.5); \
  return x <= (type)(-3) ? (type)(0) : x >= (type)(3) ? (type)(1) : slope;
// Where the density of the normal distribution is not 0 anyway.
#define CF_SLOPE_OF_GELU_ERF(type)                \
  const type near = CF_BETWEEN(type, -20, x, 20); \
  CF_NORMAL_TAIL(type, tail, near)                \
  return (near < (type)(0) ? tail : 1 - tail) +   \
         CF_LITERAL(0.39894228040143268) * near * CF_EXP(CF_LITERAL(-0.5) * near * near);
#define CF_SLOPE_OF_GELU_TANH(type)                                                                             \
  const type near = CF_BETWEEN(type, -20, x, 20);                                                               \
  const type square = near * near;                                                                              \
  const type s = CF_SIGMOID(type, CF_LITERAL(1.5957691216057308) * near * (1 + CF_LITERAL(0.044715) * square)); \
  return s + near * (s * (1 - s)) * CF_LITERAL(1.5957691216057308) * (1 + CF_LITERAL(0.134145) * square);
// See CF_BODY_OF_MISH.
#define CF_SLOPE_OF_MISH(type)                    \
  const type near = CF_BETWEEN(type, -80, x, 20); \
  const type e = CF_EXP(near);                    \
  const type d = e * (e + 2) + 2;                 \
  return e * (e + 2) / d + near * (4 * e / d) * ((e + 1) / d);
#define CF_SLOPE_OF_ABS(type) return x > (type)(0) ? (type)(1) : x < (type)(0) ? (type)(-1) : x;
#define CF_SLOPE_OF_POWER(type) \
  const type base = a + b * x;  \
  return base <= (type)(CF_LITERAL(1e-6)) ? (type)(0) : b * c * CF_MATH(pow)(base, (type)(c - 1));

#if CF_SLOPE_OF_RESULT
#define CF_SLOPE_OF_ELU(type) return CF_ONE_OR(type, x <= (type)(0), x + a);
#define CF_SLOPE_OF_SIGMOID(type) return x * (1 - x);
#define CF_SLOPE_OF_TANH(type) return a * (b - x * (x / b));
#define CF_SLOPE_OF_HARD_SIGMOID(type) return CF_INSIDE(type, 0, x, 1, a);
#define CF_SLOPE_OF_SOFTPLUS(type) return -CF_MATH(expm1)(-a * x);
#else
#define CF_SLOPE_OF_ELU(type) return CF_ONE_OR(type, x <= (type)(0), a * CF_MATH(exp)(x));
#define CF_SLOPE_OF_SIGMOID(type)     \
  const type s = CF_SIGMOID(type, x); \
  return s * (1 - s);
#define CF_SLOPE_OF_TANH(type)         \
  const type t = CF_MATH(tanh)(a * x); \
  return a * b * ((1 - t) * (1 + t));
#define CF_SLOPE_OF_HARD_SIGMOID(type) \
  const type line = a * x + b;         \
  return CF_INSIDE(type, 0, line, 1, a);
#define CF_SLOPE_OF_SOFTPLUS(type) return CF_SIGMOID(type, a * x);
#endif

#endif  // CONVFIND_ACTIVATION_SLOPE_H
