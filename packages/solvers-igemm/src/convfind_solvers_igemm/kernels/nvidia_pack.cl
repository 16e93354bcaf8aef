// Weights in the form that igemm_nvidia_conv reads: a row for each channel of the result, group by group; in it taps,
// and in a tap the source's channels. Zeros fill a tap up to `tap_size` elements, a row up to `row_size`.
#include "convfind_nvidia_tile.h"

#ifndef CHANNELS_LAST
#define CHANNELS_LAST 0  // 0: w is K, C, taps; 1: K, taps, C
#endif
#ifndef BACKWARD
#define BACKWARD 0  // 0: channels of the result are K (forward); 1: C (data gradient)
#endif

// Where an element of a row comes from; -1: it is 0. Channels are those of one group.
CF_INLINED int place_in_w(const int row, const int group, const int tap, const int source, const int result_channels,
                          const int source_channels, const int taps) {
  if (tap >= taps || source >= source_channels) return -1;
  const int k = BACKWARD ? group * source_channels + source : row;
  const int c = BACKWARD ? row - group * result_channels : source;
  const int channels = BACKWARD ? result_channels : source_channels;
  return CHANNELS_LAST ? (k * taps + tap) * channels + c : (k * channels + c) * taps + tap;
}

// A tap of the row holds `folded` neighbouring ones of the filter, of which there are window_w in a line, one behind
// the other; 1 with SPLIT_BEFORE. With that the 32 elements of a step become two rows of 128 bytes, as split_columns()
// writes them: high parts; then, for PRODUCTS 3, low parts, for PRODUCTS 2 of each eight the first four's high parts
// with the others', and behind these the same of their low parts. Global size: work-items for eight elements, or for one, of
// all rows, rounded up.
CF_KERNEL void igemm_nvidia_pack(CF_GLOBAL const BITS *filter, CF_GLOBAL BITS *packed, const int rows,
                                 const int row_size, const int tap_size, const int result_channels,
                                 const int source_channels, const int taps, const int window_w,
                                 const int folded) {
  const int item = (int)CF_GLOBAL_ID(0);
#if SPLIT_BEFORE
  const int row = item / (row_size / 8), first = item % (row_size / 8) * 8, group = row / result_channels;
  if (row >= rows) return;
  CF_UINT high[8], low[8];
  int tap = first / tap_size, source = first % tap_size;
  CF_UNROLL for (int i = 0; i < 8; ++i) {
    const int from = place_in_w(row, group, tap, source, result_channels, source_channels, taps);
    const CF_UINT bits = from < 0 ? 0 : filter[from];
    high[i] = cf_tf32_high(bits);
    low[i] = cf_tf32_low(bits, high[i]);
    if (++source == tap_size) {
      source = 0;
      ++tap;
    }
  }
  packed += (CF_LONG)(item / 4) * 64;
  const int eight = item % 4;
  CF_STORE_4(packed + 8 * eight, high);
  CF_STORE_4(packed + 8 * eight + 4, high + 4);
#if PRODUCTS == 2
  CF_UINT pairs[8];
  CF_UNROLL for (int i = 0; i < 4; ++i) {
    pairs[i] = PAIR(high[i], high[i + 4]);
    pairs[i + 4] = PAIR(low[i], low[i + 4]);
  }
  CF_STORE_4(packed + 32 + 4 * eight, pairs);
  CF_STORE_4(packed + 48 + 4 * eight, pairs + 4);
#else
  CF_STORE_4(packed + 32 + 8 * eight, low);
  CF_STORE_4(packed + 36 + 8 * eight, low + 4);
#endif
#else
  const int row = item / row_size, number = item % row_size / tap_size, within = item % row_size % tap_size;
  if (row >= rows) return;
  const int line = (window_w + folded - 1) / folded, w = number % line * folded + within / source_channels;
  const int is_there = within < folded * source_channels && w < window_w;
  const int from = place_in_w(row, row / result_channels, number / line * window_w + w, within % source_channels,
                              result_channels, source_channels, taps);
  packed[item] = is_there && from >= 0 ? filter[from] : 0;
#endif
}

#if ELEMENT_BYTES == 2
// `channels` neighbouring elements of a line as a position, with zeros behind them up to whole pieces of 16 bytes:
// `pieces` in all, one for each work-item. The first of `positions` in a line starts `before` elements before it; what
// lies outside of its `size` elements is 0. Global size: pieces, rounded up.
CF_KERNEL void igemm_nvidia_fill(CF_GLOBAL const BITS *source, CF_GLOBAL CF_UINT *filled, const int pieces,
                                 const int channels, const int positions, const int size, const int before) {
  const int item = (int)CF_GLOBAL_ID(0);
  if (item >= pieces) return;
  const int in_position = (channels + PER_PIECE - 1) / PER_PIECE;
  const int number = item / in_position, first = item % in_position * PER_PIECE;
  const int at = number % positions * channels + first - before;
  source += (CF_LONG)(number / positions) * size;
  CF_UINT bits[8];
  CF_UNROLL for (int i = 0; i < 8; ++i)
    bits[i] = first + i < channels && at + i >= 0 && at + i < size ? source[at + i] : 0;
  CF_UNROLL for (int i = 0; i < 4; ++i) bits[i] = bits[2 * i] | bits[2 * i + 1] << 16;
  CF_STORE_4(filled + (CF_LONG)item * 4, bits);
}
#endif
