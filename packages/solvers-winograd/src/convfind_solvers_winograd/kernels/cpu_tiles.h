// Tiles to V: transforms of data on CPU devices, and of y in a weight gradient.
#ifndef CPU_TILES_H
#define CPU_TILES_H

#ifndef STRIDE
#define STRIDE OUTPUTS  // from one tile of data to the next along a transformed axis
#endif
#ifndef DATA_SPACE
#define DATA_SPACE __private  // where V lies
#endif
#define STEP(size) ((size) == VALUES ? STRIDE : TAPS)  // the same of data, or of y in a weight gradient

#if CHANNELS_LAST
#define IMAGE __global const ELEMENT
#define LOAD_VECTOR LOAD_ELEMENTS
#define LOAD_CHANNELS(pointer, count) LOAD_PART(pointer, count)
#else
#define SPAN (64 / SIZE_W(STRIDE))  // tiles of a patch
#define REACH (SIZE_W(VALUES) * (DILATED ? MOST_DILATION : 1))
#define PATCH (SIZE_H(VALUES) * (SPAN * SIZE_W(STRIDE) + REACH) + VEC)  // pixels of a patch, and some more
#define IMAGE __private const float
#define LOAD_VECTOR(pointer) vload16(0, pointer)
#define LOAD_CHANNELS(pointer, count) LOAD_VECTOR(pointer)
#endif

// The values of a tile, `size` along a transformed axis: vectors of 16 channels of which the first
// `channels` count, zero outside of the image. `left` floats lie behind x.
INLINE void load_tile(float16 *values, const int size, IMAGE *x, int row, int column,
                      int row_step, int column_step, int channels, int height, int width,
                      long x_pixel, long left) {
  const int rows = SIZE_H(size), columns = SIZE_W(size);
  const int last_row = row + (rows - 1) * row_step;
  const int last_column = column + (columns - 1) * column_step;
  const bool inside = row >= 0 && column >= 0 && last_row < height && last_column < width;
  const long at = ((long)row * width + column) * x_pixel;
  x += at;
  if (inside && ((long)last_row * width + last_column) * x_pixel + VEC <= left) {
#pragma unroll
    for (int i = 0; i < rows; i++)
#pragma unroll
      for (int j = 0; j < columns; j++) {
        const long element = (i * row_step * width + j * column_step) * x_pixel;
        values[i * columns + j] = LOAD_VECTOR(x + element);
#if CHANNELS_LAST  // what the next tile does not share with this one
        if (j >= columns - SIZE_W(STEP(size)))
          PREFETCH(x + element + SIZE_W(STEP(size)) * column_step * x_pixel);
#endif
      }
    return;
  }
  for (int i = 0; i < rows; i++)
    for (int j = 0; j < columns; j++) {
      const int r = row + i * row_step, c = column + j * column_step;
      values[i * columns + j] = 0.0f;
      const long element = (i * row_step * width + j * column_step) * x_pixel;
      if (r >= 0 && r < height && c >= 0 && c < width)
        values[i * columns + j] = LOAD_CHANNELS(x + element, channels);
    }
}

// V of one tile and up to 16 channels: to[xi][tile][channel], points `step` floats apart. The data's
// transform if the size is VALUES, the filter's if it is TAPS.
INLINE void transform_tile(DATA_SPACE float *to, const int step, const int size, IMAGE *x, int row,
                           int column, int row_step, int column_step, int channels, int height,
                           int width, long x_pixel, long left) {
  float16 values[AREA(VALUES)], points[POINTS];
  load_tile(values, size, x, row, column, row_step, column_step, channels, height, width, x_pixel,
            left);
  if (size == VALUES)
    TRANSFORM_BOTH(transform_data, values, 1, VALUES, points, N);
  else
    TRANSFORM_BOTH(transform_filter, values, 1, TAPS, points, N);
#pragma unroll
  for (int xi = 0; xi < POINTS; xi++) vstore16(points[xi], 0, to + xi * step);
}

#if !CHANNELS_LAST
// The last floats of x, of which no vector can be read. Few rows end there: sixteen copies of this in the unrolled loop
// below took compilers a third of their time.
__attribute__((noinline)) float16 load_end(__global const ELEMENT *source, int count) { return LOAD_PART(source, count); }

// Turns rows of up to 16 channels round, `row_step` apart: patch[pixel][channel]. Writes up to 15
// pixels more.
INLINE void load_patch(float *patch, __global const ELEMENT *x, int rows, int columns, int row_step,
                       int channels, int width, long x_channel, long left) {
  if (columns == width && row_step == 1) {  // rows lie side by side
    columns *= rows;
    rows = 1;
  }
  for (int row = 0; row < rows; row++)
    for (int p = 0; p < columns; p += VEC) {
      float16 square[VEC];
#pragma unroll
      for (int c = 0; c < VEC; c++) {
        const long at = c * x_channel + (long)row * row_step * width + p;
        square[c] = 0.0f;
        if (c < channels)
          square[c] = at + VEC <= left ? LOAD_ELEMENTS(x + at) : load_end(x + at, columns - p);
      }
      transpose(square);
#pragma unroll
      for (int i = 0; i < VEC; i++) vstore16(square[i], row * columns + p + i, patch);
    }
}
#endif

// V of `count` tiles: data[xi][channel / 16][tile][channel % 16], points `step` floats and groups of
// channels `span` vectors apart.
INLINE void transform_tiles(DATA_SPACE float *data, const int step, const int span, const int size,
                            __global const ELEMENT *x, const int first, const int count,
                            const Grid grid, int channels, int height, int width, int pad_h,
                            int pad_w, long x_image, long x_pixel, long x_channel, long left) {
  const int row_step = grid.dilation_h, column_step = grid.dilation_w;
  for (int t = 0, run; t < count; t += run) {
    const Place place = place_of(first + t, grid, STEP(size));
    const int row = place.row - pad_h, column = place.column - pad_w;
    __global const ELEMENT *image = x + place.image * x_image;
#if CHANNELS_LAST
    run = 1;
    for (int c = 0; c < channels; c += VEC)
      transform_tile(data + c * span + t * VEC, step, size, image + c, row, column, row_step,
                     column_step, channels - c, height, width, x_pixel,
                     left - place.image * x_image - c);
#else
    float patch[PATCH * VEC] __attribute__((aligned(64)));
    run = min(min(count - t, max(1, SPAN / column_step)), place.more + 1);
    const int above = row < 0 ? (-row + row_step - 1) / row_step : 0;
    const int top = row + above * row_step;
    const int rows = min(SIZE_H(size) - above, (height - top + row_step - 1) / row_step);
    const int west = max(column, 0), next = SIZE_W(STEP(size)) * column_step;
    const int east = min(column + (run - 1) * next + (SIZE_W(size) - 1) * column_step + 1, width);
    const int columns = max(east - west, 0);
    const long at = (long)top * width + west;
    for (int c = 0; c < channels; c += VEC) {
      load_patch(patch, image + c * x_channel + at, rows, columns, row_step, channels - c, width,
                 x_channel, left - place.image * x_image - c * x_channel - at);
      for (int i = 0; i < run; i++)
        transform_tile(data + c * span + (t + i) * VEC, step, size, patch, -above,
                       column + i * next - west, 1, column_step, VEC, max(rows, 0), columns, VEC,
                       PATCH * VEC);
    }
#endif
  }
}

#endif  // CPU_TILES_H
