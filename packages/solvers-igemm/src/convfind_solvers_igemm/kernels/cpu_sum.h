// Adds up the parts of a gradient of the weights. The including kernel defines CHANNELS_LAST.
#ifndef CPU_SUM_H
#define CPU_SUM_H

#include "convfind_cpu_vector.h"

#if !CHANNELS_LAST
// Calls: sixteen copies of what takes less than a vector would take compilers longer than all else in a program.
__attribute__((noinline)) float16 load_few(__global const float *source, int count) { return load_part(source, count); }
__attribute__((noinline)) void store_few(float16 sum, __global float *y, int count, const Epilogue epilogue) {
  store_part(sum, y, count, NO_BIAS, epilogue);
}
#endif

// w = alpha * (parts added up, in order) + beta * w. Global size: (runs of filters); `share` of all
// groups' filters each.
__kernel ONE_ITEM void igemm_cpu_sum(__global const float *restrict sums, __global float *restrict w,
                                     const int filters, const int channels, const int taps,
                                     const int parts, CF_EPILOGUE_PARAMETERS,
                                     const int share) {
  const Epilogue epilogue = CF_EPILOGUE(w);
  const int first = get_global_id(0) * share, end = min(filters, first + share);
  const int window = channels * taps;
  const long all = (long)filters * window;
#if CHANNELS_LAST
  for (long at = (long)first * window; at < (long)end * window; at += VEC) {
    const int count = (int)min((long)VEC, (long)end * window - at);
    float16 sum = load_part(sums + at, count);
    for (int part = 1; part < parts; part++) sum += load_part(sums + part * all + at, count);
    store_part(sum, w + at, count, NO_BIAS, epilogue);
  }
#else  // from taps of channels to channels of taps
  for (int k = first; k < end; k++)
    for (int c = 0; c < channels; c += VEC)
      for (int tap = 0; tap < taps; tap += VEC) {
        const int used = min(VEC, channels - c), count = min(VEC, taps - tap);
        __global const float *from = sums + (long)k * window + (long)tap * channels + c;
        float16 square[VEC];
#pragma unroll
        for (int i = 0; i < VEC; i++) {
          square[i] = 0.0f;
          if (i < count) {
            __global const float *at = from + (long)i * channels;
            square[i] = used == VEC ? vload16(0, at) : load_few(at, used);
            for (int part = 1; part < parts; part++)
              square[i] += used == VEC ? vload16(0, at + part * all) : load_few(at + part * all, used);
          }
        }
        transpose(square);
        __global float *to = w + (long)k * window + (long)c * taps + tap;
#pragma unroll
        for (int i = 0; i < VEC; i++)
          if (i < used) store_few(square[i], to + (long)i * taps, count, epilogue);
      }
#endif
}

#endif  // CPU_SUM_H
