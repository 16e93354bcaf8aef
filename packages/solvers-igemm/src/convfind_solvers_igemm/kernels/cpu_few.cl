// 1x1 filters at a few positions on CPUs, channels last: each weight is read once, where it lies.
//
// One work-item computes a run of filters. Memory is what limits it, so that it reads several filters side by side,
// or one at several positions: with sums of a vector of products each, which are added up at the end.
#include "convfind_cpu_vector.h"

#define MOST 4  // positions and filters at a time, and products of both

INLINE float added_up(float16 sum) {
  const float8 eight = sum.lo + sum.hi;
  const float4 four = eight.lo + eight.hi;
  const float2 two = four.lo + four.hi;
  return two.x + two.y;
}

// Of `rows` filters from w on, the last of which may be the same one, at `places` positions: to sums[place][row].
INLINE void sums_of(const int rows, const int places, __global const float *x, __global const float *w,
                    const int *row, const int *place, int channels, float (*sums)[VEC]) {
  float16 sum[MOST][MOST];
#pragma unroll
  for (int i = 0; i < rows; i++)
#pragma unroll
    for (int p = 0; p < places; p++) sum[i][p] = 0.0f;
  const int whole = channels / VEC * VEC;
  for (int c = 0; c < whole; c += VEC) {
    float16 value[MOST];
#pragma unroll
    for (int p = 0; p < places; p++) value[p] = vload16(0, x + place[p] + c);
#pragma unroll
    for (int i = 0; i < rows; i++) {
      __global const float *from = w + row[i] + c;
      // The same part of the filters that come next.
      PREFETCH(from + (long)rows * channels);
      const float16 weight = vload16(0, from);
#pragma unroll
      for (int p = 0; p < places; p++) sum[i][p] = fma(weight, value[p], sum[i][p]);
    }
  }
  if (whole < channels) {
    float16 value[MOST];
#pragma unroll
    for (int p = 0; p < places; p++) value[p] = load_part(x + place[p] + whole, channels - whole);
#pragma unroll
    for (int i = 0; i < rows; i++) {
      const float16 weight = load_part(w + row[i] + whole, channels - whole);
#pragma unroll
      for (int p = 0; p < places; p++) sum[i][p] = fma(weight, value[p], sum[i][p]);
    }
  }
#pragma unroll
  for (int i = 0; i < rows; i++)
#pragma unroll
    for (int p = 0; p < places; p++) sums[p][i] = added_up(sum[i][p]);
}

INLINE void filters_of(const int rows, const int places, __global const float *x, __global const float *w, int count,
                       int channels, const int *place, float (*sums)[VEC]) {
  for (int k = 0; k < count; k += rows) {
    int row[MOST];
#pragma unroll
    for (int i = 0; i < rows; i++) row[i] = min(k + i, count - 1) * channels;
    float part[MOST][VEC];
    sums_of(rows, places, x, w, row, place, channels, part);
#pragma unroll
    for (int i = 0; i < rows; i++)
#pragma unroll
      for (int p = 0; p < places; p++)
        if (k + i < count) sums[p][k + i] = part[p][i];
  }
}

// Global size: (runs of `strip` filters, a multiple of VEC). Weights of a vector of filters stay in the level-2 cache
// from some positions to the next.
__kernel ONE_ITEM void igemm_cpu_few(__global const float *restrict x, __global const float *restrict w,
                                     __global float *restrict y, CF_EPILOGUE_PARAMETERS, const int positions,
                                     const int channels, const int filters, const int strip) {
  const Epilogue epilogue = CF_EPILOGUE(y);
  const int begin = get_global_id(0) * strip, end = min(filters, begin + strip);
  for (int k = begin; k < end; k += VEC) {
    const int count = min(VEC, end - k);
    __global const float *from = w + (long)k * channels;
    const Epilogue own = CF_EPILOGUE_FROM(epilogue, k);
    const float16 bias = biases_of(own, 0, count);
    for (int first = 0; first < positions; first += MOST) {
      const int places = min(MOST, positions - first);
      __global const float *source = x + (long)first * channels;
      int place[MOST];
      for (int p = 0; p < MOST; p++) place[p] = min(p, places - 1) * channels;
      float sums[MOST][VEC];
      if (places == 1)
        filters_of(4, 1, source, from, count, channels, place, sums);
      else if (places == 2)
        filters_of(2, 2, source, from, count, channels, place, sums);
      else
        filters_of(1, 4, source, from, count, channels, place, sums);
      for (int p = 0; p < places; p++)
        store_part(vload16(0, sums[p]), y + (long)(first + p) * filters + k, count, bias, own);
    }
  }
}
