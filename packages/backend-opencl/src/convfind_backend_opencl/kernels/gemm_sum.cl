// C = sum of the `parts` results of a batched GEMM (+ beta * C): the second step where K is split over the batch.
#include "convfind_kernel.h"

// Global size: at least rows * columns, any work-group size.
CF_KERNEL void gemm_sum(
    const int rows, const int columns, const int parts, const float beta,
    CF_GLOBAL const float *CF_RESTRICT W, const ulong w_offset, const ulong part_stride,
    CF_GLOBAL float *CF_RESTRICT C, const ulong c_offset, const ulong ldc)
{
    const ulong at = CF_GLOBAL_ID(0);
    if (at >= (ulong)rows * columns) return;
    CF_GLOBAL const float *w = W + w_offset + at;
    CF_GLOBAL float *c = C + c_offset + at / columns * ldc + at % columns;
    float sum = beta != 0.0f ? beta * *c : 0.0f;
    for (int i = 0; i < parts; i++) sum += w[i * part_stride];
    *c = sum;
}
