// Bulk copies of NVIDIA's GPUs from sm_90 on: one instruction for a run of memory, of multiples of 16 bytes and aligned so.
//
// Tests for other devices put plain C in the place of what follows the include.
#include "convfind_nvidia.h"

// A barrier that a phase after the other waits for the bytes that it expects; written before the work-group's next barrier.
CF_INLINED void bulk_init(CF_LOCAL_PTR ulong *barrier) {
  asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(CF_SHARED(barrier)) : "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
CF_INLINED void bulk_expect(CF_LOCAL_PTR ulong *barrier, const CF_UINT bytes) {
  asm volatile("{.reg .b64 s; mbarrier.arrive.expect_tx.shared.b64 s, [%0], %1;}" ::"r"(CF_SHARED(barrier)), "r"(bytes)
               : "memory");
}
CF_INLINED void bulk_load(CF_LOCAL_PTR float *to, CF_GLOBAL const float *from, const CF_UINT bytes,
                          CF_LOCAL_PTR ulong *barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(CF_SHARED(to)),
               "l"(from), "r"(bytes), "r"(CF_SHARED(barrier))
               : "memory");
}
// Waits for the end of a phase: of the first one `parity` is 0, of the second 1, then 0 again.
CF_INLINED void bulk_wait(CF_LOCAL_PTR ulong *barrier, const CF_UINT parity) {
  // Bounded, far beyond what copies take: a fault ends in a wrong result, which no find returns, and not in a device
  // that stands still.
  _Pragma("unroll 1") for (int k = 0; k < 1 << 22; ++k) {
    CF_UINT done;
    asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
                 : "=r"(done)
                 : "r"(CF_SHARED(barrier)), "r"(parity)
                 : "memory");
    if (done) break;
  }
}
// An item's stores run on; their source may be written again after bulk_stored.
CF_INLINED void bulk_store(CF_GLOBAL float *to, CF_LOCAL_PTR const float *from, const CF_UINT bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(CF_SHARED(from)), "r"(bytes)
               : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
CF_INLINED void bulk_stored(void) { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }
// Between what an item reads or writes in local memory and bulk copies from or to there.
CF_INLINED void bulk_fence(void) { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

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
