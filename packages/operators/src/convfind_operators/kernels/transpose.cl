// operators-copy: y = x where neighbours in x and neighbours in y lie along different axes, in tiles.
//
// `a` is the axis of neighbours in x, `b` that of neighbours in y; both have steps in the other tensor, and the rows' axes
// are those outside. On CPUs blocks of 16 x 16 are transposed in registers, and whole tiles of SIDE x SIDE are gathered in
// private memory, since single lines of 64 bytes that lie apart are slow to write; on GPUs a work-group takes a tile
// of them through local memory, as square as `b` is long, so that both tensors are met in order.
#include "elements.h"
#include "squares.h"
#include "walk.h"

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
#ifndef SIDE
#define SIDE 64  // of a tile on CPUs: a multiple of 16
#endif
#define SHARE (TILE_A * TILE_B / (GROUP * PAIR))  // of a work-item

#if WIDTH == 16
#if STREAMED && defined(STORE_STREAMED) && BYTES == 4
#define PUT(pointer, value)                                   \
  do {                                                        \
    if (((size_t)(pointer) & 63) == 0)                        \
      STORE_STREAMED(pointer, as_float16(value));             \
    else                                                      \
      vstore16(value, 0, pointer);                            \
  } while (0)
#else
#define PUT(pointer, value) vstore16(value, 0, pointer)
#endif

#if BYTES >= 4

CF_INLINE void transpose_block(CF_GLOBAL const ELEMENT *from, const CF_LONG x_step, ELEMENT *to) {
  EIGHT rows[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) rows[i] = vload8(0, from + i * x_step);
  transpose_eight(rows);
#pragma unroll
  for (int i = 0; i < 8; ++i) vstore8(rows[i], 0, to + i * SIDE);
}
#define BLOCK 8

#else

CF_INLINE void transpose_block(CF_GLOBAL const ELEMENT *from, const CF_LONG x_step, ELEMENT *to) {
  VECTOR rows[WIDTH];
#pragma unroll
  for (int i = 0; i < WIDTH; ++i) rows[i] = vload16(0, from + i * x_step);
  transpose_tile(rows);
#pragma unroll
  for (int i = 0; i < WIDTH; ++i) vstore16(rows[i], 0, to + i * SIDE);
}
#define BLOCK WIDTH

#endif

// Up to 16 rows of x: in blocks as far as they fill them.
CF_INLINE void transpose_rest(CF_GLOBAL const ELEMENT *from, const CF_LONG x_step, CF_GLOBAL ELEMENT *to,
                              const CF_LONG y_step, const int count_a, const int count_b) {
  int a = 0;
  if (count_b == WIDTH)
    for (; a + WIDTH <= count_a; a += WIDTH) {
      VECTOR rows[WIDTH];
#pragma unroll
      for (int i = 0; i < WIDTH; ++i) rows[i] = vload16(0, from + i * x_step + a);
      transpose_tile(rows);
#pragma unroll
      for (int i = 0; i < WIDTH; ++i) vstore16(rows[i], 0, to + (a + i) * y_step);
    }
  if (count_b == 2 && y_step == 2)  // pairs
    for (; a + WIDTH <= count_a; a += WIDTH) {
      const VECTOR one = vload16(0, from + a), two = vload16(0, from + x_step + a);
      vstore16(zip_low(one, two), 0, to + a * 2);
      vstore16(zip_high(one, two), 1, to + a * 2);
    }
  if (count_b == 3 && y_step == 3)  // an image's colours
    for (; a + WIDTH <= count_a; a += WIDTH) {
      const VECTOR one = vload16(0, from + a), two = vload16(0, from + x_step + a), three = vload16(0, from + 2 * x_step + a);
      CF_GLOBAL ELEMENT *const place = to + a * 3;
      vstore16((VECTOR)(one.s0, two.s0, three.s0, one.s1, two.s1, three.s1, one.s2, two.s2, three.s2, one.s3, two.s3,
                        three.s3, one.s4, two.s4, three.s4, one.s5), 0, place);
      vstore16((VECTOR)(two.s5, three.s5, one.s6, two.s6, three.s6, one.s7, two.s7, three.s7, one.s8, two.s8, three.s8,
                        one.s9, two.s9, three.s9, one.sa, two.sa), 1, place);
      vstore16((VECTOR)(three.sa, one.sb, two.sb, three.sb, one.sc, two.sc, three.sc, one.sd, two.sd, three.sd, one.se,
                        two.se, three.se, one.sf, two.sf, three.sf), 2, place);
    }
  if (count_b == 3)
    for (; a < count_a; ++a) {
      const ELEMENT one = from[a], two = from[a + x_step], three = from[a + 2 * x_step];
      to[a * y_step] = one;
      to[a * y_step + 1] = two;
      to[a * y_step + 2] = three;
    }
  for (; a < count_a; ++a)
    for (int i = 0; i < count_b; ++i) to[a * y_step + i] = from[i * x_step + a];
}
#endif

// x_step: of b; y_step: of a. `strips`: parts of b of a tile's size; an item of a CPU has `per_item` strips of rows, and of
// these `columns` neighbours in x, a multiple of SIDE.
CF_KERNEL ONE_ITEM void operators_transpose(CF_GLOBAL const ELEMENT *x, STEPS(x), CF_GLOBAL ELEMENT *y, STEPS(y), ROW_SIZES,
                                   const int size_a, const int size_b, const int strips, const CF_LONG all,
                                   const CF_LONG per_item, const int columns) {
#if WIDTH == 16
  ELEMENT tile[SIDE * SIDE];
  const CF_LONG first = CF_GLOBAL_ID(0) * per_item;
  for (CF_LONG index = first; index < min(first + per_item, all); ++index) {
    const Row row = ROW_OF(index / strips);
    const int begin = index % strips * SIDE, count_b = min(size_b - begin, SIDE);
    const int start = (int)CF_GLOBAL_ID(1) * columns, end = start + min(columns, size_a - start);
    for (int a = start; a < end; a += SIDE) {
      CF_GLOBAL const ELEMENT *const from = x + ROW_START(x, row) + begin * x_step + a;
      CF_GLOBAL ELEMENT *const to = y + ROW_START(y, row) + a * y_step + begin;
      const int count_a = min(end - a, SIDE);
      if (count_a == SIDE && count_b == SIDE) {
        for (int b = 0; b < SIDE; b += BLOCK)
          for (int i = 0; i < SIDE; i += BLOCK) transpose_block(from + b * x_step + i, x_step, tile + i * SIDE + b);
        for (int i = 0; i < SIDE; ++i)
          for (int b = 0; b < SIDE; b += WIDTH) {
            PREFETCH(from + i * x_step + SIDE + b);  // of the next tile
            PUT(to + i * y_step + b, vload16(0, tile + i * SIDE + b));
          }
      } else {
        for (int b = 0; b < count_b; b += WIDTH)
          transpose_rest(from + b * x_step, x_step, to + b, y_step, count_a, min(count_b - b, WIDTH));
      }
    }
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
