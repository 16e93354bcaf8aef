// Structures that the entry points fill, laid out as HIP 6 and later have them; fields without a use are gaps.
#pragma once

#include <cstddef>

struct hipDeviceProp_t {
  char name[256], uuid[16], gap_luid[16];
  size_t totalGlobalMem, sharedMemPerBlock;
  int regsPerBlock, warpSize;
  size_t memPitch;
  int maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3], clockRate;
  size_t totalConstMem;
  int major, minor;
  size_t textureAlignment;
  char gap_texture[12];
  int multiProcessorCount, gap_timeout, integrated;
  char gap_limits[184];
  int pciBusID, pciDeviceID, pciDomainID;
  char gap_driver[12];
  int memoryClockRate, memoryBusWidth, l2CacheSize, gap_persisting, maxThreadsPerMultiProcessor;
  char gap_caches[12];
  size_t sharedMemPerMultiprocessor;
  int regsPerMultiprocessor;
  char gap_abilities[44];
  size_t sharedMemPerBlockOptin;
  char gap_reserved[456], gcnArchName[256];
  size_t maxSharedMemoryPerMultiProcessor;
  char gap_end[48];
};
static_assert(offsetof(hipDeviceProp_t, totalGlobalMem) == 288, "layout");
static_assert(offsetof(hipDeviceProp_t, multiProcessorCount) == 388, "layout");
static_assert(offsetof(hipDeviceProp_t, pciBusID) == 584, "layout");
static_assert(offsetof(hipDeviceProp_t, sharedMemPerBlockOptin) == 696, "layout");
static_assert(offsetof(hipDeviceProp_t, gcnArchName) == 1160, "layout");
static_assert(sizeof(hipDeviceProp_t) == 1472, "layout");

struct hipPointerAttribute_t {
  int type, device;  // type: 0 unknown, 1 host, 2 device
  void *devicePointer, *hostPointer;
  int isManaged;
  unsigned allocationFlags;
};

struct hipFuncAttributes {
  int binaryVersion, cacheModeCA;
  size_t constSizeBytes, localSizeBytes;
  int maxDynamicSharedSizeBytes, maxThreadsPerBlock, numRegs, preferredShmemCarveout, ptxVersion;
  size_t sharedSizeBytes;
};
