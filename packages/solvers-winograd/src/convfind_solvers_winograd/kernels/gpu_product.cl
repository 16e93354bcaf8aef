// The products of a Winograd convolution on GPUs: for every point of the transform and every group a matrix product
// c = a * b, or c += a * b, in parts of the sum where there are too few tiles to fill the device.
//
// The depth of the sum is a multiple of 16: what is transformed is filled up with zeros. Rows and columns end anywhere.
#include "convfind_gpu_tile.h"
#include "gpu_spans.h"

#ifndef A_ALONG_DEPTH
#define A_ALONG_DEPTH 0  // 1: a lies as [row][depth]; 0: as [depth][row]
#endif
#ifndef B_ALONG_DEPTH
#define B_ALONG_DEPTH 0  // 1: b lies as [column][depth]; 0: as [depth][column]
#endif
#ifndef COLUMNS_FIRST
#define COLUMNS_FIRST 0  // 1: neighbouring work-groups share rows; 0: columns
#endif

#define A_READ (TILE_M * TILE_K / THREADS)  // elements of a that an item reads: a multiple of 4
#define B_READ (TILE_N * TILE_K / THREADS)  // and of b
#define A_SKEW (A_ALONG_DEPTH ? SKEW_QUADS : SKEW_NONE)
#define B_SKEW (B_ALONG_DEPTH ? SKEW_QUADS : SKEW_NONE)
#define A_FLOATS TILE_FLOATS(TILE_M, A_SKEW)
#define B_FLOATS TILE_FLOATS(TILE_N, B_SKEW)

// Where the four elements that an item reads in turn q are in a tile of so many rows or columns.
#define LINE(along, size, item, q) \
  ((along) ? (item) / (TILE_K / 4) + (q) * (4 * THREADS / TILE_K) : (item) % ((size) / 4) * 4)
#define DEPTH(along, size, item, q) \
  ((along) ? (item) % (TILE_K / 4) * 4 : (item) / ((size) / 4) + (q) * (4 * THREADS / (size)))

CF_INLINE int from_of(int along, int line, int depth, int lines, int step) {
  return along ? min(line, lines - 1) * step + depth : depth * step + min(line, step - 4);
}

CF_INLINE void put_four(CF_LOCAL_PTR float *tile, const float *four, int along, int size, int skew, int line,
                        int depth) {
  if (along) {
    FOR_UNROLLED(e, 4) tile[(depth + e) * size + SKEW(skew, depth + e) + line] = four[e];
  } else {
    CF_STORE4_LOCAL(tile + depth * size + line, four);
  }
}

#define READ(step)                                                                                        \
  do {                                                                                                    \
    FOR_UNROLLED(q, A_READ / 4) { CF_LOAD4(a_part + 4 * q, a + (CF_LONG)(step) * a_advance + a_from[q]); } \
    FOR_UNROLLED(q, B_READ / 4) { CF_LOAD4(b_part + 4 * q, b + (CF_LONG)(step) * b_advance + b_from[q]); } \
  } while (0)
#define PUT(now)                                                                                                     \
  do {                                                                                                               \
    FOR_UNROLLED(q, A_READ / 4) {                                                                                    \
      put_four(a_tile[now], a_part + 4 * q, A_ALONG_DEPTH, TILE_M, A_SKEW, LINE(A_ALONG_DEPTH, TILE_M, item, q),     \
               DEPTH(A_ALONG_DEPTH, TILE_M, item, q));                                                               \
    }                                                                                                                \
    FOR_UNROLLED(q, B_READ / 4) {                                                                                    \
      put_four(b_tile[now], b_part + 4 * q, B_ALONG_DEPTH, TILE_N, B_SKEW, LINE(B_ALONG_DEPTH, TILE_N, item, q),     \
               DEPTH(B_ALONG_DEPTH, TILE_N, item, q));                                                               \
    }                                                                                                                \
  } while (0)

// One-dimensional grid: row tiles * column tiles * matrices * parts work-groups of THREADS items. Steps are elements
// from a row of memory to the next; matrices and parts of c lie one behind the other.
CF_KERNEL CF_WORK_GROUP_SIZE(THREADS, 1, 1) void winograd_gpu_product(
    CF_GLOBAL const float *a, CF_GLOBAL const float *b, CF_GLOBAL float *c, const int rows, const int columns,
    const int depth, const int a_step, const int b_step, const int c_step, const CF_LONG a_matrix,
    const CF_LONG b_matrix, const int matrices, const int parts, const int add SPAN_ARGUMENTS) {
  CF_LOCAL float a_tile[2][A_FLOATS] __attribute__((aligned(16)));
  CF_LOCAL float b_tile[2][B_FLOATS] __attribute__((aligned(16)));

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
  int step = first_step + (int)((CF_LONG)steps * part / parts);
  const int end = first_step + (int)((CF_LONG)steps * (part + 1) / parts);

  const int item = (int)CF_LOCAL_ID(0);
  const CF_LONG a_advance = A_ALONG_DEPTH ? TILE_K : TILE_K * (CF_LONG)a_step;
  const CF_LONG b_advance = B_ALONG_DEPTH ? TILE_K : TILE_K * (CF_LONG)b_step;
  a += matrix * a_matrix;
  b += matrix * b_matrix;
  int a_from[A_READ / 4], b_from[B_READ / 4];
  FOR_UNROLLED(q, A_READ / 4) {
    a_from[q] = from_of(A_ALONG_DEPTH, top + LINE(A_ALONG_DEPTH, TILE_M, item, q),
                        DEPTH(A_ALONG_DEPTH, TILE_M, item, q), rows, a_step);
  }
  FOR_UNROLLED(q, B_READ / 4) {
    b_from[q] = from_of(B_ALONG_DEPTH, left + LINE(B_ALONG_DEPTH, TILE_N, item, q),
                        DEPTH(B_ALONG_DEPTH, TILE_N, item, q), columns, b_step);
  }

  VALUE sum[BLOCK_M][BLOCK_N];
  clear(sum);
  float a_part[A_READ], b_part[B_READ];
  const int m = first_row(item), n = first_column(item);
  if (step < end) {
    READ(step);
    PUT(0);
  }
  // The last step's reads are made once more, for nothing, which is quicker than a condition around the writes.
  for (int now = 0; step < end; ++step) {
    READ(min(step + 1, end - 1));
    CF_BARRIER();
    multiply(sum, a_tile[now] + m, b_tile[now] + n, A_SKEW, B_SKEW);
    now ^= 1;
    PUT(now);
  }

  c += ((CF_LONG)part * matrices + matrix) * rows * c_step;
  FOR_UNROLLED(i, BLOCK_M) {
    const int row = top + ROW_OF(m, i);
    if (row >= rows) continue;
    for (int j = 0; j < BLOCK_N; j += 4) {
      const int column = left + COLUMN_OF(n, j);
      if (column >= columns) continue;
      CF_GLOBAL float *to = c + (CF_LONG)row * c_step + column;
      if (add) {
        float before[4];
        CF_LOAD4(before, to);
        FOR_UNROLLED(e, 4) sum[i][j + e] += before[e];
      }
      CF_STORE4(to, sum[i] + j);
    }
  }
}
