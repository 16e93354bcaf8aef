// Last layers on GPUs: few results a position of many channels, channels first, stride 1, FLOAT32; forward, and with
// GRADIENT the image's gradient, where the source is y and taps are met from the last to the first.
//
// A work-group computes a tile of all results of an image over a part of the source's channels, which pass through local
// memory, STAGES sets of TEAMS * DEPTH at a time. An item has ROWS x COLUMNS positions of all results; it walks down the
// filter's rows with ROWS rows of the source in registers, of which each step reads one new. TEAMS of items share a tile,
// each with its own channels; what they have adds up through local memory at the end, in a fixed order.
#ifndef ACROSS
#define ACROSS 32       // items along the columns of a tile: 1 and up
#endif
#ifndef DOWN
#define DOWN 4          // items along its rows: 1 and up
#endif
#ifndef TEAMS
#define TEAMS 1         // items with the same results: 1 and up
#endif
#define PLACES (ACROSS * DOWN)
#define ITEMS (PLACES * TEAMS)
#ifndef ASYNC
#define ASYNC 0         // 1, NVIDIA's since sm_80: copies run on meanwhile
#endif
#include "gpu_window.h"
#include "gpu_copy.h"

#ifndef COLUMNS
#define COLUMNS 4       // neighbouring columns of an item: 4, 8
#endif
#ifndef DEPTH
#define DEPTH 1         // channels of a team in local memory: 1 and up
#endif
#ifndef STAGES
#define STAGES (1 + ASYNC)  // sets of channels in local memory: 2 and up; without ASYNC 1
#endif
#ifndef LEAD
#define LEAD 0          // elements before the first tap of a tile's first column, from a whole four on: 0..3
#endif
#ifndef X_WIDTH
#define X_WIDTH 1       // neighbouring elements that are copied at a time: 4 where rows are whole fours
#endif
#ifndef ROLLED
#define ROLLED 0        // 1: the filter's rows are a loop
#endif
#ifndef SPLIT
#define SPLIT 0         // 1: the sums are parts of the result, which direct_gpu_sum adds up
#endif
#ifndef STORES_FOUR
#define STORES_FOUR 0   // 1: rows of the result are whole fours
#endif

#define FOURS ((LEAD + COLUMNS - 1 + FILTER_W + 3) / 4)
#define ROW_FLOATS ((ACROSS - 1) * COLUMNS + 4 * FOURS)
#define TILE_ROWS (DOWN * ROWS + FILTER_H - 1)
#define PLANE_FLOATS (TILE_ROWS * ROW_FLOATS)
#define COPIES ((PLANE_FLOATS / X_WIDTH + ITEMS - 1) / ITEMS)
#define LINE_WEIGHTS (FILTER_W * FILTERS)
#define LINE_FLOATS ((LINE_WEIGHTS + 3) / 4 * 4)
#define WEIGHT_FLOATS (FILTER_H * LINE_FLOATS)
#define CHUNK (TEAMS * DEPTH)
#define SET_FLOATS (CHUNK * (PLANE_FLOATS + WEIGHT_FLOATS))
#define PASSED ((TEAMS - 1) * PLACES * ROWS * COLUMNS)
#define MEMORY_FLOATS (STAGES * SET_FLOATS > PASSED ? STAGES * SET_FLOATS : PASSED)

#if SPLIT
#define WRITE(to, sum, channel, epilogue) (*(to) = (sum))
#define WRITE_FOUR(to, sums, channel, epilogue) CF_STORE4(to, sums)
#else
#define WRITE(to, sum, channel, epilogue) store(to, sum, channel, epilogue)
#define WRITE_FOUR(to, sums, channel, epilogue) cf_store_four_results(to, channel, 0, sums, epilogue)
#endif

// CHUNK channels of the source, and their weights, from channel `c0` on; zeros beyond `channels`.
CF_INLINE void fetch(CF_LOCAL_PTR float *to, CF_GLOBAL const float *source, CF_GLOBAL const float *weights,
                     const int places[COPIES], const int plane, const int c0, const int end, const int channels,
                     const int item) {
  FOR_UNROLLED(c, CHUNK) {
    const int has_channel = c0 + c < end;
    CF_GLOBAL const float *from = source + (CF_LONG)(has_channel ? c0 + c : 0) * plane;
    FOR_UNROLLED(m, COPIES) {
      CF_LOCAL_PTR float *at = to + c * PLANE_FLOATS + (item + m * ITEMS) * X_WIDTH;
      const int is_inside = has_channel && places[m] >= 0;
      CF_GLOBAL const float *place = from + max(places[m], 0);
      if (m < COPIES - 1 || PLANE_FLOATS / X_WIDTH % ITEMS == 0 || item + m * ITEMS < PLANE_FLOATS / X_WIDTH) {
        if (X_WIDTH == 4) COPY_FOUR(at, place, is_inside);
        else COPY_ONE(at, place, is_inside);
      }
    }
  }
  for (int index = item; index < CHUNK * FILTER_H * LINE_WEIGHTS; index += ITEMS) {
    const int s = index % FILTER_W, i = index / FILTER_W % FILTER_H, k = index / TAPS % FILTERS, c = index / (TAPS * FILTERS);
    const int of = (GRADIENT ? (c0 + c) * FILTERS + k : k * channels + c0 + c) * TAPS;
    const int tap = GRADIENT ? TAPS - 1 - (i * FILTER_W + s) : i * FILTER_W + s, is_inside = c0 + c < end;
    COPY_ONE(to + CHUNK * PLANE_FLOATS + c * WEIGHT_FLOATS + i * LINE_FLOATS + s * FILTERS + k,
             weights + (is_inside ? of + tap : 0), is_inside);
  }
}

// Global size: ITEMS for each tile (columns inside, then rows, then images) of each part of the channels (outside).
// The source's size is s_, the result's r_; pad_ are zeros before the source, or less than 0 places that no tap meets.
CF_KERNEL CF_WORK_GROUP_SIZE(ITEMS, 1, 1) void direct_gpu_last(
    CF_GLOBAL const float *CF_RESTRICT source, CF_GLOBAL const float *CF_RESTRICT weights,
    CF_GLOBAL float *CF_RESTRICT result, CF_EPILOGUE_PARAMETERS, const int images, const int channels,
    const int s_h, const int s_w, const int r_h, const int r_w, const int pad_h, const int pad_w, const int per_part) {
  const Epilogue epilogue = CF_EPILOGUE(result);
  CF_LOCAL float memory[MEMORY_FLOATS] __attribute__((aligned(16)));
  const int item = (int)CF_LOCAL_ID(0), team = item / PLACES, strip = item % PLACES / ACROSS, across = item % ACROSS;
  const int tiles_w = (r_w + ACROSS * COLUMNS - 1) / (ACROSS * COLUMNS), tiles_h = (r_h + DOWN * ROWS - 1) / (DOWN * ROWS);
  int place = (int)CF_GROUP_ID(0);
  const int right = place % tiles_w * (ACROSS * COLUMNS);
  place /= tiles_w;
  const int down = place % tiles_h * (DOWN * ROWS);
  place /= tiles_h;
  const int n = place % images, part = place / images;
  const int first = part * per_part, end = min(first + per_part, channels);
  source += (CF_LONG)n * channels * s_h * s_w;

  int places[COPIES];  // of an item's copies in a plane; -1: zeros
  FOR_UNROLLED(m, COPIES) {
    const int index = (item + m * ITEMS) * X_WIDTH;
    const int row = down - pad_h + index / ROW_FLOATS, column = right - pad_w - LEAD + index % ROW_FLOATS;
    places[m] = row >= 0 && row < s_h && column >= 0 && column < s_w ? row * s_w + column : -1;
  }
  float sum[ROWS][COLUMNS][FILTERS];
  FOR_UNROLLED(o, ROWS) {
    FOR_UNROLLED(p, COLUMNS) { FOR_UNROLLED(k, FILTERS) sum[o][p][k] = 0.0f; }
  }

#define FETCH(set, c0) fetch(memory + (set) * SET_FLOATS, source, weights, places, s_h * s_w, c0, end, channels, item)
  int set = 0;
#if ASYNC
  FOR_UNROLLED(ahead, STAGES - 1) {
    if (first + ahead * CHUNK < end) FETCH(ahead, first + ahead * CHUNK);
    CF_COPIES_COMMIT();
  }
#endif
  _Pragma("unroll 1") for (int c0 = first; c0 < end; c0 += CHUNK) {
#if ASYNC
    CF_COPIES_WAIT(STAGES - 2);
    CF_BARRIER();  // everybody has read what lies in the set that is copied to, too
    if (c0 + (STAGES - 1) * CHUNK < end) FETCH(set == 0 ? STAGES - 1 : set - 1, c0 + (STAGES - 1) * CHUNK);
    CF_COPIES_COMMIT();
#else
    if (c0 > first) CF_BARRIER();
    FETCH(0, c0);
    CF_BARRIER();
#endif
    CF_LOCAL_PTR const float *from = memory + set * SET_FLOATS + team * PLANE_FLOATS;
    CF_LOCAL_PTR const float *of = memory + set * SET_FLOATS + CHUNK * PLANE_FLOATS + team * WEIGHT_FLOATS;
    from += strip * (ROWS * ROW_FLOATS) + across * COLUMNS;
    if (ASYNC) set = set + 1 == STAGES ? 0 : set + 1;
    _Pragma("unroll 1") for (int c = 0; c < DEPTH; ++c) {
      float value[ROWS][4 * FOURS];
#define READ_ROW(slot, row) FOR_UNROLLED(q, FOURS) CF_LOAD4_LOCAL(value[slot] + 4 * q, from + (row) * ROW_FLOATS + 4 * q)
#define ADD_ROW(i, shift)                                                                               \
  do {                                                                                                  \
    float weight[LINE_FLOATS];                                                                          \
    FOR_UNROLLED(q, LINE_FLOATS / 4) CF_LOAD4_LOCAL(weight + 4 * q, of + (i) * LINE_FLOATS + 4 * q);    \
    FOR_UNROLLED(s, FILTER_W) {                                                                         \
      FOR_UNROLLED(o, ROWS) {                                                                           \
        FOR_UNROLLED(p, COLUMNS) {                                                                      \
          FOR_UNROLLED(k, FILTERS)                                                                      \
            sum[o][p][k] = CF_FMA(value[(o + (shift)) % ROWS][LEAD + p + s], weight[s * FILTERS + k], sum[o][p][k]); \
        }                                                                                               \
      }                                                                                                 \
    }                                                                                                   \
  } while (0)
      FOR_UNROLLED(o, ROWS - 1) { READ_ROW(o, o); }
#if ROLLED
      _Pragma("unroll 1") for (int i = 0; i < FILTER_H; ++i) {
        READ_ROW(ROWS - 1, ROWS - 1 + i);
        ADD_ROW(i, 0);
        FOR_UNROLLED(o, ROWS - 1) { FOR_UNROLLED(e, 4 * FOURS) value[o][e] = value[o + 1][e]; }
      }
#else
      FOR_UNROLLED(i, FILTER_H) {
        READ_ROW((i + ROWS - 1) % ROWS, ROWS - 1 + i);
        ADD_ROW(i, i);
      }
#endif
      from += TEAMS * PLANE_FLOATS;
      of += TEAMS * WEIGHT_FLOATS;
    }
  }

#if TEAMS > 1
#if ASYNC
  CF_COPIES_WAIT(0);
#endif
  FOR_UNROLLED(k, FILTERS) {
    CF_BARRIER();
    FOR_UNROLLED(o, ROWS) {
      FOR_UNROLLED(p, COLUMNS) {
        if (team > 0) memory[(o * COLUMNS + p) * ((TEAMS - 1) * PLACES) + item - PLACES] = sum[o][p][k];
      }
    }
    CF_BARRIER();
    FOR_UNROLLED(o, ROWS) {
      FOR_UNROLLED(p, COLUMNS) {
        if (team == 0) {
          FOR_UNROLLED(t, TEAMS - 1) sum[o][p][k] += memory[(o * COLUMNS + p) * ((TEAMS - 1) * PLACES) + t * PLACES + item];
        }
      }
    }
  }
  if (team > 0) return;
#endif

  const int row = down + strip * ROWS, column = right + across * COLUMNS;
  CF_GLOBAL float *to = result + ((CF_LONG)part * images + n) * FILTERS * r_h * r_w;
  FOR_UNROLLED(k, FILTERS) {
    FOR_UNROLLED(o, ROWS) {
      if (row + o >= r_h) continue;
      const int at = (k * r_h + row + o) * r_w + column;
#if STORES_FOUR
      if (SPLIT || !CF_READS_RESULT(epilogue)) {
        FOR_UNROLLED(q, COLUMNS / 4) {
          float four[4];
          FOR_UNROLLED(f, 4) four[f] = sum[o][4 * q + f][k];
          if (column + 4 * q < r_w) WRITE_FOUR(to + at + 4 * q, four, k, epilogue);
        }
        continue;
      }
#endif
      FOR_UNROLLED(p, COLUMNS) {
        if (column + p < r_w) WRITE(to + at + p, sum[o][p][k], k, epilogue);
      }
    }
  }
}
