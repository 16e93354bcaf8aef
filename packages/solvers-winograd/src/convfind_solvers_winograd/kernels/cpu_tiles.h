// Tiles to V: transforms of data on CPU devices, and of y in a weight gradient.
#ifndef CPU_TILES_H
#define CPU_TILES_H

#ifndef STRIDE
#define STRIDE OUTPUTS  // from one tile to the next: OUTPUTS, or TAPS in a weight gradient
#endif

#if CHANNELS_LAST
#define IMAGE __global
#define LOAD_CHANNELS(pointer, count) load_part(pointer, count)
#else
#define SPAN (64 / STRIDE)                       // tiles of a patch
#define PATCH (N * (SPAN * STRIDE + N) + VEC)  // pixels of a patch, and some more
#define IMAGE __private
#define LOAD_CHANNELS(pointer, count) vload16(0, pointer)
#endif

// The size x size values of a tile, vectors of 16 channels of which the first `channels` count, zero
// outside of the image. `left` floats lie behind x.
INLINE void load_tile(float16 *values, const int size, IMAGE const float *x, int row, int column,
                      int channels, int height, int width, long x_pixel, long left) {
  const bool inside = row >= 0 && column >= 0 && row + size <= height && column + size <= width;
  const long at = ((long)row * width + column) * x_pixel;
  x += at;
  if (inside && at + ((size - 1) * width + size - 1) * x_pixel + VEC <= left) {
#pragma unroll
    for (int i = 0; i < size; i++)
#pragma unroll
      for (int j = 0; j < size; j++) {
        values[i * size + j] = vload16(0, x + (i * width + j) * x_pixel);
#if CHANNELS_LAST  // what the next tile does not share with this one
        if (j >= size - STRIDE) PREFETCH(x + (i * width + j + STRIDE) * x_pixel);
#endif
      }
    return;
  }
  for (int i = 0; i < size; i++)
    for (int j = 0; j < size; j++) {
      const int r = row + i, c = column + j;
      values[i * size + j] = 0.0f;
      if (r >= 0 && r < height && c >= 0 && c < width)
        values[i * size + j] = LOAD_CHANNELS(x + (i * width + j) * x_pixel, channels);
    }
}

INLINE void transform_vector(const int size, const float16 *in, const int in_step, float16 *out,
                             const int out_step) {
  if (size == N)
    transform_data(in, in_step, out, out_step);
  else
    transform_filter(in, in_step, out, out_step);
}

// V of one tile and up to 16 channels: to[xi][tile][channel], points `step` floats apart. The data's
// transform if the size is N, the filter's if it is TAPS.
INLINE void transform_tile(float *to, const int step, const int size, IMAGE const float *x, int row,
                           int column, int channels, int height, int width, long x_pixel,
                           long left) {
  float16 values[POINTS], columns[POINTS], points[POINTS];
  load_tile(values, size, x, row, column, channels, height, width, x_pixel, left);
#pragma unroll
  for (int j = 0; j < size; j++) transform_vector(size, values + j, size, columns + j, size);
#pragma unroll
  for (int i = 0; i < N; i++) transform_vector(size, columns + i * size, 1, points + i * N, 1);
#pragma unroll
  for (int xi = 0; xi < POINTS; xi++) vstore16(points[xi], 0, to + xi * step);
}

#if !CHANNELS_LAST
// Turns rows of up to 16 channels round: patch[pixel][channel]. Writes up to 15 pixels more.
INLINE void load_patch(float *patch, __global const float *x, int rows, int columns, int channels,
                       int width, long x_channel, long left) {
  if (columns == width) {  // rows lie side by side
    columns *= rows;
    rows = 1;
  }
  for (int row = 0; row < rows; row++)
    for (int p = 0; p < columns; p += VEC) {
      float16 square[VEC];
#pragma unroll
      for (int c = 0; c < VEC; c++) {
        const long at = c * x_channel + (long)row * width + p;
        square[c] = 0.0f;
        if (c < channels)
          square[c] = at + VEC <= left ? vload16(0, x + at) : load_part(x + at, columns - p);
      }
      transpose(square);
#pragma unroll
      for (int i = 0; i < VEC; i++) vstore16(square[i], row * columns + p + i, patch);
    }
}
#endif

// V of `count` tiles: data[xi][channel / 16][tile][channel % 16], points `step` floats apart.
INLINE void transform_tiles(float *data, const int step, const int size, __global const float *x,
                            const int first, const int count, int tiles_h, int tiles_w,
                            int channels, int height, int width, int pad_h, int pad_w, long x_image,
                            long x_pixel, long x_channel, long left) {
  for (int t = 0, run; t < count; t += run) {
    const int n = (first + t) / (tiles_h * tiles_w), place = (first + t) % (tiles_h * tiles_w);
    const int row = place / tiles_w * STRIDE - pad_h, column = place % tiles_w * STRIDE - pad_w;
    __global const float *image = x + n * x_image;
#if CHANNELS_LAST
    run = 1;
    for (int c = 0; c < channels; c += VEC)
      transform_tile(data + c * TILES + t * VEC, step, size, image + c, row, column, channels - c,
                     height, width, x_pixel, left - n * x_image - c);
#else
    float patch[PATCH * VEC] __attribute__((aligned(64)));
    run = min(min(count - t, SPAN), tiles_w - place % tiles_w);
    const int top = max(row, 0), bottom = min(row + size, height);
    const int west = max(column, 0), east = min(column + (run - 1) * STRIDE + size, width);
    const int rows = max(bottom - top, 0), columns = max(east - west, 0);
    const long at = (long)top * width + west;
    for (int c = 0; c < channels; c += VEC) {
      load_patch(patch, image + c * x_channel + at, rows, columns, channels - c, width, x_channel,
                 left - n * x_image - c * x_channel - at);
      for (int i = 0; i < run; i++)
        transform_tile(data + c * TILES + (t + i) * VEC, step, size, patch, row - top,
                       column + i * STRIDE - west, VEC, rows, columns, VEC, PATCH * VEC);
    }
#endif
  }
}

#endif  // CPU_TILES_H
