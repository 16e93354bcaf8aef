// Blocks of 16 x 16 and 8 x 8 elements, transposed in registers of CPUs.
#ifndef OPERATORS_SQUARES_H
#define OPERATORS_SQUARES_H

#include "elements.h"

#ifndef BYTES
#define BYTES 4  // of an element: 1, 2, 4 or 8
#endif

#define ELEMENT CF_JOIN(ELEMENT_OF_, BYTES)
#define ELEMENT_OF_1 unsigned char
#define ELEMENT_OF_2 CF_USHORT
#define ELEMENT_OF_4 CF_UINT
#define ELEMENT_OF_8 CF_LONG

#if WIDTH == 16

#define VECTOR CF_JOIN(VECTOR_IN_, BYTES)
#define VECTOR_IN_1 uchar16
#define VECTOR_IN_2 ushort16
#define VECTOR_IN_4 uint16
#define VECTOR_IN_8 long16

CF_INLINE VECTOR zip_low(const VECTOR a, const VECTOR b) {
  return (VECTOR)(a.s0, b.s0, a.s1, b.s1, a.s2, b.s2, a.s3, b.s3, a.s4, b.s4, a.s5, b.s5, a.s6, b.s6, a.s7, b.s7);
}

CF_INLINE VECTOR zip_high(const VECTOR a, const VECTOR b) {
  return (VECTOR)(a.s8, b.s8, a.s9, b.s9, a.sa, b.sa, a.sb, b.sb, a.sc, b.sc, a.sd, b.sd, a.se, b.se, a.sf, b.sf);
}

#if BYTES >= 4

// Blocks of 8 x 8, whose halves stay where they are until the last round: 16 rows are more than there are registers.
#define EIGHT CF_JOIN(EIGHT_OF_, BYTES)
#define EIGHT_OF_4 uint8
#define EIGHT_OF_8 long8

CF_INLINE void transpose_eight(EIGHT *a) {
  EIGHT b[8];
#pragma unroll
  for (int i = 0; i < 8; i += 2) {
    const EIGHT one = a[i], two = a[i + 1];
    b[i] = (EIGHT)(one.s0, two.s0, one.s1, two.s1, one.s4, two.s4, one.s5, two.s5);
    b[i + 1] = (EIGHT)(one.s2, two.s2, one.s3, two.s3, one.s6, two.s6, one.s7, two.s7);
  }
  EIGHT c[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const EIGHT one = b[i / 4 * 4 + i % 4 / 2], two = b[i / 4 * 4 + i % 4 / 2 + 2];
    c[i] = i % 2 ? (EIGHT)(one.s2, one.s3, two.s2, two.s3, one.s6, one.s7, two.s6, two.s7)
                 : (EIGHT)(one.s0, one.s1, two.s0, two.s1, one.s4, one.s5, two.s4, two.s5);
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    a[i] = (EIGHT)(c[i].lo, c[i + 4].lo);
    a[i + 4] = (EIGHT)(c[i].hi, c[i + 4].hi);
  }
}

// Of four blocks.
CF_INLINE void transpose_tile(VECTOR *rows) {
  EIGHT blocks[2][2][8];
#pragma unroll
  for (int i = 0; i < WIDTH; ++i) {
    blocks[0][i / 8][i % 8] = rows[i].lo;
    blocks[1][i / 8][i % 8] = rows[i].hi;
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) transpose_eight(blocks[i / 2][i % 2]);
#pragma unroll
  for (int i = 0; i < WIDTH; ++i) rows[i] = (VECTOR)(blocks[i / 8][0][i % 8], blocks[i / 8][1][i % 8]);
}

#else

// Four rounds of zipping rows i and i + 8.
CF_INLINE void transpose_tile(VECTOR *rows) {
  VECTOR other[WIDTH];
#pragma unroll
  for (int round = 0; round < 2; ++round) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      other[2 * i] = zip_low(rows[i], rows[i + 8]);
      other[2 * i + 1] = zip_high(rows[i], rows[i + 8]);
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      rows[2 * i] = zip_low(other[i], other[i + 8]);
      rows[2 * i + 1] = zip_high(other[i], other[i + 8]);
    }
  }
}

#endif

#endif

#endif  // OPERATORS_SQUARES_H
