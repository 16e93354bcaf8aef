// operators-scatter: elements of y, which is a copy of x by now, replaced or updated, each chosen by an index along an axis.
//
// A work-item has one line of indices after the other; no two lines of indices have a line of y in common.
#include "functions.h"
#include "walk.h"

#ifndef DTYPE
#define DTYPE FLOAT32
#endif
#ifndef INDEX
#define INDEX CF_LONG  // of an index: int or CF_LONG
#endif
#ifndef COMBINE
#define COMBINE SECOND  // SECOND, ADD, MUL, MAX, MIN
#endif

#define OF_SECOND(a, b) (b)

// Rows are lines; *_along are the steps along them. Numbers below zero count from the end.
CF_KERNEL ONE_ITEM void operators_scatter(CF_GLOBAL const INDEX *indices, STEPS(indices), CF_GLOBAL const CF_TYPE(DTYPE) *updates,
                                 STEPS(updates), CF_GLOBAL CF_TYPE(DTYPE) *y, STEPS(y), ROW_SIZES, const int length,
                                 const CF_LONG all, const int line, const CF_LONG size, const CF_LONG indices_along,
                                 const CF_LONG updates_along, const CF_LONG y_along) {
  for (CF_LONG index = CF_GLOBAL_ID(0); index < all; index += CF_GLOBAL_SIZE(0)) {
    const int lane = index % length;
    const Row row = ROW_OF(index / length);
    CF_GLOBAL const INDEX *const places = indices + ROW_START(indices, row) + lane * indices_step;
    CF_GLOBAL const CF_TYPE(DTYPE) *const from = updates + ROW_START(updates, row) + lane * updates_step;
    CF_GLOBAL CF_TYPE(DTYPE) *const to = y + ROW_START(y, row) + lane * y_step;
    for (int i = 0; i < line; ++i) {
      CF_LONG place = places[i * indices_along];
      if (place < 0) place += size;
      if (place < 0 || place >= size) continue;
      const NUMBER update = (NUMBER)CF_LOAD(DTYPE, from, i * updates_along);
      const NUMBER before = (NUMBER)CF_LOAD(DTYPE, to, place * y_along);
      const NUMBER after = CF_JOIN(OF_, COMBINE)(before, update);
      CF_STORE(DTYPE, to, place * y_along, after);
    }
  }
}
