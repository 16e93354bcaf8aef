// Positions of y, channels first, as pieces that are vectors in x.
#ifndef CPU_PIECES_H
#define CPU_PIECES_H

#include "cpu_tile.h"

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

// `depth` channels as rows of a panel, `pitch` floats apart. A vector store spills over what its
// piece has, to be overwritten by the next piece or row; `panel` has room for VEC floats more.
INLINE void gather(float *panel, const int pitch, __global const float *x, const Piece *pieces,
                   int used, int depth, long plane, int step) {
  if (used == 1 && pieces[0].whole && step == 1) {
    for (int c = 0; c < depth; c++)
      vstore16(vload16(0, x + pieces[0].from + c * plane), 0, panel + c * pitch);
    return;
  }
  if (used == 2 && pieces[0].whole && pieces[1].whole && step == 1) {
    __global const float *a = x + pieces[0].from, *b = x + pieces[1].from;
    const int at = pieces[1].to;
    for (int c = 0; c < depth; c++) {
      vstore16(vload16(0, a + c * plane), 0, panel + c * pitch);
      vstore16(vload16(0, b + c * plane), 0, panel + c * pitch + at);
    }
    return;
  }
  for (int c = 0; c < depth; c++)
    for (int i = 0; i < used; i++) {
      float16 value = 0.0f;
      if (pieces[i].inside)
        value = load_steps(x + pieces[i].from + c * plane, step, pieces[i].count, pieces[i].whole);
      vstore16(value, 0, panel + c * pitch + pieces[i].to);
    }
}

#endif  // CPU_PIECES_H
