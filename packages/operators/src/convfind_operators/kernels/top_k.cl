// operators-top-k: the largest or the least elements of lines, in order, and where they are.
//
// A work-item has one line after the other, and searches it for each element that it finds.
#include "elements.h"
#include "walk.h"

#ifndef DTYPE
#define DTYPE FLOAT32
#endif
#ifndef LARGEST
#define LARGEST 1  // 0: the least
#endif

// A NaN is the largest of all.
#define IS_NAN(number) ((number) != (number))
#define IS_MORE(a, b) ((a) > (b) || (IS_NAN(a) && !IS_NAN(b)))
#if LARGEST
#define IS_BEFORE(a, b) IS_MORE(a, b)
#else
#define IS_BEFORE(a, b) IS_MORE(b, a)
#endif

// Rows are lines; *_along are the steps along them.
CF_KERNEL ONE_ITEM void operators_top_k(CF_GLOBAL const CF_TYPE(DTYPE) *x, STEPS(x), CF_GLOBAL CF_TYPE(DTYPE) *y, STEPS(y),
                               CF_GLOBAL CF_LONG *indices, STEPS(indices), ROW_SIZES, const int length, const CF_LONG all,
                               const int line, const int count, const CF_LONG x_along, const CF_LONG y_along,
                               const CF_LONG indices_along) {
  for (CF_LONG index = CF_GLOBAL_ID(0); index < all; index += CF_GLOBAL_SIZE(0)) {
    const int lane = index % length;
    const Row row = ROW_OF(index / length);
    CF_GLOBAL const CF_TYPE(DTYPE) *const from = x + ROW_START(x, row) + lane * x_step;
    CF_GLOBAL CF_TYPE(DTYPE) *const to = y + ROW_START(y, row) + lane * y_step;
    CF_GLOBAL CF_LONG *const places = indices + ROW_START(indices, row) + lane * indices_step;
    NUMBER last = 0;
    int last_place = -1;
    for (int found = 0; found < count; ++found) {
      NUMBER best = 0;
      int place = -1;
      for (int i = 0; i < line; ++i) {
        const NUMBER next = (NUMBER)CF_LOAD(DTYPE, from, i * x_along);
        // What comes behind the last that was found, and before the best so far; the first of equal ones.
        const int is_left = found == 0 || IS_BEFORE(last, next) || (!IS_BEFORE(next, last) && i > last_place);
        if (is_left && (place < 0 || IS_BEFORE(next, best))) {
          best = next;
          place = i;
        }
      }
      CF_STORE(DTYPE, to, found * y_along, best);
      places[found * indices_along] = place;
      last = best;
      last_place = place;
    }
  }
}
