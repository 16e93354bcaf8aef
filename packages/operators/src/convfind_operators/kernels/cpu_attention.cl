// operators-attention on CPUs: y = softmax(factor q k^T + mask) v, whose scores stay in a core's caches.
//
// A work-item has up to QUERIES queries of a head, and meets the keys in blocks of up to KEYS. A block's keys lie transposed in
// panels of 16, its values in panels of 16 elements; register tiles of ROWS queries by a panel compute scores, and sums of
// values. Where a block has larger scores than those before, what was summed up is scaled down.
#include "attention.h"
#include "elements.h"
#include "squares.h"

#ifndef DTYPE
#define DTYPE FLOAT32
#endif
#ifndef MASK_IS
#define MASK_IS 1  // from key to key of the mask: 1 neighbours, 2 any distance; 0: there is one
#endif
#ifndef Q_IS
#define Q_IS 1  // from element to element of a query: 1 neighbours, 2 any distance; so of the others
#endif
#ifndef K_IS
#define K_IS 1
#endif
#ifndef V_IS
#define V_IS 1
#endif
#ifndef Y_IS
#define Y_IS 1
#endif
#ifndef ROWS
#define ROWS 6  // queries of a register tile
#endif
#ifndef QUERIES
#define QUERIES 192  // of a work-item, at most: a multiple of ROWS
#endif
#ifndef KEYS
#define KEYS 128  // of a block, at most: a multiple of 16
#endif
#ifndef DEPTH
#define DEPTH 64  // room for the elements of a key, and of a value: multiples of 16
#endif
#ifndef VALUES
#define VALUES 64
#endif

#define STEPS 4  // products of a tile that are written out one after the other
#define ALIGNED __attribute__((aligned(64)))
// A call of its own: what the kernel keeps in registers would push sums out of them.
#define NOINLINE __attribute__((noinline))

// Adds to ROWS sums products of one number each, `pitch` apart, by a row of a panel.
CF_INLINE void add_product(VALUE *sums, const float *left, const int pitch, const float *panel) {
  const VALUE right = vload16(0, panel);
#pragma unroll
  for (int r = 0; r < ROWS; ++r) sums[r] = fma(EACH(left[r * pitch]), right, sums[r]);
}

// .. of `count` numbers each. Steps that are written out have fewer instructions around their products.
CF_INLINE void add_products(VALUE *sums, const float *left, const int pitch, const float *panel, const int count) {
  const int times = count / STEPS;
  for (int n = 0; n < times; ++n, left += STEPS, panel += STEPS * WIDTH) {
#pragma unroll
    for (int s = 0; s < STEPS; ++s) add_product(sums, left + s, pitch, panel + s * WIDTH);
  }
  for (int i = times * STEPS; i < count; ++i, ++left, panel += WIDTH) add_product(sums, left, pitch, panel);
}

NOINLINE void score_tile(const float *q, const float *panel, float *scores, const int depth, const float factor) {
  VALUE sums[ROWS];
#pragma unroll
  for (int r = 0; r < ROWS; ++r) sums[r] = EACH(0);
  add_products(sums, q, DEPTH, panel, depth);
#pragma unroll
  for (int r = 0; r < ROWS; ++r) vstore16(EACH(factor) * sums[r], 0, scores + r * KEYS);
}

NOINLINE void value_tile(const float *weights, const float *panel, float *results, const float *kept, const int count) {
  VALUE sums[ROWS];
#pragma unroll
  for (int r = 0; r < ROWS; ++r) sums[r] = EACH(kept[r]) * vload16(0, results + r * VALUES);
  add_products(sums, weights, KEYS, panel, count);
#pragma unroll
  for (int r = 0; r < ROWS; ++r) vstore16(sums[r], 0, results + r * VALUES);
}

// Vectors of a sequence, `step` apart, as rows of floats, `pitch` apart; behind the last of `there` it once more.
#define COPY_ROWS(to, pitch, from, step, element, is, length, rows, there)                                         \
  for (int cf_row = 0; cf_row < (rows); ++cf_row)                                                                  \
    for (int cf_at = 0; cf_at < (length); cf_at += WIDTH)                                                          \
      vstore16(LOAD_STEPPED(DTYPE, (from) + min(cf_row, (there) - 1) * (step) + cf_at * (element), is, element,    \
                            (length) - cf_at),                                                                     \
               0, (to) + cf_row * (pitch) + cf_at)

CF_INLINE float largest_of(const VALUE x) {
  const float8 a = max(x.lo, x.hi);
  const float4 b = max(a.lo, a.hi);
  const float2 c = max(b.lo, b.hi);
  return max(c.x, c.y);
}

CF_INLINE float sum_of(const VALUE x) {
  const float8 a = x.lo + x.hi;
  const float4 b = a.lo + a.hi;
  const float2 c = b.lo + b.hi;
  return c.x + c.y;
}

CF_KERNEL ONE_ITEM void operators_cpu_attention(OPERANDS, ELEMENT_STEPS, SIZES, const int share, const int block) {
  float own[QUERIES * DEPTH] ALIGNED, scores[QUERIES * KEYS] ALIGNED, results[QUERIES * VALUES] ALIGNED;
  float turned[KEYS * DEPTH] ALIGNED, panels[KEYS * VALUES] ALIGNED;
  float largest[QUERIES], totals[QUERIES], kept[QUERIES];
  const int parts = (queries + share - 1) / share;
  const int part = CF_GLOBAL_ID(0) % parts, sequence = CF_GLOBAL_ID(0) / parts;
  const int head = sequence % heads, batch = sequence / heads, first = part * share;
  const int rows = min(share, queries - first), tiled = (rows + ROWS - 1) / ROWS * ROWS;
  ENTER_HEAD(batch, head, first);
  const VALUE lane = (VALUE)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const int seen = CAUSAL ? min(keys, first + rows) : keys;  // beyond it no query of the work-item sees keys
  COPY_ROWS(own, DEPTH, q, q_step, q_element, Q_IS, depth, tiled, rows);
  for (int r = 0; r < tiled; ++r) {
    largest[r] = LEAST;
    totals[r] = 0;
  }
  for (int i = 0; i < tiled * VALUES; i += WIDTH) vstore16(EACH(0), 0, results + i);
  for (int begin = 0; begin < seen; begin += block) {
    const int count = min(block, seen - begin), filled = (count + WIDTH - 1) / WIDTH * WIDTH;
    const int behind = min(seen, begin + 2 * block), asked = (block + tiled - 1) / tiled;
    for (int j = 0; j < filled; j += 8)
      for (int d = 0; d < depth; d += WIDTH) {
        EIGHT low[8], high[8];
#pragma unroll
        for (int i = 0; i < 8; ++i) {
          CF_GLOBAL const CF_TYPE(DTYPE) *const from = k + (begin + min(j + i, count - 1)) * k_step + d * k_element;
          const uint16 loaded = as_uint16(LOAD_STEPPED(DTYPE, from, K_IS, k_element, depth - d));
          low[i] = loaded.lo;
          high[i] = loaded.hi;
        }
        transpose_eight(low);
        transpose_eight(high);
        float *const to = turned + j / WIDTH * WIDTH * DEPTH + d * WIDTH + j % WIDTH;
#pragma unroll
        for (int i = 0; i < 8; ++i) {
          vstore8(as_float8(low[i]), 0, to + i * WIDTH);
          vstore8(as_float8(high[i]), 0, to + (i + 8) * WIDTH);
        }
      }
    for (int e = 0; e < values; e += WIDTH)
      COPY_ROWS(panels + e * KEYS, WIDTH, v + begin * v_step + e * v_element, v_step, v_element, V_IS,
                min(values - e, WIDTH), count, count);
    for (int j = 0; j < filled; j += WIDTH)
      for (int r = 0; r < tiled; r += ROWS)
        score_tile(own + r * DEPTH, turned + j * DEPTH, scores + r * KEYS + j, depth, factor);
    for (int r = 0; r < tiled; ++r) {
      float *const line = scores + r * KEYS;
      // Of the next block, whose lines lie too far apart for prefetchers.
      for (int i = begin + block + r * asked; i < min(behind, begin + block + (r + 1) * asked); ++i) {
        for (int d = 0; d < depth; d += WIDTH) PREFETCH(k + i * k_step + d * k_element);
        for (int e = 0; e < values; e += WIDTH) PREFETCH(v + i * v_step + e * v_element);
      }
      VALUE most = EACH(largest[r]);
#if MASK
      // Queries behind the last are masked as the last.
      CF_GLOBAL const CF_TYPE(MASK_DTYPE) *const masks = mask + min(first + r, queries - 1) * mask_query + begin * mask_key;
#endif
      for (int j = 0; j < count; j += WIDTH) {
        VALUE score = vload16(0, line + j);
#if MASK
        const VALUE shown = LOAD_STEPPED(MASK_DTYPE, masks + j * mask_key, MASK_IS, mask_key, count - j);
#if MASK == 1
        score = shown != EACH(0) ? score : EACH(LEAST);
#else
        score += shown;
#endif
#endif
        const int visible = CAUSAL ? min(count, first + r + 1 - begin) : count;
        if (visible - j < WIDTH) score = lane < EACH(visible - j) ? score : EACH(LEAST);
        if (MASK || visible - j < WIDTH) vstore16(score, 0, line + j);
        most = score > most ? score : most;
      }
      const float peak = largest_of(most), shift = peak == LEAST ? 0.0f : peak;
      VALUE total = EACH(0);
      for (int j = 0; j < count; j += WIDTH) {
        const VALUE weight = EXP(vload16(0, line + j) - shift);
        vstore16(weight, 0, line + j);
        total += weight;
      }
      kept[r] = EXP(largest[r] - shift);
      totals[r] = fma(totals[r], kept[r], sum_of(total));
      largest[r] = peak;
    }
    for (int e = 0; e < values; e += WIDTH)
      for (int r = 0; r < tiled; r += ROWS)
        value_tile(scores + r * KEYS, panels + e * KEYS, results + r * VALUES + e, kept + r, count);
  }
  for (int r = 0; r < rows; ++r) {
    const float part_of_sum = 1.0f / totals[r];
    const int is_zero = ZEROS && totals[r] == 0.0f;
    for (int e = 0; e < values; e += WIDTH) {
      const VALUE sums = vload16(0, results + r * VALUES + e);
      STORE_STEPPED(DTYPE, y + r * y_step + e * y_element, Y_IS, y_element, values - e,
                    is_zero ? EACH(0) : EACH(part_of_sum) * sums);
    }
  }
}
