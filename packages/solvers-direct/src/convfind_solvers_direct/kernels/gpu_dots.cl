// Images of one pixel on GPUs, forward: every result is the dot product of an image and a filter.
//
// A team of items has ROWS x COLUMNS results, of neighbouring images and filters; each item adds up a share of every sum,
// TOGETHER channels at a time, and what these come to is added up in local memory.
#include "convfind_rough_activation.h"
#include "convfind_epilogue.h"
#include "convfind_together.h"

#ifndef DTYPE
#define DTYPE FLOAT32  // elements of all tensors: FLOAT32, FLOAT16, BFLOAT16
#endif
#ifndef ITEMS
#define ITEMS 64       // of a work-group
#endif
#ifndef TEAM
#define TEAM 64        // items that share sums: divides ITEMS
#endif
#ifndef ROWS
#define ROWS 4         // images of a team
#endif
#ifndef COLUMNS
#define COLUMNS 4      // filters of a team
#endif
#ifndef TOGETHER
#define TOGETHER 1     // channels that are loaded at once: 1, 2, 4; 8 of 16 bits; they divide the channels
#endif

#define ELEMENT CF_TYPE(DTYPE)
#define RESULTS (ROWS * COLUMNS)
#if TOGETHER > 1
#define LOAD_SOME(array, pointer) CF_LOAD_TOGETHER(DTYPE, TOGETHER, array, pointer)
#else
#define LOAD_SOME(array, pointer) ((array)[0] = (float)CF_LOAD(DTYPE, pointer, 0))
#endif
#define FOR_UNROLLED(index, end) CF_UNROLL for (int index = 0; index < (end); ++index)

// One-dimensional grid of whole work-groups; teams: filters / COLUMNS change first, then images / ROWS.
CF_KERNEL CF_WORK_GROUP_SIZE(ITEMS, 1, 1) void direct_gpu_dots(
    CF_GLOBAL const ELEMENT *CF_RESTRICT source, CF_GLOBAL const ELEMENT *CF_RESTRICT weights,
    CF_GLOBAL ELEMENT *CF_RESTRICT result, CF_EPILOGUE_PARAMETERS, const int images, const int channels,
    const int filters) {
  const Epilogue epilogue = CF_EPILOGUE(result);
  CF_LOCAL float shares[ITEMS * (RESULTS + 1)];  // one more than results, so that items use different banks
  const int item = (int)CF_LOCAL_ID(0), lane = item % TEAM, across = (filters + COLUMNS - 1) / COLUMNS;
  const int first_team = (int)CF_GROUP_ID(0) * (ITEMS / TEAM), team = first_team + item / TEAM;
  const int row = team / across * ROWS, column = team % across * COLUMNS;

  float sums[ROWS][COLUMNS];
  FOR_UNROLLED(r, ROWS) {
    FOR_UNROLLED(c, COLUMNS) sums[r][c] = 0.0f;
  }
  // What lies beyond the last image or filter is computed of the last, and not stored.
  CF_GLOBAL const ELEMENT *from[ROWS], *of[COLUMNS];
  FOR_UNROLLED(r, ROWS) from[r] = source + (CF_LONG)min(row + r, images - 1) * channels;
  FOR_UNROLLED(c, COLUMNS) of[c] = weights + (CF_LONG)min(column + c, filters - 1) * channels;
  for (int at = lane * TOGETHER; at < channels; at += TEAM * TOGETHER) {
    float values[ROWS][TOGETHER], factors[COLUMNS][TOGETHER];
    FOR_UNROLLED(r, ROWS) LOAD_SOME(values[r], from[r] + at);
    FOR_UNROLLED(c, COLUMNS) LOAD_SOME(factors[c], of[c] + at);
    FOR_UNROLLED(e, TOGETHER) {
      FOR_UNROLLED(r, ROWS) {
        FOR_UNROLLED(c, COLUMNS) sums[r][c] = CF_FMA(values[r][e], factors[c][e], sums[r][c]);
      }
    }
  }
  FOR_UNROLLED(r, ROWS) {
    FOR_UNROLLED(c, COLUMNS) shares[item * (RESULTS + 1) + r * COLUMNS + c] = sums[r][c];
  }
  CF_BARRIER();
  for (int number = item; number < ITEMS / TEAM * RESULTS; number += ITEMS) {
    const int own = first_team + number / RESULTS, place = number % RESULTS;
    const int image = own / across * ROWS + place / COLUMNS, filter = own % across * COLUMNS + place % COLUMNS;
    if (image >= images || filter >= filters) continue;
    CF_LOCAL_PTR const float *const theirs = shares + number / RESULTS * TEAM * (RESULTS + 1) + place;
    float sum = 0.0f;
    CF_UNROLL_READS for (int i = 0; i < TEAM; ++i) sum += theirs[i * (RESULTS + 1)];
    CF_STORE_RESULT(DTYPE, result + ((CF_LONG)image * filters + filter), filter, sum, epilogue);
  }
}
