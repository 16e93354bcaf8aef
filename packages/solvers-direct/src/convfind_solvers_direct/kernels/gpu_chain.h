// Small planes of one channel a group as they lie in memory: what passes between memory and a work-group.
//
// A line is `line` neighbouring planes, of an image or of all. A work-group has up to PLANES of a line and the same ones
// of `chain` lines, one after the other; with two buffers the next line's come while a line's are added up.
#include "gpu_window.h"

#ifndef ROWS
#define ROWS 1     // of an item: the kernels say of what
#endif
#ifndef PLANES
#define PLANES 8   // of a work-group; a multiple of four elements
#endif
#ifndef BUFFERS
#define BUFFERS 1  // 2: the next line's planes come while a line's are added up
#endif
#ifndef ASYNC
#define ASYNC 0    // 1: NVIDIA's copies past the registers, from sm_80 on
#endif
#if ASYNC
#include "convfind_nvidia.h"
#else
#define CF_COPIES_COMMIT()
#define CF_COPIES_WAIT(count)
#endif

// 1, 2 or 4 floats in local memory, aligned to as many.
#define LOAD_VECTOR(count, array, pointer) CF_JOIN(LOAD_VECTOR_, count)(array, pointer)
#define STORE_VECTOR(count, pointer, array) CF_JOIN(STORE_VECTOR_, count)(pointer, array)
#ifdef __OPENCL_VERSION__
#define LOCAL_PAIR CF_LOCAL_PTR float2
#else
#define LOCAL_PAIR float2
#endif
#define LOAD_VECTOR_4(array, pointer) CF_LOAD4_LOCAL(array, pointer)
#define STORE_VECTOR_4(pointer, array) CF_STORE4_LOCAL(pointer, array)
#define LOAD_VECTOR_2(array, pointer)                    \
  do {                                                   \
    const float2 pair = *(const LOCAL_PAIR *)(pointer);  \
    (array)[0] = pair.x;                                 \
    (array)[1] = pair.y;                                 \
  } while (0)
#define STORE_VECTOR_2(pointer, array)                   \
  do {                                                   \
    float2 pair;                                         \
    pair.x = (array)[0];                                 \
    pair.y = (array)[1];                                 \
    *(LOCAL_PAIR *)(pointer) = pair;                     \
  } while (0)
#define LOAD_VECTOR_1(array, pointer) ((array)[0] = *(pointer))
#define STORE_VECTOR_1(pointer, array) (*(pointer) = (array)[0])

// Copies a work-group's planes to local memory; CF_COPIES_COMMIT and CF_COPIES_WAIT belong to it.
CF_INLINE void fetch(CF_LOCAL_PTR float *to, CF_GLOBAL const float *from, const int item, const int floats) {
  const int fours = floats / 4;
  _Pragma("unroll 4") for (int at = item; at < fours; at += ITEMS) {
#if ASYNC
    cf_copy_16(CF_SHARED(to + 4 * at), from + 4 * at, 16);
#else
    float part[4];
    CF_LOAD4(part, from + 4 * at);
    CF_STORE4_LOCAL(to + 4 * at, part);
#endif
  }
  if (item < floats - 4 * fours) to[4 * fours + item] = from[4 * fours + item];
}

// Copies its results away, in which alpha and the bias are already.
CF_INLINE void leave(CF_GLOBAL float *to, CF_LOCAL_PTR const float *from, const int item, const int floats,
                     const Epilogue epilogue) {
  const int fours = floats / 4;
  _Pragma("unroll 4") for (int at = item; at < fours; at += ITEMS) {
    float part[4];
    CF_LOAD4_LOCAL(part, from + 4 * at);
    cf_finish_four(part, to + 4 * at, epilogue);
    CF_STORE4(to + 4 * at, part);
  }
  if (item < floats - 4 * fours) {
    const int at = 4 * fours + item;
    CF_STORE_BIASED(FLOAT32, to + at, from[at], epilogue);
  }
}
