// What a compiled kernel and the runtime that launches it know of each other.
#pragma once

struct StandinDim {
  unsigned x, y, z;
};

// Where a work-item is.
struct StandinItem {
  StandinDim thread, block, block_dim, grid_dim;
  unsigned lane;
};

// What the lanes of a wave gave to a wave-wide operation.
struct StandinLanes {
  static constexpr unsigned MOST = 64, BYTES = 32;
  unsigned long active;  // a bit for every lane that has not ended
  alignas(32) unsigned char values[MOST][BYTES];
};

struct StandinRuntime {
  const StandinItem *item;  // the one that runs
  void (*barrier)();
  // Wait for all live lanes of the wave to give a value to the same operation.
  const StandinLanes *(*gather)(const char *operation, const void *value, unsigned size);
  // End the launch with an error.
  void (*fail)(const char *reason);
};

// A kernel as its library exports it, under the name standin_kernel_NAME.
struct StandinKernel {
  void (*call)(void *const *arguments);
  unsigned count;
  const unsigned *sizes, *alignments;  // of the arguments
};
