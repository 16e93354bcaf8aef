// Convolution of every channel by itself, channels last, on GPUs, from tiles in local memory: forward and backward-data.
//
// A work-group has SLICE neighbouring channels. All of the source that its results meet is copied to local memory first,
// with zeros around the image, so that many loads are on their way that no register waits for: by the copy engine of
// NVIDIA's GPUs (BY_MAP), or by the items. Several work-groups on a unit wait and compute in turn. An item has ROWS x COLUMNS
// results of LANES channels; it walks down the tile, and each row goes into all the results that the row meets.
#ifndef SLICE
#define SLICE 32    // channels of a work-group: multiple of LANES, with BY_MAP of 16 bytes
#endif
#ifndef ACROSS
#define ACROSS 2    // items along the columns of a tile: 1 and up
#endif
#ifndef DOWN
#define DOWN 2      // items along its rows: 1 and up
#endif
#ifndef LANES
#define LANES 2     // 1, of FLOAT32; 2; 4
#endif
#define UNITS (SLICE / LANES)
#define ITEMS (UNITS * ACROSS * DOWN)
#include "gpu_lanes.h"

#ifndef COLUMNS
#define COLUMNS 2   // neighbouring columns of the result of an item: 1 and up
#endif
#ifndef BY_MAP
#define BY_MAP 0    // 1, CUDA, since sm_90: the source is told of by a map of SLICE channels, TILE_W columns and TILE_H rows
#endif
#if BY_MAP
#include "convfind_nvidia_tma.h"
#endif

#define TILE_H SPAN(DOWN * ROWS, FILTER_H, STRIDE_H, DILATION_H)
#define TILE_W SPAN(ACROSS * COLUMNS, FILTER_W, STRIDE_W, DILATION_W)
#define PIXELS (TILE_H * TILE_W)
#define KEPT_UNITS (UNITS + 1)  // neighbouring taps lie in other banks
#define PACKED CF_PACKED(DTYPE, LANES)

// Global size: (work-groups along channels, then columns; rows; images). Sizes s_ are the source's, r_ the result's.
CF_KERNEL CF_WORK_GROUP_SIZE(ITEMS, 1, 1) void direct_gpu_tiles(
#if BY_MAP
    TENSOR_MAP source,
#else
    CF_GLOBAL const ELEMENT *CF_RESTRICT source,
#endif
    CF_GLOBAL const ELEMENT *CF_RESTRICT weights, CF_GLOBAL ELEMENT *CF_RESTRICT result, CF_EPILOGUE_PARAMETERS,
    const int channels, const int s_h, const int s_w, const int r_h, const int r_w, const int pad_h, const int pad_w) {
  const Epilogue epilogue = CF_EPILOGUE(result);
  CF_LOCAL PACKED tile[PIXELS * UNITS] __attribute__((aligned(128)));
  CF_LOCAL CF_PACKED(FLOAT32, LANES) kept[TAPS * KEPT_UNITS] __attribute__((aligned(16)));
  const int item = (int)CF_LOCAL_ID(0), slices = (channels + SLICE - 1) / SLICE;
  const int first_channel = (int)CF_GROUP_ID(0) % slices * SLICE, image = (int)CF_GROUP_ID(2);
  const int tile_row = (int)CF_GROUP_ID(1) * (DOWN * ROWS), tile_column = (int)CF_GROUP_ID(0) / slices * (ACROSS * COLUMNS);
  const int first_row = SOURCE_OF(tile_row, pad_h, FILTER_H, STRIDE_H, DILATION_H);
  const int first_column = SOURCE_OF(tile_column, pad_w, FILTER_W, STRIDE_W, DILATION_W);

#if BY_MAP
  CF_LOCAL ulong arrived;
  if (item == 0) {
    barrier_start(CF_SHARED(&arrived), 1);
    barriers_started();
    barrier_expect(CF_SHARED(&arrived), PIXELS * SLICE * (CF_UINT)sizeof(ELEMENT));
    copy_box_4(CF_SHARED(tile), MAP_AT(&source), CF_SHARED(&arrived), first_channel, first_column, first_row, image);
  }
#else
  source += (CF_LONG)image * s_h * s_w * channels + first_channel;
  for (int at = item; at < PIXELS * UNITS; at += ITEMS) {
    const int unit = at % UNITS, row = first_row + at / UNITS / TILE_W, column = first_column + at / UNITS % TILE_W;
    PACKED some = CF_PACKED_ZERO(DTYPE, LANES);
    if (row >= 0 && row < s_h && column >= 0 && column < s_w && first_channel + unit * LANES < channels)
      some = CF_LOAD_PACKED(DTYPE, LANES, source + (row * s_w + column) * channels + unit * LANES);
    tile[at] = some;
  }
#endif
  // Weights lie channel by channel in device memory, and tap by tap in local memory.
  CF_LOCAL_PTR float *to = (CF_LOCAL_PTR float *)kept;
  for (int at = item; at < TAPS * SLICE; at += ITEMS) {
    const int is_there = first_channel + at / TAPS < channels;
    to[at % TAPS * (KEPT_UNITS * LANES) + at / TAPS] = is_there ? LOAD(weights, first_channel * TAPS + at) : 0.0f;
  }
  CF_BARRIER();
#if BY_MAP
  barrier_wait(CF_SHARED(&arrived), 0);
#endif

  const int unit = item % UNITS, across = item / UNITS % ACROSS * COLUMNS, down = item / (UNITS * ACROSS) * ROWS;
  float weight[TAPS][LANES];
  FOR_UNROLLED(t, TAPS) CF_UNPACK(FLOAT32, LANES, weight[t], kept[t * KEPT_UNITS + unit]);
  float sum[ROWS][COLUMNS][LANES];
  FOR_UNROLLED(o, ROWS) {
    FOR_UNROLLED(p, COLUMNS) { FOR_UNROLLED(l, LANES) sum[o][p][l] = 0.0f; }
  }
  // Strides are those of the forward direction alone.
  CF_LOCAL_PTR const PACKED *from = tile + (down * STRIDE_H * TILE_W + across * STRIDE_W) * UNITS + unit;
  FOR_UNROLLED(r, ROW_SPAN) {
    float value[COLUMN_SPAN][LANES];
    FOR_UNROLLED(j, COLUMN_SPAN) {
      const PACKED some = from[(r * TILE_W + j) * UNITS];
      CF_UNPACK(DTYPE, LANES, value[j], some);
    }
    FOR_UNROLLED(o, ROWS) {
      if (!ROWS_MEET(o, r)) continue;
      FOR_UNROLLED(j, COLUMN_SPAN) {
        FOR_UNROLLED(p, COLUMNS) {
          if (!COLUMNS_MEET(p, j)) continue;
          FOR_UNROLLED(l, LANES)
            sum[o][p][l] = CF_FMA(value[j][l], weight[ROW_TAP(o, r) * FILTER_W + COLUMN_TAP(p, j)][l], sum[o][p][l]);
        }
      }
    }
  }

  const int row = tile_row + down, column = tile_column + across, channel = first_channel + unit * LANES;
  if (channel >= channels) return;
  result += (((CF_LONG)image * r_h + row) * r_w + column) * channels + channel;
  FOR_UNROLLED(o, ROWS) {
    FOR_UNROLLED(p, COLUMNS) {
      if (row + o >= r_h || column + p >= r_w) continue;
      CF_GLOBAL ELEMENT *at = result + (o * r_w + p) * channels;
#if LANES > 1
      if (!CF_READS_RESULT(epilogue)) {
        STORE_LANES(at, channel, sum[o][p], epilogue);
        continue;
      }
#endif
      FOR_UNROLLED(l, LANES) store(at + l, sum[o][p][l], channel + l, epilogue);
    }
  }
}
