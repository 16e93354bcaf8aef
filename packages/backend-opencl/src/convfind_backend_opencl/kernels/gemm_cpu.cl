// FP32 GEMM for CPU devices: C = alpha * op(A) * op(B) + beta * C, row-major, two-level strided batch.
//
// One work-item is one core's share: `share` rows by `strip` columns of one C. It walks K in blocks, packs its
// block of B into private memory (which stays in the level-2 cache and never travels to memory), and for every
// panel of MR rows of A runs a register tile of MR x NR over it. So B needs no packing pass and no workspace.
// A is packed panel by panel into the level-1 cache on the way.
// Work-group size is 1: there is nothing to share and nothing to wait for.

#ifndef TRANS_A
#define TRANS_A 0          // 0: A is M x K; 1: A is stored K x M
#endif
#ifndef TRANS_B
#define TRANS_B 0          // 0: B is K x N; 1: B is stored N x K
#endif
#ifndef VECTORS
#define VECTORS 2          // float16 columns of the register tile: 2 (AVX-512), 1 (16 registers of 8 floats)
#endif
#ifndef MR
#define MR 12              // rows of the register tile: 4..14; 12 with VECTORS 2, 6 with VECTORS 1
#endif
#ifndef DEPTH
#define DEPTH 256          // largest block of K, multiple of 16: 64..1024
#endif
#ifndef PANEL_FLOATS
#define PANEL_FLOATS 131072 // private memory for a block of B: >= NR * DEPTH; depth_limit * strip must fit in it
#endif

#ifndef CHANNELS_ARE_ROWS
#define CHANNELS_ARE_ROWS 0 // channels of a bias: 0: columns of all C of the inner batch; 1: rows
#endif

#define CF_PASSES 1
#include "convfind_cpu_vector.h"

#define NR (VEC * VECTORS) // columns of the register tile

#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define BIASES(row, column, columns) \
    (CHANNELS_ARE_ROWS ? bias_of(epilogue, row) : biases_of(epilogue, column, (columns) - (column)))

INLINE ulong batch_offset(ulong batch, ulong inner, ulong offset, ulong outer_stride, ulong inner_stride)
{
    return offset + (batch / inner) * outer_stride + (batch % inner) * inner_stride;
}

// 16 x 16 transpose of the first `used` rows (a constant where this is inlined); zero outside rows and columns.
INLINE void load_transposed(float16 *block, __global const float *source, ulong ld, const int used, int rows,
                            int columns)
{
    float16 part[VEC];
    const bool whole = rows >= used && columns >= VEC;
    if (!whole) {
        #pragma unroll 1
        for (int i = 0; i < used; i++) part[i] = i < rows ? load_part(source + i * ld, columns) : (float16)(0.0f);
    }
    #pragma unroll
    for (int i = 0; i < VEC; i++) block[i] = i >= used ? (float16)(0.0f) : whole ? vload16(0, source + i * ld) : part[i];
    transpose(block);
}

// 16 x 16 of a block of B (rows k, columns n) into its panel.
INLINE void pack_b_part(float *panels, __global const float *b, ulong ldb, int depth, int columns, int k, int n)
{
    const int first = n & ~(NR - 1), rest = columns - n;
    const int width = columns - first > VEC ? NR : VEC;
    float *panel = panels + first * depth + k * width + (n - first);
    const int rows = min(VEC, depth - k);
#if TRANS_B
    float16 block[VEC];
    load_transposed(block, b + n * ldb + k, ldb, VEC, rest, rows);
    #pragma unroll
    for (int i = 0; i < VEC; i++)
        if (i < rows) vstore16(block[i], 0, panel + i * width);
#else
    b += k * ldb + n;
    if (rest >= VEC)
        for (int i = 0; i < rows; i++) {
            PREFETCH(b + i * ldb + 4 * VEC);  // 16 rows at once are more streams than the hardware follows
            vstore16(vload16(0, b + i * ldb), 0, panel + i * width);
        }
    else
        for (int i = 0; i < rows; i++) vstore16(load_part(b + i * ldb, rest), 0, panel + i * width);
#endif
}

// A block of B into panels of NR columns, each [depth][NR]; a last panel of at most 16 columns is [depth][16].
// Along the rows of B as it is stored, but 16 of them at a time: panels lie a power of two apart, and one long row
// spread over all of them would thrash the cache.
INLINE void pack_b(float *panels, __global const float *b, ulong ldb, int depth, int columns)
{
#if TRANS_B
    for (int n = 0; n < columns; n += VEC)
        for (int k = 0; k < depth; k += VEC) pack_b_part(panels, b, ldb, depth, columns, k, n);
#else
    for (int k = 0; k < depth; k += VEC)
        for (int n = 0; n < columns; n += VEC) pack_b_part(panels, b, ldb, depth, columns, k, n);
#endif
}

// MR of the `rows` rows of A that are left as [depth][MR], zero below the last row. Each vector store spills over
// into the next k's place, which the next store overwrites; `panel` has room for VEC floats more.
INLINE void pack_a(float *panel, __global const float *a, ulong lda, int rows, int depth)
{
#if TRANS_A
    for (int k = 0; k < depth; k++) vstore16(load_part(a + k * lda, rows), 0, panel + k * MR);
#else
    for (int k = 0; k < depth; k += VEC) {
        float16 block[VEC];
        load_transposed(block, a + k, lda, MR, rows, depth - k);
        #pragma unroll
        for (int i = 0; i < VEC; i++)
            if (k + i < depth) vstore16(block[i], 0, panel + (k + i) * MR);
    }
#endif
}

// tile_rows x (16 * tile_vectors) of C. Both are constants where this is inlined, so that all loops over them
// unroll and the accumulators live in registers.
INLINE void tile(const int tile_rows, const int tile_vectors, int depth, const float *a, const float *b,
                 __global float *c, ulong ldc, int rows, int columns, const Epilogue epilogue)
{
    float16 sum[MR][VECTORS];
    #pragma unroll
    for (int i = 0; i < tile_rows; i++) {
        PREFETCH(c + min(i, rows - 1) * ldc);
        PREFETCH(c + min(i, rows - 1) * ldc + columns - 1);
        #pragma unroll
        for (int j = 0; j < tile_vectors; j++) sum[i][j] = 0.0f;
    }
    for (int k = 0; k < depth; k++) {
        float16 right[VECTORS];
        #pragma unroll
        for (int j = 0; j < tile_vectors; j++) right[j] = vload16(k * tile_vectors + j, b);
        #pragma unroll
        for (int i = 0; i < tile_rows; i++) {
            const float16 left = a[k * MR + i];
            #pragma unroll
            for (int j = 0; j < tile_vectors; j++) sum[i][j] = fma(left, right[j], sum[i][j]);
        }
    }
    if (rows >= tile_rows && columns >= tile_vectors * VEC) {
        #pragma unroll
        for (int i = 0; i < tile_rows; i++) {
            #pragma unroll
            for (int j = 0; j < tile_vectors; j++)
                store_whole(sum[i][j], c + i * ldc + j * VEC, BIASES(i, j * VEC, columns), epilogue);
        }
        return;
    }
    float16 rest[MR * VECTORS];
    #pragma unroll
    for (int i = 0; i < tile_rows; i++) {
        #pragma unroll
        for (int j = 0; j < tile_vectors; j++) rest[i * tile_vectors + j] = sum[i][j];
    }
    #pragma unroll 1
    for (int i = 0; i < min(rows, tile_rows); i++)
        #pragma unroll 1
        for (int j = 0; j < tile_vectors; j++)
            store_part(rest[i * tile_vectors + j], c + i * ldc + j * VEC, columns - j * VEC,
                       BIASES(i, j * VEC, columns), epilogue);
}

// The last rows get a tile of 4 or 8, so that a multiple of 4 rows wastes nothing.
INLINE void tile_of_width(const int tile_vectors, int depth, const float *a, const float *b,
                          __global float *c, ulong ldc, int rows, int columns, const Epilogue epilogue)
{
    if (MR > 8 && rows > 8) tile(MR, tile_vectors, depth, a, b, c, ldc, rows, columns, epilogue);
    else if (MR > 4 && rows > 4) tile(MIN(MR, 8), tile_vectors, depth, a, b, c, ldc, rows, columns, epilogue);
    else tile(4, tile_vectors, depth, a, b, c, ldc, rows, columns, epilogue);
}

// Global size: (strips of N * shares of M, batch) with strips = ceil(N / strip), shares = ceil(M / share).
// `strip` is a multiple of NR, `share` of MR; depth_limit <= DEPTH and depth_limit * strip <= PANEL_FLOATS.
__kernel ONE_ITEM void gemm_cpu(
    const int M, const int N, const int K, CF_EPILOGUE_PARAMETERS,
    __global const float *restrict A, const ulong a_offset, const ulong lda, const ulong a_outer, const ulong a_inner,
    __global const float *restrict B, const ulong b_offset, const ulong ldb, const ulong b_outer, const ulong b_inner,
    __global float *restrict C, const ulong c_offset, const ulong ldc, const ulong c_outer, const ulong c_inner,
    const int inner, const int strip, const int share, const int depth_limit)
{
    const Epilogue whole = CF_EPILOGUE(C);
    const int strips = (N + strip - 1) / strip;
    const int n0 = (int)(get_global_id(0) % strips) * strip;
    const int m0 = (int)(get_global_id(0) / strips) * share;
    const int m1 = min(M, m0 + share), width = min(N - n0, strip);
    const ulong batch = get_global_id(1);
    __global const float *a = A + batch_offset(batch, inner, a_offset, a_outer, a_inner);
    __global const float *b = B + batch_offset(batch, inner, b_offset, b_outer, b_inner);
    __global float *c = C + batch_offset(batch, inner, c_offset, c_outer, c_inner) + n0;

    float panels[PANEL_FLOATS] __attribute__((aligned(64)));
    float panel[DEPTH * MR + VEC] __attribute__((aligned(64)));
    for (int k = 0; k < K; k += depth_limit) {
        const int depth = min(depth_limit, K - k);
        const Epilogue epilogue = cf_epilogue_of_pass(whole, k == 0, k + depth_limit >= K);
        pack_b(panels, b + (TRANS_B ? n0 * ldb + k : k * ldb + n0), ldb, depth, width);
        for (int m = m0; m < m1; m += MR) {
            pack_a(panel, a + (TRANS_A ? k * lda + m : m * lda + k), lda, M - m, depth);
            for (int n = 0; n < width; n += NR) {
                const int rows = m1 - m, columns = width - n;
                const Epilogue own = CF_EPILOGUE_FROM(
                    epilogue, batch % inner * (CHANNELS_ARE_ROWS ? M : N) + (CHANNELS_ARE_ROWS ? m : n0 + n));
                if (VECTORS > 1 && columns > VEC)
                    tile_of_width(VECTORS, depth, panel, panels + n * depth, c + m * ldc + n, ldc,
                                  min(MR, rows), min(NR, columns), own);
                else
                    tile_of_width(1, depth, panel, panels + n * depth, c + m * ldc + n, ldc,
                                  min(MR, rows), min(VEC, columns), own);
            }
        }
    }
}

#include "gemm_sum.cl"
