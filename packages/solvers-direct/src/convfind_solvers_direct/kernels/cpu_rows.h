// Rows of a tensor, channels first, in private memory, for vectors of neighbouring results.
#ifndef CPU_ROWS_H
#define CPU_ROWS_H

#if !GRADIENT
// STRIDE_W neighbouring vectors to their phases; `to` is where the first of their elements belongs at `at`.
INLINE void copy_vectors(float *to, __global const float *from, int at, int part) {
#if STRIDE_W == 1
  vstore16(vload16(0, from), 0, to + at);
#elif STRIDE_W == 2
  const float16 low = vload16(0, from), high = vload16(1, from);
  const float16 even = (float16)(low.even, high.even), odd = (float16)(low.odd, high.odd);
  vstore16(even, 0, to + at % 2 * part + at / 2);
  vstore16(odd, 0, to + (at + 1) % 2 * part + (at + 1) / 2);
#elif STRIDE_W == 4
  const float16 a = vload16(0, from), b = vload16(1, from), c = vload16(2, from), d = vload16(3, from);
  const float16 even = (float16)(a.even, b.even), odd = (float16)(a.odd, b.odd);
  const float16 later_even = (float16)(c.even, d.even), later_odd = (float16)(c.odd, d.odd);
  const float16 phase[4] = {(float16)(even.even, later_even.even), (float16)(odd.even, later_odd.even),
                            (float16)(even.odd, later_even.odd), (float16)(odd.odd, later_odd.odd)};
#pragma unroll
  for (int p = 0; p < 4; p++) vstore16(phase[p], 0, to + (at + p) % 4 * part + (at + p) / 4);
#endif
}
#endif

// A row of `width` elements, `pad` zeros behind where `to` begins: the columns of each phase of the stride side
// by side, `part` floats a phase; with GRADIENT with the zeros of the stride between them. `to` is zero
// where nothing is written.
INLINE void copy_row(float *to, __global const float *from, int width, int part, int pad) {
#if GRADIENT
  to += (FILTER_W - 1) * DILATION_W;
  for (int i = 0; i < width; i++) to[i * STRIDE_W] = from[i];
#else
#if STRIDE_W == 1 || STRIDE_W == 2 || STRIDE_W == 4
  const int unit = STRIDE_W * VEC;
  if (width >= unit) {
    for (int next = 0; next < width; next += unit) {
      const int i = min(next, width - unit);
      copy_vectors(to, from + i, pad + i, part);
    }
    return;
  }
#endif
  for (int i = 0; i < width; i++) to[(pad + i) % STRIDE_W * part + (pad + i) / STRIDE_W] = from[i];
#endif
}

#endif  // CPU_ROWS_H
