// Convolution to few channels on CPUs: the gradient of the image of a first layer, forward of a last layer.
//
// With strides the results of each phase, the places whose distance to the first tap has one remainder, are a
// convolution of the source with every stride-th tap. A work-item takes bands of ROWS rows of the result. For a block
// of channels it copies the rows of the source that a band takes to private memory, with zeros around them, channels
// last transposed: there the taps of 16 neighbouring results of a phase are vectors. A phase's rows of all channels of
// VECTORS of these stay in registers over the block, weights are broadcast; in between the sums are in private memory.
// Forward, of stride 1, is the gradient with the taps in the opposite order: weights that are put in order first.
#include "convfind_cpu_vector.h"
#include "window.h"

#ifndef CHANNELS_LAST
#define CHANNELS_LAST 0     // 0: channels first; 1: channels last
#endif
#ifndef VECTORS
#define VECTORS 1           // vectors of results at a time: 1 and up
#endif
#ifndef STRIP_FLOATS
#define STRIP_FLOATS 16384  // room for the rows of the source
#endif
#ifndef SUM_FLOATS
#define SUM_FLOATS 16384    // room for the sums: FILTERS * ROWS * STRIDE_W * columns of a phase
#endif
#ifndef LINE_FLOATS
#define LINE_FLOATS 1024    // room for a row of the result: columns * STRIDE_W, channels last * FILTERS
#endif

#define UNIT (VECTORS * VEC)
#define PHASE_ROWS (ROWS / STRIDE_H)
#define REACH_H REACH(FILTER_H, STRIDE_H, 1)
#define REACH_W REACH(FILTER_W, STRIDE_W, 1)
#define HELD (PHASE_ROWS + REACH_H)  // rows of the source that ROWS rows of the result take
#define PHASE_TAPS(taps, stride, phase) (((taps) - (phase) + (stride)-1) / (stride))
#define WEIGHT_AT(c, i, j) \
  (CHANNELS_LAST ? ((i) * FILTER_W + (j)) * FILTERS + (c) : ((c) * FILTER_H + (i)) * FILTER_W + (j))
#define LINES (CHANNELS_LAST ? FILTERS * STRIDE_W : STRIDE_W)  // sums that lie side by side in the result

// Where a row of sums begins, in units of a row.
#define SUMS_AT(c, phase_h, phase_w, row) ((((c) * STRIDE_H + (phase_h)) * PHASE_ROWS + (row)) * STRIDE_W + (phase_w))

// Adds a block of `count` channels to the sums of a phase.
INLINE void add_channels(float *sums, const float *rows, __global const float *w, const int count, const int plane,
                         const int pitch, const int columns, const int phase_h, const int phase_w, const bool adds,
                         __global const float *ahead, const long ahead_row, const long ahead_channel,
                         const long ahead_vector) {
  float16 sum[FILTERS][PHASE_ROWS][VECTORS];
#pragma unroll
  for (int c = 0; c < FILTERS; c++)
#pragma unroll
    for (int o = 0; o < PHASE_ROWS; o++)
#pragma unroll
      for (int v = 0; v < VECTORS; v++) {
        sum[c][o][v] = 0.0f;
        if (adds) sum[c][o][v] = vload16(v, sums + SUMS_AT(c, phase_h, phase_w, o) * columns);
      }
  const int high = PHASE_TAPS(FILTER_H, STRIDE_H, phase_h), wide = PHASE_TAPS(FILTER_W, STRIDE_W, phase_w);
  for (int k = 0; k < count; k++, rows += plane, w += FILTERS * TAPS) {
    if (phase_h + phase_w == 0) {
#pragma unroll
      for (int r = 0; r < HELD; r++)
#pragma unroll
        for (int v = 0; v < VECTORS; v++) PREFETCH(ahead + k * ahead_channel + r * ahead_row + v * ahead_vector);
    }
    for (int j = 0; j < wide; j++) {
      const float *from = rows + REACH_W - j;
      __global const float *weights = w + WEIGHT_AT(0, phase_h, phase_w + j * STRIDE_W);
#pragma unroll
      for (int r = 0; r < HELD; r++) {
        float16 value[VECTORS];
#pragma unroll
        for (int v = 0; v < VECTORS; v++) value[v] = vload16(v, from + r * pitch);
#pragma unroll
        for (int o = 0; o < PHASE_ROWS; o++) {
          const int i = o + REACH_H - r;
          if (i < 0 || i >= high) continue;
#pragma unroll
          for (int c = 0; c < FILTERS; c++) {
            const float16 weight = weights[WEIGHT_AT(c, i * STRIDE_H, 0)];
#pragma unroll
            for (int v = 0; v < VECTORS; v++) sum[c][o][v] = fma(value[v], weight, sum[c][o][v]);
          }
        }
      }
    }
  }
#pragma unroll
  for (int c = 0; c < FILTERS; c++)
#pragma unroll
    for (int o = 0; o < PHASE_ROWS; o++)
#pragma unroll
      for (int v = 0; v < VECTORS; v++) vstore16(sum[c][o][v], v, sums + SUMS_AT(c, phase_h, phase_w, o) * columns);
}

// Copies `held` columns of HELD rows of the source for `count` channels; all else in `pitch` columns is zero. The
// first row and column may lie outside.
INLINE void stage(float *to, __global const float *source, const int count, const int channels, const int above,
                  const int left, const int held, const int s_h, const int s_w, const int plane, const int pitch) {
  const int low = clamp(-left, 0, held), high = clamp(s_w - left, low, held);
#if CHANNELS_LAST
  for (int r = 0; r < HELD; r++) {
    float *row = to + r * pitch;
    const bool exists = above + r >= 0 && above + r < s_h && low < high;
    for (int k = 0; k < count; k++) {
      for (int i = 0; i < (exists ? low : pitch); i += VEC) vstore16((float16)(0.0f), 0, row + k * plane + i);
      for (int i = high; exists && i < pitch; i += VEC)
        vstore16((float16)(0.0f), 0, row + k * plane + min(i, pitch - VEC));
    }
    if (!exists) continue;
    __global const float *from = source + ((long)(above + r) * s_w + left) * channels;
    for (int next = low; next < high; next += VEC) {
      const int i = max(min(next, high - VEC), low), pixels = high - i;
      float16 line[VEC];
#pragma unroll
      for (int p = 0; p < VEC; p++) {
        line[p] = 0.0f;
        if (p < pixels) line[p] = load_part(from + (long)(i + p) * channels, count);
      }
      transpose(line);
#pragma unroll
      for (int k = 0; k < VEC; k++)
        if (k < count) vstore16(line[k], 0, row + k * plane + i);
    }
  }
#else
  for (int k = 0; k < count; k++, to += plane, source += (long)s_h * s_w) {
    for (int r = 0; r < HELD; r++) {
      float *row = to + r * pitch;
      const bool exists = above + r >= 0 && above + r < s_h && low < high;
      for (int i = 0; i < (exists ? low : pitch); i += VEC) vstore16((float16)(0.0f), 0, row + i);
      if (!exists) continue;
      for (int i = high; i < pitch; i += VEC) vstore16((float16)(0.0f), 0, row + min(i, pitch - VEC));
      __global const float *from = source + (long)(above + r) * s_w + left;
      for (int next = low; next < high; next += VEC) {
        const int i = max(min(next, high - VEC), low);
        vstore16(load_part(from + i, high - i), 0, row + i);
      }
    }
  }
#endif
}

// Puts `columns` sums of each of LINES rows side by side as they lie in the result.
INLINE void interleave(float *to, const float *sums[LINES], const int columns) {
  const int16 lane = (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  for (int i = 0; i < columns; i += VEC, to += LINES * VEC) {
#pragma unroll
    for (int n = 0; n < LINES; n++) {
      const int16 at = lane + n * VEC;
      float16 result = 0.0f;
#pragma unroll
      for (int l = 0; l < LINES; l++)
        result = select(result, shuffle(vload16(0, sums[l] + i), as_uint16(at / LINES)), at % LINES == l);
      vstore16(result, n, to);
    }
  }
}

// Writes rows of the result from sums; `left` is the column of the first sum of the first phase.
INLINE void store(__global float *result, const float *sums, const int row, const int left, const int columns,
                  const int r_h, const int r_w, const Epilogue epilogue) {
  float line[LINE_FLOATS] __attribute__((aligned(64)));
  const int step = CHANNELS_LAST ? FILTERS : 1;
  const int skipped = max(-left, 0), end = min(columns * STRIDE_W, r_w - left);
#pragma unroll
  for (int phase = 0; phase < STRIDE_H; phase++) {
    for (int o = 0; o < PHASE_ROWS; o++) {
      const int at = row + o * STRIDE_H + phase;
      if (at < 0 || at >= r_h) continue;
      for (int c = 0; c < (CHANNELS_LAST ? 1 : FILTERS); c++) {
        const float *from[LINES];
#pragma unroll
        for (int l = 0; l < LINES; l++) {
          const int at_line = CHANNELS_LAST ? SUMS_AT(l % FILTERS, phase, l / FILTERS, o) : SUMS_AT(c, phase, l, o);
          from[l] = sums + at_line * columns;
        }
        interleave(line, from, columns);
        __global float *to = result + (((long)c * r_h + at) * r_w + left) * step;
        for (int i = skipped * step; i < end * step; i += VEC)
          store_part(vload16(0, line + i), to + i, end * step - i,
                     CHANNELS_LAST ? biases_in_turns(epilogue, i, FILTERS) : bias_of(epilogue, c), epilogue);
      }
    }
  }
}

// Weights of the forward direction as those of the gradient, each channel's together: taps in the opposite order.
// Global size: (source channels / 16, rounded up).
__kernel ONE_ITEM void direct_cpu_narrow_pack(__global const float *restrict w, __global float *restrict packed,
                                              const int channels) {
  const int first = get_global_id(0) * VEC, last = min(first + VEC, channels);
  for (int c = 0; c < FILTERS; c++) {
    for (int i = 0; i < FILTER_H; i++) {
      for (int j = 0; j < FILTER_W; j++) {
        const int to = WEIGHT_AT(c, FILTER_H - 1 - i, FILTER_W - 1 - j), tap = i * FILTER_W + j;
        for (int k = first; k < last; k++)
          packed[(long)k * FILTERS * TAPS + to] =
              w[CHANNELS_LAST ? ((long)c * TAPS + tap) * channels + k : ((long)c * channels + k) * TAPS + tap];
      }
    }
  }
}

// Global size: (images, work-items of one); each takes `share` bands of ROWS rows of the result, in parts of `columns`
// columns of each phase, and of channels `block` at a time.
__kernel ONE_ITEM void direct_cpu_narrow(__global const float *restrict source, __global const float *restrict w,
                                         __global float *restrict result, CF_EPILOGUE_PARAMETERS,
                                         const int channels, const int s_h, const int s_w, const int r_h,
                                         const int r_w, const int pad_h, const int pad_w, const int share,
                                         const int bands, const int block, const int columns, const int pitch) {
  const Epilogue epilogue = CF_EPILOGUE(result);
  float rows[STRIP_FLOATS] __attribute__((aligned(64)));
  float sums[SUM_FLOATS] __attribute__((aligned(64)));
  // An odd multiple of a vector: planes lie in different sets of the cache.
  const int plane = HELD * pitch | VEC, held = columns + REACH_W;
  const long s_row = CHANNELS_LAST ? (long)s_w * channels : s_w, s_column = CHANNELS_LAST ? channels : 1;
  const long s_channel = CHANNELS_LAST ? 1 : (long)s_h * s_w;
  source += get_global_id(0) * channels * s_h * s_w;
  result += get_global_id(0) * FILTERS * r_h * r_w;
  const int first = get_global_id(1) * share, last = min(first + share, bands);
  for (int band = first; band < last; band++) {
    const int top = pad_h / STRIDE_H + band * PHASE_ROWS;
    for (int start = pad_w / STRIDE_W; start * STRIDE_W < r_w + pad_w; start += columns) {
      for (int k = 0; k < channels; k += block) {
        const int count = min(block, channels - k);
        stage(rows, source + k * s_channel, count, channels, top - REACH_H, start - REACH_W, held, s_h, s_w, plane,
              pitch);
        // The next block's part of the source is on its way meanwhile.
        const bool ends = k + block >= channels;
        const int soon = min(top - REACH_H + (ends ? PHASE_ROWS : 0), s_h - 1), later = ends ? 0 : k + block;
        __global const float *ahead = source + later * s_channel + max(soon, 0) * s_row + start * s_column;
#pragma unroll
        for (int phase_h = 0; phase_h < STRIDE_H; phase_h++) {
#pragma unroll
          for (int phase_w = 0; phase_w < STRIDE_W; phase_w++) {
            for (int i = 0; i < columns; i += UNIT) {
              add_channels(sums + i, rows + i, w + (long)k * FILTERS * TAPS, count, plane, pitch, columns, phase_h,
                          phase_w, k > 0, ahead + i * s_column, s_row, CHANNELS_LAST ? s_column : s_channel,
                          VEC * s_column);
            }
          }
        }
      }
      store(result, sums, top * STRIDE_H - pad_h, start * STRIDE_W - pad_w, columns, r_h, r_w, epilogue);
    }
  }
}
