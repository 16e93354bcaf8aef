// Work-groups that wait for each other: PTX for sm_70 and later, in OpenCL C.
//
// Who waits holds a higher ticket than whom it waits for. The one with the lowest ticket that is not done never waits,
// so all of them end, however many run at a time and in whatever order they begin.
#ifndef GPU_TICKETS_H
#define GPU_TICKETS_H

// The next ticket, from zero on.
CF_INLINE int take_ticket(CF_GLOBAL int *counter) {
  int ticket;
  asm volatile("atom.relaxed.gpu.global.add.s32 %0, [%1], 1;" : "=r"(ticket) : "l"(counter) : "memory");
  return ticket;
}

// Counts one more that is done. What its group has written before a barrier, whoever has waited sees behind one.
CF_INLINE void count_done(CF_GLOBAL int *counter) {
  asm volatile("fence.acq_rel.gpu;\n\tred.relaxed.gpu.global.add.s32 [%0], 1;" ::"l"(counter) : "memory");
}

CF_INLINE void wait_until_done(CF_GLOBAL int *counter, const int count) {
  for (;;) {
    int done;
    asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(done) : "l"(counter) : "memory");
    if (done >= count) return;
    asm volatile("nanosleep.u32 64;" ::: "memory");
  }
}

// What others have written: past the level-1 cache, in which what lay in the slot before may still be.
CF_INLINE float load_of_others(CF_GLOBAL const float *from) {
  float value;
  asm volatile("ld.global.cg.f32 %0, [%1];" : "=f"(value) : "l"(from) : "memory");
  return value;
}

#endif  // GPU_TICKETS_H
