// Products of transformed tiles and weights on CPU devices, point by point.
#ifndef CPU_POINTS_H
#define CPU_POINTS_H

// sums[tile][filter] (+)= values[tile][channel] * weights[channel][filter] in registers. The first
// tiles of a point fetch the weights of the next one: they come from memory.
INLINE void multiply(const int rows, const int depth, DATA_SPACE const float *values, const int span,
                     WEIGHT_SPACE const float *weights, float *sums, const bool first,
                     const bool fetches) {
  float16 sum[MR][VECTORS];
#pragma unroll
  for (int i = 0; i < rows; i++)
#pragma unroll
    for (int j = 0; j < VECTORS; j++)
      sum[i][j] = first ? (float16)(0.0f) : vload16(j, sums + i * NR);
  for (int c0 = 0; c0 < depth; c0 += VEC, values += span * VEC, weights += VEC * NR)
    for (int c = 0; c < min(VEC, depth - c0); c++) {
      float16 right[VECTORS];
#if PACKED
      if (fetches) {
#pragma unroll
        for (int j = 0; j < VECTORS; j++) PREFETCH(weights + POINT_STEP + c * NR + j * VEC);
      }
#endif
#pragma unroll
      for (int j = 0; j < VECTORS; j++) right[j] = vload16(c * VECTORS + j, weights);
#pragma unroll
      for (int i = 0; i < rows; i++) {
        const float16 left = values[i * VEC + c];
#pragma unroll
        for (int j = 0; j < VECTORS; j++) sum[i][j] = fma(left, right[j], sum[i][j]);
      }
    }
#pragma unroll
  for (int i = 0; i < rows; i++)
#pragma unroll
    for (int j = 0; j < VECTORS; j++) vstore16(sum[i][j], j, sums + i * NR);
}

// The products of one point, `count` tiles and NR filters.
INLINE void multiply_tiles(const int count, const int depth, DATA_SPACE const float *values,
                           const int span, WEIGHT_SPACE const float *weights, float *sums,
                           const bool first) {
  for (int t = 0, rows; t < count; t += rows, values += rows * VEC, sums += rows * NR) {
    const int rest = count - t;
    if (MR > 8 && rest > 8 && (rest <= MR || rest > 16)) {  // 16 are two times 8
      rows = MR;
      multiply(MR, depth, values, span, weights, sums, first, t == 0);
    } else if (MR > 4 && rest > 4) {
      rows = min(MR, 8);
      multiply(MR < 8 ? MR : 8, depth, values, span, weights, sums, first, t == 0);
    } else {
      rows = 4;
      multiply(4, depth, values, span, weights, sums, first, t == 0);
    }
  }
}

#endif  // CPU_POINTS_H
