// Runs of floats between x, channels last, and private memory.
#ifndef CPU_RUNS_H
#define CPU_RUNS_H

#include "cpu_tile.h"

// `count` floats to private memory; the last vector may write up to 15 floats behind them.
INLINE void copy_run(float *to, __global const float *from, int count, long left) {
  int i = 0;
  for (; i + VEC <= count; i += VEC) vstore16(vload16(0, from + i), 0, to + i);
  if (i < count) vstore16(load_part(from + i, left >= i + VEC ? VEC : count - i), 0, to + i);
}

// Writes like copy_run.
INLINE void clear_run(float *to, int count) {
  for (int i = 0; i < count; i += VEC) vstore16((float16)(0.0f), 0, to + i);
}

// `count` floats of `joined` pixels from pixel `at` of a row of `x_w` on, without the first `skip`;
// `from` is where they would lie in x if there were no padding.
INLINE void copy_pixels(float *to, __global const float *x, long from, int at, int joined, int x_w,
                        int channels, int skip, int count, long x_size) {
  if (at >= 0 && at + joined <= x_w) {
    copy_run(to, x + from, count, x_size - from);
    return;
  }
  const int low = clamp(max(-at, 0) * channels - skip, 0, count);
  const int high = clamp(min(joined, x_w - at) * channels - skip, low, count);
  clear_run(to, low);
  if (low < high) copy_run(to + low, x + from + low, high - low, x_size - from - low);
  clear_run(to + high, count - high);
}

#endif  // CPU_RUNS_H
