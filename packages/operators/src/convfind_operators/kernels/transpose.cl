// operators-copy: y = x where neighbours in x and neighbours in y lie along different axes, in tiles.
//
// `a` is the axis of neighbours in x, `b` that of neighbours in y; both have steps in the other tensor, and the rows' axes
// are those outside. On CPUs a tile of 16 x 16 is transposed in registers; on GPUs a work-group takes a tile
// of them through local memory, as square as `b` is long, so that both tensors are met in order.
#include "walk.h"

#ifndef BYTES
#define BYTES 4  // of an element: 1, 2, 4 or 8
#endif
#ifndef WIDTH
#define WIDTH 1  // 16 on CPUs
#endif
#ifndef INDEX
#define INDEX CF_LONG  // counts tiles on GPUs, and what a launch has beyond them: CF_UINT where it can
#endif
#ifndef GROUP
#define GROUP 256  // work-items of a group on GPUs: a multiple of 32
#endif
#ifndef TILE_A
#define TILE_A 32  // elements of a tile along both axes on GPUs: powers of two
#define TILE_B 32
#endif
#ifndef PAIR
#define PAIR 1  // 2: neighbours of two bytes are loaded and stored in pairs, which begin at multiples of four bytes
#endif
#define SHARE (TILE_A * TILE_B / (GROUP * PAIR))  // of a work-item

#define ELEMENT CF_JOIN(ELEMENT_OF_, BYTES)
#define ELEMENT_OF_1 unsigned char
#define ELEMENT_OF_2 CF_USHORT
#define ELEMENT_OF_4 CF_UINT
#define ELEMENT_OF_8 CF_LONG

#if WIDTH == 16

#define VECTOR CF_JOIN(VECTOR_OF_, BYTES)
#define VECTOR_OF_1 uchar16
#define VECTOR_OF_2 ushort16
#define VECTOR_OF_4 uint16
#define VECTOR_OF_8 long16

CF_INLINE VECTOR zip_low(const VECTOR a, const VECTOR b) {
  return (VECTOR)(a.s0, b.s0, a.s1, b.s1, a.s2, b.s2, a.s3, b.s3, a.s4, b.s4, a.s5, b.s5, a.s6, b.s6, a.s7, b.s7);
}

CF_INLINE VECTOR zip_high(const VECTOR a, const VECTOR b) {
  return (VECTOR)(a.s8, b.s8, a.s9, b.s9, a.sa, b.sa, a.sb, b.sb, a.sc, b.sc, a.sd, b.sd, a.se, b.se, a.sf, b.sf);
}

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

// x_step: of b; y_step: of a. `strips`: parts of b of a tile's size; an item of a CPU has `per_item` strips of rows.
CF_KERNEL void operators_transpose(CF_GLOBAL const ELEMENT *x, STEPS(x), CF_GLOBAL ELEMENT *y, STEPS(y), ROW_SIZES,
                                   const int size_a, const int size_b, const int strips, const CF_LONG all,
                                   const CF_LONG per_item) {
#if WIDTH == 16
  const CF_LONG first = CF_GLOBAL_ID(0) * per_item;
  for (CF_LONG index = first; index < min(first + per_item, all); ++index) {
    const Row row = ROW_OF(index / strips);
    const int b = index % strips * WIDTH, count_b = min(size_b - b, WIDTH);
    CF_GLOBAL const ELEMENT *const from = x + ROW_START(x, row) + b * x_step;
    CF_GLOBAL ELEMENT *const to = y + ROW_START(y, row) + b;
    int a = 0;
    if (count_b == WIDTH)
      for (; a + WIDTH <= size_a; a += WIDTH) {
        VECTOR rows[WIDTH];
#pragma unroll
        for (int i = 0; i < WIDTH; ++i) rows[i] = vload16(0, from + i * x_step + a);
        transpose_tile(rows);
#pragma unroll
        for (int i = 0; i < WIDTH; ++i) vstore16(rows[i], 0, to + (a + i) * y_step);
      }
    if (count_b == 3)
      for (; a < size_a; ++a) {
        const ELEMENT one = from[a], two = from[a + x_step], three = from[a + 2 * x_step];
        to[a * y_step] = one;
        to[a * y_step + 1] = two;
        to[a * y_step + 2] = three;
      }
    for (; a < size_a; ++a)
      for (int i = 0; i < count_b; ++i) to[a * y_step + i] = from[i * x_step + a];
  }
#else
  // Neither way of reading it has conflicts of banks: these are four bytes wide.
  CF_LOCAL ELEMENT tile[TILE_B][TILE_A + (TILE_B < 32 ? 32 / TILE_B : 1)];
  const int across = (size_a + TILE_A - 1) / TILE_A, item = CF_LOCAL_ID(0);
  for (INDEX index = CF_GROUP_ID(0); index < all * across; index += CF_GLOBAL_SIZE(0) / GROUP) {
    const int a = index % across * TILE_A;
    const INDEX strip = index / across;
    const Row row = ROW_OF(strip / strips);
    const int b = strip % strips * TILE_B;
    CF_GLOBAL const ELEMENT *const from = x + ROW_START(x, row) + b * x_step + a;
    CF_GLOBAL ELEMENT *const to = y + ROW_START(y, row) + a * y_step + b;
    const int count_a = size_a - a, count_b = size_b - b;
    CF_BARRIER();
    CF_UNROLL
    for (int part = 0; part < SHARE; ++part) {
      const int i = (part * GROUP + item) * PAIR, own_a = i % TILE_A, own_b = i / TILE_A;
      if (own_a < count_a && own_b < count_b) {
#if PAIR == 2
        const CF_UINT two = *(CF_GLOBAL const CF_UINT *)(from + own_b * x_step + own_a);
        tile[own_b][own_a] = two & 0xffff;
        tile[own_b][own_a + 1] = two >> 16;
#else
        tile[own_b][own_a] = from[own_b * x_step + own_a];
#endif
      }
    }
    CF_BARRIER();
    CF_UNROLL
    for (int part = 0; part < SHARE; ++part) {
      const int i = (part * GROUP + item) * PAIR, own_a = i / TILE_B, own_b = i % TILE_B;
      if (own_a < count_a && own_b < count_b) {
#if PAIR == 2
        const CF_UINT low = tile[own_b][own_a], high = tile[own_b + 1][own_a];
        *(CF_GLOBAL CF_UINT *)(to + own_a * y_step + own_b) = low | high << 16;
#else
        to[own_a * y_step + own_b] = tile[own_b][own_a];
#endif
      }
    }
  }
#endif
}
