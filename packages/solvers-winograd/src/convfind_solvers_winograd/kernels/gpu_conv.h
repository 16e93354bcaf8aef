// The transforms of forward convolution and of the data gradient on GPUs: see gpu_transform.h.
#define STRIDE OUTPUTS
#include "gpu_transform.h"
#include "gpu_store.h"

#ifndef SPLIT_FILTERS
#define SPLIT_FILTERS 0  // 1: filters are split for Hopper's matrix units
#endif
#ifndef FILTERS_IN_FRAGMENTS
#define FILTERS_IN_FRAGMENTS 0  // 1: filters are in the order of gpu_fused_mma.cl
#endif

#define CHANNELS_INSIDE (SPLIT_FILTERS || FILTERS_IN_FRAGMENTS)
#define BLOCK_FILTERS (CHANNELS_INSIDE ? 4 : 32)  // of a work-group of the filters' transform
#define BLOCK_CHANNELS (CHANNELS_INSIDE ? 32 : 4)
#define WINDOW AREA(TAPS)

TRANSFORM_TILES(winograd_gpu_data, transform_data, SIZE)

#if SPLIT_FILTERS
// A float as the sum of a TF32 number, the nearest one, and what is left. Of 32 channels of a filter lie, one behind the
// other, the TF32 numbers, these in bfloat16, and what is left in bfloat16, which have channels 0 4 1 5 2 6 3 7 of eight:
// the columns that convfind_nvidia_tile.h makes of PRODUCTS 2.
CF_INLINE void store_split(CF_GLOBAL float *line, int channel, float value) {
  const float high = CF_AS_FLOAT((CF_AS_UINT(value) + 0x1000u) & 0xffffe000u);
  CF_GLOBAL CF_USHORT *pairs = (CF_GLOBAL CF_USHORT *)(line + 32) + channel / 8 * 8 + channel % 4 * 2 + channel % 8 / 4;
  line[channel] = high;
  pairs[0] = cf_bfloat16(high);
  pairs[32] = cf_bfloat16(value - high);
}
#endif

// Filters to their points, those of a work-group through local memory: two-dimensional grid of BLOCK_FILTERS filters
// and BLOCK_CHANNELS channels of all groups; weights lie w_*_step elements apart. Split ones lie as
// [point][group][filter][channels / 32] in 64 floats each; fragments as [point][group][channels / 8][filters / 32] in 256 each.
CF_KERNEL CF_WORK_GROUP_SIZE(GROUP, 1, 1) void winograd_gpu_filter(
    CF_GLOBAL const ELEMENT *weights, CF_GLOBAL float *points, const int groups, const int channels,
    const int filters, const int padded_channels, const int padded_filters, const CF_LONG w_group_step, const int w_filter_step,
    const int w_channel_step, const int w_tap_step, const int flipped) {
  CF_LOCAL float block[BLOCK_FILTERS][BLOCK_CHANNELS * WINDOW + 1];
  const int item = (int)CF_LOCAL_ID(0);
  const int first_filter = (int)CF_GROUP_ID(0) * BLOCK_FILTERS, blocks = padded_channels / BLOCK_CHANNELS;
  const int group = (int)CF_GROUP_ID(1) / blocks, first_channel = (int)CF_GROUP_ID(1) % blocks * BLOCK_CHANNELS;
  weights += group * w_group_step;
  // All reads are under way together.
  CF_UNROLL
  for (int read = 0; read < BLOCK_FILTERS * BLOCK_CHANNELS * WINDOW; read += GROUP) {
    const int i = read + item;
    const int own = i / (BLOCK_CHANNELS * WINDOW), rest = i % (BLOCK_CHANNELS * WINDOW);
    const int tap = CHANNELS_LAST ? rest / BLOCK_CHANNELS : rest % WINDOW;
    const int line = CHANNELS_LAST ? rest % BLOCK_CHANNELS : rest / WINDOW;
    const int filter = first_filter + own, channel = first_channel + line;
    const int there = filter < filters && channel < channels;
    const CF_LONG from = (CF_LONG)filter * w_filter_step + (CF_LONG)channel * w_channel_step + tap * w_tap_step;
    const float value = CF_LOAD(DTYPE, weights, there ? from : 0);
    block[own][line * WINDOW + (flipped ? WINDOW - 1 - tap : tap)] = there ? value : 0.0f;
  }
  CF_BARRIER();
  const int own = CHANNELS_INSIDE ? item / BLOCK_CHANNELS : item % BLOCK_FILTERS;
  const int line = CHANNELS_INSIDE ? item % BLOCK_CHANNELS : item / BLOCK_FILTERS;
  if (first_filter + own >= padded_filters) return;
  VALUE window[WINDOW], result[POINTS];
  FOR_UNROLLED(i, WINDOW) window[i] = block[own][line * WINDOW + i];
  TRANSFORM(transform_filter, window, TAPS, result, SIZE);
  const CF_LONG step = (CF_LONG)groups * padded_channels * padded_filters;
#if SPLIT_FILTERS
  points += (((CF_LONG)group * padded_filters + first_filter + own) * padded_channels + first_channel) * 2;
  FOR_UNROLLED(p, POINTS) store_split(points + p * 2 * step, line, result[p]);
#else
  const int channel = group * padded_channels + first_channel + line;
#if FILTERS_IN_FRAGMENTS
  const int filter = first_filter + own, eight = filter / 8;
  points += ((CF_LONG)(channel / 8) * padded_filters + filter / 32 * 32) * 8 + eight % 4 / 2 * 128 + filter % 8 * 16 +
            channel % 4 * 4 + eight % 2 * 2 + channel / 4 % 2;
#else
  points += (CF_LONG)channel * padded_filters + first_filter + own;
#endif
  FOR_UNROLLED(p, POINTS) points[p * step] = result[p];
#endif
}

// Sums of products to results: result = alpha * transformed + beta * result. One item a filter of a tile; what tiles
// have beyond the result is left out. Where neighbouring items' rows are neighbours in memory, but not in fours, they go
// through local memory, so that neighbouring items write neighbouring elements.
#define STAGE_PITCH (AREA(OUTPUTS) + 4)
#define STAGES_RESULTS (!CHANNELS_LAST && ALONG_W && !DILATED)
#ifdef CF_BIAS
#define STAGED_CHANNEL(own) staged_channels[own]
#else
#define STAGED_CHANNEL(own) 0
#endif

CF_KERNEL CF_WORK_GROUP_SIZE(GROUP, 1, 1) void winograd_gpu_result(
    CF_GLOBAL const float *points, CF_GLOBAL ELEMENT *tensor, CF_EPILOGUE_PARAMETERS,
    const int first_image, const int images, const int groups, const int filters, const int height, const int width,
    const int tiles_h, const int tiles_w, const int padded_filters, const int padded_tiles, const int dilation_h,
    const int dilation_w) {
  const Epilogue epilogue = CF_EPILOGUE(tensor);
#if STAGES_RESULTS
  CF_LOCAL float staged[GROUP * STAGE_PITCH] __attribute__((aligned(16)));
  CF_LOCAL CF_LONG staged_at[GROUP];
  CF_LOCAL int staged_rows[GROUP], staged_columns[GROUP];
#ifdef CF_BIAS
  CF_LOCAL int staged_channels[GROUP];
#endif
#endif
  const CF_UINT number = (CF_UINT)CF_GLOBAL_ID(0);
  const int tiles = images * tiles_h * tiles_w;
  const CF_UINT count = (CF_UINT)groups * (CHANNELS_LAST ? tiles * padded_filters : filters * padded_tiles);
  const Element at = element_of(number, CHANNELS_LAST ? padded_filters : filters, CHANNELS_LAST ? tiles : padded_tiles);
  const int there = number < count && at.channel < filters && at.tile < tiles;
  const int apart_h = DILATED ? dilation_h : 1, apart_w = DILATED ? dilation_w : 1, above = at.tile / tiles_w;
  const int row = begin_of(above % tiles_h, tiles_h, SIZE_H(OUTPUTS), apart_h), image = first_image + above / tiles_h;
  const int column = begin_of(at.tile % tiles_w, tiles_w, SIZE_W(OUTPUTS), apart_w);
  const int position_step = CHANNELS_LAST ? groups * filters : 1, channel = at.group * filters + at.channel;
  const CF_LONG to = (CF_LONG)image * height * width * groups * filters +
                     (CF_LONG)channel * (CHANNELS_LAST ? 1 : height * width) +
                     (row * width + column) * position_step;
  VALUE result[AREA(OUTPUTS)];
  if (there) {
    VALUE sums[POINTS];
    FOR_UNROLLED(p, POINTS) sums[p] = points[number + (CF_LONG)p * count];
    TRANSFORM(transform_result, sums, SIZE, result, OUTPUTS);
  }
#if STAGES_RESULTS
  const int item = (int)CF_LOCAL_ID(0);
  if (!STORES_FOUR(width)) {
    staged_at[item] = to;
    staged_rows[item] = there ? height - row : 0;
    staged_columns[item] = width - column;
#ifdef CF_BIAS
    staged_channels[item] = channel;
#endif
    if (there) {
      CF_UNROLL
      for (int i = 0; i < AREA(OUTPUTS); i += 4) CF_STORE4_LOCAL(staged + item * STAGE_PITCH + i, result + i);
    }
  }
  CF_BARRIER();
  if (!STORES_FOUR(width)) {
    FOR_UNROLLED(q, OUTPUTS) {
      const int own = (item + q * GROUP) / OUTPUTS, j = (item + q * GROUP) % OUTPUTS;
      if (j >= staged_columns[own]) continue;
      FOR_UNROLLED(i, SIZE_H(OUTPUTS)) {
        if (i < staged_rows[own])
          store_value(tensor + staged_at[own] + i * width + j, staged[own * STAGE_PITCH + i * OUTPUTS + j],
                      STAGED_CHANNEL(own), epilogue);
      }
    }
    return;
  }
#endif
  if (there) {
    store_values(tensor + to, result, (height - row + apart_h - 1) / apart_h, (width - column + apart_w - 1) / apart_w,
                 width * apart_h * position_step, apart_w * position_step, channel, epilogue);
  }
}
