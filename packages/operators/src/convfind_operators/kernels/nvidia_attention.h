// What attention's kernels for NVIDIA's matrix units share: elements, exponentials, sums over the lanes of a row.
#include "convfind_nvidia.h"
#include "attention.h"

#define ELEMENT CF_TYPE(DTYPE)
#define LARGER(a, b) ((a) > (b) ? (a) : (b))

CF_INLINED float exp2_of(const float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
// The number of the lane whose number differs in `bit`.
CF_INLINED float across(const float x, const int bit) {
  float y;
  asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=f"(y) : "f"(x), "r"(bit));
  return y;
}
