// What the items of a group or a wave do together: barriers, shuffles, votes, atomics.
#pragma once

inline void __syncthreads() { standin->barrier(); }
inline void __threadfence() {}
inline void __threadfence_block() {}
#define __builtin_amdgcn_s_barrier() standin->barrier()
#define __builtin_amdgcn_fence(...) ((void)0)
#define __builtin_amdgcn_wave_barrier() ((void)0)
#define __builtin_amdgcn_sched_barrier(...) ((void)0)
#define __builtin_amdgcn_sched_group_barrier(...) ((void)0)
#define __builtin_amdgcn_s_waitcnt(...) ((void)0)
#define __builtin_amdgcn_s_setprio(...) ((void)0)
#define __builtin_nontemporal_load(pointer) (*(pointer))
#define __builtin_nontemporal_store(value, pointer) (*(pointer) = (value))
#define __builtin_assume(condition) ((void)0)
#define __builtin_amdgcn_workitem_id_x() (threadIdx.x)
#define __builtin_amdgcn_workgroup_id_x() (blockIdx.x)
#define __builtin_amdgcn_workgroup_id_y() (blockIdx.y)
#define __builtin_amdgcn_workgroup_id_z() (blockIdx.z)

inline unsigned __lane_id() { return standin->item->lane; }

template <typename T>
inline const StandinLanes *standin_gather(const char *operation, T value) {
  static_assert(sizeof(T) <= StandinLanes::BYTES, "too wide for a wave operation");
  return standin->gather(operation, &value, sizeof(T));
}
template <typename T>
inline T standin_lane(const StandinLanes *lanes, unsigned lane) {
  if (!(lanes->active >> lane & 1)) standin->fail("wave operation reads a lane that has ended");
  return *reinterpret_cast<const T *>(lanes->values[lane]);
}

// The lane of the same segment of `width` lanes, or the own one where that is outside.
template <typename T>
inline T __shfl(T value, int source, int width = warpSize) {
  const unsigned own = __lane_id(), first = own & ~(width - 1u);
  return standin_lane<T>(standin_gather("__shfl", value), first + (source & (width - 1)));
}
template <typename T>
inline T __shfl_xor(T value, int mask, int width = warpSize) {
  const unsigned own = __lane_id(), first = own & ~(width - 1u), source = own ^ mask;
  return standin_lane<T>(standin_gather("__shfl_xor", value), source < first + width ? source : own);
}
template <typename T>
inline T __shfl_down(T value, unsigned delta, int width = warpSize) {
  const unsigned own = __lane_id(), in = own & (width - 1u);
  return standin_lane<T>(standin_gather("__shfl_down", value), in + delta < unsigned(width) ? own + delta : own);
}
template <typename T>
inline T __shfl_up(T value, unsigned delta, int width = warpSize) {
  const unsigned own = __lane_id(), in = own & (width - 1u);
  return standin_lane<T>(standin_gather("__shfl_up", value), in >= delta ? own - delta : own);
}
inline unsigned long long __ballot(int predicate) {
  const StandinLanes *lanes = standin_gather("__ballot", predicate);
  unsigned long long bits = 0;
  for (unsigned lane = 0; lane < warpSize; ++lane)
    if (lanes->active >> lane & 1 && standin_lane<int>(lanes, lane)) bits |= 1ull << lane;
  return bits;
}
inline unsigned long long __activemask() { return standin_gather("__activemask", 0)->active; }
inline int __any(int predicate) { return __ballot(predicate) != 0; }
inline int __all(int predicate) { return __ballot(!predicate) == 0; }
template <typename T>
inline T __builtin_amdgcn_readfirstlane(T value) {
  const StandinLanes *lanes = standin_gather("readfirstlane", value);
  return standin_lane<T>(lanes, __builtin_ctzl(lanes->active));
}
template <typename T>
inline T __builtin_amdgcn_readlane(T value, int lane) {
  return standin_lane<T>(standin_gather("readlane", value), lane);
}
inline int __builtin_amdgcn_ds_bpermute(int address, int value) {
  return standin_lane<int>(standin_gather("ds_bpermute", value), address / 4 % warpSize);
}

// Items run in turns, so plain reading and writing is atomic.
#define STANDIN_ATOMIC(name, expression)               \
  template <typename T>                                \
  inline T name(T *address, decltype(T()) value) {     \
    const T old = *address;                            \
    *address = (expression);                           \
    return old;                                        \
  }
STANDIN_ATOMIC(atomicAdd, old + value)
STANDIN_ATOMIC(unsafeAtomicAdd, old + value)
STANDIN_ATOMIC(atomicSub, old - value)
STANDIN_ATOMIC(atomicMax, old < value ? value : old)
STANDIN_ATOMIC(atomicMin, value < old ? value : old)
STANDIN_ATOMIC(atomicExch, value)
STANDIN_ATOMIC(atomicOr, old | value)
STANDIN_ATOMIC(atomicAnd, old &value)
template <typename T>
inline T atomicCAS(T *address, decltype(T()) expected, decltype(T()) value) {
  const T old = *address;
  if (old == expected) *address = value;
  return old;
}

// Dot products of small numbers that lie together in a register.
inline int __builtin_amdgcn_sdot4(int a, int b, int c, bool) {
  for (int i = 0; i < 4; ++i)
    c += static_cast<signed char>(a >> 8 * i) * static_cast<signed char>(b >> 8 * i);
  return c;
}
