// Convolution with few channels a group, channels last, on GPUs: forward and backward-data.
//
// An item computes ROWS x COLUMNS results of LANES neighbouring channels. It walks down the source, and
// each row that it reads goes into all the results that the row meets. Neighbouring items are
// neighbouring channels, then neighbouring columns: what they read in common is in the level-1 cache.
#include "gpu_lanes.h"

#ifndef COLUMNS
#define COLUMNS 2   // neighbouring columns of the result; multiple of STRIDE_W with GRADIENT
#endif

// With some channels an item, the weights of a work-group are copied to local memory: in device memory those of an
// item's neighbour are LANES * TAPS elements further.
#define KEEPS (LANES > 1 && UNROLLED)

// Global size: (channels / LANES * columns / COLUMNS, in whole work-groups; rows / ROWS; images). Sizes s_
// are the source's, r_ the result's; `shift`s before the first result align tiles with the strides.
CF_KERNEL CF_WORK_GROUP_SIZE(ITEMS, 1, 1) void direct_gpu_pixels(
    CF_GLOBAL const ELEMENT *CF_RESTRICT source, CF_GLOBAL const ELEMENT *CF_RESTRICT weights,
    CF_GLOBAL ELEMENT *CF_RESTRICT result, CF_EPILOGUE_PARAMETERS, const int groups,
    const int s_h, const int s_w, const int r_h, const int r_w, const int pad_h, const int pad_w,
    const int shift_h, const int shift_w) {
  const Epilogue epilogue = CF_EPILOGUE(result);
  const int units = groups * FILTERS / LANES, index = (int)CF_GLOBAL_ID(0);
#if KEEPS
  CF_LOCAL float kept[ITEMS * TAPS * LANES] __attribute__((aligned(16)));
  const int slots = min(units, ITEMS), first_unit = (int)CF_GROUP_ID(0) * ITEMS % units;
  for (int at = (int)CF_LOCAL_ID(0); at < slots * TAPS; at += ITEMS) {
    const int unit = (first_unit + at / TAPS) % units;
    float some[LANES];
    LOAD_LANES(some, weights + (unit * TAPS + at % TAPS) * LANES);
    FOR_UNROLLED(l, LANES) kept[at * LANES + l] = some[l];
  }
  CF_BARRIER();
#endif
  const int channel = index % units * LANES, column = index / units * COLUMNS - shift_w;
  const int row = (int)CF_GLOBAL_ID(1) * ROWS - shift_h;
  if (column >= r_w) return;
  const int group = channel / FILTERS, k = channel % FILTERS, s_pixel = groups * CHANNELS, r_pixel = groups * FILTERS;
  const int first_row = SOURCE_OF(row, pad_h, FILTER_H, STRIDE_H, DILATION_H);
  const int first_column = SOURCE_OF(column, pad_w, FILTER_W, STRIDE_W, DILATION_W);
  source += ((CF_LONG)CF_GLOBAL_ID(2) * s_h + first_row) * s_w * s_pixel + first_column * s_pixel;

  float sum[ROWS][COLUMNS][LANES];
  FOR_UNROLLED(o, ROWS) {
    FOR_UNROLLED(p, COLUMNS) { FOR_UNROLLED(l, LANES) sum[o][p][l] = 0.0f; }
  }
  for (int c = 0; c < CHANNELS; ++c) {
    CF_GLOBAL const ELEMENT *from = source + (LANES > 1 ? channel : group * CHANNELS + c);
    // Weights lie as output channel, tap, input channel.
    const int apart = GRADIENT ? FILTERS : CHANNELS;
    CF_GLOBAL const ELEMENT *of = weights;
    of += GRADIENT ? ((CF_LONG)group * CHANNELS + c) * TAPS * FILTERS + k : (CF_LONG)channel * TAPS * CHANNELS + c;
#if UNROLLED
    float weight[LANES * TAPS];
#if KEEPS
    CF_LOCAL_PTR const float *own = kept + (int)CF_LOCAL_ID(0) % slots * (TAPS * LANES);
#if LANES == 4
    FOR_UNROLLED(t, TAPS) CF_LOAD4_LOCAL(weight + 4 * t, own + 4 * t);
#else
    FOR_UNROLLED(t, LANES * TAPS) weight[t] = own[t];
#endif
#else
    FOR_UNROLLED(t, LANES * TAPS) weight[t] = LOAD(of, t * apart);
#endif
    FOR_UNROLLED(r, ROW_SPAN) {
      const int inside = first_row + r >= 0 && first_row + r < s_h;
      float value[COLUMN_SPAN][LANES];
      FOR_UNROLLED(j, COLUMN_SPAN) {
        FOR_UNROLLED(l, LANES) value[j][l] = 0.0f;
        if (inside && first_column + j >= 0 && first_column + j < s_w)
          LOAD_LANES(value[j], from + (r * s_w + j) * s_pixel);
      }
      FOR_UNROLLED(o, ROWS) {
        if (!ROWS_MEET(o, r)) continue;
        FOR_UNROLLED(j, COLUMN_SPAN) {
          FOR_UNROLLED(p, COLUMNS) {
            if (!COLUMNS_MEET(p, j)) continue;
            FOR_UNROLLED(l, LANES)
              sum[o][p][l] = CF_FMA(
                  value[j][l], weight[l * TAPS + ROW_TAP(o, r) * FILTER_W + COLUMN_TAP(p, j)], sum[o][p][l]);
          }
        }
      }
    }
#else
    for (int i = 0; i < FILTER_H; ++i) {
      FOR_UNROLLED(o, ROWS) {
        const int offset = o + REACH(FILTER_H, STRIDE_H, DILATION_H) * STRIDE_H - i * DILATION_H;
        const int r = GRADIENT ? offset / STRIDE_H : o * STRIDE_H + i * DILATION_H;
        if (first_row + r < 0 || first_row + r >= s_h || (GRADIENT && offset % STRIDE_H != 0)) continue;
        FOR_UNROLLED(j, COLUMN_SPAN) {
          float value[LANES];
          FOR_UNROLLED(l, LANES) value[l] = 0.0f;
          if (first_column + j >= 0 && first_column + j < s_w)
            LOAD_LANES(value, from + (r * s_w + j) * s_pixel);
          FOR_UNROLLED(p, COLUMNS) {
            if (!COLUMNS_MEET(p, j)) continue;
            FOR_UNROLLED(l, LANES)
              sum[o][p][l] = CF_FMA(
                  value[l], LOAD(of, (l * TAPS + i * FILTER_W + COLUMN_TAP(p, j)) * apart), sum[o][p][l]);
          }
        }
      }
    }
#endif
  }

  result += ((CF_LONG)CF_GLOBAL_ID(2) * r_h + row) * r_w * r_pixel + column * r_pixel + channel;
  FOR_UNROLLED(o, ROWS) {
    if (row + o < 0 || row + o >= r_h) continue;
    FOR_UNROLLED(p, COLUMNS) {
      if (column + p < 0 || column + p >= r_w) continue;
      const int to = (o * r_w + p) * r_pixel;
#if LANES > 1
      if (!CF_READS_RESULT(epilogue)) {
        STORE_LANES(result + to, channel, sum[o][p], epilogue);
        continue;
      }
#endif
      FOR_UNROLLED(l, LANES) store(result + (to + l), sum[o][p][l], channel + l, epilogue);
    }
  }
}
