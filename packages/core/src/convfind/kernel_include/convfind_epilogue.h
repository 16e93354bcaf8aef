// What becomes of a sum where it is complete, in one order everywhere:
//
//   result = activation(alpha * sum + bias[channel] + beta * z)
//   result = activation(alpha * sum + bias[channel]) + beta * z    with CF_Z_LAST
//
// z is what lies in the result, or memory of its own in which it lies as the result does. A kernel takes
// CF_EPILOGUE_PARAMETERS, makes an Epilogue of them while its pointer to the result is as it came, and hands that down to
// where it stores: see docs/writing-a-solver.md. With no macro defined that is alpha and beta and nothing else.
#ifndef CONVFIND_EPILOGUE_H
#define CONVFIND_EPILOGUE_H

#include "convfind_activation.h"

// CF_BIAS: element type of the bias, which has one for each channel of the result; not defined: no bias.
// CF_Z: element type of a z of its own, the same as the result's; not defined: z is what lies in the result.
// CF_Z_LAST: in place of CF_Z, where z comes behind the activation. It lies apart from the result, in which there may be parts
// of the sum until then.
// CF_ACTIVATION: see convfind_activation.h; not defined: none.
#ifndef CF_PASSES
#define CF_PASSES 0  // 1: the kernel adds to its result in several passes, of which the first and the last are special
#endif
#if CF_PASSES && (defined(CF_BIAS) || defined(CF_ACTIVATION))
#define CF_KNOWS_PASS 1
#else
#define CF_KNOWS_PASS 0
#endif

typedef struct {
  CF_NUMBER alpha, beta;
#ifdef CF_BIAS
  CF_GLOBAL const CF_TYPE(CF_BIAS) *bias;  // of the channel that others are counted from
#endif
#ifdef CF_Z
  CF_GLOBAL const CF_TYPE(CF_Z) *z, *result;  // where both begin
#endif
#ifdef CF_Z_LAST
  CF_NUMBER beta_last;
  CF_GLOBAL const CF_TYPE(CF_Z_LAST) *z_last, *result;  // where both begin
#endif
#ifdef CF_ACTIVATION
  CF_NUMBER a, b, c;
#endif
#if CF_KNOWS_PASS
  int is_first, is_last;
#endif
} Epilogue;

// As kernels take it and convfind.kit.epilogue passes it, and `const Epilogue epilogue = CF_EPILOGUE(result);` of it.
#define CF_EPILOGUE_PARAMETERS \
  const CF_NUMBER cf_alpha, const CF_NUMBER cf_beta CF_BIAS_PARAMETER CF_Z_PARAMETER CF_ACTIVATION_PARAMETERS
#define CF_EPILOGUE(result) \
  {cf_alpha, CF_BETA_VALUE CF_BIAS_VALUE CF_Z_VALUE(result) CF_ACTIVATION_VALUES CF_PASS_VALUES}
#ifdef CF_BIAS
#define CF_BIAS_PARAMETER , CF_GLOBAL const CF_TYPE(CF_BIAS) *CF_RESTRICT cf_bias
#define CF_BIAS_VALUE , cf_bias
#else
#define CF_BIAS_PARAMETER
#define CF_BIAS_VALUE
#endif
#ifdef CF_Z_LAST
#define CF_BETA_VALUE 0
#define CF_Z_PARAMETER , CF_GLOBAL const CF_TYPE(CF_Z_LAST) *cf_z
#define CF_Z_VALUE(result) , cf_beta, cf_z, (CF_GLOBAL const CF_TYPE(CF_Z_LAST) *)(result)
#elif defined(CF_Z)
#define CF_BETA_VALUE cf_beta
#define CF_Z_PARAMETER , CF_GLOBAL const CF_TYPE(CF_Z) *cf_z
#define CF_Z_VALUE(result) , cf_z, (CF_GLOBAL const CF_TYPE(CF_Z) *)(result)
#else
#define CF_BETA_VALUE cf_beta
#define CF_Z_PARAMETER
#define CF_Z_VALUE(result)
#endif
#if CF_KNOWS_PASS
#define CF_PASS_VALUES , 1, 1
#else
#define CF_PASS_VALUES
#endif

// The same with channels counted from `channel` on.
#ifdef CF_BIAS
#define CF_EPILOGUE_FROM(epilogue, channel) cf_epilogue_from(epilogue, channel)
CF_INLINE Epilogue cf_epilogue_from(Epilogue epilogue, const CF_LONG channel) {
  epilogue.bias += channel;
  return epilogue;
}
#else
#define CF_EPILOGUE_FROM(epilogue, channel) (epilogue)
#endif

// What is to be done with sums that alpha is in already.
CF_INLINE Epilogue cf_epilogue_of_scaled(Epilogue epilogue) {
  epilogue.alpha = 1;
  return epilogue;
}

// Of one of several passes, each of which adds a part of the sum.
CF_INLINE Epilogue cf_epilogue_of_pass(Epilogue epilogue, const int is_first, const int is_last) {
  epilogue.beta = is_first ? epilogue.beta : 1;
#ifdef CF_Z
  epilogue.z = is_first ? epilogue.z : epilogue.result;
#endif
#if CF_KNOWS_PASS
  epilogue.is_first = is_first;
  epilogue.is_last = is_last;
#endif
  return epilogue;
}

// Of what is complete in the first pass already, as results that nothing reaches.
CF_INLINE Epilogue cf_epilogue_of_first_only(Epilogue epilogue) {
#if CF_KNOWS_PASS
  epilogue.is_last = 1;
#endif
  return epilogue;
}

// Whether a z is added before the activation, whether it is what lies in the result, and where the z of a place of the
// result is. A beta of zero never reads the result, which may hold NaN.
#ifdef CF_Z
#define CF_ADDS_Z(epilogue) 1
#define CF_READS_RESULT(epilogue) ((epilogue).z == (epilogue).result)
#define CF_Z_OF(to, epilogue) ((epilogue).z + ((CF_GLOBAL const CF_TYPE(CF_Z) *)(to) - (epilogue).result))
#else
#define CF_ADDS_Z(epilogue) ((epilogue).beta != 0)
#define CF_READS_RESULT(epilogue) ((epilogue).beta != 0)
#define CF_Z_OF(to, epilogue) (to)
#endif

// The z of a place of the result as a number, and of four places, read before what is stored in front of it: with CF_PASSES
// the item may have written it.
#if CF_PASSES
#define CF_LOAD_OF_Z(dtype, from) CF_LOAD(dtype, from, 0)
#define CF_LOAD4_OF_Z(array, from) CF_LOAD4(array, from)
#else
#define CF_LOAD_OF_Z(dtype, from) CF_LOAD_EARLY(dtype, from)
#define CF_LOAD4_OF_Z(array, from) CF_LOAD4_EARLY(array, from)
#endif
#ifdef CF_Z
#define CF_LOAD_Z(dtype, to, epilogue) CF_LOAD_OF_Z(dtype, CF_Z_OF(to, epilogue))
#define CF_LOAD4_Z(array, to, epilogue) CF_LOAD4_OF_Z(array, CF_Z_OF(to, epilogue))
#else
#define CF_LOAD_Z(dtype, to, epilogue) CF_LOAD(dtype, CF_Z_OF(to, epilogue), 0)
#define CF_LOAD4_Z(array, to, epilogue) CF_LOAD4(array, CF_Z_OF(to, epilogue))
#endif

// The steps, of numbers; vectors have theirs in convfind_cpu_vector.h.
#ifdef CF_BIAS
#define CF_BIAS_OF(epilogue, channel) cf_bias_of(epilogue, channel)
CF_INLINE CF_NUMBER cf_bias_of(const Epilogue epilogue, const CF_LONG channel) {
#if CF_KNOWS_PASS
  if (!epilogue.is_first) return 0;
#endif
  return (CF_NUMBER)CF_LOAD(CF_BIAS, epilogue.bias, channel);
}
#define CF_BIASED_BY(sum, bias, epilogue) CF_ADD_PRODUCT((epilogue).alpha, (CF_NUMBER)(sum), bias)
#else
#define CF_BIAS_OF(epilogue, channel) ((CF_NUMBER)0)
#define CF_BIASED_BY(sum, bias, epilogue) ((epilogue).alpha * (CF_NUMBER)(sum))
#endif
#define CF_BIASED(sum, channel, epilogue) CF_BIASED_BY(sum, CF_BIAS_OF(epilogue, channel), epilogue)
#ifdef CF_ACTIVATION
#define CF_ACTIVATED(value, epilogue) cf_activated(value, epilogue)
CF_INLINE CF_NUMBER cf_activated(const CF_NUMBER value, const Epilogue epilogue) {
#if CF_KNOWS_PASS
  if (!epilogue.is_last) return value;
#endif
  return cf_activation(value, epilogue.a, epilogue.b, epilogue.c);
}
#else
#define CF_ACTIVATED(value, epilogue) (value)
#endif
// What is complete otherwise, in its result, whose place `to` points to.
#ifdef CF_Z_LAST
#define CF_FINISHED(dtype, to, value, epilogue)                                                                        \
  CF_ADD_PRODUCT((epilogue).beta_last,                                                                                 \
                 CF_HAS_Z_LAST(epilogue) ? (CF_NUMBER)CF_LOAD_OF_Z(dtype, CF_Z_LAST_OF(to, epilogue)) : (CF_NUMBER)(0), \
                 CF_ACTIVATED(value, epilogue))
#define CF_Z_LAST_OF(to, epilogue) \
  ((epilogue).z_last + ((CF_GLOBAL const CF_TYPE(CF_Z_LAST) *)(to) - (epilogue).result))
#if CF_KNOWS_PASS
#define CF_HAS_Z_LAST(epilogue) ((epilogue).is_last)
#else
#define CF_HAS_Z_LAST(epilogue) 1
#endif
#else
#define CF_FINISHED(dtype, to, value, epilogue) CF_ACTIVATED(value, epilogue)
#endif
#define CF_ADD_PRODUCT(a, b, c) CF_JOIN(CF_ADD_PRODUCT_, CF_ARITHMETIC)(a, b, c)
#define CF_ADD_PRODUCT_FLOAT64(a, b, c) CF_FMA(a, b, c)
#define CF_ADD_PRODUCT_FLOAT32(a, b, c) CF_FMA(a, b, c)
#define CF_ADD_PRODUCT_INT32(a, b, c) ((a) * (b) + (c))

// The same where the kernel has read the z, before the activation or behind it, itself.
#if defined(CF_Z)
#define CF_FINISHED_WITH(value, z, epilogue) CF_ACTIVATED(CF_ADD_PRODUCT((epilogue).beta, z, value), epilogue)
#elif defined(CF_Z_LAST)
#define CF_FINISHED_WITH(value, z, epilogue) CF_ADD_PRODUCT((epilogue).beta_last, z, CF_ACTIVATED(value, epilogue))
#else
#define CF_FINISHED_WITH(value, z, epilogue) CF_ACTIVATED(value, epilogue)
#endif

// The result of a sum where CF_READS_RESULT is 0; `to` points to its place.
#ifdef CF_Z
#define CF_RESULT(dtype, to, channel, sum, epilogue)                                                  \
  CF_ACTIVATED(CF_ADD_PRODUCT((epilogue).beta, (CF_NUMBER)CF_LOAD_Z(dtype, to, epilogue),             \
                              CF_BIASED(sum, channel, epilogue)),                                     \
               epilogue)
#else
#define CF_RESULT(dtype, to, channel, sum, epilogue) \
  CF_FINISHED(dtype, to, CF_BIASED(sum, channel, epilogue), epilogue)
#endif

// Stores the result of a sum; or of what alpha and the bias are in already.
#define CF_STORE_RESULT(dtype, to, channel, sum, epilogue) \
  CF_STORE_BIASED(dtype, to, CF_BIASED(sum, channel, epilogue), epilogue)
#define CF_STORE_BIASED(dtype, to, value, epilogue)                                                    \
  do {                                                                                                 \
    CF_NUMBER cf_value = value;                                                                        \
    if (CF_ADDS_Z(epilogue))                                                                           \
      cf_value = CF_ADD_PRODUCT((epilogue).beta, (CF_NUMBER)CF_LOAD_Z(dtype, to, epilogue), cf_value); \
    CF_STORE(dtype, to, 0, CF_FINISHED(dtype, to, cf_value, epilogue));                                \
  } while (0)

// The same of a whole number, which stays as it is where nothing is to be done but to add a whole bias.
#if defined(CF_Z) || defined(CF_ACTIVATION)
#define CF_STORE_WHOLE_RESULT(dtype, to, channel, sum, epilogue) CF_STORE_RESULT(dtype, to, channel, sum, epilogue)
#else
#define CF_STORE_WHOLE_RESULT(dtype, to, channel, sum, epilogue)            \
  do {                                                                      \
    if ((epilogue).alpha == 1.0f && (epilogue).beta == 0.0f)                \
      CF_STORE(dtype, to, 0, CF_WITH_WHOLE_BIAS(sum, channel, epilogue));   \
    else                                                                    \
      CF_STORE_RESULT(dtype, to, channel, sum, epilogue);                   \
  } while (0)
#ifdef CF_BIAS
#define CF_WITH_WHOLE_BIAS(sum, channel, epilogue) ((sum) + CF_LOAD(CF_BIAS, (epilogue).bias, channel))
#else
#define CF_WITH_WHOLE_BIAS(sum, channel, epilogue) (sum)
#endif
#endif

// Four neighbouring floats of the result, aligned to 16 bytes as those of z are, of channels `apart` from each other, 0 or
// 1: of what alpha and the bias are in their results in place; of sums their results, in place or not, and stores of them.
CF_INLINE void cf_finish_four(float *values, CF_GLOBAL const float *to, const Epilogue epilogue) {
  if (CF_ADDS_Z(epilogue)) {
    float z[4];
    CF_LOAD4_Z(z, to, epilogue);
    CF_UNROLL
    for (int e = 0; e < 4; ++e) values[e] = CF_FMA((float)epilogue.beta, z[e], values[e]);
  }
  CF_UNROLL
  for (int e = 0; e < 4; ++e) values[e] = CF_ACTIVATED(values[e], epilogue);
#ifdef CF_Z_LAST
  if (CF_HAS_Z_LAST(epilogue)) {
    float z_last[4];
    CF_LOAD4_OF_Z(z_last, CF_Z_LAST_OF(to, epilogue));
    CF_UNROLL
    for (int e = 0; e < 4; ++e) values[e] = CF_FMA((float)epilogue.beta_last, z_last[e], values[e]);
  }
#endif
}
CF_INLINE void cf_four_results(float *results, CF_GLOBAL const float *to, const CF_LONG channel, const int apart,
                               const float *sums, const Epilogue epilogue) {
  CF_UNROLL
  for (int e = 0; e < 4; ++e) results[e] = CF_BIASED(sums[e], channel + e * apart, epilogue);
  cf_finish_four(results, to, epilogue);
}
CF_INLINE void cf_store_four_results(CF_GLOBAL float *to, const CF_LONG channel, const int apart, const float *sums,
                                     const Epilogue epilogue) {
  float results[4];
  cf_four_results(results, to, channel, apart, sums, epilogue);
  CF_STORE4(to, results);
}

#endif  // CONVFIND_EPILOGUE_H
