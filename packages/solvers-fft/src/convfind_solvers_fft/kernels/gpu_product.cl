// The products of FFT convolution on GPUs: c = a * b for many matrices of real numbers, of which a lies as [depth][row],
// b as [depth][column] and c as [row][column].
#include "convfind_gpu_tile.h"

#define A_READ (TILE_M * TILE_K / THREADS)  // elements of a that an item reads: a multiple of 4
#define B_READ (TILE_N * TILE_K / THREADS)  // and of b

// Where the four elements that an item reads in turn q are in a tile of so many rows or columns.
#define LINE(size, item) ((item) % ((size) / 4) * 4)
#define DEPTH(size, item, q) ((item) / ((size) / 4) + (q) * (4 * THREADS / (size)))

// Behind the depth of the sum there are zeros, also where memory holds anything.
CF_INLINE void read_four(float *four, CF_GLOBAL const float *from, int there) {
  if (there) {
    CF_LOAD4(four, from);
  } else {
    FOR_UNROLLED(e, 4) four[e] = 0.0f;
  }
}

#define READ(start)                                                                                             \
  do {                                                                                                          \
    FOR_UNROLLED(q, A_READ / 4) {                                                                               \
      const int at = (start) + DEPTH(TILE_M, item, q);                                                          \
      read_four(a_part + 4 * q, a + (CF_LONG)at * a_step, at < depth);                                          \
    }                                                                                                           \
    FOR_UNROLLED(q, B_READ / 4) {                                                                               \
      const int at = (start) + DEPTH(TILE_N, item, q);                                                          \
      read_four(b_part + 4 * q, b + (CF_LONG)at * b_step, at < depth);                                          \
    }                                                                                                           \
  } while (0)
#define PUT(now)                                                                                                \
  do {                                                                                                          \
    FOR_UNROLLED(q, A_READ / 4) {                                                                               \
      CF_STORE4_LOCAL(a_tile[now] + DEPTH(TILE_M, item, q) * TILE_M + LINE(TILE_M, item), a_part + 4 * q);      \
    }                                                                                                           \
    FOR_UNROLLED(q, B_READ / 4) {                                                                               \
      CF_STORE4_LOCAL(b_tile[now] + DEPTH(TILE_N, item, q) * TILE_N + LINE(TILE_N, item), b_part + 4 * q);      \
    }                                                                                                           \
  } while (0)

// One-dimensional grid: row tiles * column tiles * matrices work-groups of THREADS items. Steps are elements from a row
// of memory to the next, multiples of 4 that are filled up with anything.
CF_KERNEL CF_WORK_GROUP_SIZE(THREADS, 1, 1) void fft_gpu_product(
    CF_GLOBAL const float *a, CF_GLOBAL const float *b, CF_GLOBAL float *c, const int rows, const int columns,
    const int depth, const int a_step, const int b_step, const CF_LONG a_matrix, const CF_LONG b_matrix,
    const CF_LONG c_matrix) {
  CF_LOCAL float a_tile[2][TILE_FLOATS(TILE_M, SKEW_NONE)] __attribute__((aligned(16)));
  CF_LOCAL float b_tile[2][TILE_FLOATS(TILE_N, SKEW_NONE)] __attribute__((aligned(16)));

  const int row_tiles = (rows + TILE_M - 1) / TILE_M, column_tiles = (columns + TILE_N - 1) / TILE_N;
  const CF_UINT at_grid = (CF_UINT)CF_GROUP_ID(0);
  const int tile = (int)(at_grid % (CF_UINT)(row_tiles * column_tiles));
  const int matrix = (int)(at_grid / (CF_UINT)(row_tiles * column_tiles));
  const int top = tile % row_tiles * TILE_M, left = tile / row_tiles * TILE_N;
  const int item = (int)CF_LOCAL_ID(0);
  a += matrix * a_matrix + min(top + LINE(TILE_M, item), a_step - 4);
  b += matrix * b_matrix + min(left + LINE(TILE_N, item), b_step - 4);

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
    multiply(sum, a_tile[now] + m, b_tile[now] + n, SKEW_NONE, SKEW_NONE);
    now ^= 1;
    PUT(now);
  }

  c += matrix * c_matrix;
  FOR_UNROLLED(i, BLOCK_M) {
    const int row = top + ROW_OF(m, i);
    if (row >= rows) continue;
    for (int j = 0; j < BLOCK_N; j += 4) {
      const int column = left + COLUMN_OF(n, j);
      if (column < columns) CF_STORE4(c + (CF_LONG)row * b_step + column, sum[i] + j);
    }
  }
}
