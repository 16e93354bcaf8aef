// Weights in the form that igemm_nvidia_conv reads: a row for each channel of the result, group by group; in it taps,
// and in a tap the source's channels. Zeros fill a tap up to `tap_size` elements, a row up to `row_size`.
#include "convfind_nvidia_tile.h"
#include "gpu_geometry.h"

#ifndef CHANNELS_LAST
#define CHANNELS_LAST 0  // 0: w is K, C, taps; 1: K, taps, C
#endif
#ifndef BACKWARD
#define BACKWARD 0  // 0: channels of the result are K (forward); 1: C (data gradient)
#endif

// Where an element of a row comes from, of place `number` in a filter of so many `taps`; -1: it is 0. Channels are
// those of one group.
CF_INLINED int place_in_w(const int row, const int group, const int number, const int source,
                          const int result_channels, const int source_channels, const int taps) {
  if (number < 0 || number >= taps || source >= source_channels) return -1;
  const int k = BACKWARD ? group * source_channels + source : row, c = BACKWARD ? row % result_channels : source;
  const int channels = BACKWARD ? result_channels : source_channels;
  return CHANNELS_LAST ? (k * taps + number) * channels + c : (k * channels + c) * taps + number;
}

#if FUSED
// A row is a phase's channel, and has the taps of any phase: which of the filter's one is, -1 if there is none.
CF_INLINED int number_of(const Place tap, const Place phase, const Axis d, const Axis h, const Axis w,
                         const int window_d, const int window_h, const int window_w) {
  const int r_d = phase.d + d.w_first + tap.d * d.w_step, r_h = phase.h + h.w_first + tap.h * h.w_step;
  const int r_w = phase.w + w.w_first + tap.w * w.w_step;
  const int there = tap.image == 0 && is_inside(r_d, window_d) && is_inside(r_h, window_h) && is_inside(r_w, window_w);
  return there ? (r_d * window_h + r_h) * window_w + r_w : -1;
}
#define NUMBER(tap) \
  number_of(place_of(tap, d.taps, h.taps, w.taps), phase, d, h, w, WINDOW_D, WINDOW_H, WINDOW_W)
#define PACK_GEOMETRY , GEOMETRY
#define ROWS_OF_GROUP FUSED_CHANNELS
#else
#define NUMBER(tap) (tap)
#define PACK_GEOMETRY
#define ROWS_OF_GROUP result_channels
#endif

#if SPLIT_BEFORE
#define TOGETHER 8
#else
#define TOGETHER PER_PIECE
#endif
#define TURNED (BACKWARD && !FUSED && !IS_FLAT)

// TOGETHER elements of a row of so many pieces. With SPLIT_BEFORE the 32 elements of a step become two rows of 128
// bytes, as split_columns() writes them: high parts; then, for PRODUCTS 3, low parts, for PRODUCTS 2 of each eight the
// first four's high parts with the others', and behind these the same of their low parts. With
// PRODUCTS 1 floats are rounded to TF32.
CF_INLINED void store_piece(CF_GLOBAL BITS *packed, const int row, const int piece, const int pieces, CF_UINT *bits) {
#if SPLIT_BEFORE
  CF_UINT high[8], low[8];
  CF_UNROLL for (int i = 0; i < 8; ++i) {
    high[i] = cf_tf32_high(bits[i]);
    low[i] = cf_tf32_low(bits[i], high[i]);
  }
  packed += ((CF_LONG)row * (pieces / 4) + piece / 4) * 64;
  const int eight = piece % 4;
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
#if ELEMENT_BYTES == 2
  CF_UNROLL for (int i = 0; i < 4; ++i) bits[i] = bits[2 * i] | bits[2 * i + 1] << 16;
#elif PRODUCTS == 1
  CF_UNROLL for (int i = 0; i < 4; ++i) bits[i] = cf_tf32_nearest(bits[i]);
#endif
  CF_STORE_4((CF_GLOBAL CF_UINT *)(packed + ((CF_LONG)row * pieces + piece) * TOGETHER), bits);
#endif
}

#define TILE 64
#define PACK_ITEMS 256
// A tap of the row holds `folded` neighbouring ones of the filter, of which there are window_w in a line, one behind
// the other; 1 with SPLIT_BEFORE and in the data gradient. TURNED: w is a matrix for each group, of its filters by its
// channels and taps, and is turned, TILE by TILE, in local memory; global size: PACK_ITEMS for each tile. Otherwise
// work-items for TOGETHER elements of all rows, rounded up, of which neighbouring ones have what lies side by side in
// w: pieces of rows or, of the data gradient's pieces, rows.
CF_KERNEL void igemm_nvidia_pack(CF_GLOBAL const BITS *filter, CF_GLOBAL BITS *packed, const int rows,
                                 const int row_size, const int tap_size, const int result_channels,
                                 const int source_channels, const int taps, const int window_w,
                                 const int folded PACK_GEOMETRY) {
  const int pieces = row_size / TOGETHER;
#if TURNED
  CF_LOCAL CF_UINT turned[TILE][TILE + 1];
  const int item = (int)CF_LOCAL_ID(0), columns = result_channels * taps;
  const int across = (tap_size + TILE - 1) / TILE, down = (columns + TILE - 1) / TILE;
  const int tile = (int)CF_GROUP_ID(0) / across % down, group = (int)CF_GROUP_ID(0) / across / down;
  const int first = (int)CF_GROUP_ID(0) % across * TILE, column = tile * TILE + item % TILE;
  filter += (CF_LONG)group * source_channels * columns;
  CF_UINT fetched[TILE * TILE / PACK_ITEMS];
  CF_UNROLL for (int i = 0; i < TILE * TILE / PACK_ITEMS; ++i) {
    const int source = first + i * (PACK_ITEMS / TILE) + item / TILE;
    fetched[i] = column < columns && source < source_channels ? filter[source * columns + column] : 0;
  }
  CF_UNROLL for (int i = 0; i < TILE * TILE / PACK_ITEMS; ++i)
    turned[item % TILE][i * (PACK_ITEMS / TILE) + item / TILE] = fetched[i];
  CF_BARRIER();
  CF_UNROLL for (int i = 0; i < TILE * TILE / TOGETHER / PACK_ITEMS; ++i) {
    const int piece = i * PACK_ITEMS + item, at = piece / (TILE / TOGETHER), number = tile * TILE + at;
    const int within = piece % (TILE / TOGETHER) * TOGETHER;
    if (number >= columns || first + within >= tap_size) continue;
    const int channel = CHANNELS_LAST ? number % result_channels : number / taps;
    const int tap = CHANNELS_LAST ? number / result_channels : number % taps;
    CF_UINT bits[TOGETHER];
    CF_UNROLL for (int k = 0; k < TOGETHER; ++k) bits[k] = turned[at][within + k];
    store_piece(packed, group * result_channels + channel, (tap * tap_size + first + within) / TOGETHER, pieces, bits);
  }
#else
  const int item = (int)CF_GLOBAL_ID(0);
  const int row = BACKWARD ? item % rows : item / pieces, piece = BACKWARD ? item / rows : item % pieces;
  if (row >= rows || piece >= pieces) return;
  const int group = row / ROWS_OF_GROUP;
#if FUSED
  const Axis d = AXIS(D, 0), h = AXIS(H, 0), w = AXIS(W, 0);
  const Place phase = place_of(row / RESULT_CHANNELS % STRIDES, STRIDE_D, STRIDE_H, STRIDE_W);
#endif
  CF_UINT bits[TOGETHER];
  int tap = piece * TOGETHER / tap_size, within = piece * TOGETHER % tap_size;
  CF_UNROLL for (int i = 0; i < TOGETHER; ++i) {
    int number = tap, source = within, is_there = 1;
    if (!SPLIT_BEFORE && folded > 1) {
      const int line = (window_w + folded - 1) / folded, at = tap % line * folded + within / source_channels;
      is_there = within < folded * source_channels && at < window_w;
      number = tap / line * window_w + at;
      source = within % source_channels;
    }
    const int from =
        is_there ? place_in_w(row, group, NUMBER(number), source, result_channels, source_channels, taps) : -1;
    bits[i] = from < 0 ? 0 : filter[from];
    if (++within == tap_size) {
      within = 0;
      ++tap;
    }
  }
  store_piece(packed, row, piece, pieces, bits);
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
