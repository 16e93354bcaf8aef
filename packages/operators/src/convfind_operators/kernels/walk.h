// Walks through tensors: where a row of the walk begins in each of them.
//
// Axes are those that all tensors of a kernel share, outermost first; a tensor has a step along each, which may be 0, where
// its elements are repeated, or less.
#ifndef OPERATORS_WALK_H
#define OPERATORS_WALK_H

#include "convfind_kernel.h"

#ifndef OUTER
#define OUTER 0  // axes of the rows: 0 to 5
#endif

typedef struct {
  int at[5];
} Row;

// Sizes of the rows' axes; the first needs none. Steps of a tensor, from the element at the start on.
#define ROW_SIZES const int size_1, const int size_2, const int size_3, const int size_4
#define STEPS(t)                                                                                           \
  const CF_LONG t##_start, const CF_LONG t##_0, const CF_LONG t##_1, const CF_LONG t##_2, const CF_LONG t##_3, \
      const CF_LONG t##_4, const CF_LONG t##_step

#define ROW_OF(index) row_of(index, size_1, size_2, size_3, size_4)
CF_INLINE Row row_of(CF_UINT index, const int size_1, const int size_2, const int size_3, const int size_4) {
  const int sizes[5] = {0, size_1, size_2, size_3, size_4};
  Row row;
  CF_UNROLL
  for (int axis = OUTER - 1; axis > 0; --axis) {
    row.at[axis] = index % sizes[axis];
    index /= sizes[axis];
  }
  row.at[0] = index;
  return row;
}

// The row behind one, by steps instead of divisions.
#define NEXT_ROW(row) next_row(row, size_1, size_2, size_3, size_4)
CF_INLINE Row next_row(Row row, const int size_1, const int size_2, const int size_3, const int size_4) {
  const int sizes[5] = {0, size_1, size_2, size_3, size_4};
  int carried = 1;
  CF_UNROLL
  for (int axis = OUTER - 1; axis > 0; --axis) {
    row.at[axis] += carried;
    carried = row.at[axis] == sizes[axis];
    row.at[axis] = carried ? 0 : row.at[axis];
  }
  row.at[0] += carried;
  return row;
}

// Elements from the beginning of a tensor to where the row begins.
#if OUTER == 0
#define ROW_START(t, row) (t##_start)
#elif OUTER == 1
#define ROW_START(t, row) (t##_start + (row).at[0] * t##_0)
#elif OUTER == 2
#define ROW_START(t, row) (t##_start + (row).at[0] * t##_0 + (row).at[1] * t##_1)
#elif OUTER == 3
#define ROW_START(t, row) (t##_start + (row).at[0] * t##_0 + (row).at[1] * t##_1 + (row).at[2] * t##_2)
#else
#define ROW_START(t, row)                                                                                   \
  (t##_start + (row).at[0] * t##_0 + (row).at[1] * t##_1 + (row).at[2] * t##_2 + (row).at[3] * t##_3 + \
   (OUTER > 4 ? (row).at[4] * t##_4 : 0))
#endif

#endif  // OPERATORS_WALK_H
