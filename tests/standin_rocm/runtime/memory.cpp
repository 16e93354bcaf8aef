// Device memory: mapped between pages that fault, with bytes behind its end that tell of a small overrun.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <map>

#include "hip_types.h"
#include "settings.h"
#include "state.h"

namespace {
constexpr size_t ALIGNMENT = 256, POISONED = 16 << 20;
constexpr unsigned char UNDEFINED = 0xff, BEHIND = 0xc5;

struct Allocation {
  char *mapped;
  size_t mapped_size, size, padded;
  int device;
  bool on_host;
};

std::mutex lock;
std::map<char *, Allocation> live;

size_t rounded(size_t size, size_t step) { return (size + step - 1) / step * step; }

// The allocation that holds an address, or the end.
std::map<char *, Allocation>::iterator find(const void *address) {
  char *at = static_cast<char *>(const_cast<void *>(address));
  auto next = live.upper_bound(at);
  if (next == live.begin()) return live.end();
  --next;
  return at < next->first + next->second.size ? next : live.end();
}

Status allocate(void **result, size_t size, bool on_host) {
  *result = nullptr;
  if (size == 0) return SUCCESS;
  const size_t limit = setting_number("STANDIN_MEMORY", 4ll << 30);
  const long most = setting_number("STANDIN_FAIL_ALLOCATION", -1);
  if (!on_host && (size > limit || count_bytes() + size > limit)) return OUT_OF_MEMORY;
  if (!on_host && most >= 0 && count_allocations(false) >= most) return OUT_OF_MEMORY;
  const size_t page = sysconf(_SC_PAGESIZE);
  const size_t padded = rounded(size, ALIGNMENT), mapped_size = rounded(padded, page) + 2 * page;
  void *mapped = mmap(nullptr, mapped_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) return OUT_OF_MEMORY;
  char *start = static_cast<char *>(mapped);
  if (mprotect(start + page, mapped_size - 2 * page, PROT_READ | PROT_WRITE) != 0) {
    munmap(mapped, mapped_size);
    return OUT_OF_MEMORY;
  }
  char *memory = start + mapped_size - page - padded;
  std::memset(memory, UNDEFINED, std::min(size, POISONED));
  std::memset(memory + size, BEHIND, padded - size);
  const std::lock_guard<std::mutex> hold(lock);
  live[memory] = {start, mapped_size, size, padded, current_device(), on_host};
  *result = memory;
  return SUCCESS;
}

Status release(void *memory, bool on_host) {
  if (memory == nullptr) return SUCCESS;
  const std::lock_guard<std::mutex> hold(lock);
  const auto found = live.find(static_cast<char *>(memory));
  if (found == live.end() || found->second.on_host != on_host) return INVALID_VALUE;
  munmap(found->second.mapped, found->second.mapped_size);
  live.erase(found);
  return SUCCESS;
}

// Whether a region lies inside one allocation on the device.
bool is_on_device(const void *address, size_t size) {
  const std::lock_guard<std::mutex> hold(lock);
  const auto found = find(address);
  if (found == live.end() || found->second.on_host) return false;
  return static_cast<const char *>(address) + size <= found->first + found->second.size;
}

Status copy(void *to, const void *from, size_t size, int kind) {
  if (size == 0) return SUCCESS;
  if (kind < 0 || kind > 4) return INVALID_MEMCPY_DIRECTION;
  const bool to_device = kind == 1 || kind == 3, from_device = kind == 2 || kind == 3;
  if ((to_device && !is_on_device(to, size)) || (from_device && !is_on_device(from, size))) return INVALID_VALUE;
  std::memmove(to, from, size);
  return SUCCESS;
}

template <typename Value>
Status fill(void *memory, Value value, size_t count) {
  if (count == 0) return SUCCESS;
  if (!is_on_device(memory, count * sizeof(Value))) return INVALID_VALUE;
  for (size_t i = 0; i < count; ++i) static_cast<Value *>(memory)[i] = value;
  return SUCCESS;
}
}  // namespace

long count_allocations(bool on_host) {
  const std::lock_guard<std::mutex> hold(lock);
  long count = 0;
  for (const auto &entry : live) count += entry.second.on_host == on_host;
  return count;
}

long count_bytes() {
  const std::lock_guard<std::mutex> hold(lock);
  long bytes = 0;
  for (const auto &entry : live) bytes += entry.second.on_host ? 0 : static_cast<long>(entry.second.size);
  return bytes;
}

bool is_memory_intact() {
  const std::lock_guard<std::mutex> hold(lock);
  for (const auto &[memory, allocation] : live)
    for (size_t i = allocation.size; i < allocation.padded; ++i)
      if (static_cast<unsigned char>(memory[i]) != BEHIND) return false;
  return true;
}

STANDIN_API int hipMalloc(void **memory, size_t size) {
  RETURN_IF_BROKEN();
  return noted(allocate(memory, size, false));
}

STANDIN_API int hipMallocAsync(void **memory, size_t size, void *) { return hipMalloc(memory, size); }

STANDIN_API int hipHostMalloc(void **memory, size_t size, unsigned) {
  RETURN_IF_BROKEN();
  return noted(allocate(memory, size, true));
}

// Memory goes back also on a broken device, which says so all the same.
STANDIN_API int hipFree(void *memory) {
  const Status status = release(memory, false);
  RETURN_IF_BROKEN();
  return noted(status);
}

STANDIN_API int hipFreeAsync(void *memory, void *) { return hipFree(memory); }

STANDIN_API int hipHostFree(void *memory) {
  const Status status = release(memory, true);
  RETURN_IF_BROKEN();
  return noted(status);
}

STANDIN_API int hipMemcpyAsync(void *to, const void *from, size_t size, int kind, void *stream) {
  RETURN_IF_BROKEN();
  return noted(is_stream(stream) ? copy(to, from, size, kind) : INVALID_HANDLE);
}

STANDIN_API int hipMemcpy(void *to, const void *from, size_t size, int kind) {
  return hipMemcpyAsync(to, from, size, kind, nullptr);
}

STANDIN_API int hipMemcpyHtoD(void *to, const void *from, size_t size) { return hipMemcpy(to, from, size, 1); }
STANDIN_API int hipMemcpyDtoH(void *to, void *from, size_t size) { return hipMemcpy(to, from, size, 2); }
STANDIN_API int hipMemcpyDtoD(void *to, void *from, size_t size) { return hipMemcpy(to, from, size, 3); }
STANDIN_API int hipMemcpyHtoDAsync(void *to, const void *from, size_t size, void *stream) {
  return hipMemcpyAsync(to, from, size, 1, stream);
}
STANDIN_API int hipMemcpyDtoHAsync(void *to, void *from, size_t size, void *stream) {
  return hipMemcpyAsync(to, from, size, 2, stream);
}
STANDIN_API int hipMemcpyDtoDAsync(void *to, void *from, size_t size, void *stream) {
  return hipMemcpyAsync(to, from, size, 3, stream);
}

STANDIN_API int hipMemsetD8Async(void *memory, unsigned char value, size_t count, void *stream) {
  RETURN_IF_BROKEN();
  return noted(is_stream(stream) ? fill(memory, value, count) : INVALID_HANDLE);
}

STANDIN_API int hipMemsetD32Async(void *memory, int value, size_t count, void *stream) {
  RETURN_IF_BROKEN();
  return noted(is_stream(stream) ? fill(memory, value, count) : INVALID_HANDLE);
}

STANDIN_API int hipMemsetAsync(void *memory, int value, size_t size, void *stream) {
  return hipMemsetD8Async(memory, static_cast<unsigned char>(value), size, stream);
}

STANDIN_API int hipMemset(void *memory, int value, size_t size) { return hipMemsetAsync(memory, value, size, nullptr); }

STANDIN_API int hipPointerGetAttributes(hipPointerAttribute_t *attributes, const void *address) {
  RETURN_IF_BROKEN();
  std::memset(attributes, 0, sizeof *attributes);
  const std::lock_guard<std::mutex> hold(lock);
  const auto found = find(address);
  if (found == live.end()) {
    attributes->device = -1;  // memory of the host that the runtime knows nothing of
    return SUCCESS;
  }
  attributes->type = found->second.on_host ? 1 : 2;
  attributes->device = found->second.device;
  attributes->devicePointer = const_cast<void *>(address);
  if (found->second.on_host) attributes->hostPointer = const_cast<void *>(address);
  return SUCCESS;
}
