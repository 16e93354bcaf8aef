// The products of gpu_product.cl on the tensor cores of NVIDIA GPUs, from sm_80 on: inline PTX in OpenCL C.
//
// A warp computes a part of the work-group's tile, in pieces of 16 x 8; of each an item has two pairs of neighbours.
#include "gpu_mma.h"
#include "gpu_spans.h"

#ifndef TILE_M
#define TILE_M 128  // rows of a work-group: 16 * THREADS_M / 8 * {1, 2, 3, 4}
#endif
#ifndef TILE_N
#define TILE_N 128  // columns of a work-group: 8 * THREADS_N / 4 * {1, 2, ... 8}
#endif
#ifndef TILE_K
#define TILE_K 16  // depth of the tiles in local memory: 16
#endif
#ifndef THREADS_M
#define THREADS_M 16  // items along the rows: 8 * {1, 2, 4}, 8 of them of one warp
#endif
#ifndef THREADS_N
#define THREADS_N 16  // items along the columns: 4 * {1, 2, 4}, 4 of them of one warp
#endif
#ifndef STAGES
#define STAGES 3  // tiles in local memory: 2, 3, 4
#endif
#ifndef A_ALONG_DEPTH
#define A_ALONG_DEPTH 0  // 1: a lies as [row][depth]; 0: as [depth][row]
#endif
#ifndef B_ALONG_DEPTH
#define B_ALONG_DEPTH 0  // 1: b lies as [column][depth]; 0: as [depth][column]
#endif
#ifndef COLUMNS_FIRST
#define COLUMNS_FIRST 0  // 1: neighbouring work-groups share rows; 0: columns
#endif

#define THREADS (THREADS_M * THREADS_N)
#define PIECES_M (TILE_M / (THREADS_M / 8) / 16)  // of a warp
#define PIECES_N (TILE_N / (THREADS_N / 4) / 8)
#define FOR_UNROLLED(index, end) CF_UNROLL for (int index = 0; index < (end); ++index)

// Neighbours in depth and in rows lie in different banks, for the 4 x 8 elements that a warp reads at a time.
#define PITCH(along, size) ((along) ? TILE_K + 4 : (size) + 8)
#define TILE_FLOATS(along, size) ((along) ? (size) * PITCH(1, size) : TILE_K * PITCH(0, size))
#define PLACE(along, size, line, depth) \
  ((along) ? (line) * PITCH(1, size) + (depth) : (depth) * PITCH(0, size) + (line))
#define A_FLOATS TILE_FLOATS(A_ALONG_DEPTH, TILE_M)
#define B_FLOATS TILE_FLOATS(B_ALONG_DEPTH, TILE_N)
#define A_FOURS (TILE_M * TILE_K / 4 / THREADS)  // groups of four elements that an item copies
#define B_FOURS (TILE_N * TILE_K / 4 / THREADS)

// Where the four elements that an item copies in turn q are in a tile of so many rows or columns.
#define LINE(along, size, item, q) \
  ((along) ? (item) / (TILE_K / 4) + (q) * (4 * THREADS / TILE_K) : (item) % ((size) / 4) * 4)
#define DEPTH(along, size, item, q) \
  ((along) ? (item) % (TILE_K / 4) * 4 : (item) / ((size) / 4) + (q) * (4 * THREADS / (size)))

CF_INLINE int from_of(int along, int line, int depth, int lines, int step) {
  return along ? min(line, lines - 1) * step + depth : depth * step + min(line, step - 4);
}

#define FETCH(number)                                                                                       \
  do {                                                                                                      \
    if ((number) < end) {                                                                                   \
      const CF_UINT to = base + (CF_UINT)((number) % STAGES) * (4 * (A_FLOATS + B_FLOATS));                 \
      FOR_UNROLLED(q, A_FOURS) cf_copy_16(to + a_to[q], a + (CF_LONG)(number) * a_advance + a_from[q], 16); \
      FOR_UNROLLED(q, B_FOURS) cf_copy_16(to + b_to[q], b + (CF_LONG)(number) * b_advance + b_from[q], 16); \
    }                                                                                                       \
    CF_COPIES_COMMIT();                                                                                     \
  } while (0)

// Arguments and grid are those of gpu_product.cl.
CF_KERNEL CF_WORK_GROUP_SIZE(THREADS, 1, 1) void winograd_gpu_product(
    CF_GLOBAL const float *a, CF_GLOBAL const float *b, CF_GLOBAL float *c, const int rows, const int columns,
    const int depth, const int a_step, const int b_step, const int c_step, const CF_LONG a_matrix,
    const CF_LONG b_matrix, const int matrices, const int parts, const int add SPAN_ARGUMENTS) {
  CF_LOCAL float tiles[STAGES * (A_FLOATS + B_FLOATS)] __attribute__((aligned(16)));

  const int row_tiles = (rows + TILE_M - 1) / TILE_M, column_tiles = (columns + TILE_N - 1) / TILE_N;
  CF_UINT at = (CF_UINT)CF_GROUP_ID(0);
  const int tile = (int)(at % (CF_UINT)(row_tiles * column_tiles));
  at /= (CF_UINT)(row_tiles * column_tiles);
  const int top = (COLUMNS_FIRST ? tile / column_tiles : tile % row_tiles) * TILE_M;
  const int left = (COLUMNS_FIRST ? tile % column_tiles : tile / row_tiles) * TILE_N;
  const int matrix = (int)(at % (CF_UINT)matrices), part = (int)(at / (CF_UINT)matrices);
  int first_step = 0, steps = depth / TILE_K;
#if SPANS
  const Ends ends = {first_end / TILE_K, second_end / TILE_K, third_end / TILE_K, steps};
  const int last_row = matrix / groups / SPANS == SPANS - 1, last_column = matrix / groups % SPANS == SPANS - 1;
  first_step = span_begin(ends, last_column);
  steps = span_of(ends, last_row, last_column);
#endif
  const int first = first_step + (int)((CF_LONG)steps * part / parts);
  const int end = first_step + (int)((CF_LONG)steps * (part + 1) / parts);

  const int item = (int)CF_LOCAL_ID(0);
  const CF_LONG a_advance = A_ALONG_DEPTH ? TILE_K : TILE_K * (CF_LONG)a_step;
  const CF_LONG b_advance = B_ALONG_DEPTH ? TILE_K : TILE_K * (CF_LONG)b_step;
  a += matrix * a_matrix;
  b += matrix * b_matrix;
  const CF_UINT base = CF_SHARED(tiles);
  int a_from[A_FOURS], b_from[B_FOURS];
  CF_UINT a_to[A_FOURS], b_to[B_FOURS];
  FOR_UNROLLED(q, A_FOURS) {
    const int line = LINE(A_ALONG_DEPTH, TILE_M, item, q), deep = DEPTH(A_ALONG_DEPTH, TILE_M, item, q);
    a_from[q] = from_of(A_ALONG_DEPTH, top + line, deep, rows, a_step);
    a_to[q] = 4 * PLACE(A_ALONG_DEPTH, TILE_M, line, deep);
  }
  FOR_UNROLLED(q, B_FOURS) {
    const int line = LINE(B_ALONG_DEPTH, TILE_N, item, q), deep = DEPTH(B_ALONG_DEPTH, TILE_N, item, q);
    b_from[q] = from_of(B_ALONG_DEPTH, left + line, deep, columns, b_step);
    b_to[q] = 4 * (A_FLOATS + PLACE(B_ALONG_DEPTH, TILE_N, line, deep));
  }
  const int lane = item % 32, warp = item / 32;
  const int m = warp % (THREADS_M / 8) * (16 * PIECES_M) + lane / 4;
  const int n = warp / (THREADS_M / 8) * (8 * PIECES_N) + lane / 4;
  const int k = lane % 4;

  float sum[PIECES_M][PIECES_N][4];
  FOR_UNROLLED(i, PIECES_M) FOR_UNROLLED(j, PIECES_N) FOR_UNROLLED(e, 4) sum[i][j][e] = 0.0f;
  FOR_UNROLLED(s, STAGES - 1) FETCH(first + s);
  for (int step = first; step < end; ++step) {
    CF_COPIES_WAIT(STAGES - 2);
    CF_BARRIER();
    FETCH(step + STAGES - 1);
    CF_LOCAL_PTR const float *a_tile = tiles + step % STAGES * (A_FLOATS + B_FLOATS);
    CF_LOCAL_PTR const float *b_tile = a_tile + A_FLOATS;
#if PRODUCTS == 3
    float part_sum[PIECES_M][PIECES_N][4];
#endif
    FOR_UNROLLED(deep, TILE_K / 8) {
      CF_UINT a_high[PIECES_M][4], b_high[PIECES_N][2];
#if PRODUCTS == 3
      CF_UINT a_low[PIECES_M][4], b_low[PIECES_N][2];
#endif
      FOR_UNROLLED(i, PIECES_M) FOR_UNROLLED(e, 4) {
        const float value = a_tile[PLACE(A_ALONG_DEPTH, TILE_M, m + 16 * i + e % 2 * 8, k + 8 * deep + e / 2 * 4)];
        a_high[i][e] = HIGH_OF(value);
#if PRODUCTS == 3
        a_low[i][e] = LOW_OF(value, a_high[i][e]);
#endif
      }
      FOR_UNROLLED(j, PIECES_N) FOR_UNROLLED(e, 2) {
        const float value = b_tile[PLACE(B_ALONG_DEPTH, TILE_N, n + 8 * j, k + 8 * deep + e * 4)];
        b_high[j][e] = HIGH_OF(value);
#if PRODUCTS == 3
        b_low[j][e] = LOW_OF(value, b_high[j][e]);
#endif
      }
#if PRODUCTS == 3
      FOR_UNROLLED(i, PIECES_M) FOR_UNROLLED(j, PIECES_N) {
        if (deep == 0) MULTIPLY(part_sum[i][j], a_low[i], b_high[j]);
        else CF_MMA_FLOAT32(part_sum[i][j], a_low[i], b_high[j]);
      }
      FOR_UNROLLED(i, PIECES_M) FOR_UNROLLED(j, PIECES_N) CF_MMA_FLOAT32(part_sum[i][j], a_high[i], b_low[j]);
      FOR_UNROLLED(i, PIECES_M) FOR_UNROLLED(j, PIECES_N) CF_MMA_FLOAT32(part_sum[i][j], a_high[i], b_high[j]);
#else
      FOR_UNROLLED(i, PIECES_M) FOR_UNROLLED(j, PIECES_N) CF_MMA_FLOAT32(sum[i][j], a_high[i], b_high[j]);
#endif
    }
#if PRODUCTS == 3
    FOR_UNROLLED(i, PIECES_M) FOR_UNROLLED(j, PIECES_N) FOR_UNROLLED(e, 4) sum[i][j][e] += part_sum[i][j][e];
#endif
  }

  c += ((CF_LONG)part * matrices + matrix) * rows * c_step;
  FOR_UNROLLED(i, PIECES_M) FOR_UNROLLED(j, PIECES_N) FOR_UNROLLED(half_piece, 2) {
    const int row = top + m + 16 * i + 8 * half_piece;
    const int column = left + n - lane / 4 + 8 * j + 2 * k;
    if (row >= rows || column >= columns) continue;
    CF_GLOBAL float2 *to = (CF_GLOBAL float2 *)(c + (CF_LONG)row * c_step + column);
    float2 pair;
    pair.x = sum[i][j][2 * half_piece];
    pair.y = sum[i][j][2 * half_piece + 1];
    if (add) {
      const float2 before = *to;
      pair.x += before.x;
      pair.y += before.y;
    }
    *to = pair;
  }
}
