// LANES neighbouring channels of an item, channels last, on GPUs: loads and stores of all of them at once; and where the
// taps of its COLUMNS neighbouring results meet.
#include "convfind_together.h"
#include "gpu_window.h"

#ifndef LANES
#define LANES 1     // 1; where every channel has weights of its own and groups are a multiple of as many, 4, or 2 of 16 bits
#endif

#define COLUMN_SPAN SPAN(COLUMNS, FILTER_W, STRIDE_W, DILATION_W)
#define COLUMNS_MEET(p, j) MEET(p, j, FILTER_W, STRIDE_W, DILATION_W)
#define COLUMN_TAP(p, j) (DISTANCE(p, j, FILTER_W, STRIDE_W, DILATION_W) / DILATION_W)

#if LANES > 1
#define LOAD_LANES(array, pointer) CF_LOAD_TOGETHER(DTYPE, LANES, array, pointer)
#else
#define LOAD_LANES(array, pointer) ((array)[0] = LOAD(pointer, 0))
#endif

// Stores the results of an item's channels where CF_READS_RESULT is 0.
#define STORE_LANES CF_JOIN(STORE_LANES_, DTYPE)
#if LANES == 4
#define STORE_LANES_FLOAT32(to, channel, sums, epilogue) cf_store_four_results(to, channel, 1, sums, epilogue)
#else
#define STORE_LANES_FLOAT32 STORE_NARROW_LANES
#endif
#define STORE_LANES_FLOAT16 STORE_NARROW_LANES
#define STORE_LANES_BFLOAT16 STORE_NARROW_LANES
#define STORE_NARROW_LANES(to, channel, sums, epilogue)                                                     \
  do {                                                                                                      \
    float results[LANES];                                                                                   \
    FOR_UNROLLED(l, LANES) results[l] = CF_RESULT(DTYPE, (to) + l, (channel) + l, (sums)[l], epilogue);     \
    CF_STORE_TOGETHER(DTYPE, LANES, to, results);                                                           \
  } while (0)
