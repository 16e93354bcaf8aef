// The gradient behind an activation, and its sums by channel, part by part; then the sums of the parts.
//
// On GPUs a work-group has neighbours side by side, on CPUs a work-item has vectors of them. A tensor is [outer][channel][inner],
// or with channels last [outer][channel].
#include "elements.h"

// DTYPE: type of all elements.
#ifdef CF_ACTIVATION
#include "convfind_activation_slope.h"
#define HAS_SLOPE 1
CF_DEFINE_SLOPE(slope_of, VALUE)
#else
#define HAS_SLOPE 0
#endif
#ifndef SUMS
#define SUMS 1   // 0, 1: whether sums are wanted
#endif
#ifndef BLOCK
#define BLOCK 1  // channels last: vectors of a work-item, at most
#endif
#ifndef LANES
#define LANES 1  // channels first: work-items of a group, a power of two; on CPUs 1
#endif

#define ELEMENT CF_TYPE(DTYPE)
#if HAS_SLOPE
#define SLOPES , CF_GLOBAL const ELEMENT *x, CF_GLOBAL ELEMENT *dx CF_ACTIVATION_PARAMETERS
#if CF_ACTIVATION_NUMBERS == 0
#define NUMBERS 0, 0, 0
#elif CF_ACTIVATION_NUMBERS == 1
#define NUMBERS cf_a, 0, 0
#elif CF_ACTIVATION_NUMBERS == 2
#define NUMBERS cf_a, cf_b, 0
#else
#define NUMBERS cf_a, cf_b, cf_c
#endif
#else
#define SLOPES
#endif
#if SUMS
#define PARTS , CF_GLOBAL NUMBER *parts
#else
#define PARTS
#endif

// What is behind `count` elements is 0 in their sum.
#define LOAD_FEW(pointer, count) ((count) >= WIDTH ? LOAD(DTYPE, pointer) : LOAD_SOME(DTYPE, pointer, 1, count, 0))
#if HAS_SLOPE
#define STEP(at, count)                                                                             \
  const VALUE value = LOAD_FEW(dy + (at), count) * slope_of(LOAD_FEW(x + (at), count), NUMBERS);    \
  STORE_STEPPED_1(DTYPE, dx + (at), 1, count, value);
#else
#define STEP(at, count) const VALUE value = LOAD_FEW(dy + (at), count);
#endif

// Global size: (blocks of BLOCK * WIDTH channels, parts): each has some of the rows.
CF_KERNEL void operators_epilogue_gradient_last(CF_GLOBAL const ELEMENT *dy SLOPES PARTS, const CF_LONG rows,
                                                const CF_LONG rows_each, const CF_LONG channels) {
  const CF_LONG first = (CF_LONG)CF_GLOBAL_ID(0) * (BLOCK * WIDTH), part = CF_GLOBAL_ID(1);
  if (first >= channels) return;
  const CF_LONG begin = part * rows_each, end = begin + rows_each < rows ? begin + rows_each : rows;
  const int count = (int)(channels - first < BLOCK * WIDTH ? channels - first : BLOCK * WIDTH);
  VALUE sums[BLOCK];
  for (int v = 0; v < BLOCK; ++v) sums[v] = EACH(0);
  for (CF_LONG row = begin; row < end; ++row)
    for (int c = 0; c < count; c += WIDTH) {
      STEP(row * channels + first + c, count - c)
      sums[c / WIDTH] += value;
    }
#if SUMS
  CF_GLOBAL NUMBER *to = parts + (part * channels + first);
#if WIDTH == 1
  for (int c = 0; c < count; ++c) to[c] = sums[c];
#else
  for (int c = 0; c < count; c += WIDTH) {
    NUMBER lanes[WIDTH];
    vstore16(sums[c / WIDTH], 0, lanes);
    for (int lane = 0; lane < WIDTH && c + lane < count; ++lane) to[c + lane] = lanes[lane];
  }
#endif
#endif
}

// Global size: (channels * LANES, parts): each has a piece of an image's positions.
CF_KERNEL CF_WORK_GROUP_SIZE(LANES, 1, 1) void operators_epilogue_gradient_first(
    CF_GLOBAL const ELEMENT *dy SLOPES PARTS, const CF_LONG channels, const CF_LONG inner, const int pieces,
    const CF_LONG positions_each) {
  const CF_LONG channel = CF_GROUP_ID(0), part = CF_GROUP_ID(1), image = part / pieces;
  const CF_LONG begin = part % pieces * positions_each;
  const CF_LONG end = begin + positions_each < inner ? begin + positions_each : inner;
  const CF_LONG plane = (image * channels + channel) * inner;
  const int lane = (int)CF_LOCAL_ID(0);
  VALUE sums = EACH(0);
  for (CF_LONG at = begin + lane * WIDTH; at < end; at += LANES * WIDTH) {
    const int count = end - at < WIDTH ? (int)(end - at) : WIDTH;
    STEP(plane + at, count)
    sums += value;
  }
#if SUMS
#if WIDTH > 1
  NUMBER lanes[WIDTH];
  vstore16(sums, 0, lanes);
  for (int apart = WIDTH / 2; apart; apart /= 2)
    for (int i = 0; i < apart; ++i) lanes[i] += lanes[i + apart];
  parts[part * channels + channel] = lanes[0];
#else
  CF_LOCAL NUMBER lanes[LANES];
  lanes[lane] = sums;
  CF_BARRIER();
  for (int apart = LANES / 2; apart; apart /= 2) {
    if (lane < apart) lanes[lane] += lanes[lane + apart];
    CF_BARRIER();
  }
  if (lane == 0) parts[part * channels + channel] = lanes[0];
#endif
#endif
}

#if SUMS
CF_KERNEL void operators_epilogue_gradient_sum(CF_GLOBAL const NUMBER *parts, CF_GLOBAL ELEMENT *dbias,
                                               const CF_LONG count, const CF_LONG channels) {
  for (CF_LONG channel = CF_GLOBAL_ID(0); channel < channels; channel += CF_GLOBAL_SIZE(0)) {
    NUMBER sum = 0;
    for (CF_LONG part = 0; part < count; ++part) sum += parts[part * channels + channel];
    CF_STORE(DTYPE, dbias, channel, sum);
  }
}
#endif
