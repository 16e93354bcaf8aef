// operators-group-norm: on CPUs, where channels are neighbours in memory and groups are narrower than what is read at a time.
//
// A work-item has some channels of some images, whole groups of them: it goes through all positions once for what the
// channels' means and variances come from, and once for the result.
#include "functions.h"

#ifndef DTYPE
#define DTYPE FLOAT32
#endif
#ifndef CHANNELS
#define CHANNELS 512  // of a work-item at most: a multiple of 16
#endif
#define BLOCK 64  // positions whose mean is taken at a time: what lies there stays in the cache

#if WIDTH == 16

// x_n, x_p: steps of images and of positions; share: channels of a group; columns: channels of a work-item.
CF_KERNEL ONE_ITEM void operators_channel_groups(CF_GLOBAL const CF_TYPE(DTYPE) *x, CF_GLOBAL const CF_TYPE(DTYPE) *scale,
                                        CF_GLOBAL const CF_TYPE(DTYPE) *bias, CF_GLOBAL CF_TYPE(DTYPE) *y,
                                        const CF_LONG x_n, const CF_LONG x_p, const CF_LONG y_n, const CF_LONG y_p,
                                        const int batch, const int positions, const int channels, const int share,
                                        const int per_item, const int columns, const NUMBER epsilon
                                        CF_ACTIVATION_PARAMETERS) {
  NUMBER means[CHANNELS], spreads[CHANNELS], sums[CHANNELS];
  const int first = CF_GLOBAL_ID(0) * per_item, begin = CF_GLOBAL_ID(1) * columns;
  const int count = min(columns, channels - begin);
  for (int n = first; n < min(first + per_item, batch); ++n) {
    CF_GLOBAL const CF_TYPE(DTYPE) *const from = x + n * x_n + begin;
    CF_GLOBAL CF_TYPE(DTYPE) *const to = y + n * y_n + begin;
    for (int c = 0; c < count; c += WIDTH) {
      vstore16(EACH(0), 0, means + c);
      vstore16(EACH(0), 0, spreads + c);
    }
    // Squares are of distances from the mean of some positions, which are read again while they are in the cache: those
    // from any other number would be lost in a sum beside an element far from all others.
    for (int done = 0; done < positions; done += BLOCK) {
      const int end = min(done + BLOCK, positions);
      const NUMBER here = end - done, share_of_here = here / end;
      for (int c = 0; c < count; c += WIDTH) vstore16(EACH(0), 0, sums + c);
      for (int p = done; p < end; ++p)
        for (int c = 0; c < count; c += WIDTH)
          vstore16(vload16(0, sums + c) + LOAD_STEPPED(DTYPE, from + p * x_p + c, 1, 1, count - c), 0, sums + c);
      for (int c = 0; c < count; c += WIDTH) vstore16(vload16(0, sums + c) / here, 0, sums + c);
      for (int p = done; p < end; ++p)
        for (int c = 0; c < count; c += WIDTH) {
          const VALUE distance = LOAD_STEPPED(DTYPE, from + p * x_p + c, 1, 1, count - c) - vload16(0, sums + c);
          vstore16(vload16(0, spreads + c) + distance * distance, 0, spreads + c);
        }
      for (int c = 0; c < count; c += WIDTH) {
        const VALUE mean = vload16(0, means + c), distance = vload16(0, sums + c) - mean;
        vstore16(mean + distance * share_of_here, 0, means + c);
        vstore16(vload16(0, spreads + c) + distance * distance * (done * share_of_here), 0, spreads + c);
      }
    }
    for (int g = 0; g < count; g += share) {
      NUMBER mean = 0, spread = 0;
      for (int c = g; c < g + share; ++c) mean += means[c];
      mean /= share;
      for (int c = g; c < g + share; ++c) {
        const NUMBER distance = means[c] - mean;
        spread += spreads[c] + positions * distance * distance;
      }
      spread = 1 / sqrt(spread / ((NUMBER)positions * share) + epsilon);
      for (int c = g; c < g + share; ++c) {
        means[c] = mean;
        spreads[c] = spread * (NUMBER)CF_LOAD(DTYPE, scale, begin + c);
        sums[c] = (NUMBER)CF_LOAD(DTYPE, bias, begin + c);
      }
    }
    for (int p = 0; p < positions; ++p)
      for (int c = 0; c < count; c += WIDTH) {
        const int left = count - c;
        const VALUE element = LOAD_STEPPED(DTYPE, from + p * x_p + c, 1, 1, left);
        const VALUE value = (element - vload16(0, means + c)) * vload16(0, spreads + c) + vload16(0, sums + c);
        STORE_STEPPED(DTYPE, to + p * y_p + c, 1, 1, left, ACTIVATED(value));
      }
  }
}

#endif  // WIDTH
