// What the implicit GEMM kernels for CPUs share: macros, arguments, phases, edges of vectors.
#ifndef CPU_TILE_H
#define CPU_TILE_H

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
#define DEPTH 256          // largest block of the reduction, multiple of 16: 64..512
#endif

#define VEC 16             // floats of a vector
#define NR (VEC * VECTORS) // columns of the register tile

#define INLINE __attribute__((always_inline)) inline
#define ONE_ITEM \
  __attribute__((reqd_work_group_size(1, 1, 1))) __attribute__((vec_type_hint(float16)))

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

typedef struct {
  Axis d, h, w;
  int taps;
  long before;  // taps of the phases in front of it
} Phase;

INLINE Phase phase_of(int index, GEOMETRY) {
  const int in_w = PHASES(stride_w, o_w), in_h = PHASES(stride_h, o_h);
  Phase phase;
  phase.w = axis_of(index % in_w, o_w, stride_w, f_w, dilation_w, pad_w);
  phase.h = axis_of(index / in_w % in_h, o_h, stride_h, f_h, dilation_h, pad_h);
  phase.d = axis_of(index / in_w / in_h, o_d, stride_d, f_d, dilation_d, pad_d);
  phase.taps = phase.d.taps * phase.h.taps * phase.w.taps;
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

#ifdef __has_builtin
#if __has_builtin(__builtin_prefetch)
#define PREFETCH(pointer) __builtin_prefetch((const void *)(size_t)(pointer))
#endif
#endif
#ifndef PREFETCH
#define PREFETCH(pointer)
#endif

// The first `count` floats, then zeros: memory behind the tensor is never read.
INLINE float16 load_part(__global const float *source, int count) {
  if (count >= VEC) return vload16(0, source);
  float part[VEC];
  vstore16((float16)(0.0f), 0, part);
  int i = 0;
  if (count & 8) vstore8(vload8(0, source), 0, part), i = 8;
  if (count & 4) vstore4(vload4(0, source + i), 0, part + i), i += 4;
  if (count & 2) vstore2(vload2(0, source + i), 0, part + i), i += 2;
  if (count & 1) part[i] = source[i];
  return vload16(0, part);
}

// A beta of zero never reads y, which may hold NaN.
INLINE void store_part(float16 value, __global float *y, int count, float beta) {
  if (beta != 0.0f) value = fma((float16)(beta), load_part(y, count), value);
  if (count >= VEC) {
    vstore16(value, 0, y);
    return;
  }
  float part[VEC];
  vstore16(value, 0, part);
  int i = 0;
  if (count & 8) vstore8(vload8(0, part), 0, y), i = 8;
  if (count & 4) vstore4(vload4(0, part + i), 0, y + i), i += 4;
  if (count & 2) vstore2(vload2(0, part + i), 0, y + i), i += 2;
  if (count & 1) y[i] = part[i];
}

INLINE float16 zip_low(float16 a, float16 b) {
  return (float16)(a.s0, b.s0, a.s1, b.s1, a.s2, b.s2, a.s3, b.s3, a.s4, b.s4, a.s5, b.s5, a.s6,
                   b.s6, a.s7, b.s7);
}

INLINE float16 zip_high(float16 a, float16 b) {
  return (float16)(a.s8, b.s8, a.s9, b.s9, a.sa, b.sa, a.sb, b.sb, a.sc, b.sc, a.sd, b.sd, a.se,
                   b.se, a.sf, b.sf);
}

// 16 x 16 transpose in registers: four rounds of zipping rows i and i + 8.
INLINE void transpose(float16 *rows) {
  float16 other[VEC];
#pragma unroll
  for (int round = 0; round < 2; round++) {
#pragma unroll
    for (int i = 0; i < 8; i++) {
      other[2 * i] = zip_low(rows[i], rows[i + 8]);
      other[2 * i + 1] = zip_high(rows[i], rows[i + 8]);
    }
#pragma unroll
    for (int i = 0; i < 8; i++) {
      rows[2 * i] = zip_low(other[i], other[i + 8]);
      rows[2 * i + 1] = zip_high(other[i], other[i + 8]);
    }
  }
}

#endif  // CPU_TILE_H
