// C = sum of the `parts` results of a batched GEMM (+ beta * C): the second step where K is split over the batch.
#include "convfind_epilogue.h"

// Global size: at least rows * columns, any work-group size.
CF_KERNEL void gemm_sum(
    const int rows, const int columns, const int parts, CF_EPILOGUE_PARAMETERS,
    CF_GLOBAL const float *CF_RESTRICT W, const ulong w_offset, const ulong part_stride,
    CF_GLOBAL float *CF_RESTRICT C, const ulong c_offset, const ulong ldc)
{
    const Epilogue epilogue = CF_EPILOGUE(C);
    const ulong at = CF_GLOBAL_ID(0);
    if (at >= (ulong)rows * columns) return;
    CF_GLOBAL const float *w = W + w_offset + at;
    float sum = 0.0f;
    for (int i = 0; i < parts; i++) sum += w[i * part_stride];
    CF_STORE_RESULT(FLOAT32, C + (c_offset + at / columns * ldc + at % columns), 0, sum, epilogue);
}
