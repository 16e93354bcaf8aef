// FP32 GEMM for GPUs: C = alpha * op(A) * op(B) + beta * C, row-major, two-level strided batch.
//
// A work-group computes TILE_M x TILE_N of one C, each item (TILE_M / THREADS_M) x (TILE_N / THREADS_N) of it in
// registers. Tiles of A and B are kept in local memory as [k][m] and [k][n], twice: while one pair is multiplied the
// next travels from device memory through registers. Rows and columns outside the matrices are read from its last
// row or column (their results are never stored), so the loop over K has no edge tests at all: the odd part of K
// comes first, before the loop.
#include "convfind_epilogue.h"

#ifndef TRANS_A
#define TRANS_A 0      // 0: A is M x K; 1: A is stored K x M
#endif
#ifndef TRANS_B
#define TRANS_B 0      // 0: B is K x N; 1: B is stored N x K
#endif
#ifndef TILE_M
#define TILE_M 128     // rows of C of a work-group: 4 * THREADS_M * {1, 2, 3, 4}
#endif
#ifndef TILE_N
#define TILE_N 128     // columns of C of a work-group: 4 * THREADS_N * {1, 2, 3, 4}
#endif
#ifndef TILE_K
#define TILE_K 16      // depth of the tiles in local memory: 8, 16, 32
#endif
#ifndef THREADS_M
#define THREADS_M 16   // items along M: 4, 8, 16, 32
#endif
#ifndef THREADS_N
#define THREADS_N 16   // items along N: 4, 8, 16, 32
#endif
#ifndef LANES_N
#define LANES_N 8      // of 32 neighbouring items, so many along N, the rest along M: 4, 8, 16; divides THREADS_N
#endif
#ifndef VEC
#define VEC 4          // floats of a global access: 4 (where alignment permits, found at run time), 1 (never)
#endif
#ifndef PAD
#define PAD (128 / TILE_K)  // floats behind every 4 k of a tile that is transposed on its way to local memory: 0 or
#endif                      // 128 / TILE_K, so that 32 neighbouring items write to 32 banks
#ifndef SWIZZLE
#define SWIZZLE 1      // tile rows walked together, so that neighbouring work-groups share tiles in cache: 1, 4, 8, 16
#endif

#ifndef CHANNELS_ARE_ROWS
#define CHANNELS_ARE_ROWS 0  // channels of a bias: 0: columns of all C of the inner batch; 1: rows
#endif
#ifndef STRAIGHT
#define STRAIGHT 1     // 1: no condition in the loop over K, at the price of a tile read for nothing; 0: two conditions
#endif

// Constraints: TILE_M * TILE_K and TILE_N * TILE_K are multiples of 4 * THREADS; 32 / LANES_N divides THREADS_M.
#define THREADS (THREADS_M * THREADS_N)
#define BLOCK_M (TILE_M / THREADS_M)
#define BLOCK_N (TILE_N / THREADS_N)
#define LANES_M (32 / LANES_N)
#define A_QUADS (TILE_M * TILE_K / 4 / THREADS)
#define B_QUADS (TILE_N * TILE_K / 4 / THREADS)
#define A_PAD (TRANS_A ? 0 : PAD)
#define B_PAD (TRANS_B ? PAD : 0)
#define A_FLOATS (TILE_K * TILE_M + TILE_K / 4 * A_PAD)
#define B_FLOATS (TILE_K * TILE_N + TILE_K / 4 * B_PAD)

// Whether every group of four floats of an operand can be read at once.
CF_INLINE int reads_four(CF_GLOBAL const float *source, ulong ld, int contiguous)
{
    return VEC == 4 && ((size_t)source & 15) == 0 && (ld & 3) == 0 && (contiguous & 3) == 0;
}

// Every item carries `quads` groups of four floats of a tile to local memory. `across` says how the operand is
// stored: 0, its rows (m or n) contiguous, as [k][row]; 1, k contiguous, as [row][k].
#define QUAD_ROW(q) (across ? (item + (q) * THREADS) / (TILE_K / 4) : (item + (q) * THREADS) % (tile / 4) * 4)
#define QUAD_K(q) (across ? (item + (q) * THREADS) % (TILE_K / 4) * 4 : (item + (q) * THREADS) / (tile / 4))

// Where an item's groups begin. `rows` is what is left of the operand along m or n; a group that lies outside, or
// that could be read at once but for its end, is moved inside. With no whole tile in K (`whole` 0) they all begin at
// the first float: they may still be read, never used. Constants: tile, quads, across.
CF_INLINE void aim(CF_GLOBAL const float **at, CF_GLOBAL const float *source, ulong ld, int item, int rows, int four,
                   int whole, const int tile, const int quads, const int across)
{
    CF_UNROLL
    for (int q = 0; q < quads; q++) {
        const int row = min(QUAD_ROW(q), four && !across ? rows - 4 : rows - 1);
        at[q] = source + (whole ? (across ? row * ld + QUAD_K(q) : QUAD_K(q) * ld + row) : 0);
    }
}

// How far behind the first float of a group another one may be read.
CF_INLINE int reach(int item, int rows, int whole, const int tile, const int across)
{
    return whole ? (across ? 3 : max(0, rows - 1 - QUAD_ROW(0))) : 0;
}

// A whole tile into registers. Without `four`, a group along the rows ends with the last row repeated.
CF_INLINE void fetch(float *part, CF_GLOBAL const float **at, int room, int four, const int quads)
{
    CF_UNROLL
    for (int q = 0; q < quads; q++) {
        if (four) {
            CF_LOAD4(part + 4 * q, at[q]);
        } else {
            CF_UNROLL
            for (int e = 0; e < 4; e++) part[4 * q + e] = at[q][min(e, room)];
        }
    }
}

CF_INLINE void advance(CF_GLOBAL const float **at, ulong step, const int quads)
{
    CF_UNROLL
    for (int q = 0; q < quads; q++) at[q] += step;
}

// The first `depth` of a tile, zeros behind it.
CF_INLINE void fetch_edge(float *part, CF_GLOBAL const float *source, ulong ld, int item, int rows, int depth,
                          const int tile, const int quads, const int across)
{
    CF_UNROLL
    for (int q = 0; q < quads; q++) {
        CF_UNROLL
        for (int e = 0; e < 4; e++) {
            const int row = min(QUAD_ROW(q) + (across ? 0 : e), rows - 1), k = QUAD_K(q) + (across ? e : 0);
            part[4 * q + e] = k < depth ? source[across ? row * ld + k : k * ld + row] : 0.0f;
        }
    }
}

CF_INLINE void put(CF_LOCAL_PTR float *target, const float *part, int item, const int tile, const int quads,
                   const int across, const int pad)
{
    CF_UNROLL
    for (int q = 0; q < quads; q++) {
        CF_LOCAL_PTR float *to = target + QUAD_K(q) * tile + QUAD_K(q) / 4 * pad + QUAD_ROW(q);
        if (across) {
            CF_UNROLL
            for (int e = 0; e < 4; e++) to[e * tile] = part[4 * q + e];
        } else {
            CF_STORE4_LOCAL(to, part + 4 * q);
        }
    }
}

CF_INLINE void multiply(float sum[BLOCK_M][BLOCK_N], CF_LOCAL_PTR const float *a, CF_LOCAL_PTR const float *b)
{
    CF_UNROLL
    for (int k = 0; k < TILE_K; k++) {
        float left[BLOCK_M], right[BLOCK_N];
        CF_UNROLL
        for (int i = 0; i < BLOCK_M; i += 4) CF_LOAD4_LOCAL(left + i, a + k * TILE_M + k / 4 * A_PAD + i * THREADS_M);
        CF_UNROLL
        for (int j = 0; j < BLOCK_N; j += 4) CF_LOAD4_LOCAL(right + j, b + k * TILE_N + k / 4 * B_PAD + j * THREADS_N);
        CF_UNROLL
        for (int i = 0; i < BLOCK_M; i++) {
            CF_UNROLL
            for (int j = 0; j < BLOCK_N; j++) sum[i][j] = CF_FMA(left[i], right[j], sum[i][j]);
        }
    }
}

// One-dimensional grid: ceil(M / TILE_M) * ceil(N / TILE_N) * batch work-groups of THREADS items.
CF_KERNEL CF_WORK_GROUP_SIZE(THREADS, 1, 1) void gemm_gpu(
    const int M, const int N, const int K, CF_EPILOGUE_PARAMETERS,
    CF_GLOBAL const float *CF_RESTRICT A, const ulong a_offset, const ulong lda, const ulong a_outer,
    const ulong a_inner,
    CF_GLOBAL const float *CF_RESTRICT B, const ulong b_offset, const ulong ldb, const ulong b_outer,
    const ulong b_inner,
    CF_GLOBAL float *CF_RESTRICT C, const ulong c_offset, const ulong ldc, const ulong c_outer, const ulong c_inner,
    const int inner)
{
    const Epilogue epilogue = CF_EPILOGUE(C);
    CF_LOCAL float a_tile[2][A_FLOATS] __attribute__((aligned(16)));
    CF_LOCAL float b_tile[2][B_FLOATS] __attribute__((aligned(16)));

    const uint tiles_m = (M + TILE_M - 1) / TILE_M, tiles_n = (N + TILE_N - 1) / TILE_N;
    const uint group = (uint)CF_GROUP_ID(0);
    const uint batch = group / (tiles_m * tiles_n), at = group % (tiles_m * tiles_n);
    // Bands of SWIZZLE tile rows, column by column inside a band.
    const uint band = at / (SWIZZLE * tiles_n), in_band = at % (SWIZZLE * tiles_n);
    const uint band_rows = min((uint)SWIZZLE, tiles_m - band * SWIZZLE);
    const int m0 = (int)(band * SWIZZLE + in_band % band_rows) * TILE_M, n0 = (int)(in_band / band_rows) * TILE_N;

    const ulong outer_at = batch / (uint)inner, inner_at = batch % (uint)inner;
    CF_GLOBAL const float *a = A + a_offset + outer_at * a_outer + inner_at * a_inner + m0 * (TRANS_A ? 1 : lda);
    CF_GLOBAL const float *b = B + b_offset + outer_at * b_outer + inner_at * b_inner + n0 * (TRANS_B ? ldb : 1);
    CF_GLOBAL float *c = C + c_offset + outer_at * c_outer + inner_at * c_inner + m0 * ldc + n0;
    const int rows_m = M - m0, rows_n = N - n0;

    const int item = (int)CF_LOCAL_ID(0), lane = item % 32, lanes = item / 32;
    const int m = (lanes / (THREADS_N / LANES_N) * LANES_M + lane / LANES_N) * 4;
    const int n = (lanes % (THREADS_N / LANES_N) * LANES_N + lane % LANES_N) * 4;

    const int first = (K - 1) % TILE_K + 1, whole = K >= TILE_K;
    // With k contiguous, the loop's reads start at `first`.
    const int a_four = whole && reads_four(a, lda, TRANS_A ? rows_m : first);
    const int b_four = whole && reads_four(b, ldb, TRANS_B ? first : rows_n);

    float sum[BLOCK_M][BLOCK_N];
    CF_UNROLL
    for (int i = 0; i < BLOCK_M; i++) {
        CF_UNROLL
        for (int j = 0; j < BLOCK_N; j++) sum[i][j] = 0.0f;
    }

    CF_GLOBAL const float *a_at[A_QUADS], *b_at[B_QUADS];
    aim(a_at, a, lda, item, rows_m, a_four, whole, TILE_M, A_QUADS, !TRANS_A);
    aim(b_at, b, ldb, item, rows_n, b_four, whole, TILE_N, B_QUADS, TRANS_B);
    const int a_room = reach(item, rows_m, whole, TILE_M, !TRANS_A);
    const int b_room = reach(item, rows_n, whole, TILE_N, TRANS_B);
    const ulong a_step = TRANS_A ? lda : 1, b_step = TRANS_B ? 1 : ldb;

    float a_part[4 * A_QUADS], b_part[4 * B_QUADS];
    if (first == TILE_K) {
        fetch(a_part, a_at, a_room, a_four, A_QUADS);
        fetch(b_part, b_at, b_room, b_four, B_QUADS);
    } else {
        fetch_edge(a_part, a, lda, item, rows_m, first, TILE_M, A_QUADS, !TRANS_A);
        fetch_edge(b_part, b, ldb, item, rows_n, first, TILE_N, B_QUADS, TRANS_B);
    }
    int left = K - first;
    if (left > 0) {
        advance(a_at, first * a_step, A_QUADS);
        advance(b_at, first * b_step, B_QUADS);
    }
    put(a_tile[0], a_part, item, TILE_M, A_QUADS, !TRANS_A, A_PAD);
    put(b_tile[0], b_part, item, TILE_N, B_QUADS, TRANS_B, B_PAD);
    CF_BARRIER();

    // The reads of `fetch` must start before `multiply`, which hides how long they take. A compiler that sees plain
    // reads whose results are wanted only afterwards moves them there (measured: a fifth of the speed); the run-time
    // choice between wide and narrow reads inside `fetch` is what keeps them in place.
    int now = 0;
    for (;; left -= TILE_K) {
        if (STRAIGHT || left > 0) {
            fetch(a_part, a_at, a_room, a_four, A_QUADS);
            fetch(b_part, b_at, b_room, b_four, B_QUADS);
            advance(a_at, left > TILE_K ? TILE_K * a_step : 0, A_QUADS);
            advance(b_at, left > TILE_K ? TILE_K * b_step : 0, B_QUADS);
        }
        multiply(sum, a_tile[now] + m, b_tile[now] + n);
        if (!STRAIGHT && left <= 0) break;
        now ^= 1;
        put(a_tile[now], a_part, item, TILE_M, A_QUADS, !TRANS_A, A_PAD);
        put(b_tile[now], b_part, item, TILE_N, B_QUADS, TRANS_B, B_PAD);
        CF_BARRIER();
        if (STRAIGHT && left <= 0) break;
    }

    const Epilogue own =
        CF_EPILOGUE_FROM(epilogue, CHANNELS_ARE_ROWS ? (int)inner_at * M + m0 : (int)inner_at * N + n0);
    const int c_four = VEC == 4 && ((size_t)c & 15) == 0 && (ldc & 3) == 0;
    CF_UNROLL
    for (int i = 0; i < BLOCK_M; i++) {
        const int row = i / 4 * (4 * THREADS_M) + m + i % 4;
        if (row >= rows_m) continue;
        CF_UNROLL
        for (int j = 0; j < BLOCK_N; j += 4) {
            const int column = j * THREADS_N + n;
            CF_GLOBAL float *target = c + row * ldc + column;
            const int inside = min(4, rows_n - column);
            float value[4];
            CF_UNROLL
            for (int e = 0; e < 4; e++)
                value[e] = CF_BIASED(sum[i][j + e], CHANNELS_ARE_ROWS ? row : min(column + e, rows_n - 1), own);
            if (CF_ADDS_Z(own)) {
                CF_UNROLL
                for (int e = 0; e < 4; e++)
                    if (e < inside) value[e] = CF_FMA(own.beta, *CF_Z_OF(target + e, own), value[e]);
            }
            CF_UNROLL
            for (int e = 0; e < 4; e++)
                if (e < inside) value[e] = CF_FINISHED(FLOAT32, target + e, value[e], own);
            if (c_four && inside == 4) {
                CF_STORE4(target, value);
            } else {
                CF_UNROLL
                for (int e = 0; e < 4; e++)
                    if (e < inside) target[e] = value[e];
            }
        }
    }
}

#include "gemm_sum.cl"
