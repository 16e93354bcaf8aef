// A tile's results to a tensor: to = alpha * result + beta * to.

CF_INLINE void store_value(CF_GLOBAL ELEMENT *to, float result, float alpha, float beta) {
  float value = alpha * result;
  // A beta of zero never reads the tensor, which may hold NaN.
  if (beta != 0.0f) value = CF_FMA(beta, CF_LOAD(DTYPE, to, 0), value);
  CF_STORE(DTYPE, to, 0, value);
}

// Whether a row of a tile is four floats in one place, of a tensor of this width.
#if OUTPUTS == 4 && !CHANNELS_LAST
#define STORES_FOUR(width) (sizeof(ELEMENT) == 4 && (width) % 4 == 0)
#else
#define STORES_FOUR(width) 0
#endif

// As many rows and columns as there are; neighbours in a row are column_step elements apart.
CF_INLINE void store_values(CF_GLOBAL ELEMENT *to, const VALUE *result, int rows, int columns, int width,
                            int column_step, float alpha, float beta) {
  FOR_UNROLLED(i, OUTPUTS) {
    if (i >= rows) continue;
    CF_GLOBAL ELEMENT *line = to + i * width * column_step;
#if OUTPUTS == 4
    if (STORES_FOUR(width)) {
      float four[4];
      FOR_UNROLLED(j, 4) four[j] = alpha * result[4 * i + j];
      if (beta != 0.0f) {
        FOR_UNROLLED(j, 4) four[j] = CF_FMA(beta, CF_LOAD(DTYPE, line, j), four[j]);
      }
      CF_STORE4((CF_GLOBAL float *)line, four);
      continue;
    }
#endif
    FOR_UNROLLED(j, OUTPUTS) {
      if (j < columns) store_value(line + j * column_step, result[OUTPUTS * i + j], alpha, beta);
    }
  }
}

// The same, channels last, quicker where beta is zero and the whole tile is there.
CF_INLINE void store_tile(CF_GLOBAL ELEMENT *to, const VALUE *result, int rows, int columns, int width, int column_step,
                          float alpha, float beta) {
  if (beta != 0.0f || rows < OUTPUTS || columns < OUTPUTS) {
    store_values(to, result, rows, columns, width, column_step, alpha, beta);
    return;
  }
  FOR_UNROLLED(i, OUTPUTS) {
    CF_GLOBAL ELEMENT *line = to + i * width * column_step;
    FOR_UNROLLED(j, OUTPUTS) CF_STORE(DTYPE, line, j * column_step, alpha * result[OUTPUTS * i + j]);
  }
}
