// hiprtc by g++: preprocess, translate, compile to a shared library, wrap it as a code object.
#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>

#include "code_object.h"
#include "settings.h"
#include "translate.h"

#define STANDIN_API extern "C" __attribute__((visibility("default")))

extern char **environ;

namespace {
enum Result { SUCCESS = 0, INVALID_INPUT = 3, INVALID_PROGRAM = 4, INVALID_OPTION = 5, COMPILATION = 6, INTERNAL = 11 };

struct Program {
  std::string source, name, log, code;
  std::map<std::string, std::string> headers;
  bool compiled = false;
};

std::atomic<long> programs{0};

// A folder that is gone when the compilation is over.
class Folder {
 public:
  Folder() : path_(setting("TMPDIR", "/tmp") + "/standin-XXXXXX") {
    if (!mkdtemp(path_.data())) path_.clear();
  }
  ~Folder() {
    for (const std::string &file : files_) unlink(file.c_str());
    for (auto folder = folders_.rbegin(); folder != folders_.rend(); ++folder) rmdir(folder->c_str());
    if (!path_.empty()) rmdir(path_.c_str());
  }
  const std::string &path() const { return path_; }
  std::string file(const std::string &name) {
    for (size_t slash = name.find('/'); slash != std::string::npos; slash = name.find('/', slash + 1)) {
      const std::string folder = path_ + "/" + name.substr(0, slash);
      if (mkdir(folder.c_str(), 0700) == 0) folders_.push_back(folder);
    }
    files_.push_back(path_ + "/" + name);
    return files_.back();
  }

 private:
  std::string path_;
  std::vector<std::string> files_, folders_;
};

std::string read(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

bool write(const std::string &path, const std::string &text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  return file.good();
}

// Run a command with what it says going to a file. Returns its exit status.
int run(const std::vector<std::string> &command, const std::string &log) {
  std::vector<char *> arguments;
  for (const std::string &word : command) arguments.push_back(const_cast<char *>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t child;
  const int failed = posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  int status = -1;
  if (failed || waitpid(child, &status, 0) < 0) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}


bool is_known(const std::string &processor) {
  const std::vector<std::string> old = {"gfx803",  "gfx900",  "gfx906",  "gfx908",
                                        "gfx90a", "gfx1010", "gfx1030"};
  const std::vector<std::string> recent = {"gfx940", "gfx942", "gfx1100", "gfx1101"};
  const auto has = [&](const std::vector<std::string> &list) {
    return std::find(list.begin(), list.end(), processor) != list.end();
  };
  return has(old) || (has(recent) && !is_set("STANDIN_OLD_COMPILER"));
}

struct Options {
  std::string arch;
  int wave = 0;
  std::vector<std::string> passed;
};

// Options that g++ shares are passed on; those of code generation have no meaning here.
bool parse(int count, const char *const *options, Options &parsed, std::string &log) {
  for (int i = 0; i < count; ++i) {
    const std::string option = options[i];
    const auto value = [&](const char *name) {
      const std::string prefix = std::string(name) + "=";
      return option.compare(0, prefix.size(), prefix) == 0 ? option.substr(prefix.size()) : std::string();
    };
    const std::string arch = value("--offload-arch") + value("--gpu-architecture");
    if (!arch.empty()) parsed.arch = arch;
    else if (option == "-mwavefrontsize64") parsed.wave = 64;
    else if (option == "-mno-wavefrontsize64") parsed.wave = 32;
    else if (option == "-mllvm" && i + 1 < count) ++i;  // for the code generator, which g++ has not
    else if (option == "-D" || option == "-U" || option == "-I") {
      if (i + 1 == count) return log = "argument to '" + option + "' is missing", false;
      parsed.passed.push_back(option + options[++i]);
    } else if (option.size() > 2 && option[0] == '-' && std::strchr("DUI", option[1])) parsed.passed.push_back(option);
    else if (option.compare(0, 5, "-std=") == 0) parsed.passed.push_back(option);
    else if (option.size() < 2 || option[0] != '-' || !std::strchr("OfmWwg", option[1]))
      return log = "error: unknown argument: '" + option + "'", false;
  }
  return true;
}

Result compile(Program &program, const Options &options) {
  const std::string processor = split(options.arch, ':')[0];
  if (!is_known(processor)) {
    if (is_set("STANDIN_OLD_COMPILER")) {
      std::fprintf(stderr, "LLVM ERROR: unknown processor %s\n", processor.c_str());
      std::abort();
    }
    program.log = "error: invalid target ID '" + options.arch + "'\n";
    return COMPILATION;
  }
  const std::string fault = setting("STANDIN_COMPILE");
  if (fault == "abort") std::abort();
  if (fault == "fail") {
    program.log = program.name + ":1:1: error: the stand-in was told to fail\n";
    return COMPILATION;
  }
  Folder folder;
  if (folder.path().empty()) return INTERNAL;
  const std::string source = folder.file("program.hip"), log = folder.file("log");
  const std::string preprocessed = folder.file("program.ii"), library = folder.file("program.so");
  for (const auto &[name, text] : program.headers) write(folder.file(name), text);
  write(source, "#line 1 \"" + program.name + "\"\n" + program.source);
  const int wave = options.wave ? options.wave : wave_size(options.arch);
  const std::string compiler = setting("STANDIN_CXX", "g++");
  std::vector<std::string> command = {compiler, "-E", "-x", "c++", "-std=gnu++17", "-w", "-D__HIPCC_RTC__=1",
                                      "-D__HIP_DEVICE_COMPILE__=1", "-D__HIP_PLATFORM_AMD__=1", "-D__HIP__=1",
                                      "-D__AMDGCN__=1", "-D__" + processor + "__=1",
                                      "-DSTANDIN_WAVE=" + std::to_string(wave), "-I" + folder.path(),
                                      std::string("-I") + STANDIN_INCLUDE, "-include", "standin_kernel.h"};
  command.insert(command.end(), options.passed.begin(), options.passed.end());
  command.insert(command.end(), {source, "-o", preprocessed});
  int status = run(command, log);
  program.log = read(log);
  if (status != 0) return COMPILATION;
  write(preprocessed, translated(read(preprocessed)));
  status = run({compiler, "-shared", "-fPIC", "-x", "c++-cpp-output", "-std=gnu++17", "-O1", "-march=native", "-w",
                "-fpreprocessed", "-fvisibility=hidden", "-fno-gnu-unique", "-fno-strict-aliasing", "-fno-exceptions",
                "-ffp-contract=off", "-fwrapv", "-Wl,-Bsymbolic", "-nostdlib", preprocessed, "-o", library, "-lgcc"},
               log);
  program.log += read(log);
  if (status != 0) return COMPILATION;
  const std::string bytes = read(library);
  CodeObject object = {};
  std::memcpy(object.magic, CodeObject::MAGIC, sizeof object.magic);
  std::snprintf(object.arch, sizeof object.arch, "%s", options.arch.c_str());
  object.size = bytes.size();
  program.code.assign(reinterpret_cast<const char *>(&object), sizeof object);
  program.code += bytes;
  return SUCCESS;
}
}  // namespace

STANDIN_API int hiprtcCreateProgram(Program **program, const char *source, const char *name, int count,
                                    const char **headers, const char **names) {
  if (!program || !source) return INVALID_INPUT;
  *program = new Program;
  (*program)->source = source;
  (*program)->name = name && *name ? name : "program.hip";
  for (int i = 0; i < count; ++i) (*program)->headers[names[i]] = headers[i];
  ++programs;
  return SUCCESS;
}

STANDIN_API int hiprtcCompileProgram(Program *program, int count, const char *const *options) {
  if (!program || program->compiled) return INVALID_PROGRAM;
  program->compiled = true;
  Options parsed;
  if (!parse(count, options, parsed, program->log)) return COMPILATION;
  if (parsed.arch.empty()) {
    const auto archs = device_archs();
    if (archs.empty()) return INVALID_OPTION;
    parsed.arch = archs[0];
  }
  return compile(*program, parsed);
}

STANDIN_API int hiprtcDestroyProgram(Program **program) {
  if (!program || !*program) return INVALID_PROGRAM;
  delete *program;
  *program = nullptr;
  --programs;
  return SUCCESS;
}

STANDIN_API int hiprtcGetProgramLogSize(Program *program, size_t *size) {
  if (!program) return INVALID_PROGRAM;
  *size = program->log.empty() ? 0 : program->log.size() + 1;
  return SUCCESS;
}

STANDIN_API int hiprtcGetProgramLog(Program *program, char *log) {
  if (!program) return INVALID_PROGRAM;
  if (!program->log.empty()) std::memcpy(log, program->log.c_str(), program->log.size() + 1);
  return SUCCESS;
}

STANDIN_API int hiprtcGetCodeSize(Program *program, size_t *size) {
  if (!program || program->code.empty()) return INVALID_PROGRAM;
  *size = program->code.size();
  return SUCCESS;
}

STANDIN_API int hiprtcGetCode(Program *program, char *code) {
  if (!program || program->code.empty()) return INVALID_PROGRAM;
  std::memcpy(code, program->code.data(), program->code.size());
  return SUCCESS;
}

STANDIN_API int hiprtcVersion(int *major, int *minor) {
  *major = is_set("STANDIN_OLD_COMPILER") ? 5 : 7;
  *minor = 0;
  return SUCCESS;
}

STANDIN_API const char *hiprtcGetErrorString(int result) {
  switch (result) {
    case SUCCESS: return "HIPRTC_SUCCESS";
    case INVALID_INPUT: return "HIPRTC_ERROR_INVALID_INPUT";
    case INVALID_PROGRAM: return "HIPRTC_ERROR_INVALID_PROGRAM";
    case INVALID_OPTION: return "HIPRTC_ERROR_INVALID_OPTION";
    case COMPILATION: return "HIPRTC_ERROR_COMPILATION";
    default: return "HIPRTC_ERROR_INTERNAL_ERROR";
  }
}

// For tests: how many programs live now.
STANDIN_API long standinPrograms() { return programs; }
