// Modules, functions and launches: a code object is a shared library that is loaded from memory.
#include <dlfcn.h>
#include <elf.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <memory>

#include "code_object.h"
#include "hip_types.h"
#include "launch.h"
#include "settings.h"
#include "state.h"

namespace {
constexpr size_t LDS = 65536;
constexpr unsigned MOST_ITEMS = 1024;
void *const PARAM_POINTER = reinterpret_cast<void *>(1), *const PARAM_SIZE = reinterpret_cast<void *>(2),
            *const PARAM_END = reinterpret_cast<void *>(3);

struct Module;
struct Function {
  std::string name;
  Module *module;
  const StandinKernel *kernel;
  size_t static_lds;
};
struct Module {
  void *library = nullptr;
  unsigned wave = 64;
  StandinRuntime **runtime = nullptr;
  std::vector<LdsArray> lds;
  std::map<std::string, size_t> lds_of;  // bytes by the mangled name of the function that declares them
  std::map<std::string, std::unique_ptr<Function>> functions;

  ~Module() {
    if (library) dlclose(library);
  }
};

Registry<Module> modules;
Registry<Function> functions;
std::atomic<long> launches{0};

// Whether code for one arch runs on a device: the same processor, and no feature set the other way.
bool runs_on(const std::string &code, const std::string &device) {
  const auto wanted = split(code, ':'), there = split(device, ':');
  if (wanted[0] != there[0]) return false;
  for (size_t i = 1; i < wanted.size(); ++i) {
    std::string opposite = wanted[i];
    opposite.back() = opposite.back() == '+' ? '-' : '+';
    for (size_t j = 1; j < there.size(); ++j)
      if (there[j] == opposite) return false;
  }
  return true;
}

// Find the arrays in local memory: symbols in sections that the compiler's header names standin_lds.
void find_lds(Module &module, const char *image, const char *base) {
  const auto *header = reinterpret_cast<const Elf64_Ehdr *>(image);
  const auto *sections = reinterpret_cast<const Elf64_Shdr *>(image + header->e_shoff);
  const char *section_names = image + sections[header->e_shstrndx].sh_offset;
  for (int s = 0; s < header->e_shnum; ++s) {
    if (sections[s].sh_type != SHT_SYMTAB) continue;
    const auto *symbols = reinterpret_cast<const Elf64_Sym *>(image + sections[s].sh_offset);
    const char *names = image + sections[sections[s].sh_link].sh_offset;
    for (size_t i = 0; i < sections[s].sh_size / sizeof(Elf64_Sym); ++i) {
      const Elf64_Sym &symbol = symbols[i];
      if (ELF64_ST_TYPE(symbol.st_info) != STT_OBJECT || symbol.st_shndx >= header->e_shnum) continue;
      if (std::strncmp(section_names + sections[symbol.st_shndx].sh_name, "standin_lds", 11) != 0) continue;
      module.lds.push_back({const_cast<char *>(base) + symbol.st_value, symbol.st_size});
      const std::string name = names + symbol.st_name;
      if (name.find("standin_dynamic") == std::string::npos) module.lds_of[name] += symbol.st_size;
    }
  }
}

Status load(Module &module, const void *image) {
  const auto *object = static_cast<const CodeObject *>(image);
  if (!object->is_valid()) return INVALID_IMAGE;
  const std::string device = device_archs()[current_device()];
  if (!runs_on(object->arch, device)) return NO_BINARY_FOR_GPU;
  // The loader knows libraries by their path and by their file, so each gets both of its own.
  std::string path = setting("TMPDIR", "/tmp") + "/standin-XXXXXX";
  const int file = mkstemp(path.data());
  if (file < 0) return OUT_OF_MEMORY;
  const bool written = write(file, object->library(), object->size) == static_cast<ssize_t>(object->size);
  module.library = written ? dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL) : nullptr;
  close(file);
  unlink(path.c_str());
  if (!module.library) return INVALID_IMAGE;
  module.runtime = static_cast<StandinRuntime **>(dlsym(module.library, "standin"));
  const auto *wave = static_cast<const unsigned *>(dlsym(module.library, "standin_wave"));
  Dl_info info;
  if (!module.runtime || !wave || !dladdr(module.runtime, &info)) return INVALID_IMAGE;
  module.wave = *wave;
  find_lds(module, object->library(), static_cast<const char *>(info.dli_fbase));
  return SUCCESS;
}

// Bytes of local memory that a kernel declares. Static arrays of a function have names that begin with _ZZ, the
// length of the function's name and the name; those of other kernels do not count.
size_t static_lds(const Module &module, const std::string &kernel) {
  const auto begins = [](const std::string &kernel_name) {
    return "_ZZ" + std::to_string(kernel_name.size()) + kernel_name + "E";
  };
  size_t size = 0;
  for (const auto &[symbol, bytes] : module.lds_of) {
    const size_t digits = symbol.find_first_not_of("0123456789", 3);
    const size_t length = symbol.compare(0, 3, "_ZZ") == 0 ? std::atoi(symbol.c_str() + 3) : 0;
    const std::string owner = length ? symbol.substr(digits, length) : "";
    const bool is_kernels = length && dlsym(module.library, ("standin_kernel_" + owner).c_str()) != nullptr;
    if (!is_kernels || symbol.compare(0, begins(kernel).size(), begins(kernel)) == 0) size += bytes;
  }
  return size;
}

size_t packed_size(const StandinKernel &kernel, std::vector<size_t> &offsets) {
  size_t end = 0;
  for (unsigned i = 0; i < kernel.count; ++i) {
    end = (end + kernel.alignments[i] - 1) / kernel.alignments[i] * kernel.alignments[i];
    offsets.push_back(end);
    end += kernel.sizes[i];
  }
  return end;
}

// Fills in where each argument lies. `extra` is a list of words: pointer to a buffer, its size.
Status find_arguments(const StandinKernel &kernel, void **parameters, void **extra, std::vector<void *> &arguments) {
  if (parameters) {
    arguments.assign(parameters, parameters + kernel.count);
    return SUCCESS;
  }
  char *buffer = nullptr;
  size_t size = 0;
  for (void **word = extra; word && *word != PARAM_END; word += 2) {
    if (word[0] == PARAM_POINTER) buffer = static_cast<char *>(word[1]);
    else if (word[0] == PARAM_SIZE) size = *static_cast<size_t *>(word[1]);
    else return INVALID_VALUE;
  }
  std::vector<size_t> offsets;
  const size_t needed = packed_size(kernel, offsets);
  // A size rounded up to eight bytes is what compilers lay out too.
  if ((needed && !buffer) || size < needed || size >= (needed + 8) / 8 * 8 + 8) return INVALID_VALUE;
  for (const size_t offset : offsets) arguments.push_back(buffer + offset);
  return SUCCESS;
}
}  // namespace

long count_modules() { return modules.count(); }
long count_launches() { return launches; }

STANDIN_API int hipModuleLoadData(Module **result, const void *image) {
  RETURN_IF_BROKEN();
  auto module = std::make_unique<Module>();
  const Status status = load(*module, image);
  if (status == SUCCESS) *result = modules.add(module.release());
  return noted(status);
}

STANDIN_API int hipModuleLoadDataEx(Module **result, const void *image, unsigned, int *, void **) {
  return hipModuleLoadData(result, image);
}

STANDIN_API int hipModuleUnload(Module *module) {
  if (!modules.remove(module)) return noted(INVALID_HANDLE);
  for (const auto &entry : module->functions) functions.remove(entry.second.get());
  delete module;
  RETURN_IF_BROKEN();
  return SUCCESS;
}

STANDIN_API int hipModuleGetFunction(Function **result, Module *module, const char *name) {
  RETURN_IF_BROKEN();
  if (!modules.has(module)) return noted(INVALID_HANDLE);
  auto &function = module->functions[name];
  if (!function) {
    const void *kernel = dlsym(module->library, (std::string("standin_kernel_") + name).c_str());
    if (!kernel) {
      module->functions.erase(name);
      return noted(NOT_FOUND);
    }
    function.reset(new Function{name, module, static_cast<const StandinKernel *>(kernel), static_lds(*module, name)});
    functions.add(function.get());
  }
  *result = function.get();
  return SUCCESS;
}

STANDIN_API int hipFuncGetAttribute(int *value, int attribute, Function *function) {
  RETURN_IF_BROKEN();
  if (!functions.has(function)) return noted(INVALID_HANDLE);
  switch (attribute) {
    case 0: *value = MOST_ITEMS; return SUCCESS;
    case 1: *value = static_cast<int>(function->static_lds); return SUCCESS;
    case 2: case 3: case 4: *value = 0; return SUCCESS;
    case 8: *value = static_cast<int>(LDS - function->static_lds); return SUCCESS;
    default: return noted(INVALID_VALUE);
  }
}

STANDIN_API int hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, Function *function, int items,
                                                                   size_t dynamic_lds) {
  if (!functions.has(function) || items < 1) return noted(INVALID_VALUE);
  const size_t lds = std::max<size_t>(function->static_lds + dynamic_lds, 1);
  *blocks = static_cast<int>(std::min<size_t>(2048 / items, LDS / lds));
  return SUCCESS;
}

STANDIN_API int hipModuleLaunchKernel(Function *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                      unsigned block_x, unsigned block_y, unsigned block_z, unsigned dynamic_lds,
                                      void *stream, void **parameters, void **extra) {
  RETURN_IF_BROKEN();
  if (!functions.has(function) || !is_stream(stream)) return noted(INVALID_HANDLE);
  const std::string failing = setting("STANDIN_FAIL_LAUNCH");
  if (failing == "*" || failing == function->name) return noted(LAUNCH_FAILURE);
  const uint64_t items = uint64_t(block_x) * block_y * block_z;
  if (items == 0 || uint64_t(grid_x) * grid_y * grid_z == 0) return noted(INVALID_CONFIGURATION);
  if (items > MOST_ITEMS || grid_y > 65535 || grid_z > 65535) return noted(INVALID_CONFIGURATION);
  if (uint64_t(grid_x) * block_x >> 32 || function->static_lds + dynamic_lds > LDS) return noted(INVALID_VALUE);
  std::vector<void *> arguments;
  const Status status = find_arguments(*function->kernel, parameters, extra, arguments);
  if (status != SUCCESS) return noted(status);
  ++launches;
  const Module &module = *function->module;
  run_grid(*function->kernel, arguments.data(), {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, module.wave,
           module.runtime, module.lds);
  return SUCCESS;
}
