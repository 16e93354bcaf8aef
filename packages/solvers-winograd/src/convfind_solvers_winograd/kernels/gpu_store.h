// A tile's results to a tensor: to = alpha * result + beta * to.
//
// As many rows and columns as there are; neighbours in a row are column_step elements apart.
CF_INLINE void store_values(CF_GLOBAL float *to, const VALUE *result, int rows, int columns, int width, int column_step,
                            float alpha, float beta) {
  FOR_UNROLLED(i, OUTPUTS) {
    if (i >= rows) continue;
    CF_GLOBAL float *line = to + i * width * column_step;
#if OUTPUTS == 4 && !CHANNELS_LAST
    if (width % 4 == 0) {
      float four[4];
      FOR_UNROLLED(j, 4) four[j] = alpha * result[4 * i + j];
      if (beta != 0.0f) {
        FOR_UNROLLED(j, 4) four[j] = CF_FMA(beta, line[j], four[j]);
      }
      CF_STORE4(line, four);
      continue;
    }
#endif
    FOR_UNROLLED(j, OUTPUTS) {
      if (j >= columns) continue;
      CF_GLOBAL float *at = line + j * column_step;
      float value = alpha * result[OUTPUTS * i + j];
      if (beta != 0.0f) value = CF_FMA(beta, *at, value);
      *at = value;
    }
  }
}
