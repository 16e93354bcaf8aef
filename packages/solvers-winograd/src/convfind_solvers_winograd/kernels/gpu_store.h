// A tile's results to a tensor, all of one channel.
#include "convfind_epilogue.h"

CF_INLINE void store_value(CF_GLOBAL ELEMENT *to, float result, int channel, const Epilogue epilogue) {
  CF_STORE_RESULT(DTYPE, to, channel, result, epilogue);
}

// Whether a row of a tile is four floats in one place, of a tensor with so many elements from row to row.
#if OUTPUTS == 4 && ALONG_W && !CHANNELS_LAST && !DILATED
#define STORES_FOUR(row_step) (sizeof(ELEMENT) == 4 && (row_step) % 4 == 0)
#else
#define STORES_FOUR(row_step) 0
#endif

// As many rows and columns as there are.
CF_INLINE void store_values(CF_GLOBAL ELEMENT *to, const VALUE *result, int rows, int columns, int row_step,
                            int column_step, int channel, const Epilogue epilogue) {
  FOR_UNROLLED(i, SIZE_H(OUTPUTS)) {
    if (i >= rows) continue;
    CF_GLOBAL ELEMENT *line = to + i * row_step;
#if OUTPUTS == 4
    if (STORES_FOUR(row_step)) {
      cf_store_four_results((CF_GLOBAL float *)line, channel, 0, result + 4 * i, epilogue);
      continue;
    }
#endif
    FOR_UNROLLED(j, SIZE_W(OUTPUTS)) {
      if (j < columns) store_value(line + j * column_step, result[SIZE_W(OUTPUTS) * i + j], channel, epilogue);
    }
  }
}

// The same, channels last, quicker where the result is not read and the whole tile is there.
CF_INLINE void store_tile(CF_GLOBAL ELEMENT *to, const VALUE *result, int rows, int columns, int row_step,
                          int column_step, int channel, const Epilogue epilogue) {
  if (CF_READS_RESULT(epilogue) || rows < OUTPUTS || columns < OUTPUTS) {
    store_values(to, result, rows, columns, row_step, column_step, channel, epilogue);
    return;
  }
  FOR_UNROLLED(i, OUTPUTS) {
    CF_GLOBAL ELEMENT *line = to + i * row_step;
    FOR_UNROLLED(j, OUTPUTS) {
      CF_GLOBAL ELEMENT *at = line + j * column_step;
      CF_STORE(DTYPE, at, 0, CF_RESULT(DTYPE, at, channel, result[OUTPUTS * i + j], epilogue));
    }
  }
}
