// What the three naive kernels share: element types, arguments, and how a result is written.
//
// A work-item computes one element of the result (more where a device limits the launch). Axis 0 runs
// over neighbours in memory, so what depends on the other axes is the same for all of its work-items.
#include "convfind_epilogue.h"  // computes in CF_ARITHMETIC: FLOAT32, FLOAT64; where Y_DTYPE is INT32: INT32

#ifndef DTYPE
#define DTYPE FLOAT32  // elements of x and w: FLOAT64, FLOAT32, FLOAT16, BFLOAT16, INT8
#endif
#ifndef Y_DTYPE
#define Y_DTYPE FLOAT32  // elements of y: as DTYPE; for INT8: INT32 or FLOAT32
#endif
#ifndef ACCUMULATOR
#define ACCUMULATOR FLOAT32  // running sums: FLOAT32, FLOAT64; for INT8: INT32
#endif
#ifndef CHANNELS_LAST
#define CHANNELS_LAST 0  // work-group axis 0 of the result: 0 positions, 1 channels
#endif
#if CHANNELS_LAST
#define CHANNEL_AXIS 0
#define POSITION_AXIS 1
#else
#define CHANNEL_AXIS 1
#define POSITION_AXIS 0
#endif

#define INPUT CF_TYPE(DTYPE)
#define RESULT CF_TYPE(Y_DTYPE)
#define SUM CF_TYPE(ACCUMULATOR)
#define LOAD(pointer, index) ((SUM)CF_LOAD(DTYPE, pointer, index))

// Strides of a tensor in elements; the first belongs to n (of w: to output channels).
#define STRIDES(t) \
  const CF_LONG t##_n, const CF_LONG t##_c, const CF_LONG t##_d, const CF_LONG t##_h, \
      const CF_LONG t##_w

#define PER_AXIS(name) const int name##_d, const int name##_h, const int name##_w

// Channels c and k are those of one group; sizes are of x, of the filter and of y.
#define ARGUMENTS                                                                             \
  STRIDES(x_step), STRIDES(w_step), STRIDES(y_step), const int batch, const int groups,       \
      const int c_per_group, const int k_per_group, PER_AXIS(x), PER_AXIS(f), PER_AXIS(y),    \
      PER_AXIS(stride), PER_AXIS(dilation), PER_AXIS(pad), CF_EPILOGUE_PARAMETERS

// All indices from the work-item's own along an axis on, in steps of the launch.
#define FOR_EACH(type, index, axis, end) \
  for (type index = CF_GLOBAL_ID(axis); index < (end); index += CF_GLOBAL_SIZE(axis))
