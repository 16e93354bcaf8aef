// Devices, versions, errors, and the counters that tests read.
#include <algorithm>
#include <cstdio>

#include "hip_types.h"
#include "settings.h"
#include "state.h"

namespace {
thread_local Status last_error = SUCCESS;
thread_local int device_number = 0;
std::mutex broken_lock;
Status broken = SUCCESS;
std::string broken_reason;

constexpr size_t LDS = 65536;
constexpr int VERSION = 70000000;  // 7.0

struct Name {
  int status;
  const char *name, *text;
};
constexpr Name NAMES[] = {
    {SUCCESS, "hipSuccess", "no error"},
    {INVALID_VALUE, "hipErrorInvalidValue", "invalid argument"},
    {OUT_OF_MEMORY, "hipErrorOutOfMemory", "out of memory"},
    {INVALID_CONFIGURATION, "hipErrorInvalidConfiguration", "invalid configuration argument"},
    {INVALID_DEVICE_POINTER, "hipErrorInvalidDevicePointer", "invalid device pointer"},
    {INVALID_MEMCPY_DIRECTION, "hipErrorInvalidMemcpyDirection", "invalid copy direction for memcpy"},
    {NO_DEVICE, "hipErrorNoDevice", "no ROCm-capable device is detected"},
    {INVALID_DEVICE, "hipErrorInvalidDevice", "invalid device ordinal"},
    {INVALID_IMAGE, "hipErrorInvalidImage", "device kernel image is invalid"},
    {NO_BINARY_FOR_GPU, "hipErrorNoBinaryForGpu", "no kernel image is available for execution on the device"},
    {INVALID_HANDLE, "hipErrorInvalidHandle", "invalid resource handle"},
    {NOT_FOUND, "hipErrorNotFound", "named symbol not found"},
    {NOT_READY, "hipErrorNotReady", "device not ready"},
    {ILLEGAL_ADDRESS, "hipErrorIllegalAddress", "an illegal memory access was encountered"},
    {CONTEXT_IS_DESTROYED, "hipErrorContextIsDestroyed", "context is destroyed"},
    {LAUNCH_FAILURE, "hipErrorLaunchFailure", "unspecified launch failure"},
};

const Name *find_name(int status) {
  for (const Name &name : NAMES)
    if (name.status == status) return &name;
  return nullptr;
}

int device_count() { return static_cast<int>(device_archs().size()); }

Status check_device(int device) {
  if (device_count() == 0) return NO_DEVICE;
  return device >= 0 && device < device_count() ? SUCCESS : INVALID_DEVICE;
}

int compute_units() { return static_cast<int>(setting_number("STANDIN_CUS", 104)); }
size_t memory() { return static_cast<size_t>(setting_number("STANDIN_MEMORY", 4ll << 30)); }
}  // namespace

Status noted(Status status) {
  if (status != SUCCESS) last_error = status;
  return status;
}

int current_device() { return device_number; }

Status device_status() {
  if (is_set("STANDIN_LOST_DEVICE") || device_count() == 0) return NO_DEVICE;
  const std::lock_guard<std::mutex> hold(broken_lock);
  return broken;
}

Status break_device(Status status, const std::string &reason) {
  const std::lock_guard<std::mutex> hold(broken_lock);
  broken = status;
  broken_reason = reason;
  std::fprintf(stderr, "stand-in device: %s\n", reason.c_str());
  return status;
}

STANDIN_API int hipInit(unsigned) { return noted(device_status()); }

STANDIN_API int hipGetDeviceCount(int *count) {
  *count = is_set("STANDIN_LOST_DEVICE") ? 0 : device_count();
  return noted(*count ? SUCCESS : NO_DEVICE);
}

STANDIN_API int hipGetDevice(int *device) {
  *device = device_number;
  return noted(check_device(device_number));
}

STANDIN_API int hipSetDevice(int device) {
  const Status status = check_device(device);
  if (status == SUCCESS) device_number = device;
  return noted(status);
}

STANDIN_API int hipDeviceGet(int *device, int ordinal) {
  *device = ordinal;
  return noted(check_device(ordinal));
}

STANDIN_API int hipDeviceGetName(char *name, int size, int device) {
  const Status status = check_device(device);
  if (status == SUCCESS) std::snprintf(name, size, "Stand-in on the CPU");
  return noted(status);
}

STANDIN_API int hipDeviceTotalMem(size_t *bytes, int device) {
  *bytes = memory();
  return noted(check_device(device));
}

STANDIN_API int hipMemGetInfo(size_t *free, size_t *total) {
  RETURN_IF_BROKEN();
  *total = memory();
  *free = *total - std::min<size_t>(*total, count_bytes());
  return SUCCESS;
}

STANDIN_API int hipGetDevicePropertiesR0600(hipDeviceProp_t *properties, int device) {
  const Status status = check_device(device);
  if (status != SUCCESS) return noted(status);
  const std::string arch = device_archs()[device];
  std::memset(properties, 0, sizeof *properties);
  std::snprintf(properties->name, sizeof properties->name, "Stand-in on the CPU");
  std::snprintf(properties->gcnArchName, sizeof properties->gcnArchName, "%s", arch.c_str());
  properties->totalGlobalMem = memory();
  properties->sharedMemPerBlock = properties->sharedMemPerMultiprocessor = LDS;
  properties->maxSharedMemoryPerMultiProcessor = properties->sharedMemPerBlockOptin = LDS;
  properties->regsPerBlock = properties->regsPerMultiprocessor = 65536;
  properties->warpSize = wave_size(arch);
  properties->maxThreadsPerBlock = 1024;
  std::fill_n(properties->maxThreadsDim, 3, 1024);
  properties->maxGridSize[0] = 2147483647;
  properties->maxGridSize[1] = properties->maxGridSize[2] = 65535;
  properties->clockRate = 1700000;
  properties->memoryClockRate = 1600000;
  properties->memoryBusWidth = 4096;
  properties->major = arch[3] - '0';
  properties->multiProcessorCount = compute_units();
  properties->maxThreadsPerMultiProcessor = 2048;
  properties->l2CacheSize = 8 << 20;
  properties->pciBusID = device + 1;
  properties->totalConstMem = 2147483647;
  properties->textureAlignment = 256;
  return SUCCESS;
}

STANDIN_API int hipDeviceGetAttribute(int *value, int attribute, int device) {
  hipDeviceProp_t properties;
  const int status = hipGetDevicePropertiesR0600(&properties, device);
  if (status != SUCCESS) return status;
  switch (attribute) {
    case 5: *value = properties.clockRate; return SUCCESS;
    case 16: *value = properties.integrated; return SUCCESS;
    case 19: *value = properties.l2CacheSize; return SUCCESS;
    case 23: *value = properties.major; return SUCCESS;
    case 26: case 27: case 28: *value = properties.maxThreadsDim[attribute - 26]; return SUCCESS;
    case 29: case 30: case 31: *value = properties.maxGridSize[attribute - 29]; return SUCCESS;
    case 56: *value = properties.maxThreadsPerBlock; return SUCCESS;
    case 57: *value = properties.maxThreadsPerMultiProcessor; return SUCCESS;
    case 59: *value = properties.memoryBusWidth; return SUCCESS;
    case 60: *value = properties.memoryClockRate; return SUCCESS;
    case 61: *value = properties.minor; return SUCCESS;
    case 63: case 10014: *value = properties.multiProcessorCount; return SUCCESS;
    case 67: *value = properties.pciBusID; return SUCCESS;
    case 68: *value = properties.pciDeviceID; return SUCCESS;
    case 69: *value = properties.pciDomainID; return SUCCESS;
    case 71: case 72: *value = properties.regsPerBlock; return SUCCESS;
    case 74: case 75: case 76: case 10002: *value = static_cast<int>(LDS); return SUCCESS;
    case 87: *value = properties.warpSize; return SUCCESS;
    default: return noted(INVALID_VALUE);
  }
}

STANDIN_API int hipDriverGetVersion(int *version) {
  *version = VERSION;
  return SUCCESS;
}

STANDIN_API int hipRuntimeGetVersion(int *version) {
  *version = VERSION;
  return SUCCESS;
}

STANDIN_API int hipDeviceSynchronize() { return noted(device_status()); }

STANDIN_API int hipDeviceReset() {
  const std::lock_guard<std::mutex> hold(broken_lock);
  broken = SUCCESS;
  return SUCCESS;
}

STANDIN_API int hipGetLastError() {
  const Status status = last_error;
  last_error = SUCCESS;
  return status;
}

STANDIN_API int hipPeekAtLastError() { return last_error; }

STANDIN_API const char *hipGetErrorName(int status) {
  const Name *name = find_name(status);
  return name ? name->name : "hipErrorUnknown";
}

STANDIN_API const char *hipGetErrorString(int status) {
  const Name *name = find_name(status);
  return name ? name->text : "unknown error";
}

STANDIN_API int hipDrvGetErrorName(int status, const char **name) {
  *name = hipGetErrorName(status);
  return SUCCESS;
}

STANDIN_API int hipDrvGetErrorString(int status, const char **text) {
  *text = hipGetErrorString(status);
  return SUCCESS;
}

// For tests: how many objects of a kind live now, and how many kernels were launched.
STANDIN_API long standinCount(const char *what) {
  const std::string kind = what;
  if (kind == "allocations") return count_allocations(false);
  if (kind == "host allocations") return count_allocations(true);
  if (kind == "bytes") return count_bytes();
  if (kind == "streams") return count_streams();
  if (kind == "events") return count_events();
  if (kind == "modules") return count_modules();
  if (kind == "launches") return count_launches();
  return -1;
}

// For tests: why the device broke.
STANDIN_API const char *standinReason() { return broken_reason.c_str(); }
