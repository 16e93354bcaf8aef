// What the implicit GEMM kernels for CPUs share: macros, arguments, phases.
#ifndef CPU_TILE_H
#define CPU_TILE_H

#include "convfind_cpu_vector.h"

#ifndef MR
#define MR 12              // rows of the register tile: 4..14
#endif
#ifndef VECTORS
#define VECTORS 2          // float16 columns of the register tile: 1, 2
#endif
#ifndef GRADIENT
#define GRADIENT 0         // 0: y from x and w; 1: x from y and w (source and result change places)
#endif
#ifndef DEPTH
#define DEPTH 256          // largest block of the reduction, multiple of 16: 64..1024
#endif

#ifndef JOINED_PHASES
#define JOINED_PHASES 0    // 1: the phases along w of a stride of 2 are computed together
#endif

#define NR (VEC * VECTORS) // columns of the register tile

#define NOINLINE __attribute__((noinline))

// The windows that are read next, `row` floats apart: a tile asks for those of `count` positions, a line of each
// every 16 products. All at once they would keep it waiting, and a line to find at every product takes issue slots
// from the multiply-adds.
typedef struct {
  __global const float *first;
  long row;
  int count;
} Ahead;

INLINE void prefetch_lines(Ahead ahead, int k) {
  for (int i = 0; i < ahead.count; i++) PREFETCH(ahead.first + i * ahead.row + k);
}

// From a source of `channels` a group and x_d x x_h x x_w places to a result of `filters` a group and
// o_d x o_h x o_w places. Strides are the convolution's: steps in the source, or, with GRADIENT, in
// the result.
#define GEOMETRY                                                                               \
  const int images, const int groups, const int channels, const int filters, const int x_d,    \
      const int x_h, const int x_w, const int f_d, const int f_h, const int f_w, const int o_d, \
      const int o_h, const int o_w, const int stride_d, const int stride_h, const int stride_w, \
      const int dilation_d, const int dilation_h, const int dilation_w, const int pad_d,       \
      const int pad_h, const int pad_w
#define GEOMETRY_NAMES                                                                          \
  images, groups, channels, filters, x_d, x_h, x_w, f_d, f_h, f_w, o_d, o_h, o_w, stride_d,     \
      stride_h, stride_w, dilation_d, dilation_h, dilation_w, pad_d, pad_h, pad_w

#define SOURCE_STEP(stride) (GRADIENT ? 1 : (stride))
#define RESULT_STEP(stride) (GRADIENT ? (stride) : 1)
#define PHASES(stride, size) (GRADIENT ? min(stride, size) : 1)

// One axis of a phase: a convolution of its own with `taps` of the filter's, the i-th of them tap
// tap0 + i * tap_step; `before` taps belong to the phases in front of it. Its i-th result lies at
// first + i * RESULT_STEP.
typedef struct {
  int taps, tap0, tap_step, before, first, out, dilation, pad;
} Axis;

// A data gradient of stride s falls apart into s phases an axis: results i, i + s, i + 2s, .. are
// reached by the same taps, and step over the source one by one. Other convolutions are one phase.
INLINE Axis axis_of(int phase, int size, int stride, int taps, int dilation, int pad) {
#if GRADIENT
  Axis axis = {0, 0, 1, 0, phase, (size - phase + stride - 1) / stride, 1, 0};
  for (int tap = 0; tap < taps; tap++) {
    const int rest = (int)(((long)tap * dilation - pad) % stride);
    const int owner = rest < 0 ? rest + stride : rest;
    axis.before += owner < phase;
    if (owner != phase) continue;
    if (axis.taps == 1) axis.tap_step = tap - axis.tap0;
    if (axis.taps++ == 0) axis.tap0 = tap;
  }
  if (axis.taps > 1) axis.dilation = (int)((long)axis.tap_step * dilation / stride);
  axis.tap0 += (axis.taps - 1) * axis.tap_step;  // the window is turned round
  axis.tap_step = -axis.tap_step;
  if (axis.taps) axis.pad = (int)(((long)axis.tap0 * dilation - pad - phase) / stride);
  return axis;
#else
  return (Axis){taps, 0, 1, 0, 0, size, dilation, pad};
#endif
}

// Phases along w that are computed together.
INLINE int joined_phases(GEOMETRY) {
  const bool fits = (long)f_d * f_h * f_w <= DEPTH;
  return JOINED_PHASES && GRADIENT && stride_w == 2 && o_w > 1 && fits ? 2 : 1;
}

typedef struct {
  Axis d, h, w;
  int taps;
  int joined_taps;  // .. of all phases that are computed together
  long before;  // taps of the phases in front of it
} Phase;

INLINE Phase phase_of(int index, GEOMETRY) {
  const int in_w = PHASES(stride_w, o_w), in_h = PHASES(stride_h, o_h);
  Phase phase;
  phase.w = axis_of(index % in_w, o_w, stride_w, f_w, dilation_w, pad_w);
  phase.h = axis_of(index / in_w % in_h, o_h, stride_h, f_h, dilation_h, pad_h);
  phase.d = axis_of(index / in_w / in_h, o_d, stride_d, f_d, dilation_d, pad_d);
  phase.taps = phase.d.taps * phase.h.taps * phase.w.taps;
  const bool is_joined = joined_phases(GEOMETRY_NAMES) > 1;
  phase.joined_taps = phase.d.taps * phase.h.taps * (is_joined ? f_w : phase.w.taps);
  phase.before = ((long)phase.d.before * f_h + phase.d.taps * phase.h.before) * f_w +
                 phase.d.taps * phase.h.taps * phase.w.before;
  return phase;
}

INLINE int phases_of(GEOMETRY) {
  return PHASES(stride_d, o_d) * PHASES(stride_h, o_h) * PHASES(stride_w, o_w);
}

// Which of the filter's taps a phase's is.
INLINE int filter_tap(const Phase *phase, int tap, int f_h, int f_w) {
  const int w = tap % phase->w.taps, row = tap / phase->w.taps;
  const int h = row % phase->h.taps, d = row / phase->h.taps;
  return ((phase->d.tap0 + d * phase->d.tap_step) * f_h + phase->h.tap0 + h * phase->h.tap_step) *
             f_w + phase->w.tap0 + w * phase->w.tap_step;
}

#endif  // CPU_TILE_H
