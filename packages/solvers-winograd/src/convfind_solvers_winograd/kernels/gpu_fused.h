// Fused Winograd convolution on GPUs, forward and the data gradient: nothing transformed but the filters lies in device
// memory.
//
// A work-group computes TILES tiles of FILTERS filters. Channels go by in steps of CHANNELS: tiles of the source are
// transformed into local memory, column by column and then, in place, row by row, filters, transformed ahead, are copied
// there, and each item multiplies BLOCK_TILES x BLOCK_FILTERS of ITEM_POINTS points of the transform, whose sums stay in
// registers. In the end the sums go through local memory, PASS filters of every block at a time, to items that transform
// them. Local memory holds two steps: one is multiplied while the next travels from device memory through registers.
#define STRIDE OUTPUTS
#include "gpu_transform.h"
#include "gpu_store.h"

#ifndef TILES
#define TILES 32  // of a work-group: BLOCK_TILES * {1, 2, 4, 8, 16}
#endif
#ifndef FILTERS
#define FILTERS 32  // of a work-group: BLOCK_FILTERS * {1, 2, 4, 8, 16}
#endif
#ifndef CHANNELS
#define CHANNELS 4  // of a step: 2, 4, 8; TILES * CHANNELS * {1, 2, ...} is THREADS
#endif
#ifndef BLOCK_TILES
#define BLOCK_TILES 4  // of an item: 4, 8
#endif
#ifndef BLOCK_FILTERS
#define BLOCK_FILTERS 8  // of an item: 4, 8
#endif
#ifndef ITEM_POINTS
#define ITEM_POINTS (POINTS > 16 ? 3 : 1)  // of an item: divides POINTS
#endif

#define PASS (CHANNELS < 4 ? 2 : 4)  // filters of a block that are transformed at a time
#define TILE_ITEMS (TILES / BLOCK_TILES)
#define FILTER_ITEMS (FILTERS / BLOCK_FILTERS)
#define POINT_ITEMS (TILE_ITEMS * FILTER_ITEMS)  // that share points
#define THREADS (POINTS / ITEM_POINTS * POINT_ITEMS)

// Matrices of a step, as [point][channel][tile] and [point][channel][filter]. With channels last neighbouring items
// write neighbouring channels: to different banks.
#define TILE_PITCH (TILES + (CHANNELS_LAST ? 8 : 0))
#define TILE_POINT (CHANNELS * TILE_PITCH)
#define FILTER_POINT (CHANNELS * FILTERS)
#define STEP_FLOATS (POINTS * (TILE_POINT + FILTER_POINT))
// Sums of a pass, the faster axis of tensors last.
#define PASS_FILTERS (FILTER_ITEMS * PASS)
#define PASS_PITCH (CHANNELS_LAST ? PASS_FILTERS + 1 : TILES)
#define PASS_PLACE(tile, filter) (CHANNELS_LAST ? (tile) * PASS_PITCH + (filter) : (filter) * PASS_PITCH + (tile))
#define PASS_POINT ((CHANNELS_LAST ? TILES : PASS_FILTERS) * PASS_PITCH)
#define LOCAL_FLOATS (2 * STEP_FLOATS > POINTS * PASS_POINT ? 2 * STEP_FLOATS : POINTS * PASS_POINT)

// Four filters that an item copies at a time: of a channel, and of every COPY_POINTS-th point.
#define COPY_ITEMS (CHANNELS * FILTERS / 4)
#define COPY_POINTS (THREADS / COPY_ITEMS)
#define COPIES ((POINTS + COPY_POINTS - 1) / COPY_POINTS)

// Points of an item are enough reads to have under way: those of further channels only take registers.
#if ITEM_POINTS > 1
#define UNROLL_CHANNELS _Pragma("unroll 1")
#else
#define UNROLL_CHANNELS CF_UNROLL_READS
#endif

// An item's block: groups of four neighbours.
#define TILE_OF(i) ((i) / 4 * (4 * TILE_ITEMS) + (i) % 4)
#define FILTER_OF(j) ((j) / 4 * (4 * FILTER_ITEMS) + (j) % 4)

// Columns, and then rows, of a tile's channel that an item transforms: every LINES-th.
#define LINES (THREADS / (TILES * CHANNELS))  // divides SIZE
#define OWN_LINES (SIZE / LINES)

CF_INLINE CF_UINT inside(int first, int size) {
  CF_UINT mask = 0;
  FOR_UNROLLED(i, SIZE) mask |= (CF_UINT)((CF_UINT)(first + i) < (CF_UINT)size) << i;
  return mask;
}

// Columns of step `number` to registers; zeros outside of the image. What is read there is its first element.
#define READ_COLUMNS(number)                                                                             \
  FOR_UNROLLED(q, OWN_LINES) {                                                                           \
    const int there = own_channel + (number) * CHANNELS < channels && (columns & 1u << q * LINES) != 0;  \
    FOR_UNROLLED(i, SIZE) {                                                                              \
      const int within = there && (rows & 1u << i) != 0;                                                 \
      const int from = (number) * CHANNELS * channel_step + i * row_step + q * LINES * position_step;    \
      const float value = CF_LOAD(DTYPE, source, within ? first_at + from : 0);                          \
      patch[q][i] = within ? value : 0.0f;                                                               \
    }                                                                                                    \
  }
#define PUT_COLUMNS(step)                                                                   \
  FOR_UNROLLED(q, OWN_LINES) {                                                              \
    VALUE column[SIZE];                                                                     \
    transform_data(patch[q], 1, column, 1);                                                 \
    FOR_UNROLLED(i, SIZE)(step)[tiles_to + (i * SIZE + line + q * LINES) * TILE_POINT] = column[i]; \
  }
#define TRANSFORM_ROWS(step)                                                              \
  FOR_UNROLLED(q, OWN_LINES) {                                                            \
    CF_LOCAL_PTR float *own = (step) + tiles_to + (line + q * LINES) * SIZE * TILE_POINT; \
    VALUE before[SIZE], row[SIZE];                                                        \
    FOR_UNROLLED(j, SIZE) before[j] = own[j * TILE_POINT];                                \
    transform_data(before, 1, row, 1);                                                    \
    FOR_UNROLLED(j, SIZE) own[j * TILE_POINT] = row[j];                                   \
  }

// Filters of step `number` to registers, and from there to local memory.
#define READ_FILTERS(number)                                                                        \
  do {                                                                                              \
    CF_GLOBAL const float *from = filters_from + (CF_LONG)(number) * CHANNELS * padded_filters;     \
    FOR_UNROLLED(q, COPIES) {                                                                       \
      if (copied_point + q * COPY_POINTS < POINTS) CF_LOAD4(copied[q], from);                       \
      from += COPY_POINTS * point_step;                                                             \
    }                                                                                               \
  } while (0)
#define PUT_FILTERS(step)                                                             \
  FOR_UNROLLED(q, COPIES) {                                                           \
    if (copied_point + q * COPY_POINTS < POINTS)                                      \
      CF_STORE4_LOCAL((step) + filters_to + q * COPY_POINTS * FILTER_POINT, copied[q]); \
  }

// One-dimensional grid: blocks of FILTERS filters * blocks of TILES tiles * groups; `points` are those of the filters,
// as gpu_transform.h has them.
CF_KERNEL CF_WORK_GROUP_SIZE(THREADS, 1, 1) void winograd_gpu_fused(
    CF_GLOBAL const ELEMENT *source, CF_GLOBAL const float *points, CF_GLOBAL ELEMENT *result, CF_EPILOGUE_PARAMETERS, const int images, const int groups, const int channels, const int filters, const int height,
    const int width, const int out_height, const int out_width, const int pad_h, const int pad_w, const int tiles_h,
    const int tiles_w, const int padded_channels, const int padded_filters) {
  const Epilogue epilogue = CF_EPILOGUE(result);
  CF_LOCAL float local_memory[LOCAL_FLOATS] __attribute__((aligned(16)));
  const int item = (int)CF_LOCAL_ID(0);
  const int tiles = images * tiles_h * tiles_w;
  const CF_UINT filter_blocks = (filters + FILTERS - 1) / FILTERS, tile_blocks = (tiles + TILES - 1) / TILES;
  const CF_UINT number = (CF_UINT)CF_GROUP_ID(0), rest = number / filter_blocks;
  const int first_filter = (int)(number % filter_blocks) * FILTERS, first_tile = (int)(rest % tile_blocks) * TILES;
  const int group = (int)(rest / tile_blocks);

  // What an item transforms: neighbours read neighbouring memory.
  const int pair = item % (TILES * CHANNELS), line = item / (TILES * CHANNELS);
  const int own_channel = CHANNELS_LAST ? pair % CHANNELS : pair / TILES;
  const int own_tile = CHANNELS_LAST ? pair / CHANNELS : pair % TILES;
  const int position_step = CHANNELS_LAST ? groups * channels : 1, channel_step = CHANNELS_LAST ? 1 : height * width;
  const int row_step = width * position_step, tiles_to = own_channel * TILE_PITCH + own_tile;
  const int tile = min(first_tile + own_tile, tiles - 1), above = tile / tiles_w;
  const int left = tile % tiles_w * STRIDE - pad_w, top = above % tiles_h * STRIDE - pad_h;
  const CF_UINT rows = inside(top, height), columns = inside(left, width) >> line;
  source += (CF_LONG)(above / tiles_h) * height * width * groups * channels +
            (CF_LONG)group * channels * channel_step;
  const int first_at = own_channel * channel_step + top * row_step + (left + line) * position_step;
  // What it copies.
  const int copied_point = item / COPY_ITEMS, copied_channel = item % COPY_ITEMS / (FILTERS / 4);
  const int copied_filter = item % (FILTERS / 4) * 4;
  const CF_LONG point_step = (CF_LONG)groups * padded_channels * padded_filters;
  CF_GLOBAL const float *filters_from = points + copied_point * point_step +
                                        ((CF_LONG)group * padded_channels + copied_channel) * padded_filters +
                                        min(first_filter + copied_filter, padded_filters - 4);
  const int filters_to = POINTS * TILE_POINT + copied_point * FILTER_POINT + copied_channel * FILTERS + copied_filter;
  // What it multiplies.
  const int first_point = item / POINT_ITEMS * ITEM_POINTS;
  const int own_tiles = item % TILE_ITEMS * 4, own_filters = item % POINT_ITEMS / TILE_ITEMS * 4;
  const int a_at = first_point * TILE_POINT + own_tiles;
  const int b_at = POINTS * TILE_POINT + first_point * FILTER_POINT + own_filters;

  float sum[ITEM_POINTS][BLOCK_TILES][BLOCK_FILTERS], copied[COPIES][4], patch[OWN_LINES][SIZE];
  FOR_UNROLLED(p, ITEM_POINTS) FOR_UNROLLED(i, BLOCK_TILES) FOR_UNROLLED(j, BLOCK_FILTERS) sum[p][i][j] = 0.0f;
  const int steps = (channels + CHANNELS - 1) / CHANNELS;
  READ_FILTERS(0);
  READ_COLUMNS(0);
  PUT_FILTERS(local_memory);
  PUT_COLUMNS(local_memory);
  for (int step = 0; step < steps; ++step) {
    CF_LOCAL_PTR float *now = local_memory + step % 2 * STEP_FLOATS;
    CF_LOCAL_PTR float *next = local_memory + (step + 1) % 2 * STEP_FLOATS;
    CF_BARRIER();
    // The last step is read once more, for nothing.
    const int coming = min(step + 1, steps - 1);
    READ_FILTERS(coming);
    READ_COLUMNS(coming);
    TRANSFORM_ROWS(now);
    CF_BARRIER();
    UNROLL_CHANNELS
    for (int channel = 0; channel < CHANNELS; ++channel) {
      FOR_UNROLLED(p, ITEM_POINTS) {
        float a[BLOCK_TILES], b[BLOCK_FILTERS];
        CF_UNROLL
        for (int i = 0; i < BLOCK_TILES; i += 4)
          CF_LOAD4_LOCAL(a + i, now + a_at + p * TILE_POINT + channel * TILE_PITCH + TILE_OF(i));
        CF_UNROLL
        for (int j = 0; j < BLOCK_FILTERS; j += 4)
          CF_LOAD4_LOCAL(b + j, now + b_at + p * FILTER_POINT + channel * FILTERS + FILTER_OF(j));
        FOR_UNROLLED(i, BLOCK_TILES) FOR_UNROLLED(j, BLOCK_FILTERS) sum[p][i][j] = CF_FMA(a[i], b[j], sum[p][i][j]);
      }
    }
    PUT_FILTERS(next);
    PUT_COLUMNS(next);
  }

  FOR_UNROLLED(pass, BLOCK_FILTERS / PASS) {
    CF_BARRIER();
    FOR_UNROLLED(p, ITEM_POINTS) FOR_UNROLLED(i, BLOCK_TILES) FOR_UNROLLED(j, PASS) {
      local_memory[(first_point + p) * PASS_POINT + PASS_PLACE(own_tiles + TILE_OF(i), own_filters / 4 * PASS + j)] =
          sum[p][i][pass * PASS + j];
    }
    CF_BARRIER();
    for (int at = item; at < TILES * PASS_FILTERS; at += THREADS) {
      const int to_tile = CHANNELS_LAST ? at / PASS_FILTERS : at % TILES;
      const int to_filter = CHANNELS_LAST ? at % PASS_FILTERS : at / TILES;
      const int out_tile = first_tile + to_tile;
      const int filter = first_filter + to_filter / PASS * 4 + FILTER_OF(pass * PASS) + to_filter % PASS;
      if (out_tile >= tiles || filter >= filters) continue;
      VALUE between[OUTPUTS * SIZE], values[OUTPUTS * OUTPUTS];
      FOR_UNROLLED(j, SIZE) {
        VALUE sums[SIZE];
        FOR_UNROLLED(i, SIZE) sums[i] = local_memory[(i * SIZE + j) * PASS_POINT + PASS_PLACE(to_tile, to_filter)];
        transform_result(sums, 1, between + j, SIZE);
      }
      FOR_UNROLLED(i, OUTPUTS) transform_result(between + i * SIZE, 1, values + i * OUTPUTS, 1);
      const int out_above = out_tile / tiles_w, column = out_tile % tiles_w * OUTPUTS;
      const int row = out_above % tiles_h * OUTPUTS, out_step = CHANNELS_LAST ? groups * filters : 1;
      CF_GLOBAL ELEMENT *to = result + (CF_LONG)(out_above / tiles_h) * out_height * out_width * groups * filters +
                              (CF_LONG)(group * filters + filter) * (CHANNELS_LAST ? 1 : out_height * out_width) +
                              (row * out_width + column) * out_step;
      store_values(to, values, out_height - row, out_width - column, out_width * out_step, out_step,
                   group * filters + filter, epilogue);
    }
  }
}
