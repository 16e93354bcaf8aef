// Filters to U: transforms of weights on CPU devices, for cpu_fused.h.
#ifndef CPU_FILTERS_H
#define CPU_FILTERS_H

#if PACKED
#define WEIGHT_SPACE __global
#define WEIGHT float  // of what the run reads
#else
#define WEIGHT_SPACE __private
#define WEIGHT ELEMENT
#endif

// The windows of up to 16 filters and 16 channels, vectors of filters in the order of the weights:
// channels of a tap, or taps of a channel. Returns the steps from one channel and tap to the next.
INLINE int2 load_windows(float16 windows[WINDOW * VEC + VEC], __global const ELEMENT *w,
                         int filters, int channels, long w_filter, long w_channel, long w_tap) {
  const bool by_tap = w_filter == 1 || w_channel == 1;
  const bool apart = !by_tap && w_channel != WINDOW;  // the channels of a filter
  const int parts = (WINDOW + VEC - 1) / VEC, places = (apart ? 1 : channels) * WINDOW;
  const int runs = by_tap ? WINDOW : apart ? channels * parts : (places + VEC - 1) / VEC;
  for (int run = 0; run < runs; run++) {
    const int channel = apart ? run / parts : 0;
    const int place = by_tap ? run : (run - channel * parts) * VEC;
    __global const ELEMENT *from = w + channel * w_channel + place * w_tap;
    float16 *to = windows + (by_tap ? run * VEC : channel * WINDOW + place);
    if (w_filter == 1) {
      for (int c = 0; c < channels; c++) to[c] = LOAD_PART(from + c * w_channel, filters);
      continue;
    }
#pragma unroll
    for (int i = 0; i < VEC; i++) {
      // Behind the window of a filter lies that of the next one, which takes its place later.
      const int used = by_tap ? channels : places * (apart ? filters - i : 1) - place;
      to[i] = 0.0f;
      if (i < filters) to[i] = LOAD_PART(from + i * w_filter, used);
    }
    transpose(to);
  }
  return by_tap ? (int2)(1, VEC) : (int2)(WINDOW, 1);
}

// U of up to NR filters and CHANNELS channels: panel[xi][channel][filter].
INLINE void transform_weights(WEIGHT_SPACE float *panel, __global const ELEMENT *w, int filters,
                              int channels, long w_filter, long w_channel, long w_tap, int flipped) {
  float16 windows[WINDOW * VEC + VEC];
  for (int k = 0; k < filters; k += VEC)
    for (int c0 = 0; c0 < channels; c0 += VEC) {
      const int count = min(VEC, channels - c0);
      const int2 steps = load_windows(windows, w + k * w_filter + c0 * w_channel,
                                      min(VEC, filters - k), count, w_filter, w_channel, w_tap);
      const int first = flipped ? (WINDOW - 1) * steps.y : 0, tap = flipped ? -steps.y : steps.y;
      for (int c = 0; c < count; c++) {
        const float16 *window = windows + c * steps.x + first;
        float16 points[WEIGHT_POINTS];
        TRANSFORM_BOTH(transform_filter, window, tap, TAPS, points, FILTER_POINTS);
        WEIGHT_SPACE float *to = panel + (c0 + c) * NR + k;
#pragma unroll
        for (int xi = 0; xi < WEIGHT_POINTS; xi++) vstore16(points[xi], 0, to + xi * POINT_STEP);
      }
    }
}

// Fetches part `part` of WEIGHT_POINTS of the weights of a panel into the cache.
INLINE void fetch_weights(__global const ELEMENT *w, int part, int filters, int channels,
                          long w_filter, long w_channel, long w_tap) {
  const bool by_filter = w_filter > w_channel, taps_inside = w_tap == 1;
  filters = min(filters, NR);
  channels = min(channels, CHANNELS);
  const int rows = by_filter ? filters : channels;
  const int floats = (by_filter ? channels : filters) * (taps_inside ? WINDOW : 1);
  for (int row = part; row < rows; row += WEIGHT_POINTS)
    for (int tap = 0; tap < (taps_inside ? 1 : WINDOW); tap++)
      for (int i = 0; i < floats; i += VEC)
        PREFETCH(w + row * (by_filter ? w_filter : w_channel) + tap * w_tap + i);
}

// Weights of a group to [panel of NR filters][block of CHANNELS channels][xi][channel][filter].
// Global size: (panels, blocks, groups).
__kernel ONE_ITEM void winograd_cpu_pack(__global const ELEMENT *restrict w,
                                         __global float *restrict packed, const int filters,
                                         const int channels, const long w_group,
                                         const long w_filter, const long w_channel,
                                         const long w_tap, const int flipped) {
#if PACKED
  const int k = get_global_id(0) * NR, c = get_global_id(1) * CHANNELS;
  const long at = ((long)get_global_id(2) * get_global_size(0) + get_global_id(0)) *
                      get_global_size(1) + get_global_id(1);
  w += get_global_id(2) * w_group + k * w_filter + c * w_channel;
  for (int part = 0; part < WEIGHT_POINTS; part++)
    fetch_weights(w, part, filters - k, channels - c, w_filter, w_channel, w_tap);
  transform_weights(packed + at * PANEL, w, min(NR, filters - k), min(CHANNELS, channels - c),
                    w_filter, w_channel, w_tap, flipped);
#endif
}

#endif  // CPU_FILTERS_H
