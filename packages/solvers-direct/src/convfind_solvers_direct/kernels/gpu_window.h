// What the GPU kernels for few channels a group share: elements, weights, results.
#include "convfind_rough_activation.h"
#include "convfind_epilogue.h"
#include "window.h"

#ifndef DTYPE
#define DTYPE FLOAT32  // elements of all tensors: FLOAT32, FLOAT16, BFLOAT16
#endif
#ifndef ITEMS
#define ITEMS 128      // of a work-group: 32..256
#endif
#ifndef UNROLLED
#define UNROLLED 1     // 0: taps are loops, for filters whose weights do not fit the registers
#endif

#define ELEMENT CF_TYPE(DTYPE)
#define LOAD(pointer, index) ((float)CF_LOAD(DTYPE, pointer, index))
#define FOR_UNROLLED(index, end) CF_UNROLL for (int index = 0; index < (end); ++index)

// Where weights begin, channels first: of the result's channel k of a group, from the source's channel c.
#define WEIGHTS_OF(group, k, c)                                   \
  (GRADIENT ? ((CF_LONG)(group) * CHANNELS + (c)) * FILTERS + (k) \
            : ((CF_LONG)(group) * FILTERS + (k)) * CHANNELS + (c))

CF_INLINE void store(CF_GLOBAL ELEMENT *to, const float sum, const int channel, const Epilogue epilogue) {
  CF_STORE_RESULT(DTYPE, to, channel, sum, epilogue);
}
