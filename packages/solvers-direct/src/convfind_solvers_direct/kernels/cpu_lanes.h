// The channels of a group in vectors of 16 neighbouring channels, and lines of these that are needed later.
#ifndef CPU_LANES_H
#define CPU_LANES_H

// In each lane the source channel c of its group.
INLINE float16 channel_of(float16 value, int c) {
#if CHANNELS == 1
  return value;
#else
  const int16 lane = (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  return shuffle(value, as_uint16(lane / CHANNELS * CHANNELS + c));
#endif
}

// In each lane another channel of its group: in lane i what was in lane i ^ `step`.
INLINE float16 exchange(float16 value, int step) {
#if CHANNELS >= 2
  if (step & 1) value = value.s1032547698badcfe;
#endif
#if CHANNELS >= 4
  if (step & 2) value = value.s23016745ab89efcd;
#endif
#if CHANNELS >= 8
  if (step & 4) value = value.s45670123cdef89ab;
#endif
  return value;
}

// `lines` of 16 floats that lie in a row are on their way to the level-2 cache.
INLINE void fetch_lines(__global const float *from, const int lines) {
#ifdef __has_builtin
#if __has_builtin(__builtin_prefetch)
#pragma unroll
  for (int i = 0; i < lines; i++) __builtin_prefetch((const void *)(size_t)(from + i * VEC), 0, 2);
#endif
#endif
}

#endif  // CPU_LANES_H
