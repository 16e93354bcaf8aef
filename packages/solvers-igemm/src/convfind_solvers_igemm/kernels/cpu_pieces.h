// Positions of y, channels first, as pieces that are vectors in x.
#ifndef CPU_PIECES_H
#define CPU_PIECES_H

#include "cpu_strassen.h"
#include "cpu_tile.h"

#define CHANNELS_AT_ONCE 32

// Up to 16 positions of one tap: place in the panel, place in x (none: padding), how many.
typedef struct {
  long from;
  int to, count;
  bool inside, whole;
} Piece;

// Positions as pieces of rows of y.
typedef struct {
  int to, count, n, d, h, w;
} Segment;

INLINE int split(Segment *segments, int p, int count, int o_d, int o_h, int o_w) {
  int w = p % o_w, row = p / o_w;
  int h = row % o_h, slice = row / o_h;
  int d = slice % o_d, n = slice / o_d, found = 0;
  for (int to = 0; to < count; found++) {
    const int length = min(count - to, o_w - w);
    segments[found] = (Segment){to, length, n, d, h, w};
    to += length;
    w = 0;
    if (++h == o_h) {
      h = 0;
      if (++d == o_d) {
        d = 0;
        n++;
      }
    }
  }
  return found;
}

// The segments at one tap, whose offsets from a position's step are `d`, `h`, `w`, of `count` channels
// from `channel` of `channels` on.
INLINE int pieces_of(Piece *pieces, const Segment *segments, int found, int d, int h, int w, int count,
                     long channel, long channels, long x_size, int x_d, int x_h, int x_w, int step_d,
                     int step_h, int step) {
  const long plane = (long)x_d * x_h * x_w;
  int used = 0;
  for (int i = 0; i < found; i++) {
    const Segment s = segments[i];
    const int in_d = s.d * step_d + d, in_h = s.h * step_h + h, in_w = s.w * step + w;
    int low = s.count, high = s.count;  // of the segment, what lies inside of x
    if (in_d >= 0 && in_d < x_d && in_h >= 0 && in_h < x_h) {
      low = in_w >= 0 ? 0 : min(s.count, (step - 1 - in_w) / step);
      high = in_w >= x_w ? low : clamp((x_w - 1 - in_w) / step + 1, low, s.count);
    }
    const long base = (s.n * channels + channel) * plane + ((long)in_d * x_h + in_h) * x_w + in_w;
    for (int at = 0; at < s.count;) {
      const bool inside = at >= low && at < high;
      const int limit = at < low ? low : inside ? high : s.count;
      const int length = min(VEC, limit - at);
      const long from = base + (long)at * step;
      const long last = from + (count - 1) * plane + VEC * min(step, 2);
      pieces[used++] = (Piece){from, s.to + at, length, inside, inside && last <= x_size};
      at += length;
    }
  }
  return used;
}

// Sixteen floats `step` apart; with `whole` all that a vector load touches lies inside of x.
INLINE float16 load_steps(__global const float *x, int step, int count, bool whole) {
  if (whole && step == 1) return vload16(0, x);
  if (whole && step == 2) return (float16)(vload16(0, x).even, vload16(0, x + VEC).even);
  float part[VEC];
  for (int i = 0; i < VEC; i++) part[i] = i < count ? x[(long)i * step] : 0.0f;
  return vload16(0, part);
}

// How far the panels of the products lie apart, and the quarters of x, of other channels and other places.
typedef struct {
  long apart, right, below;
  bool is_ahead;             // prefetches what a gather of the next NR positions reads
} Quarters;

// A vector of each quarter, `step` apart, as the sums of all products; where not `full`, lanes that are not
// its `own` keep what they have.
INLINE void spread(float *to, __global const float *x, const Quarters *quarters, int step, int count,
                   bool whole, const bool full, int16 own) {
  float16 loaded[QUARTERS], sums[PRODUCTS];
#pragma unroll
  for (int i = 0; i < QUARTERS; i++) {
    __global const float *from = x + i / 2 * quarters->below + i % 2 * quarters->right;
    if (full && quarters->is_ahead) PREFETCH(from + NR);
    loaded[i] = load_steps(from, step, count, whole);
  }
  sums_of_quarters(sums, loaded);
#pragma unroll
  for (int i = 0; i < PRODUCTS; i++, to += quarters->apart)
    vstore16(full ? sums[i] : select(vload16(0, to), sums[i], own), 0, to);
}

// `depth` channels as rows of a panel, `pitch` floats apart, CHANNELS_AT_ONCE of them at a time, so
// that what the pieces of a channel share of x is still near. Vectors are stored whole: around a
// piece the panel keeps what it has. It has room for VEC floats more.
INLINE void gather(float *panel, const int pitch, __global const float *x, const Piece *pieces,
                   int used, int depth, long plane, int step, const Quarters *quarters) {
  const int16 lane = (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  for (int c0 = 0; c0 < depth; c0 += CHANNELS_AT_ONCE) {
    const int channels = min(CHANNELS_AT_ONCE, depth - c0);
    for (int i = 0; i < used; i++) {
      const Piece piece = pieces[i];
      const int16 own = lane < piece.count;
      float *to = panel + c0 * pitch + piece.to;
      if (!piece.inside) {
        for (int q = 0; q < PRODUCTS; q++, to += quarters->apart)
          for (int c = 0; c < channels; c++)
            vstore16(select(vload16(0, to + c * pitch), (float16)(0.0f), own), 0, to + c * pitch);
        continue;
      }
      __global const float *from = x + piece.from + c0 * plane;
      if (piece.whole && step == 1 && piece.count == VEC)
        for (int c = 0; c < channels; c++, from += plane, to += pitch)
          spread(to, from, quarters, 1, VEC, true, true, own);
      else if (piece.whole && step == 1)
        for (int c = 0; c < channels; c++, from += plane, to += pitch)
          spread(to, from, quarters, 1, VEC, true, false, own);
      else if (piece.whole && step == 2)
        for (int c = 0; c < channels; c++, from += plane, to += pitch)
          spread(to, from, quarters, 2, VEC, true, false, own);
      else
        for (int c = 0; c < channels; c++, from += plane, to += pitch)
          spread(to, from, quarters, step, piece.count, piece.whole, false, own);
    }
  }
}

#endif  // CPU_PIECES_H
