// The inner part of the GPU kernels: a tile of the result in registers, multiplied from local memory.
//
// A work-group computes TILE_M x TILE_N results, each item (TILE_M / THREADS_M) x (TILE_N / THREADS_N) of them, as
// groups of four rows and columns, or as convfind_gpu_mfma.h has it. Tiles of both operands lie in local memory as
// [k][row] and [k][column], twice: while one pair is multiplied the next travels from device memory through registers.
#include "convfind_epilogue.h"

#ifndef DTYPE
#define DTYPE FLOAT32  // elements that are read: FLOAT32, FLOAT16, BFLOAT16, INT8
#endif
#ifndef RESULT_DTYPE
#define RESULT_DTYPE FLOAT32  // elements that are written: as DTYPE; for INT8: INT32 or FLOAT32
#endif
#ifndef INTEGER
#define INTEGER 0  // 1: DTYPE is INT8, and sums are whole numbers
#endif
#ifndef WORDS
#define WORDS 0  // 1, with INTEGER: what is read are words of four numbers, neighbours along the sum
#endif
#ifndef STORES_FOUR
#define STORES_FOUR 1  // 1: what is written are floats, or whole numbers of their size in parts of a sum; 0: others
#endif
#ifndef TILE_M
#define TILE_M 64  // rows of a work-group: 4 * THREADS_M * {1, 2, 3, 4}
#endif
#ifndef TILE_N
#define TILE_N 128  // columns of a work-group: 4 * THREADS_N * {1, 2, 3, 4}
#endif
#ifndef TILE_K
#define TILE_K 16  // depth of the tiles in local memory: 8, 16
#endif
#ifndef THREADS_M
#define THREADS_M 8  // items along the rows: a multiple of LANES_M
#endif
#ifndef THREADS_N
#define THREADS_N 16  // items along the columns: 2, 4, 8, 16, 32; a multiple of LANES_N
#endif
#ifndef SPLIT
#define SPLIT 0  // 1: the sum is one of several parts, which another kernel adds up
#endif

#include "convfind_gpu_mfma.h"

#define THREADS (THREADS_M * THREADS_N)
#define BLOCK_M (TILE_M / THREADS_M)
#define BLOCK_N (TILE_N / THREADS_N)
// So many neighbouring items are a rectangle in the tile: LANES_N of them along the columns, the rest along the rows.
#if MFMA
#define LANES MFMA_WAVE
#define LANES_N (MFMA_WAVE / MFMA)
#else
#define LANES 32
#define LANES_N (THREADS_N < 8 ? THREADS_N : 8)
#endif
#define LANES_M (LANES / LANES_N)

// Tiles are moved as bits: floats, or whole numbers or words of them in their place.
#if INTEGER
typedef int VALUE;
#define BITS(value) CF_AS_FLOAT((CF_UINT)(value))
#define NUMBER(bits) ((int)CF_AS_UINT(bits))
#else
typedef float VALUE;
#define BITS(value) (value)
#define NUMBER(bits) (bits)
#endif
#if WORDS
#define MULTIPLY_ADD(a, b, c) CF_DOT4(a, b, c)
#define ELEMENT float
#define LOAD(pointer, index) ((pointer)[index])
#else
#if INTEGER
#define MULTIPLY_ADD(a, b, c) CF_MULTIPLY_ADD_SMALL(a, b, c)
#else
#define MULTIPLY_ADD(a, b, c) CF_FMA(a, b, c)
#endif
#define ELEMENT CF_TYPE(DTYPE)
#define LOAD(pointer, index) BITS(CF_LOAD(DTYPE, pointer, index))
#endif

// Four neighbouring elements, aligned to four elements.
#if WORDS
#define LOAD_FOUR(array, pointer) CF_LOAD4(array, pointer)
#else
#define LOAD_FOUR(array, pointer) CF_JOIN(LOAD_FOUR_, DTYPE)(array, pointer)
#endif
#define LOAD_FOUR_FLOAT32(array, pointer) CF_LOAD4(array, pointer)
#define LOAD_FOUR_FLOAT16(array, pointer) LOAD_EACH(array, pointer)
#define LOAD_FOUR_BFLOAT16(array, pointer) LOAD_EACH(array, pointer)
#define LOAD_FOUR_INT8(array, pointer) LOAD_EACH(array, pointer)
#define LOAD_EACH(array, pointer)                          \
  do {                                                     \
    (array)[0] = LOAD(pointer, 0);                         \
    (array)[1] = LOAD(pointer, 1);                         \
    (array)[2] = LOAD(pointer, 2);                         \
    (array)[3] = LOAD(pointer, 3);                         \
  } while (0)

// Sums go out as they are where they are parts.
#if SPLIT
#define RESULT_ELEMENT VALUE
#else
#define RESULT_ELEMENT CF_TYPE(RESULT_DTYPE)
#endif

// Floats between the rows of a tile in local memory, so that neighbouring items write to different banks.
#define SKEW_NONE 0   // neighbours write along a row
#define SKEW_ROWS 1   // neighbours write to neighbouring rows
#define SKEW_QUADS 2  // an item writes to four rows, neighbours to the four rows behind these
#define SKEW(kind, k) ((kind) == SKEW_ROWS ? (k) * 4 : (kind) == SKEW_QUADS ? (k) / 4 * (128 / TILE_K) : 0)
#define TILE_FLOATS(size, kind) (TILE_K * (size) + SKEW(kind, TILE_K))

#define FOR_UNROLLED(index, end) CF_UNROLL for (int index = 0; index < (end); ++index)

CF_INLINE void clear(VALUE sum[BLOCK_M][BLOCK_N]) {
  CF_UNROLL
  for (int i = 0; i < BLOCK_M; ++i) {
    CF_UNROLL
    for (int j = 0; j < BLOCK_N; ++j) sum[i][j] = 0;
  }
}

// An item's row i and column j in the tile: columns in groups of four, rows likewise or one by one.
#if MFMA
#define ITEM_ROWS 1
#define LANE_M(item) ((item) % LANES_M)
#define LANE_N(item) ((item) % LANES / LANES_M)
#else
#define ITEM_ROWS 4
// Four neighbouring items are a square: NVIDIA's local memory serves two items of a pair that read the same four floats
// at once, half of the pairs the rows, half the columns.
#define LANE_M(item) ((item) % LANES / (2 * LANES_N) * 2 + (item) / 2 % 2)
#define LANE_N(item) ((item) / 4 % (LANES_N / 2) * 2 + (item) % 2)
#endif
CF_INLINE int first_row(int item) {
  return (item / LANES / (THREADS_N / LANES_N) * LANES_M + LANE_M(item)) * ITEM_ROWS;
}
CF_INLINE int first_column(int item) {
  return (item / LANES % (THREADS_N / LANES_N) * LANES_N + LANE_N(item)) * 4;
}
#define ROW_OF(first, i) ((first) + (i) / ITEM_ROWS * (ITEM_ROWS * THREADS_M) + (i) % ITEM_ROWS)
#define COLUMN_OF(first, j) ((first) + (j) / 4 * (4 * THREADS_N) + (j) % 4)

// Add the product of two tiles; `a` and `b` begin at the first row and column of the item, which is CF_LOCAL_ID(0).
#if MFMA
CF_INLINE void multiply(VALUE sum[BLOCK_M][BLOCK_N], CF_LOCAL_PTR const float *a, CF_LOCAL_PTR const float *b,
                        const int a_skew, const int b_skew) {
  const CF_UINT item = (CF_UINT)CF_LOCAL_ID(0), lane = item % MFMA;
  const int part_of_wave = (int)LANE_N(item), first = part_of_wave * MFMA_RUN;
  // As an operand a lane has another column than in the result: this one of those that the instruction computes.
  b += (int)(lane / (4 * LANES_N) * (4 * THREADS_N) + lane % (4 * LANES_N)) - part_of_wave * 4;
  CF_UNROLL_READS
  for (int step = 0; step < TILE_K; step += MFMA_DEPTH) {
    MFMA_OPERAND rows[BLOCK_M], columns[BLOCK_N / MFMA_NUMBERS];
    CF_UNROLL
    for (int e = 0; e < MFMA_RUN; ++e) {
      const int k = step + first + e;
      FOR_UNROLLED(i, BLOCK_M) mfma_set(&rows[i], e, a[k * TILE_M + SKEW(a_skew, k) + ROW_OF(0, i)]);
      FOR_UNROLLED(j, BLOCK_N / MFMA_NUMBERS) {
        mfma_set(&columns[j], e, b[k * TILE_N + SKEW(b_skew, k) + COLUMN_OF(0, j * MFMA_NUMBERS)]);
      }
    }
    CF_UNROLL
    for (int i = 0; i < BLOCK_M; ++i) {
      CF_UNROLL
      for (int j = 0; j < BLOCK_N; j += MFMA_NUMBERS) {
        MfmaResult part;
        FOR_UNROLLED(e, MFMA_NUMBERS) part[e] = sum[i][j + e];
        part = MFMA_MULTIPLY(columns[j / MFMA_NUMBERS], rows[i], part);
        FOR_UNROLLED(e, MFMA_NUMBERS) sum[i][j + e] = part[e];
      }
    }
  }
}
#else
// Inline assembly looks so large to compilers that they would call this, and have the sums in memory.
CF_INLINE __attribute__((always_inline)) void multiply(VALUE sum[BLOCK_M][BLOCK_N], CF_LOCAL_PTR const float *a,
                                                       CF_LOCAL_PTR const float *b, const int a_skew,
                                                       const int b_skew) {
  CF_UNROLL_READS
  for (int k = 0; k < TILE_K; ++k) {
    float left[BLOCK_M], right[BLOCK_N];
    CF_UNROLL
    for (int i = 0; i < BLOCK_M; i += 4) CF_LOAD4_LOCAL(left + i, a + k * TILE_M + SKEW(a_skew, k) + i * THREADS_M);
    CF_UNROLL
    for (int j = 0; j < BLOCK_N; j += 4) CF_LOAD4_LOCAL(right + j, b + k * TILE_N + SKEW(b_skew, k) + j * THREADS_N);
    CF_UNROLL
    for (int i = 0; i < BLOCK_M; ++i) {
      CF_UNROLL
      for (int step = 0; step < BLOCK_N; ++step) {
        // To and fro, so that one factor is always that of the product before: NVIDIA's units read two registers a
        // clock, and three of them would take two.
        const int j = i % 2 ? BLOCK_N - 1 - step : step;
        sum[i][j] = MULTIPLY_ADD(NUMBER(left[i]), NUMBER(right[j]), sum[i][j]);
      }
    }
  }
}
#endif

#ifndef CHANNEL
#define CHANNEL(row, column) 0  // of a place of the tile, as the epilogue counts them
#endif

CF_INLINE void store_one(CF_GLOBAL RESULT_ELEMENT *to, VALUE sum, int channel, const Epilogue epilogue) {
#if SPLIT
  *to = sum;
#elif INTEGER
  CF_STORE_WHOLE_RESULT(RESULT_DTYPE, to, channel, sum, epilogue);
#else
  CF_STORE_RESULT(RESULT_DTYPE, to, channel, sum, epilogue);
#endif
}

#ifndef FUSED
#define FUSED 0  // 1: the kernel masks pairs of a row and a column by MEETS
#endif
#ifndef MEETS
#define MEETS(row, column) 1  // whether a row and a column of the tile have a result
#endif

// Whether biases and z of some rows are read before any of these rows is stored: each would wait for the one before.
#if (defined(CF_BIAS) || defined(CF_Z)) && STORES_FOUR && !FUSED && !SPLIT
#define READS_AHEAD 1
#define ROWS_AHEAD (BLOCK_M % 4 == 0 ? 4 : 1)
#else
#define READS_AHEAD 0
#endif

// Write the tile: an element lies at row_at[row] + column_at[column], unless one of the two is negative.
CF_INLINE void store_tile(CF_GLOBAL RESULT_ELEMENT *result, VALUE sum[BLOCK_M][BLOCK_N],
                          CF_LOCAL_PTR const CF_LONG *row_at, CF_LOCAL_PTR const CF_LONG *column_at,
                          CF_LOCAL_PTR const int *row_mark, CF_LOCAL_PTR const int *column_mark, int item,
                          const Epilogue epilogue) {
  const int m = first_row(item), n = first_column(item);
  CF_UNROLL
  for (int j = 0; j < BLOCK_N; j += 4) {
    CF_LONG at[4];
    FOR_UNROLLED(e, 4) at[e] = column_at[COLUMN_OF(n, j) + e];
    const int together = at[0] >= 0 && at[1] == at[0] + 1 && at[2] == at[0] + 2 && at[3] == at[0] + 3;
#if READS_AHEAD
    int whole = together;
    FOR_UNROLLED(i, BLOCK_M) {
      const CF_LONG row = row_at[ROW_OF(m, i)];
      whole &= row >= 0 && ((size_t)(result + row + at[0]) & 15) == 0;
    }
    if (whole) {
      CF_UNROLL
      for (int i = 0; i < BLOCK_M; i += ROWS_AHEAD) {
        float values[ROWS_AHEAD][4];
        FOR_UNROLLED(k, ROWS_AHEAD) {
          FOR_UNROLLED(e, 4) values[k][e] = (float)sum[i + k][j + e];
          cf_four_results(values[k], (CF_GLOBAL float *)(result + row_at[ROW_OF(m, i + k)] + at[0]),
                          CHANNEL(ROW_OF(m, i + k), COLUMN_OF(n, j)), CHANNEL(0, 1), values[k], epilogue);
        }
        FOR_UNROLLED(k, ROWS_AHEAD)
        CF_STORE4((CF_GLOBAL float *)(result + row_at[ROW_OF(m, i + k)] + at[0]), values[k]);
      }
      continue;
    }
#endif
    CF_UNROLL
    for (int i = 0; i < BLOCK_M; ++i) {
      const CF_LONG row = row_at[ROW_OF(m, i)];
      if (row < 0) continue;
#if STORES_FOUR && !FUSED
      CF_GLOBAL float *to = (CF_GLOBAL float *)(result + row + at[0]);
      if (together && ((size_t)to & 15) == 0) {
        float value[4];
        FOR_UNROLLED(e, 4) value[e] = SPLIT ? BITS(sum[i][j + e]) : (float)sum[i][j + e];
#if SPLIT
        CF_STORE4(to, value);
#else
        cf_store_four_results(to, CHANNEL(ROW_OF(m, i), COLUMN_OF(n, j)), CHANNEL(0, 1), value, epilogue);
#endif
        continue;
      }
#endif
      FOR_UNROLLED(e, 4) {
        if (at[e] >= 0 && MEETS(row_mark[ROW_OF(m, i)], column_mark[COLUMN_OF(n, j) + e]))
          store_one(result + row + at[e], sum[i][j + e], CHANNEL(ROW_OF(m, i), COLUMN_OF(n, j) + e), epilogue);
      }
    }
  }
}
