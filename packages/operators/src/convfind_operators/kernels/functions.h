// Functions of one or several elements, by name, of the macros in elements.h.
#ifndef OPERATORS_FUNCTIONS_H
#define OPERATORS_FUNCTIONS_H

#include "elements.h"

#define IF(condition) ((condition) ? EACH(1) : EACH(0))

// PoCL reduces the arguments of all lanes as the largest of them needs it, which is wrong for the others beside infinity.
#if WIDTH == 1
#define LANE_BY_LANE(function, x) CF_MATH(function)(x)
#else
#define LANE_BY_LANE(function, x)                                                \
  ({                                                                             \
    VALUE lanes = x;                                                             \
    for (int e = 0; e < WIDTH; ++e) ((NUMBER *)&lanes)[e] = function(((NUMBER *)&lanes)[e]); \
    lanes;                                                                       \
  })
#endif

// On GPUs a quotient is a branch for what is divided, of which zeros take the slow one; of what is divided by, few numbers do.
#if WIDTH == 1
#define SHARE_OF(x, whole) ((x) * (EACH(1) / (whole)))
#define PER_ROOT(x, square) ((x) * CF_MATH(rsqrt)(square))
#else
#define SHARE_OF(x, whole) ((x) / (whole))
#define PER_ROOT(x, square) ((x) / CF_MATH(sqrt)(square))
#endif

// One element.
#define OF_IDENTITY(x) (x)
#define OF_NEG(x) (-(x))
#define OF_EXP(x) CF_MATH(exp)(x)
#define OF_LOG(x) CF_MATH(log)(x)
#define OF_SQRT(x) CF_MATH(sqrt)(x)
#define OF_RECIPROCAL(x) (EACH(1) / (x))
#define OF_ERF(x) CF_MATH(erf)(x)
#define OF_SIGN(x) ((x) > EACH(0) ? EACH(1) : (x) < EACH(0) ? EACH(-1) : (x))
#define OF_FLOOR(x) CF_MATH(floor)(x)
#define OF_CEIL(x) CF_MATH(ceil)(x)
#define OF_ROUND(x) CF_MATH(rint)(x)
#define OF_SIN(x) LANE_BY_LANE(sin, x)
#define OF_COS(x) LANE_BY_LANE(cos, x)
#define OF_TAN(x) LANE_BY_LANE(tan, x)
#define OF_ASIN(x) CF_MATH(asin)(x)
#define OF_ACOS(x) CF_MATH(acos)(x)
#define OF_ATAN(x) CF_MATH(atan)(x)
#define OF_SINH(x) CF_MATH(sinh)(x)
#define OF_COSH(x) CF_MATH(cosh)(x)
#define OF_ASINH(x) CF_MATH(asinh)(x)
#define OF_ACOSH(x) CF_MATH(acosh)(x)
#define OF_ATANH(x) CF_MATH(atanh)(x)
#define OF_IS_NAN(x) IF((x) != (x))
#define OF_IS_INF(x) IF(((x) - (x) != (x) - (x)) & ((x) == (x)))
#define OF_NOT(x) IF((x) == EACH(0))
#define OF_NONZERO(x) IF((x) != EACH(0))
#define OF_BITWISE_NOT(x) (~(x))
#define OF_MAGNITUDE(x) ((x) < EACH(0) ? -(x) : (x))
#define OF_LEAST_ZERO(x) ((x) < EACH(0) ? EACH(0) : (x))
#define OF_ACTIVATION(x) activation_of(x CF_ACTIVATION_VALUES)
// With numbers a and b.
#define OF_BOUNDED(x) ((x) < EACH(a) ? EACH(a) : (x) > EACH(b) ? EACH(b) : (x))
#define OF_THRESHOLDED_RELU(x) ((x) > EACH(a) ? (x) : (x) != (x) ? (x) : EACH(0))
#define OF_SELU(x) (EACH(b) * ((x) > EACH(0) ? (x) : EACH(a) * CF_MATH(expm1)(x)))
#define OF_CELU(x) ((x) > EACH(0) ? (x) : EACH(a) * CF_MATH(expm1)((x) / EACH(a)))
#define OF_SWISH(x) SHARE_OF(x, EACH(1) + EXP(-EACH(a) * (x)))
#define OF_SOFTSIGN(x) ((x) / (EACH(1) + CF_MATH(fabs)(x)))

// Two.
#define OF_ADD(a, b) ((a) + (b))
#define OF_SUB(a, b) ((a) - (b))
#define OF_MUL(a, b) ((a) * (b))
#define OF_DIV(a, b) ((a) / (b))
#define OF_POW(a, b) CF_MATH(pow)(a, b)
#define OF_MIN(a, b) (((a) < (b)) | ((a) != (a)) ? (a) : (b))
#define OF_MAX(a, b) (((a) > (b)) | ((a) != (a)) ? (a) : (b))
#define OF_FMOD(a, b) CF_MATH(fmod)(a, b)
#define OF_MOD(a, b) modulo(a, b)
#define OF_WHOLE_FMOD(a, b) ((a) % (b))
#define OF_WHOLE_MOD(a, b) whole_modulo(a, b)
#define OF_WHOLE_POW(a, b) whole_power(a, b)
#define OF_PRELU(x, slope) ((x) < EACH(0) ? (slope) * (x) : (x))
#define OF_EQUAL(a, b) IF((a) == (b))
#define OF_LESS(a, b) IF((a) < (b))
#define OF_LESS_EQUAL(a, b) IF((a) <= (b))
#define OF_GREATER(a, b) IF((a) > (b))
#define OF_GREATER_EQUAL(a, b) IF((a) >= (b))
#define OF_BITWISE_AND(a, b) ((a) & (b))
#define OF_BITWISE_OR(a, b) ((a) | (b))
#define OF_BITWISE_XOR(a, b) ((a) ^ (b))
// By as many bits as a number has, or by less than none: nothing is left but the sign.
#define BITS (8 * (int)sizeof(NUMBER))
#define IS_SHIFT(b) (((b) >= EACH(0)) & ((b) < EACH(BITS)))
#define OF_SHIFT_LEFT(a, b) (IS_SHIFT(b) ? (a) << ((b) & EACH(BITS - 1)) : EACH(0))
#define OF_SHIFT_RIGHT(a, b) ((a) >> (IS_SHIFT(b) ? (b) : EACH(BITS - 1)) >> (IS_SHIFT(b) ? EACH(0) : EACH(1)))

// Three, four, five.
#define OF_SCALE_AND_SHIFT(x, scale, bias) ((x) * (scale) + (bias))
#define OF_WHERE(condition, a, b) ((condition) != EACH(0) ? (a) : (b))
#define OF_ROTARY(x, other, cosine, sine) ((x) * (cosine) + (other) * (sine))
#define OF_BATCH_NORM(x, scale, bias, mean, variance) \
  (((x) - (mean)) * PER_ROOT(scale, (variance) + EACH(epsilon)) + (bias))

#ifdef CF_ACTIVATION
CF_DEFINE_ACTIVATION(activation_of, VALUE)
#define ACTIVATED(value) activation_of(value CF_ACTIVATION_VALUES)
#else
#define ACTIVATED(value) (value)
#endif

#ifdef NEEDS_MODULO
// With the sign of the divisor.
CF_INLINE VALUE modulo(const VALUE a, const VALUE b) {
  const VALUE rest = CF_MATH(fmod)(a, b);
  return (rest != EACH(0)) & ((rest < EACH(0)) != (b < EACH(0))) ? rest + b : rest;
}
#endif
#ifdef NEEDS_WHOLE_MODULO
CF_INLINE VALUE whole_modulo(const VALUE a, const VALUE b) {
  const VALUE rest = a % b;
  return (rest != EACH(0)) & ((rest < EACH(0)) != (b < EACH(0))) ? rest + b : rest;
}
#endif

#ifdef NEEDS_WHOLE_POWER
// Exponents are from 0 on.
CF_INLINE VALUE whole_power(const VALUE a, const VALUE b) {
  VALUE result = EACH(1), square = a;
  for (int bit = 0; bit < 8 * (int)sizeof(NUMBER) - 1; ++bit) {
    result = ((b >> EACH(bit)) & EACH(1)) != EACH(0) ? result * square : result;
    square = square * square;
  }
  return result;
}
#endif

#endif  // OPERATORS_FUNCTIONS_H
