// Split floats on Hopper's matrix units, half a step at a time, 16 of 32 along the sum: while a half is multiplied the
// next one is split. Whoever includes this has included convfind_nvidia_tile.h with PRODUCTS 2. Columns have come
// split: COLUMNS_BYTES behind their floats lie their pairs, see split_columns().

// Half of an item's rows of a step, split as SplitRows are: a quarter of the registers.
typedef struct {
  CF_UINT high[2][4], high_pairs[4], low_pairs[4];
} SplitHalf;

CF_INLINED void split_half(SplitHalf *to, const CF_UINT rows, const int second, const int item) {
  const int row = item / 32 * 16 + item % 16, side = item % 32 / 16;
  CF_UNROLL for (int k = 0; k < 2; ++k)
    CF_LOAD_MATRICES(to->high[k], rows + CF_PIECE(row, 4 * second + 2 * k + side));
  CF_UNROLL for (int k = 0; k < 2; ++k) {
    CF_UINT low[4], *high = to->high[k];
    CF_UNROLL for (int i = 0; i < 4; ++i) {
      const CF_UINT nearest = cf_tf32_high(high[i]);
      low[i] = cf_tf32_low(high[i], nearest);
      high[i] = nearest;
    }
    CF_UNROLL for (int i = 0; i < 2; ++i) {
      to->high_pairs[2 * k + i] = PAIR(high[i], high[i + 2]);
      to->low_pairs[2 * k + i] = PAIR(low[i], low[i + 2]);
    }
  }
}

// Starts to add their products; with `more` of 0 the parts start from 0.
CF_INLINED void multiply_half(float parts[SUMS], const SplitHalf *rows, const CF_UINT columns, const int second,
                              const int more) {
  const ulong high = CF_MATRIX(columns) + 4 * second, pairs = CF_MATRIX(columns + COLUMNS_BYTES) + 2 * second;
  CF_WGMMA_FENCE();
  CF_WGMMA_FROM_REGISTERS(TILE_N, BFLOAT16, parts, rows->low_pairs, pairs, more);
  CF_WGMMA_FROM_REGISTERS(TILE_N, BFLOAT16, parts, rows->high_pairs, pairs + 4, 1);
  CF_UNROLL for (int k = 0; k < 2; ++k)
    CF_WGMMA_FROM_REGISTERS(TILE_N, FLOAT32, parts, rows->high[k], high + 2 * k, 1);
  CF_WGMMA_COMMIT();
}
