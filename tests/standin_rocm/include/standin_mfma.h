// Matrix-core built-ins of CDNA by their lane layout, as AMD's instruction set documents give it.
//
// An M x N x K instruction with B blocks runs on 64 lanes. Lane l gives row (A) or column (B) l % M of block
// l / M % B at V neighbouring k from V * (l / (M * B)) on. Element e of the result of lane l is, in tiles of
// 4 rows: column l % N; row 8 * (e / 4) + 4 * (l / 32) + e % 4 for M = 32, 4 * (l / 16) + e % 4 for M = 16.
// With several blocks the elements of each follow one another.
#pragma once

template <typename T, int Count>
struct StandinOperand {
  T value[Count];
};

inline float standin_number(float value) { return value; }
inline float standin_number(_Float16 value) { return static_cast<float>(value); }
inline float standin_number(short bits) { return standin_from_bfloat16(static_cast<unsigned short>(bits)); }
inline int standin_number(signed char value) { return value; }

// M = N; Element is the type of a number, Count of them in a lane's operand.
template <int M, int Blocks, typename Element, int Count, typename Sum, typename Vector, typename A>
inline Vector standin_mfma(const char *operation, A a, A b, Vector c) {
  static_assert(sizeof(A) == sizeof(Element) * Count, "operand");
  struct Both {
    A a, b;
  };
  const StandinLanes *lanes = standin_gather(operation, Both{a, b});
  const int own = __lane_id(), column = own % M;
  constexpr int STEPS = 64 / (M * Blocks), ELEMENTS = M * M / 64;  // ELEMENTS of each block
  for (int block = 0; block < Blocks; ++block)
    for (int e = 0; e < ELEMENTS; ++e) {
      const int row = M == 32 ? e / 4 * 8 + own / 32 * 4 + e % 4 : own / 16 * 4 + e % 4;
      Sum sum = c[block * ELEMENTS + e];
      for (int step = 0; step < STEPS; ++step) {
        const int base = (step * Blocks + block) * M;
        const Both left = standin_lane<Both>(lanes, base + row), right = standin_lane<Both>(lanes, base + column);
        const auto *x = reinterpret_cast<const Element *>(&left.a), *y = reinterpret_cast<const Element *>(&right.b);
        for (int k = 0; k < Count; ++k) sum += static_cast<Sum>(standin_number(x[k])) * standin_number(y[k]);
      }
      c[block * ELEMENTS + e] = sum;
    }
  return c;
}

#define STANDIN_MFMA(name, m, blocks, element, count, sum)                                        \
  template <typename A, typename Vector>                                                          \
  inline Vector __builtin_amdgcn_mfma_##name(A a, A b, Vector c, int, int, int) {                 \
    return standin_mfma<m, blocks, element, count, sum>("mfma " #name, a, b, c);                  \
  }
#if defined(__gfx908__) || defined(__gfx90a__) || defined(__gfx940__) || defined(__gfx942__)
STANDIN_MFMA(f32_32x32x1f32, 32, 2, float, 1, float)
STANDIN_MFMA(f32_32x32x2f32, 32, 1, float, 1, float)
STANDIN_MFMA(f32_16x16x1f32, 16, 4, float, 1, float)
STANDIN_MFMA(f32_16x16x4f32, 16, 1, float, 1, float)
STANDIN_MFMA(f32_32x32x4f16, 32, 2, _Float16, 4, float)
STANDIN_MFMA(f32_32x32x8f16, 32, 1, _Float16, 4, float)
STANDIN_MFMA(f32_16x16x4f16, 16, 4, _Float16, 4, float)
STANDIN_MFMA(f32_16x16x16f16, 16, 1, _Float16, 4, float)
STANDIN_MFMA(f32_32x32x4bf16, 32, 1, short, 2, float)
STANDIN_MFMA(f32_16x16x8bf16, 16, 1, short, 2, float)
#if !defined(__gfx942__) && !defined(__gfx940__)
STANDIN_MFMA(i32_32x32x8i8, 32, 1, signed char, 4, int)
STANDIN_MFMA(i32_16x16x16i8, 16, 1, signed char, 4, int)
#endif
#endif
#if defined(__gfx90a__) || defined(__gfx940__) || defined(__gfx942__)
STANDIN_MFMA(f32_32x32x8bf16_1k, 32, 1, short, 4, float)
STANDIN_MFMA(f32_16x16x16bf16_1k, 16, 1, short, 4, float)
#endif
#if defined(__gfx940__) || defined(__gfx942__)
STANDIN_MFMA(i32_32x32x16_i8, 32, 1, signed char, 8, int)
STANDIN_MFMA(i32_16x16x32_i8, 16, 1, signed char, 8, int)
#endif
