// operators-lines: what becomes of lines of elements: a number each, as in reductions; or a line, as in softmax and norms.
//
// A line's elements lie along `more` axes and, where ALONG is 1, along that of the lanes. Otherwise lanes are
// neighbouring lines. On CPUs a work-item has `rows` rows of lines, or a part of their lanes; on GPUs, where ALONG is 1, a
// work-group has a line and adds up in local memory, and otherwise a work-item has one.
#include "functions.h"
#include "walk.h"

#ifndef OPERATION
#define OPERATION SUM  // SUM, MEAN, MAX, MIN, PROD, L1, L2, LOG_SUM, LOG_SUM_EXP, SUM_SQUARE; LOG_SOFTMAX, SOFTMAX, NORM, RMS
#endif
#ifndef ALONG
#define ALONG 1
#endif
// LINES: defined where lines become lines, as SOFTMAX, LOG_SOFTMAX, NORM and RMS do.
#ifndef X_TYPE
#define X_TYPE FLOAT32  // elements of x and of what a norm multiplies by and adds
#define X_IS 1          // lanes of x lie: 1 next to each other, 2 at any distance
#endif
#ifndef Y_TYPE
#define Y_TYPE FLOAT32
#define Y_IS 1
#endif
#ifndef SCALED
#define SCALED 0  // 1: a norm is multiplied by `scale`, whose lanes are SCALE_IS: 0 one for all, 1, 2
#define SCALE_IS 0
#endif
#ifndef SHIFTED
#define SHIFTED 0  // 1: and `bias` is added, whose lanes are BIAS_IS
#define BIAS_IS 0
#endif
#ifndef FLAT
#define FLAT 0  // 1: a group's work-items share all elements of a line, not those of its lanes: these are fewer
#endif
#ifndef GROUP
#define GROUP 256  // work-items of a group on GPUs
#endif

// CF_JOIN once more, for macros that use it in turn.
#define OPERATION_JOINED(left, right) OPERATION_JOINED_EXPANDED(left, right)
#define OPERATION_JOINED_EXPANDED(left, right) left##right

// What running results begin with, and how two of them, of vectors or numbers, become one.
#define NONE_OF_ADD 0
#define NONE_OF_MUL 1
#define NONE_OF_MAX LEAST_NUMBER
#define NONE_OF_MIN LARGEST_NUMBER

#define MORE(t) const CF_LONG t##_m0, const CF_LONG t##_m1, const CF_LONG t##_m2
#define AT(t) (at_##t + m0 * t##_m0 + m1 * t##_m1 + m2 * t##_m2 + i * t##_step)
#define LOADED(t, dtype, is, rest) CF_JOIN(LOADED_, is)(dtype, AT(t), t##_step, rest)
#define LOADED_0(dtype, at, step, rest) EACH(CF_LOAD(dtype, at, 0))
#define LOADED_1(dtype, at, step, rest) (left >= WIDTH ? LOAD(dtype, at) : LOAD_SOME(dtype, at, 1, left, rest))
#define LOADED_2(dtype, at, step, rest) LOAD_SOME(dtype, at, step, left, rest)

#if !ALONG
#define FIRST_LANE i
#define END_LANE (i + 1)
#define LANES WIDTH
#elif WIDTH == 1
#define FIRST_LANE (int)CF_LOCAL_ID(0)
#define END_LANE length
#define LANES GROUP
#else
#define FIRST_LANE 0
#define END_LANE length
#define LANES WIDTH
#endif
#if ALONG
#define LANE_LOOP for (int i = FIRST_LANE; i < END_LANE; i += LANES)
#define LEFT const int left = WIDTH == 1 ? 1 : min(length - i, WIDTH);
#else
#define LANE_LOOP
#define LEFT
#endif
#if FLAT
#define FOR_ELEMENTS                                                                                             \
  for (int e = CF_LOCAL_ID(0); e < more_0 * more_1 * more_2 * length; e += GROUP)                                \
    for (int i = e % length, m0 = e / length % more_0, m1 = e / length / more_0 % more_1,                        \
             m2 = e / length / more_0 / more_1, once = 1;                                                        \
         once; once = 0)
#else
#define FOR_ELEMENTS                       \
  for (int m2 = 0; m2 < more_2; ++m2)      \
    for (int m1 = 0; m1 < more_1; ++m1)    \
      for (int m0 = 0; m0 < more_0; ++m0)  \
        LANE_LOOP
#endif

// Declares `result`: what `what` of `element` comes to, of all elements of a line, in all lanes; `rest` stands for elements
// beyond the line's end.
#define GATHERED(result, how, rest, what)                         \
  VALUE result = EACH(NONE_OF_##how);                             \
  FOR_ELEMENTS {                                                  \
    LEFT                                                          \
    const VALUE element = LOADED(x, X_TYPE, X_IS, rest);          \
    const VALUE next = what;                                      \
    result = OF_##how(result, next);                              \
  }                                                               \
  FOLD(result, how)

#if !ALONG
#define FOLD(result, how)
#elif WIDTH == 1
#define FOLD(result, how)                                                          \
  CF_BARRIER();                                                                    \
  parts[CF_LOCAL_ID(0)] = result;                                                  \
  CF_BARRIER();                                                                    \
  for (int other = GROUP / 2; other > 0; other /= 2) {                             \
    if ((int)CF_LOCAL_ID(0) < other)                                               \
      parts[CF_LOCAL_ID(0)] = OF_##how(parts[CF_LOCAL_ID(0)], parts[CF_LOCAL_ID(0) + other]); \
    CF_BARRIER();                                                                  \
  }                                                                                \
  result = parts[0];
#else
#define FOLD(result, how)                                          \
  {                                                                \
    NUMBER lanes[WIDTH];                                           \
    vstore16(result, 0, lanes);                                    \
    NUMBER all = lanes[0];                                         \
    for (int lane = 1; lane < WIDTH; ++lane) all = OF_##how(all, lanes[lane]); \
    result = EACH(all);                                            \
  }
#endif

#define COUNT ((NUMBER)((CF_LONG)more_0 * more_1 * more_2 * (ALONG ? length : 1)))
#define SQUARE(value) ((value) * (value))
#define FINITE(value) ((value) - (value) == (value) - (value) ? (value) : EACH(0))

// Reductions declare `reduced`.
#define SUM_OF_LINE GATHERED(reduced, ADD, 0, element)
#define MEAN_OF_LINE GATHERED(reduced, ADD, 0, element) reduced = reduced / EACH(COUNT);
#define MAX_OF_LINE GATHERED(reduced, MAX, NONE_OF_MAX, element)
#define MIN_OF_LINE GATHERED(reduced, MIN, NONE_OF_MIN, element)
#define PROD_OF_LINE GATHERED(reduced, MUL, 1, element)
#define L1_OF_LINE GATHERED(reduced, ADD, 0, OF_MAGNITUDE(element))
#define L2_OF_LINE GATHERED(reduced, ADD, 0, SQUARE(element)) reduced = CF_MATH(sqrt)(reduced);
#define LOG_SUM_OF_LINE GATHERED(reduced, ADD, 0, element) reduced = CF_MATH(log)(reduced);
#define SUM_SQUARE_OF_LINE GATHERED(reduced, ADD, 0, SQUARE(element))
#define LOG_SUM_EXP_OF_LINE                                                     \
  GATHERED(largest, MAX, NONE_OF_MAX, element)                                  \
  const VALUE origin = FINITE(largest);                                         \
  GATHERED(reduced, ADD, NONE_OF_MAX, CF_MATH(exp)(element - origin))           \
  reduced = origin + CF_MATH(log)(reduced);

// What lines have in common, and what becomes of an element.
#define SOFTMAX_OF_LINE                                                         \
  GATHERED(largest, MAX, NONE_OF_MAX, element)                                  \
  GATHERED(sum, ADD, NONE_OF_MAX, CF_MATH(exp)(element - largest))
#define LOG_SOFTMAX_OF_LINE SOFTMAX_OF_LINE sum = CF_MATH(log)(sum);
#define NORM_OF_LINE                                                            \
  GATHERED(mean, ADD, 0, element)                                               \
  mean = mean / EACH(COUNT);                                                    \
  GATHERED(spread, ADD, mean, SQUARE(element - mean))                           \
  spread = EACH(1) / CF_MATH(sqrt)(spread / EACH(COUNT) + EACH(epsilon));
#define RMS_OF_LINE                                                             \
  GATHERED(spread, ADD, 0, SQUARE(element))                                     \
  spread = EACH(1) / CF_MATH(sqrt)(spread / EACH(COUNT) + EACH(epsilon));
#define RESULT_OF_SOFTMAX (CF_MATH(exp)(element - largest) / sum)
#define RESULT_OF_LOG_SOFTMAX (element - largest - sum)
#define RESULT_OF_NORM ((element - mean) * spread)
#define RESULT_OF_RMS (element * spread)

#if SCALED
#define SCALE_PARAMETER CF_GLOBAL const CF_TYPE(X_TYPE) *scale, STEPS(scale), MORE(scale),
#define MULTIPLIED(value) ((value) * LOADED(scale, X_TYPE, SCALE_IS, 1))
#else
#define SCALE_PARAMETER
#define MULTIPLIED(value) (value)
#endif
#if SHIFTED
#define BIAS_PARAMETER CF_GLOBAL const CF_TYPE(X_TYPE) *bias, STEPS(bias), MORE(bias),
#define MOVED(value) ((value) + LOADED(bias, X_TYPE, BIAS_IS, 0))
#else
#define BIAS_PARAMETER
#define MOVED(value) (value)
#endif

CF_KERNEL void operators_lines(CF_GLOBAL const CF_TYPE(X_TYPE) *x, STEPS(x), MORE(x), SCALE_PARAMETER BIAS_PARAMETER
                                   CF_GLOBAL CF_TYPE(Y_TYPE) *y,
                               STEPS(y), MORE(y), ROW_SIZES, const int length, const int more_0, const int more_1,
                               const int more_2, const CF_LONG all, const CF_LONG rows, const CF_LONG columns,
                               const NUMBER epsilon) {
#if WIDTH > 1
  const CF_LONG first = CF_GLOBAL_ID(0) * rows;
  for (CF_LONG index = first; index < min(first + rows, all); ++index) {
    const Row row = ROW_OF(index);
#elif ALONG
  CF_LOCAL NUMBER parts[GROUP];
  for (CF_LONG index = CF_GROUP_ID(0); index < all; index += CF_GLOBAL_SIZE(0) / GROUP) {
    const Row row = ROW_OF(index);
#else
  for (CF_LONG index = CF_GLOBAL_ID(0); index < all * length; index += CF_GLOBAL_SIZE(0)) {
    const Row row = ROW_OF(index / length);
#endif
    CF_GLOBAL const CF_TYPE(X_TYPE) *const at_x = x + ROW_START(x, row);
    CF_GLOBAL CF_TYPE(Y_TYPE) *const at_y = y + ROW_START(y, row);
#if SCALED
    CF_GLOBAL const CF_TYPE(X_TYPE) *const at_scale = scale + ROW_START(scale, row);
#endif
#if SHIFTED
    CF_GLOBAL const CF_TYPE(X_TYPE) *const at_bias = bias + ROW_START(bias, row);
#endif
#if !ALONG && WIDTH == 1
    const int i = index % length, left = 1;
    {
#elif !ALONG
    const CF_LONG begin = CF_GLOBAL_ID(1) * columns;
    for (CF_LONG i = begin; i < min(begin + columns, (CF_LONG)length); i += WIDTH) {
      const int left = min((CF_LONG)WIDTH, min(begin + columns, (CF_LONG)length) - i);
#else
    {
#endif
      OPERATION_JOINED(OPERATION, _OF_LINE)
#ifdef LINES
      FOR_ELEMENTS {
        LEFT
        const VALUE element = LOADED(x, X_TYPE, X_IS, 0);
        const VALUE value = MOVED(MULTIPLIED(OPERATION_JOINED(RESULT_OF_, OPERATION)));
        STORE_STEPPED(Y_TYPE, AT(y), Y_IS, y_step, left, value);
      }
#elif !ALONG
      STORE_STEPPED(Y_TYPE, at_y + i * y_step, Y_IS, y_step, left, reduced);
#elif WIDTH == 1
      if (CF_LOCAL_ID(0) == 0) CF_STORE(Y_TYPE, at_y, 0, reduced);
#else
      CF_STORE(Y_TYPE, at_y, 0, reduced.s0);
#endif
    }
  }
}
