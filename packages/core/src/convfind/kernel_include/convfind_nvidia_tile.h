// A tile of a matrix product on Hopper's matrix units, from rows in local memory: see convfind_nvidia.h for their form.
//
// A work-group of THREADS items computes TILE_M rows by TILE_N columns; each four waves have 64 rows of it. A stage
// holds the tile's rows, then its columns, each 128 bytes along the sum. Sum 4 j + 2 h + i of an item is row
// OWN_ROW(item) + 8 h, column 8 j + OWN_COLUMN(item) + i.
//
// PRODUCTS 1: elements of 16 bits as they are; floats rounded to TF32, columns before they come, rows in registers:
// matrix units cut them off, and what that loses adds up from layer to layer. PRODUCTS 3: floats are split in two TF32 numbers, a * b
// becomes low * high + high * low + high * high, the small ones first; what is lost is below 2^-20 of a product.
// PRODUCTS 2: the same with the small ones in bfloat16, at half the price; what is lost is below 2^-18 of a product,
// which is within the rounding that a plain sum of 256 products or more may have. Matrix units cut off what they add
// up, so at most 64 products along the sum are left to them: parts, which are then added to the sums in plain
// arithmetic. That meets the error bound of plain sums: see convfind.accuracy. After Ootomo and Yokota, "Recovering
// single precision accuracy from Tensor Cores while surpassing the FP32 theoretical peak performance" (2022).
#include "convfind_nvidia.h"

#ifndef DTYPE
#define DTYPE FLOAT32  // FLOAT32, FLOAT16, BFLOAT16
#endif
#ifndef PRODUCTS
#define PRODUCTS 1  // 1; 2, 3 with FLOAT32
#endif
#ifndef TILE_M
#define TILE_M 128  // rows: 64, 128
#endif
#ifndef TILE_N
#define TILE_N 128  // columns: 64, 128; with PRODUCTS 1 also 96, 160, 192, 256; with that or SPLIT_BEFORE also 16
#endif
#ifndef STAGES
#define STAGES 3  // tiles in local memory or on their way there: 2 or more
#endif

#ifndef SPLIT_BEFORE
#define SPLIT_BEFORE 0  // 1, with PRODUCTS 2, 3: columns come to the stages split, as split_columns() writes them
#endif

#ifndef ROW_PARTS
#define ROW_PARTS 1  // parts in which an item's floats of a stage pass its registers, with PRODUCTS 1: 1, 2
#endif

#ifndef SPLIT_PASS
// PRODUCTS 2: eights of columns that an item splits at a time: 1, or 2 where TILE_N is TILE_M or more.
#define SPLIT_PASS (TILE_N > TILE_M / 2 && STAGES > 2 ? 2 : 1)
#endif

#define THREADS (2 * TILE_M)
#define ELEMENT CF_TYPE(DTYPE)
#define ELEMENT_BYTES CF_JOIN(ELEMENT_BYTES_, DTYPE)
#define ELEMENT_BYTES_FLOAT32 4
#define ELEMENT_BYTES_FLOAT16 2
#define ELEMENT_BYTES_BFLOAT16 2
#define BITS CF_JOIN(BITS_, DTYPE)  // an element that is only moved
#define BITS_FLOAT32 CF_UINT
#define BITS_FLOAT16 CF_USHORT
#define BITS_BFLOAT16 CF_USHORT
#define PER_PIECE (16 / ELEMENT_BYTES)  // elements of 16 bytes
#define PER_ROW (128 / ELEMENT_BYTES)   // elements of a stage along the sum
#define ROWS_BYTES (TILE_M * 128)
#define COLUMNS_BYTES (TILE_N * 128)
#define STAGE_BYTES (ROWS_BYTES + (SPLIT_BEFORE ? 2 : 1) * COLUMNS_BYTES)
#define SPLIT_STAGES (STAGES > 2 ? 2 : 1)                                // whose columns are split at a time
#define SPLIT_BYTES (PRODUCTS > 1 && !SPLIT_BEFORE ? SPLIT_STAGES * 2 * COLUMNS_BYTES : 0)  // behind the stages
#define SUMS (TILE_N / 2)                                        // of an item
#define OWN_ROW(item) ((item) / 32 * 16 + (item) % 32 / 4)
#define OWN_COLUMN(item) ((item) % 4 * 2)

// Rows and columns of the `stage`-th stage, as addresses.
#define STAGE_ROWS(tiles, stage) ((tiles) + (stage) % STAGES * STAGE_BYTES)
#define STAGE_COLUMNS(tiles, stage) (STAGE_ROWS(tiles, stage) + ROWS_BYTES)

#if PRODUCTS == 1 && ELEMENT_BYTES == 4
// A part of an item's rows of a stage.
#define PART_SIZE (4 / ROW_PARTS)
typedef struct {
  CF_UINT bits[PART_SIZE][4];
} RowsPart;

// Starts to add the products of a part of a stage; with `more` of 0 the sums start from 0. No products read `rounded`
// any more. Row 0 is the `first` one at `rows`.
CF_INLINED void multiply_part(float sums[SUMS], RowsPart *rounded, const CF_UINT rows, const int first,
                              const CF_UINT columns, const int item, const int part, const int more) {
  const int row = first + item / 32 * 16 + item % 16, side = item % 32 / 16, from = part * PART_SIZE;
  CF_UNROLL for (int k = 0; k < PART_SIZE; ++k)
    CF_LOAD_MATRICES(rounded->bits[k], rows + CF_PIECE(row, 2 * (from + k) + side));
  CF_UNROLL for (int k = 0; k < PART_SIZE; ++k)
    CF_UNROLL for (int i = 0; i < 4; ++i) rounded->bits[k][i] = cf_tf32_near(rounded->bits[k][i]);
  const ulong b = CF_MATRIX(columns) + 2 * from;
  CF_WGMMA_FENCE();
  CF_UNROLL for (int k = 0; k < PART_SIZE; ++k)
    CF_WGMMA_FROM_REGISTERS(TILE_N, DTYPE, sums, rounded->bits[k], b + 2 * k, k > 0 || more);
  CF_WGMMA_COMMIT();
}
#elif PRODUCTS == 1
// Starts to add the products of a stage, which all items have fenced (CF_FENCE_MATRICES) before a barrier; with `more`
// of 0 the sums start from 0.
CF_INLINED void multiply_stage(float sums[SUMS], const CF_UINT rows, const CF_UINT columns, const int item,
                               const int more) {
  const ulong a = CF_MATRIX(rows + item / 128 * (64 * 128)), b = CF_MATRIX(columns);
  CF_WGMMA_FENCE();
  CF_UNROLL for (int k = 0; k < 4; ++k) CF_WGMMA(TILE_N, DTYPE, sums, a + 2 * k, b + 2 * k, k > 0 || more);
  CF_WGMMA_COMMIT();
}
#elif PRODUCTS == 2
// An item's rows of a stage, split: `pairs` for bfloat16, of 16 along the sum each, are what the item has of eight,
// first and third or second and fourth. The columns' order along the sum is the same.
typedef struct {
  CF_UINT high[4][4], high_pairs[2][4], low_pairs[2][4];
} SplitRows;
#define PAIR(first, second) CF_PAIR(BFLOAT16, CF_AS_FLOAT(first), CF_AS_FLOAT(second))

// Row 0 is the `first` one at `rows`. Loads come first, all of them: compilers do not move them before a store.
CF_INLINED void load_rows(SplitRows *to, const CF_UINT rows, const int first, const int item) {
  const int row = first + item / 32 * 16 + item % 16, side = item % 32 / 16;
  CF_UNROLL for (int k = 0; k < 4; ++k) CF_LOAD_MATRICES(to->high[k], rows + CF_PIECE(row, 2 * k + side));
}

CF_INLINED void split_rows(SplitRows *rows) {
  CF_UNROLL for (int k = 0; k < 4; ++k) {
    CF_UINT low[4], *high = rows->high[k];
    CF_UNROLL for (int i = 0; i < 4; ++i) {
      const CF_UINT nearest = cf_tf32_high(high[i]);
      low[i] = cf_tf32_low(high[i], nearest);
      high[i] = nearest;
    }
    CF_UNROLL for (int i = 0; i < 2; ++i) {
      rows->high_pairs[k / 2][k % 2 * 2 + i] = PAIR(high[i], high[i + 2]);
      rows->low_pairs[k / 2][k % 2 * 2 + i] = PAIR(low[i], low[i + 2]);
    }
  }
}

// The work-group splits a stage's columns: the high parts, and COLUMNS_BYTES behind them, in rows of 128 bytes, pairs
// of high parts, then pairs of low parts. An item has eight floats of a row at a time; neighbouring rows of a wave are
// chosen so that all accesses go to different banks.
CF_INLINED void split_columns(const CF_UINT to, const CF_UINT columns, const int item) {
  const int eight = item % 4, in_wave = item % 32 / 8 ^ (item / 4 % 2 * 5);
  CF_UINT bits[SPLIT_PASS][2][4];
  CF_UNROLL for (int first = 0; first < TILE_N; first += SPLIT_PASS * (THREADS / 4)) {
    const int row = first + item / 32 * 8 + in_wave;
    CF_UNROLL for (int i = 0; i < SPLIT_PASS; ++i) {
      CF_UNROLL for (int j = 0; j < 2; ++j)
        CF_LOAD_SHARED_4(bits[i][j], columns + CF_PIECE(row + i * (THREADS / 4), 2 * eight + j));
    }
    CF_UNROLL for (int i = 0; i < SPLIT_PASS; ++i) {
      CF_UINT pairs[2][4];
      CF_UNROLL for (int q = 0; q < 4; ++q) {
        CF_UINT high[2], low[2];
        CF_UNROLL for (int j = 0; j < 2; ++j) {
          high[j] = cf_tf32_high(bits[i][j][q]);
          low[j] = cf_tf32_low(bits[i][j][q], high[j]);
          bits[i][j][q] = high[j];
        }
        pairs[0][q] = PAIR(high[0], high[1]);
        pairs[1][q] = PAIR(low[0], low[1]);
      }
      CF_UNROLL for (int j = 0; j < 2; ++j) {
        CF_STORE_SHARED_4(to + CF_PIECE(row + i * (THREADS / 4), 2 * eight + j), bits[i][j]);
        CF_STORE_SHARED_4(to + COLUMNS_BYTES + CF_PIECE(row + i * (THREADS / 4), 4 * j + eight), pairs[j]);
      }
    }
  }
}

// Starts to add the products of a stage; with `more` of 0 the parts start from 0.
CF_INLINED void multiply_split(float parts[SUMS], const SplitRows *rows, const CF_UINT columns, const int more) {
  const ulong high = CF_MATRIX(columns), pairs = CF_MATRIX(columns + COLUMNS_BYTES);
  CF_WGMMA_FENCE();
  CF_UNROLL for (int k = 0; k < 2; ++k)
    CF_WGMMA_FROM_REGISTERS(TILE_N, BFLOAT16, parts, rows->low_pairs[k], pairs + 2 * k, k > 0 || more);
  CF_UNROLL for (int k = 0; k < 2; ++k)
    CF_WGMMA_FROM_REGISTERS(TILE_N, BFLOAT16, parts, rows->high_pairs[k], pairs + 4 + 2 * k, 1);
  CF_UNROLL for (int k = 0; k < 4; ++k)
    CF_WGMMA_FROM_REGISTERS(TILE_N, FLOAT32, parts, rows->high[k], high + 2 * k, 1);
  CF_WGMMA_COMMIT();
}
#else
// An item's rows of a stage, split.
typedef struct {
  CF_UINT high[4][4], low[4][4];
} SplitRows;

CF_INLINED void load_rows(SplitRows *to, const CF_UINT rows, const int first, const int item) {
  const int row = first + item / 32 * 16 + item % 16, side = item % 32 / 16;
  CF_UNROLL for (int k = 0; k < 4; ++k) CF_LOAD_MATRICES(to->high[k], rows + CF_PIECE(row, 2 * k + side));
}

CF_INLINED void split_rows(SplitRows *rows) {
  CF_UNROLL for (int k = 0; k < 4; ++k) {
    CF_UNROLL for (int i = 0; i < 4; ++i) {
      const CF_UINT high = cf_tf32_high(rows->high[k][i]);
      rows->low[k][i] = cf_tf32_low(rows->high[k][i], high);
      rows->high[k][i] = high;
    }
  }
}

// The work-group splits a stage's columns: the high parts, and COLUMNS_BYTES behind them the low ones.
CF_INLINED void split_columns(const CF_UINT to, const CF_UINT columns, const int item) {
  CF_UNROLL for (int at = 0; at < COLUMNS_BYTES; at += 16 * THREADS) {
    CF_UINT bits[4], high[4];
    CF_LOAD_SHARED_4(bits, columns + at + 16 * item);
    CF_UNROLL for (int i = 0; i < 4; ++i) {
      high[i] = cf_tf32_high(bits[i]);
      bits[i] = cf_tf32_low(bits[i], high[i]);
    }
    CF_STORE_SHARED_4(to + at + 16 * item, high);
    CF_STORE_SHARED_4(to + COLUMNS_BYTES + at + 16 * item, bits);
  }
}

// Starts to add the products of a stage; with `more` of 0 the parts start from 0.
CF_INLINED void multiply_split(float parts[SUMS], const SplitRows *rows, const CF_UINT columns, const int more) {
  const ulong high = CF_MATRIX(columns), low = CF_MATRIX(columns + COLUMNS_BYTES);
  CF_WGMMA_FENCE();
  CF_UNROLL for (int k = 0; k < 4; ++k)
    CF_WGMMA_FROM_REGISTERS(TILE_N, FLOAT32, parts, rows->low[k], high + 2 * k, k > 0 || more);
  CF_UNROLL for (int k = 0; k < 4; ++k) CF_WGMMA_FROM_REGISTERS(TILE_N, FLOAT32, parts, rows->high[k], low + 2 * k, 1);
  CF_UNROLL for (int k = 0; k < 4; ++k) CF_WGMMA_FROM_REGISTERS(TILE_N, FLOAT32, parts, rows->high[k], high + 2 * k, 1);
  CF_WGMMA_COMMIT();
}
#endif
