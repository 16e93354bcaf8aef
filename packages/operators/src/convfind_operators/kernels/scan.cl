// operators-scan: what depends on the order of a line: where its largest or least element is, and running sums and products.
//
// A work-item has one line after the other.
#include "elements.h"
#include "walk.h"

#ifndef OPERATION
#define OPERATION 0  // 0: the place of the largest element, 1: of the least, 2: sums up to each element, 3: products
#endif
#ifndef X_TYPE
#define X_TYPE FLOAT32
#endif
#ifndef LAST
#define LAST 0  // 1: of equal elements the last; sums: without the element itself
#endif

// A NaN is the largest and the least of all.
#if OPERATION == 0
#define IS_BETTER(next, best) ((LAST ? (next) >= (best) : (next) > (best)) && best == best)
#elif OPERATION == 1
#define IS_BETTER(next, best) ((LAST ? (next) <= (best) : (next) < (best)) && best == best)
#endif
#if OPERATION == 2
#define NONE 0
#define JOINED(sum, next) ((sum) + (next))
#else
#define NONE 1
#define JOINED(sum, next) ((sum) * (next))
#endif
#define IS_NAN(number) ((number) != (number))

// Rows are lines; x_along and y_along are the steps along them, from the last element on if they are below zero.
CF_KERNEL ONE_ITEM void operators_scan(CF_GLOBAL const CF_TYPE(X_TYPE) *x, STEPS(x),
#if OPERATION < 2
                              CF_GLOBAL CF_LONG *y,
#else
                              CF_GLOBAL CF_TYPE(X_TYPE) *y,
#endif
                              STEPS(y), ROW_SIZES, const int length, const CF_LONG all, const int line,
                              const CF_LONG x_along, const CF_LONG y_along) {
  for (CF_LONG index = CF_GLOBAL_ID(0); index < all; index += CF_GLOBAL_SIZE(0)) {
    const int lane = index % length;
    const Row row = ROW_OF(index / length);
    CF_GLOBAL const CF_TYPE(X_TYPE) *const from = x + ROW_START(x, row) + lane * x_step;
    const CF_LONG to = ROW_START(y, row) + lane * y_step;
#if OPERATION < 2
    NUMBER best = (NUMBER)CF_LOAD(X_TYPE, from, 0);
    int place = 0;
    for (int i = 1; i < line; ++i) {
      const NUMBER next = (NUMBER)CF_LOAD(X_TYPE, from, i * x_along);
      if (IS_BETTER(next, best) || (IS_NAN(next) && (LAST || !IS_NAN(best)))) {
        best = next;
        place = i;
      }
    }
    y[to] = place;
#else
    NUMBER sum = NONE;
    for (int i = 0; i < line; ++i) {
      const NUMBER next = (NUMBER)CF_LOAD(X_TYPE, from, i * x_along);
#if LAST
      CF_STORE(X_TYPE, y, to + i * y_along, sum);
      sum = JOINED(sum, next);
#else
      sum = JOINED(sum, next);
      CF_STORE(X_TYPE, y, to + i * y_along, sum);
#endif
    }
#endif
  }
}
