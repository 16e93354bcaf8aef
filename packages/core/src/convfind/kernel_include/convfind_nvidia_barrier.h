// Barriers in local memory that copies arrive at, copies of runs of memory, and waves with work of their own: PTX of NVIDIA's
// GPUs from sm_90 on.
//
// A barrier is an aligned ulong in local memory, by its address. A phase of it ends when so many items have arrived and
// so many bytes have come; phases count from 0, and who waits for one gives its number or its lowest bit.
#include "convfind_nvidia.h"

CF_INLINED void barrier_start(const CF_UINT barrier, const CF_UINT items) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(items) : "memory");
}
// Barriers that an item has started are seen by the copy engine; before the work-group's next barrier.
CF_INLINED void barriers_started(void) { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
// Arrives, and lets the phase last until so many bytes have come.
CF_INLINED void barrier_expect(const CF_UINT barrier, const CF_UINT bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
CF_INLINED void barrier_arrive(const CF_UINT barrier) {
  asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(barrier) : "memory");
}
// Arrives once an item's copies by cf_copy_16 so far are there.
CF_INLINED void barrier_arrive_copied(const CF_UINT barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(barrier) : "memory");
}
CF_INLINED void barrier_wait(const CF_UINT barrier, const CF_UINT phase) {
  // Bounded, far beyond what copies take: a fault ends in a wrong result, which no find returns, and not in a device
  // that stands still.
  _Pragma("unroll 1") for (int k = 0; k < 1 << 22; ++k) {
    CF_UINT over;
    asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
                 : "=r"(over)
                 : "r"(barrier), "r"(phase & 1)
                 : "memory");
    if (over) break;
  }
}

// A run of memory: a multiple of 16 bytes, and both addresses are. CF_FENCE_MATRICES stands between what items read or
// wrote in local memory and copies from or to there.
CF_INLINED void copy_run(const CF_UINT to, CF_GLOBAL const void *from, const CF_UINT bytes, const CF_UINT barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(from), "r"(bytes), "r"(barrier)
               : "memory");
}

// Barriers of a unit, by number, for some of a work-group's items: they wait for each other, or arrive and go on. Number 0
// is CF_BARRIER's.
#define MEET_AT(barrier, items) asm volatile("bar.sync %0, %1;" ::"r"(barrier), "n"(items) : "memory")
#define PASS_AT(barrier, items) asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "n"(items) : "memory")
// Four waves keep so many registers, or wait for so many that others gave (sm_90a). In all there are no more than
// work-items begin with, or some wait for ever.
#define GIVE_REGISTERS(count) asm volatile(CF_90A "setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(count))
#define TAKE_REGISTERS(count) asm volatile(CF_90A "setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(count))
