// operators-group-norm: on GPUs, where channels are neighbours in memory, and work-groups share the positions of an image.
//
// A work-group has some channels, whole groups of them, of some positions; an item FOUR of the channels and, beside others
// with the same ones, every so many-th position. Two kernels: what the groups' means and variances come from, for each
// piece of the positions, and the results.
#include "fours.h"
#include "functions.h"

#ifndef DTYPE
#define DTYPE FLOAT32
#endif
#ifndef GROUP
#define GROUP 256  // work-items
#endif
#define HELD 8                // positions of an item at a time
#define MOST (GROUP * FOUR)   // channels of a work-group, times items with the same ones
#define MOST_SLICES 16        // of the pieces of the positions, which items merge side by side

// What work-groups have in common: x_n, x_p are steps of images and of positions; share: channels of a group; columns:
// channels of a work-group; a piece has `per_piece` of the positions, there are `pieces`.
#define PARAMETERS                                                                                              \
  const int positions, const int channels, const int share, const int columns, const int pieces, const int per_piece

// Where a work-group and an item of it are: the number of work-groups of an image and channels is given.
typedef struct {
  int part, image, begin, width, item, row, rows;
} Place;
CF_INLINE Place place_of(const int parts, const int channels, const int columns) {
  const int blocks = (channels + columns - 1) / columns;
  const int number = (int)CF_GROUP_ID(0), at = number / parts;
  Place place;
  place.part = number - at * parts;
  place.image = at / blocks;
  place.begin = (at - place.image * blocks) * columns;
  place.width = min(columns, channels - place.begin);
  const int side = place.width / FOUR;
  place.rows = GROUP / side;
  place.row = (int)CF_LOCAL_ID(0) / side;
  place.item = (int)CF_LOCAL_ID(0) - place.row * side;
  return place;
}
// How many positions an item has of so many.
#define SHARE_OF(count, row, rows) (((count) - (row) + (rows) - 1) / (rows))

// Adds numbers with a mean and a sum of squares of distances from it to those that are there.
CF_INLINE void add_numbers(NUMBER *count, NUMBER *mean, NUMBER *spread, const NUMBER more, const NUMBER more_mean,
                           const NUMBER more_spread) {
  const NUMBER all = *count + more, part = more / all, distance = more_mean - *mean;
  *spread += more_spread + distance * distance * (*count * part);
  *mean += distance * part;
  *count = all;
}

CF_KERNEL CF_WORK_GROUP_SIZE(GROUP, 1, 1) void operators_channel_moments(
    CF_GLOBAL const CF_TYPE(DTYPE) *x, CF_GLOBAL NUMBER *moments, const CF_LONG x_n, const CF_LONG x_p, PARAMETERS) {
  CF_LOCAL NUMBER means[MOST], spreads[MOST];
  const Place place = place_of(pieces, channels, columns);
  const int first = place.part * per_piece, count = min(per_piece, positions - first);
  const int width = place.width, rows = min(place.rows, count), at = place.row * width + place.item * FOUR;
  if (place.row < rows) {
    CF_GLOBAL const CF_TYPE(DTYPE) *const from = x + place.image * x_n + first * x_p + place.begin + place.item * FOUR;
    NUMBER done[FOUR], mean[FOUR], spread[FOUR];
    CF_UNROLL for (int e = 0; e < FOUR; ++e) done[e] = mean[e] = spread[e] = 0;
    for (int p = place.row; p < count; p += HELD * rows) {
      NUMBER held[HELD][FOUR];
      const int here = min(HELD, SHARE_OF(count, p, rows));
      CF_UNROLL for (int i = 0; i < HELD; ++i) {
        CF_UNROLL for (int e = 0; e < FOUR; ++e) held[i][e] = 0;
        if (i < here) LOAD_FOUR(DTYPE, held[i], from + (p + i * rows) * x_p);
      }
      CF_UNROLL for (int e = 0; e < FOUR; ++e) {
        // Squares are of distances from the mean of these few: those from any other number would be lost in a sum beside
        // an element far from all others.
        NUMBER sum = 0, squares = 0;
        CF_UNROLL for (int i = 0; i < HELD; ++i) sum += held[i][e];
        sum /= here;
        CF_UNROLL for (int i = 0; i < HELD; ++i) squares += i < here ? (held[i][e] - sum) * (held[i][e] - sum) : 0;
        add_numbers(&done[e], &mean[e], &spread[e], here, sum, squares);
      }
    }
    CF_UNROLL for (int e = 0; e < FOUR; ++e) {
      means[at + e] = mean[e];
      spreads[at + e] = spread[e];
    }
  }
  CF_BARRIER();
  for (int c = CF_LOCAL_ID(0); c < width; c += GROUP) {
    const int each = count / rows, rest = count - each * rows;  // as SHARE_OF has it
    NUMBER mean = 0, spread = 0;
    for (int row = 0; row < rows; ++row) mean += (each + (row < rest)) * means[row * width + c];
    mean /= count;
    for (int row = 0; row < rows; ++row) {
      const NUMBER distance = means[row * width + c] - mean;
      spread += spreads[row * width + c] + (each + (row < rest)) * (distance * distance);
    }
    means[c] = mean;
    spreads[c] = spread;
  }
  CF_BARRIER();
  for (int g = CF_LOCAL_ID(0); g < width / share; g += GROUP) {
    NUMBER mean = 0, spread = 0;
    for (int c = g * share; c < (g + 1) * share; ++c) mean += means[c];
    mean /= share;
    for (int c = g * share; c < (g + 1) * share; ++c)
      spread += spreads[c] + count * (means[c] - mean) * (means[c] - mean);
    CF_GLOBAL NUMBER *const to =
        moments + (((CF_LONG)place.image * pieces + place.part) * (channels / share) + place.begin / share + g) * 2;
    to[0] = mean;
    to[1] = spread;
  }
}

// A work-group has `per_part` of the positions of an image, of which there are `parts` pieces.
CF_KERNEL CF_WORK_GROUP_SIZE(GROUP, 1, 1) void operators_channel_groups_shared(
    CF_GLOBAL const CF_TYPE(DTYPE) *x, CF_GLOBAL const CF_TYPE(DTYPE) *scale, CF_GLOBAL const CF_TYPE(DTYPE) *bias,
    CF_GLOBAL CF_TYPE(DTYPE) *y, CF_GLOBAL const NUMBER *moments, const CF_LONG x_n, const CF_LONG x_p, const CF_LONG y_n,
    const CF_LONG y_p, PARAMETERS, const int parts, const int per_part, const NUMBER epsilon
    CF_ACTIVATION_PARAMETERS) {
  CF_LOCAL NUMBER means[MOST], spreads[MOST], counts[MOST];
  const Place place = place_of(parts, channels, columns);
  const int width = place.width, groups = width / share, all = channels / share;
  const int slices = max(1, min(min(GROUP / groups, MOST_SLICES), pieces));
  CF_GLOBAL const NUMBER *const own = moments + ((CF_LONG)place.image * pieces * all + place.begin / share) * 2;
  for (int at = CF_LOCAL_ID(0); at < slices * groups; at += GROUP) {
    const int slice = at / groups, g = at - slice * groups;
    NUMBER count = 0, mean = 0, spread = 0;
    for (int piece = slice; piece < pieces; piece += slices) {
      CF_GLOBAL const NUMBER *const from = own + ((CF_LONG)piece * all + g) * 2;
      const int here = min(per_piece, positions - piece * per_piece);
      add_numbers(&count, &mean, &spread, (NUMBER)here * share, from[0], from[1]);
    }
    means[at] = mean;
    spreads[at] = spread;
    counts[at] = count;
  }
  CF_BARRIER();
  for (int g = CF_LOCAL_ID(0); g < groups; g += GROUP) {
    const NUMBER elements = (NUMBER)positions * share;
    NUMBER mean = 0, spread = 0;
    for (int at = g; at < slices * groups; at += groups) mean += counts[at] * means[at];
    mean /= elements;
    for (int at = g; at < slices * groups; at += groups)
      spread += spreads[at] + counts[at] * (means[at] - mean) * (means[at] - mean);
    means[g] = mean;
    spreads[g] = 1 / CF_MATH(sqrt)(spread / elements + epsilon);
  }
  CF_BARRIER();
  const int first = place.part * per_part, count = min(per_part, positions - first), rows = place.rows;
  if (place.row >= rows) return;
  NUMBER mean[FOUR], factor[FOUR], shift[FOUR];
  const int channel = place.begin + place.item * FOUR;
  LOAD_FOUR(DTYPE, factor, scale + channel);
  LOAD_FOUR(DTYPE, shift, bias + channel);
  CF_UNROLL for (int e = 0; e < FOUR; ++e) {
    const int g = (place.item * FOUR + e) / share;
    mean[e] = means[g];
    factor[e] *= spreads[g];
  }
  CF_GLOBAL const CF_TYPE(DTYPE) *const from = x + place.image * x_n + first * x_p + channel;
  CF_GLOBAL CF_TYPE(DTYPE) *const to = y + place.image * y_n + first * y_p + channel;
  for (int p = place.row; p < count; p += HELD * rows) {
    NUMBER held[HELD][FOUR];
    const int here = min(HELD, SHARE_OF(count, p, rows));
    CF_UNROLL for (int i = 0; i < HELD; ++i)
      if (i < here) LOAD_FOUR(DTYPE, held[i], from + (p + i * rows) * x_p);
    CF_UNROLL for (int i = 0; i < HELD; ++i) {
      if (i < here) {
        CF_UNROLL for (int e = 0; e < FOUR; ++e) held[i][e] = ACTIVATED((held[i][e] - mean[e]) * factor[e] + shift[e]);
        STORE_FOUR(DTYPE, to + (p + i * rows) * y_p, held[i]);
      }
    }
  }
}
