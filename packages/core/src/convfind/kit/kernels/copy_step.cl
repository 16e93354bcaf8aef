// A copy of a tensor from one order of its axes in memory, with or without gaps, to another. What is fastest in the
// result goes along the work-items of a group, and what is fastest in the source along the innermost loop, so that both
// ends are met in whole cache lines: see convfind.kit.copy_step.
//
// SIZE: bytes of an element.
// LANES: work-items of a group, side by side along the result's fastest axis.
#include "convfind_kernel.h"

#define COPIED_1 signed char
#define COPIED_2 CF_USHORT
#define COPIED_4 CF_UINT
#define COPIED_8 CF_LONG
#define ELEMENT CF_JOIN(COPIED_, SIZE)

CF_KERNEL CF_WORK_GROUP_SIZE(LANES, 1, 1) void copy_step(
    CF_GLOBAL const ELEMENT *source, CF_GLOBAL ELEMENT *result, const CF_LONG rows, const CF_LONG rows_each,
    const CF_LONG columns, const int columns_each, const CF_LONG column_from, const CF_LONG column_to,
    const CF_LONG depth, const CF_LONG depth_each, const CF_LONG depth_from, const CF_LONG depth_to,
    const CF_LONG size1, const CF_LONG size2, const CF_LONG from0, const CF_LONG from1, const CF_LONG from2,
    const CF_LONG to0, const CF_LONG to1, const CF_LONG to2) {
  const CF_LONG first = (CF_LONG)CF_GROUP_ID(0) * LANES * columns_each + CF_LOCAL_ID(0);
  const CF_LONG near = CF_GROUP_ID(1) * depth_each;
  const CF_LONG far = near + depth_each < depth ? near + depth_each : depth;
  const CF_LONG begin = CF_GROUP_ID(2) * rows_each;
  const CF_LONG end = begin + rows_each < rows ? begin + rows_each : rows;
  for (CF_LONG row = begin; row < end; ++row) {
    const CF_LONG at2 = row % size2;
    const CF_LONG at1 = row / size2 % size1;
    const CF_LONG at0 = row / size2 / size1;
    const CF_LONG row_from = at0 * from0 + at1 * from1 + at2 * from2;
    const CF_LONG row_to = at0 * to0 + at1 * to1 + at2 * to2;
    for (int k = 0; k < columns_each; ++k) {
      const CF_LONG column = first + k * LANES;
      if (column < columns) {
        const CF_LONG from = row_from + column * column_from, to = row_to + column * column_to;
        for (CF_LONG at = near; at < far; ++at) result[to + at * depth_to] = source[from + at * depth_from];
      }
    }
  }
}
