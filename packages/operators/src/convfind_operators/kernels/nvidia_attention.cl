// operators-attention-nvidia: y = softmax(factor q k^T + mask) v on NVIDIA's matrix units (mma.sync), scores never in memory.
//
// A work-group has ROWS queries of a head, each of its waves 16 * FRAGMENTS of them. Tiles of KEYS keys and their values come
// by cp.async, one ahead of the one that is computed with. Scores, their largest, and the sums of exponentials are float32
// in registers; exponentials are rounded to the type of the values for the second product. Rows of local memory are as
// convfind_nvidia.h has them, in panels of 128 bytes.
//
// Floats are rounded to TF32 where that is allowed. Otherwise each is the sum of two parts, of whose products the three larger
// ones are added up; since what is infinite has no parts, queries whose results are NaN are met again by plain multiply-adds.
#include "nvidia_attention.h"

#ifndef DTYPE
#define DTYPE FLOAT16
#endif
#ifndef DEPTH
#define DEPTH 64  // elements of a query and of a key: a multiple of 16, up to which zeros are added
#endif
#ifndef VALUES
#define VALUES 64  // those of a value, and of a result
#endif
#ifndef WAVES
#define WAVES 4
#endif
#ifndef FRAGMENTS
#define FRAGMENTS 1  // 16 queries each
#endif
#ifndef KEYS
#define KEYS 64
#endif
#ifndef TF32
#define TF32 0  // 1: floats are rounded to TF32
#endif
#ifndef SCALED
#define SCALED 0  // 1: scores are multiplied by the factor before their largest is found
#endif
// Of elements that are no numbers.
#define CF_TYPE_BOOL unsigned char
#define CF_LOAD_BOOL(pointer, index) ((int)(pointer)[index])

#define THREADS (32 * WAVES)
#define ROWS (16 * FRAGMENTS * WAVES)
#define BYTES CF_JOIN(BYTES_, DTYPE)  // of an element
#define BYTES_FLOAT32 4
#define BYTES_FLOAT16 2
#define BYTES_BFLOAT16 2
#define PER_PIECE (16 / BYTES)
#define PER_STEP (32 / BYTES)  // elements along the sum of a product of matrix units
#define PARTS (BYTES == 4 && !TF32 ? 2 : 1)
#define APART (BYTES == 4 && CAUSAL)  // whether scores are hidden by a loop of its own, which takes fewer registers
#define PANELS(width) (((width) * BYTES + 127) / 128)
#define KEY_BYTES (KEYS * 128 * PANELS(DEPTH))
#define STAGE_BYTES (KEY_BYTES + KEYS * 128 * PANELS(VALUES))
#define QUERY_BYTES (ROWS * 128 * PANELS(DEPTH))
// Queries, which go on to registers, lie where the second tile comes to.
#define MEMORY_BYTES (STAGE_BYTES + LARGER(STAGE_BYTES, QUERY_BYTES))
#define RESULT_BYTES (ROWS * 128 * PANELS(VALUES))

#define LOG2_E 1.4426950408889634f

// Rows of `width` elements of memory, with zeros up to `padded`, as in rows from `left` on.
CF_INLINED void fetch(CF_UINT to, CF_GLOBAL const ELEMENT *from, const CF_LONG step, const int rows, const int left,
                      const int padded, const int width, const int item) {
  const int pieces = padded / PER_PIECE;
  const int every = THREADS / pieces;  // rows at a time, where items have one piece of some rows
  if (THREADS % (8 * pieces) == 0 && rows % every == 0) {
    int row = item / pieces;
    const int piece = item % pieces, is = piece * PER_PIECE < width;
    to += piece / 8 * (rows * 128) + CF_PIECE(row, piece % 8);
    from += row * step + piece * PER_PIECE;
    CF_UNROLL for (int i = 0; i < rows / every; ++i) {
      cf_copy_16(to + i * every * 128, from, is && row < left ? 16 : 0);
      row += every;
      from += every * step;
    }
  } else {
    for (int at = item; at < rows * pieces; at += THREADS) {
      const int row = at / pieces, piece = at % pieces, is = row < left && piece * PER_PIECE < width;
      cf_copy_16(to + piece / 8 * (rows * 128) + CF_PIECE(row, piece % 8),
                 is ? from + row * step + piece * PER_PIECE : from, is ? 16 : 0);
    }
  }
}

// What matrix units multiply of a fragment: its elements, TF32 numbers near them, or their parts.
CF_INLINED void split(CF_UINT to[PARTS][4], const CF_UINT from[4]) {
  CF_UNROLL for (int i = 0; i < 4; ++i) {
#if BYTES == 4
    to[0][i] = TF32 ? cf_tf32_near(from[i]) : cf_tf32_high(from[i]);
    if (PARTS == 2) to[PARTS - 1][i] = cf_tf32_low(from[i], to[0][i]);
#else
    to[0][i] = from[i];
#endif
  }
}
// Two products, with what 16 columns have of the other factor; products of small parts come first.
CF_INLINED void multiply(float sums[2][4], CF_UINT a[PARTS][4], CF_UINT b[PARTS][4]) {
  CF_UNROLL for (int part = PARTS; part >= 0; --part) {
    if (PARTS == 1 && part) continue;
    CF_MMA(DTYPE, sums[0], a[part & 1], b[part >> 1]);
    CF_MMA(DTYPE, sums[1], a[part & 1], b[part >> 1] + 2);
  }
}

#define MASKED(score, at)                                                       \
  (MASK == 1 ? CF_LOAD(MASK_DTYPE, at, 0) != 0 ? (score) : LEAST                \
             : (score) + LOG2_E * (float)CF_LOAD(MASK_DTYPE, at, 0))

CF_KERNEL CF_WORK_GROUP_SIZE(THREADS, 1, 1) void operators_nvidia_attention(OPERANDS, SIZES) {
  CF_LOCAL unsigned char memory[LARGER(MEMORY_BYTES, RESULT_BYTES)] __attribute__((aligned(1024)));
  const CF_UINT base = CF_SHARED(memory);
  const int item = (int)CF_LOCAL_ID(0), lane = item % 32, wave = item / 32;
  const int tiles = (queries + ROWS - 1) / ROWS;
  CF_UINT group = (CF_UINT)CF_GROUP_ID(0);
  // Of queries that see few keys the last come first: they take longest.
  const int place = group % tiles, first = (CAUSAL ? tiles - 1 - place : place) * ROWS;
  group /= tiles;
  const int head = group % heads, batch = group / heads;
  ENTER_HEAD(batch, head, first);
  const int seen = CAUSAL && first + ROWS < keys ? first + ROWS : keys;  // beyond it no query of the group sees keys
  const int steps = (seen + KEYS - 1) / KEYS;

  fetch(base + STAGE_BYTES, q, q_step, ROWS, queries - first, DEPTH, depth, item);
  CF_COPIES_COMMIT();
  fetch(base, k, k_step, KEYS, keys, DEPTH, depth, item);
  fetch(base + KEY_BYTES, v, v_step, KEYS, keys, VALUES, values, item);
  CF_COPIES_COMMIT();

  // Matrices of queries: rows 0 and 8, then the next piece; of keys: two pieces, then row 8; of values as of queries.
  const int own = wave * 16 * FRAGMENTS;
  const CF_UINT in_row = lane & 7;
  const CF_UINT a_row = base + STAGE_BYTES + (own + lane % 16) * 128, a_bit = (lane / 16 ^ in_row) << 4;
  const CF_UINT k_row = (lane % 8 + lane / 16 * 8) * 128, k_bit = (lane / 8 % 2 ^ in_row) << 4;
#if BYTES == 4
  // Keys of the second product are in the order of sums: of each eight 0, 2, 4, 6, then the others.
  const CF_UINT v_at = KEY_BYTES + lane % 4 * 256 + lane / 4 % 4 * 4, v_bit = (lane / 16 ^ lane % 4 * 2) << 4;
#else
  const CF_UINT v_row = lane % 16 * 128, v_bit = (lane / 16 ^ in_row) << 4;
#endif
  CF_UINT own_queries[FRAGMENTS][DEPTH / PER_STEP][4];
  CF_COPIES_WAIT(1);
  CF_BARRIER();
  CF_UNROLL for (int f = 0; f < FRAGMENTS; ++f) {
    CF_UNROLL for (int i = 0; i < DEPTH / PER_STEP; ++i)
      CF_LOAD_MATRICES(own_queries[f][i], a_row + f * 2048 + i / 4 * (ROWS * 128) + (a_bit ^ (i % 4 * 32)));
  }

  float sums[FRAGMENTS][VALUES / 8][4], largest[FRAGMENTS][2], totals[FRAGMENTS][2];
  CF_UNROLL for (int f = 0; f < FRAGMENTS; ++f) {
    CF_UNROLL for (int i = 0; i < VALUES / 2; ++i) sums[f][i / 4][i % 4] = 0.0f;
    CF_UNROLL for (int h = 0; h < 2; ++h) {
      largest[f][h] = LEAST;
      totals[f][h] = 0.0f;
    }
  }

  for (int step = 0; step < steps; ++step) {
    const CF_UINT tile = base + step % 2 * STAGE_BYTES;
    CF_COPIES_WAIT(0);
    CF_BARRIER();  // all have their tile, and are done with the one before
    if (step + 1 < steps) {
      const int begin = (step + 1) * KEYS;
      const CF_UINT to = base + (step + 1) % 2 * STAGE_BYTES;
      fetch(to, k + begin * k_step, k_step, KEYS, keys - begin, DEPTH, depth, item);
      fetch(to + KEY_BYTES, v + begin * v_step, v_step, KEYS, keys - begin, VALUES, values, item);
      CF_COPIES_COMMIT();
    }

    float scores[FRAGMENTS][KEYS / 8][4];
    CF_UNROLL for (int f = 0; f < FRAGMENTS; ++f) {
      CF_UNROLL for (int i = 0; i < KEYS / 2; ++i) scores[f][i / 4][i % 4] = 0.0f;
    }
    CF_UNROLL for (int i = 0; i < DEPTH / PER_STEP; ++i) {
      CF_UINT a[FRAGMENTS][PARTS][4];
      CF_UNROLL for (int f = 0; f < FRAGMENTS; ++f) {
        // What is one register for all tiles would be two for their parts.
        if (PARTS == 2) CF_UNROLL for (int n = 0; n < 4; ++n) asm volatile("" : "+r"(own_queries[f][i][n]));
        split(a[f], own_queries[f][i]);
      }
      CF_UNROLL for (int j = 0; j < KEYS / 16; ++j) {
        CF_UINT of_keys[4], b[PARTS][4];
        CF_LOAD_MATRICES(of_keys, tile + k_row + j * 2048 + i / 4 * (KEYS * 128) + (k_bit ^ (i % 4 * 32)));
        split(b, of_keys);
        CF_UNROLL for (int f = 0; f < FRAGMENTS; ++f) multiply(&scores[f][2 * j], a[f], b);
      }
    }

    // A lane has of each eight keys two, of the queries lane / 4 and lane / 4 + 8.
    const int begin = step * KEYS + lane % 4 * 2, top = first + own + lane / 4;
    const int is_cut = begin - lane % 4 * 2 + KEYS > keys || (CAUSAL && step * KEYS + KEYS > first + own);
    CF_UNROLL for (int f = 0; f < FRAGMENTS; ++f) {
#if MASK
      const int over = top + 16 * f, under = over + 8;  // queries behind the last are masked as the last
      CF_GLOBAL const CF_TYPE(MASK_DTYPE) *const upper =
          mask + (over < queries ? over : queries - 1) * mask_query + begin * MASK_KEY;
      CF_GLOBAL const CF_TYPE(MASK_DTYPE) *const lower =
          mask + (under < queries ? under : queries - 1) * mask_query + begin * MASK_KEY;
#endif
      CF_UNROLL for (int i = 0; i < KEYS / 2; ++i) {
        const int key = begin + i / 4 * 8 + i % 2, query = top + 16 * f + i % 4 / 2 * 8;
        float *const score = &scores[f][i / 4][i % 4];
        if (SCALED) *score *= factor;
#if MASK
        if (key < keys) {
          CF_GLOBAL const CF_TYPE(MASK_DTYPE) *at = i % 4 / 2 ? lower : upper;
          *score = MASKED(*score, at + (i / 4 * 8 + i % 2) * MASK_KEY);
        }
#endif
        if (!APART && is_cut && (key >= keys || (CAUSAL && key > query))) *score = LEAST;
      }
      if (APART && is_cut) {
        CF_UNROLL for (int i = 0; i < KEYS / 2; ++i) {
          const int key = begin + i / 4 * 8 + i % 2, query = top + 16 * f + i % 4 / 2 * 8;
          if (key >= keys || (CAUSAL && key > query)) scores[f][i / 4][i % 4] = LEAST;
        }
      }
      CF_UNROLL for (int h = 0; h < 2; ++h) {
        float most = largest[f][h];
        CF_UNROLL for (int i = 0; i < KEYS / 4; ++i) most = fmax(most, scores[f][i / 2][2 * h + i % 2]);
        most = fmax(most, across(most, 1));
        most = fmax(most, across(most, 2));
        const float multiple = SCALED ? 1.0f : factor, shift = most == LEAST ? 0.0f : most * multiple;
        const float kept = exp2_of(CF_FMA(largest[f][h], multiple, -shift));
        largest[f][h] = most;
        float total = 0.0f;
        CF_UNROLL for (int i = 0; i < KEYS / 4; ++i) {
          float *const score = &scores[f][i / 2][2 * h + i % 2];
          *score = exp2_of(CF_FMA(*score, multiple, -shift));
          total += *score;
        }
        totals[f][h] = CF_FMA(totals[f][h], kept, total);
        CF_UNROLL for (int i = 0; i < VALUES / 4; ++i) sums[f][i / 2][2 * h + i % 2] *= kept;
      }
    }

    CF_UNROLL for (int j = 0; j < KEYS / PER_STEP; ++j) {
      CF_UINT a[FRAGMENTS][PARTS][4];
      CF_UNROLL for (int f = 0; f < FRAGMENTS; ++f) {
        CF_UINT weights[4];
        CF_UNROLL for (int i = 0; i < 4; ++i) {
#if BYTES == 4
          weights[i] = CF_AS_UINT(scores[f][j][i % 2 * 2 + i / 2]);
#else
          weights[i] = CF_PAIR(DTYPE, scores[f][2 * j + i / 2][i % 2 * 2], scores[f][2 * j + i / 2][i % 2 * 2 + 1]);
#endif
        }
        split(a[f], weights);
      }
      CF_UNROLL for (int i = 0; i < VALUES / 16; ++i) {
        CF_UINT of_values[4], b[PARTS][4];
#if BYTES == 4
        CF_UNROLL for (int n = 0; n < 4; ++n) {
          const CF_UINT at = v_at + j * 1024 + n % 2 * 128 + i / 2 * (KEYS * 128);
          of_values[n] = *(CF_LOCAL_PTR const CF_UINT *)(memory + (tile - base) + at + (v_bit ^ (i % 2 * 64 + n / 2 * 32 + n % 2 * 16)));
        }
#else
        CF_LOAD_TRANSPOSED(of_values,
                           tile + KEY_BYTES + v_row + j * 2048 + i / 4 * (KEYS * 128) + (v_bit ^ (i % 4 * 32)));
#endif
        split(b, of_values);
        CF_UNROLL for (int f = 0; f < FRAGMENTS; ++f) multiply(&sums[f][2 * i], a[f], b);
      }
    }
  }

  // Results go through local memory, so that pieces of 16 bytes are written.
  CF_BARRIER();
  CF_UNROLL for (int f = 0; f < FRAGMENTS; ++f) {
    CF_UNROLL for (int h = 0; h < 2; ++h) {
      const int row = own + 16 * f + 8 * h + lane / 4;
      float total = totals[f][h];
      total += across(total, 1);
      total += across(total, 2);
      const float share = 1.0f / total;
      const int is_zero = ZEROS && total == 0.0f;
      CF_UNROLL for (int i = 0; i < VALUES / 4; ++i) {
        float *const sum = &sums[f][i / 2][2 * h + i % 2];
        *sum = is_zero ? 0.0f : *sum * share;
      }
#if PARTS == 2
      float any = 0.0f;
      CF_UNROLL for (int i = 0; i < VALUES / 4; ++i) any += sums[f][i / 2][2 * h + i % 2];
      any += across(any, 1);
      any += across(any, 2);
      if (any != any && total != 0.0f && first + row < queries) {
        float most = LEAST;
        total = 0.0f;
        CF_UNROLL for (int i = 0; i < VALUES / 4; ++i) sums[f][i / 2][2 * h + i % 2] = 0.0f;
        for (int key = 0; key < seen; ++key) {
          if (CAUSAL && key > first + row) break;
          float score = 0.0f;
          for (int d = 0; d < depth; ++d) score = CF_FMA(q[row * q_step + d], k[key * k_step + d], score);
          score *= factor;
#if MASK
          score = MASKED(score, mask + (first + row) * mask_query + key * MASK_KEY);
#endif
          const float more = fmax(most, score), shift = more == LEAST ? 0.0f : more;
          const float kept = exp2_of(most - shift), weight = exp2_of(score - shift);
          most = more;
          total = CF_FMA(total, kept, weight);
          CF_UNROLL for (int i = 0; i < VALUES / 4; ++i) {
            const int column = i / 2 * 8 + lane % 4 * 2 + i % 2;
            float *const sum = &sums[f][i / 2][2 * h + i % 2];
            if (column < values) *sum = CF_FMA(weight, v[key * v_step + column], *sum * kept);
          }
        }
        CF_UNROLL for (int i = 0; i < VALUES / 4; ++i) sums[f][i / 2][2 * h + i % 2] *= 1.0f / total;
      }
#endif
      CF_UNROLL for (int i = 0; i < VALUES / 8; ++i) {
        const int begin = 8 * BYTES * i, at = begin % 128 + lane % 4 * 2 * BYTES;
        CF_STORE_SHARED_PAIR(DTYPE, base + begin / 128 * (ROWS * 128) + CF_PIECE(row, at / 16) + at % 16,
                             sums[f][i][2 * h], sums[f][i][2 * h + 1]);
      }
    }
  }
  CF_WAVE_BARRIER();
  for (int at = lane; at < 16 * FRAGMENTS * (VALUES / PER_PIECE); at += 32) {
    const int row = own + at / (VALUES / PER_PIECE), piece = at % (VALUES / PER_PIECE);
    if (first + row < queries && piece * PER_PIECE < values) {
      CF_UINT words[4];
      CF_LOAD_SHARED_4(words, base + piece / 8 * (ROWS * 128) + CF_PIECE(row, piece % 8));
      CF_STORE_4(y + row * y_step + piece * PER_PIECE, words);
    }
  }
}
