// The container that hiprtc makes and hipModuleLoadData reads: a header and the bytes of a shared library.
#pragma once

#include <cstdint>
#include <cstring>

struct CodeObject {
  static constexpr char MAGIC[8] = {'S', 'T', 'A', 'N', 'D', 'I', 'N', '1'};

  char magic[8];
  char arch[88];  // as given to the compiler, such as gfx90a:xnack-
  uint64_t size;  // bytes of the library, which follow

  bool is_valid() const { return std::memcmp(magic, MAGIC, sizeof magic) == 0; }
  const char *library() const { return reinterpret_cast<const char *>(this + 1); }
};
