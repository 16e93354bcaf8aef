// PTX of NVIDIA GPUs from sm_80 on, for OpenCL C and CUDA: copies past the registers, and matrix products.
//
// Matrix operands lie in local memory as rows of 128 bytes (32 floats or 64 elements of 16 bits along the sum), the
// 16-byte pieces of row r at CF_PIECE(r, piece): no two of eight neighbouring rows' pieces share banks, and it is what
// wgmma calls a swizzle of 128 bytes. Tiles start at multiples of 1024 bytes.
//
// What only sm_90a knows (wgmma) is written behind CF_90A: in OpenCL C, whose compilers write PTX for sm_90, as a comment,
// which they pass on; the OpenCL backend takes the mark away in the PTX text, see its ptx module. NVRTC knows sm_90a.
#include "convfind_kernel.h"

#ifdef __OPENCL_VERSION__
#define CF_90A "//@"
#else
#define CF_90A
#endif

// Products that run on may not cross a call.
#define CF_INLINED CF_INLINE __attribute__((always_inline))

// Where a 16-byte piece of a row is in a tile, in bytes.
#define CF_PIECE(row, piece) ((row) * 128 + (((piece) ^ ((row) & 7)) << 4))

// Copies from device memory to local memory that run on; the first `size` bytes are read, the others are zeros.
CF_INLINED void cf_copy_16(const CF_UINT to, CF_GLOBAL const void *from, const CF_UINT size) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(size) : "memory");
}
CF_INLINED void cf_copy_4(const CF_UINT to, CF_GLOBAL const void *from, const CF_UINT size) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(size) : "memory");
}
// An item's copies so far are a group; waiting leaves the latest `count` groups on their way.
#define CF_COPIES_COMMIT() asm volatile("cp.async.commit_group;" ::: "memory")
#define CF_COPIES_WAIT(count) asm volatile("cp.async.wait_group %0;" ::"n"(count) : "memory")

// Four matrices of 8 rows of 16 bytes: lane i holds 4 bytes of each, row i / 4, bytes 4 * (i % 4). Lanes 8 j to 8 j + 7
// give the addresses of the rows of matrix j.
#define CF_LOAD_MATRICES(to, address)                                                         \
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"                \
               : "=r"((to)[0]), "=r"((to)[1]), "=r"((to)[2]), "=r"((to)[3])                   \
               : "r"(address)                                                                 \
               : "memory")
// The same, each matrix transposed, for elements of two bytes: lane i holds elements 2 * (i % 4) and the next of column
// i / 4.
#define CF_LOAD_TRANSPOSED(to, address)                                                       \
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"          \
               : "=r"((to)[0]), "=r"((to)[1]), "=r"((to)[2]), "=r"((to)[3])                   \
               : "r"(address)                                                                 \
               : "memory")
#define CF_LOAD_SHARED_4(to, address)                                                         \
  asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];"                                        \
               : "=r"((to)[0]), "=r"((to)[1]), "=r"((to)[2]), "=r"((to)[3])                   \
               : "r"(address)                                                                 \
               : "memory")
#define CF_STORE_SHARED_4(address, from)                                                      \
  asm volatile("st.shared.v4.u32 [%0], {%1,%2,%3,%4};" ::"r"(address), "r"((from)[0]),        \
               "r"((from)[1]), "r"((from)[2]), "r"((from)[3])                                 \
               : "memory")

// A float as the sum of two TF32 numbers: the nearest one, and what is left, which the matrix units cut off after 11
// bits. Both are exact to 2^-21 of the number. Infinities become NaN, as infinity minus infinity is.
CF_INLINED CF_UINT cf_tf32_high(const CF_UINT bits) { return (bits + 0x1000u) & 0xffffe000u; }
CF_INLINED CF_UINT cf_tf32_low(const CF_UINT bits, const CF_UINT high) {
  return CF_AS_UINT(CF_AS_FLOAT(bits) - CF_AS_FLOAT(high));
}

// The nearest TF32 number alone: NaN stays NaN, which the sum above makes a zero where all bits are ones, as those of
// NVIDIA's arithmetic are; there the rest still is NaN.
CF_INLINED CF_UINT cf_tf32_nearest(const CF_UINT bits) {
  CF_UINT nearest;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(nearest) : "f"(CF_AS_FLOAT(bits)));
  return nearest;
}

// A float of which matrix units, which cut it off, take a TF32 number that is near and on average as often above as
// below: (1 + ln 2 * 2^-11) of it. What is lost is below 2^-10.6; TF32 numbers, infinities and NaN stay what they are.
CF_INLINED CF_UINT cf_tf32_near(const CF_UINT bits) { return CF_AS_UINT(CF_AS_FLOAT(bits) * 1.00033844f); }

// Two floats rounded to a pair of a 16-bit type, the first in the lower half.
#define CF_PAIR(dtype, first, second) CF_JOIN(cf_pair_, dtype)(first, second)
CF_INLINED CF_UINT cf_pair_FLOAT16(const float first, const float second) {
  CF_UINT pair;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
  return pair;
}
CF_INLINED CF_UINT cf_pair_BFLOAT16(const float first, const float second) {
  CF_UINT pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
  return pair;
}

// Stores two neighbouring elements, aligned to both.
#define CF_STORE_PAIR(dtype, pointer, first, second) CF_JOIN(CF_STORE_PAIR_, dtype)(pointer, first, second)
#define CF_STORE_PAIR_FLOAT16(pointer, first, second) \
  (*(CF_GLOBAL CF_UINT *)(pointer) = cf_pair_FLOAT16(first, second))
#define CF_STORE_PAIR_BFLOAT16(pointer, first, second) \
  (*(CF_GLOBAL CF_UINT *)(pointer) = cf_pair_BFLOAT16(first, second))
#define CF_STORE_PAIR_FLOAT32(pointer, first, second) cf_store_pair(pointer, first, second)
CF_INLINED void cf_store_pair(CF_GLOBAL float *to, const float first, const float second) {
  float2 pair;
  pair.x = first;
  pair.y = second;
  *(CF_GLOBAL float2 *)to = pair;
}

// Stores two neighbouring elements of local memory, rounded.
#define CF_STORE_SHARED_PAIR(dtype, address, first, second) \
  CF_JOIN(CF_STORE_SHARED_PAIR_, dtype)(address, first, second)
#define CF_STORE_SHARED_PAIR_FLOAT32(address, first, second) \
  asm volatile("st.shared.v2.f32 [%0], {%1,%2};" ::"r"(address), "f"(first), "f"(second) : "memory")
#define CF_STORE_SHARED_PAIR_FLOAT16(address, first, second) \
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(address), "r"(cf_pair_FLOAT16(first, second)) : "memory")
#define CF_STORE_SHARED_PAIR_BFLOAT16(address, first, second) \
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(address), "r"(cf_pair_BFLOAT16(first, second)) : "memory")
// Loads two neighbouring elements of local memory as floats.
#define CF_LOAD_SHARED_PAIR(dtype, to, address) CF_JOIN(cf_load_shared_pair_, dtype)(to, address)
CF_INLINED void cf_load_shared_pair_FLOAT32(float to[2], const CF_UINT address) {
  asm volatile("ld.shared.v2.f32 {%0,%1}, [%2];" : "=f"(to[0]), "=f"(to[1]) : "r"(address) : "memory");
}
CF_INLINED void cf_load_shared_pair_FLOAT16(float to[2], const CF_UINT address) {
  asm volatile(
      "{ .reg .b16 l, h; ld.shared.v2.b16 {l, h}, [%2]; cvt.f32.f16 %0, l; cvt.f32.f16 %1, h; }"
      : "=f"(to[0]), "=f"(to[1])
      : "r"(address)
      : "memory");
}
CF_INLINED void cf_load_shared_pair_BFLOAT16(float to[2], const CF_UINT address) {
  CF_UINT bits;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(bits) : "r"(address) : "memory");
  to[0] = CF_AS_FLOAT(bits << 16);
  to[1] = CF_AS_FLOAT(bits & 0xffff0000u);
}
// Stores 16 bytes of device memory, aligned to them.
#define CF_STORE_4(pointer, from)                                                           \
  asm volatile("st.global.v4.u32 [%0], {%1,%2,%3,%4};" ::"l"(pointer), "r"((from)[0]),     \
               "r"((from)[1]), "r"((from)[2]), "r"((from)[3])                               \
               : "memory")
// What the items of a wave wrote to local memory is seen by all of them.
#define CF_WAVE_BARRIER() asm volatile("bar.warp.sync 0xffffffff;" ::: "memory")

// sums += a * b for one wave: a is 16 rows, b 8 columns, each 32 bytes along the sum. Lane i holds of a, in this order,
// row i / 4 and row i / 4 + 8 of the first 16 bytes, then both of the others; of b column i / 4 of the first and of the
// other 16 bytes; each time bytes 4 * (i % 4). Its sums are rows i / 4 and i / 4 + 8, columns 2 * (i % 4) and the next.
#define CF_MMA(dtype, sums, a, b) CF_JOIN(CF_MMA_, dtype)(sums, a, b)
#define CF_MMA_FLOAT32(sums, a, b) CF_MMA_OF("k8.row.col.f32.tf32.tf32.f32", sums, a, b)
#define CF_MMA_FLOAT16(sums, a, b) CF_MMA_OF("k16.row.col.f32.f16.f16.f32", sums, a, b)
#define CF_MMA_BFLOAT16(sums, a, b) CF_MMA_OF("k16.row.col.f32.bf16.bf16.f32", sums, a, b)
#define CF_MMA_OF(kind, sums, a, b)                                                                        \
  asm volatile("mma.sync.aligned.m16n8" kind " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"      \
               : "+f"((sums)[0]), "+f"((sums)[1]), "+f"((sums)[2]), "+f"((sums)[3])                        \
               : "r"((a)[0]), "r"((a)[1]), "r"((a)[2]), "r"((a)[3]), "r"((b)[0]), "r"((b)[1]))

// wgmma, sm_90a: sums += a * b for four waves, 64 rows by 16, 64, 96, 128, 160, 192 or 256 columns, 32 bytes along the sum. Wave i has
// rows 16 i to 16 i + 15, lanes as above, sums of eight columns after another. b is CF_MATRIX(address of its first
// row), plus 2 for each 32 bytes along the sum; a the same, or registers as above. With `more` of 0 the sums start from
// 0. Products run on; registers that they use must not be touched until CF_WGMMA_WAIT has left at most `count` groups
// on their way. Before the first one of a group stands CF_WGMMA_FENCE, after the last CF_WGMMA_COMMIT. Items that wrote
// what a product reads in local memory run CF_FENCE_MATRICES before the barrier.
#define CF_WGMMA_FENCE() asm volatile(CF_90A "wgmma.fence.sync.aligned;" ::: "memory")
#define CF_WGMMA_COMMIT() asm volatile(CF_90A "wgmma.commit_group.sync.aligned;" ::: "memory")
#define CF_WGMMA_WAIT(count) asm volatile(CF_90A "wgmma.wait_group.sync.aligned %0;" ::"n"(count) : "memory")
#define CF_FENCE_MATRICES() asm volatile("fence.proxy.async.shared::cta;" ::: "memory")
#define CF_MATRIX(address) ((ulong)(((address) & 0x3ffffu) >> 4) | (ulong)1 << 16 | (ulong)64 << 32 | (ulong)1 << 62)

#define CF_WGMMA(columns, dtype, sums, a, b, more) \
  CF_JOIN(CF_WGMMA_, columns)(CF_JOIN(CF_WGMMA_KIND_, dtype), CF_JOIN(CF_WGMMA_MAJOR_, dtype), sums, a, b, (int)(more))
#define CF_WGMMA_KIND_FLOAT32 "k8.f32.tf32.tf32 {"
#define CF_WGMMA_KIND_FLOAT16 "k16.f32.f16.f16 {"
#define CF_WGMMA_KIND_BFLOAT16 "k16.f32.bf16.bf16 {"
#define CF_WGMMA_MAJOR_FLOAT32 ";}"
#define CF_WGMMA_MAJOR_FLOAT16 ", 0, 0;}"
#define CF_WGMMA_MAJOR_BFLOAT16 ", 0, 0;}"
#define CF_WGMMA_START(n, more) CF_90A "{.reg .pred p; setp.ne.b32 p, " more ", 0; wgmma.mma_async.sync.aligned.m64n" n

#define CF_REGISTERS_FEW "%0,%1,%2,%3,%4,%5,%6,%7"
#define CF_REGISTERS_HALF_32 "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47"
#define CF_REGISTERS_HALF_64 "%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79"
#define CF_REGISTERS_0 \
  "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15," \
  "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define CF_REGISTERS_32 \
  "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47," \
  "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define CF_REGISTERS_64 \
  "%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79," \
  "%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95"
#define CF_REGISTERS_96 \
  "%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111," \
  "%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"
#define CF_SUMS_4(c, i) "+f"((c)[i]), "+f"((c)[(i) + 1]), "+f"((c)[(i) + 2]), "+f"((c)[(i) + 3])
#define CF_SUMS_8(c, i) CF_SUMS_4(c, i), CF_SUMS_4(c, (i) + 4)
#define CF_SUMS_16(c, i) CF_SUMS_4(c, i), CF_SUMS_4(c, (i) + 4), CF_SUMS_4(c, (i) + 8), CF_SUMS_4(c, (i) + 12)
#define CF_SUMS_32(c, i) CF_SUMS_16(c, i), CF_SUMS_16(c, (i) + 16)
#define CF_SUMS_64(c, i) CF_SUMS_32(c, i), CF_SUMS_32(c, (i) + 32)
#define CF_SUMS_128(c, i) CF_SUMS_64(c, i), CF_SUMS_64(c, (i) + 64)

#define CF_WGMMA_16(kind, major, sums, a, b, more)                                     \
  asm volatile(CF_WGMMA_START("16", "%10") kind CF_REGISTERS_FEW "}, %8, %9, p, 1, 1" major \
               : CF_SUMS_8(sums, 0)                                                         \
               : "l"(a), "l"(b), "r"(more)                                                  \
               : "memory")
#define CF_WGMMA_64(kind, major, sums, a, b, more)                                     \
  asm volatile(CF_WGMMA_START("64", "%34") kind CF_REGISTERS_0 "}, %32, %33, p, 1, 1" major \
               : CF_SUMS_32(sums, 0)                                                        \
               : "l"(a), "l"(b), "r"(more)                                                  \
               : "memory")
#define CF_WGMMA_128(kind, major, sums, a, b, more)                                     \
  asm volatile(CF_WGMMA_START("128", "%66") kind CF_REGISTERS_0 "," CF_REGISTERS_32 "}, %64, %65, p, 1, 1" major \
               : CF_SUMS_64(sums, 0)                                                        \
               : "l"(a), "l"(b), "r"(more)                                                  \
               : "memory")
#define CF_WGMMA_96(kind, major, sums, a, b, more)                                     \
  asm volatile(CF_WGMMA_START("96", "%50") kind CF_REGISTERS_0 "," CF_REGISTERS_HALF_32 "}, %48, %49, p, 1, 1" major \
               : CF_SUMS_32(sums, 0), CF_SUMS_16(sums, 32)                                  \
               : "l"(a), "l"(b), "r"(more)                                                  \
               : "memory")
#define CF_WGMMA_160(kind, major, sums, a, b, more)                                     \
  asm volatile(CF_WGMMA_START("160", "%82") kind CF_REGISTERS_0 "," CF_REGISTERS_32 "," CF_REGISTERS_HALF_64 \
               "}, %80, %81, p, 1, 1" major \
               : CF_SUMS_64(sums, 0), CF_SUMS_16(sums, 64)                                  \
               : "l"(a), "l"(b), "r"(more)                                                  \
               : "memory")
#define CF_WGMMA_192(kind, major, sums, a, b, more)                                     \
  asm volatile(CF_WGMMA_START("192", "%98") kind CF_REGISTERS_0 "," CF_REGISTERS_32 "," CF_REGISTERS_64 \
               "}, %96, %97, p, 1, 1" major \
               : CF_SUMS_64(sums, 0), CF_SUMS_32(sums, 64)                                  \
               : "l"(a), "l"(b), "r"(more)                                                  \
               : "memory")
#define CF_WGMMA_256(kind, major, sums, a, b, more)                                     \
  asm volatile(CF_WGMMA_START("256", "%130") kind CF_REGISTERS_0 "," CF_REGISTERS_32 "," CF_REGISTERS_64 \
               "," CF_REGISTERS_96 "}, %128, %129, p, 1, 1" major \
               : CF_SUMS_128(sums, 0)                                                        \
               : "l"(a), "l"(b), "r"(more)                                                  \
               : "memory")

// The same with a from registers.
#define CF_WGMMA_FROM_REGISTERS(columns, dtype, sums, a, b, more) \
  CF_JOIN(CF_WGMMA_FROM_REGISTERS_, columns)                       \
  (CF_JOIN(CF_WGMMA_KIND_, dtype), CF_JOIN(CF_WGMMA_B_MAJOR_, dtype), sums, a, b, (int)(more))
#define CF_WGMMA_B_MAJOR_FLOAT32 ";}"
#define CF_WGMMA_B_MAJOR_FLOAT16 ", 0;}"
#define CF_WGMMA_B_MAJOR_BFLOAT16 ", 0;}"
#define CF_WGMMA_FROM_REGISTERS_16(kind, major, sums, a, b, more)                                    \
  asm volatile(CF_WGMMA_START("16", "%13") kind CF_REGISTERS_FEW                                     \
               "}, {%8,%9,%10,%11}, %12, p, 1, 1" major                                            \
               : CF_SUMS_8(sums, 0)                                                                \
               : "r"((a)[0]), "r"((a)[1]), "r"((a)[2]), "r"((a)[3]), "l"(b), "r"(more)             \
               : "memory")
#define CF_WGMMA_FROM_REGISTERS_64(kind, major, sums, a, b, more)                                    \
  asm volatile(CF_WGMMA_START("64", "%37") kind CF_REGISTERS_0                       \
               "}, {%32,%33,%34,%35}, %36, p, 1, 1" major                                          \
               : CF_SUMS_32(sums, 0)                                                               \
               : "r"((a)[0]), "r"((a)[1]), "r"((a)[2]), "r"((a)[3]), "l"(b), "r"(more)             \
               : "memory")
#define CF_WGMMA_FROM_REGISTERS_128(kind, major, sums, a, b, more)                                    \
  asm volatile(CF_WGMMA_START("128", "%69") kind CF_REGISTERS_0 "," CF_REGISTERS_32                       \
               "}, {%64,%65,%66,%67}, %68, p, 1, 1" major                                          \
               : CF_SUMS_64(sums, 0)                                                               \
               : "r"((a)[0]), "r"((a)[1]), "r"((a)[2]), "r"((a)[3]), "l"(b), "r"(more)             \
               : "memory")
#define CF_WGMMA_FROM_REGISTERS_96(kind, major, sums, a, b, more)                                 \
  asm volatile(CF_WGMMA_START("96", "%53") kind CF_REGISTERS_0 "," CF_REGISTERS_HALF_32           \
               "}, {%48,%49,%50,%51}, %52, p, 1, 1" major                                         \
               : CF_SUMS_32(sums, 0), CF_SUMS_16(sums, 32)                                        \
               : "r"((a)[0]), "r"((a)[1]), "r"((a)[2]), "r"((a)[3]), "l"(b), "r"(more)            \
               : "memory")
#define CF_WGMMA_FROM_REGISTERS_160(kind, major, sums, a, b, more)                                \
  asm volatile(CF_WGMMA_START("160", "%85") kind CF_REGISTERS_0 "," CF_REGISTERS_32               \
               "," CF_REGISTERS_HALF_64                                                           \
               "}, {%80,%81,%82,%83}, %84, p, 1, 1" major                                         \
               : CF_SUMS_64(sums, 0), CF_SUMS_16(sums, 64)                                        \
               : "r"((a)[0]), "r"((a)[1]), "r"((a)[2]), "r"((a)[3]), "l"(b), "r"(more)            \
               : "memory")
#define CF_WGMMA_FROM_REGISTERS_192(kind, major, sums, a, b, more)                                \
  asm volatile(CF_WGMMA_START("192", "%101") kind CF_REGISTERS_0 "," CF_REGISTERS_32              \
               "," CF_REGISTERS_64                                                                \
               "}, {%96,%97,%98,%99}, %100, p, 1, 1" major                                        \
               : CF_SUMS_64(sums, 0), CF_SUMS_32(sums, 64)                                        \
               : "r"((a)[0]), "r"((a)[1]), "r"((a)[2]), "r"((a)[3]), "l"(b), "r"(more)            \
               : "memory")
#define CF_WGMMA_FROM_REGISTERS_256(kind, major, sums, a, b, more)                                \
  asm volatile(CF_WGMMA_START("256", "%133") kind CF_REGISTERS_0 "," CF_REGISTERS_32              \
               "," CF_REGISTERS_64 "," CF_REGISTERS_96                                            \
               "}, {%128,%129,%130,%131}, %132, p, 1, 1" major                                    \
               : CF_SUMS_128(sums, 0)                                                             \
               : "r"((a)[0]), "r"((a)[1]), "r"((a)[2]), "r"((a)[3]), "l"(b), "r"(more)            \
               : "memory")
