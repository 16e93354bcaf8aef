// The axes of a tile on CPU devices: F(m, r) along both, or along one where filters are 1 x r or r x 1.
#ifndef CPU_AXES_H
#define CPU_AXES_H

#ifndef ALONG_H
#define ALONG_H 1  // 0, 1: rows are transformed; if not, filters have one row, and so have tiles
#endif
#ifndef ALONG_W
#define ALONG_W 1  // 0, 1: the same of columns
#endif

#ifndef DILATED
#define DILATED 0  // 0, 1: whether taps lie apart
#endif
#ifndef MOST_DILATION
#define MOST_DILATION 16  // how far they may
#endif

#ifndef N
#define N (OUTPUTS + TAPS - 1)  // products along a transformed axis
#define VALUES N                // values of data
#define FILTER_POINTS N         // values of the filter; all later products share the last
#endif
#define SIZE_H(size) (ALONG_H ? (size) : 1)  // rows of what has `size` places along a transformed axis
#define SIZE_W(size) (ALONG_W ? (size) : 1)
#define AREA(size) (SIZE_H(size) * SIZE_W(size))
#define POINTS AREA(N)
#define WEIGHT_POINTS AREA(FILTER_POINTS)
#define WINDOW AREA(TAPS)

// Applies a transform of `size` to `results` values along both axes, rows being neighbours.
#define TRANSFORM_BOTH(transform, in, in_step, size, out, results)                              \
  do {                                                                                          \
    float16 between[SIZE_H(results) * SIZE_W(size)];                                            \
    const int across = SIZE_W(size);                                                            \
    _Pragma("unroll") for (int j = 0; j < across; j++) {                                        \
      if (ALONG_H)                                                                              \
        transform((in) + j * (in_step), across * (in_step), between + j, across);               \
      else                                                                                      \
        between[j] = (in)[j * (in_step)];                                                       \
    }                                                                                           \
    _Pragma("unroll") for (int i = 0; i < SIZE_H(results); i++) {                               \
      if (ALONG_W)                                                                              \
        transform(between + i * across, 1, (out) + i * SIZE_W(results), 1);                     \
      else                                                                                      \
        (out)[i] = between[i];                                                                  \
    }                                                                                           \
  } while (0)

// The tiles of an image. Of a dilated filter the elements of a tile lie apart as its taps do, and so do
// its results: an image is phases of rows by phases of columns, each with tiles of its own.
typedef struct {
  int rows, columns;  // of tiles, of a phase
  int dilation_h, dilation_w;
} Grid;

INLINE Grid grid_of(int height, int width, int step, int dilation_h, int dilation_w) {
  Grid grid;
  grid.dilation_h = DILATED ? dilation_h : 1;
  grid.dilation_w = DILATED ? dilation_w : 1;
  const int apart_h = SIZE_H(step) * grid.dilation_h, apart_w = SIZE_W(step) * grid.dilation_w;
  grid.rows = (height + apart_h - 1) / apart_h;
  grid.columns = (width + apart_w - 1) / apart_w;
  return grid;
}

INLINE int tiles_of(Grid grid) {
  return grid.rows * grid.dilation_h * grid.columns * grid.dilation_w;
}

// A tile's image, the place of its first element, and how many tiles follow it in its row.
typedef struct {
  int image, row, column, more;
} Place;

INLINE Place place_of(int tile, Grid grid, int step) {
  const int line = grid.columns * grid.dilation_w, in_image = tile % tiles_of(grid);
  const int y = in_image / line, x = in_image % line;
  const int phase_y = DILATED ? y / grid.rows : 0, phase_x = DILATED ? x / grid.columns : 0;
  const int row = y - phase_y * grid.rows, column = x - phase_x * grid.columns;
  Place place;
  place.image = tile / tiles_of(grid);
  place.row = phase_y + row * SIZE_H(step) * grid.dilation_h;
  place.column = phase_x + column * SIZE_W(step) * grid.dilation_w;
  place.more = grid.columns - 1 - column;
  return place;
}

#endif  // CPU_AXES_H
