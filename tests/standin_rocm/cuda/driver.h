// CUDA's driver library, opened at the first use, and how its results become HIP's.
#pragma once

#include <cuda.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

#define STANDIN_API extern "C" __attribute__((visibility("default")))

// HIP's status codes have the numbers of CUDA's, but for a few that the entry points do not return.
#define RETURN_IF_FAILED(call)                                        \
  do {                                                                \
    const CUresult result_ = (call);                                  \
    if (result_ != CUDA_SUCCESS) return static_cast<int>(result_);    \
  } while (0)

inline void *open_first(const char *const *names) {
  for (; *names; ++names)
    if (void *library = dlopen(*names, RTLD_NOW | RTLD_GLOBAL)) return library;
  return nullptr;
}
