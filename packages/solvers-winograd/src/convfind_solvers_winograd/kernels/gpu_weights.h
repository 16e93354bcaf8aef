// The transforms of the weight gradient on GPUs: see gpu_transform.h. Of F(m, r) the m outputs are the taps of the
// window, and the r taps are results: tiles of y are filters that are used once.
#define STRIDE TAPS
#include "convfind_epilogue.h"
#include "gpu_transform.h"
#include "gpu_weights_tiles.h"

#ifndef BLOCKS
#define BLOCKS 0  // 1: tiles lie in blocks for gpu_weights_wgmma.cl, and sums as it leaves them: see gpu_blocks.h
#endif

#define CHANNELS 32  // neighbouring channels of a work-group of the result's transform
#define RESULT_GROUP (CHANNELS * SIZE)

// A column of a filter's taps to memory, tap_step from row to row.
CF_INLINE void store_taps(CF_GLOBAL float *to, const VALUE result[OUTPUTS], const Epilogue epilogue,
                          const int tap_step) {
  FOR_UNROLLED(i, OUTPUTS) {
    CF_STORE_RESULT(FLOAT32, to + i * tap_step, 0, result[i], epilogue);
  }
}

#if BLOCKS
#include "gpu_blocks.h"
#else
// A tensor's tiles to its points, of x (LACKS 0) or of y, whose short tiles lack elements. One item an element of
// [group][channel][tile]; `tiles` and `whole` are of an image.
#define TRANSFORM_TILES_OF(name, function, EXTENT, LACKS)                                                              \
  CF_KERNEL CF_WORK_GROUP_SIZE(GROUP, 1, 1) void name(                                                                 \
      CF_GLOBAL const float *tensor, CF_GLOBAL float *points, const int first_image, const int images,                 \
      const int groups, const int channels, const int height, const int width, const int pad_h, const int pad_w,       \
      const int padded_channels, const int tiles_h, const int tiles_w, const int whole_h, const int whole_w,           \
      const int first_end, const int second_end, const int third_end, const int last_end) {                            \
    const CF_UINT number = (CF_UINT)CF_GLOBAL_ID(0);                                                                   \
    const CF_UINT count = (CF_UINT)groups * padded_channels * last_end;                                                \
    if (number >= count) return;                                                                                       \
    const Ends ends = {first_end, second_end, third_end, last_end};                                                    \
    const Element element = element_of(number, padded_channels, last_end);                                             \
    const GradientTile at = tile_of(element.tile, tiles_h, tiles_w, whole_h, whole_w, ends);                           \
    const int there = element.channel < channels && at.image < images;                                                 \
    const int position_step = CHANNELS_LAST ? groups * channels : 1;                                                   \
    if (there) {                                                                                                       \
      tensor += (CF_LONG)(first_image + at.image) * height * width * groups * channels +                               \
                (CF_LONG)(element.group * channels + element.channel) * (CHANNELS_LAST ? 1 : height * width);          \
    }                                                                                                                  \
    const int until_row = LACKS && at.short_rows ? min(height, at.top + (EXTENT) - 1) : height;                        \
    const int until_column = LACKS && at.short_columns ? min(width, at.left + (EXTENT) - 1) : width;                   \
    VALUE patch[AREA(EXTENT)], result[POINTS];                                                                         \
    READ_PATCH(patch, tensor, EXTENT, at.top - pad_h, at.left - pad_w, 1, 1, there ? until_row : 0, until_column,      \
               width * position_step, position_step);                                                                  \
    TRANSFORM(function, patch, EXTENT, result, SIZE);                                                                  \
    points += number;                                                                                                  \
    FOR_UNROLLED(p, POINTS) {                                                                                          \
      if (COUNTS(at, p)) points[(CF_LONG)p * count] = result[p];                                                       \
    }                                                                                                                  \
  }
TRANSFORM_TILES_OF(winograd_gpu_data, transform_data, SIZE, 0)
TRANSFORM_TILES_OF(winograd_gpu_gradient, transform_filter, TAPS, 1)

// Parts of sums of products, as [part][point][group][filter][channel], to weights: w = alpha * transformed + beta * w.
// Two-dimensional grid: CHANNELS channels by SIZE lines of points, and the filters of all groups.
CF_KERNEL CF_WORK_GROUP_SIZE(RESULT_GROUP, 1, 1) void winograd_gpu_weights(
    CF_GLOBAL const float *points, CF_GLOBAL float *weights, CF_EPILOGUE_PARAMETERS, const int parts,
    const int filters, const int channels, const int padded_channels, const int w_channel_step, const int w_tap_step) {
  const Epilogue epilogue = CF_EPILOGUE(weights);
  CF_LOCAL float lines[SIZE][OUTPUTS][CHANNELS];
  const int item = (int)CF_LOCAL_ID(0), lane = item % CHANNELS, line = item / CHANNELS;
  const int filter = (int)CF_GROUP_ID(1), channel = (int)CF_GROUP_ID(0) * CHANNELS + lane;
  const CF_LONG step = (CF_LONG)filters * padded_channels;
  VALUE sums[SIZE], between[OUTPUTS];
  FOR_UNROLLED(p, SIZE) sums[p] = 0.0f;
  if (channel < channels) {
    points += (CF_LONG)filter * padded_channels + channel + line * SIZE * step;
#pragma unroll 4
    for (int part = 0; part < parts; ++part) {
      FOR_UNROLLED(p, SIZE) sums[p] += points[(part * POINTS + p) * step];
    }
  }
  transform_result(sums, 1, between, 1);
  FOR_UNROLLED(i, OUTPUTS) lines[line][i][lane] = between[i];
  CF_BARRIER();
  if (line >= OUTPUTS || channel >= channels) return;
  VALUE column[SIZE], result[OUTPUTS];
  FOR_UNROLLED(i, SIZE) column[i] = lines[i][line][lane];
  transform_result(column, 1, result, 1);
  weights += (CF_LONG)filter * channels * OUTPUTS * OUTPUTS + (CF_LONG)channel * w_channel_step + line * w_tap_step;
  store_taps(weights, result, epilogue, OUTPUTS * w_tap_step);
}
#endif
