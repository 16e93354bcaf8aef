// The 16-bit floating-point types.
#pragma once

struct __half {
  _Float16 data;
  __half() = default;
  __half(float value) : data(static_cast<_Float16>(value)) {}
  operator float() const { return static_cast<float>(data); }
};
typedef __half half;
struct alignas(4) __half2 {
  __half x, y;
};
inline __half __float2half(float value) { return __half(value); }
inline __half __float2half_rn(float value) { return __half(value); }
inline float __half2float(__half value) { return value; }
inline unsigned short __half_as_ushort(__half value) { return standin_bits<unsigned short>(value.data); }
inline __half __ushort_as_half(unsigned short bits) {
  __half value;
  value.data = standin_bits<_Float16>(bits);
  return value;
}

inline float standin_from_bfloat16(unsigned short bits) {
  return __uint_as_float(static_cast<unsigned>(bits) << 16);
}

struct hip_bfloat16 {
  unsigned short data;
  hip_bfloat16() = default;
  explicit hip_bfloat16(float value) {
    const unsigned bits = __float_as_uint(value);
    data = value != value ? static_cast<unsigned short>(bits >> 16 | 0x40)
                          : static_cast<unsigned short>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  }
  operator float() const { return standin_from_bfloat16(data); }
};
typedef hip_bfloat16 __hip_bfloat16;
inline hip_bfloat16 __float2bfloat16(float value) { return hip_bfloat16(value); }
inline float __bfloat162float(hip_bfloat16 value) { return value; }
