// Fused Winograd F(4, 3) along rows on GPUs for few filters, channels last: the data gradient of a first layer, or a
// last layer.
//
// LANES items have a tile of 4 x 4 results: each transforms every LANES-th channel of it and sums up the points of all
// filters, in registers; a filter's three rows are added as they are: sums of two axes' points would not leave room for
// the reads that are under way. Filters, CHANNELS channels of them at a time, are transformed into local memory, where
// results are added up over the items in the end.
#include "gpu_value.h"
#include "transform_f4x3.h"
#define STRIDE OUTPUTS
#define CHANNELS_LAST 1
#include "gpu_transform.h"
#include "gpu_store.h"

#ifndef FILTERS
#define FILTERS 3  // 1 to 3
#endif
#define LANES 8                // items of a tile
#define TILES (GROUP / LANES)  // of a work-group
#define CHANNELS 64            // in local memory at a time
#define LINES (FILTERS * TAPS)  // rows of a channel's filters
#define RESULTS (FILTERS * OUTPUTS * OUTPUTS)
#define RESULT_PITCH (RESULTS + 1)
#define FILTER_PITCH (TAPS * SIZE + 2)  // whole fours
#define WEIGHTS_PITCH (FILTERS * FILTER_PITCH + (FILTERS == 2 ? 4 : 0))  // LANES channels lie in different banks
#define WEIGHTS_FLOATS (CHANNELS * WEIGHTS_PITCH)
#define LOCAL_FLOATS (GROUP * RESULT_PITCH > WEIGHTS_FLOATS ? GROUP * RESULT_PITCH : WEIGHTS_FLOATS)
#define LINE_PASSES ((CHANNELS * LINES + GROUP - 1) / GROUP)

// One-dimensional grid: blocks of TILES tiles. Weights lie w_*_step elements apart.
CF_KERNEL CF_WORK_GROUP_SIZE(GROUP, 1, 1) void winograd_gpu_few_filters(
    CF_GLOBAL const float *source, CF_GLOBAL const float *weights, CF_GLOBAL float *result, CF_EPILOGUE_PARAMETERS, const int images, const int channels, const int height, const int width, const int out_height,
    const int out_width, const int pad_h, const int pad_w, const int tiles_h, const int tiles_w,
    const int w_filter_step, const int w_channel_step, const int w_tap_step, const int flipped) {
  const Epilogue epilogue = CF_EPILOGUE(result);
  CF_LOCAL float memory[LOCAL_FLOATS] __attribute__((aligned(16)));
  const int item = (int)CF_LOCAL_ID(0), tiles = images * tiles_h * tiles_w;
  const int first_tile = (int)CF_GROUP_ID(0) * TILES;
  const int tile = min(first_tile + item / LANES, tiles - 1), above = tile / tiles_w;
  const int top = above % tiles_h * STRIDE - pad_h, left = tile % tiles_w * STRIDE - pad_w;
  source += (CF_LONG)(above / tiles_h) * height * width * channels;
  // Rows and columns of the tile, the nearest in the image, and which of them are in it.
  int row_at[SIZE], column_at[SIZE];
  CF_UINT rows = 0, columns = 0;
  FOR_UNROLLED(i, SIZE) {
    row_at[i] = min(max(top + i, 0), height - 1) * width * channels;
    column_at[i] = min(max(left + i, 0), width - 1) * channels;
    rows |= (CF_UINT)((CF_UINT)(top + i) < (CF_UINT)height) << i;
    columns |= (CF_UINT)((CF_UINT)(left + i) < (CF_UINT)width) << i;
  }
  VALUE sums[FILTERS][OUTPUTS][SIZE];
  FOR_UNROLLED(f, FILTERS) FOR_UNROLLED(o, OUTPUTS) FOR_UNROLLED(p, SIZE) sums[f][o][p] = 0.0f;
  for (int first = 0; first < channels; first += CHANNELS) {
    if (first > 0) CF_BARRIER();
    float window[LINE_PASSES][TAPS];
    FOR_UNROLLED(pass, LINE_PASSES) {
      const int i = min(item + pass * GROUP, CHANNELS * LINES - 1), line = i / CHANNELS;
      const int channel = min(first + i % CHANNELS, channels - 1), tap = line % TAPS * TAPS;
      FOR_UNROLLED(j, TAPS)
        window[pass][j] = weights[(CF_LONG)(line / TAPS) * w_filter_step + (CF_LONG)channel * w_channel_step +
                                  (flipped ? TAPS * TAPS - 1 - tap - j : tap + j) * w_tap_step];
    }
    FOR_UNROLLED(pass, LINE_PASSES) {
      const int i = min(item + pass * GROUP, CHANNELS * LINES - 1), line = i / CHANNELS;
      VALUE points[SIZE];
      transform_filter(window[pass], 1, points, 1);
      const int to = i % CHANNELS * WEIGHTS_PITCH + line / TAPS * FILTER_PITCH + line % TAPS * SIZE;
      FOR_UNROLLED(p, SIZE) memory[to + p] = points[p];
    }
    CF_BARRIER();
    const int left_over = channels - first;
    _Pragma("unroll 1")
    for (int channel = item % LANES; channel - item % LANES < min(CHANNELS, left_over); channel += LANES) {
      VALUE patch[POINTS];
      const CF_UINT there = channel < left_over ? rows : 0;
      CF_GLOBAL const float *image = source + min(first + channel, channels - 1);
      FOR_UNROLLED(i, SIZE) {
        CF_GLOBAL const float *line = image + row_at[i];
        const CF_UINT in_line = (there & 1u << i) != 0 ? columns : 0;
        FOR_UNROLLED(j, SIZE) {
          const float value = line[column_at[j]];
          patch[i * SIZE + j] = (in_line & 1u << j) != 0 ? value : 0.0f;
        }
      }
      FOR_UNROLLED(i, SIZE) {
        VALUE row[SIZE];
        transform_data(patch + i * SIZE, 1, row, 1);
        FOR_UNROLLED(j, SIZE) patch[i * SIZE + j] = row[j];
      }
      FOR_UNROLLED(f, FILTERS) {
        float points[FILTER_PITCH];
        CF_UNROLL
        for (int p = 0; p < FILTER_PITCH; p += 4)
          CF_LOAD4_LOCAL(points + p, memory + channel * WEIGHTS_PITCH + f * FILTER_PITCH + p);
        FOR_UNROLLED(o, OUTPUTS) FOR_UNROLLED(tap, TAPS) FOR_UNROLLED(p, SIZE)
          sums[f][o][p] = CF_FMA(points[tap * SIZE + p], patch[(o + tap) * SIZE + p], sums[f][o][p]);
      }
    }
  }
  CF_BARRIER();
  FOR_UNROLLED(f, FILTERS) FOR_UNROLLED(o, OUTPUTS) {
    VALUE values[OUTPUTS];
    transform_result(sums[f][o], 1, values, 1);
    // In a tile's rows filters are neighbours, as in a tensor.
    FOR_UNROLLED(j, OUTPUTS) memory[item * RESULT_PITCH + (o * OUTPUTS + j) * FILTERS + f] = values[j];
  }
  CF_BARRIER();
  // Neighbouring items have neighbours of a row, over tiles.
  for (int i = item; i < TILES * RESULTS; i += GROUP) {
    const int line = i / (TILES * OUTPUTS * FILTERS), rest = i % (TILES * OUTPUTS * FILTERS);
    const int own = rest / (OUTPUTS * FILTERS), at = rest % (OUTPUTS * FILTERS), out_tile = first_tile + own;
    const int out_above = out_tile / tiles_w, row = out_above % tiles_h * OUTPUTS + line;
    const int column = out_tile % tiles_w * OUTPUTS + at / FILTERS;
    if (out_tile >= tiles || row >= out_height || column >= out_width) continue;
    CF_LOCAL_PTR const float *from = memory + own * LANES * RESULT_PITCH + line * OUTPUTS * FILTERS + at;
    float sum = 0.0f;
    FOR_UNROLLED(q, LANES) sum += from[q * RESULT_PITCH];
    const CF_LONG pixel = ((CF_LONG)(out_above / tiles_h) * out_height + row) * out_width + column;
    store_value(result + pixel * FILTERS + at % FILTERS, sum, at % FILTERS, epilogue);
  }
}
