// operators-lines: on CPUs, where lines become lines whose lanes are neighbours in x and in y.
//
// A line's results are stored while the next is read, so that memory does not wait for arithmetic. Where ALONG is 1, lanes are
// elements of a line; otherwise neighbouring lines, of which VECTORS of 16 lie in private memory.
#include "functions.h"
#include "walk.h"

#ifndef OPERATION
#define OPERATION SOFTMAX  // SOFTMAX, LOG_SOFTMAX, NORM, RMS
#endif
#ifndef ALONG
#define ALONG 1
#endif
#ifndef X_TYPE
#define X_TYPE FLOAT32  // elements of x and of what a norm multiplies by and adds
#define Y_TYPE FLOAT32
#endif
#ifndef SCALED
#define SCALED 0  // 1: a norm is multiplied by `scale`, whose lanes are SCALE_IS: 0 one for all, 1 neighbours, 2 at any distance
#define SCALE_IS 0
#endif
#ifndef SHIFTED
#define SHIFTED 0  // 1: and `bias` is added, whose lanes are BIAS_IS
#define BIAS_IS 0
#endif
#ifndef TILE
#define TILE 0  // numbers in private memory: of a line's exponentials, 0: none; or of VECTORS of lines, which is twice there
#endif
#define VECTORS 2

#if WIDTH == 16

#define JOINED(left, right) JOINED_EXPANDED(left, right)
#define JOINED_EXPANDED(left, right) left##right
#define OF(word) JOINED(word, OPERATION)
#define LARGER(a, b) ((a) > (b) ? (a) : (b))
#define SQUARE(value) ((value) * (value))
#define PER_DEVIATION(sum) (EACH(1) / CF_MATH(sqrt)((sum) / EACH(elements) + EACH(epsilon)))

// A line is read for a `first` number, which begins with START, and for a `second` where HAS_SECOND, then for its result. The
// largest element misses NaNs, which meet the sum.
#define START_SOFTMAX LEAST_NUMBER
#define FIRST_SOFTMAX LARGER(first, element)
#define FIRST_DONE_SOFTMAX first
#define HAS_SECOND_SOFTMAX 1
#define SECOND_SOFTMAX EXP(element - first)
#define SECOND_DONE_SOFTMAX (EACH(1) / second)
#define RESULT_SOFTMAX ((KEEPS_SECOND ? element : EXP(element - first)) * second)
#define START_LOG_SOFTMAX LEAST_NUMBER
#define FIRST_LOG_SOFTMAX LARGER(first, element)
#define FIRST_DONE_LOG_SOFTMAX first
#define HAS_SECOND_LOG_SOFTMAX 1
#define SECOND_LOG_SOFTMAX EXP(element - first)
#define SECOND_DONE_LOG_SOFTMAX CF_MATH(log)(second)
#define RESULT_LOG_SOFTMAX (element - first - second)
#define START_NORM 0
#define FIRST_NORM (first + element)
#define FIRST_DONE_NORM (first / EACH(elements))
#define HAS_SECOND_NORM 1
#define SECOND_NORM SQUARE(element - first)
#define SECOND_DONE_NORM PER_DEVIATION(second)
#define RESULT_NORM ((element - first) * second)
#define START_RMS 0
#define FIRST_RMS (first + SQUARE(element))
#define FIRST_DONE_RMS PER_DEVIATION(first)
#define HAS_SECOND_RMS 0
#define SECOND_RMS element
#define SECOND_DONE_RMS second
#define RESULT_RMS (element * first)
// Exponentials take the places of elements in private memory.
#define IS_SOFTMAX_SOFTMAX 1
#define IS_SOFTMAX_LOG_SOFTMAX 0
#define IS_SOFTMAX_NORM 0
#define IS_SOFTMAX_RMS 0
#define IS_EXPONENTIAL_SOFTMAX 1
#define IS_EXPONENTIAL_LOG_SOFTMAX 1
#define IS_EXPONENTIAL_NORM 0
#define IS_EXPONENTIAL_RMS 0
#define KEEPS_SECOND (TILE && CF_JOIN(IS_SOFTMAX_, OPERATION))
#define IS_EXPONENTIAL CF_JOIN(IS_EXPONENTIAL_, OPERATION)

#define LOADED(pointer, rest) (left >= WIDTH ? LOAD(X_TYPE, pointer) : LOAD_SOME(X_TYPE, pointer, 1, left, rest))
#define MORE(t) const CF_LONG t##_m0, const CF_LONG t##_m1, const CF_LONG t##_m2
#define OF_MORE(t) (m0 * t##_m0 + m1 * t##_m1 + m2 * t##_m2)
#define FOR_MORE                           \
  for (int m2 = 0; m2 < more_2; ++m2)      \
    for (int m1 = 0; m1 < more_1; ++m1)    \
      for (int m0 = 0; m0 < more_0; ++m0)
#if SCALED
#define SCALE_PARAMETER CF_GLOBAL const CF_TYPE(X_TYPE) *scale, STEPS(scale), MORE(scale),
#define AT_SCALE CF_GLOBAL const CF_TYPE(X_TYPE) *const at_scale = scale + ROW_START(scale, row);
#define MULTIPLIED(value) \
  ((value) * LOAD_STEPPED(X_TYPE, at_scale + OF_MORE(scale) + i * scale_step, SCALE_IS, scale_step, left))
#else
#define SCALE_PARAMETER
#define AT_SCALE
#define MULTIPLIED(value) (value)
#endif
#if SHIFTED
#define BIAS_PARAMETER CF_GLOBAL const CF_TYPE(X_TYPE) *bias, STEPS(bias), MORE(bias),
#define AT_BIAS CF_GLOBAL const CF_TYPE(X_TYPE) *const at_bias = bias + ROW_START(bias, row);
#define MOVED(value) ACTIVATED((value) + LOAD_STEPPED(X_TYPE, at_bias + OF_MORE(bias) + i * bias_step, BIAS_IS, bias_step, left))
#else
#define BIAS_PARAMETER
#define AT_BIAS
#define MOVED(value) (value)
#endif

#if ALONG

#define FOR_LANES(body)                       \
  FOR_MORE {                                  \
    int i = 0;                                \
    for (; i + WIDTH <= length; i += WIDTH) { \
      const int left = WIDTH;                 \
      body                                    \
    }                                         \
    if (i < length) {                         \
      const int left = length - i;            \
      body                                    \
    }                                         \
  }
#define READ                                                            \
  {                                                                     \
    const VALUE element = LOADED(at_next + OF_MORE(x) + i, OF(START_)); \
    first = OF(FIRST_);                                                 \
  }
#define READ_NEXT                                                       \
  {                                                                     \
    const VALUE element = LOADED(at_next + OF_MORE(x) + i, OF(START_)), first = next; \
    next = OF(FIRST_);                                                  \
  }
// While no other line is read, a part of the next comes near.
#define READ_AGAIN                                                                                       \
  {                                                                                                      \
    PREFETCH(at_next + OF_MORE(x) + (IS_EXPONENTIAL ? i : i / 4));                                       \
    const VALUE element = LOADED(at_x + OF_MORE(x) + i, (IS_EXPONENTIAL ? EACH(LEAST_NUMBER) : first));  \
    const VALUE value = OF(SECOND_);                                                                     \
    if (KEEPS_SECOND) vstore16(value, 0, tile + i);                                                      \
    second += value;                                                                                     \
  }
#define WRITE                                                                                      \
  {                                                                                                \
    const VALUE element = KEEPS_SECOND ? vload16(0, tile + i) : LOADED(at_x + OF_MORE(x) + i, 0);  \
    const VALUE value = MOVED(MULTIPLIED(OF(RESULT_)));                                            \
    STORE_STEPPED(Y_TYPE, at_y + OF_MORE(y) + i, 1, 1, left, value);                               \
  }

CF_INLINE VALUE folded(const VALUE lanes, const int is_largest) {
  const __typeof__(lanes.lo) eight = is_largest ? LARGER(lanes.lo, lanes.hi) : lanes.lo + lanes.hi;
  const __typeof__(eight.lo) four = is_largest ? LARGER(eight.lo, eight.hi) : eight.lo + eight.hi;
  const __typeof__(four.lo) two = is_largest ? LARGER(four.lo, four.hi) : four.lo + four.hi;
  return EACH(is_largest ? LARGER(two.x, two.y) : two.x + two.y);
}

#else

#define LANES (VECTORS * WIDTH)
// Lanes of a row that are at work: all of VECTORS, or the last.
#define FOR_LANES(lanes, body)                                \
  if (lanes == LANES) {                                       \
    int m = 0;                                                \
    FOR_MORE {                                                \
      CF_UNROLL                                               \
      for (int v = 0; v < VECTORS; ++v) {                     \
        const int i = v * WIDTH, left = WIDTH;                \
        body                                                  \
      }                                                       \
      ++m;                                                    \
    }                                                         \
  } else {                                                    \
    int m = 0;                                                \
    FOR_MORE {                                                \
      for (int v = 0; v * WIDTH < lanes; ++v) {               \
        const int i = v * WIDTH, left = lanes - i;            \
        body                                                  \
      }                                                       \
      ++m;                                                    \
    }                                                         \
  }
#define READ                                                \
  {                                                         \
    const VALUE element = LOADED(at_next + OF_MORE(x) + i, 0);  \
    vstore16(element, 0, coming + m * LANES + i);           \
    const VALUE first = firsts[v];                          \
    firsts[v] = OF(FIRST_);                                 \
  }
#define READ_AGAIN                                          \
  {                                                         \
    PREFETCH(at_next + OF_MORE(x) + i);                     \
    const VALUE element = vload16(0, tile + m * LANES + i), first = ones[v]; \
    const VALUE value = OF(SECOND_);                        \
    if (KEEPS_SECOND) vstore16(value, 0, tile + m * LANES + i); \
    seconds[v] += value;                                    \
  }
#define WRITE                                               \
  {                                                         \
    const VALUE element = vload16(0, tile + m * LANES + i), first = ones[v], second = seconds[v]; \
    const VALUE value = MOVED(MULTIPLIED(OF(RESULT_)));     \
    STORE_STEPPED(Y_TYPE, at_y + OF_MORE(y) + i, 1, 1, left, value); \
  }

#endif

CF_KERNEL ONE_ITEM void operators_lines_overlapped(CF_GLOBAL const CF_TYPE(X_TYPE) *x, STEPS(x), MORE(x),
                                          SCALE_PARAMETER BIAS_PARAMETER CF_GLOBAL CF_TYPE(Y_TYPE) *y, STEPS(y), MORE(y),
                                          ROW_SIZES, const int length, const int more_0, const int more_1,
                                          const int more_2, const CF_LONG all, const CF_LONG rows, const CF_LONG columns,
                                          const NUMBER elements, const NUMBER epsilon CF_ACTIVATION_PARAMETERS) {
  const CF_LONG begin = CF_GLOBAL_ID(0) * rows, end = min(begin + rows, all);
#if ALONG
  NUMBER tile[TILE ? TILE : 1];
  CF_GLOBAL const CF_TYPE(X_TYPE) *at_x = x, *at_next = x + ROW_START(x, ROW_OF(begin));
  VALUE first = EACH(OF(START_));
  FOR_LANES(READ)
  for (CF_LONG index = begin; index < end; ++index) {
    const Row row = ROW_OF(index);
    CF_GLOBAL CF_TYPE(Y_TYPE) *const at_y = y + ROW_START(y, row);
    AT_SCALE
    AT_BIAS
    at_x = at_next;
    if (index + 1 < end) at_next = x + ROW_START(x, ROW_OF(index + 1));
    first = folded(first, IS_EXPONENTIAL);
    first = OF(FIRST_DONE_);
    VALUE second = EACH(0);
#if OF(HAS_SECOND_)
    FOR_LANES(READ_AGAIN)
    second = folded(second, 0);
    second = OF(SECOND_DONE_);
#endif
    if (index + 1 < end) {
      VALUE next = EACH(OF(START_));
      FOR_LANES(WRITE READ_NEXT)
      first = next;
    } else {
      FOR_LANES(WRITE)
    }
  }
#else
  NUMBER tiles[2 * TILE];
  const CF_LONG low = CF_GLOBAL_ID(1) * columns, high = min(low + columns, (CF_LONG)length);
  const CF_LONG strips = (high - low + LANES - 1) / LANES, units = (end - begin) * strips;
  CF_GLOBAL const CF_TYPE(X_TYPE) *at_next = x + ROW_START(x, ROW_OF(begin)) + low;
  NUMBER *coming = tiles;
  int lanes = 0, lanes_of_next = min(high - low, (CF_LONG)LANES);
  VALUE firsts[VECTORS], ones[VECTORS], seconds[VECTORS];
  for (int v = 0; v < VECTORS; ++v) firsts[v] = EACH(OF(START_));
  FOR_LANES(lanes_of_next, READ)
  for (CF_LONG unit = 0; unit < units; ++unit) {
    const Row row = ROW_OF(begin + unit / strips);
    const CF_LONG from = low + unit % strips * LANES;
    CF_GLOBAL CF_TYPE(Y_TYPE) *const at_y = y + ROW_START(y, row) + from;
    AT_SCALE
    AT_BIAS
    NUMBER *const tile = coming;
    coming = unit & 1 ? tiles : tiles + TILE;
    lanes = lanes_of_next;
    if (unit + 1 < units) {
      const CF_LONG next = low + (unit + 1) % strips * LANES;
      at_next = x + ROW_START(x, ROW_OF(begin + (unit + 1) / strips)) + next;
      lanes_of_next = min(high - next, (CF_LONG)LANES);
    }
    CF_UNROLL
    for (int v = 0; v < VECTORS; ++v) {
      const VALUE first = firsts[v];
      ones[v] = OF(FIRST_DONE_);
      firsts[v] = EACH(OF(START_));
      seconds[v] = EACH(0);
    }
#if OF(HAS_SECOND_)
    FOR_LANES(lanes, READ_AGAIN)
    CF_UNROLL
    for (int v = 0; v < VECTORS; ++v) {
      const VALUE second = seconds[v];
      seconds[v] = OF(SECOND_DONE_);
    }
#endif
    if (unit + 1 < units && lanes == lanes_of_next) {
      FOR_LANES(lanes, WRITE READ)
    } else {
      FOR_LANES(lanes, WRITE)
      if (unit + 1 < units) FOR_LANES(lanes_of_next, READ)
    }
  }
#endif
}

#endif  // WIDTH
