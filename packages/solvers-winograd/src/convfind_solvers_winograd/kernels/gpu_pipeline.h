// Hopper's barriers in local memory, and copies that arrive at them: PTX for sm_90.
//
// A barrier is an aligned ulong, by its address. A phase of it ends when so many items have arrived and so many bytes
// have come; phases count from 0, and who waits for one gives its lowest bit.
#ifndef GPU_PIPELINE_H
#define GPU_PIPELINE_H

CF_INLINED void barrier_start(const CF_UINT barrier_at, const CF_UINT items) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier_at), "r"(items) : "memory");
}
CF_INLINED void barrier_arrive(const CF_UINT barrier_at) {
  asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(barrier_at) : "memory");
}
// Arrives, and lets the phase last until so many bytes have come.
CF_INLINED void barrier_expect(const CF_UINT barrier_at, const CF_UINT bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(barrier_at), "r"(bytes) : "memory");
}
CF_INLINED void barrier_wait(const CF_UINT barrier_at, const CF_UINT phase) {
  CF_UINT over = 0;
  while (!over)
    asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
                 : "=r"(over)
                 : "r"(barrier_at), "r"(phase & 1)
                 : "memory");
}
// Bytes are a multiple of 16, and both addresses are.
CF_INLINED void copy_to_barrier(const CF_UINT to, CF_GLOBAL const void *from, const CF_UINT bytes,
                                const CF_UINT barrier_at) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(from), "r"(bytes), "r"(barrier_at)
               : "memory");
}

#endif  // GPU_PIPELINE_H
