// Adds up the parts of a result, a weight gradient for example.
#include "gpu_window.h"

#ifndef SHARERS
#define SHARERS 8  // items that share a result's parts: divides ITEMS
#endif

// The result of the sum of `count` parts of `size` elements, in an order that only the sizes give. An element's channel
// is (element / result_step) % result_channels.
// Global size: ITEMS for each ITEMS / SHARERS of the elements.
CF_KERNEL CF_WORK_GROUP_SIZE(ITEMS, 1, 1) void direct_gpu_sum(
    CF_GLOBAL const float *CF_RESTRICT parts, CF_GLOBAL ELEMENT *CF_RESTRICT result, CF_EPILOGUE_PARAMETERS,
    const CF_LONG size, const int count, const int result_channels, const CF_LONG result_step) {
  const Epilogue epilogue = CF_EPILOGUE(result);
  CF_LOCAL float shared[ITEMS];
  const int item = (int)CF_LOCAL_ID(0), own = ITEMS / SHARERS;
  const CF_LONG at = (CF_LONG)CF_GROUP_ID(0) * own + item % own;
  float sum = 0.0f;
  if (at < size) {
    _Pragma("unroll 8") for (int i = item / own; i < count; i += SHARERS) sum += parts[i * size + at];
  }
  shared[item] = sum;
  CF_BARRIER();
  if (item >= own || at >= size) return;
  float total = 0.0f;
  FOR_UNROLLED(s, SHARERS) total += shared[s * own + item];
  store(result + at, total, at / result_step % result_channels, epilogue);
}
