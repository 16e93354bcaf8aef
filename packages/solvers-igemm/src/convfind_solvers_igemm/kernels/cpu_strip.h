// A strip: what a run of neighbouring positions reads of x, copied once for all taps, padding as zeros.
//
// Pixels lie PITCH / stride floats apart (JOINED 1) or PITCH floats, those of each remainder of the stride
// together (JOINED 0): neighbouring positions are PITCH floats apart whatever the tap. The including
// kernel defines CHANNELS_LAST, JOINED and PITCH.
#ifndef CPU_STRIP_H
#define CPU_STRIP_H

#ifndef MOST_TAPS
#define MOST_TAPS 64       // largest window
#endif

#include "cpu_runs.h"

// Where a window's runs begin in the strip, and how the strip is filled.
typedef struct {
  int runs;                 // of a window: taps, or lines with JOINED
  int offset[MOST_TAPS];    // of each run
  int lines, line;          // lines of a window; floats of one in the strip
  int classes;              // taps of a line whose pixels are a whole number of strides apart
  int rest[MOST_TAPS];      // pixels that a class lies right of the first tap
  int least[MOST_TAPS];     // strides to the first of its taps
  int most[MOST_TAPS];      // .. and to the last
  int start[MOST_TAPS];     // floats of the strip's line in front of it
} Strip;

INLINE void plan(Strip *strip, int lines, int taps_w, int step, int dilation, int channels, int rows) {
  strip->lines = lines;
#if JOINED
  strip->line = ((rows - 1) * step + taps_w) * channels + VEC;
  strip->runs = lines;
  for (int i = 0; i < lines; i++) strip->offset[i] = i * strip->line;
#else
  strip->classes = 0;
  int class_of[MOST_TAPS];
  for (int tap = 0; tap < taps_w; tap++) {
    const int rest = tap * dilation % step, strides = tap * dilation / step;
    int i = 0;
    while (i < strip->classes && strip->rest[i] != rest) i++;
    if (i == strip->classes) {
      strip->classes++;
      strip->rest[i] = rest;
      strip->least[i] = strides;
    }
    strip->most[i] = strides;
    class_of[tap] = i;
  }
  strip->line = 0;
  for (int i = 0; i < strip->classes; i++) {
    strip->start[i] = strip->line;
    strip->line += (rows + strip->most[i] - strip->least[i]) * PITCH;
  }
  strip->runs = lines * taps_w;
  for (int run = 0; run < strip->runs; run++) {
    const int tap = run % taps_w, i = class_of[tap];
    strip->offset[run] = run / taps_w * strip->line + strip->start[i] +
                         (tap * dilation / step - strip->least[i]) * PITCH;
  }
#endif
}

#if !CHANNELS_LAST
// 16 floats `step` apart, of which those in `used` count; behind the tensor nothing is read.
INLINE float16 load_pixels(__global const float *x, long place, long x_size, int step, int16 used) {
  if (step <= 2 && place >= 0 && place + step * VEC <= x_size) {
    float16 loaded = vload16(0, x + place);
    if (step == 2) loaded = (float16)(loaded.even, vload16(0, x + place + VEC).even);
    return select((float16)(0.0f), loaded, used);
  }
  int wanted[VEC];
  float part[VEC];
  vstore16(used, 0, wanted);
  for (int i = 0; i < VEC; i++) part[i] = wanted[i] ? x[place + (long)i * step] : 0.0f;
  return vload16(0, part);
}

// `slots` pixels `step` apart of `count` channels `plane` apart. Pixels outside of the row are zeros.
INLINE void fill_turned(float *to, __global const float *x, long from, int pixel, bool inside, int slots,
                        int step, int x_w, int count, long plane, long x_size, long ahead) {
  const int16 lane = (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const int16 at = pixel + lane * step, used = at >= 0 & at < x_w & lane < slots;
  for (int c = 0; c < count; c += VEC) {
    const long first = from + c * plane;
    float16 square[VEC];
    if (inside && step == 1 && c + VEC <= count && pixel >= 0 && pixel + VEC <= x_w) {
#pragma unroll
      for (int i = 0; i < VEC; i++) {
        PREFETCH(x + first + i * plane + ahead);
        square[i] = vload16(0, x + first + i * plane);
      }
    } else {
#pragma unroll
      for (int i = 0; i < VEC; i++) {
        square[i] = 0.0f;
        if (inside && c + i < count) {
          PREFETCH(x + first + i * plane + ahead);
          if (step > 1) PREFETCH(x + first + i * plane + ahead + VEC);
          square[i] = load_pixels(x, first + i * plane, x_size, step, used);
        }
      }
    }
    transpose(square);
#pragma unroll
    for (int i = 0; i < VEC; i++)
      if (i < slots) vstore16(square[i], 0, to + i * PITCH + c);
  }
}
#endif

// One line: `at` is the first pixel, `from` where it lies in x, `inside` whether its row does; what is
// filled next lies `ahead` floats behind.
INLINE void fill_line(float *to, const Strip *strip, __global const float *x, long from, int at,
                      bool inside, int rows, int taps_w, int step, int x_w, int channels, int count,
                      long x_pixel, long plane, long x_size, long ahead) {
#if JOINED
  const int pixels = (rows - 1) * step + taps_w;
  if (inside && at + pixels > 0 && at < x_w)
    copy_pixels(to, x, from, at, pixels, x_w, channels, 0, pixels * channels, x_size);
  else
    clear_run(to, pixels * channels);
#else
  for (int i = 0; i < strip->classes; i++) {
    const int first = strip->least[i], last = strip->most[i] + rows - 1;
#if !CHANNELS_LAST
    for (int j = first; j <= last; j += VEC)
      fill_turned(to + strip->start[i] + (j - first) * PITCH, x, from + j * step + strip->rest[i],
                  at + j * step + strip->rest[i], inside, min(VEC, last + 1 - j), step, x_w, count,
                  plane, x_size, ahead);
#else
    for (int j = first; j <= last; j++) {
      const int pixel = at + j * step + strip->rest[i];
      float *slot = to + strip->start[i] + (j - first) * PITCH;
      const long place = from + (pixel - at) * x_pixel;
      if (inside && pixel >= 0 && pixel < x_w)
        copy_run(slot, x + place, count, x_size - place);
      else
        clear_run(slot, count);
    }
#endif
  }
#endif
}

#endif  // CPU_STRIP_H
