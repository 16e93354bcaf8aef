// Hopper's copy engine (TMA): tensors that kernel arguments tell of, in CUDA C++ alone.
#include "convfind_nvidia_barrier.h"

// A kernel argument that tells of a tensor: CUtensorMap of the driver.
typedef struct {
  ulong words[16];
} __attribute__((aligned(64))) TensorMap;
#define TENSOR_MAP const __grid_constant__ TensorMap
#define MAP_AT(map) ((ulong)(map))

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
