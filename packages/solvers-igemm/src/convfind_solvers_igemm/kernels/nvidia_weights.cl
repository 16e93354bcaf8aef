// The weight gradient on NVIDIA's matrix units, channels last: w = alpha * sum over positions + beta * w.
//
// The product of y, transposed, and of x's windows: rows are filters, columns taps, and in a tap the channels. The sum
// runs over positions of all images, DEPTH at a time, which lie in local memory as they do in the tensors: channels of
// a position side by side. A part's sum goes to a place of its own where there are several; igemm_gpu_sum adds them up.
//
// SPLIT_FLOATS: a float is the nearest TF32 number and a rest. high * high is multiplied in TF32, high * low and low *
// high in bfloat16, at half the price: what they lose is below 2^-18 of a product, less than the rounding that plain
// sums of 256 products may have. Sums of DEPTH products are added up in plain arithmetic, as the units cut off.
#include "convfind_epilogue.h"
#include "convfind_nvidia.h"
#include "gpu_geometry.h"

#ifndef DTYPE
#define DTYPE FLOAT32  // FLOAT32, FLOAT16, BFLOAT16
#endif
#ifndef SPLIT_FLOATS
#define SPLIT_FLOATS 0  // 1, with FLOAT32: as accurate as plain arithmetic; 0: floats are rounded to TF32
#endif
#ifndef TILE_M
#define TILE_M 128  // filters: 64, 128
#endif
#ifndef TILE_N
#define TILE_N 128  // columns: 64, 128
#endif
#ifndef STAGES
#define STAGES 3  // 2 or more
#endif
#ifndef PARTIAL
#define PARTIAL 0  // 1: what is written are floats, one of several parts
#endif

#define DEPTH 32
#define SHORT_STEPS (SPLIT_FLOATS ? 1 : 32)  // the units cut off what they add up: long sums are added up in parts
#define ELEMENT CF_TYPE(DTYPE)
#define ELEMENT_BYTES CF_JOIN(ELEMENT_BYTES_, DTYPE)
#define ELEMENT_BYTES_FLOAT32 4
#define ELEMENT_BYTES_FLOAT16 2
#define ELEMENT_BYTES_BFLOAT16 2
#define PER_PIECE (16 / ELEMENT_BYTES)
#define PER_ROW (128 / ELEMENT_BYTES)  // elements of a block: DEPTH rows of 128 bytes
#define BLOCK_BYTES (DEPTH * 128)
#define ROWS_BYTES (TILE_M / PER_ROW * BLOCK_BYTES)
#define STAGE_BYTES ((TILE_M + TILE_N) / PER_ROW * BLOCK_BYTES)
#define WAVES_M (TILE_M / 64)
#define WAVES_N (TILE_N / 32)
#define THREADS (32 * WAVES_M * WAVES_N)
#define PASS (THREADS / 8)  // rows that the items copy at a time

// Pieces are spread so that what a wave reads at a time comes from different banks: floats four rows by eight elements,
// narrow types eight rows.
#if ELEMENT_BYTES == 4
#define AT_PIECE(row, piece) ((row) * 128 + (((piece) ^ ((row) & 3) * 2) << 4))
#else
#define AT_PIECE(row, piece) CF_PIECE(row, piece)
#endif

// A position: where its window starts in x, where its channels start in y (-1 behind the last one), and its indices.
typedef struct {
  CF_LONG x, y;
  int d, h, w, unused;
} Row;
// A piece of columns: its tap's offset and channel, and the tap's indices.
typedef struct {
  int shift, d, h, w;
} Column;
#define NOWHERE (1 << 30)

CF_INLINED void fetch_rows(const CF_UINT to, CF_GLOBAL const ELEMENT *y, CF_LOCAL_PTR const Row *rows, const int item,
                           const int filters) {
  const int piece = item % 8;
  CF_LONG from[DEPTH / PASS];  // read before any of the copies, which the compiler does not move
  CF_UNROLL for (int i = 0; i < DEPTH / PASS; ++i) from[i] = rows[item / 8 + i * PASS].y;
  CF_UNROLL for (int i = 0; i < DEPTH / PASS; ++i) {
    CF_UNROLL for (int j = 0; j < TILE_M / PER_ROW; ++j) {
      const int filter = j * PER_ROW + piece * PER_PIECE;
      const int there = from[i] >= 0 && filter < filters;
      cf_copy_16(to + j * BLOCK_BYTES + AT_PIECE(item / 8 + i * PASS, piece), y + (from[i] + filter), there ? 16 : 0);
    }
  }
}

CF_INLINED void fetch_columns(const CF_UINT to, CF_GLOBAL const ELEMENT *x, CF_LOCAL_PTR const Row *rows,
                              CF_LOCAL_PTR const Column *columns, const int item, const int size_d, const int size_h,
                              const int size_w) {
  const int piece = item % 8;
  Column own[TILE_N / PER_ROW];
  CF_UNROLL for (int j = 0; j < TILE_N / PER_ROW; ++j) own[j] = columns[8 * j + piece];
  CF_UNROLL for (int i = 0; i < DEPTH / PASS; ++i) {
    const int number = item / 8 + i * PASS;
    const Row row = rows[number];
    CF_UNROLL for (int j = 0; j < TILE_N / PER_ROW; ++j) {
      const int there = row.y >= 0 && is_inside(row.d + own[j].d, size_d) && is_inside(row.h + own[j].h, size_h) &&
                        is_inside(row.w + own[j].w, size_w);
      cf_copy_16(to + j * BLOCK_BYTES + AT_PIECE(number, piece), x + (row.x + own[j].shift), there ? 16 : 0);
    }
  }
}

#if ELEMENT_BYTES == 4
// Operands of one wave, which lie behind `tile`: element `at` of a row is in piece at / 4; `own` says where in rows
// whose last bits are the lane's.
CF_INLINED void own_places(int own[4], const int lane) {
  CF_UNROLL for (int i = 0; i < 4; ++i)
    own[i] = AT_PIECE(lane % 4, 2 * i) + lane / 16 * 16 + lane / 4 % 4 * 4;
}
#define OPERAND(tile, own, at, row) \
  (*(CF_LOCAL_PTR const CF_UINT *)((tile) + (own)[(at) % 32 / 8] + ((at) / 32 * BLOCK_BYTES + (row) * 128)))
#define PAIR(first, second) CF_PAIR(BFLOAT16, CF_AS_FLOAT(first), CF_AS_FLOAT(second))
#endif

#if ELEMENT_BYTES == 4 && SPLIT_FLOATS
// Splits what an item has of eight products along the sum, and pairs it: first with third, or first with second. The
// order of the sum in bfloat16 is the same in both operands, that is all that it takes.
CF_INLINED void split_four(CF_UINT bits[4], CF_UINT high[2], CF_UINT low[2]) {
  CF_UINT rest[4];
  CF_UNROLL for (int q = 0; q < 4; ++q) {
    const CF_UINT nearest = cf_tf32_high(bits[q]);
    rest[q] = cf_tf32_low(bits[q], nearest);
    bits[q] = nearest;
  }
  CF_UNROLL for (int q = 0; q < 2; ++q) {
    high[q] = PAIR(bits[q], bits[q + 2]);
    low[q] = PAIR(rest[q], rest[q + 2]);
  }
}
#endif

// Adds the products of a stage of one wave: 64 filters by 32 columns, as blocks of 16 by 8.
CF_INLINED void multiply_wave(float sums[4][4][4], CF_LOCAL_PTR const unsigned char *tile, const int m, const int n,
                              const int lane) {
  CF_LOCAL_PTR const unsigned char *a_tile = tile + m / PER_ROW * BLOCK_BYTES;
  CF_LOCAL_PTR const unsigned char *b_tile = tile + ROWS_BYTES + n / PER_ROW * BLOCK_BYTES;
#if ELEMENT_BYTES == 4 && SPLIT_FLOATS
  int own[4];
  own_places(own, lane);
  _Pragma("unroll 1") for (int k = 0; k < DEPTH; k += 16) {  // all at once take more registers than there are
    CF_UINT b[4][2][2], b_high[4][2], b_low[4][2];  // of a column: eight products and the next eight
    CF_UNROLL for (int j = 0; j < 4; ++j) {
      // Both eights are split as one four: first and third are a pair.
      CF_UINT bits[4];
      CF_UNROLL for (int q = 0; q < 4; ++q) bits[q] = OPERAND(b_tile, own, 8 * j, k + q % 2 * 8 + q / 2 * 4);
      split_four(bits, b_high[j], b_low[j]);
      CF_UNROLL for (int q = 0; q < 4; ++q) b[j][q % 2][q / 2] = bits[q];
    }
    CF_UNROLL for (int i = 0; i < 4; ++i) {
      CF_UINT a_high[4], a_low[4];
      CF_UNROLL for (int s = 0; s < 2; ++s) {
        CF_UINT a[4];
        CF_UNROLL for (int q = 0; q < 4; ++q)
          a[q] = OPERAND(a_tile, own, 16 * i + 8 * (q % 2), k + 8 * s + q / 2 * 4);
        split_four(a, a_high + 2 * s, a_low + 2 * s);
        CF_UNROLL for (int j = 0; j < 4; ++j) CF_MMA(FLOAT32, sums[i][j], a, b[j][s]);
      }
      CF_UNROLL for (int j = 0; j < 4; ++j) CF_MMA(BFLOAT16, sums[i][j], a_low, b_high[j]);
      CF_UNROLL for (int j = 0; j < 4; ++j) CF_MMA(BFLOAT16, sums[i][j], a_high, b_low[j]);
    }
  }
#elif ELEMENT_BYTES == 4
  int own[4];
  own_places(own, lane);
  CF_UNROLL for (int k = 0; k < DEPTH; k += 8) {
    CF_UINT a[4][4], b[4][2];
    CF_UNROLL for (int i = 0; i < 4; ++i) {
      CF_UNROLL for (int q = 0; q < 4; ++q)
        a[i][q] = cf_tf32_nearest(OPERAND(a_tile, own, 16 * i + 8 * (q % 2), k + q / 2 * 4));
      CF_UNROLL for (int q = 0; q < 2; ++q) b[i][q] = cf_tf32_nearest(OPERAND(b_tile, own, 8 * i, k + 4 * q));
    }
    CF_UNROLL for (int i = 0; i < 4; ++i) {
      CF_UNROLL for (int j = 0; j < 4; ++j) CF_MMA(FLOAT32, sums[i][j], a[i], b[j]);
    }
  }
#else
  const CF_UINT rows = CF_SHARED(a_tile), columns = CF_SHARED(b_tile);
  CF_UNROLL for (int k = 0; k < DEPTH; k += 16) {
    CF_UINT a[4][4], b[2][4];
    CF_UNROLL for (int i = 0; i < 4; ++i) {
      const int row = k + lane % 8 + lane / 16 * 8;
      CF_LOAD_TRANSPOSED(a[i], rows + AT_PIECE(row, 2 * i + lane / 8 % 2));
    }
    CF_UNROLL for (int j = 0; j < 2; ++j) {
      const int row = k + lane % 16;
      CF_LOAD_TRANSPOSED(b[j], columns + AT_PIECE(row, n % PER_ROW / 8 + 2 * j + lane / 16));
    }
    CF_UNROLL for (int i = 0; i < 4; ++i) {
      CF_UNROLL for (int j = 0; j < 4; ++j) CF_MMA(DTYPE, sums[i][j], a[i], b[j / 2] + j % 2 * 2);
    }
  }
#endif
}

#if PARTIAL
#define STORED float
#define STORED_TYPE FLOAT32
#else
#define STORED ELEMENT
#define STORED_TYPE DTYPE
#endif

#define NOTE_ROW(step)                                                                                               \
  do {                                                                                                               \
    if (item < DEPTH) {                                                                                              \
      CF_LOCAL_PTR Row *row = &rows[(step) % 2][item];                                                               \
      const Place place = places[item];                                                                              \
      const int position = (step) * DEPTH + item;                                                                    \
      row->d = place.d * STRIDE_D - PAD_D;                                                                           \
      row->h = place.h * STRIDE_H - PAD_H;                                                                           \
      row->w = place.w * STRIDE_W - PAD_W;                                                                           \
      row->x = place.image * SOURCE_IMAGE_STEP +                                                                     \
               (((CF_LONG)row->d * SOURCE_H + row->h) * SOURCE_W + row->w) * SOURCE_POSITION_STEP;                   \
      row->y = position < positions ? (CF_LONG)position * RESULT_POSITION_STEP : -1;                                 \
      places[item] = moved_place(place, strides[item], RESULT_D, RESULT_H, RESULT_W);                                  \
    }                                                                                                                \
  } while (0)
#define FETCH(step)                                                                                               \
  do {                                                                                                            \
    if ((step) < end) {                                                                                           \
      const CF_UINT to = tiles + (step) % STAGES * STAGE_BYTES;                                                   \
      fetch_rows(to, y, rows[(step) % 2], item, filters);                                                         \
      fetch_columns(to + ROWS_BYTES, x, rows[(step) % 2], columns, item, SOURCE_D, SOURCE_H, SOURCE_W);           \
    }                                                                                                             \
    CF_COPIES_COMMIT();                                                                                           \
    NOTE_ROW((step) + 1);                                                                                         \
  } while (0)

// One-dimensional grid: filter tiles * column tiles * groups * parts work-groups of THREADS items.
CF_KERNEL CF_WORK_GROUP_SIZE(THREADS, 1, 1) void igemm_nvidia_weights(
    CF_GLOBAL const ELEMENT *x, CF_GLOBAL const ELEMENT *y, CF_GLOBAL STORED *result,
    CF_EPILOGUE_PARAMETERS, const int parts, GEOMETRY) {
  const Epilogue epilogue = CF_EPILOGUE(result);
  CF_LOCAL unsigned char memory[STAGES * STAGE_BYTES] __attribute__((aligned(1024)));
  CF_LOCAL Row rows[2][DEPTH] __attribute__((aligned(16)));
  CF_LOCAL Column columns[TILE_N / PER_PIECE] __attribute__((aligned(16)));
  CF_LOCAL Place places[DEPTH], strides[DEPTH];  // an item's own, kept here as registers are short
  const CF_UINT tiles = CF_SHARED(memory);

  const int width = SOURCE_CHANNELS * TAPS;
  const int filter_tiles = (RESULT_CHANNELS + TILE_M - 1) / TILE_M, column_tiles = (width + TILE_N - 1) / TILE_N;
  CF_UINT at = (CF_UINT)CF_GROUP_ID(0);
  const int first_filter = (int)(at % filter_tiles) * TILE_M;
  at /= filter_tiles;
  const int first_column = (int)(at % column_tiles) * TILE_N;
  at /= column_tiles;
  const int group = at % GROUPS, part = at / GROUPS;
  const int positions = IMAGES * RESULT_SPACE, steps = (positions + DEPTH - 1) / DEPTH;
  const int start = (int)((CF_LONG)steps * part / parts), end = (int)((CF_LONG)steps * (part + 1) / parts);
  const int filters = RESULT_CHANNELS - first_filter;
  x += group * SOURCE_CHANNELS;
  y += group * RESULT_CHANNELS + first_filter;

  const int item = (int)CF_LOCAL_ID(0);
  for (int i = item; i < TILE_N / PER_PIECE; i += THREADS) {
    const int number = first_column + i * PER_PIECE, tap = number / SOURCE_CHANNELS;
    Column column;
    column.w = tap % WINDOW_W * DILATION_W;
    column.h = tap / WINDOW_W % WINDOW_H * DILATION_H;
    column.d = tap / WINDOW_W / WINDOW_H * DILATION_D;
    column.shift = ((column.d * SOURCE_H + column.h) * SOURCE_W + column.w) * SOURCE_POSITION_STEP + number -
                   tap * SOURCE_CHANNELS;
    if (number >= width) column.w = NOWHERE;
    columns[i] = column;
  }
  if (item < DEPTH) {
    strides[item] = place_of(DEPTH, RESULT_D, RESULT_H, RESULT_W);
    places[item] = place_of(start * DEPTH + item, RESULT_D, RESULT_H, RESULT_W);
  }
  NOTE_ROW(start);

  const int lane = item % 32, m = item / 32 % WAVES_M * 64, n = item / 32 / WAVES_M * 32;
  float sums[4][4][4], short_sums[4][4][4];
  CF_UNROLL for (int i = 0; i < 64; ++i) {
    sums[i / 16][i / 4 % 4][i % 4] = 0.0f;
    short_sums[i / 16][i / 4 % 4][i % 4] = 0.0f;
  }
  for (int step = start; step < start + STAGES - 1; ++step) {
    CF_BARRIER();
    FETCH(step);
  }
  for (int step = start; step < end; ++step) {
    CF_COPIES_WAIT(STAGES - 2);
    CF_BARRIER();
    FETCH(step + STAGES - 1);
    multiply_wave(short_sums, memory + step % STAGES * STAGE_BYTES, m, n, lane);
    if ((step - start) % SHORT_STEPS == SHORT_STEPS - 1 || step + 1 == end) {
      CF_UNROLL for (int i = 0; i < 64; ++i) {
        sums[i / 16][i / 4 % 4][i % 4] += short_sums[i / 16][i / 4 % 4][i % 4];
        short_sums[i / 16][i / 4 % 4][i % 4] = 0.0f;
      }
    }
  }

  result += ((CF_LONG)(PARTIAL ? part * GROUPS : 0) + group) * RESULT_CHANNELS * width;
  CF_UNROLL for (int i = 0; i < 4; ++i) {
    CF_UNROLL for (int q = 0; q < 4; q += 2) {
      const int filter = m + 16 * i + 4 * q + lane / 4;
      if (filter >= filters) continue;
      CF_UNROLL for (int j = 0; j < 4; ++j) {
        const int column = first_column + n + 8 * j + lane % 4 * 2;
        if (column >= width) continue;  // an even number: both are inside or none is
        CF_GLOBAL STORED *to = result + ((CF_LONG)(first_filter + filter) * width + column);
        float pair[2] = {sums[i][j][q], sums[i][j][q + 1]};
        if (!PARTIAL) {
          CF_UNROLL for (int side = 0; side < 2; ++side) {
            pair[side] = CF_BIASED(pair[side], 0, epilogue);
            if (CF_ADDS_Z(epilogue)) pair[side] = CF_FMA(epilogue.beta, CF_LOAD(STORED_TYPE, to, side), pair[side]);
          }
        }
        CF_STORE_PAIR(STORED_TYPE, to, pair[0], pair[1]);
      }
    }
  }
}
