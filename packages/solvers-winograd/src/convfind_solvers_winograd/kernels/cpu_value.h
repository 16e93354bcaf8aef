// What a value is in the transforms on CPU devices: a vector of channels.
#ifndef CPU_VALUE_H
#define CPU_VALUE_H

#define VEC 16  // floats of a vector
#define VALUE float16
#define MULTIPLY_ADD(constant, value, addend) fma((float16)(constant), value, addend)
#define INLINE __attribute__((always_inline)) inline

// The first `count` floats, then zeros: memory behind the tensor is never read.
INLINE float16 load_part(__global const float *source, int count) {
  if (count >= VEC) return vload16(0, source);
  float part[VEC];
  for (int i = 0; i < VEC; i++) part[i] = i < count ? source[i] : 0.0f;
  return vload16(0, part);
}

// A beta of zero never reads y, which may hold NaN.
INLINE void store_part(float16 value, __global float *y, int count, float beta) {
  if (count >= VEC) {
    if (beta != 0.0f) value = fma((float16)(beta), vload16(0, y), value);
    vstore16(value, 0, y);
    return;
  }
  float part[VEC];
  vstore16(value, 0, part);
  for (int i = 0; i < count; i++) y[i] = beta != 0.0f ? fma(beta, y[i], part[i]) : part[i];
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

#endif  // CPU_VALUE_H
