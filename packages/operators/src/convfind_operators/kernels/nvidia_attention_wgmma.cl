// operators-attention-wgmma: y = softmax(factor q k^T) v for long sequences on Hopper's matrix units, scores never in memory.
//
// A work-group has 64 queries of a head for each of CONSUMERS groups of four waves, and four waves before these that only copy:
// tiles of KEYS keys and their values by cp.async, whose ends barriers in local memory wait for. The others have
// the products of a tile's queries and keys, and of the weights and values of the tile before, under way at a time, and in turn:
// while one group's products run, another one computes exponentials. Scores, their largest, and sums of exponentials are
// float32 in registers; weights are rounded for the second product.
#include "convfind_nvidia_barrier.h"
#include "nvidia_attention.h"

#ifndef DTYPE
#define DTYPE FLOAT16
#endif
#ifndef DEPTH
#define DEPTH 64  // elements of a query and of a key: a multiple of 16, up to which zeros are added
#endif
#ifndef VALUES
#define VALUES 64  // those of a value, and of a result: 64, 96 or 128
#endif
#ifndef CONSUMERS
#define CONSUMERS 2  // or 3
#endif
#ifndef KEYS
#define KEYS 128
#endif
#ifndef STAGES
#define STAGES 2
#endif

#define GROUP 128  // work-items of four waves
#define ROWS (64 * CONSUMERS)
#define PANELS(width) (((width) + 63) / 64)
#define KEY_BYTES (KEYS * 128 * PANELS(DEPTH))
#define VALUE_BYTES (KEYS * 128 * PANELS(VALUES))
#define QUERY_BYTES (ROWS * 128 * PANELS(DEPTH))
#define RESULT_BYTES (ROWS * 128 * PANELS(VALUES))
#define KEYS_AT(stage) (base + (stage) * KEY_BYTES)
#define VALUES_AT(stage) (base + STAGES * KEY_BYTES + (stage) * VALUE_BYTES)
#define QUERIES_AT (STAGES * (KEY_BYTES + VALUE_BYTES))
// Registers of those that copy and of the others.
#if CONSUMERS == 3
#define FEW 32
#define MANY 160
#else
#define FEW 40
#define MANY 232
#endif

// Values as wgmma reads them: rows along the sum, 8 of them 1024 bytes apart, panels of 64 columns.
#define TURNED_MATRIX(address) \
  ((ulong)(((address) & 0x3ffffu) >> 4) | (ulong)(KEYS * 8) << 16 | (ulong)64 << 32 | (ulong)1 << 62)
#define WGMMA_TURNED(columns, dtype, sums, a, b) \
  CF_JOIN(CF_WGMMA_FROM_REGISTERS_, columns)(CF_JOIN(CF_WGMMA_KIND_, dtype), ", 1;}", sums, a, b, 1)

// Waits for tiles, which the matrix units read.
CF_INLINED void barrier_wait_tile(const CF_UINT barrier, const CF_UINT phase) {
  barrier_wait(barrier, phase);
  CF_FENCE_MATRICES();
}

// Rows of `width` elements of memory, with zeros up to `padded`, as in rows from `left` on. Items have one piece of some rows.
CF_INLINED void fetch(CF_UINT to, CF_GLOBAL const ELEMENT *from, const CF_LONG step, const int rows, const int left,
                      const int padded, const int width, const int item) {
  const int pieces = padded > 64 ? 16 : 8, every = GROUP / pieces;
  int row = item / pieces;
  const int piece = item % pieces, is = piece * 8 < width;
  if (piece * 8 >= padded) return;
  to += piece / 8 * (rows * 128) + CF_PIECE(row, piece % 8);
  from += row * step + piece * 8;
  CF_UNROLL for (int i = 0; i < rows / every; ++i) {
    cf_copy_16(to + i * every * 128, from, is && row < left ? 16 : 0);
    row += every;
    from += every * step;
  }
}

// Scores of 64 queries and a tile's keys.
CF_INLINED void start_scores(float scores[KEYS / 8][4], const CF_UINT queries_at, const CF_UINT keys_at) {
  CF_WGMMA_FENCE();
  CF_UNROLL for (int i = 0; i < DEPTH / 16; ++i) {
    const ulong of_queries = CF_MATRIX(queries_at + i / 4 * (ROWS * 128)) + i % 4 * 2;
    const ulong of_keys = CF_MATRIX(keys_at + i / 4 * (KEYS * 128)) + i % 4 * 2;
    CF_WGMMA(KEYS, DTYPE, scores[0], of_queries, of_keys, i > 0);
  }
  CF_WGMMA_COMMIT();
}
// Weights times a tile's values, added to sums.
CF_INLINED void start_sums(float sums[VALUES / 8][4], CF_UINT weights[KEYS / 16][4], const CF_UINT values_at) {
  CF_WGMMA_FENCE();
  CF_UNROLL for (int j = 0; j < KEYS / 16; ++j)
    WGMMA_TURNED(VALUES, DTYPE, sums[0], weights[j], TURNED_MATRIX(values_at) + j * 128);
  CF_WGMMA_COMMIT();
}
// Hides what queries do not see. A lane has of each eight keys two, of the queries lane / 4 and lane / 4 + 8: `top` and 8 more.
CF_INLINED void hide(float scores[KEYS / 8][4], const int begin, const int top, const int keys, const int lane) {
  CF_UNROLL for (int i = 0; i < KEYS / 2; ++i) {
    const int key = begin + lane % 4 * 2 + i / 4 * 8 + i % 2, query = top + i % 4 / 2 * 8;
    if (key >= keys || (CAUSAL && key > query)) scores[i / 4][i % 4] = LEAST;
  }
}
// Scores become exponentials; what is summed up so far is to be multiplied by `kept`.
CF_INLINED void weigh(float scores[KEYS / 8][4], float largest[2], float totals[2], float kept[2], const float factor) {
  CF_UNROLL for (int h = 0; h < 2; ++h) {
    float most = largest[h];
    CF_UNROLL for (int i = 0; i < KEYS / 4; ++i) most = fmax(most, scores[i / 2][2 * h + i % 2]);
    most = fmax(most, across(most, 1));
    most = fmax(most, across(most, 2));
    const float shift = most == LEAST ? 0.0f : most * factor;
    kept[h] = exp2_of(CF_FMA(largest[h], factor, -shift));
    largest[h] = most;
    float total = 0.0f;
    CF_UNROLL for (int i = 0; i < KEYS / 4; ++i) {
      float *const score = &scores[i / 2][2 * h + i % 2];
      *score = exp2_of(CF_FMA(*score, factor, -shift));
      total += *score;
    }
    totals[h] = CF_FMA(totals[h], kept[h], total);
  }
}
CF_INLINED void rounded(CF_UINT weights[KEYS / 16][4], float scores[KEYS / 8][4]) {
  CF_UNROLL for (int i = 0; i < KEYS / 4; ++i)
    weights[i / 4][i % 4] = CF_PAIR(DTYPE, scores[i / 2][i % 2 * 2], scores[i / 2][i % 2 * 2 + 1]);
}

CF_KERNEL CF_WORK_GROUP_SIZE((CONSUMERS + 1) * GROUP, 1, 1) void operators_nvidia_attention_wgmma(OPERANDS, SIZES) {
  CF_LOCAL unsigned char memory[QUERIES_AT + LARGER(QUERY_BYTES, RESULT_BYTES)] __attribute__((aligned(1024)));
  CF_LOCAL ulong barriers[4 * STAGES];  // keys are there, values are; keys are no longer needed, values are not
  const CF_UINT base = CF_SHARED(memory), full = CF_SHARED(barriers), empty = full + 16 * STAGES;
  const int item = (int)CF_LOCAL_ID(0) % GROUP, part = (int)CF_LOCAL_ID(0) / GROUP;
  const int tiles = (queries + ROWS - 1) / ROWS;
  CF_UINT group = (CF_UINT)CF_GROUP_ID(0);
  // Of queries that see few keys the last come first: they take longest.
  const int place = group % tiles, first = (CAUSAL ? tiles - 1 - place : place) * ROWS;
  group /= tiles;
  const int head = group % heads, batch = group / heads;
  const int seen = CAUSAL && first + ROWS < keys ? first + ROWS : keys;  // beyond it no query of the group sees keys
  const int steps = (seen + KEYS - 1) / KEYS;

  if (CF_LOCAL_ID(0) == 0) {
    for (int i = 0; i < 2 * STAGES; ++i) {
      barrier_start(full + 8 * i, GROUP);
      barrier_start(empty + 8 * i, CONSUMERS * GROUP);
    }
    barriers_started();
  }
  CF_BARRIER();

  if (part == 0) {
    GIVE_REGISTERS(FEW);
    q += q_start + batch * q_batch + head * q_head + first * q_step;
    k += k_start + batch * k_batch + head / sharing * k_head;
    v += v_start + batch * v_batch + head / sharing * v_head;
    fetch(base + QUERIES_AT, q, q_step, ROWS, queries - first, DEPTH, depth, item);
    for (int step = 0; step < steps; ++step) {
      const int stage = step % STAGES, round = step / STAGES, begin = step * KEYS;
      if (round) barrier_wait_tile(empty + 16 * stage, round - 1 & 1);
      fetch(KEYS_AT(stage), k + begin * k_step, k_step, KEYS, keys - begin, DEPTH, depth, item);
      barrier_arrive_copied(full + 16 * stage);
      if (round) barrier_wait_tile(empty + 16 * stage + 8, round - 1 & 1);
      fetch(VALUES_AT(stage), v + begin * v_step, v_step, KEYS, keys - begin, VALUES, values, item);
      barrier_arrive_copied(full + 16 * stage + 8);
    }
    CF_COPIES_COMMIT();
    CF_COPIES_WAIT(0);
  } else {
    TAKE_REGISTERS(MANY);
    const int lane = item % 32, consumer = part - 1, own = 64 * consumer + item / 32 * 16, top = first + own + lane / 4;
    const CF_UINT queries_at = base + QUERIES_AT + consumer * 8192;
    float scores[KEYS / 8][4], sums[VALUES / 8][4], largest[2], totals[2], kept[2];
    CF_UINT weights[KEYS / 16][4];
    CF_UNROLL for (int i = 0; i < VALUES / 2; ++i) sums[i / 4][i % 4] = 0.0f;
    CF_UNROLL for (int h = 0; h < 2; ++h) {
      largest[h] = LEAST;
      totals[h] = 0.0f;
    }
    // Whose turn it is: barrier 1 + consumer.
    const int turn = 1 + consumer, next_turn = 1 + (consumer + 1) % CONSUMERS;
    if (consumer == CONSUMERS - 1) PASS_AT(next_turn, 2 * GROUP);

    barrier_wait_tile(full, 0);
    MEET_AT(turn, 2 * GROUP);
    start_scores(scores, queries_at, KEYS_AT(0));
    PASS_AT(next_turn, 2 * GROUP);
    CF_WGMMA_WAIT(0);
    barrier_arrive(empty);
    if (KEYS > keys || (CAUSAL && KEYS > first + own)) hide(scores, 0, top, keys, lane);
    weigh(scores, largest, totals, kept, factor);
    rounded(weights, scores);
    int before = 0, stage = STAGES > 1;
    CF_UINT parity_before = 0, parity = STAGES == 1;
    for (int step = 1; step < steps; ++step) {
      barrier_wait_tile(full + 16 * stage, parity);
      MEET_AT(turn, 2 * GROUP);
      start_scores(scores, queries_at, KEYS_AT(stage));
      barrier_wait_tile(full + 16 * before + 8, parity_before);
      start_sums(sums, weights, VALUES_AT(before));
      PASS_AT(next_turn, 2 * GROUP);
      CF_WGMMA_WAIT(1);
      barrier_arrive(empty + 16 * stage);
      const int begin = step * KEYS;
      if (begin + KEYS > keys || (CAUSAL && begin + KEYS > first + own)) hide(scores, begin, top, keys, lane);
      weigh(scores, largest, totals, kept, factor);
      CF_WGMMA_WAIT(0);
      barrier_arrive(empty + 16 * before + 8);
      CF_UNROLL for (int i = 0; i < VALUES / 2; ++i) sums[i / 4][i % 4] *= kept[i % 4 / 2];
      rounded(weights, scores);
      before = stage;
      parity_before = parity;
      stage = stage + 1 == STAGES ? 0 : stage + 1;
      parity ^= stage == 0;
    }
    barrier_wait_tile(full + 16 * before + 8, parity_before);
    start_sums(sums, weights, VALUES_AT(before));
    CF_WGMMA_WAIT(0);

    // Results go through local memory, where queries were, so that pieces of 16 bytes are written.
    MEET_AT(1 + CONSUMERS + consumer, GROUP);
    y += batch * y_batch + head * y_head + first * y_step;
    const CF_UINT results = base + QUERIES_AT;
    CF_UNROLL for (int h = 0; h < 2; ++h) {
      float total = totals[h];
      total += across(total, 1);
      total += across(total, 2);
      const float share = 1.0f / total;
      const int is_zero = ZEROS && total == 0.0f, row = own + 8 * h + lane / 4;
      CF_UNROLL for (int i = 0; i < VALUES / 8; ++i) {
        const float a = is_zero ? 0.0f : sums[i][2 * h] * share, b = is_zero ? 0.0f : sums[i][2 * h + 1] * share;
        CF_STORE_SHARED_PAIR(DTYPE, results + i / 8 * (ROWS * 128) + CF_PIECE(row, i % 8) + lane % 4 * 4, a, b);
      }
    }
    CF_WAVE_BARRIER();
    for (int at = lane; at < 16 * (VALUES / 8); at += 32) {
      const int row = own + at / (VALUES / 8), piece = at % (VALUES / 8);
      if (first + row < queries && piece * 8 < values) {
        CF_UINT words[4];
        CF_LOAD_SHARED_4(words, results + piece / 8 * (ROWS * 128) + CF_PIECE(row, piece % 8));
        CF_STORE_4(y + row * y_step + piece * 8, words);
      }
    }
  }
}
