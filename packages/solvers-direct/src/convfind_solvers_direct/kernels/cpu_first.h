// First layers on CPUs: the weights of few input channels and all taps, in blocks of filters.
#ifndef CPU_FIRST_H
#define CPU_FIRST_H

#define DEPTH (CHANNELS * TAPS)  // products of a sum
#define BLOCK FILTERS_AT_ONCE

// Weights as block of filters, channel and tap as they lie in w, filter; zeros behind the last filter.
// Global size: (blocks).
__kernel ONE_ITEM void direct_cpu_first_pack(__global const float *restrict w, __global float *restrict packed,
                                             const int filters) {
  const int first = get_global_id(0) * BLOCK;
  packed += (long)first * DEPTH;
#if FILTERS_AT_ONCE % VEC == 0
  for (int k = 0; k < BLOCK; k += VEC) {
    for (int tap = 0; tap < DEPTH; tap += VEC) {
      float16 line[VEC];
#pragma unroll
      for (int i = 0; i < VEC; i++) {
        line[i] = 0.0f;
        if (first + k + i < filters) line[i] = load_part(w + (long)(first + k + i) * DEPTH + tap, DEPTH - tap);
      }
      transpose(line);
#pragma unroll
      for (int i = 0; i < VEC; i++)
        if (tap + i < DEPTH) vstore16(line[i], 0, packed + (tap + i) * BLOCK + k);
    }
  }
#else
  for (int k = 0; k < BLOCK; k++)
    for (int tap = 0; tap < DEPTH; tap++)
      packed[tap * BLOCK + k] = first + k < filters ? w[(long)(first + k) * DEPTH + tap] : 0.0f;
#endif
}

#endif  // CPU_FIRST_H
