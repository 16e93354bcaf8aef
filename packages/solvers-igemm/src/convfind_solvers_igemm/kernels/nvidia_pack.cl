// Weights in the form that igemm_nvidia_conv reads: a row for each channel of the result, group by group; in it taps,
// and in a tap the source's channels. Zeros fill a tap up to `tap_size` elements, a row up to `row_size`.
#include "convfind_nvidia_tile.h"

#ifndef CHANNELS_LAST
#define CHANNELS_LAST 0  // 0: w is K, C, taps; 1: K, taps, C
#endif
#ifndef BACKWARD
#define BACKWARD 0  // 0: channels of the result are K (forward); 1: C (data gradient)
#endif

// Channels are those of one group. Global size: rows * row_size, rounded up.
CF_KERNEL void igemm_nvidia_pack(CF_GLOBAL const BITS *w, CF_GLOBAL BITS *packed, const int rows,
                                 const int row_size, const int tap_size, const int result_channels,
                                 const int source_channels, const int taps) {
  const CF_LONG item = CF_GLOBAL_ID(0);
  const int row = (int)(item / row_size), inner = (int)(item % row_size);
  if (row >= rows) return;
  const int group = row / result_channels, tap = inner / tap_size, source = inner % tap_size;
  const int is_there = tap < taps && source < source_channels;
  const int k = BACKWARD ? group * source_channels + source : row;
  const int c = BACKWARD ? row % result_channels : source;
  const int channels = BACKWARD ? result_channels : source_channels;
  const int from = CHANNELS_LAST ? (k * taps + tap) * channels + c : (k * channels + c) * taps + tap;
  packed[item] = is_there ? w[from] : 0;
}
