// A tile's results to a tensor: to = alpha * result + beta * to.

CF_INLINE void store_value(CF_GLOBAL ELEMENT *to, float result, float alpha, float beta) {
  float value = alpha * result;
  // A beta of zero never reads the tensor, which may hold NaN.
  if (beta != 0.0f) value = CF_FMA(beta, CF_LOAD(DTYPE, to, 0), value);
  CF_STORE(DTYPE, to, 0, value);
}

// Whether a row of a tile is four floats in one place, of a tensor with so many elements from row to row.
#if OUTPUTS == 4 && ALONG_W && !CHANNELS_LAST && !DILATED
#define STORES_FOUR(row_step) (sizeof(ELEMENT) == 4 && (row_step) % 4 == 0)
#else
#define STORES_FOUR(row_step) 0
#endif

// As many rows and columns as there are.
CF_INLINE void store_values(CF_GLOBAL ELEMENT *to, const VALUE *result, int rows, int columns, int row_step,
                            int column_step, float alpha, float beta) {
  FOR_UNROLLED(i, SIZE_H(OUTPUTS)) {
    if (i >= rows) continue;
    CF_GLOBAL ELEMENT *line = to + i * row_step;
#if OUTPUTS == 4
    if (STORES_FOUR(row_step)) {
      float four[4];
      FOR_UNROLLED(j, 4) four[j] = alpha * result[4 * i + j];
      if (beta != 0.0f) {
        FOR_UNROLLED(j, 4) four[j] = CF_FMA(beta, CF_LOAD(DTYPE, line, j), four[j]);
      }
      CF_STORE4((CF_GLOBAL float *)line, four);
      continue;
    }
#endif
    FOR_UNROLLED(j, SIZE_W(OUTPUTS)) {
      if (j < columns) store_value(line + j * column_step, result[SIZE_W(OUTPUTS) * i + j], alpha, beta);
    }
  }
}

// The same, channels last, quicker where beta is zero and the whole tile is there.
CF_INLINE void store_tile(CF_GLOBAL ELEMENT *to, const VALUE *result, int rows, int columns, int row_step,
                          int column_step, float alpha, float beta) {
  if (beta != 0.0f || rows < OUTPUTS || columns < OUTPUTS) {
    store_values(to, result, rows, columns, row_step, column_step, alpha, beta);
    return;
  }
  FOR_UNROLLED(i, OUTPUTS) {
    CF_GLOBAL ELEMENT *line = to + i * row_step;
    FOR_UNROLLED(j, OUTPUTS) CF_STORE(DTYPE, line, j * column_step, alpha * result[OUTPUTS * i + j]);
  }
}
