// One channel a group and stride 1, channels first, small planes and filters on GPUs: bands of whole rows in registers.
//
// A work-group copies neighbouring planes as they lie in memory, all at once. An item has ROWS rows of one plane. When
// everybody has read, the results take the source's place, and leave as they lie in memory: nothing but whole pieces of
// 16 bytes passes between memory and the work-group.
#include "gpu_chain.h"

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
#ifndef VECTOR
#define VECTOR 2   // floats that are read at a time: 1, 2 or 4, which divides WIDTH
#endif
#define PLANE (WIDTH * HEIGHT)
#define BANDS ((HEIGHT + ROWS - 1) / ROWS)

// Global size: ITEMS for each of `runs` parts of a line and each `chain` of `lines` lines.
CF_KERNEL CF_WORK_GROUP_SIZE(ITEMS, 1, 1) void direct_gpu_bands(
    CF_GLOBAL const float *CF_RESTRICT source, CF_GLOBAL const float *CF_RESTRICT weights,
    CF_GLOBAL float *CF_RESTRICT result, CF_EPILOGUE_PARAMETERS, const int line, const int groups,
    const int lines, const int chain, const int runs) {
  const Epilogue epilogue = CF_EPILOGUE(result);
  CF_LOCAL float staged[BUFFERS * PLANES * PLANE] __attribute__((aligned(16)));
  CF_LOCAL float zeros[WIDTH] __attribute__((aligned(16)));  // the row beyond the first and the last
  const int item = (int)CF_LOCAL_ID(0), first = (int)CF_GROUP_ID(0) % runs * PLANES;
  const int first_line = (int)CF_GROUP_ID(0) / runs * chain, end = min(first_line + chain, lines);
  const int held = min(PLANES, line - first), floats = held * PLANE;
  const CF_LONG step = (CF_LONG)line * PLANE, start = (CF_LONG)first * PLANE + first_line * step;
  CF_GLOBAL const float *from = source + start;
  CF_GLOBAL float *to = result + start;
  fetch(staged, from, item, floats);
  CF_COPIES_COMMIT();
  for (int at = item; at < WIDTH; at += ITEMS) zeros[at] = 0.0f;

  const int own = item / BANDS, row = item % BANDS * ROWS, is_busy = own < held;
  float weight[FILTER_H][FILTER_W];
  const int channel = min(first + own, line - 1) % groups;
  CF_GLOBAL const float *of = weights + channel * TAPS;
  FOR_UNROLLED(i, FILTER_H) {
    FOR_UNROLLED(j, FILTER_W)
      weight[i][j] = epilogue.alpha * of[GRADIENT ? TAPS - 1 - i * FILTER_W - j : i * FILTER_W + j];
  }

  int buffer = 0, at_line = first_line;
  _Pragma("unroll 1") do {
    CF_COPIES_WAIT(0);
    CF_BARRIER();
    CF_LOCAL_PTR float *planes = staged + buffer * (PLANES * PLANE);
    // Everybody has copied away what was in the other buffer.
    if (BUFFERS > 1) {
      buffer = 1 - buffer;
      from += step;
      if (at_line + 1 < end) fetch(staged + buffer * (PLANES * PLANE), from, item, floats);
      CF_COPIES_COMMIT();
    }

    float sum[ROWS][WIDTH];
    FOR_UNROLLED(o, ROWS) { FOR_UNROLLED(p, WIDTH) sum[o][p] = CF_BIAS_OF(epilogue, channel); }
    CF_LOCAL_PTR float *plane = planes + (is_busy ? own : 0) * PLANE;
    FOR_UNROLLED(r, ROWS + FILTER_H - 1) {
      const int y = row - ABOVE + r;
      CF_LOCAL_PTR const float *values = (CF_UINT)y < (CF_UINT)HEIGHT ? plane + y * WIDTH : zeros;
      float value[WIDTH];
      FOR_UNROLLED(q, WIDTH / VECTOR) LOAD_VECTOR(VECTOR, value + q * VECTOR, values + q * VECTOR);
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
      FOR_UNROLLED(q, WIDTH / VECTOR)
        STORE_VECTOR(VECTOR, plane + (row + o) * WIDTH + q * VECTOR, sum[o] + q * VECTOR);
    }
    CF_BARRIER();
    leave(to, planes, item, floats, epilogue);
    to += step;
  } while (BUFFERS > 1 && ++at_line < end);
}
