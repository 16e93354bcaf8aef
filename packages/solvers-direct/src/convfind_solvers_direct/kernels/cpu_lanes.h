// The channels of a group in vectors of 16 neighbouring channels.
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

#endif  // CPU_LANES_H
