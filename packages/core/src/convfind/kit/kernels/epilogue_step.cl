// What becomes of sums that lie in memory, rounded already: one pass over them. A work-group computes neighbouring columns
// of some rows; what a row and a column are is the host's to say: see convfind.kit.epilogue_step.
//
// DTYPE: element type of sums and results.
// LANES: work-items of a group, side by side in a row.
// IN_PLACE: 1: the sums lie in the result.
#include "convfind_epilogue.h"

#define ELEMENT CF_TYPE(DTYPE)
#define AXES 4  // of rows; those that are missing have the size 1

CF_KERNEL CF_WORK_GROUP_SIZE(LANES, 1, 1) void epilogue_step(
    CF_GLOBAL const ELEMENT *sums, CF_GLOBAL ELEMENT *result, CF_EPILOGUE_PARAMETERS, const CF_LONG rows,
    const CF_LONG rows_each, const CF_LONG columns, const int columns_each, const CF_LONG column_step, const int column_channel, const CF_LONG size1,
    const CF_LONG size2, const CF_LONG size3, const CF_LONG step0, const CF_LONG step1, const CF_LONG step2,
    const CF_LONG step3, const int channel0, const int channel1, const int channel2, const int channel3) {
  const Epilogue epilogue = CF_EPILOGUE(result);
  const CF_LONG first = (CF_LONG)CF_GROUP_ID(0) * LANES * columns_each + CF_LOCAL_ID(0);
  const CF_LONG begin = CF_GROUP_ID(1) * rows_each;
  const CF_LONG end = begin + rows_each < rows ? begin + rows_each : rows;
  for (CF_LONG row = begin; row < end; ++row) {
    CF_LONG rest = row;
    const CF_LONG at3 = rest % size3;
    rest /= size3;
    const CF_LONG at2 = rest % size2;
    rest /= size2;
    const CF_LONG at1 = rest % size1;
    const CF_LONG at0 = rest / size1;
    const CF_LONG start = at0 * step0 + at1 * step1 + at2 * step2 + at3 * step3;
    const CF_LONG row_channel = at0 * channel0 + at1 * channel1 + at2 * channel2 + at3 * channel3;
    for (int k = 0; k < columns_each; ++k) {
      const CF_LONG column = first + k * LANES;
      if (column < columns) {
        const CF_LONG at = start + column * column_step;
#if IN_PLACE
        const CF_NUMBER sum = (CF_NUMBER)CF_LOAD(DTYPE, result, at);
#else
        const CF_NUMBER sum = (CF_NUMBER)CF_LOAD(DTYPE, sums, at);
#endif
        CF_STORE_RESULT(DTYPE, result + at, row_channel + column * column_channel, sum, epilogue);
      }
    }
  }
}
