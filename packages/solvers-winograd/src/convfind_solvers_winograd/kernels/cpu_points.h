// Products of transformed tiles and weights on CPU devices, point by point.
#ifndef CPU_POINTS_H
#define CPU_POINTS_H

// Products of a low tile that are written out one after the other: a core that executes for two threads has half of
// its places for instructions, which 12 multiply-adds with a loop around them need all of.
#ifndef STEPS
#define STEPS (MR > 8 ? 1 : 4)
#endif

// The product of one channel of each tile by one row of weights.
INLINE void add_product(float16 (*sum)[VECTORS], const int rows, DATA_SPACE const float *values,
                        WEIGHT_SPACE const float *weights, const bool fetches) {
  float16 right[VECTORS];
#if PACKED
  if (fetches) {
#pragma unroll
    for (int j = 0; j < VECTORS; j++) PREFETCH(weights + POINT_STEP + j * VEC);
  }
#endif
#pragma unroll
  for (int j = 0; j < VECTORS; j++) right[j] = vload16(j, weights);
#pragma unroll
  for (int i = 0; i < rows; i++) {
    const float16 left = values[i * VEC];
#pragma unroll
    for (int j = 0; j < VECTORS; j++) sum[i][j] = fma(left, right[j], sum[i][j]);
  }
}

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
  for (int c0 = 0; c0 < depth; c0 += VEC, values += span * VEC, weights += VEC * NR) {
    const int count = min(VEC, depth - c0), times = STEPS > 1 ? count / STEPS : 0;
    for (int n = 0; n < times; n++)
#pragma unroll
      for (int s = 0; s < STEPS; s++)
        add_product(sum, rows, values + n * STEPS + s, weights + (n * STEPS + s) * NR, fetches);
    for (int c = times * STEPS; c < count; c++) add_product(sum, rows, values + c, weights + c * NR, fetches);
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
