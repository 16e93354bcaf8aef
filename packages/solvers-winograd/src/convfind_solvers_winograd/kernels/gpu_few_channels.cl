// Fused Winograd F(4 x 4, 3 x 3) on GPUs for sums over few channels, channels last: a first layer, or the data gradient
// of a last one.
//
// An item has one filter, which it transforms and whose points it keeps in registers. Work-groups go from block to block
// of TILES tiles: all items transform these into local memory, and then each multiplies every SLOTS-th tile and
// transforms and stores the results.
#include "gpu_value.h"
#include "transform_f4x3.h"
#define STRIDE OUTPUTS
#define CHANNELS_LAST 1
#include "gpu_transform.h"
#include "gpu_store.h"

#ifndef CHANNELS
#define CHANNELS 3  // 1 to 4
#endif
#define FILTERS 64  // of a work-group
#define SLOTS (GROUP / FILTERS)
#define TILES 32
// A tile's points in local memory: two columns of each channel lie together.
#define POINT_PLACE(column, channel, row) \
  (((column) / 2 * CHANNELS + (channel)) * 2 * SIZE + (column) % 2 * SIZE + (row))

// One-dimensional grid: blocks of FILTERS filters * `apart`, what lies between the blocks of tiles of a work-group.
// Weights lie w_*_step elements apart.
CF_KERNEL CF_WORK_GROUP_SIZE(GROUP, 1, 1) void winograd_gpu_few_channels(
    CF_GLOBAL const float *source, CF_GLOBAL const float *weights, CF_GLOBAL float *result, CF_EPILOGUE_PARAMETERS, const int images, const int filters, const int height, const int width, const int out_height,
    const int out_width, const int pad_h, const int pad_w, const int tiles_h, const int tiles_w,
    const int w_filter_step, const int w_channel_step, const int w_tap_step, const int flipped, const int apart) {
  const Epilogue epilogue = CF_EPILOGUE(result);
  CF_LOCAL float data[TILES * CHANNELS * POINTS] __attribute__((aligned(16)));
  const int item = (int)CF_LOCAL_ID(0), blocks = (filters + FILTERS - 1) / FILTERS;
  const int filter = (int)CF_GROUP_ID(0) % blocks * FILTERS + item % FILTERS, tiles = images * tiles_h * tiles_w;
  VALUE points[CHANNELS][POINTS];
  weights += (CF_LONG)min(filter, filters - 1) * w_filter_step;
  FOR_UNROLLED(c, CHANNELS) {
    VALUE window[TAPS * TAPS];
    FOR_UNROLLED(tap, TAPS * TAPS)
      window[tap] = weights[(CF_LONG)c * w_channel_step + (flipped ? TAPS * TAPS - 1 - tap : tap) * w_tap_step];
    TRANSFORM(transform_filter, window, TAPS, points[c], SIZE);
  }
  for (int first = (int)CF_GROUP_ID(0) / blocks * TILES; first < tiles; first += apart * TILES) {
    CF_BARRIER();
    for (int i = item; i < TILES * CHANNELS; i += GROUP) {
      const int tile = min(first + i / CHANNELS, tiles - 1), above = tile / tiles_w;
      const int top = above % tiles_h * STRIDE - pad_h, left = tile % tiles_w * STRIDE - pad_w;
      CF_GLOBAL const float *image = source + (CF_LONG)(above / tiles_h) * height * width * CHANNELS + i % CHANNELS;
      VALUE patch[POINTS], transformed[POINTS];
      READ_PATCH(patch, image, SIZE, top, left, 1, 1, height, width, width * CHANNELS, CHANNELS);
      TRANSFORM(transform_data, patch, SIZE, transformed, SIZE);
      FOR_UNROLLED(p, POINTS)
        data[i / CHANNELS * CHANNELS * POINTS + POINT_PLACE(p % SIZE, i % CHANNELS, p / SIZE)] = transformed[p];
    }
    CF_BARRIER();
    if (filter >= filters) continue;
    const int end = min(TILES, tiles - first);
    _Pragma("unroll 1")
    for (int own = item / FILTERS; own < end; own += SLOTS) {
      CF_LOCAL_PTR const float *from = data + own * CHANNELS * POINTS;
      VALUE between[OUTPUTS * SIZE], values[OUTPUTS * OUTPUTS];
      FOR_UNROLLED(pair, SIZE / 2) {
        VALUE sums[2 * SIZE];
        FOR_UNROLLED(c, CHANNELS) {
          CF_UNROLL
          for (int p = 0; p < 2 * SIZE; p += 4) {
            float four[4];
            CF_LOAD4_LOCAL(four, from + POINT_PLACE(2 * pair, c, p));
            FOR_UNROLLED(q, 4) {
              const VALUE weight = points[c][(p + q) % SIZE * SIZE + 2 * pair + (p + q) / SIZE];
              sums[p + q] = c > 0 ? CF_FMA(weight, four[q], sums[p + q]) : weight * four[q];
            }
          }
        }
        FOR_UNROLLED(j, 2) transform_result(sums + j * SIZE, 1, between + 2 * pair + j, SIZE);
      }
      FOR_UNROLLED(i, OUTPUTS) transform_result(between + i * SIZE, 1, values + i * OUTPUTS, 1);
      const int tile = first + own, above = tile / tiles_w;
      const int row = above % tiles_h * OUTPUTS, column = tile % tiles_w * OUTPUTS;
      CF_GLOBAL float *to = result + (CF_LONG)(above / tiles_h) * out_height * out_width * filters + filter +
                            (row * out_width + column) * filters;
      store_tile(to, values, out_height - row, out_width - column, out_width * filters, filters, filter, epilogue);
    }
  }
}
