// Vectors of 16 floats for kernels on CPU devices, in OpenCL C: edges of tensors, transposes.
#ifndef CONVFIND_CPU_VECTOR_H
#define CONVFIND_CPU_VECTOR_H

#define VEC 16  // floats of a vector

#define INLINE __attribute__((always_inline)) inline
#define ONE_ITEM \
  __attribute__((reqd_work_group_size(1, 1, 1))) __attribute__((vec_type_hint(float16)))

#ifdef __has_builtin
#if __has_builtin(__builtin_prefetch)
#define PREFETCH(pointer) __builtin_prefetch((const void *)(size_t)(pointer))
#endif
#if __has_builtin(__builtin_nontemporal_store)
#define STORE_STREAMED(value, y) __builtin_nontemporal_store(value, (__global float16 *)(y))
#endif
#endif
#ifndef PREFETCH
#define PREFETCH(pointer)
#endif

#ifndef STREAMED_FLOATS
#define STREAMED_FLOATS 524288  // smallest result that is written past the caches, which would not keep it
#endif
// A whole line, on a multiple of 64 bytes, that nobody reads first: past the caches.
#ifndef STORE_STREAMED
#define STORE_STREAMED(value, y) vstore16(value, 0, y)
#endif

// The first `count` floats, then zeros: memory behind the tensor is never read.
INLINE float16 load_part(__global const float *source, int count) {
  if (count >= VEC) return vload16(0, source);
  count = max(count, 0);
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
INLINE void store_whole(float16 value, __global float *y, float beta) {
  if (beta != 0.0f) value = fma((float16)(beta), vload16(0, y), value);
  vstore16(value, 0, y);
}

// The first `count` floats. Long code where `count` is not known: an unrolled tile with dozens of copies of it takes
// PoCL half a minute to compile, so tiles store what is not whole in a loop.
INLINE void store_part(float16 value, __global float *y, int count, float beta) {
  if (count >= VEC) {
    store_whole(value, y, beta);
    return;
  }
  if (beta != 0.0f) value = fma((float16)(beta), load_part(y, count), value);
  count = max(count, 0);
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

#endif  // CONVFIND_CPU_VECTOR_H
