// operators-group-norm: on CPUs, where channels are neighbours in memory and groups are narrower than what is read at a time.
//
// A work-item has some channels of some images, whole groups of them: it goes through all positions once for what the
// channels' means and variances come from, and once for the result.
#include "elements.h"

#ifndef DTYPE
#define DTYPE FLOAT32
#endif
#ifndef CHANNELS
#define CHANNELS 512  // of a work-item at most: a multiple of 16
#endif

#if WIDTH == 16

// x_n, x_p: steps of images and of positions; share: channels of a group; columns: channels of a work-item.
CF_KERNEL void operators_channel_groups(CF_GLOBAL const CF_TYPE(DTYPE) *x, CF_GLOBAL const CF_TYPE(DTYPE) *scale,
                                        CF_GLOBAL const CF_TYPE(DTYPE) *bias, CF_GLOBAL CF_TYPE(DTYPE) *y,
                                        const CF_LONG x_n, const CF_LONG x_p, const CF_LONG y_n, const CF_LONG y_p,
                                        const int batch, const int positions, const int channels, const int share,
                                        const int per_item, const int columns, const NUMBER epsilon) {
  NUMBER origins[CHANNELS], shifts[CHANNELS], spreads[CHANNELS];
  const int first = CF_GLOBAL_ID(0) * per_item, begin = CF_GLOBAL_ID(1) * columns;
  const int count = min(columns, channels - begin);
  for (int n = first; n < min(first + per_item, batch); ++n) {
    CF_GLOBAL const CF_TYPE(DTYPE) *const from = x + n * x_n + begin;
    CF_GLOBAL CF_TYPE(DTYPE) *const to = y + n * y_n + begin;
    for (int c = 0; c < count; c += WIDTH) {
      vstore16(LOAD_STEPPED(DTYPE, from + c, 1, 1, count - c), 0, origins + c);
      vstore16(EACH(0), 0, shifts + c);
      vstore16(EACH(0), 0, spreads + c);
    }
    // Relative to the first element, whose distance from the mean is part of the variance.
    for (int p = 0; p < positions; ++p)
      for (int c = 0; c < count; c += WIDTH) {
        const VALUE distance = LOAD_STEPPED(DTYPE, from + p * x_p + c, 1, 1, count - c) - vload16(0, origins + c);
        vstore16(vload16(0, shifts + c) + distance, 0, shifts + c);
        vstore16(vload16(0, spreads + c) + distance * distance, 0, spreads + c);
      }
    for (int g = 0; g < count; g += share) {
      NUMBER mean = 0, spread = 0;
      for (int c = g; c < g + share; ++c) {
        shifts[c] /= positions;
        spreads[c] -= positions * shifts[c] * shifts[c];
        if (spreads[c] < 0) spreads[c] = 0;
        mean += origins[c] + shifts[c];
      }
      mean /= share;
      for (int c = g; c < g + share; ++c) {
        const NUMBER distance = origins[c] + shifts[c] - mean;
        spread += spreads[c] + positions * distance * distance;
      }
      spread = 1 / sqrt(spread / ((NUMBER)positions * share) + epsilon);
      for (int c = g; c < g + share; ++c) {
        origins[c] = mean;
        spreads[c] = spread * (NUMBER)CF_LOAD(DTYPE, scale, begin + c);
        shifts[c] = (NUMBER)CF_LOAD(DTYPE, bias, begin + c);
      }
    }
    for (int p = 0; p < positions; ++p)
      for (int c = 0; c < count; c += WIDTH) {
        const int left = count - c;
        const VALUE element = LOAD_STEPPED(DTYPE, from + p * x_p + c, 1, 1, left);
        const VALUE value = (element - vload16(0, origins + c)) * vload16(0, spreads + c) + vload16(0, shifts + c);
        STORE_STEPPED(DTYPE, to + p * y_p + c, 1, 1, left, value);
      }
  }
}

#endif  // WIDTH
