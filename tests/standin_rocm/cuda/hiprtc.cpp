// hiprtc over NVRTC: the same program text, CUDA's names for the few words that differ.
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "code_object.h"
#include "driver.h"

namespace {
// Of NVRTC's interface, which has the shape of hiprtc's.
struct Nvrtc {
  void *library = open_first((const char *const[]){"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", nullptr});
  template <typename... Arguments>
  int operator()(const char *name, Arguments... arguments) const {
    void *function = library ? dlsym(library, name) : nullptr;
    if (!function) return 11;  // internal error
    return reinterpret_cast<int (*)(Arguments...)>(function)(arguments...);
  }
};

const Nvrtc &nvrtc() {
  static const Nvrtc opened;
  return opened;
}

constexpr char PRELUDE[] = R"(
#define __HIPCC_RTC__ 1
#define __AMDGCN_WAVEFRONT_SIZE 32
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
struct standin_half {
  unsigned short bits;
  standin_half() = default;
  __device__ explicit standin_half(float value) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value)); }
  __device__ operator float() const {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
  }
};
#define _Float16 standin_half
#define __shfl(value, lane) __shfl_sync(0xffffffffu, value, lane)
#define __shfl_xor(value, mask) __shfl_xor_sync(0xffffffffu, value, mask)
#define __shfl_down(value, delta) __shfl_down_sync(0xffffffffu, value, delta)
#define __ballot(predicate) ((unsigned long long)__ballot_sync(0xffffffffu, predicate))
#line 1
)";

std::string code_of(void *program) {
  size_t size = 0;
  nvrtc()("nvrtcGetCUBINSize", program, &size);
  std::string code(size, '\0');
  nvrtc()("nvrtcGetCUBIN", program, &code[0]);
  CodeObject object = {};
  std::memcpy(object.magic, CodeObject::MAGIC, sizeof object.magic);
  object.size = size;
  return std::string(reinterpret_cast<const char *>(&object), sizeof object) + code;
}
}  // namespace

STANDIN_API int hiprtcVersion(int *major, int *minor) { return nvrtc()("nvrtcVersion", major, minor); }

STANDIN_API int hiprtcCreateProgram(void **program, const char *source, const char *name, int count,
                                    const char **headers, const char **names) {
  const std::string text = PRELUDE + std::string(source);
  return nvrtc()("nvrtcCreateProgram", program, text.c_str(), name, count, headers, names);
}

STANDIN_API int hiprtcCompileProgram(void *program, int count, const char *const *options) {
  std::vector<std::string> words = {"-default-device"};
  for (int i = 0; i < count; ++i) {
    std::string option = options[i];
    if (option == "-mllvm" && i + 1 < count) {  // for AMD's code generator
      ++i;
      continue;
    }
    if (option.compare(0, 15, "--offload-arch=") == 0) option = "--gpu-architecture=" + option.substr(15);
    if (option == "-ffp-contract=fast") option = "--fmad=true";
    if (option.compare(0, 2, "-O") != 0) words.push_back(option);
  }
  std::vector<const char *> pointers;
  for (const std::string &word : words) pointers.push_back(word.c_str());
  return nvrtc()("nvrtcCompileProgram", program, static_cast<int>(pointers.size()), pointers.data());
}

STANDIN_API int hiprtcDestroyProgram(void **program) { return nvrtc()("nvrtcDestroyProgram", program); }

STANDIN_API int hiprtcGetProgramLogSize(void *program, size_t *size) {
  return nvrtc()("nvrtcGetProgramLogSize", program, size);
}

STANDIN_API int hiprtcGetProgramLog(void *program, char *log) { return nvrtc()("nvrtcGetProgramLog", program, log); }

STANDIN_API int hiprtcGetCodeSize(void *program, size_t *size) {
  *size = code_of(program).size();
  return 0;
}

STANDIN_API int hiprtcGetCode(void *program, char *code) {
  const std::string bytes = code_of(program);
  std::memcpy(code, bytes.data(), bytes.size());
  return 0;
}
