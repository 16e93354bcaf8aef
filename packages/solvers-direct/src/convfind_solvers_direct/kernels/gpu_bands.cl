// One channel a group and stride 1, channels first, small planes and filters on GPUs: bands of whole rows in registers.
//
// A work-group copies neighbouring planes as they lie in memory, all at once. An item has ROWS rows of one plane. When
// everybody has read, the results take the source's place, and leave as they lie in memory: nothing but whole pieces of
// 16 bytes passes between memory and the work-group.
#include "gpu_window.h"

#ifndef BEFORE
#define BEFORE 1   // columns of zeros before the first
#endif
#ifndef ABOVE
#define ABOVE 1    // rows of zeros before the first
#endif
#ifndef WIDTH
#define WIDTH 14   // of a row, source and result
#endif
#ifndef HEIGHT
#define HEIGHT 14  // rows of a plane, source and result
#endif
#ifndef ROWS
#define ROWS 4     // of an item
#endif
#ifndef PLANES
#define PLANES 8   // of a work-group; a multiple of four elements
#endif
#ifndef VECTOR
#define VECTOR 2   // floats that are read at a time: 1, 2 or 4, which divides WIDTH
#endif
#ifndef ASYNC
#define ASYNC 0    // 1: NVIDIA's copies past the registers, from sm_80 on
#endif
#if ASYNC
#include "convfind_nvidia.h"
#endif
#define PLANE (WIDTH * HEIGHT)
#define BANDS ((HEIGHT + ROWS - 1) / ROWS)

#ifdef __OPENCL_VERSION__
#define LOCAL_PAIR CF_LOCAL_PTR float2
#else
#define LOCAL_PAIR float2
#endif
#if VECTOR == 4
#define LOAD_VECTOR(array, pointer) CF_LOAD4_LOCAL(array, pointer)
#define STORE_VECTOR(pointer, array) CF_STORE4_LOCAL(pointer, array)
#elif VECTOR == 2
#define LOAD_VECTOR(array, pointer)                      \
  do {                                                   \
    const float2 pair = *(const LOCAL_PAIR *)(pointer);  \
    (array)[0] = pair.x;                                 \
    (array)[1] = pair.y;                                 \
  } while (0)
#define STORE_VECTOR(pointer, array)                     \
  do {                                                   \
    float2 pair;                                         \
    pair.x = (array)[0];                                 \
    pair.y = (array)[1];                                 \
    *(LOCAL_PAIR *)(pointer) = pair;                     \
  } while (0)
#else
#define LOAD_VECTOR(array, pointer) ((array)[0] = *(pointer))
#define STORE_VECTOR(pointer, array) (*(pointer) = (array)[0])
#endif

// Global size: ITEMS for every PLANES planes.
CF_KERNEL CF_WORK_GROUP_SIZE(ITEMS, 1, 1) void direct_gpu_bands(
    CF_GLOBAL const float *CF_RESTRICT source, CF_GLOBAL const float *CF_RESTRICT weights,
    CF_GLOBAL float *CF_RESTRICT result, const float alpha, const float beta, const int planes, const int groups) {
  CF_LOCAL float staged[PLANES * PLANE] __attribute__((aligned(16)));
  CF_LOCAL float zeros[WIDTH] __attribute__((aligned(16)));  // the row beyond the first and the last
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
  for (int at = item; at < WIDTH; at += ITEMS) zeros[at] = 0.0f;

  const int own = item / BANDS, row = item % BANDS * ROWS;
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

  float sum[ROWS][WIDTH];
  FOR_UNROLLED(o, ROWS) { FOR_UNROLLED(p, WIDTH) sum[o][p] = 0.0f; }
  CF_LOCAL_PTR float *plane = staged + (is_busy ? own : 0) * PLANE;
  FOR_UNROLLED(r, ROWS + FILTER_H - 1) {
    const int y = row - ABOVE + r;
    CF_LOCAL_PTR const float *line = (CF_UINT)y < (CF_UINT)HEIGHT ? plane + y * WIDTH : zeros;
    float value[WIDTH];
    FOR_UNROLLED(q, WIDTH / VECTOR) LOAD_VECTOR(value + q * VECTOR, line + q * VECTOR);
    FOR_UNROLLED(o, ROWS) {
      if (r - o < 0 || r - o >= FILTER_H) continue;
      FOR_UNROLLED(j, FILTER_W) {
        FOR_UNROLLED(p, WIDTH) {
          if (p + j < BEFORE || p + j - BEFORE >= WIDTH) continue;
          sum[o][p] = CF_FMA(value[p + j - BEFORE], weight[r - o][j], sum[o][p]);
        }
      }
    }
  }
  CF_BARRIER();
  FOR_UNROLLED(o, ROWS) {
    if (!is_busy || row + o >= HEIGHT) continue;
    FOR_UNROLLED(q, WIDTH / VECTOR) STORE_VECTOR(plane + (row + o) * WIDTH + q * VECTOR, sum[o] + q * VECTOR);
  }
  CF_BARRIER();
  // A beta of zero never reads the result, which may hold NaN.
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
}
