// Groups of four or eight channels and stride 1 on NVIDIA's matrix units, channels last: forward and backward-data.
//
// A work-group walks down a band of rows of a strip of columns, of OCTETS times eight channels: a group, or two with
// weights of zero between them. The source's next rows are on their way into a ring in local memory, with zeros beside
// the image. A wave multiplies 16 columns of one octet: what it reads of a row at one of the filter's columns it splits
// once and multiplies by all the filter's rows, into FILTER_H rows of the result, of which one is finished each time
// and leaves through local memory, in whole pieces.
//
// Floats are split in two TF32 numbers, a * b becomes low * high + high * low + high * high; what is lost is below
// 2^-20 of a product. The units cut off what they add up: the small products have sums of their own, so that the sums
// of the large ones are cut off TAPS times only. With PRODUCTS of 2 the small products are one of bfloat16, of twice
// the length: their factors are rounded to 8 bits, which costs about as much as plain sums may lose.
#include "convfind_epilogue.h"
#include "convfind_nvidia.h"
#include "window.h"

#ifndef OCTETS
#define OCTETS 4    // eights of channels of a work-group: 1, 2, 4
#endif
#ifndef BLOCKS
#define BLOCKS 2    // times 16 columns of a work-group: 1, 2, 4
#endif
#ifndef STAGES
#define STAGES 4    // rows of the ring: 2 or more
#endif
#ifndef COPIES
#define COPIES 1    // pieces of a row that an item copies: 1 and up
#endif
#ifndef PRODUCTS
#define PRODUCTS 3  // 3: as accurate as plain arithmetic; 2: nearly; 1: TF32
#endif

#define ITEMS (32 * OCTETS * BLOCKS)
#define PIXELS (16 * BLOCKS + FILTER_W - 1)  // of a row of the ring
#define PIECES (2 * OCTETS)                  // of a pixel, 16 bytes each
#define ROW_BYTES ((PIXELS * PIECES + 7) / 8 * 128)
#define RESULT_BYTES (ITEMS * 16)            // of a row of results: a piece an item
// Where a piece of a pixel is in a row, in bytes: pieces of eight neighbouring pixels come from different banks.
#define AT(pixel, piece)                                       \
  (((pixel) * OCTETS / 4 * 8 + (((pixel) * PIECES + (piece)) % 8 ^ \
                                (pixel) * OCTETS / 4 % PIECES)) * 16)

#define FOR_UNROLLED(index, end) CF_UNROLL for (int index = 0; index < (end); ++index)

#define BF16(first, second) cf_pair_BFLOAT16(CF_AS_FLOAT(first), CF_AS_FLOAT(second))

// Global size: ITEMS for each strip (inside), block of channels, band and image. Sizes s_ are the source's, r_ the
// result's; `above` rows and `before` columns of zeros are before the source's first.
CF_KERNEL CF_WORK_GROUP_SIZE(ITEMS, 1, 1) void direct_nvidia_groups(
    CF_GLOBAL const float *CF_RESTRICT source, CF_GLOBAL const float *CF_RESTRICT weights,
    CF_GLOBAL float *CF_RESTRICT result, CF_EPILOGUE_PARAMETERS, const int channels, const int s_h,
    const int s_w, const int r_h, const int r_w, const int above, const int before, const int strips, const int strip,
    const int bands, const int band) {
  const Epilogue epilogue = CF_EPILOGUE(result), rest = cf_epilogue_of_scaled(epilogue);
  CF_LOCAL unsigned char memory[STAGES * ROW_BYTES] __attribute__((aligned(128)));
  CF_LOCAL unsigned char results[2 * RESULT_BYTES] __attribute__((aligned(128)));  // of a row, and of the one before
  CF_LOCAL float kept[8 * OCTETS * TAPS * CHANNELS] __attribute__((aligned(128)));
  const CF_UINT ring = CF_SHARED(memory), row_of_results = CF_SHARED(results), to_kept = CF_SHARED(kept);
  const int item = (int)CF_LOCAL_ID(0), lane = item % 32, octet = item / 32 % OCTETS, block = item / 32 / OCTETS;
  const int all_blocks = (channels + 8 * OCTETS - 1) / (8 * OCTETS);
  CF_UINT at = (CF_UINT)CF_GROUP_ID(0);
  const int first_column = (int)(at % strips) * strip;
  at /= strips;
  const int first_channel = (int)(at % all_blocks) * (8 * OCTETS);
  at /= all_blocks;
  const int first_row = (int)(at % bands) * band, image = at / bands;
  const int top = first_row - above, own_columns = min(strip, r_w - first_column);
  const int rows = min(band, r_h - first_row) + FILTER_H - 1;  // of the source

  // An item copies the same piece of several pixels, unless there are zeros: these it writes once, into every slot.
  const int piece = item % PIECES, pixel = item / PIECES, s_row = s_w * channels;
  const int column = first_column - before + pixel;
  const int has_channels = first_channel + 4 * piece < channels;
  CF_GLOBAL const float *from =
      source + ((CF_LONG)image * s_h + top) * s_row + (column * channels + first_channel + 4 * piece);
  const CF_UINT to_piece = ring + AT(pixel, piece);
  int copies[COPIES];
  FOR_UNROLLED(m, COPIES) {
    const int other = m * (ITEMS / PIECES);
    const int is_wanted = pixel + other < strip + FILTER_W - 1;
    copies[m] = is_wanted && has_channels && (CF_UINT)(column + other) < (CF_UINT)s_w;
    if (is_wanted && !copies[m]) {
      const CF_UINT zeros[4] = {0, 0, 0, 0};
      FOR_UNROLLED(slot, STAGES) CF_STORE_SHARED_4(to_piece + slot * ROW_BYTES + m * (ITEMS * 16), zeros);
    }
  }
#define IS_INSIDE(row) ((CF_UINT)(top + (row)) < (CF_UINT)s_h)
#define FETCH(row, slot)                                                                                   \
  do {                                                                                                     \
    if ((row) < rows && IS_INSIDE(row)) {                                                                  \
      FOR_UNROLLED(m, COPIES) {                                                                            \
        const CF_UINT into = to_piece + (slot) * ROW_BYTES + m * (ITEMS * 16);                              \
        if (copies[m]) cf_copy_16(into, from + m * (ITEMS / PIECES) * channels, 16);                         \
      }                                                                                                    \
    }                                                                                                      \
    from += s_row;                                                                                         \
  } while (0)
  // The weights of these channels lie in a row.
  const int kept_pieces = min(8 * OCTETS, channels - first_channel) * (TAPS * CHANNELS / 4);
  for (int i = item; i < kept_pieces; i += ITEMS) {
    cf_copy_16(to_kept + i * 16, weights + (CF_LONG)first_channel * (TAPS * CHANNELS) + i * 4, 16);
  }
  CF_COPIES_COMMIT();
  FOR_UNROLLED(row, STAGES - 1) {
    FETCH(row, row);
    CF_COPIES_COMMIT();
  }

  CF_COPIES_WAIT(STAGES - 1);
  CF_BARRIER();
  // Of a tap's eight by eight weights an item has two of a result's channel, lane / 4.
  CF_UINT high_w[FILTER_H][FILTER_W][2], low_w[FILTER_H][FILTER_W][2];
  FOR_UNROLLED(q, 2) {
    const int r = first_channel + 8 * octet + lane / 4, s = first_channel + 8 * octet + lane % 4 + 4 * q;
    const int is_group = r / FILTERS == s / CHANNELS && max(r, s) < channels;
    const int of = (GRADIENT ? s - first_channel : r - first_channel) * (TAPS * CHANNELS) +
                   (GRADIENT ? r % FILTERS : s % CHANNELS);
    FOR_UNROLLED(tap, TAPS) {
      const int from_tap = GRADIENT ? TAPS - 1 - tap : tap;
      const CF_UINT bits = is_group ? CF_AS_UINT(kept[of + from_tap * CHANNELS]) : 0;
      const CF_UINT high = PRODUCTS == 1 ? cf_tf32_nearest(bits) : cf_tf32_high(bits);
      high_w[tap / FILTER_W][tap % FILTER_W][q] = high;
      low_w[tap / FILTER_W][tap % FILTER_W][q] =
          PRODUCTS == 2 ? cf_tf32_low(bits, high) : cf_tf32_high(cf_tf32_low(bits, high));
    }
  }
  if (PRODUCTS == 2) {
    // Beside a lane's low and high parts of the source stand high and low ones.
    FOR_UNROLLED(tap, TAPS) {
      const int i = tap / FILTER_W, j = tap % FILTER_W;
      const CF_UINT low = BF16(low_w[i][j][0], low_w[i][j][1]);
      low_w[i][j][0] = BF16(high_w[i][j][0], high_w[i][j][1]);
      low_w[i][j][1] = low;
    }
  }

  CF_UINT own[FILTER_W];  // where a lane's row of the matrices is, at each of the filter's columns
  FOR_UNROLLED(j, FILTER_W) own[j] = ring + AT(16 * block + lane % 16 + j, 2 * octet + lane / 16);

  // A wave puts its sums where items of neighbouring pieces take them from, a row later.
  CF_UINT put[2];
  FOR_UNROLLED(side, 2) {
    const int at_pixel = 16 * block + lane / 4 + 8 * side;
    put[side] = row_of_results + AT(at_pixel, 2 * octet + lane % 4 / 2) + lane % 2 * 8;
  }
  const CF_UINT take = row_of_results + AT(pixel, piece);
  const int has_result = pixel < own_columns && has_channels, r_row = r_w * channels;
  CF_GLOBAL float *to = result + ((CF_LONG)image * r_h + first_row) * r_row +
                        ((first_column + pixel) * channels + first_channel + 4 * piece);
#define STORE(row)                                                                            \
  do {                                                                                        \
    if (has_result) {                                                                         \
      CF_UINT bits[4];                                                                        \
      float value[4];                                                                         \
      CF_LOAD_SHARED_4(bits, take + (row) % 2 * RESULT_BYTES);                                \
      FOR_UNROLLED(e, 4) value[e] = CF_AS_FLOAT(bits[e]);                                     \
      cf_four_results(value, to, first_channel + 4 * piece, 1, value, rest);                  \
      FOR_UNROLLED(e, 4) bits[e] = CF_AS_UINT(value[e]);                                      \
      CF_STORE_4(to, bits);                                                                   \
    }                                                                                         \
    to += r_row;                                                                              \
  } while (0)
  float large[FILTER_H][4], small[FILTER_H][4];
  FOR_UNROLLED(t, FILTER_H) {
    FOR_UNROLLED(e, 4) large[t][e] = small[t][e] = 0.0f;
  }

// While row `row` of the source is added, tap t is of the sums of the result's row t rows above it: taps take turns,
// and the last tap's sums are finished and are the next row's first.
#define SUMS_OF(t) ((u + FILTER_H - (t)) % FILTER_H)
  int slot = 0;
  for (int base = 0; base < rows; base += FILTER_H) {
    FOR_UNROLLED(u, FILTER_H) {
      const int row = base + u;
      if (row < rows) {
        CF_COPIES_WAIT(STAGES - 2);
        CF_BARRIER();
        // Everybody has read what lies in the slot before.
        FETCH(row + STAGES - 1, (slot == 0 ? STAGES : slot) - 1);
        CF_COPIES_COMMIT();
        if (row >= FILTER_H) STORE(row - 1);
        FOR_UNROLLED(e, 4) large[SUMS_OF(0)][e] = small[SUMS_OF(0)][e] = 0.0f;
        if (IS_INSIDE(row)) {
          FOR_UNROLLED(j, FILTER_W) {
            CF_UINT high[4], low[4];
            CF_LOAD_MATRICES(high, own[j] + slot * ROW_BYTES);
            FOR_UNROLLED(e, 4) {
              const CF_UINT nearest = PRODUCTS == 1 ? cf_tf32_nearest(high[e]) : cf_tf32_high(high[e]);
              low[e] = cf_tf32_low(high[e], nearest);
              high[e] = nearest;
            }
            if (PRODUCTS == 2) {
              const CF_UINT both[4] = {BF16(low[0], low[2]), BF16(low[1], low[3]), BF16(high[0], high[2]),
                                       BF16(high[1], high[3])};
              FOR_UNROLLED(t, FILTER_H) CF_MMA(BFLOAT16, small[SUMS_OF(t)], both, low_w[t][j]);
            }
            if (PRODUCTS == 3) {
              FOR_UNROLLED(t, FILTER_H) CF_MMA(FLOAT32, small[SUMS_OF(t)], low, high_w[t][j]);
              FOR_UNROLLED(t, FILTER_H) CF_MMA(FLOAT32, small[SUMS_OF(t)], high, low_w[t][j]);
            }
            FOR_UNROLLED(t, FILTER_H) CF_MMA(FLOAT32, large[SUMS_OF(t)], high, high_w[t][j]);
          }
        }
        slot = slot == STAGES - 1 ? 0 : slot + 1;
        if (row >= FILTER_H - 1) {
          FOR_UNROLLED(side, 2) {
            float value[2];
            FOR_UNROLLED(e, 2) {
              const int of = 2 * side + e;
              value[e] = epilogue.alpha * (large[SUMS_OF(FILTER_H - 1)][of] + small[SUMS_OF(FILTER_H - 1)][of]);
            }
            CF_STORE_SHARED_PAIR(FLOAT32, put[side] + row % 2 * RESULT_BYTES, value[0], value[1]);
          }
        }
      }
    }
  }
  CF_BARRIER();
  STORE(rows - 1);
}
