// operators-pad: y = x with a number around it, in one pass over y.
//
// Along each axis x begins at an element of y, or before it. On CPUs a work-item has rows, elsewhere a FOUR of some, each of
// which is in x or beside it.
#include "fours.h"
#include "walk.h"

#ifndef DTYPE
#define DTYPE FLOAT32
#endif
#ifndef PER_ITEM
#define PER_ITEM 8  // rows of a work-item, of which it has a FOUR each: all are loaded before the first is stored
#endif
#ifndef INDEX
#define INDEX CF_LONG  // counts work-items, and what a launch has beyond them: CF_UINT where it can
#endif

#define PER_AXIS(word) const int word##_0, const int word##_1, const int word##_2, const int word##_3, const int word##_4
#define IS_INSIDE(axis, row) (OUTER <= axis || ((row).at[axis] >= begin_##axis && (row).at[axis] < end_##axis))
#define IS_ROW_INSIDE(row) \
  (IS_INSIDE(0, row) && IS_INSIDE(1, row) && IS_INSIDE(2, row) && IS_INSIDE(3, row) && IS_INSIDE(4, row))

// begin, end: of x in y, along the rows' axes and in a row. all: work-items on GPUs.
CF_KERNEL ONE_ITEM void operators_pad(CF_GLOBAL const CF_TYPE(DTYPE) *x, STEPS(x), CF_GLOBAL CF_TYPE(DTYPE) *y, STEPS(y), ROW_SIZES,
                             const int length, PER_AXIS(begin), PER_AXIS(end), const int begin, const int end,
                             const int rows, const CF_LONG all, const CF_LONG per_item, const NUMBER value) {
#if WIDTH == 1
  const INDEX fours = length / FOUR;
  for (INDEX index = CF_GLOBAL_ID(0); index < all; index += CF_GLOBAL_SIZE(0)) {
    NUMBER values[PER_ITEM][FOUR];
    CF_LONG places[PER_ITEM];
    const int i = index % fours * FOUR, first = index / fours * PER_ITEM;
    Row row = ROW_OF(first);
    CF_UNROLL
    for (int part = 0; part < PER_ITEM; ++part) {
      const int is_inside = first + part < rows && IS_ROW_INSIDE(row) && i >= begin && i < end;
      places[part] = ROW_START(y, row) + i;
      // The first of x is read, and not used, where there is none.
      LOAD_FOUR(DTYPE, values[part], x + (is_inside ? ROW_START(x, row) + i : 0));
      for (int e = 0; e < FOUR; ++e) values[part][e] = is_inside ? values[part][e] : value;
      row = NEXT_ROW(row);
    }
    CF_UNROLL
    for (int part = 0; part < PER_ITEM; ++part)
      if (first + part < rows) STORE_FOUR(DTYPE, y + places[part], values[part]);
  }
#else
  const CF_LONG first = CF_GLOBAL_ID(0) * per_item;
  for (CF_LONG index = first; index < min(first + per_item, (CF_LONG)rows); ++index) {
    const Row row = ROW_OF(index);
    const int is_inside = IS_ROW_INSIDE(row);
    const int low = is_inside ? max(min(begin, length), 0) : length, high = is_inside ? max(min(end, length), low) : length;
    CF_GLOBAL const CF_TYPE(DTYPE) *const from = x + ROW_START(x, row);
    CF_GLOBAL CF_TYPE(DTYPE) *const to = y + ROW_START(y, row);
    for (int i = 0; i < low; i += WIDTH) STORE_STEPPED(DTYPE, to + i, 1, 1, low - i, EACH(value));
    for (int i = low; i < high; i += WIDTH) {
      const int left = high - i;
      const VALUE element = LOAD_STEPPED(DTYPE, from + i, 1, 1, left);
      STORE_STEPPED(DTYPE, to + i, 1, 1, left, element);
    }
    for (int i = high; i < length; i += WIDTH) STORE_STEPPED(DTYPE, to + i, 1, 1, length - i, EACH(value));
  }
#endif
}
