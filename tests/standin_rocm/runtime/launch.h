// Running a kernel's work-groups, each item a fiber of its own.
#pragma once

#include <string>
#include <vector>

#include "standin_abi.h"
#include "state.h"

struct LdsArray {
  char *start;
  size_t size;
};

// Runs the whole grid. What goes wrong inside is kept as the device's error and told by the next call that waits.
void run_grid(const StandinKernel &kernel, void *const *arguments, StandinDim grid, StandinDim block, unsigned wave,
              StandinRuntime **runtime, const std::vector<LdsArray> &lds);
