// The second step where a sum is split: result = alpha * (sum of the parts, in their order) + beta * result.
#define TOGETHER 8  // parts that are on their way at a time

// Parts lie one behind the other, each as the result. Global size: at least `size`, any work-group size.
CF_KERNEL void igemm_nvidia_add_parts(CF_GLOBAL const float *parts, CF_GLOBAL ELEMENT *result, const float alpha,
                                      const float beta, const CF_LONG size, const int count) {
  const CF_LONG at = CF_GLOBAL_ID(0);
  if (at >= size) return;
  parts += at;
  float sum = 0.0f;
  for (int i = 0; i < count; i += TOGETHER) {
    float some[TOGETHER];
    CF_UNROLL for (int k = 0; k < TOGETHER; ++k) some[k] = i + k < count ? parts[(i + k) * size] : 0.0f;
    CF_UNROLL for (int k = 0; k < TOGETHER; ++k) sum += some[k];
  }
  float value = alpha * sum;
  if (beta != 0.0f) value = CF_FMA(beta, CF_LOAD(DTYPE, result, at), value);
  CF_STORE(DTYPE, result, at, value);
}
