// PTX of nvidia_stages.cl: stores of runs of memory, and of what waves agree on.
//
// Tests for other devices put plain C in the place of this file and of the headers of PTX that it includes.
#include "convfind_nvidia_barrier.h"

// Stores a run of memory, as copy_run copies one: it runs on, and its source may be written again after runs_stored.
CF_INLINED void store_run(CF_GLOBAL float *to, CF_LOCAL_PTR const float *from, const CF_UINT bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(CF_SHARED(from)), "r"(bytes)
               : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
CF_INLINED void runs_stored(void) { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }

// Stores a four at once, which the compiler may split elsewhere, where it stands among what is volatile.
CF_INLINED void store_four(CF_GLOBAL float *to, const float *four) {
  asm volatile("st.global.v4.f32 [%0], {%1,%2,%3,%4};" ::"l"(to), "f"(four[0]), "f"(four[1]), "f"(four[2]), "f"(four[3]));
}

// The value of a wave's first lane: the compiler then knows that it is one for the wave.
CF_INLINED CF_UINT wave_first(const CF_UINT value) {
  CF_UINT same;
  asm volatile("shfl.sync.idx.b32 %0, %1, 0, 0x1f, 0xffffffff;" : "=r"(same) : "r"(value));
  return same;
}
// Counts a wave that has read what it will; whether it is the last one of `waves`, from which on the count is 0 again.
CF_INLINED int wave_is_last(CF_LOCAL_PTR CF_UINT *count, const int lane, const CF_UINT waves) {
  CF_UINT before = 0;
  CF_WAVE_BARRIER();
  if (lane == 0) {
    asm volatile("atom.acq_rel.cta.shared.add.u32 %0, [%1], 1;" : "=r"(before) : "r"(CF_SHARED(count)) : "memory");
    if (before == waves - 1) *count = 0;
  }
  return wave_first(before) == waves - 1;
}
// Lets the unit's clock go on by `cycles`.
CF_INLINED void wave_pause(const int cycles) {
  ulong begin, now;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(begin)::"memory");
  // Bounded, too.
  _Pragma("unroll 1") for (int k = 0; k < cycles; ++k) {
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(now)::"memory");
    if (now - begin >= (ulong)cycles) break;
  }
}
