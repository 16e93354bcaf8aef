// The products of FFT convolution on GPUs: c = a b of many matrices of real numbers, c as [row][column]. a lies as
// [depth][row] and b as [depth][column], or with DEPTH_LAST a as [row][depth] and b as [column][depth].
#include "convfind_gpu_tile.h"

#ifndef DEPTH_LAST
#define DEPTH_LAST 0  // 0, 1: the depth of the sum lies along the operands' lines
#endif

#define A_READ (TILE_M * TILE_K / THREADS)  // elements of a that an item reads: a multiple of 4
#define B_READ (TILE_N * TILE_K / THREADS)  // and of b

// Where the four elements that an item reads in turn q are in a tile of so many rows or columns.
#if DEPTH_LAST
#define TILE_SKEW SKEW_QUADS
#define LINE(size, item, q) ((item) / (TILE_K / 4) + (q) * (4 * THREADS / TILE_K))
#define DEPTH(size, item, q) ((item) % (TILE_K / 4) * 4)
#else
#define TILE_SKEW SKEW_NONE
#define LINE(size, item, q) ((item) % ((size) / 4) * 4)
#define DEPTH(size, item, q) ((item) / ((size) / 4) + (q) * (4 * THREADS / (size)))
#endif

// Behind the depth of the sum there are zeros, also where memory holds anything; behind the last line anything.
CF_INLINE void read_four(float *four, CF_GLOBAL const float *from, int line, int at, int lines, int depth, int step) {
#if DEPTH_LAST
  const CF_LONG place = (CF_LONG)min(line, lines - 1) * step + at;
#else
  const CF_LONG place = (CF_LONG)at * step + min(line, step - 4);
#endif
  if (at < depth) {
    CF_LOAD4(four, from + place);
  } else {
    FOR_UNROLLED(e, 4) four[e] = 0.0f;
  }
}

CF_INLINE void put_four(CF_LOCAL_PTR float *tile, const float *four, int line, int at, int size) {
#if DEPTH_LAST
  FOR_UNROLLED(e, 4) tile[(at + e) * size + SKEW(TILE_SKEW, at + e) + line] = four[e];
#else
  CF_STORE4_LOCAL(tile + at * size + line, four);
#endif
}

#define READ(start)                                                                                             \
  do {                                                                                                          \
    FOR_UNROLLED(q, A_READ / 4) {                                                                               \
      read_four(a_part + 4 * q, a, top + LINE(TILE_M, item, q), (start) + DEPTH(TILE_M, item, q), rows, depth,  \
                a_step);                                                                                        \
    }                                                                                                           \
    FOR_UNROLLED(q, B_READ / 4) {                                                                               \
      read_four(b_part + 4 * q, b, left + LINE(TILE_N, item, q), (start) + DEPTH(TILE_N, item, q), columns,     \
                depth, b_step);                                                                                 \
    }                                                                                                           \
  } while (0)
#define PUT(now)                                                                                                \
  do {                                                                                                          \
    FOR_UNROLLED(q, A_READ / 4) {                                                                               \
      put_four(a_tile[now], a_part + 4 * q, LINE(TILE_M, item, q), DEPTH(TILE_M, item, q), TILE_M);             \
    }                                                                                                           \
    FOR_UNROLLED(q, B_READ / 4) {                                                                               \
      put_four(b_tile[now], b_part + 4 * q, LINE(TILE_N, item, q), DEPTH(TILE_N, item, q), TILE_N);             \
    }                                                                                                           \
  } while (0)

// One-dimensional grid: row tiles * column tiles * matrices work-groups of THREADS items. Steps are elements from a
// line of memory to the next, multiples of 4; `add`: c += a b.
CF_KERNEL CF_WORK_GROUP_SIZE(THREADS, 1, 1) void fft_gpu_product(
    CF_GLOBAL const float *a, CF_GLOBAL const float *b, CF_GLOBAL float *c, const int rows, const int columns,
    const int depth, const int a_step, const int b_step, const int c_step, const CF_LONG a_matrix,
    const CF_LONG b_matrix, const CF_LONG c_matrix, const int add) {
  CF_LOCAL float a_tile[2][TILE_FLOATS(TILE_M, TILE_SKEW)] __attribute__((aligned(16)));
  CF_LOCAL float b_tile[2][TILE_FLOATS(TILE_N, TILE_SKEW)] __attribute__((aligned(16)));

  const int row_tiles = (rows + TILE_M - 1) / TILE_M, column_tiles = (columns + TILE_N - 1) / TILE_N;
  const CF_UINT at_grid = (CF_UINT)CF_GROUP_ID(0);
  const int tile = (int)(at_grid % (CF_UINT)(row_tiles * column_tiles));
  const int matrix = (int)(at_grid / (CF_UINT)(row_tiles * column_tiles));
  const int top = tile % row_tiles * TILE_M, left = tile / row_tiles * TILE_N;
  const int item = (int)CF_LOCAL_ID(0);
  a += matrix * a_matrix;
  b += matrix * b_matrix;

  VALUE sum[BLOCK_M][BLOCK_N];
  clear(sum);
  float a_part[A_READ], b_part[B_READ];
  const int m = first_row(item), n = first_column(item);
  READ(0);
  PUT(0);
  int now = 0;
  for (int start = TILE_K; start - TILE_K < depth; start += TILE_K) {
    READ(start);
    CF_BARRIER();
    multiply(sum, a_tile[now] + m, b_tile[now] + n, TILE_SKEW, TILE_SKEW);
    now ^= 1;
    PUT(now);
  }

  c += matrix * c_matrix;
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
