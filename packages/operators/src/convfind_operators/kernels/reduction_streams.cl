// operators-reduction: on CPUs, where lanes are neighbours in x, and in y where they are lines.
//
// A core that reads from one place after the other gets two thirds of what memory gives to one that reads from four: lines,
// or elements of neighbouring lines, are taken STREAMS at a time, as far from each other as a work-item's share allows.
#include "reductions.h"
#include "walk.h"

#ifndef ALONG
#define ALONG 1  // 1: lanes are elements of a line; 0: neighbouring lines
#endif
#ifndef X_TYPE
#define X_TYPE FLOAT32
#define Y_TYPE FLOAT32
#endif
#ifndef STRIP
#define STRIP 4096  // lanes that are reduced at a time, where they are lines: a multiple of 16
#endif
#define STREAMS 4
#define AHEAD_OF 256  // elements

#if WIDTH == 16

CF_INLINE NUMBER folded(const VALUE lanes) {
  const __typeof__(lanes.lo) eight = JOINED(OF_, HOW)(lanes.lo, lanes.hi);
  const __typeof__(eight.lo) four = JOINED(OF_, HOW)(eight.lo, eight.hi);
  const __typeof__(four.lo) two = JOINED(OF_, HOW)(four.lo, four.hi);
  return JOINED(OF_, HOW)(two.x, two.y);
}

#define ALL(pointer) PART(LOAD(X_TYPE, pointer))
#define SOME(pointer) PART(LOAD_SOME(X_TYPE, pointer, 1, lanes - whole, NONE))
#define KEEP(i, value) vstore16(both(vload16(0, kept + (i)), value), 0, kept + (i))

CF_KERNEL ONE_ITEM void operators_reduction_streams(CF_GLOBAL const CF_TYPE(X_TYPE) *x, STEPS(x), MORE(x),
                                           CF_GLOBAL CF_TYPE(Y_TYPE) *y, STEPS(y), MORE(y), ROW_SIZES, const int length,
                                           const int more_0, const int more_1, const int more_2, const CF_LONG all,
                                           const CF_LONG rows, const CF_LONG columns, const NUMBER elements,
                                           const NUMBER epsilon) {
  const CF_LONG first = CF_GLOBAL_ID(0) * rows, last = min(first + rows, all);
  const CF_LONG more = (CF_LONG)more_0 * more_1 * more_2;
#if ALONG
  const CF_LONG share = (last - first + STREAMS - 1) / STREAMS;
  for (CF_LONG k = 0; k < share; ++k) {
    CF_GLOBAL const CF_TYPE(X_TYPE) *at_x[STREAMS];
    CF_GLOBAL CF_TYPE(Y_TYPE) *at_y[STREAMS];
    VALUE kept[STREAMS];
    CF_UNROLL
    for (int s = 0; s < STREAMS; ++s) {
      const Row row = ROW_OF(min(first + s * share + k, last - 1));  // the last more than once
      at_x[s] = x + ROW_START(x, row);
      at_y[s] = y + ROW_START(y, row);
      kept[s] = EACH(NONE);
    }
    for (CF_LONG m = 0; m < more; ++m) {
      const CF_LONG place = PLACE(m);
      int i = 0;
      for (; i + WIDTH <= length; i += WIDTH) {
        CF_UNROLL
        for (int s = 0; s < STREAMS; ++s) {
          PREFETCH(at_x[s] + place + i + AHEAD_OF);
          kept[s] = both(kept[s], PART(LOAD(X_TYPE, at_x[s] + place + i)));
        }
      }
      if (i < length) {
        for (int s = 0; s < STREAMS; ++s)
          kept[s] = both(kept[s], PART(LOAD_SOME(X_TYPE, at_x[s] + place + i, 1, length - i, NONE)));
      }
    }
    for (int s = 0; s < STREAMS; ++s) CF_STORE(Y_TYPE, at_y[s], 0, END(EACH(folded(kept[s]))).s0);
  }
#else
  NUMBER kept[STRIP];
  const CF_LONG begin = CF_GLOBAL_ID(1) * columns, end = min(begin + columns, (CF_LONG)length);
  for (CF_LONG index = first; index < last; ++index) {
    const Row row = ROW_OF(index);
    for (CF_LONG from = begin; from < end; from += STRIP) {
      CF_GLOBAL const CF_TYPE(X_TYPE) *const at_x = x + ROW_START(x, row) + from;
      CF_GLOBAL CF_TYPE(Y_TYPE) *const at_y = y + ROW_START(y, row) + from;
      const int lanes = min(end - from, (CF_LONG)STRIP), whole = lanes / WIDTH * WIDTH;
      const CF_LONG share = more / STREAMS;
      for (int i = 0; i < lanes; i += WIDTH) vstore16(EACH(NONE), 0, kept + i);
      for (CF_LONG m = 0; m < share; ++m) {
        CF_GLOBAL const CF_TYPE(X_TYPE) *const one = at_x + PLACE(m), *const two = at_x + PLACE(m + share);
        CF_GLOBAL const CF_TYPE(X_TYPE) *const three = at_x + PLACE(m + 2 * share), *const four = at_x + PLACE(m + 3 * share);
        for (int i = 0; i < whole; i += WIDTH) {
          PREFETCH(one + i + AHEAD_OF);
          PREFETCH(two + i + AHEAD_OF);
          PREFETCH(three + i + AHEAD_OF);
          PREFETCH(four + i + AHEAD_OF);
          KEEP(i, both(both(ALL(one + i), ALL(two + i)), both(ALL(three + i), ALL(four + i))));
        }
        // Lanes that fill no vector are added up in the same order: where lines are equal, so are results.
        if (whole < lanes)
          KEEP(whole, both(both(SOME(one + whole), SOME(two + whole)), both(SOME(three + whole), SOME(four + whole))));
      }
      for (CF_LONG m = share * STREAMS; m < more; ++m) {
        CF_GLOBAL const CF_TYPE(X_TYPE) *const one = at_x + PLACE(m);
        for (int i = 0; i < whole; i += WIDTH) KEEP(i, ALL(one + i));
        if (whole < lanes) KEEP(whole, SOME(one + whole));
      }
      for (int i = 0; i < lanes; i += WIDTH)
        STORE_STEPPED(Y_TYPE, at_y + i, 1, 1, lanes - i, END(vload16(0, kept + i)));
    }
  }
#endif
}

#endif  // WIDTH
