// What the parts of the runtime share: status codes, live objects, the error that sticks.
#pragma once

#include <atomic>
#include <cstddef>
#include <mutex>
#include <string>
#include <unordered_set>

enum Status {
  SUCCESS = 0,
  INVALID_VALUE = 1,
  OUT_OF_MEMORY = 2,
  INVALID_CONFIGURATION = 9,
  INVALID_DEVICE_POINTER = 17,
  INVALID_MEMCPY_DIRECTION = 21,
  NO_DEVICE = 100,
  INVALID_DEVICE = 101,
  INVALID_IMAGE = 200,
  NO_BINARY_FOR_GPU = 209,
  INVALID_HANDLE = 400,
  NOT_FOUND = 500,
  NOT_READY = 600,
  ILLEGAL_ADDRESS = 700,
  CONTEXT_IS_DESTROYED = 709,
  LAUNCH_FAILURE = 719,
};

#define STANDIN_API extern "C" __attribute__((visibility("default")))

// Keep what hipGetLastError returns.
Status noted(Status status);

// The device's state: lost, or broken by a kernel. Calls that wait for a device or use it begin with it.
Status device_status();
Status break_device(Status status, const std::string &reason);
int current_device();

#define RETURN_IF_BROKEN()                                      \
  do {                                                          \
    const Status status_ = device_status();                     \
    if (status_ != SUCCESS) return noted(status_);              \
  } while (0)

// Objects behind handles: a handle that is not in here is refused.
template <typename Object>
class Registry {
 public:
  Object *add(Object *object) {
    const std::lock_guard<std::mutex> hold(lock_);
    live_.insert(object);
    return object;
  }
  bool has(const Object *object) {
    const std::lock_guard<std::mutex> hold(lock_);
    return live_.count(const_cast<Object *>(object)) != 0;
  }
  bool remove(Object *object) {
    const std::lock_guard<std::mutex> hold(lock_);
    return live_.erase(object) != 0;
  }
  long count() {
    const std::lock_guard<std::mutex> hold(lock_);
    return static_cast<long>(live_.size());
  }

 private:
  std::mutex lock_;
  std::unordered_set<Object *> live_;
};

long count_allocations(bool on_host);
long count_bytes();
long count_streams();
long count_events();
long count_modules();
long count_launches();

// Whether bytes behind the end of any allocation were overwritten.
bool is_memory_intact();
bool is_stream(void *stream);
