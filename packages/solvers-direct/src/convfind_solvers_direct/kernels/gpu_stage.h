// Runs of a tensor, channels first, in local memory.
#ifndef TILE_FLOATS
#define TILE_FLOATS 4096  // floats of a tile in local memory: multiple of 4
#endif

// Four neighbouring elements, aligned to four elements.
#define LOAD_FOUR(array, pointer) CF_JOIN(LOAD_FOUR_, DTYPE)(array, pointer)
#define LOAD_FOUR_FLOAT32(array, pointer) CF_LOAD4(array, pointer)
#define LOAD_FOUR_FLOAT16(array, pointer) LOAD_EACH(array, pointer)
#define LOAD_FOUR_BFLOAT16(array, pointer) LOAD_EACH(array, pointer)
#define LOAD_EACH(array, pointer) \
  do { FOR_UNROLLED(cf_e, 4) (array)[cf_e] = LOAD(pointer, cf_e); } while (0)

// How far behind a multiple of four elements a run begins: so far behind its place the copy begins.
#define SKIP(start) ((int)((start) & 3))

// n / d for n * d < 2^30, with the reciprocal 2^30 / d, rounded up.
#define QUOTIENT(n, reciprocal) ((int)((CF_LONG)(CF_UINT)(n) * (CF_UINT)(reciprocal) >> 30))

// `length` elements from `start` on, of `size` in the tensor; whole quads, so up to 3 on both sides, too.
CF_INLINE void stage(CF_LOCAL_PTR float *to, CF_GLOBAL const ELEMENT *from, CF_LONG start, int length,
                     CF_LONG size, int item) {
  const CF_LONG first = start - SKIP(start);
  const int left = (int)min(size - first, (CF_LONG)((SKIP(start) + length + 3) / 4 * 4));
  const int last = left / 4 * 4 - 4;
  from += first;
  for (int at = 4 * item; at <= last; at += 4 * ITEMS) {
    float part[4];
    LOAD_FOUR(part, from + at);
    CF_STORE4_LOCAL(to + at, part);
  }
  // The tensor ends within a quad.
  for (int at = last + 4 + item; at < left; at += ITEMS) to[at] = LOAD(from, at);
}

// `rows` pieces of `width` elements, `pitch` apart in the tensor, side by side.
CF_INLINE void stage_rows(CF_LOCAL_PTR float *to, CF_GLOBAL const ELEMENT *from, int rows, int width,
                          int pitch, int item) {
  for (int row = 0; row < rows; ++row) {
    for (int at = item; at < width; at += ITEMS) to[row * width + at] = LOAD(from, (CF_LONG)row * pitch + at);
  }
}
