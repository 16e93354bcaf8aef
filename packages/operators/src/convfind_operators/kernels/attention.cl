// operators-attention: y = softmax(factor q k^T + mask) v, whose scores stay in registers and local memory.
//
// A work-group of 256 has 64 queries of a head, and meets the keys in tiles of 64: a work-item has 4 x 4 scores of a tile, and
// of the results 4 queries, 4 elements out of each 64. Slices of all operands pass through local memory. Where a tile has
// larger scores than those before, what was summed up is scaled down.
#include "elements.h"
#include "attention.h"

#ifndef DTYPE
#define DTYPE FLOAT32
#endif
#ifndef VALUES
#define VALUES 64  // elements of a result: a multiple of 64, up to 256
#endif

#define TILE 64
#define GROUP 256
#define SLICE 16
#define LINE (TILE + 4)
#define VALUE_LINE (VALUES + 4)
#define VALUE_SLICE (VALUES > 128 ? 8 : 16)

CF_KERNEL CF_WORK_GROUP_SIZE(GROUP, 1, 1) void operators_attention(OPERANDS, ELEMENT_STEPS, SIZES) {
  // Queries and keys of a slice of the depth, or some values; scores by key; the largest scores of four keys.
  CF_LOCAL float slices[2 * SLICE * LINE], weights[TILE * LINE], most_of[TILE][17];
  const int item = CF_LOCAL_ID(0), column = item % 16 * 4, line = item / 16 * 4;
  const int tiles = (queries + TILE - 1) / TILE;
  CF_UINT group = CF_GROUP_ID(0);
  const int place = group % tiles, first = (CAUSAL ? tiles - 1 - place : place) * TILE;
  group /= tiles;
  const int head = group % heads, batch = group / heads;
  ENTER_HEAD(batch, head, first);
  const int seen = CAUSAL && first + TILE < keys ? first + TILE : keys;  // beyond it no query of the group sees keys

  float sums[VALUES / 64][4][4], largest[4], totals[4];
  CF_UNROLL
  for (int r = 0; r < 4; ++r) {
    largest[r] = LEAST;
    totals[r] = 0;
    CF_UNROLL
    for (int i = 0; i < VALUES / 16; ++i) sums[i / 4][r][i % 4] = 0;
  }
  for (int begin = 0; begin < seen; begin += TILE) {
    float scores[4][4];
    CF_UNROLL
    for (int r = 0; r < 4; ++r)
      CF_UNROLL
      for (int c = 0; c < 4; ++c) scores[r][c] = 0;
    for (int slice = 0; slice < depth; slice += SLICE) {
      CF_BARRIER();
      for (int at = item; at < SLICE * TILE; at += GROUP) {
        const int i = at % SLICE, r = at / SLICE, d = slice + i;
        slices[i * LINE + r] =
            d < depth && first + r < queries ? CF_LOAD(DTYPE, q + r * q_step + d * q_element, 0) : 0.0f;
        slices[(SLICE + i) * LINE + r] =
            d < depth && begin + r < keys ? CF_LOAD(DTYPE, k + (begin + r) * k_step + d * k_element, 0) : 0.0f;
      }
      CF_BARRIER();
      CF_UNROLL_READS
      for (int i = 0; i < SLICE; ++i) {
        float a[4], b[4];
        CF_LOAD4_LOCAL(a, &slices[i * LINE + line]);
        CF_LOAD4_LOCAL(b, &slices[(SLICE + i) * LINE + column]);
        CF_UNROLL
        for (int r = 0; r < 4; ++r)
          CF_UNROLL
          for (int c = 0; c < 4; ++c) scores[r][c] = CF_FMA(a[r], b[c], scores[r][c]);
      }
    }
    CF_UNROLL
    for (int r = 0; r < 4; ++r) {
      const int query = first + line + r;
      float most = LEAST;
#if MASK
      // Queries behind the last are masked as the last.
      CF_GLOBAL const CF_TYPE(MASK_DTYPE) *const masks =
          mask + (query < queries ? query : queries - 1) * mask_query + (begin + column) * MASK_KEY;
#endif
      CF_UNROLL
      for (int c = 0; c < 4; ++c) {
        const int key = begin + column + c;
        scores[r][c] *= factor;
#if MASK
        if (key < keys) {
          if (MASK == 1)
            scores[r][c] = CF_LOAD(MASK_DTYPE, masks, c * MASK_KEY) != 0 ? scores[r][c] : LEAST;
          else
            scores[r][c] += CF_LOAD(MASK_DTYPE, masks, c * MASK_KEY);
        }
#endif
        if (key >= keys || (CAUSAL && key > query)) scores[r][c] = LEAST;
        most = scores[r][c] > most ? scores[r][c] : most;
      }
      most_of[line + r][column / 4] = most;
    }
    CF_BARRIER();
    CF_UNROLL
    for (int r = 0; r < 4; ++r) {
      float most = largest[r];
      CF_UNROLL
      for (int c = 0; c < 16; ++c) most = most_of[line + r][c] > most ? most_of[line + r][c] : most;
      const float shift = most == LEAST ? 0.0f : most, kept = EXP(largest[r] - shift);
      largest[r] = most;
      float total = 0;
      CF_UNROLL
      for (int c = 0; c < 4; ++c) {
        const float weight = EXP(scores[r][c] - shift);
        total += weight;
        weights[(column + c) * LINE + line + r] = weight;
      }
      totals[r] = CF_FMA(totals[r], kept, total);
      CF_UNROLL
      for (int i = 0; i < VALUES / 16; ++i) sums[i / 4][r][i % 4] *= kept;
    }
    const int depth_of_tile = keys - begin < TILE ? keys - begin : TILE;
    for (int slice = 0; slice < depth_of_tile; slice += VALUE_SLICE) {
      CF_BARRIER();
      for (int at = item; at < VALUE_SLICE * VALUES; at += GROUP) {
        const int d = at % VALUES, i = at / VALUES, key = begin + slice + i;
        slices[i * VALUE_LINE + d] =
            d < values && key < keys ? CF_LOAD(DTYPE, v + key * v_step + d * v_element, 0) : 0.0f;
      }
      CF_BARRIER();
      CF_UNROLL_READS
      for (int i = 0; i < VALUE_SLICE; ++i) {
        float a[4];
        CF_LOAD4_LOCAL(a, &weights[(slice + i) * LINE + line]);
        CF_UNROLL
        for (int part = 0; part < VALUES / 64; ++part) {
          float b[4];
          CF_LOAD4_LOCAL(b, &slices[i * VALUE_LINE + part * 64 + column]);
          CF_UNROLL
          for (int r = 0; r < 4; ++r)
            CF_UNROLL
            for (int c = 0; c < 4; ++c) sums[part][r][c] = CF_FMA(a[r], b[c], sums[part][r][c]);
        }
      }
    }
  }

  CF_UNROLL
  for (int r = 0; r < 4; ++r) most_of[line + r][column / 4] = totals[r];
  CF_BARRIER();
  CF_UNROLL
  for (int r = 0; r < 4; ++r) {
    if (first + line + r >= queries) continue;
    float total = 0;
    for (int c = 0; c < 16; ++c) total += most_of[line + r][c];
    const float share = 1.0f / total;
    const int is_zero = ZEROS && total == 0.0f;
    CF_UNROLL
    for (int i = 0; i < VALUES / 16; ++i) {
      const int d = i / 4 * 64 + column + i % 4;
      if (d < values)
        CF_STORE(DTYPE, y + (line + r) * y_step + d * y_element, 0, is_zero ? 0.0f : sums[i / 4][r][i % 4] * share);
    }
  }
}
