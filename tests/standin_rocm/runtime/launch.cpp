#include "launch.h"

#include <algorithm>

#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>

#ifndef __x86_64__
#error "the switch between fibers is written for x86-64"
#endif

// Save what a callee must keep, exchange the stacks, restore: (where to keep the old one, the new one).
extern "C" void standin_switch(void **from, void *to);
asm(R"(
.hidden standin_switch
.globl standin_switch
.type standin_switch, @function
standin_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size standin_switch, .-standin_switch
)");

namespace {
constexpr size_t STACK = 256 << 10;
constexpr unsigned MOST_ITEMS = 1024;
constexpr unsigned char UNDEFINED = 0xff;  // NaN as a float

enum State { READY, AT_BARRIER, AT_GATHER, DONE };

struct Fiber {
  void *stack_pointer;
  StandinItem item;
  State state;
  const char *operation;
  unsigned size;
  const void *value;
  unsigned turn;  // of the two sets of values that a wave uses by turns
};

struct Wave {
  StandinLanes lanes[2];
};

struct Launch {
  const StandinKernel *kernel;
  void *const *arguments;
  unsigned wave;
  StandinRuntime runtime;
  void *scheduler;  // its stack pointer
  Fiber *current;
  std::vector<Fiber> fibers;
  std::vector<Wave> waves;
  std::string failure;
  sigjmp_buf escape;
};

std::mutex one_launch;  // a kernel's local memory is static: groups run one after the other
Launch *running = nullptr;
thread_local bool launches_here = false;
char *stacks = nullptr;

// Stacks with a page that faults below each.
char *stack_end(unsigned index) {
  const size_t page = sysconf(_SC_PAGESIZE);
  if (stacks == nullptr) {
    void *mapped = mmap(nullptr, MOST_ITEMS * STACK, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) return nullptr;
    stacks = static_cast<char *>(mapped);
    for (unsigned i = 0; i < MOST_ITEMS; ++i) mprotect(stacks + i * STACK, page, PROT_NONE);
  }
  return stacks + (index + 1) * STACK;
}

void suspend(State state) {
  Fiber *self = running->current;
  self->state = state;
  standin_switch(&self->stack_pointer, running->scheduler);
}

void fiber_main() {
  running->kernel->call(running->arguments);
  suspend(DONE);
}

void barrier() { suspend(AT_BARRIER); }

const StandinLanes *gather(const char *operation, const void *value, unsigned size) {
  Fiber *self = running->current;
  self->operation = operation;
  self->value = value;
  self->size = size;
  suspend(AT_GATHER);
  const unsigned wave = static_cast<unsigned>(self - running->fibers.data()) / running->wave;
  return &running->waves[wave].lanes[self->turn ^ 1];
}

[[noreturn]] void fail(const char *reason) {
  running->failure = reason;
  siglongjmp(running->escape, LAUNCH_FAILURE);
}

void on_signal(int signal, siginfo_t *information, void *) {
  if (!launches_here) {
    ::signal(signal, SIG_DFL);
    raise(signal);
    return;
  }
  running->failure = signal == SIGFPE   ? "division by zero"
                     : signal == SIGILL ? "trap"
                                        : "access outside of allocations";
  char where[32];
  std::snprintf(where, sizeof where, " at %p", information->si_addr);
  running->failure += where;
  siglongjmp(running->escape, signal == SIGSEGV || signal == SIGBUS ? ILLEGAL_ADDRESS : LAUNCH_FAILURE);
}

// Turns what a kernel does wrong into an error of the launch, for as long as it lives.
class SignalGuard {
 public:
  SignalGuard() {
    stack_t alternate = {};
    alternate.ss_sp = stack_;
    alternate.ss_size = sizeof stack_;
    sigaltstack(&alternate, &old_stack_);
    struct sigaction action = {};
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_ONSTACK | SA_SIGINFO;
    for (int i = 0; i < COUNT; ++i) sigaction(SIGNALS[i], &action, &old_[i]);
    launches_here = true;
  }
  ~SignalGuard() {
    launches_here = false;
    for (int i = 0; i < COUNT; ++i) sigaction(SIGNALS[i], &old_[i], nullptr);
    sigaltstack(&old_stack_, nullptr);
  }

 private:
  static constexpr int COUNT = 4, SIGNALS[COUNT] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
  struct sigaction old_[COUNT];
  stack_t old_stack_;
  char stack_[32768];
};

void start(Launch &launch, unsigned index, StandinDim block, StandinDim grid, StandinDim group) {
  Fiber &fiber = launch.fibers[index];
  fiber.item.thread = {index % block.x, index / block.x % block.y, index / (block.x * block.y)};
  fiber.item.block = group;
  fiber.item.block_dim = block;
  fiber.item.grid_dim = grid;
  fiber.item.lane = index % launch.wave;
  fiber.state = READY;
  fiber.turn = 0;
  // What the first switch pops: six registers and the address to return to, then an empty slot, since a function
  // expects the stack 8 bytes off a multiple of 16.
  void **top = reinterpret_cast<void **>(stack_end(index)) - 8;
  std::memset(top, 0, 8 * sizeof(void *));
  top[6] = reinterpret_cast<void *>(fiber_main);
  fiber.stack_pointer = top;
}

// Let a wave's operation happen if all its live lanes are at it. Returns whether it did.
bool complete_gather(Launch &launch, unsigned wave) {
  const unsigned begin = wave * launch.wave;
  const unsigned end = std::min<size_t>(begin + launch.wave, launch.fibers.size());
  const Fiber *first = nullptr;
  for (unsigned i = begin; i < end && !first; ++i)
    if (launch.fibers[i].state == AT_GATHER) first = &launch.fibers[i];
  if (!first) return false;
  StandinLanes &lanes = launch.waves[wave].lanes[first->turn];
  lanes.active = 0;
  for (unsigned i = begin; i < end; ++i) {
    const Fiber &fiber = launch.fibers[i];
    if (fiber.state == DONE) continue;
    if (fiber.state != AT_GATHER || std::strcmp(fiber.operation, first->operation) != 0 || fiber.size != first->size)
      fail((std::string(first->operation) + ": some lanes of the wave are elsewhere").c_str());
    std::memcpy(lanes.values[i - begin], fiber.value, fiber.size);
    lanes.active |= 1ul << (i - begin);
  }
  for (unsigned i = begin; i < end; ++i) {
    Fiber &fiber = launch.fibers[i];
    if (fiber.state != AT_GATHER) continue;
    fiber.state = READY;
    fiber.turn ^= 1;
  }
  return true;
}

void run_group(Launch &launch) {
  for (;;) {
    unsigned done = 0, waiting = 0;
    for (Fiber &fiber : launch.fibers) {
      if (fiber.state == READY) {
        launch.current = &fiber;
        launch.runtime.item = &fiber.item;
        standin_switch(&launch.scheduler, fiber.stack_pointer);
      }
      done += fiber.state == DONE;
      waiting += fiber.state == AT_BARRIER;
    }
    if (done == launch.fibers.size()) return;
    if (waiting == launch.fibers.size()) {
      for (Fiber &fiber : launch.fibers) fiber.state = READY;
      continue;
    }
    bool advanced = false;
    for (unsigned wave = 0; wave < launch.waves.size(); ++wave) advanced |= complete_gather(launch, wave);
    if (!advanced) fail("barrier: some items of the work-group have ended");
  }
}

void run_groups(Launch &launch, StandinDim grid, StandinDim block, const std::vector<LdsArray> &lds) {
  StandinDim group;
  for (group.z = 0; group.z < grid.z; ++group.z)
    for (group.y = 0; group.y < grid.y; ++group.y)
      for (group.x = 0; group.x < grid.x; ++group.x) {
        for (const LdsArray &array : lds) std::memset(array.start, UNDEFINED, array.size);
        for (unsigned i = 0; i < launch.fibers.size(); ++i) start(launch, i, block, grid, group);
        run_group(launch);
      }
}
}  // namespace

void run_grid(const StandinKernel &kernel, void *const *arguments, StandinDim grid, StandinDim block, unsigned wave,
              StandinRuntime **runtime, const std::vector<LdsArray> &lds) {
  const std::lock_guard<std::mutex> hold(one_launch);
  if (stack_end(0) == nullptr) {
    break_device(LAUNCH_FAILURE, "no memory for the stacks of work-items");
    return;
  }
  Launch launch{};
  launch.kernel = &kernel;
  launch.arguments = arguments;
  launch.wave = wave;
  launch.runtime = {nullptr, barrier, gather, fail};
  launch.fibers.resize(block.x * block.y * block.z);
  launch.waves.resize((launch.fibers.size() + wave - 1) / wave);
  running = &launch;
  *runtime = &launch.runtime;
  SignalGuard guard;
  const int status = sigsetjmp(launch.escape, 1);
  if (status == 0) {
    run_groups(launch, grid, block, lds);
    if (!is_memory_intact()) break_device(ILLEGAL_ADDRESS, "bytes behind the end of an allocation were written");
  } else {
    break_device(static_cast<Status>(status), launch.failure);
  }
}
