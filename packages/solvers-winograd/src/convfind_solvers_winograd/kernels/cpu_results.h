// Sums of products to results: the last transform on CPU devices, and what is stored.
#ifndef CPU_RESULTS_H
#define CPU_RESULTS_H

// Rows of 4 or 8 results lie side by side in y.
#define STORE_ROWS \
  (!CHANNELS_LAST && ALONG_W && (OUTPUTS == 4 || OUTPUTS == 8) && !DILATED && !HALF)
#if OUTPUTS == 4
typedef float4 Line;
#define VLOAD_LINE vload4
#define VSTORE_LINE vstore4
#else
typedef float8 Line;
#define VLOAD_LINE vload8
#define VSTORE_LINE vstore8
#endif
#ifdef CF_ACTIVATION
CF_DEFINE_ACTIVATION(activated_line, Line)
#define ACTIVATED_LINE(line, epilogue) activated_line(line, (epilogue).a, (epilogue).b, (epilogue).c)
#else
#define ACTIVATED_LINE(line, epilogue) (line)
#endif

// The results of one tile and up to 16 filters; sums are `step` vectors apart.
INLINE void store_tile(const float16 *sums, const int step, __global ELEMENT *y, int row, int column,
                       int row_step, int column_step, int filters, int height, int width,
                       long y_pixel, long y_filter, const Epilogue epilogue) {
  const int rows = SIZE_H(OUTPUTS), columns = SIZE_W(OUTPUTS);
  float16 results[(AREA(OUTPUTS) + VEC - 1) / VEC * VEC];
  TRANSFORM_BOTH(transform_result, sums, step, N, results, OUTPUTS);
  const float16 bias = biases_of(epilogue, 0, filters);
  const Epilogue rest = cf_epilogue_of_scaled(epilogue);
#pragma unroll
  for (int i = 0; i < rows * columns; i++) results[i] = BIASED(results[i], bias, epilogue);
  y += ((long)row * width + column) * y_pixel;
#if STORE_ROWS
  if (row + rows <= height && column + columns <= width) {
#pragma unroll
    for (int i = rows * columns; i % VEC; i++) results[i] = 0.0f;
#pragma unroll
    for (int first = 0; first < rows * columns; first += VEC) {
      transpose(results + first);
#pragma unroll
      for (int k = 0; k < VEC; k++)
        if (k < filters) {
          const Line *lines = (const Line *)&results[first + k];
#pragma unroll
          for (int i = 0; i < min(VEC / OUTPUTS, rows); i++) {
            __global float *to = y + k * y_filter + (first / OUTPUTS + i) * width;
            Line line = lines[i];
            if (CF_ADDS_Z(rest)) line = fma((Line)(rest.beta), VLOAD_LINE(0, CF_Z_OF(to, rest)), line);
            line = ACTIVATED_LINE(line, rest);
#ifdef CF_Z_LAST
            line = fma((Line)(rest.beta_last), VLOAD_LINE(0, CF_Z_LAST_OF(to, rest)), line);
#endif
            VSTORE_LINE(line, 0, to);
          }
        }
    }
    return;
  }
#endif
#pragma unroll
  for (int i = 0; i < rows; i++)
#pragma unroll
    for (int j = 0; j < columns; j++)
      if (row + i * row_step < height && column + j * column_step < width) {
        __global ELEMENT *to = y + (i * row_step * width + j * column_step) * y_pixel;
#if CHANNELS_LAST
        STORE_PART(results[i * columns + j], to, filters, NO_BIAS, rest);
#else
        float part[VEC];
        vstore16(results[i * columns + j], 0, part);
        for (int k = 0; k < filters; k++) {
          __global ELEMENT *one = to + k * y_filter;
          CF_STORE_BIASED(ELEMENT_TYPE, one, part[k], rest);
        }
#endif
      }
}

#endif  // CPU_RESULTS_H
