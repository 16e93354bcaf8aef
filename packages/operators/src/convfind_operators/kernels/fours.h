// Four or eight neighbouring elements at a time on GPUs, which begin at multiples of as many: one load or store.
#ifndef OPERATORS_FOURS_H
#define OPERATORS_FOURS_H

#include "convfind_together.h"
#include "elements.h"

#ifndef FOUR
#define FOUR 1  // elements at a time: 8, where all tensors are of 16-bit types and lie so; 4, of these and float32; otherwise 1
#endif

#if FOUR == 1

#define LOAD_FOUR(dtype, array, pointer) ((array)[0] = LOAD(dtype, pointer))
#define STORE_FOUR(dtype, pointer, array) STORE(dtype, pointer, (array)[0])

#else

#define LOAD_FOUR(dtype, array, pointer) CF_LOAD_TOGETHER(dtype, FOUR, array, pointer)
#define STORE_FOUR(dtype, pointer, array) CF_STORE_TOGETHER(dtype, FOUR, pointer, array)

#endif  // FOUR

// The first `count` of them, which lie so only if they are FOUR; what is behind them is `rest`, and not stored.
#if FOUR == 1
#define LOAD_FIRST(dtype, array, pointer, count, rest) LOAD_FOUR(dtype, array, pointer)
#define STORE_FIRST(dtype, pointer, array, count) STORE_FOUR(dtype, pointer, array)
#else
#define LOAD_FIRST(dtype, array, pointer, count, rest)                                            \
  do {                                                                                            \
    if ((count) >= FOUR) {                                                                        \
      LOAD_FOUR(dtype, array, pointer);                                                           \
    } else {                                                                                      \
      for (int cf_e = 0; cf_e < FOUR; ++cf_e)                                                     \
        (array)[cf_e] = cf_e < (count) ? LOAD(dtype, (pointer) + cf_e) : (NUMBER)(rest);          \
    }                                                                                             \
  } while (0)
#define STORE_FIRST(dtype, pointer, array, count)                                                 \
  do {                                                                                            \
    if ((count) >= FOUR) {                                                                        \
      STORE_FOUR(dtype, pointer, array);                                                          \
    } else {                                                                                      \
      for (int cf_e = 0; cf_e < FOUR; ++cf_e)                                                     \
        if (cf_e < (count)) STORE(dtype, (pointer) + cf_e, (array)[cf_e]);                        \
    }                                                                                             \
  } while (0)
#endif

#endif  // OPERATORS_FOURS_H
