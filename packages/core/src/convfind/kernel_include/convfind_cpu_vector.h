// Vectors of 16 floats for kernels on CPU devices, in OpenCL C: edges of tensors, transposes.
#ifndef CONVFIND_CPU_VECTOR_H
#define CONVFIND_CPU_VECTOR_H

#include "convfind_cpu_exp.h"

#ifndef CF_EXP
#define CF_EXP(x) EXP_INLINE(x)
#endif

#include "convfind_epilogue.h"

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

// The bias of a channel for all lanes; lane by lane that of the first `count` channels from `channel` on; or, from element
// `at` on, of `count` channels in turns. A gradient has none.
#define NO_BIAS ((float16)(0.0f))
#ifdef CF_BIAS
INLINE float16 bias_of(const Epilogue epilogue, int channel) { return (float16)(CF_BIAS_OF(epilogue, channel)); }
INLINE float16 biases_of(const Epilogue epilogue, int channel, int count) {
  float part[VEC];
#pragma unroll
  for (int i = 0; i < VEC; i++) part[i] = count >= VEC || i < count ? CF_BIAS_OF(epilogue, channel + i) : 0.0f;
  return vload16(0, part);
}
INLINE float16 biases_in_turns(const Epilogue epilogue, int at, int count) {
  float part[VEC];
  for (int i = 0; i < VEC; i++) part[i] = CF_BIAS_OF(epilogue, (at + i) % count);
  return vload16(0, part);
}
#define BIASED(sum, bias, epilogue) fma((float16)((epilogue).alpha), sum, bias)
#else
#define bias_of(epilogue, channel) NO_BIAS
#define biases_of(epilogue, channel, count) NO_BIAS
#define biases_in_turns(epilogue, at, count) NO_BIAS
#define BIASED(sum, bias, epilogue) ((epilogue).alpha * (sum))
#endif

#ifdef CF_ACTIVATION
CF_DEFINE_ACTIVATION(activation_of, float16)
INLINE float16 activated(const float16 value, const Epilogue epilogue) {
#if CF_KNOWS_PASS
  if (!epilogue.is_last) return value;
#endif
  return activation_of(value, epilogue.a, epilogue.b, epilogue.c);
}
#else
#define activated(value, epilogue) (value)
#endif

#define Z_OF(y, epilogue) ((__global const float *)CF_Z_OF(y, epilogue))
// What a vector of results will read of a tensor of its own: nobody else asks for it in time.
#ifdef CF_Z
#define PREFETCH_Z(y, epilogue) PREFETCH(Z_OF(y, epilogue))
#else
#define PREFETCH_Z(y, epilogue)
#endif

// The first `count` of what is complete otherwise, in their results.
#ifdef CF_Z_LAST
#define Z_LAST_OF(y, epilogue) ((__global const float *)CF_Z_LAST_OF(y, epilogue))
INLINE float16 finished(float16 value, __global const float *y, int count, const Epilogue epilogue) {
  value = activated(value, epilogue);
  if (!CF_HAS_Z_LAST(epilogue)) return value;
  return fma((float16)(epilogue.beta_last), load_part(Z_LAST_OF(y, epilogue), count), value);
}
#else
#define finished(value, y, count, epilogue) activated(value, epilogue)
#endif

// The result of a vector of sums, where CF_READS_RESULT is 0.
INLINE float16 result_of(float16 sum, __global const float *y, float16 bias, const Epilogue epilogue) {
  float16 value = BIASED(sum, bias, epilogue);
#ifdef CF_Z
  value = fma((float16)(epilogue.beta), vload16(0, Z_OF(y, epilogue)), value);
#endif
  return finished(value, y, VEC, epilogue);
}

// The first `count` floats, as they are.
INLINE void put_part(float16 value, __global float *y, int count) {
  if (count >= VEC) {
    vstore16(value, 0, y);
    return;
  }
  count = max(count, 0);
  float part[VEC];
  vstore16(value, 0, part);
  int i = 0;
  if (count & 8) vstore8(vload8(0, part), 0, y), i = 8;
  if (count & 4) vstore4(vload4(0, part + i), 0, y + i), i += 4;
  if (count & 2) vstore2(vload2(0, part + i), 0, y + i), i += 2;
  if (count & 1) y[i] = part[i];
}

// The results of a vector of sums.
INLINE void store_whole(float16 sum, __global float *y, float16 bias, const Epilogue epilogue) {
  float16 value = BIASED(sum, bias, epilogue);
  if (CF_ADDS_Z(epilogue)) value = fma((float16)(epilogue.beta), vload16(0, Z_OF(y, epilogue)), value);
  vstore16(finished(value, y, VEC, epilogue), 0, y);
}

// The first `count` of them. Long code where `count` is not known: an unrolled tile with dozens of copies of it takes
// PoCL half a minute to compile, so tiles store what is not whole in a loop.
INLINE void store_part(float16 sum, __global float *y, int count, float16 bias, const Epilogue epilogue) {
  float16 value = BIASED(sum, bias, epilogue);
  if (count >= VEC) {
    if (CF_ADDS_Z(epilogue)) value = fma((float16)(epilogue.beta), vload16(0, Z_OF(y, epilogue)), value);
    vstore16(finished(value, y, VEC, epilogue), 0, y);
    return;
  }
  if (CF_ADDS_Z(epilogue)) value = fma((float16)(epilogue.beta), load_part(Z_OF(y, epilogue), count), value);
  put_part(finished(value, y, count, epilogue), y, count);
}

INLINE float16 zip_low(float16 a, float16 b) {
  return (float16)(a.s0, b.s0, a.s1, b.s1, a.s2, b.s2, a.s3, b.s3, a.s4, b.s4, a.s5, b.s5, a.s6,
                   b.s6, a.s7, b.s7);
}

INLINE float16 zip_high(float16 a, float16 b) {
  return (float16)(a.s8, b.s8, a.s9, b.s9, a.sa, b.sa, a.sb, b.sb, a.sc, b.sc, a.sd, b.sd, a.se,
                   b.se, a.sf, b.sf);
}

// Floats of two vectors, those of the second numbered from 16 on. Written out as a vector's elements they take compilers
// longer, who find more instructions for them.
#ifdef __has_builtin
#if __has_builtin(__builtin_shufflevector)
#define SHUFFLE(a, b, order) __builtin_shufflevector(a, b, order)
#endif
#endif
#ifndef SHUFFLE
#define SHUFFLE(a, b, order) shuffle2(a, b, (uint16)(order))
#endif
#define IN_QUARTERS(p, q, r, s) \
  p, q, r, s, p + 4, q + 4, r + 4, s + 4, p + 8, q + 8, r + 8, s + 8, p + 12, q + 12, r + 12, s + 12
#define EVERY_OTHER_QUARTER(p)                                                                                \
  p, p + 1, p + 2, p + 3, p + 8, p + 9, p + 10, p + 11, p + 16, p + 17, p + 18, p + 19, p + 24, p + 25, p + 26, p + 27

// 16 x 16 transpose in registers: two rounds within quarters, then two that move whole quarters. Each of them is one
// instruction for each register, of AVX2 and of AVX-512.
INLINE void transpose(float16 *rows) {
  float16 other[VEC];
#pragma unroll
  for (int i = 0; i < VEC; i += 2) {
    other[i] = SHUFFLE(rows[i], rows[i + 1], IN_QUARTERS(0, 16, 1, 17));
    other[i + 1] = SHUFFLE(rows[i], rows[i + 1], IN_QUARTERS(2, 18, 3, 19));
  }
#pragma unroll
  for (int i = 0; i < VEC; i += 4)
#pragma unroll
    for (int j = 0; j < 2; j++) {
      rows[i + 2 * j] = SHUFFLE(other[i + j], other[i + j + 2], IN_QUARTERS(0, 1, 16, 17));
      rows[i + 2 * j + 1] = SHUFFLE(other[i + j], other[i + j + 2], IN_QUARTERS(2, 3, 18, 19));
    }
#pragma unroll
  for (int i = 0; i < VEC; i += 8)
#pragma unroll
    for (int j = i; j < i + 4; j++) {
      other[j] = SHUFFLE(rows[j], rows[j + 4], EVERY_OTHER_QUARTER(0));
      other[j + 4] = SHUFFLE(rows[j], rows[j + 4], EVERY_OTHER_QUARTER(4));
    }
#pragma unroll
  for (int i = 0; i < 8; i++) {
    rows[i] = SHUFFLE(other[i], other[i + 8], EVERY_OTHER_QUARTER(0));
    rows[i + 8] = SHUFFLE(other[i], other[i + 8], EVERY_OTHER_QUARTER(4));
  }
}

#endif  // CONVFIND_CPU_VECTOR_H
