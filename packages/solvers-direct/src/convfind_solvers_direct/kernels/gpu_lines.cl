// One channel a group and stride 1, channels first, on GPUs: items walk down the columns of whole planes.
//
// The columns of all planes, in fours, are one line: an item has four columns of one plane, a work-group ITEMS
// neighbouring fours, whatever planes they are of. It walks down a band of rows. A row of the source meets each row of
// the filter and so adds to FILTER_H rows of the result, of which the uppermost is then complete: the sums move up by
// one place as they are added to, so that a step is one short loop, whatever the filter. Rows on their way to a ring in
// local memory hide the memory's latency.
#include "gpu_window.h"

#ifndef BEFORE
#define BEFORE 1   // columns of zeros before the first: 0..4
#endif
#ifndef BATCH
#define BATCH 2    // rows that come together
#endif
#ifndef STAGES
#define STAGES 3   // batches in local memory: 2 and up
#endif
#ifndef UNROLL
#define UNROLL 1   // rows of a batch whose steps are one code: 1 or 2
#endif
#ifndef GUARDED
#define GUARDED 0  // 1: rows that a band shares with its neighbours are added where they count only
#endif
#ifndef ASYNC
#define ASYNC 0    // 1: NVIDIA's copies past the registers, from sm_80 on
#endif
#if ASYNC
#include "convfind_nvidia.h"
#else
#define CF_COPIES_COMMIT()
#define CF_COPIES_WAIT(count)
#endif
#if UNROLL == 2
#define UNROLL_ROWS _Pragma("unroll 2")
#else
#define UNROLL_ROWS _Pragma("unroll 1")
#endif
#define AFTER (FILTER_W - 1 - BEFORE)  // 0..4
#define PITCH (4 * ITEMS + 8)          // of a row in the ring: a four more on each side

// Copies of the item's four of a row, and of the four beyond the ends of the work-group, if `beyond` is not 0.
// Zeros where the row is not `inside`.
CF_INLINE void copy_row(CF_LOCAL_PTR float *to, CF_GLOBAL const float *from, const int beyond, const int inside) {
#if ASYNC
  cf_copy_16(CF_SHARED(to), from, inside ? 16 : 0);
  if (beyond) cf_copy_16(CF_SHARED(to + beyond), from + beyond, inside ? 16 : 0);
#else
  float part[4] = {0.0f, 0.0f, 0.0f, 0.0f};
  if (inside) CF_LOAD4(part, from);
  CF_STORE4_LOCAL(to, part);
  if (beyond) {
    if (inside) CF_LOAD4(part, from + beyond);
    CF_STORE4_LOCAL(to + beyond, part);
  }
#endif
}

// Adds a row of the source, of which `value` has four columns before the item's own and four behind, to the sums of
// rows of the result; `done` is the one that is complete with it. sum[FILTER_H - 1] is zero.
#define ADD_ROW(done, sum, value, weight, condition)                                                        \
  do {                                                                                                      \
    FOR_UNROLLED(i, FILTER_H) {                                                                             \
      if (!(condition)) continue;                                                                           \
      FOR_UNROLLED(j, FILTER_W) {                                                                           \
        FOR_UNROLLED(p, 4) {                                                                                \
          const float before = j > 0 ? (i ? (sum)[i - 1][p] : (done)[p]) : (sum)[i][p];                     \
          const float added = CF_FMA((value)[4 + p + j - BEFORE], (weight)[FILTER_H - 1 - i][j], before);   \
          if (i) (sum)[i - 1][p] = added;                                                                   \
          else (done)[p] = added;                                                                           \
        }                                                                                                   \
      }                                                                                                     \
    }                                                                                                       \
  } while (0)

// Global size: ITEMS for each band (inside) and run of ITEMS fours. Planes have `s_h` rows in the source, `r_h` in the
// result, of `fours` fours each; `above` rows of zeros are before the source's first. A band is `rows` rows of the result.
CF_KERNEL CF_WORK_GROUP_SIZE(ITEMS, 1, 1) void direct_gpu_lines(
    CF_GLOBAL const float *CF_RESTRICT source, CF_GLOBAL const float *CF_RESTRICT weights,
    CF_GLOBAL float *CF_RESTRICT result, CF_EPILOGUE_PARAMETERS, const int planes, const int groups,
    const int s_h, const int r_h, const int fours, const int above, const int bands, const int rows) {
  const Epilogue epilogue = CF_EPILOGUE(result), rest = cf_epilogue_of_scaled(epilogue);
  CF_LOCAL float ring[STAGES * BATCH * PITCH] __attribute__((aligned(16)));
  const int item = (int)CF_LOCAL_ID(0), band = (int)CF_GROUP_ID(0) % bands;
  const int at = (int)CF_GROUP_ID(0) / bands * ITEMS + item, plane = at / fours, column = at - plane * fours;
  const int is_busy = plane < planes, has_left = column > 0, has_right = column < fours - 1;
  const int top = band * rows, first = max(top - above, 0), end = min(top + rows + FILTER_H - 1 - above, s_h);
  const int last = min(rows, r_h - top), width = 4 * fours;
  const int beyond = item == 0 && has_left ? -4 : item == ITEMS - 1 && has_right ? 4 : 0;
  CF_GLOBAL const float *from = source + ((CF_LONG)plane * s_h + first) * width + 4 * column;
  CF_GLOBAL float *to = result + ((CF_LONG)plane * r_h + top) * width + 4 * column;

  int next = first;
#define FETCH(stage)                                                                                        \
  do {                                                                                                      \
    FOR_UNROLLED(g, BATCH) {                                                                                \
      if (is_busy && next < end)                                                                            \
        copy_row(ring + ((stage) * BATCH + g) * PITCH + 4 + 4 * item, next + g < end ? from + g * width : from, \
                 beyond, next + g < end);                                                                   \
    }                                                                                                       \
    CF_COPIES_COMMIT();                                                                                     \
    next += BATCH;                                                                                          \
    from += BATCH * width;                                                                                  \
  } while (0)
  FOR_UNROLLED(stage, STAGES - 1) FETCH(stage);

  float weight[FILTER_H][FILTER_W];
  const int channel = min(plane, planes - 1) % groups;
  CF_GLOBAL const float *of = weights + channel * TAPS;
  FOR_UNROLLED(i, FILTER_H) {
    FOR_UNROLLED(j, FILTER_W)
      weight[i][j] = epilogue.alpha * of[GRADIENT ? TAPS - 1 - i * FILTER_W - j : i * FILTER_W + j];
  }
  float sum[FILTER_H][4], value[12], done[4];
  FOR_UNROLLED(i, FILTER_H) { FOR_UNROLLED(p, 4) sum[i][p] = 0.0f; }
  // What lies beyond the sides of a plane stays zero.
  FOR_UNROLLED(p, 12) value[p] = 0.0f;

  // With the source's row y, the result's row top + o is complete.
  int o = first - (top - above) - (FILTER_H - 1), stage = 0;
#define STORE()                                                                     \
  do {                                                                              \
    if (o >= 0 && o < last && is_busy) cf_store_four_results(to, channel, 0, done, rest); \
    if (o >= 0) to += width;                                                        \
    ++o;                                                                            \
  } while (0)

  for (int y = first; y < end; y += BATCH) {
    CF_COPIES_WAIT(STAGES - 2);
    CF_BARRIER();
    // Everybody has read what lies in the stage before this one.
    FETCH(stage ? stage - 1 : STAGES - 1);
    CF_LOCAL_PTR const float *row = ring + stage * BATCH * PITCH + 4 + 4 * item;
    stage = stage + 1 < STAGES ? stage + 1 : 0;
    UNROLL_ROWS for (int g = 0; g < BATCH; ++g, row += PITCH) {
      if (BEFORE > 0 && has_left) {
        if (BEFORE == 1) value[3] = row[-1];
        else CF_LOAD4_LOCAL(value, row - 4);
      }
      CF_LOAD4_LOCAL(value + 4, row);
      if (AFTER > 0 && has_right) {
        if (AFTER == 1) value[8] = row[4];
        else CF_LOAD4_LOCAL(value + 8, row + 4);
      }
      // The row of the filter that gives to place i of the sums counts from `i` rows before `o` on.
      if (GUARDED && (o < 0 || o > last - FILTER_H)) ADD_ROW(done, sum, value, weight, o + i >= 0 && o + i < last);
      else ADD_ROW(done, sum, value, weight, 1);
      STORE();
    }
  }
  // Rows of zeros below the source's last.
  while (o < last) {
    FOR_UNROLLED(p, 4) {
      done[p] = sum[0][p];
      FOR_UNROLLED(i, FILTER_H - 1) sum[i][p] = sum[i + 1][p];
    }
    STORE();
  }
}
