// Elements of any type to float32, or back, rounded to nearest.
//
// One work-item converts `share` neighbouring elements.
#include "convfind_kernel.h"

#ifndef FROM
#define FROM FLOAT16   // FLOAT16, BFLOAT16, INT8, INT32, FLOAT32; not that of TO
#endif
#ifndef TO
#define TO FLOAT32     // FLOAT32, or with FROM FLOAT32: FLOAT16, BFLOAT16, INT32
#endif

#define LOAD16(dtype, pointer) CF_JOIN(LOAD16_, dtype)(pointer)
#define STORE16(dtype, pointer, value) CF_JOIN(STORE16_, dtype)(pointer, value)
#define LOAD16_FLOAT32(pointer) vload16(0, pointer)
#define LOAD16_FLOAT16(pointer) vload_half16(0, pointer)
#define LOAD16_BFLOAT16(pointer) as_float16(convert_uint16(vload16(0, pointer)) << 16u)
#define LOAD16_INT8(pointer) convert_float16(vload16(0, (__global const char *)(pointer)))
#define LOAD16_INT32(pointer) convert_float16(vload16(0, pointer))
#define STORE16_FLOAT32(pointer, value) vstore16(value, 0, pointer)
#define STORE16_FLOAT16(pointer, value) vstore_half16_rte(value, 0, pointer)
#define STORE16_BFLOAT16(pointer, value) vstore16(bfloat16_of(value), 0, pointer)
#define STORE16_INT32(pointer, value) vstore16(convert_int16_rte(value), 0, pointer)

// The upper half of each float, rounded to nearest, ties to even; a NaN stays one.
inline ushort16 bfloat16_of(float16 value) {
  const uint16 bits = as_uint16(value);
  const uint16 rounded = (bits + 0x7fffu + ((bits >> 16u) & 1u)) >> 16u;
  const uint16 nan = (bits >> 16u) | 0x40u;
  return convert_ushort16(select(rounded, nan, (bits & 0x7fffffffu) > 0x7f800000u));
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void igemm_cpu_convert(
    __global const CF_TYPE(FROM) *restrict from, __global CF_TYPE(TO) *restrict to, const long size,
    const long share) {
  const long first = get_global_id(0) * share, end = min(size, first + share);
  long i = first;
  for (; i + 16 <= end; i += 16) {
    const float16 value = LOAD16(FROM, from + i);
    STORE16(TO, to + i, value);
  }
  for (; i < end; i++) {
    const float value = CF_LOAD(FROM, from, i);
    CF_STORE(TO, to, i, value);
  }
}
