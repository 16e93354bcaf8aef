// Few channels a group and stride 1, channels first, on GPUs: forward and backward-data, four columns an item.
//
// A work-group computes a band of rows of `run` neighbouring groups, of `chain` images one after the other. Of the
// source it holds one channel of each group in local memory, with zeros around the planes, while the next one is on its
// way. An item has ROWS x 4 results of RESULTS channels: it walks down the source in fours, without a question where the
// image ends.
#include "gpu_window.h"
#include "gpu_stage.h"

#ifndef RESULTS
#define RESULTS 1  // result channels of an item: a divisor of FILTERS
#endif
#ifndef LEAD
#define LEAD 3     // columns before the first result's first tap, which aligns the source: 0..3
#endif
#ifndef COPIES
#define COPIES 8   // fours of the source that an item copies of each channel
#endif
#ifndef STAGES
#define STAGES 1   // channels of the source in local memory: 1 if a work-group needs no more, else 2
#endif
#ifndef KEPT
#define KEPT 4     // weights in local memory, if CHANNELS are more than 1
#endif
#ifndef ASYNC
#define ASYNC 0    // 1: NVIDIA's copies past the registers, from sm_80 on
#endif
#if ASYNC
#include "convfind_nvidia.h"
#endif
#define FOURS ((LEAD + FILTER_W + 6) / 4)  // of a source row, for four results
#define BLOCKS (FILTERS / RESULTS)
#define BATCH (COPIES <= 8 ? COPIES : 4)   // copies at a time

// An item's share of a channel: fours of the rows of a band that are inside the image, of `own` planes `plane_step`
// apart. `rows` of a plane in local memory begin at row `top` of the image, `lead` elements before its first.
CF_INLINE void fetch(CF_LOCAL_PTR float *to, CF_GLOBAL const float *from, const int item, const int own,
                     const int plane_step, const int top, const int rows, const int s_h, const int s_w, const int lead,
                     const int pitch, const int per_width, const int per_rows) {
  _Pragma("unroll 1") for (int first = item; first < COPIES * ITEMS; first += BATCH * ITEMS) {
#if !ASYNC
    float part[BATCH][4];
#endif
    FOR_UNROLLED(m, BATCH) {
      const int index = first + m * ITEMS, line = QUOTIENT(index, per_width), plane = QUOTIENT(line, per_rows);
      const int r = line - plane * rows, at = 4 * index - line * s_w;
      const int is_inside = plane < own && (CF_UINT)(top + r) < (CF_UINT)s_h;
      CF_GLOBAL const float *piece = from + plane * plane_step + (top + r) * s_w + at;
#if ASYNC
      if (is_inside) cf_copy_16(CF_SHARED(to + line * pitch + lead + at), piece, 16);
#else
      if (is_inside) CF_LOAD4(part[m], piece);
#endif
    }
#if !ASYNC
    FOR_UNROLLED(m, BATCH) {
      const int index = first + m * ITEMS, line = QUOTIENT(index, per_width), plane = QUOTIENT(line, per_rows);
      const int r = line - plane * rows, at = 4 * index - line * s_w;
      if (plane < own && (CF_UINT)(top + r) < (CF_UINT)s_h) CF_STORE4_LOCAL(to + line * pitch + lead + at, part[m]);
    }
#endif
  }
}

// Global size: ITEMS for each band (inside), run of groups and chain of images. Sizes s_ are the source's, r_ the
// result's; rows are whole fours. `above` rows and `lead` columns of zeros are before the source's first; in local memory
// rows are `pitch` floats apart.
CF_KERNEL CF_WORK_GROUP_SIZE(ITEMS, 1, 1) void direct_gpu_wide(
    CF_GLOBAL const float *CF_RESTRICT source, CF_GLOBAL const float *CF_RESTRICT weights,
    CF_GLOBAL float *CF_RESTRICT result, CF_EPILOGUE_PARAMETERS, const int images, const int groups,
    const int s_h, const int s_w, const int r_h, const int r_w, const int above, const int lead, const int pitch,
    const int run, const int chain, const int bands, const int strips, const int per_width, const int per_rows) {
  const Epilogue epilogue = CF_EPILOGUE(result);
  CF_LOCAL float staged[STAGES * TILE_FLOATS] __attribute__((aligned(16)));
  CF_LOCAL float kept[KEPT];
  const int item = (int)CF_LOCAL_ID(0), runs = (groups + run - 1) / run, band = (int)CF_GROUP_ID(0) % bands;
  const int first_group = (int)CF_GROUP_ID(0) / bands % runs * run, own = min(run, groups - first_group);
  const int first_image = (int)CF_GROUP_ID(0) / bands / runs * chain, end = min(first_image + chain, images);
  const int rows = strips * ROWS + FILTER_H - 1, top = band * strips * ROWS, plane = s_h * s_w;

#define FETCH(buffer, image, channel)                                                                           \
  fetch(staged + (buffer) * TILE_FLOATS,                                                                        \
        source + (((CF_LONG)(image) * groups + first_group) * CHANNELS + (channel)) * plane, item, own,         \
        CHANNELS * plane, top - above, rows, s_h, s_w, lead, pitch, per_width, per_rows)

  for (int index = item; index < STAGES * TILE_FLOATS / 4; index += ITEMS) {
    const float zeros[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    CF_STORE4_LOCAL(staged + 4 * index, zeros);
  }
  if (CHANNELS > 1) {
    for (int index = item; index < own * CHANNELS * FILTERS * TAPS; index += ITEMS) {
      const int tap = index % TAPS, k = index / TAPS % FILTERS, set = index / TAPS / FILTERS;
      kept[index] = weights[WEIGHTS_OF(first_group + set / CHANNELS, k, set % CHANNELS) * TAPS +
                            (GRADIENT ? TAPS - 1 - tap : tap)];
    }
  }
  CF_BARRIER();
  FETCH(0, first_image, 0);
#if ASYNC
  CF_COPIES_COMMIT();
#endif

  const int fours = r_w / 4, line = item / fours, column = 4 * (item - line * fours), block = line / strips;
  const int strip = line - block * strips, row = top + strip * ROWS, set = block / BLOCKS, k0 = block % BLOCKS * RESULTS;
  const int is_busy = set < own && row < r_h;
  float weight[RESULTS][FILTER_H][FILTER_W];
  if (CHANNELS == 1) {
    FOR_UNROLLED(k, RESULTS) {
      CF_GLOBAL const float *of = weights + WEIGHTS_OF(first_group + min(set, own - 1), k0 + k, 0) * TAPS;
      FOR_UNROLLED(i, FILTER_H) {
        FOR_UNROLLED(j, FILTER_W) weight[k][i][j] = of[GRADIENT ? TAPS - 1 - i * FILTER_W - j : i * FILTER_W + j];
      }
    }
  }

  int buffer = 0;
  for (int image = first_image; image < end; ++image) {
    float sum[RESULTS][ROWS][4];
    FOR_UNROLLED(k, RESULTS) {
      FOR_UNROLLED(o, ROWS) { FOR_UNROLLED(p, 4) sum[k][o][p] = 0.0f; }
    }
    for (int c = 0; c < CHANNELS; ++c) {
#if ASYNC
      CF_COPIES_WAIT(0);
#endif
      CF_BARRIER();
      // Everybody has read what lies in the other buffer.
      if (STAGES > 1 && (c + 1 < CHANNELS || image + 1 < end)) {
        FETCH(1 - buffer, c + 1 < CHANNELS ? image : image + 1, c + 1 < CHANNELS ? c + 1 : 0);
#if ASYNC
        CF_COPIES_COMMIT();
#endif
      }
      CF_LOCAL_PTR const float *from = staged + buffer * TILE_FLOATS + (set * rows + strip * ROWS) * pitch + column;
      buffer = STAGES - 1 - buffer;
      if (!is_busy) continue;
      if (CHANNELS > 1) {
        FOR_UNROLLED(k, RESULTS) {
          FOR_UNROLLED(i, FILTER_H) {
            FOR_UNROLLED(j, FILTER_W)
              weight[k][i][j] = kept[((set * CHANNELS + c) * FILTERS + k0 + k) * TAPS + i * FILTER_W + j];
          }
        }
      }
      FOR_UNROLLED(r, ROWS + FILTER_H - 1) {
        float value[4 * FOURS];
        FOR_UNROLLED(q, FOURS) CF_LOAD4_LOCAL(value + 4 * q, from + r * pitch + 4 * q);
        FOR_UNROLLED(o, ROWS) {
          if (r - o < 0 || r - o >= FILTER_H) continue;
          FOR_UNROLLED(j, FILTER_W) {
            FOR_UNROLLED(k, RESULTS) {
              FOR_UNROLLED(p, 4) sum[k][o][p] = CF_FMA(value[LEAD + p + j], weight[k][r - o][j], sum[k][o][p]);
            }
          }
        }
      }
    }
    if (!is_busy) continue;
    CF_GLOBAL float *to = result + (((CF_LONG)image * groups + first_group + set) * FILTERS + k0) * r_h * r_w;
    to += row * r_w + column;
    FOR_UNROLLED(k, RESULTS) {
      FOR_UNROLLED(o, ROWS) {
        if (row + o >= r_h) continue;
        const int channel = (first_group + set) * FILTERS + k0 + k;
        cf_store_four_results(to + (k * r_h + o) * r_w, channel, 0, sum[k][o], epilogue);
      }
    }
  }
}
