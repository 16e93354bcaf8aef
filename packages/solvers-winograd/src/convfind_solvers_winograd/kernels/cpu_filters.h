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

// The window of up to 16 filters and 16 channels: window[tap][channel] is a vector of filters.
INLINE void load_window(float16 window[WINDOW][VEC], __global const ELEMENT *w, int filters,
                        int channels, long w_filter, long w_channel, long w_tap, int flipped) {
  if (w_filter == 1) {
    for (int tap = 0; tap < WINDOW; tap++)
      for (int c = 0; c < channels; c++)
        window[tap][c] = LOAD_PART(w + c * w_channel + tap * w_tap, filters);
  } else if (w_channel == 1 || (w_tap == 1 && w_channel == WINDOW)) {
    // The places of a filter lie side by side, 16 at a time: channels of a tap, or taps of channels.
    const int runs = w_channel == 1 ? (channels + VEC - 1) / VEC : WINDOW;
    for (int outer = 0; outer < (w_channel == 1 ? WINDOW : runs); outer++) {
      __global const ELEMENT *from = w + (w_channel == 1 ? outer * w_tap : outer * VEC);
      const int used = w_channel == 1 ? channels : channels * WINDOW - outer * VEC;
      if (used <= 0) break;
      float16 square[VEC];
#pragma unroll
      for (int i = 0; i < VEC; i++) {
        square[i] = 0.0f;
        if (i < filters) square[i] = LOAD_PART(from + i * w_filter, used);
      }
      transpose(square);
#pragma unroll
      for (int i = 0; i < VEC; i++) {
        const int place = outer * VEC + i;
        if (w_channel == 1)
          window[outer][i] = square[i];
        else
          window[place % (WINDOW)][place / (WINDOW)] = square[i];
      }
    }
  } else {
    for (int tap = 0; tap < WINDOW; tap++)
      for (int c = 0; c < channels; c++) {
        float part[VEC];
        for (int i = 0; i < VEC; i++)
          part[i] = i < filters ? LOAD_ELEMENT(w + i * w_filter + c * w_channel + tap * w_tap) : 0.0f;
        window[tap][c] = vload16(0, part);
      }
  }
  if (flipped)
    for (int tap = 0; tap < WINDOW / 2; tap++)
      for (int c = 0; c < channels; c++) {
        const float16 other = window[WINDOW - 1 - tap][c];
        window[WINDOW - 1 - tap][c] = window[tap][c];
        window[tap][c] = other;
      }
}

// U of up to NR filters and CHANNELS channels: panel[xi][channel][filter].
INLINE void transform_weights(WEIGHT_SPACE float *panel, __global const ELEMENT *w, int filters,
                              int channels, long w_filter, long w_channel, long w_tap, int flipped) {
  float16 window[WINDOW][VEC];
  for (int k = 0; k < filters; k += VEC)
    for (int c0 = 0; c0 < channels; c0 += VEC) {
      const int count = min(VEC, channels - c0);
      load_window(window, w + k * w_filter + c0 * w_channel, min(VEC, filters - k), count, w_filter,
                  w_channel, w_tap, flipped);
      for (int c = 0; c < count; c++) {
        float16 points[WEIGHT_POINTS];
        TRANSFORM_BOTH(transform_filter, &window[0][c], VEC, TAPS, points, FILTER_POINTS);
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
