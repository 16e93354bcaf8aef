// One channel a group and stride 1, channels first, small planes on GPUs: whole planes in local memory.
//
// A work-group copies neighbouring planes as they lie in memory, all at once. LANES neighbouring items share a plane:
// each walks down COLUMNS columns, as in gpu_lines.cl. With one lane a plane it writes its results over what it has
// read, and the work-group copies them away.
#include "gpu_window.h"

#ifndef BEFORE
#define BEFORE 1   // columns of zeros before the first
#endif
#ifndef COLUMNS
#define COLUMNS 4  // of an item
#endif
#ifndef LANES
#define LANES 2    // items of a plane: its width is LANES * COLUMNS
#endif
#ifndef VECTOR
#define VECTOR 1   // floats that are read at a time: 1, 2 or 4, which divides COLUMNS
#endif
#ifndef HEIGHT
#define HEIGHT 7   // rows of a plane, source and result
#endif
#ifndef ABOVE
#define ABOVE 1    // rows of zeros before the first
#endif
#ifndef ASYNC
#define ASYNC 0    // 1: NVIDIA's copies past the registers, from sm_80 on
#endif
#if ASYNC
#include "convfind_nvidia.h"
#endif
#define WIDTH (LANES * COLUMNS)
#define PLANE (WIDTH * HEIGHT)
#define PLANES (ITEMS / LANES)         // of a work-group; a multiple of four elements
#define AFTER (FILTER_W - 1 - BEFORE)
#define LEFT ((BEFORE + VECTOR - 1) / VECTOR)    // vectors before and behind the item's own
#define RIGHT ((AFTER + VECTOR - 1) / VECTOR)
#define VALUES (COLUMNS + (LEFT + RIGHT) * VECTOR)
#define IS_INSIDE(p, j) (LANES > 1 || ((p) + (j) >= BEFORE && (p) + (j) - BEFORE < WIDTH))

#ifdef __OPENCL_VERSION__
#define PAIR(space) space float2
#else
#define PAIR(space) float2
#endif
#if VECTOR == 4
#define LOAD_VECTOR(array, pointer) CF_LOAD4_LOCAL(array, pointer)
#define STORE_VECTOR(pointer, array) CF_STORE4(pointer, array)
#define LOAD_RESULT(array, pointer) CF_LOAD4(array, pointer)
#elif VECTOR == 2
#define LOAD_VECTOR(array, pointer)                                  \
  do {                                                               \
    const float2 pair = *(PAIR(const CF_LOCAL_PTR) *)(pointer);      \
    (array)[0] = pair.x;                                             \
    (array)[1] = pair.y;                                             \
  } while (0)
#define LOAD_RESULT(array, pointer)                                  \
  do {                                                               \
    const float2 pair = *(PAIR(const CF_GLOBAL) *)(pointer);         \
    (array)[0] = pair.x;                                             \
    (array)[1] = pair.y;                                             \
  } while (0)
#define STORE_VECTOR(pointer, array)                                 \
  do {                                                               \
    float2 pair;                                                     \
    pair.x = (array)[0];                                             \
    pair.y = (array)[1];                                             \
    *(PAIR(CF_GLOBAL) *)(pointer) = pair;                            \
  } while (0)
#else
#define LOAD_VECTOR(array, pointer) ((array)[0] = *(pointer))
#define LOAD_RESULT(array, pointer) ((array)[0] = *(pointer))
#define STORE_VECTOR(pointer, array) (*(pointer) = (array)[0])
#endif

// Global size: ITEMS for every PLANES planes.
CF_KERNEL CF_WORK_GROUP_SIZE(ITEMS, 1, 1) void direct_gpu_whole(
    CF_GLOBAL const float *CF_RESTRICT source, CF_GLOBAL const float *CF_RESTRICT weights,
    CF_GLOBAL float *CF_RESTRICT result, const float alpha, const float beta, const int planes, const int groups) {
  CF_LOCAL float staged[PLANES * PLANE] __attribute__((aligned(16)));
  const int item = (int)CF_LOCAL_ID(0), first = (int)CF_GROUP_ID(0) * PLANES;
  const int floats = min(PLANES, planes - first) * PLANE, fours = floats / 4;
  CF_GLOBAL const float *from = source + (CF_LONG)first * PLANE;
  CF_GLOBAL float *to = result + (CF_LONG)first * PLANE;
  _Pragma("unroll 4") for (int at = item; at < fours; at += ITEMS) {
#if ASYNC
    cf_copy_16(CF_SHARED(staged + 4 * at), from + 4 * at, 16);
#else
    float part[4];
    CF_LOAD4(part, from + 4 * at);
    CF_STORE4_LOCAL(staged + 4 * at, part);
#endif
  }
  if (item < floats - 4 * fours) staged[4 * fours + item] = from[4 * fours + item];

  const int own = item / LANES, column = item % LANES * COLUMNS;
  const int is_busy = own < PLANES && own * PLANE < floats;
  float weight[FILTER_H][FILTER_W];
  CF_GLOBAL const float *of = weights + min(first + own, planes - 1) % groups * TAPS;
  FOR_UNROLLED(i, FILTER_H) {
    FOR_UNROLLED(j, FILTER_W)
      weight[i][j] = alpha * of[GRADIENT ? TAPS - 1 - i * FILTER_W - j : i * FILTER_W + j];
  }
#if ASYNC
  CF_COPIES_COMMIT();
  CF_COPIES_WAIT(0);
#endif
  CF_BARRIER();

  if (is_busy) {
    float sum[FILTER_H][COLUMNS], value[VALUES], done[COLUMNS];
    FOR_UNROLLED(i, FILTER_H) { FOR_UNROLLED(p, COLUMNS) sum[i][p] = 0.0f; }
    FOR_UNROLLED(p, VALUES) value[p] = 0.0f;
    CF_LOCAL_PTR float *row = staged + own * PLANE + column;
    CF_GLOBAL float *rows = to + own * PLANE + column;
    // With the source's row y, the result's row o is complete.
#if LANES == 1
#define FINISH(o)                                                                   \
  FOR_UNROLLED(p, COLUMNS) staged[own * PLANE + (o) * WIDTH + p] = done[p];
#else
#define FINISH(o)                                                                   \
  FOR_UNROLLED(p, COLUMNS / VECTOR) {                                               \
    CF_GLOBAL float *vector = rows + (o) * WIDTH + p * VECTOR;                      \
    if (beta != 0.0f) {                                                             \
      float old[VECTOR];                                                            \
      LOAD_RESULT(old, vector);                                                     \
      FOR_UNROLLED(e, VECTOR)                                                       \
        done[p * VECTOR + e] = CF_FMA(beta, old[e], done[p * VECTOR + e]);          \
    }                                                                               \
    STORE_VECTOR(vector, done + p * VECTOR);                                        \
  }
#endif
    int o = ABOVE + 1 - FILTER_H;
    _Pragma("unroll 1") for (int y = 0; y < HEIGHT; ++y, ++o, row += WIDTH) {
      FOR_UNROLLED(q, LEFT) {
        if (LANES > 1 && column >= (LEFT - q) * VECTOR) LOAD_VECTOR(value + q * VECTOR, row + (q - LEFT) * VECTOR);
      }
      FOR_UNROLLED(q, COLUMNS / VECTOR) LOAD_VECTOR(value + (LEFT + q) * VECTOR, row + q * VECTOR);
      FOR_UNROLLED(q, RIGHT) {
        if (LANES > 1 && column + COLUMNS + q * VECTOR < WIDTH)
          LOAD_VECTOR(value + (LEFT + q) * VECTOR + COLUMNS, row + COLUMNS + q * VECTOR);
      }
      FOR_UNROLLED(i, FILTER_H) {
        float added[COLUMNS];
        FOR_UNROLLED(p, COLUMNS) added[p] = sum[i][p];
        FOR_UNROLLED(j, FILTER_W) {
          FOR_UNROLLED(p, COLUMNS) {
            if (IS_INSIDE(p, j))
              added[p] = CF_FMA(value[LEFT * VECTOR + p + j - BEFORE], weight[FILTER_H - 1 - i][j], added[p]);
          }
        }
        FOR_UNROLLED(p, COLUMNS) {
          if (i) sum[i - 1][p] = added[p];
          else done[p] = added[p];
        }
      }
      if (o >= 0) { FINISH(o) }
    }
    // Rows of zeros below the source's last.
    FOR_UNROLLED(below, FILTER_H - 1) {
      if (HEIGHT + ABOVE + 1 - FILTER_H + below >= HEIGHT) continue;
      FOR_UNROLLED(p, COLUMNS) done[p] = sum[below][p];
      FINISH(HEIGHT + ABOVE + 1 - FILTER_H + below)
    }
  }
#if LANES == 1
  CF_BARRIER();
  _Pragma("unroll 4") for (int at = item; at < fours; at += ITEMS) {
    float part[4];
    CF_LOAD4_LOCAL(part, staged + 4 * at);
    if (beta != 0.0f) {
      float old[4];
      CF_LOAD4(old, to + 4 * at);
      FOR_UNROLLED(p, 4) part[p] = CF_FMA(beta, old[p], part[p]);
    }
    CF_STORE4(to + 4 * at, part);
  }
  if (item < floats - 4 * fours) {
    const int at = 4 * fours + item;
    to[at] = beta != 0.0f ? CF_FMA(beta, to[at], staged[at]) : staged[at];
  }
#endif
}
