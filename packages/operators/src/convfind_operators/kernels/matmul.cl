// operators-matmul: y = alpha a b, matrices or batches of them, whatever the steps.
//
// On CPUs a work-item has `per_item` blocks of 6 rows of y, 16 columns at a time. On GPUs a work-group has a tile of 64 x 64,
// a work-item 4 x 4 of it, and slices of a and b pass through local memory; neighbours in memory are read by neighbours.
#include "elements.h"
#include "walk.h"

#ifndef DTYPE
#define DTYPE FLOAT32
#endif
#ifndef A_IS
#define A_IS 1  // rows of a, on GPUs: of the elements of a sum 1 neighbours, 2 at any distance; 0: there is one
#endif
#ifndef B_IS
#define B_IS 1  // columns of b: 1 neighbours, 2 at any distance; 0: there is one
#endif
#ifndef Y_IS
#define Y_IS 1  // columns of y
#endif

#define ROWS 6
#define TILE 64
#define SLICE 16

// Rows of the walk are the batch; a_step, b_step and y_step are those of columns: a_step that of k.
CF_KERNEL ONE_ITEM void operators_matmul(CF_GLOBAL const CF_TYPE(DTYPE) *a, STEPS(a), CF_GLOBAL const CF_TYPE(DTYPE) *b, STEPS(b),
                                CF_GLOBAL CF_TYPE(DTYPE) *y, STEPS(y), ROW_SIZES, const CF_LONG a_row,
                                const CF_LONG b_row, const CF_LONG y_row, const int m, const int k, const int n,
                                const CF_LONG all, const CF_LONG per_item, const NUMBER alpha) {
#if WIDTH > 1
  const int blocks = (m + ROWS - 1) / ROWS;
  const CF_LONG first = CF_GLOBAL_ID(0) * per_item;
  for (CF_LONG index = first; index < min(first + per_item, all); ++index) {
    const Row row = ROW_OF(index / blocks);
    const int top = index % blocks * ROWS;
    CF_GLOBAL const CF_TYPE(DTYPE) *rows[ROWS];
    // Rows beyond the last are the last, and are not stored.
    for (int r = 0; r < ROWS; ++r) rows[r] = a + ROW_START(a, row) + min(top + r, m - 1) * a_row;
    CF_GLOBAL const CF_TYPE(DTYPE) *const from = b + ROW_START(b, row);
    CF_GLOBAL CF_TYPE(DTYPE) *const to = y + ROW_START(y, row) + top * y_row;
    for (int j = 0; j < n; j += WIDTH) {
      const int left = min(n - j, WIDTH);
      VALUE sums[ROWS];
#pragma unroll
      for (int r = 0; r < ROWS; ++r) sums[r] = EACH(0);
      for (int i = 0; i < k; ++i) {
        const VALUE values = LOAD_STEPPED(DTYPE, from + i * b_row + j * b_step, B_IS, b_step, left);
#pragma unroll
        for (int r = 0; r < ROWS; ++r) sums[r] += EACH(CF_LOAD(DTYPE, rows[r] + i * a_step, 0)) * values;
      }
      for (int r = 0; r < min(m - top, ROWS); ++r)
        STORE_STEPPED(DTYPE, to + r * y_row + j * y_step, Y_IS, y_step, left, EACH(alpha) * sums[r]);
    }
  }
#else
  CF_LOCAL NUMBER of_a[SLICE][TILE + 1], of_b[SLICE][TILE + 1];
  const int down = (m + TILE - 1) / TILE, across = (n + TILE - 1) / TILE;
  const int item = CF_LOCAL_ID(0), column = item % 16, line = item / 16;
  for (CF_LONG index = CF_GROUP_ID(0); index < all; index += CF_GLOBAL_SIZE(0) / 256) {
    const Row row = ROW_OF(index / across / down);
    const int top = index / across % down * TILE, begin = index % across * TILE;
    NUMBER sums[4][4];
    CF_UNROLL
    for (int r = 0; r < 4; ++r)
      CF_UNROLL
      for (int c = 0; c < 4; ++c) sums[r][c] = 0;
    for (int slice = 0; slice < k; slice += SLICE) {
      CF_BARRIER();
      for (int at = item; at < SLICE * TILE; at += 256) {
        const int a_i = A_IS == 2 ? at / TILE : at % SLICE, a_r = A_IS == 2 ? at % TILE : at / SLICE;
        const int i = slice + a_i, r = top + a_r;
        of_a[a_i][a_r] =
            i < k && r < m ? (NUMBER)CF_LOAD(DTYPE, a + ROW_START(a, row) + r * a_row + i * a_step, 0) : (NUMBER)0;
        const int b_i = B_IS == 2 ? at % SLICE : at / TILE, b_c = B_IS == 2 ? at / SLICE : at % TILE;
        const int l = slice + b_i, c = begin + b_c;
        of_b[b_i][b_c] =
            l < k && c < n ? (NUMBER)CF_LOAD(DTYPE, b + ROW_START(b, row) + l * b_row + c * b_step, 0) : (NUMBER)0;
      }
      CF_BARRIER();
      const int depth = k - slice < SLICE ? k - slice : SLICE;  // zeros beyond k would make NaN of infinity
      for (int i = 0; i < depth; ++i)
        CF_UNROLL
        for (int r = 0; r < 4; ++r)
          CF_UNROLL
          for (int c = 0; c < 4; ++c) sums[r][c] += of_a[i][line + 16 * r] * of_b[i][column + 16 * c];
    }
    CF_UNROLL
    for (int r = 0; r < 4; ++r)
      CF_UNROLL
      for (int c = 0; c < 4; ++c)
        if (top + line + 16 * r < m && begin + column + 16 * c < n)
          CF_STORE(DTYPE, y + ROW_START(y, row) + (top + line + 16 * r) * y_row + (begin + column + 16 * c) * y_step, 0,
                   alpha * sums[r][c]);
  }
#endif
}
