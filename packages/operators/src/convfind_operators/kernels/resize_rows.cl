// operators-resize: on CPUs, where neighbours in memory are neighbouring columns.
//
// A work-item computes rows of y, of CHUNK columns at a time, whose places and weights it finds once. The rows of x that a row
// of y is made of become one in private memory, which the second pass goes along.
#include "resize.h"

#ifndef CHUNK
#define CHUNK 256  // columns of y at a time
#endif
#ifndef BUFFER
#define BUFFER 4096  // columns of x in private memory
#endif
#ifndef DOUBLED
#define DOUBLED 0  // 1: each column of x becomes two, by the same weights wherever it is
#endif
#define BESIDE 8  // columns that are kept beside those of a chunk: taps meet them
#define MOST_AT_ONCE 8  // rows of y that share the buffer, so that no vector is read right after parts of it were written

#if WIDTH == 16

#define TABLE (CHUNK * TAPS_W)

CF_INLINE VALUE gathered(const NUMBER *line, const int *places) {
  NUMBER lanes[WIDTH];
  for (int lane = 0; lane < WIDTH; ++lane) lanes[lane] = line[places[lane]];
  return vload16(0, lanes);
}

// all: rows of y.
CF_KERNEL void operators_resize_rows(CF_GLOBAL const CF_TYPE(DTYPE) *x, STEPS(x), CF_GLOBAL CF_TYPE(DTYPE) *y, STEPS(y),
                                     ROW_SIZES, AXIS(d), AXIS(h), AXIS(w), const CF_LONG all, const CF_LONG per_item,
                                     const COORDINATE cubic) {
  NUMBER lines[BUFFER];
  CF_GLOBAL CF_TYPE(DTYPE) *rows_of_y[MOST_AT_ONCE];
  const CF_LONG first = CF_GLOBAL_ID(0) * per_item, last = min(first + per_item, all);
#if DOUBLED
  // Where no border is near.
  CF_LONG places_of[2][TAPS_W];
  NUMBER weights_of[2][TAPS_W];
  for (int odd = 0; odd < 2; ++odd)
    find_taps(places_of[odd], weights_of[odd], TAPS_W, 2 * BESIDE + odd, 4 * BESIDE, 1, w_shift, w_factor, w_divisor,
              w_offset, w_narrow, cubic);
#else
  int places[TABLE];
#if INTERPOLATION > 0
  NUMBER weights[TABLE];
#endif
#endif
  for (int begin = 0; begin < w_to; begin += CHUNK) {
    const int count = min(CHUNK, w_to - begin);
#if DOUBLED
    const int base = begin / 2 - BESIDE, low = max(base, 0), high = min(base + count / 2 + 2 * BESIDE, w_from);
#else
    int low = w_from, high = 0;
    for (int o = 0; o < count; ++o) {
      CF_LONG w_at[TAPS_W];
      NUMBER w_weights[TAPS_W];
      find_taps(w_at, w_weights, TAPS_W, begin + o, w_from, 1, w_shift, w_factor, w_divisor, w_offset, w_narrow, cubic);
      for (int k = 0; k < TAPS_W; ++k) {
        low = min(low, (int)w_at[k]);
        high = max(high, (int)w_at[k] + 1);
        places[k * CHUNK + o] = w_at[k];
#if INTERPOLATION > 0
        weights[k * CHUNK + o] = w_weights[k];
#endif
      }
    }
    const int base = low;
    for (int k = 0; k < TAPS_W; ++k) {
      for (int o = 0; o < count; ++o) places[k * CHUNK + o] -= base;
      // What a last vector has beyond them is computed and not stored.
      for (int o = count; o % WIDTH != 0; ++o) {
        places[k * CHUNK + o] = 0;
#if INTERPOLATION > 0
        weights[k * CHUNK + o] = 0;
#endif
      }
    }
#endif
    const int width = DOUBLED ? count / 2 + 2 * BESIDE + 2 * WIDTH : high - low + WIDTH;
    const int pitch = (width + WIDTH - 1) / WIDTH * WIDTH, at_once = max(min(BUFFER / pitch, MOST_AT_ONCE), 1);
    // Steps to the next row instead of divisions.
    int to_h = first % h_to, to_d = first / h_to % d_to;
    Row row = ROW_OF(first / h_to / d_to);
    for (CF_LONG index = first; index < last; index += at_once) {
      const int rows = min((CF_LONG)at_once, last - index);
      for (int r = 0; r < rows; ++r) {
        NUMBER *const line = lines + r * pitch;
        CF_GLOBAL const CF_TYPE(DTYPE) *const from = x + ROW_START(x, row);
        rows_of_y[r] = y + ROW_START(y, row) + to_d * d_y + to_h * h_y + begin;
        DECLARED(d, TAPS_D)
        DECLARED(h, TAPS_H)
        FOUND(3, d, TAPS_D, to_d);
        FOUND(2, h, TAPS_H, to_h);
        for (int at = low; at < high; at += WIDTH) {
          // The last vector overlaps the one before: the same numbers are written twice.
          const int i = at + WIDTH > high && high - low >= WIDTH ? high - WIDTH : at, left = high - i;
#if INTERPOLATION == 0
          const VALUE sum = LOAD_STEPPED(DTYPE, from + d_at[0] + h_at[0] + i, 1, 1, left);
#else
          VALUE sum = EACH(0);
          UNROLL_TAPS
          for (int a = 0; a < TAPS_D; ++a)
            UNROLL_TAPS
            for (int b = 0; b < TAPS_H; ++b) {
              const NUMBER weight = d_weights[a] * h_weights[b];
              if (weight == 0) continue;  // not to multiply infinity by it
              sum += EACH(weight) * LOAD_STEPPED(DTYPE, from + d_at[a] + h_at[b] + i, 1, 1, left);
            }
#endif
          if (left >= WIDTH)
            vstore16(sum, 0, line + i - base);
          else
            for (int lane = 0; lane < left; ++lane) line[i - base + lane] = ((NUMBER *)&sum)[lane];
        }
#if DOUBLED
        for (int at = base; at < low; ++at) line[at - base] = line[low - base];
        for (int at = high; at < base + count / 2 + 2 * BESIDE + WIDTH; at += WIDTH)
          vstore16(EACH(line[high - 1 - base]), 0, line + at - base);
#endif
        if (++to_h == h_to) {
          to_h = 0;
          if (++to_d == d_to) {
            to_d = 0;
            row = NEXT_ROW(row);
          }
        }
      }
      for (int r = 0; r < rows; ++r) {
        const NUMBER *const line = lines + r * pitch;
        CF_GLOBAL CF_TYPE(DTYPE) *const to = rows_of_y[r];
#if DOUBLED
        for (int o = 0; o < count; o += 2 * WIDTH) {
          VALUE sums[2];
          for (int odd = 0; odd < 2; ++odd) {
            const NUMBER *const tap = line + o / 2 + places_of[odd][0];
#if INTERPOLATION == 0
            sums[odd] = vload16(0, tap);
#else
            sums[odd] = EACH(0);
            CF_UNROLL
            for (int k = 0; k < TAPS_W; ++k)
              if (weights_of[odd][k] != 0) sums[odd] += EACH(weights_of[odd][k]) * vload16(0, tap + k);
#endif
          }
          const VALUE even = sums[0], odd = sums[1];
          const VALUE head = (VALUE)(even.s0, odd.s0, even.s1, odd.s1, even.s2, odd.s2, even.s3, odd.s3, even.s4, odd.s4,
                                     even.s5, odd.s5, even.s6, odd.s6, even.s7, odd.s7);
          const VALUE tail = (VALUE)(even.s8, odd.s8, even.s9, odd.s9, even.sa, odd.sa, even.sb, odd.sb, even.sc, odd.sc,
                                     even.sd, odd.sd, even.se, odd.se, even.sf, odd.sf);
          STORE_STEPPED(DTYPE, to + o, 1, 1, count - o, head);
          if (count - o > WIDTH) STORE_STEPPED(DTYPE, to + o + WIDTH, 1, 1, count - o - WIDTH, tail);
        }
#else
        for (int o = 0; o < count; o += WIDTH) {
#if INTERPOLATION == 0
          const VALUE sum = gathered(line, places + o);
#else
          VALUE sum = EACH(0);
          UNROLL_TAPS
          for (int k = 0; k < TAPS_W; ++k) {
            const VALUE weight = vload16(0, weights + k * CHUNK + o);
            sum += weight == EACH(0) ? EACH(0) : weight * gathered(line, places + k * CHUNK + o);
          }
#endif
          STORE_STEPPED(DTYPE, to + o, 1, 1, count - o, sum);
        }
#endif
      }
    }
  }
}

#endif  // WIDTH
