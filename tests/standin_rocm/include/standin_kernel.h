// HIP's device language for g++: what hiprtc knows before the first line of a program.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "standin_abi.h"

#ifndef STANDIN_WAVE
#define STANDIN_WAVE 64  // lanes of a wave: 32, 64
#endif

extern "C" {
__attribute__((visibility("default"))) StandinRuntime *standin;
extern __attribute__((visibility("default"))) const unsigned standin_wave = STANDIN_WAVE;
}
alignas(128) static char standin_dynamic[65536] __attribute__((section("standin_lds_dynamic"), unused));

// The words standin_global, standin_shared and ext_vector_type are rewritten once macros are expanded.
#define __global__ standin_global
#define __shared__ standin_shared
#define HIP_DYNAMIC_SHARED(type, name) extern __shared__ type name[];
#define __device__
#define __host__
#define __constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define amdgpu_flat_work_group_size(...) unused
#define amdgpu_waves_per_eu(...) unused

#define threadIdx (standin->item->thread)
#define blockIdx (standin->item->block)
#define blockDim (standin->item->block_dim)
#define gridDim (standin->item->grid_dim)
#define warpSize STANDIN_WAVE
#define __AMDGCN_WAVEFRONT_SIZE STANDIN_WAVE
#define __AMDGCN_WAVEFRONT_SIZE__ STANDIN_WAVE

typedef StandinDim dim3;

// How a kernel is called with arguments that lie somewhere in memory.
template <typename Function>
struct StandinCall;
template <typename... Arguments>
struct StandinCall<void(Arguments...)> {
  static constexpr unsigned count = sizeof...(Arguments);
  static constexpr unsigned sizes[] = {sizeof(Arguments)..., 0}, alignments[] = {alignof(Arguments)..., 1};
  template <void (*kernel)(Arguments...)>
  static void call(void *const *arguments) {
    call_with<kernel>(arguments, Indices<__integer_pack(sizeof...(Arguments))...>());
  }
  template <int... I>
  struct Indices {};
  template <void (*kernel)(Arguments...), int... I>
  static void call_with(void *const *arguments, Indices<I...>) {
    kernel(*static_cast<Arguments *>(arguments[I])...);
  }
};
// Vectors with named elements.
#define STANDIN_VECTOR(type, name)                                      \
  struct alignas(2 * sizeof(type)) name##2 { type x, y; };              \
  struct name##3 { type x, y, z; };                                     \
  struct alignas(sizeof(type) < 8 ? 4 * sizeof(type) : 16) name##4 { type x, y, z, w; };  \
  inline name##2 make_##name##2(type x, type y) { return {x, y}; }      \
  inline name##3 make_##name##3(type x, type y, type z) { return {x, y, z}; }             \
  inline name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }
typedef unsigned int uint;
typedef unsigned short ushort;
typedef unsigned char uchar;
STANDIN_VECTOR(float, float)
STANDIN_VECTOR(double, double)
STANDIN_VECTOR(int, int)
STANDIN_VECTOR(unsigned, uint)
STANDIN_VECTOR(short, short)
STANDIN_VECTOR(unsigned short, ushort)
STANDIN_VECTOR(signed char, char)
STANDIN_VECTOR(unsigned char, uchar)

// Mathematics.
#define STANDIN_MATH1(name)                                             \
  inline double name(double a) { return __builtin_##name(a); }          \
  inline float name##f(float a) { return __builtin_##name##f(a); }      \
  inline float name(float a) { return __builtin_##name##f(a); }
#define STANDIN_MATH2(name)                                                            \
  inline double name(double a, double b) { return __builtin_##name(a, b); }            \
  inline float name##f(float a, float b) { return __builtin_##name##f(a, b); }         \
  inline float name(float a, float b) { return __builtin_##name##f(a, b); }
STANDIN_MATH1(fabs) STANDIN_MATH1(sqrt) STANDIN_MATH1(floor) STANDIN_MATH1(ceil) STANDIN_MATH1(trunc)
STANDIN_MATH1(rint) STANDIN_MATH1(round) STANDIN_MATH1(exp) STANDIN_MATH1(expm1) STANDIN_MATH1(log) STANDIN_MATH1(log1p)
STANDIN_MATH1(sin) STANDIN_MATH1(cos) STANDIN_MATH1(tan) STANDIN_MATH1(asin) STANDIN_MATH1(acos) STANDIN_MATH1(atan)
STANDIN_MATH1(sinh) STANDIN_MATH1(cosh) STANDIN_MATH1(tanh) STANDIN_MATH1(asinh) STANDIN_MATH1(acosh) STANDIN_MATH1(atanh)
STANDIN_MATH1(erf) STANDIN_MATH1(erfc)
STANDIN_MATH2(fmin) STANDIN_MATH2(fmax) STANDIN_MATH2(fmod) STANDIN_MATH2(pow)
inline double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
inline float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
inline float fmaf(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
template <typename T>
inline T min(T a, T b) { return b < a ? b : a; }
template <typename T>
inline T max(T a, T b) { return a < b ? b : a; }

template <typename To, typename From>
inline To standin_bits(From from) {
  static_assert(sizeof(To) == sizeof(From), "same size");
  return __builtin_bit_cast(To, from);
}
inline unsigned __float_as_uint(float a) { return standin_bits<unsigned>(a); }
inline int __float_as_int(float a) { return standin_bits<int>(a); }
inline float __uint_as_float(unsigned a) { return standin_bits<float>(a); }
inline float __int_as_float(int a) { return standin_bits<float>(a); }
inline int __popc(unsigned a) { return __builtin_popcount(a); }
inline int __popcll(unsigned long long a) { return __builtin_popcountll(a); }
inline int __ffs(int a) { return __builtin_ffs(a); }
inline int __clz(int a) { return a ? __builtin_clz(a) : 32; }
inline int __mul24(int a, int b) { return a * b; }
inline int __mulhi(int a, int b) { return static_cast<int>((static_cast<long long>(a) * b) >> 32); }
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>((static_cast<unsigned long long>(a) * b) >> 32);
}

#include "standin_half.h"
#include "standin_wave.h"
#include "standin_mfma.h"
