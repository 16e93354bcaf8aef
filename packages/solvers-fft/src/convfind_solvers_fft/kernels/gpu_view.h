// Tensors on GPUs: which tile a unit of a work-group is, and the way of its columns to and from memory.
#ifndef GPU_VIEW_H
#define GPU_VIEW_H

#include "convfind_epilogue.h"
#include "gpu_tile.h"

#ifndef CHANNELS_LAST
#define CHANNELS_LAST 0  // what neighbouring units are: 0: tiles, of one channel; 1: channels, of one tile
#endif

// A tensor as groups of channels of images. The weights are one whose images are filters.
typedef struct {
  CF_LONG at, image, group, channel;  // of the first element; from one to the next; all in elements
  int row, column;                    // from one to the next
  int height, width;                  // of an image
  int top, left;                      // where the first tile begins
  int rows, columns;                  // of a tile; what lies behind is zero
  int channels;                       // of a group
} View;

// Tiles from the first one on: `down` x `right` of an image.
typedef struct {
  int first, tiles, down, right, step_h, step_w;
} Tiling;

// As kernels take them.
#define VIEW_PARAMETERS(v)                                                                                          \
  const CF_LONG v##_at, const CF_LONG v##_image, const CF_LONG v##_group, const CF_LONG v##_channel,                \
      const int v##_row, const int v##_column, const int v##_height, const int v##_width, const int v##_top,        \
      const int v##_left, const int v##_rows, const int v##_columns, const int v##_channels
#define VIEW(v)                                                                                                     \
  {v##_at,    v##_image, v##_group, v##_channel, v##_row,     v##_column,  v##_height,                              \
   v##_width, v##_top,   v##_left,  v##_rows,    v##_columns, v##_channels}
#define TILING_PARAMETERS \
  const int first, const int tiles, const int down, const int right, const int step_h, const int step_w
#define TILING {first, tiles, down, right, step_h, step_w}

// What lies in the tensor of a tile.
typedef struct {
  CF_LONG at;  // of the tile's first element, which itself may lie outside
  int first_row, end_row, first_column, end_column;
} Window;

CF_INLINE Window window_of(const View view, const Tiling tiling, int group, int line, int unit) {
  const int tile = CHANNELS_LAST ? line : unit, channel = CHANNELS_LAST ? unit : line;
  const int there = tile < tiling.tiles && channel < view.channels;
  const int row = (tiling.first + tile) / tiling.right, column = (tiling.first + tile) % tiling.right;
  const int top = row % tiling.down * tiling.step_h + view.top, left = column * tiling.step_w + view.left;
  Window window;
  window.at = view.at + row / tiling.down * view.image + group * view.group + channel * view.channel +
              (CF_LONG)top * view.row + (CF_LONG)left * view.column;
  window.first_row = max(0, -top);
  window.end_row = there ? min(view.rows, view.height - top) : 0;
  window.first_column = max(0, -left);
  window.end_column = min(view.columns, view.width - left);
  return window;
}

// Which unit and which column an item begins with; HALF further is its next.
#if CHANNELS_LAST
#define READ_UNIT(item) ((item) % UNITS)
#define READ_COLUMN(item) ((item) / UNITS)
#else
#define READ_UNIT(item) column_unit(item)
#define READ_COLUMN(item) ((item) % HALF)
#endif

// UNITS tiles from `unit` on to half spectra of their columns in local memory.
CF_INLINE void read_tiles(CF_LOCAL_PTR float *units, CF_GLOBAL const float *x, const View view, const Tiling tiling,
                          int group, int line, int unit) {
  const int item = (int)CF_LOCAL_ID(0), own = READ_UNIT(item);
  const Window window = window_of(view, tiling, group, line, unit + own);
  x += window.at;
  for (int column = READ_COLUMN(item); column < TILE; column += HALF) {
    float numbers[TILE];
    const int there = column >= window.first_column && column < window.end_column;
    FOR_UNROLLED(i, TILE) {
      numbers[i] = 0.0f;
      if (there && i >= window.first_row && i < window.end_row) numbers[i] = x[i * view.row + column * view.column];
    }
    put_column(units + own * UNIT_STEP, column, numbers);
  }
}

// And back.
CF_INLINE void write_tiles(CF_LOCAL_PTR const float *units, CF_GLOBAL float *y, const View view, const Tiling tiling,
                           int group, int line, int unit, const Epilogue epilogue) {
  const int item = (int)CF_LOCAL_ID(0), own = READ_UNIT(item);
  const Window window = window_of(view, tiling, group, line, unit + own);
  if (window.end_row == 0) return;
  const int channel = group * view.channels + (CHANNELS_LAST ? unit + own : line);
  y += window.at;
  for (int column = READ_COLUMN(item); column < window.end_column; column += HALF) {
    float numbers[TILE];
    take_column(units + own * UNIT_STEP, column, numbers);
    FOR_UNROLLED(i, TILE) {
      if (i >= window.end_row) continue;
      CF_STORE_RESULT(FLOAT32, y + i * view.row + column * view.column, channel, numbers[i], epilogue);
    }
  }
}

#endif  // GPU_VIEW_H
