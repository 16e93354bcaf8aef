// The second step where a sum is split: result = alpha * (sum of the parts, in their order) + beta * result.
#include "convfind_gpu_tile.h"

// Parts of the weight gradient lie as filter, tap, channel; with `taps` > 1 the result as filter, channel, tap. Elsewhere
// an element's channel of the result is (element / result_step) % result_channels.
// Global size: at least `size`, any work-group size.
CF_KERNEL void igemm_gpu_sum(CF_GLOBAL const VALUE *parts, CF_GLOBAL CF_TYPE(RESULT_DTYPE) *result,
                             CF_EPILOGUE_PARAMETERS, const CF_LONG size, const int count, const int channels,
                             const int taps, const int result_channels, const CF_LONG result_step) {
  const Epilogue epilogue = CF_EPILOGUE(result);
  const CF_LONG at = CF_GLOBAL_ID(0);
  if (at >= size) return;
  VALUE sum = 0;
  for (int i = 0; i < count; ++i) sum += parts[i * size + at];
  const CF_LONG filter = at / channels / taps;
  const int inner = (int)(at - filter * channels * taps);
  const CF_LONG to = filter * channels * taps + (CF_LONG)(inner % channels) * taps + inner / channels;
  CF_GLOBAL CF_TYPE(RESULT_DTYPE) *element = result + (taps > 1 ? to : at);
#if INTEGER
  CF_STORE_WHOLE_RESULT(RESULT_DTYPE, element, at / result_step % result_channels, sum, epilogue);
#else
  CF_STORE_RESULT(RESULT_DTYPE, element, at / result_step % result_channels, sum, epilogue);
#endif
}
