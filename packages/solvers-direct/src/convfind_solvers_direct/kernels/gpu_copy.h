// Elements to local memory, or zeros in their place: with ASYNC past the registers, which is for FLOAT32.
#if ASYNC
#include "convfind_nvidia.h"
#endif
#include "gpu_stage.h"

#if ASYNC
#define COPY_FOUR(to, from, is_inside) cf_copy_16(CF_SHARED(to), from, (is_inside) ? 16 : 0)
#define COPY_ONE(to, from, is_inside) cf_copy_4(CF_SHARED(to), from, (is_inside) ? 4 : 0)
#else
#define COPY_FOUR(to, from, is_inside)                                        \
  do {                                                                        \
    float four[4] = {0.0f, 0.0f, 0.0f, 0.0f};                                 \
    if (is_inside) LOAD_FOUR(four, from);                                     \
    CF_STORE4_LOCAL(to, four);                                                \
  } while (0)
#define COPY_ONE(to, from, is_inside) (*(to) = (is_inside) ? LOAD(from, 0) : 0.0f)
#endif
