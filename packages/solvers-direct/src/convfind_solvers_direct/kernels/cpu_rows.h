// Rows of a tensor, channels first, in private memory, for vectors of neighbouring results.
#ifndef CPU_ROWS_H
#define CPU_ROWS_H

// A row of `width` elements, `pad` zeros behind where `to` begins: the columns of each phase of the stride side
// by side, `part` floats a phase; with GRADIENT with the zeros of the stride between them. `to` is zero
// where nothing is written.
INLINE void copy_row(float *to, __global const float *from, int width, int part, int pad) {
#if GRADIENT
  to += (FILTER_W - 1) * DILATION_W;
  for (int i = 0; i < width; i++) to[i * STRIDE_W] = from[i];
#else
  int i = 0;
#if STRIDE_W == 1
  for (; i + VEC <= width; i += VEC) vstore16(vload16(0, from + i), 0, to + pad + i);
#elif STRIDE_W == 2
  for (; i + 2 * VEC <= width; i += 2 * VEC) {
    const float16 low = vload16(0, from + i), high = vload16(0, from + i + VEC);
    const float16 even = (float16)(low.even, high.even), odd = (float16)(low.odd, high.odd);
    vstore16(even, 0, to + pad % 2 * part + (pad + i) / 2);
    vstore16(odd, 0, to + (pad + 1) % 2 * part + (pad + i + 1) / 2);
  }
#endif
  for (; i < width; i++) to[(pad + i) % STRIDE_W * part + (pad + i) / STRIDE_W] = from[i];
#endif
}

#endif  // CPU_ROWS_H
