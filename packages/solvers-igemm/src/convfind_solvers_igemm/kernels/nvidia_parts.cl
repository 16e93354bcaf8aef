// The second step where a sum is split: result = alpha * (sum of the parts, in their order) + beta * result.
#define TOGETHER 8  // parts that are on their way at a time

// Parts lie one behind the other, each as the result, in which an element's channel is (element / result_step) %
// result_channels. Global size: at least `size`, any work-group size.
CF_KERNEL void igemm_nvidia_add_parts(CF_GLOBAL const float *parts, CF_GLOBAL ELEMENT *result,
                                      CF_EPILOGUE_PARAMETERS, const CF_LONG size, const int count,
                                      const int result_channels, const CF_LONG result_step) {
  const Epilogue epilogue = CF_EPILOGUE(result);
  const CF_LONG at = CF_GLOBAL_ID(0);
  if (at >= size) return;
  parts += at;
  float sum = 0.0f;
  for (int i = 0; i < count; i += TOGETHER) {
    float some[TOGETHER];
    CF_UNROLL for (int k = 0; k < TOGETHER; ++k) some[k] = i + k < count ? parts[(i + k) * size] : 0.0f;
    CF_UNROLL for (int k = 0; k < TOGETHER; ++k) sum += some[k];
  }
  CF_STORE_RESULT(DTYPE, result + at, at / result_step % result_channels, sum, epilogue);
}
