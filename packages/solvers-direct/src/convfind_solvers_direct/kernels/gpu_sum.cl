// Adds up the parts of a result, a weight gradient for example.
#include "gpu_window.h"

#ifndef SHARERS
#define SHARERS 8  // items that share a result's parts: divides ITEMS
#endif

// result = alpha * (sum of `count` parts of `size` elements) + beta * result, in an order that only the sizes give.
// Global size: ITEMS for each ITEMS / SHARERS of the elements.
CF_KERNEL CF_WORK_GROUP_SIZE(ITEMS, 1, 1) void direct_gpu_sum(
    CF_GLOBAL const float *CF_RESTRICT parts, CF_GLOBAL ELEMENT *CF_RESTRICT result, const float alpha, const float beta,
    const CF_LONG size, const int count) {
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
  store(result, at, total, alpha, beta);
}
