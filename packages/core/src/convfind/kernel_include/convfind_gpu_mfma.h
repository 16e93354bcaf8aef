// Matrix instructions (MFMA) of AMD's CDNA devices for convfind_gpu_tile.h: operands and results of a wave.
//
// An instruction multiplies MFMA x MFMA_DEPTH by MFMA_DEPTH x MFMA numbers, spread over 64 lanes as AMD's instruction set
// documents for CDNA and AMD's matrix instruction calculator have it, the same for CDNA1 to CDNA3. With l = lane % MFMA
// and h = lane / MFMA:
//   left operand     row l, and of the depth MFMA_RUN neighbours from h * MFMA_RUN on
//   right operand    column l, and the same of the depth
//   result           MFMA * MFMA / 64 numbers of column l. Number e has row 8 * (e / 4) + 4 * h + e % 4 for MFMA = 32,
//                    4 * h + e for MFMA = 16: groups of four neighbours
// The tile's columns are the left operand and its rows the right one: what a lane gets are neighbours in a row.
#ifndef MFMA
#define MFMA 0  // 16, 32: rows and columns of the matrix instructions, where CF_MFMA is 1; 0: plain multiply-adds
#endif

#if MFMA
#if !CF_MFMA
#error "MFMA needs a device with matrix instructions"
#endif

#define MFMA_WAVE 64  // work-items that share an instruction
#define MFMA_NUMBERS (MFMA * MFMA / MFMA_WAVE)
typedef float MfmaResult __attribute__((ext_vector_type(MFMA_NUMBERS)));

// How many neighbours of the depth a lane has, and what they are.
#define MFMA_RUN CF_JOIN(MFMA_RUN_, DTYPE)
#define MFMA_DEPTH (MFMA_RUN * MFMA_WAVE / MFMA)  // divides TILE_K
#define MFMA_RUN_FLOAT32 1
#define MFMA_RUN_FLOAT16 4
#define MFMA_OPERAND CF_JOIN(MFMA_OPERAND_, DTYPE)
#define MFMA_OPERAND_FLOAT32 float
#define MFMA_OPERAND_FLOAT16 MfmaHalves
#define MFMA_OPERAND_BFLOAT16 MfmaBfloats
typedef _Float16 MfmaHalves __attribute__((ext_vector_type(4)));

#if defined(__gfx908__)
#define MFMA_RUN_BFLOAT16 2
#define MFMA_32_BFLOAT16(a, b, c) __builtin_amdgcn_mfma_f32_32x32x4bf16(a, b, c, 0, 0, 0)
#define MFMA_16_BFLOAT16(a, b, c) __builtin_amdgcn_mfma_f32_16x16x8bf16(a, b, c, 0, 0, 0)
#else
#define MFMA_RUN_BFLOAT16 4
#define MFMA_32_BFLOAT16(a, b, c) __builtin_amdgcn_mfma_f32_32x32x8bf16_1k(a, b, c, 0, 0, 0)
#define MFMA_16_BFLOAT16(a, b, c) __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(a, b, c, 0, 0, 0)
#endif
typedef short MfmaBfloats __attribute__((ext_vector_type(MFMA_RUN_BFLOAT16)));

#define MFMA_MULTIPLY CF_JOIN(CF_JOIN(MFMA_, MFMA), CF_JOIN(_, DTYPE))
#define MFMA_32_FLOAT32(a, b, c) __builtin_amdgcn_mfma_f32_32x32x2f32(a, b, c, 0, 0, 0)
#define MFMA_16_FLOAT32(a, b, c) __builtin_amdgcn_mfma_f32_16x16x4f32(a, b, c, 0, 0, 0)
#define MFMA_32_FLOAT16(a, b, c) __builtin_amdgcn_mfma_f32_32x32x8f16(a, b, c, 0, 0, 0)
#define MFMA_16_FLOAT16(a, b, c) __builtin_amdgcn_mfma_f32_16x16x16f16(a, b, c, 0, 0, 0)

// An operand from the floats in local memory, which hold numbers of the type: nothing is rounded.
CF_INLINE void mfma_set(float *operand, int, float value) { *operand = value; }
CF_INLINE void mfma_set(MfmaHalves *operand, int e, float value) { (*operand)[e] = (_Float16)value; }
CF_INLINE void mfma_set(MfmaBfloats *operand, int e, float value) { (*operand)[e] = (short)(CF_AS_UINT(value) >> 16); }

#endif  // MFMA
