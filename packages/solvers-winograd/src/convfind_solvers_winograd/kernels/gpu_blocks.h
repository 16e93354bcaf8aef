// The transforms around gpu_weights_wgmma.cl, where the sum runs over tiles; gpu_weights.h includes this.
//
// Transformed tensors lie as [point][group][block][channel][32 tiles], a channel's tiles in 16-byte pieces: piece p at
// p xor the channel's three lowest bits. The number of channels is filled up with whatever lies there, that of tiles
// with zeros.
// A work-group transforms the columns of its tiles, then, through local memory, their rows: neighbouring items read
// neighbours in memory and write neighbours, whatever the layout.
#ifndef TILE_M
#define TILE_M 128  // rows of a tile of gpu_weights_wgmma.cl, filters: 64, 128
#endif
#ifndef TILE_N
#define TILE_N 128  // its columns, channels: 64, 128
#endif

#define BLOCK 32              // tiles
#define BLOCK_GROUP 256       // work-items
#define GROUP_TILES (CHANNELS_LAST ? 16 : 32)  // of a work-group
#define GROUP_CHANNELS (BLOCK_GROUP / GROUP_TILES)
#define BETWEEN_PITCH (GROUP_CHANNELS * (GROUP_TILES + 1))
// Where the element of tile `tile`, counted in its block, is in a channel's tiles.
#define BLOCK_PLACE(tile, channel) ((((tile) / 4 ^ (channel) % 8) * 4) + (tile) % 4)

// The `number`-th work-group's: channels of a group by GROUP_CHANNELS, tiles by GROUP_TILES, groups. See
// TRANSFORM_TILES for the rest.
#define TRANSFORM_BLOCKS(name, function, EXTENT, LACKS)                                                                \
  CF_INLINE void name(                                                                                                 \
      CF_LOCAL_PTR float *between, const CF_UINT number, CF_GLOBAL const ELEMENT *tensor, CF_GLOBAL float *points,     \
      const int first_image, const int images, const int groups, const int channels, const int height,                 \
      const int width, const int pad_h, const int pad_w, const int padded_channels, const int tiles_h,                 \
      const int tiles_w, const int whole_h, const int whole_w, const Ends ends) {                                      \
    const int item = (int)CF_LOCAL_ID(0);                                                                              \
    const CF_UINT channel_groups = (channels + GROUP_CHANNELS - 1) / GROUP_CHANNELS;                                   \
    const CF_UINT tile_groups = ends.last / GROUP_TILES;                                                               \
    const int first_channel = (int)(number % channel_groups) * GROUP_CHANNELS;                                         \
    const int first_tile = (int)(number / channel_groups % tile_groups) * GROUP_TILES;                                 \
    const int group = (int)(number / channel_groups / tile_groups);                                                    \
    {                                                                                                                  \
      const int own_tile = CHANNELS_LAST ? item / GROUP_CHANNELS : item % GROUP_TILES;                                 \
      const int own_channel = CHANNELS_LAST ? item % GROUP_CHANNELS : item / GROUP_TILES;                              \
      const int tile = first_tile + own_tile, channel = first_channel + own_channel;                                   \
      const GradientTile at = tile_of(tile, tiles_h, tiles_w, whole_h, whole_w, ends);                                 \
      const int top = at.top - pad_h, left = at.left - pad_w;                                                          \
      const int there = channel < channels && at.image < images;                                                       \
      const int until_row = LACKS && at.short_rows ? min(height, at.top + (EXTENT) - 1) : height;                      \
      const int until_column = LACKS && at.short_columns ? min(width, at.left + (EXTENT) - 1) : width;                 \
      const int column_step = CHANNELS_LAST ? groups * channels : 1, row_step = width * column_step;                   \
      if (there) {                                                                                                     \
        tensor += (CF_LONG)(first_image + at.image) * height * width * groups * channels +                             \
                  (CF_LONG)(group * channels + channel) * (CHANNELS_LAST ? 1 : height * width);                        \
      }                                                                                                                \
      FOR_UNROLLED(j, EXTENT) {                                                                                        \
        VALUE values[EXTENT], results[SIZE];                                                                           \
        FOR_UNROLLED(i, EXTENT) {                                                                                      \
          const int inside = (CF_UINT)(top + i) < (CF_UINT)(there ? until_row : 0) &&                                  \
                             (CF_UINT)(left + j) < (CF_UINT)until_column;                                              \
          const float value = CF_LOAD(DTYPE, tensor, inside ? (top + i) * row_step + (left + j) * column_step : 0);    \
          values[i] = inside ? value : 0.0f;                                                                           \
        }                                                                                                              \
        function(values, 1, results, 1);                                                                               \
        FOR_UNROLLED(i, SIZE)                                                                                          \
        between[(i * (EXTENT) + j) * BETWEEN_PITCH + own_channel * (GROUP_TILES + 1) + own_tile] = results[i];         \
      }                                                                                                                \
    }                                                                                                                  \
    CF_BARRIER();                                                                                                      \
    const int own_tile = item % GROUP_TILES, own_channel = item / GROUP_TILES;                                         \
    const int tile = first_tile + own_tile, channel = first_channel + own_channel;                                     \
    if (channel >= channels) return;                                                                                   \
    const GradientTile at = tile_of(tile, tiles_h, tiles_w, whole_h, whole_w, ends);                                   \
    const CF_LONG point = (CF_LONG)groups * ends.last * padded_channels;                                               \
    points += ((CF_LONG)group * (ends.last / BLOCK) + tile / BLOCK) * padded_channels * BLOCK + channel * BLOCK +      \
              BLOCK_PLACE(tile % BLOCK, channel);                                                                      \
    FOR_UNROLLED(i, SIZE) {                                                                                            \
      VALUE values[EXTENT], results[SIZE];                                                                             \
      FOR_UNROLLED(j, EXTENT)                                                                                          \
      values[j] = between[(i * (EXTENT) + j) * BETWEEN_PITCH + own_channel * (GROUP_TILES + 1) + own_tile];            \
      function(values, 1, results, 1);                                                                                 \
      FOR_UNROLLED(j, SIZE) {                                                                                          \
        if (COUNTS(at, i * SIZE + j)) points[(i * SIZE + j) * point] = results[j];                                     \
      }                                                                                                                \
    }                                                                                                                  \
  }

TRANSFORM_BLOCKS(data_to_blocks, transform_data, SIZE, 0)
TRANSFORM_BLOCKS(gradient_to_blocks, transform_filter, TAPS, 1)

// x and y, in one launch, as each is short: one-dimensional grid, the first x_groups work-groups are for x.
CF_KERNEL CF_WORK_GROUP_SIZE(BLOCK_GROUP, 1, 1) void winograd_gpu_blocks(
    CF_GLOBAL const ELEMENT *x, CF_GLOBAL const ELEMENT *y, CF_GLOBAL float *x_points, CF_GLOBAL float *y_points,
    const int first_image, const int images, const int groups, const int channels, const int filters, const int height,
    const int width, const int pad_h, const int pad_w, const int out_height, const int out_width,
    const int padded_channels, const int padded_filters, const int x_groups, const int tiles_h, const int tiles_w,
    const int whole_h, const int whole_w, const int first_end, const int second_end, const int third_end,
    const int last_end) {
  CF_LOCAL float between[SIZE * SIZE * BETWEEN_PITCH];
  const int number = (int)CF_GROUP_ID(0);
  const Ends ends = {first_end, second_end, third_end, last_end};
  if (number < x_groups) {
    data_to_blocks(between, number, x, x_points, first_image, images, groups, channels, height, width, pad_h, pad_w,
                   padded_channels, tiles_h, tiles_w, whole_h, whole_w, ends);
  } else {
    gradient_to_blocks(between, number - x_groups, y, y_points, first_image, images, groups, filters, out_height,
                       out_width, 0, 0, padded_filters, tiles_h, tiles_w, whole_h, whole_w, ends);
  }
}

#include "gpu_weights_pairs.h"

// Which work-group of gpu_weights_wgmma.cl has a turn.
CF_INLINE int holder_of(const CF_UINT turn, const CF_UINT share, const CF_UINT longer) {
  const CF_UINT of_longer = longer * (share + 1);
  return (int)(turn < of_longer ? turn / (share + 1) : longer + (turn - of_longer) / share);
}

#define OWN_FILTERS 4  // of a work-group of the result's transform: they are of one tile

// Sums of products to weights: w = alpha * transformed + beta * w. There are as many parts of a tile's sums as
// work-groups had a share in it; ends are those of regions, in pairs of blocks. Three-dimensional grid: CHANNELS
// channels by SIZE lines of points, OWN_FILTERS filters, groups.
CF_KERNEL CF_WORK_GROUP_SIZE(RESULT_GROUP, 1, 1) void winograd_gpu_weights(
    CF_GLOBAL const float *sums, CF_GLOBAL float *weights, CF_EPILOGUE_PARAMETERS, const int groups,
    const int filters, const int channels, const int w_channel_step, const int w_tap_step, const int share,
    const int longer, const int first_end, const int second_end, const int third_end, const int last_end) {
  const Epilogue epilogue = CF_EPILOGUE(weights);
  CF_LOCAL float lines[OWN_FILTERS][SIZE][OUTPUTS][CHANNELS];
  CF_LOCAL int places[2][POINTS];  // of a point's first and last part
  const int item = (int)CF_LOCAL_ID(0), lane = item % CHANNELS, line = item / CHANNELS;
  const int group = (int)CF_GROUP_ID(2), first_filter = (int)CF_GROUP_ID(1) * OWN_FILTERS;
  const int first_channel = (int)CF_GROUP_ID(0) * CHANNELS, channel = first_channel + lane;
  const Ends pairs = {first_end, second_end, third_end, last_end};
  if (item < 2 * POINTS) {
    const int row_tiles = (filters + TILE_M - 1) / TILE_M, column_tiles = (channels + TILE_N - 1) / TILE_N;
    const int point = item % POINTS, row_tile = group * row_tiles + first_filter / TILE_M;
    const int tile = row_tile * column_tiles + first_channel / TILE_N, tiles = groups * row_tiles * column_tiles;
    const int tile_pairs = pairs_of(pairs, point / SIZE, point % SIZE);
    const CF_UINT first = first_turn_of(pairs, tiles, point) + (CF_UINT)(tile * (tile_pairs + 1));
    places[item / POINTS][point] =
        point * tiles + tile + holder_of(item < POINTS ? first : first + tile_pairs - 1, share, longer);
  }
  CF_BARRIER();
  VALUE values[OWN_FILTERS][SIZE];
  FOR_UNROLLED(f, OWN_FILTERS) FOR_UNROLLED(p, SIZE) values[f][p] = 0.0f;
  if (channel < channels) {
    sums += first_filter % TILE_M * TILE_N + channel % TILE_N;
    // Of all points first parts, then, of few of them or all, others. All reads of a round are under way together.
    for (int part = 0; part <= (last_end + share - 2) / share; ++part) {
      VALUE read[OWN_FILTERS][SIZE];
      FOR_UNROLLED(p, SIZE) {
        const int place = places[0][line * SIZE + p] + part, there = place <= places[1][line * SIZE + p];
        FOR_UNROLLED(f, OWN_FILTERS) read[f][p] = 0.0f;
        if (there) {
          FOR_UNROLLED(f, OWN_FILTERS) read[f][p] = sums[(CF_LONG)place * (TILE_M * TILE_N) + f * TILE_N];
        }
      }
      FOR_UNROLLED(f, OWN_FILTERS) {
        FOR_UNROLLED(p, SIZE) values[f][p] += read[f][p];
      }
    }
  }
  FOR_UNROLLED(f, OWN_FILTERS) {
    VALUE between[OUTPUTS];
    transform_result(values[f], 1, between, 1);
    FOR_UNROLLED(i, OUTPUTS) lines[f][line][i][lane] = between[i];
  }
  CF_BARRIER();
  if (channel >= channels) return;
  for (int own = line; own < OWN_FILTERS * OUTPUTS; own += SIZE) {
    const int filter = first_filter + own / OUTPUTS, column = own % OUTPUTS;
    if (filter >= filters) return;
    VALUE from[SIZE], result[OUTPUTS];
    FOR_UNROLLED(i, SIZE) from[i] = lines[own / OUTPUTS][i][column][lane];
    transform_result(from, 1, result, 1);
    store_taps(weights + (CF_LONG)(group * filters + filter) * channels * OUTPUTS * OUTPUTS +
                   (CF_LONG)channel * w_channel_step + column * w_tap_step,
               result, epilogue, OUTPUTS * w_tap_step);
  }
}
