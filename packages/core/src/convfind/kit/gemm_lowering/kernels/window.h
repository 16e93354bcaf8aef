// What im2col and col2im share: the geometry of a convolution and the copy of a line.
//
// Both treat a chunk of the convolution: whole images, or some output positions of one image.
// "Columns" is the matrix between a convolution and a GEMM: channels first, for each image,
// [channel][tap][position]; channels last [image][position][group][tap][channel of the group].
#include "convfind_epilogue.h"

#ifndef DTYPE
#define DTYPE FLOAT32  // elements of x: FLOAT32, BFLOAT16, FLOAT16 (im2col: BFLOAT16 for it), and for im2col INT8
#endif
#define ELEMENT CF_TYPE(DTYPE)

#define PER_AXIS(name) const int name##_d, const int name##_h, const int name##_w

// Sizes of x, of the filter and of y, then steps and the padding at the front.
#define WINDOW PER_AXIS(x), PER_AXIS(f), PER_AXIS(y), PER_AXIS(stride), PER_AXIS(dilation), PER_AXIS(pad)

// All indices from the work-item's own along an axis on, in steps of the launch.
#define FOR_EACH(index, axis, end) \
  for (int index = CF_GLOBAL_ID(axis); index < (end); index += CF_GLOBAL_SIZE(axis))

#ifndef COPIES
#define COPIES 0  // 1: im2col, which copies lines
#endif

// A CPU treats one work-item as one work-group.
#if BLOCK > 1
#define ITEMS CF_WORK_GROUP_SIZE(1, 1, 1)
#else
#define ITEMS
#endif

CF_INLINE int ceil_quotient(int value, int step) {
  if (value <= 0) return 0;
  return step == 1 ? value : (int)(((CF_UINT)value + step - 1) / step);
}

#if COPIES
// to[i] = line[at + i * step], zero where that is outside 0 .. size - 1.
CF_INLINE void copy_line(CF_GLOBAL ELEMENT *to, CF_GLOBAL const ELEMENT *line, int count, int at, int step,
                         int size) {
  if (count == 1) {
    *to = at >= 0 && at < size ? line[at] : (ELEMENT)0;
    return;
  }
  const int low = min(count, ceil_quotient(-at, step));
  const int high = max(low, min(count, ceil_quotient(size - at, step)));
  for (int i = 0; i < low; ++i) to[i] = 0;
  if (step == 1)
    for (int i = low; i < high; ++i) to[i] = line[at + i];
  else if (step == 2)  // a constant step becomes shuffles of vectors
    for (int i = low; i < high; ++i) to[i] = line[at + 2 * i];
  else
    for (int i = low; i < high; ++i) to[i] = line[at + (CF_LONG)i * step];
  for (int i = high; i < count; ++i) to[i] = 0;
}
#endif

// The output index whose window has its tap at input position `at` (padding included), or -1.
CF_INLINE int output_index(int at, int step, int size) {
  if (at < 0) return -1;
  if (step == 1) return at < size ? at : -1;
  const int index = at / step;
  return index * step == at && index < size ? index : -1;
}
