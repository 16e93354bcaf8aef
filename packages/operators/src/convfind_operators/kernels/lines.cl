// operators-lines: what becomes of lines of elements: a number each, as in reductions; or a line, as in softmax and norms.
//
// A line's elements lie along `more` axes and, where ALONG is 1, along that of the lanes. Otherwise lanes are
// neighbouring lines. On CPUs a work-item has `rows` rows of lines, or a part of their lanes; on GPUs, where ALONG is 1, a
// team of a work-group has a line and adds up in local memory, and otherwise a work-item has one.
#include "fours.h"
#include "functions.h"
#include "walk.h"

#ifndef OPERATION
// SUM, MEAN, MAX, MIN, PROD, L1, L2, LOG_SUM, LOG_SUM_EXP, SUM_SQUARE, ROOT_SUM; LOG_SOFTMAX, SOFTMAX, NORM, RMS
#define OPERATION SUM
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
#ifndef TEAM
#define TEAM GROUP  // those that share a line: a power of two
#endif
#ifndef HELD
#define HELD 0  // FOURs of a line that each of them holds in registers, so that the line is read once; 0: it is read again
#endif
#ifndef WHOLE
#define WHOLE 0  // 1: a line fills them
#endif
#ifndef MORE_AXES
#define MORE_AXES 3  // axes beside that of the lanes
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

#if WIDTH == 1
#define FIRST_LANE LANE
#define LANES TEAM
#else
#define FIRST_LANE 0
#define LANES WIDTH
#endif
// Loops over the elements of a line that a work-item has, and what it declares of each.
#define FOR_MORE                           \
  for (int m2 = 0; m2 < more_2; ++m2)      \
    for (int m1 = 0; m1 < more_1; ++m1)    \
      for (int m0 = 0; m0 < more_0; ++m0)
#define LANE ((int)CF_LOCAL_ID(0) % TEAM)
#if HELD
#define FOR_ELEMENTS                                                                        \
  CF_UNROLL                                                                                 \
  for (int part = 0; part < HELD; ++part)                                                   \
    CF_UNROLL                                                                               \
    for (int e = 0, flat = (part * TEAM + LANE) * FOUR; e < FOUR; ++e, ++flat)              \
      if (WHOLE || flat < ALL_OF_LINE)
#define LEFT
#define ELEMENT(rest) held[part * FOUR + e]
#elif FOUR > 1 && FLAT
// Lanes are whole FOURs. Steps to the next of them instead of a division for each.
#define FOR_ELEMENTS                                                                                                \
  for (int begin = LANE % (length / FOUR) * FOUR, m = LANE / (length / FOUR); m < more_0 * more_1 * more_2;         \
       begin += GROUP % (length / FOUR) * FOUR, m += GROUP / (length / FOUR), m += begin >= length,                 \
           begin -= begin >= length ? length : 0)                                                                   \
    for (int m0 = MORE_AXES > 1 ? m % more_0 : m, m1 = MORE_AXES > 1 ? m / more_0 % more_1 : 0,                     \
             m2 = MORE_AXES > 2 ? m / more_0 / more_1 : 0, once = 1;                                                \
         once; once = 0)                                                                                            \
      CF_UNROLL                                                                                                     \
      for (int e = 0, i = begin; e < FOUR; ++e, ++i)
#define LEFT                                         \
  const int left = 1;                                \
  if (e == 0) LOAD_FOUR(X_TYPE, four, AT(x));
#define ELEMENT(rest) four[e]
#elif FOUR > 1
// Lines are whole FOURs.
#define FOR_ELEMENTS                                                                        \
  FOR_MORE                                                                                  \
    for (int begin = LANE * FOUR; begin < length; begin += TEAM * FOUR)                     \
      CF_UNROLL                                                                             \
      for (int e = 0, i = begin; e < FOUR; ++e, ++i)
#define LEFT                                         \
  const int left = 1;                                \
  if (e == 0) LOAD_FOUR(X_TYPE, four, AT(x));
#define ELEMENT(rest) four[e]
#elif FLAT
// Steps to the next element instead of a division for each.
#define FOR_ELEMENTS                                                                                                \
  for (int i = LANE % length, m = LANE / length; m < more_0 * more_1 * more_2; i += GROUP % length, m += GROUP / length, \
           m += i >= length, i -= i >= length ? length : 0)                                                         \
    for (int m0 = MORE_AXES > 1 ? m % more_0 : m, m1 = MORE_AXES > 1 ? m / more_0 % more_1 : 0,                     \
             m2 = MORE_AXES > 2 ? m / more_0 / more_1 : 0, once = 1;                                                \
         once; once = 0)
#define LEFT const int left = 1;
#elif ALONG
#define FOR_ELEMENTS FOR_MORE for (int i = FIRST_LANE; i < length; i += LANES)
#define LEFT const int left = WIDTH == 1 ? 1 : min(length - i, WIDTH);
#else
#define FOR_ELEMENTS FOR_MORE
#define LEFT
#endif
#ifndef ELEMENT
#define ELEMENT(rest) LOADED(x, X_TYPE, X_IS, rest)
#endif
#if HELD
// Where an element of a line lies, by its number in the line.
#if ALONG
#define ALL_OF_LINE (MORE_AXES ? length * more_0 * more_1 * more_2 : length)
#define PLACE(flat)                                                                      \
  const int i = MORE_AXES ? (flat) % length : (flat), m = MORE_AXES ? (flat) / length : 0; \
  IN_MORE
#else
#define ALL_OF_LINE (more_0 * more_1 * more_2)
#define PLACE(flat)    \
  const int m = (flat); \
  IN_MORE
#endif
#define IN_MORE                                                                             \
  const int m0 = MORE_AXES > 1 ? m % more_0 : m, m1 = MORE_AXES > 1 ? m / more_0 % more_1 : 0, \
            m2 = MORE_AXES > 2 ? m / more_0 / more_1 : 0;
#define PLACED(t, step) (at_##t + m0 * t##_m0 + m1 * t##_m1 + m2 * t##_m2 + i * (step))
#define X_STEP (X_IS == 1 ? 1 : x_step)
#define Y_STEP (Y_IS == 1 ? 1 : y_step)
#define HELD_LEFT (WHOLE ? FOUR : ALL_OF_LINE - begin)
#define HOLD                                                                                         \
  CF_UNROLL                                                                                          \
  for (int part = 0; part < HELD; ++part) {                                                          \
    const int begin = (part * TEAM + LANE) * FOUR;                                                   \
    PLACE(WHOLE || begin < ALL_OF_LINE ? begin : 0)                                                  \
    LOAD_FIRST(X_TYPE, (held + part * FOUR), PLACED(x, X_STEP), HELD_LEFT, 0);                       \
  }
// Declares what neighbours of a part are multiplied by, or what is added, where that lies as they do.
#if SCALED && SCALE_IS == 1
#define SCALES_OF_PART OF_PART(scale, scales)
#else
#define SCALES_OF_PART
#endif
#if SHIFTED && BIAS_IS == 1
#define BIASES_OF_PART OF_PART(bias, biases)
#else
#define BIASES_OF_PART
#endif
#define OF_PART(t, array) \
  NUMBER array[FOUR];     \
  LOAD_FIRST(X_TYPE, array, PLACED(t, 1), HELD_LEFT, 0);
#endif
// Declares `result`: what `what` of `element` comes to, of all elements of a line, in all lanes; `rest` stands for elements
// beyond the line's end.
#define GATHERED(result, how, rest, what)                         \
  VALUE result = EACH(NONE_OF_##how);                             \
  FOR_ELEMENTS {                                                  \
    LEFT                                                          \
    const VALUE element = ELEMENT(rest);                          \
    const VALUE next = what;                                      \
    result = OF_##how(result, next);                              \
  }                                                               \
  FOLD(result, how)

#if !ALONG
#define FOLD(result, how)
#elif WIDTH == 1
// Of a team: sixteen of it fold all numbers, of a large one what 128 have folded, then each folds those sixteen.
#define FOLD(result, how)                                                                          \
  if (TEAM > 1) {                                                                                  \
    CF_LOCAL_PTR NUMBER *const of_team = parts + (int)CF_LOCAL_ID(0) / TEAM * TEAM;                \
    CF_BARRIER();                                                                                  \
    of_team[LANE] = result;                                                                        \
    CF_BARRIER();                                                                                  \
    if (TEAM > 256) {                                                                              \
      if (LANE < 128) {                                                                            \
        for (int other = LANE + 128; other < TEAM; other += 128) result = OF_##how(result, of_team[other]); \
        of_team[LANE] = result;                                                                    \
      }                                                                                            \
      CF_BARRIER();                                                                                \
    }                                                                                              \
    if (TEAM > 16) {                                                                               \
      if (LANE < 16) {                                                                             \
        for (int other = LANE + 16; other < (TEAM > 256 ? 128 : TEAM); other += 16) \
          result = OF_##how(result, of_team[other]); \
        of_team[LANE] = result;                                                                    \
      }                                                                                            \
      CF_BARRIER();                                                                                \
    }                                                                                              \
    result = of_team[0];                                                                           \
    for (int other = 1; other < TEAM && other < 16; ++other) result = OF_##how(result, of_team[other]); \
  }
#else
#define FOLD(result, how)                                                           \
  {                                                                                 \
    const __typeof__(result.lo) eight = OF_##how(result.lo, result.hi);             \
    const __typeof__(eight.lo) four = OF_##how(eight.lo, eight.hi);                 \
    const __typeof__(four.lo) two = OF_##how(four.lo, four.hi);                     \
    result = EACH(OF_##how(two.x, two.y));                                          \
  }
#endif

#define SQUARE(value) ((value) * (value))
#define FINITE(value) ((value) - (value) == (value) - (value) ? (value) : EACH(0))

// Reductions declare `reduced`.
#define SUM_OF_LINE GATHERED(reduced, ADD, 0, element)
#define MEAN_OF_LINE GATHERED(reduced, ADD, 0, element) reduced = reduced / EACH(elements);
#define MAX_OF_LINE GATHERED(reduced, MAX, NONE_OF_MAX, element)
#define MIN_OF_LINE GATHERED(reduced, MIN, NONE_OF_MIN, element)
#define PROD_OF_LINE GATHERED(reduced, MUL, 1, element)
#define L1_OF_LINE GATHERED(reduced, ADD, 0, OF_MAGNITUDE(element))
#define L2_OF_LINE GATHERED(reduced, ADD, 0, SQUARE(element)) reduced = CF_MATH(sqrt)(reduced);
#define ROOT_SUM_OF_LINE GATHERED(reduced, ADD, 0, element) reduced = CF_MATH(sqrt)(reduced);
#define LOG_SUM_OF_LINE GATHERED(reduced, ADD, 0, element) reduced = CF_MATH(log)(reduced);
#define SUM_SQUARE_OF_LINE GATHERED(reduced, ADD, 0, SQUARE(element))
#define LOG_SUM_EXP_OF_LINE                                                     \
  GATHERED(largest, MAX, NONE_OF_MAX, element)                                  \
  const VALUE origin = FINITE(largest);                                         \
  GATHERED(reduced, ADD, NONE_OF_MAX, CF_MATH(exp)(element - origin))           \
  reduced = origin + CF_MATH(log)(reduced);

// What lines have in common, and what becomes of an element.
#define SUM_OF_EXPONENTIALS(remembered)                                         \
  GATHERED(largest, MAX, NONE_OF_MAX, element)                                  \
  GATHERED(sum, ADD, NONE_OF_MAX, remembered(CF_MATH(exp)(element - largest)))
#define SOFTMAX_OF_LINE SUM_OF_EXPONENTIALS(REMEMBERED) SHARED_OUT
#define LOG_SOFTMAX_OF_LINE SUM_OF_EXPONENTIALS(OF_IDENTITY) sum = CF_MATH(log)(sum);
// Exponentials take the places of the elements where a line has some.
#if HELD
#define REMEMBERED(value) (held[part * FOUR + e] = (value))
#define SHARED_OUT sum = EACH(1) / sum;
#define RESULT_OF_SOFTMAX (element * sum)
#else
#define REMEMBERED(value) (value)
#define SHARED_OUT
#define RESULT_OF_SOFTMAX (CF_MATH(exp)(element - largest) / sum)
#endif
#define NORM_OF_LINE                                                            \
  GATHERED(mean, ADD, 0, element)                                               \
  mean = mean / EACH(elements);                                                 \
  GATHERED(spread, ADD, mean, SQUARE(element - mean))                           \
  spread = EACH(1) / CF_MATH(sqrt)(spread / EACH(elements) + EACH(epsilon));
#define RMS_OF_LINE                                                             \
  GATHERED(spread, ADD, 0, SQUARE(element))                                     \
  spread = EACH(1) / CF_MATH(sqrt)(spread / EACH(elements) + EACH(epsilon));
#define RESULT_OF_LOG_SOFTMAX (element - largest - sum)
#define RESULT_OF_NORM ((element - mean) * spread)
#define RESULT_OF_RMS (element * spread)

#if SCALED
#define SCALE_PARAMETER CF_GLOBAL const CF_TYPE(X_TYPE) *scale, STEPS(scale), MORE(scale),
#if HELD && SCALE_IS == 1
#define MULTIPLIED(value) ((value) * scales[e])
#else
#define MULTIPLIED(value) ((value) * LOADED(scale, X_TYPE, SCALE_IS, 1))
#endif
#else
#define SCALE_PARAMETER
#define MULTIPLIED(value) (value)
#endif
#if SHIFTED
#define BIAS_PARAMETER CF_GLOBAL const CF_TYPE(X_TYPE) *bias, STEPS(bias), MORE(bias),
#if HELD && BIAS_IS == 1
#define MOVED(value) ACTIVATED((value) + biases[e])
#else
#define MOVED(value) ACTIVATED((value) + LOADED(bias, X_TYPE, BIAS_IS, 0))
#endif
#else
#define BIAS_PARAMETER
#define MOVED(value) (value)
#endif

#if ALONG && WIDTH == 1
#define IN_GROUPS CF_WORK_GROUP_SIZE(GROUP, 1, 1)
#else
#define IN_GROUPS
#endif

CF_KERNEL ONE_ITEM IN_GROUPS void operators_lines(CF_GLOBAL const CF_TYPE(X_TYPE) *x, STEPS(x), MORE(x), SCALE_PARAMETER BIAS_PARAMETER
                                   CF_GLOBAL CF_TYPE(Y_TYPE) *y,
                               STEPS(y), MORE(y), ROW_SIZES, const int length, const int more_0, const int more_1,
                               const int more_2, const CF_LONG all, const CF_LONG rows, const CF_LONG columns,
                               const NUMBER elements, const NUMBER epsilon CF_ACTIVATION_PARAMETERS) {
#if WIDTH > 1
  const CF_LONG first = CF_GLOBAL_ID(0) * rows;
  for (CF_LONG index = first; index < min(first + rows, all); ++index) {
    const Row row = ROW_OF(index);
#elif ALONG
  CF_LOCAL NUMBER parts[GROUP];
  for (CF_LONG first = CF_GROUP_ID(0) * (GROUP / TEAM); first < all; first += CF_GLOBAL_SIZE(0) / TEAM) {
    // All work-items meet at the barriers: teams without a line take the last once more.
    const CF_LONG index = first + (int)CF_LOCAL_ID(0) / TEAM;
    const Row row = ROW_OF(index < all ? index : all - 1);
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
    const CF_LONG begin = CF_GLOBAL_ID(1) * columns, end = min(begin + columns, (CF_LONG)length);
    for (CF_LONG i = begin; i < end; i += WIDTH) {
      const int left = min((CF_LONG)WIDTH, end - i);
#else
    {
#endif
#if HELD
      NUMBER held[HELD * FOUR];
      HOLD
#elif FOUR > 1
      NUMBER four[FOUR];
#endif
      OPERATION_JOINED(OPERATION, _OF_LINE)
#if HELD && defined(LINES)
      CF_UNROLL
      for (int part = 0; part < HELD; ++part) {
        const int left = 1, begin = (part * TEAM + LANE) * FOUR;
        PLACE(WHOLE || begin < ALL_OF_LINE ? begin : 0)
        NUMBER values[FOUR];
        SCALES_OF_PART
        BIASES_OF_PART
        CF_UNROLL
        for (int e = 0; e < FOUR; ++e) {
          const NUMBER element = held[part * FOUR + e];
          values[e] = MOVED(MULTIPLIED(OPERATION_JOINED(RESULT_OF_, OPERATION)));
        }
        if ((!ALONG || index < all) && (WHOLE || begin < ALL_OF_LINE))
          STORE_FIRST(Y_TYPE, PLACED(y, Y_STEP), values, HELD_LEFT);
      }
#elif defined(LINES) && FOUR > 1
      NUMBER values[FOUR];
      FOR_ELEMENTS {
        LEFT
        const NUMBER element = ELEMENT(0);
        values[e] = MOVED(MULTIPLIED(OPERATION_JOINED(RESULT_OF_, OPERATION)));
        if (e == FOUR - 1) STORE_FOUR(Y_TYPE, AT(y) - (FOUR - 1), values);
      }
#elif defined(LINES)
      FOR_ELEMENTS {
        LEFT
        const VALUE element = ELEMENT(0);
        const VALUE value = MOVED(MULTIPLIED(OPERATION_JOINED(RESULT_OF_, OPERATION)));
        STORE_STEPPED(Y_TYPE, AT(y), Y_IS, y_step, left, value);
      }
#elif !ALONG
      STORE_STEPPED(Y_TYPE, at_y + i * y_step, Y_IS, y_step, left, reduced);
#elif WIDTH == 1
      if (LANE == 0 && index < all) CF_STORE(Y_TYPE, at_y, 0, reduced);
#else
      CF_STORE(Y_TYPE, at_y, 0, reduced.s0);
#endif
    }
  }
}
