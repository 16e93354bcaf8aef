// HIP's entry points over the CUDA driver: the same names, one primary context, no fault switches.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>

#include "code_object.h"
#include "driver.h"
#include "hip_types.h"

namespace {
thread_local int device_number = 0;
std::atomic<long> allocations{0}, streams{0}, events{0}, modules{0};

CUresult use_device(int number) {
  static const CUresult ready = cuInit(0);
  if (ready != CUDA_SUCCESS) return ready;
  CUdevice device;
  CUresult result = cuDeviceGet(&device, number);
  if (result != CUDA_SUCCESS) return result;
  CUcontext context;
  static CUcontext kept[64];
  if (!kept[number]) {
    result = cuDevicePrimaryCtxRetain(&context, device);
    if (result != CUDA_SUCCESS) return result;
    kept[number] = context;
  }
  return cuCtxSetCurrent(kept[number]);
}

CUresult use_device() {
  CUcontext context;
  if (cuCtxGetCurrent(&context) == CUDA_SUCCESS && context) return CUDA_SUCCESS;
  return use_device(device_number);
}

int attribute(CUdevice_attribute which, int device) {
  int value = 0;
  cuDeviceGetAttribute(&value, which, device);
  return value;
}

CUdeviceptr address(const void *pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }
}  // namespace

STANDIN_API int hipInit(unsigned) {
  RETURN_IF_FAILED(use_device());
  return 0;
}

STANDIN_API int hipGetDeviceCount(int *count) {
  *count = 0;
  RETURN_IF_FAILED(cuInit(0));
  RETURN_IF_FAILED(cuDeviceGetCount(count));
  return 0;
}

STANDIN_API int hipGetDevice(int *device) {
  *device = device_number;
  return 0;
}

STANDIN_API int hipSetDevice(int device) {
  if (device == device_number && use_device() == CUDA_SUCCESS) return 0;
  RETURN_IF_FAILED(use_device(device));
  device_number = device;
  return 0;
}

STANDIN_API int hipGetDevicePropertiesR0600(hipDeviceProp_t *properties, int device) {
  RETURN_IF_FAILED(use_device(device));
  std::memset(properties, 0, sizeof *properties);
  RETURN_IF_FAILED(cuDeviceGetName(properties->name, sizeof properties->name, device));
  RETURN_IF_FAILED(cuDeviceTotalMem(&properties->totalGlobalMem, device));
  const int major = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
  const int minor = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
  std::snprintf(properties->gcnArchName, sizeof properties->gcnArchName, "sm_%d%d", major, minor);
  properties->major = major;
  properties->minor = minor;
  properties->warpSize = 32;
  properties->sharedMemPerBlock = attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, device);
  properties->sharedMemPerMultiprocessor = properties->maxSharedMemoryPerMultiProcessor =
      attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, device);
  properties->regsPerBlock = attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, device);
  properties->maxThreadsPerBlock = 1024;
  properties->maxThreadsDim[0] = properties->maxThreadsDim[1] = 1024;
  properties->maxThreadsDim[2] = 64;
  properties->maxGridSize[0] = 2147483647;
  properties->maxGridSize[1] = properties->maxGridSize[2] = 65535;
  properties->clockRate = attribute(CU_DEVICE_ATTRIBUTE_CLOCK_RATE, device);
  properties->memoryClockRate = attribute(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, device);
  properties->memoryBusWidth = attribute(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, device);
  properties->multiProcessorCount = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
  properties->maxThreadsPerMultiProcessor = attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, device);
  properties->l2CacheSize = attribute(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, device);
  properties->pciBusID = attribute(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, device);
  return 0;
}

STANDIN_API int hipDriverGetVersion(int *version) {
  RETURN_IF_FAILED(cuDriverGetVersion(version));
  return 0;
}

STANDIN_API int hipRuntimeGetVersion(int *version) { return hipDriverGetVersion(version); }

STANDIN_API int hipDeviceSynchronize() {
  RETURN_IF_FAILED(use_device());
  RETURN_IF_FAILED(cuCtxSynchronize());
  return 0;
}

STANDIN_API int hipMemGetInfo(size_t *free, size_t *total) {
  RETURN_IF_FAILED(use_device());
  RETURN_IF_FAILED(cuMemGetInfo(free, total));
  return 0;
}

STANDIN_API int hipMalloc(void **memory, size_t size) {
  *memory = nullptr;
  if (size == 0) return 0;
  RETURN_IF_FAILED(use_device());
  CUdeviceptr pointer;
  RETURN_IF_FAILED(cuMemAlloc(&pointer, size));
  *memory = reinterpret_cast<void *>(pointer);
  ++allocations;
  return 0;
}

STANDIN_API int hipFree(void *memory) {
  if (!memory) return 0;
  RETURN_IF_FAILED(use_device());
  RETURN_IF_FAILED(cuMemFree(address(memory)));
  --allocations;
  return 0;
}

STANDIN_API int hipMemcpyAsync(void *to, const void *from, size_t size, int kind, CUstream stream) {
  (void)kind;
  RETURN_IF_FAILED(use_device());
  RETURN_IF_FAILED(cuMemcpyAsync(address(to), address(from), size, stream));
  return 0;
}

STANDIN_API int hipMemcpy(void *to, const void *from, size_t size, int kind) {
  const int status = hipMemcpyAsync(to, from, size, kind, nullptr);
  return status ? status : hipDeviceSynchronize();
}

STANDIN_API int hipMemsetAsync(void *memory, int value, size_t size, CUstream stream) {
  RETURN_IF_FAILED(use_device());
  RETURN_IF_FAILED(cuMemsetD8Async(address(memory), static_cast<unsigned char>(value), size, stream));
  return 0;
}

STANDIN_API int hipMemsetD8Async(void *memory, unsigned char value, size_t count, CUstream stream) {
  return hipMemsetAsync(memory, value, count, stream);
}

STANDIN_API int hipMemsetD32Async(void *memory, int value, size_t count, CUstream stream) {
  RETURN_IF_FAILED(use_device());
  RETURN_IF_FAILED(cuMemsetD32Async(address(memory), static_cast<unsigned>(value), count, stream));
  return 0;
}

STANDIN_API int hipPointerGetAttributes(hipPointerAttribute_t *attributes, const void *pointer) {
  RETURN_IF_FAILED(use_device());
  std::memset(attributes, 0, sizeof *attributes);
  unsigned type = 0;
  if (cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address(pointer)) != CUDA_SUCCESS) return 0;
  attributes->type = type == CU_MEMORYTYPE_HOST ? 1 : 2;
  attributes->device = device_number;
  attributes->devicePointer = const_cast<void *>(pointer);
  return 0;
}

STANDIN_API int hipStreamCreateWithFlags(CUstream *stream, unsigned flags) {
  RETURN_IF_FAILED(use_device());
  RETURN_IF_FAILED(cuStreamCreate(stream, flags));
  ++streams;
  return 0;
}

STANDIN_API int hipStreamCreate(CUstream *stream) { return hipStreamCreateWithFlags(stream, 0); }

STANDIN_API int hipStreamDestroy(CUstream stream) {
  RETURN_IF_FAILED(cuStreamDestroy(stream));
  --streams;
  return 0;
}

STANDIN_API int hipStreamSynchronize(CUstream stream) {
  RETURN_IF_FAILED(use_device());
  RETURN_IF_FAILED(cuStreamSynchronize(stream));
  return 0;
}

STANDIN_API int hipStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
  RETURN_IF_FAILED(cuStreamWaitEvent(stream, event, flags));
  return 0;
}

STANDIN_API int hipEventCreateWithFlags(CUevent *event, unsigned flags) {
  RETURN_IF_FAILED(use_device());
  RETURN_IF_FAILED(cuEventCreate(event, flags & 3));  // blocking, no timing: the same bits
  ++events;
  return 0;
}

STANDIN_API int hipEventCreate(CUevent *event) { return hipEventCreateWithFlags(event, 0); }

STANDIN_API int hipEventDestroy(CUevent event) {
  RETURN_IF_FAILED(cuEventDestroy(event));
  --events;
  return 0;
}

STANDIN_API int hipEventRecord(CUevent event, CUstream stream) {
  RETURN_IF_FAILED(cuEventRecord(event, stream));
  return 0;
}

STANDIN_API int hipEventSynchronize(CUevent event) {
  RETURN_IF_FAILED(cuEventSynchronize(event));
  return 0;
}

STANDIN_API int hipEventElapsedTime(float *milliseconds, CUevent start, CUevent stop) {
  RETURN_IF_FAILED(cuEventElapsedTime(milliseconds, start, stop));
  return 0;
}

STANDIN_API int hipModuleLoadData(CUmodule *module, const void *image) {
  const auto *object = static_cast<const CodeObject *>(image);
  if (!object->is_valid()) return CUDA_ERROR_INVALID_IMAGE;
  RETURN_IF_FAILED(use_device());
  RETURN_IF_FAILED(cuModuleLoadData(module, object->library()));
  ++modules;
  return 0;
}

STANDIN_API int hipModuleUnload(CUmodule module) {
  RETURN_IF_FAILED(use_device());
  RETURN_IF_FAILED(cuModuleUnload(module));
  --modules;
  return 0;
}

STANDIN_API int hipModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
  RETURN_IF_FAILED(use_device());
  RETURN_IF_FAILED(cuModuleGetFunction(function, module, name));
  return 0;
}

STANDIN_API int hipFuncGetAttribute(int *value, int attribute, CUfunction function) {
  RETURN_IF_FAILED(cuFuncGetAttribute(value, static_cast<CUfunction_attribute>(attribute), function));
  return 0;
}

// HIP's three words of `extra` are the pointer, the size and the end, numbered 1, 2 and 3; CUDA's end is 0.
STANDIN_API int hipModuleLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                      unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                                      CUstream stream, void **parameters, void **extra) {
  void *words[5] = {};
  if (extra && !parameters)
    for (int i = 0; i < 4 && extra[i] != reinterpret_cast<void *>(3); ++i) words[i] = extra[i];
  RETURN_IF_FAILED(cuLaunchKernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream,
                                  parameters, words[0] && !parameters ? words : nullptr));
  return 0;
}

STANDIN_API long standinCount(const char *what) {
  const std::string kind = what;
  if (kind == "allocations") return allocations;
  if (kind == "streams") return streams;
  if (kind == "events") return events;
  return kind == "modules" ? modules.load() : -1;
}
