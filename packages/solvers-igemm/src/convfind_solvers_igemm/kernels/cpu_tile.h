// What the implicit GEMM kernels for CPUs share: macros, arguments, edges of vectors, packed weights.
#ifndef CPU_TILE_H
#define CPU_TILE_H

#ifndef MR
#define MR 12              // rows of the register tile: 4..14
#endif
#ifndef VECTORS
#define VECTORS 2          // float16 columns of the register tile: 1, 2
#endif
#ifndef DEPTH
#define DEPTH 256          // largest block of the reduction, multiple of 16: 64..512
#endif

#define VEC 16             // floats of a vector
#define NR (VEC * VECTORS) // columns of the register tile

#define INLINE __attribute__((always_inline)) inline
#define ONE_ITEM \
  __attribute__((reqd_work_group_size(1, 1, 1))) __attribute__((vec_type_hint(float16)))

// A convolution from x (`c` channels a group) to y (`k` channels a group), three spatial axes.
#define GEOMETRY                                                                               \
  const int images, const int groups, const int channels, const int filters, const int x_d,    \
      const int x_h, const int x_w, const int f_d, const int f_h, const int f_w, const int o_d, \
      const int o_h, const int o_w, const int stride_d, const int stride_h, const int stride_w, \
      const int dilation_d, const int dilation_h, const int dilation_w, const int pad_d,       \
      const int pad_h, const int pad_w

// Steps of a group, a filter, a channel and a tap in w; `flipped` turns the window round.
#define WEIGHT_STEPS                                                                     \
  const long w_group, const long w_filter, const long w_channel, const long w_tap, const int flipped

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

INLINE void store_first(__global float *to, float16 value, int width) {
  if (width == VEC) {
    vstore16(value, 0, to);
  } else if (width == 12) {
    vstore8(value.lo, 0, to);
    vstore4(value.hi.lo, 0, to + 8);
  } else {
    float part[VEC];
    vstore16(value, 0, part);
    for (int i = 0; i < width; i++) to[i] = part[i];
  }
}

// Weights into panels of `width` filters: [group][panel][block of channels][tap][channel][width],
// blocks of `block` channels; zero behind the last filter.
// Global size: (panels of a group, groups, slices of the panel's channel blocks).
__kernel ONE_ITEM void igemm_cpu_pack(__global const float *restrict w,
                                      __global float *restrict packed, const int filters,
                                      const int channels, const int taps, const int block,
                                      const int width, WEIGHT_STEPS) {
  const int panel = get_global_id(0), group = get_global_id(1);
  const int panels = get_global_size(0), slices = get_global_size(2);
  const int first = panel * width, rows = min(width, filters - first);
  const int blocks = (channels + block - 1) / block;
  w += group * w_group + first * w_filter;
  packed += ((long)group * panels + panel) * channels * taps * width;
  for (int b = get_global_id(2); b < blocks; b += slices) {
    const int c0 = b * block, count = min(block, channels - c0);
    __global float *to = packed + (long)c0 * taps * width;
    const bool along = !flipped && ((w_tap == 1 && w_channel == taps) || (w_channel == 1 && taps == 1));
    const bool last = !flipped && w_channel == 1 && taps > 1;
    if (along || last) {
      // The places of a filter that lie side by side, 16 at a time, through transposes.
      for (int outer = 0; outer < (last ? taps : 1); outer++) {
        const int length = last ? count : count * taps;
        __global const float *from = w + (last ? outer * w_tap + c0 : (long)c0 * taps);
        for (int place = 0; place < length; place += VEC) {
          const int used = min(VEC, length - place);
          for (int half_ = 0; half_ < width; half_ += VEC) {
            float16 tile[VEC];
#pragma unroll
            for (int i = 0; i < VEC; i++) {
              tile[i] = 0.0f;
              if (half_ + i < rows) {
                __global const float *row = from + (half_ + i) * w_filter + place;
                PREFETCH(row + 4 * VEC);
                tile[i] = load_part(row, used);
              }
            }
            transpose(tile);
            int channel = last ? place : place / taps, tap = last ? outer : place % taps;
            for (int i = 0; i < used; i++) {
              const long at = (long)tap * count + channel;
              store_first(to + at * width + half_, tile[i], min(VEC, width - half_));
              if (last || ++tap == taps) {
                channel++;
                tap = last ? outer : 0;
              }
            }
          }
        }
      }
      continue;
    }
    for (int tap = 0; tap < taps; tap++)
      for (int c = 0; c < count; c++) {
        __global const float *from = w + (c0 + c) * w_channel + (flipped ? taps - 1 - tap : tap) * w_tap;
        __global float *row = to + ((long)tap * count + c) * width;
        for (int i = 0; i < width; i++) row[i] = i < rows ? from[i * w_filter] : 0.0f;
      }
  }
}

#endif  // CPU_TILE_H
