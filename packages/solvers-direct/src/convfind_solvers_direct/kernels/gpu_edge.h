// Edges of tiles of y in the GPU kernels for the weight gradient.
#ifndef GPU_EDGE_H
#define GPU_EDGE_H

// Whether place `at` of a tile lies behind the `count` that are left of y; the first of these always exists. No zero
// in its gradient's place is added: other places take the same x, which may be infinite, and would make it NaN.
#define IS_BEHIND(at, count) ((at) > 0 && (at) >= (count))

#endif  // GPU_EDGE_H
