// The gradient of small planes through a stride, one channel a group, channels first, on GPUs: bands of rows in registers.
//
// A work-group copies neighbouring planes of the source as they lie in memory, all at once. An item has ROWS * STRIDE_H
// rows of the result of one plane, which leave as they lie in memory, through local memory of their own.
#include "gpu_chain.h"

#ifndef ABOVE
#define ABOVE 1       // the forward problem's padding: rows
#endif
#ifndef BEFORE
#define BEFORE 1      // and columns
#endif
#ifndef SOURCE_HEIGHT
#define SOURCE_HEIGHT 7
#endif
#ifndef SOURCE_WIDTH
#define SOURCE_WIDTH 7
#endif
#ifndef HEIGHT
#define HEIGHT 14     // rows of the result
#endif
#ifndef WIDTH
#define WIDTH 14
#endif
#ifndef SOURCE_VECTOR
#define SOURCE_VECTOR 1  // floats that are read at a time: 1, 2 or 4, which divides SOURCE_WIDTH
#endif
#ifndef VECTOR
#define VECTOR 1      // and written: divides the results of a band, of the last band and of a plane
#endif
#define SOURCE_PLANE (SOURCE_WIDTH * SOURCE_HEIGHT)
#define PLANE (WIDTH * HEIGHT)
#define BAND (ROWS * STRIDE_H)
#define BANDS ((HEIGHT + BAND - 1) / BAND)
// The source's rows of a band's results: the first, and how many.
#define LOWEST (-((FILTER_H - 1 - ABOVE) / STRIDE_H))
#define SOURCE_ROWS ((BAND - 1 + ABOVE) / STRIDE_H - LOWEST + 1)

// Global size: ITEMS for each of `runs` parts of a line and each `chain` of `lines` lines.
CF_KERNEL CF_WORK_GROUP_SIZE(ITEMS, 1, 1) void direct_gpu_upsampled(
    CF_GLOBAL const float *CF_RESTRICT source, CF_GLOBAL const float *CF_RESTRICT weights,
    CF_GLOBAL float *CF_RESTRICT result, CF_EPILOGUE_PARAMETERS, const int line, const int groups,
    const int lines, const int chain, const int runs) {
  const Epilogue epilogue = CF_EPILOGUE(result);
  CF_LOCAL float staged[BUFFERS * PLANES * SOURCE_PLANE] __attribute__((aligned(16)));
  CF_LOCAL float results[PLANES * PLANE] __attribute__((aligned(16)));
  CF_LOCAL float zeros[SOURCE_WIDTH] __attribute__((aligned(16)));  // the row beyond the first and the last
  const int item = (int)CF_LOCAL_ID(0), first = (int)CF_GROUP_ID(0) % runs * PLANES;
  const int first_line = (int)CF_GROUP_ID(0) / runs * chain, end = min(first_line + chain, lines);
  const int held = min(PLANES, line - first);
  CF_GLOBAL const float *from = source + ((CF_LONG)first_line * line + first) * SOURCE_PLANE;
  CF_GLOBAL float *to = result + ((CF_LONG)first_line * line + first) * PLANE;
  fetch(staged, from, item, held * SOURCE_PLANE);
  CF_COPIES_COMMIT();
  for (int at = item; at < SOURCE_WIDTH; at += ITEMS) zeros[at] = 0.0f;

  const int own = item / BANDS, band = item % BANDS, is_busy = own < held;
  const int valid = min(BAND, HEIGHT - band * BAND) * WIDTH;
  float weight[FILTER_H][FILTER_W];
  const int channel = min(first + own, line - 1) % groups;
  CF_GLOBAL const float *of = weights + channel * TAPS;
  FOR_UNROLLED(i, FILTER_H) {
    FOR_UNROLLED(j, FILTER_W) weight[i][j] = epilogue.alpha * of[i * FILTER_W + j];
  }

  int buffer = 0, at_line = first_line;
  _Pragma("unroll 1") do {
    CF_COPIES_WAIT(0);
    CF_BARRIER();
    CF_LOCAL_PTR const float *plane = staged + (buffer * PLANES + (is_busy ? own : 0)) * SOURCE_PLANE;
    // Everybody has read what was in the other buffer.
    if (BUFFERS > 1) {
      buffer = 1 - buffer;
      from += (CF_LONG)line * SOURCE_PLANE;
      if (at_line + 1 < end) fetch(staged + buffer * (PLANES * SOURCE_PLANE), from, item, held * SOURCE_PLANE);
      CF_COPIES_COMMIT();
    }

    float sum[BAND * WIDTH];
    FOR_UNROLLED(p, BAND * WIDTH) sum[p] = CF_BIAS_OF(epilogue, channel);
    FOR_UNROLLED(r, SOURCE_ROWS) {
      const int y = band * ROWS + LOWEST + r;
      CF_LOCAL_PTR const float *values = (CF_UINT)y < (CF_UINT)SOURCE_HEIGHT ? plane + y * SOURCE_WIDTH : zeros;
      float value[SOURCE_WIDTH];
      FOR_UNROLLED(q, SOURCE_WIDTH / SOURCE_VECTOR)
        LOAD_VECTOR(SOURCE_VECTOR, value + q * SOURCE_VECTOR, values + q * SOURCE_VECTOR);
      FOR_UNROLLED(o, BAND) {
        const int i = o + ABOVE - STRIDE_H * (r + LOWEST);
        if (i < 0 || i >= FILTER_H) continue;
        FOR_UNROLLED(q, SOURCE_WIDTH) {
          FOR_UNROLLED(j, FILTER_W) {
            const int p = q * STRIDE_W + j - BEFORE;
            if (p < 0 || p >= WIDTH) continue;
            sum[o * WIDTH + p] = CF_FMA(value[q], weight[i][j], sum[o * WIDTH + p]);
          }
        }
      }
    }
    if (is_busy) {
      CF_LOCAL_PTR float *put = results + own * PLANE + band * (BAND * WIDTH);
      FOR_UNROLLED(q, BAND * WIDTH / VECTOR) {
        if (q * VECTOR < valid) STORE_VECTOR(VECTOR, put + q * VECTOR, sum + q * VECTOR);
      }
    }
    CF_BARRIER();
    leave(to, results, item, held * PLANE, epilogue);
    to += (CF_LONG)line * PLANE;
  } while (BUFFERS > 1 && ++at_line < end);
}
