// Hopper's copy engine (TMA), and barriers that its copies arrive at: CUDA C++ alone.
//
// A barrier is an aligned ulong in local memory, by its address. A phase of it ends when so many items have arrived and
// so many bytes have come; phases count from 0.
#include "convfind_nvidia.h"

// A kernel argument that tells of a tensor: CUtensorMap of the driver.
typedef struct {
  ulong words[16];
} __attribute__((aligned(64))) TensorMap;
#define TENSOR_MAP const __grid_constant__ TensorMap
#define MAP_AT(map) ((ulong)(map))

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

// Positions of a map with windows, from the one that is `at`, each `off` behind where its window begins.
CF_INLINED void copy_windows(const CF_UINT to, const ulong map, const CF_UINT barrier, const int channel, const int w,
                             const int h, const int image, const int off_w, const int off_h) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], "
      "[%2], {%7, %8};" ::"r"(to),
      "l"(map), "r"(barrier), "r"(channel), "r"(w), "r"(h), "r"(image), "h"((CF_USHORT)off_w), "h"((CF_USHORT)off_h)
      : "memory");
}
// A box of a map of three axes, and of four.
CF_INLINED void copy_box(const CF_UINT to, const ulong map, const CF_UINT barrier, const int x, const int y,
                         const int z) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], "
      "[%2];" ::"r"(to),
      "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z)
      : "memory");
}
CF_INLINED void copy_box_4(const CF_UINT to, const ulong map, const CF_UINT barrier, const int x, const int y, const int z,
                           const int image) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], "
      "[%2];" ::"r"(to),
      "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z), "r"(image)
      : "memory");
}
