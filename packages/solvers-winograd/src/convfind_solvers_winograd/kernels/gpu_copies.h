// Copies from device memory to local memory that run on: PTX for sm_80 and later, in OpenCL C.
#ifndef GPU_COPIES_H
#define GPU_COPIES_H

// Sixteen bytes of device memory, past the level-1 cache, to an address in local memory, without waiting.
#define COPY(to, from) asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory")
#define COPIES_END() asm volatile("cp.async.commit_group;" ::: "memory")
#define COPIES_WAIT(left) asm volatile("cp.async.wait_group %0;" ::"n"(left) : "memory")
// An array in local memory as COPY counts it.
#define ADDRESS(array) CF_SHARED(array)

#endif  // GPU_COPIES_H
