// Depthwise convolution, channels last, on CPUs: forward, pixels of either tensor any distance apart, FILTERS results of
// each channel (1, 2, 4 or 8), side by side.
//
// A work-item computes rows of one image, ROWS x COLUMNS results at a time, and walks along the channels of these: half a
// vector of sums for each result, which few registers hold beside what they are made of. Nothing but results is written.
#include "convfind_cpu_vector.h"
#include "window.h"

#ifndef COLUMNS
#define COLUMNS 4  // neighbouring columns of the result
#endif

#define NOINLINE __attribute__((noinline))
#define HALF (VEC / 2)
#define BLOCK (TAPS * VEC)  // floats of the weights of a vector of channels
#define COLUMN_SPAN SPAN(COLUMNS, FILTER_W, STRIDE_W, DILATION_W)
#define COLUMN_STEP (COLUMNS * STRIDE_W)  // source columns from tile to tile
#define CACHED_FLOATS 262144  // larger images are in no cache of a core
#define RUN 96  // channels of these that stay in the level-1 cache from tile to tile: multiple of VEC

enum {
  INSIDE,  // all source places exist
  EDGE,    // not all of them
  GUARDED  // nor all results, or whole vectors
};

// Results from the first on, and the first source place that they take, which may not exist.
typedef struct {
  __global const float *x, *packed;
  __global float *y;
  long x_row, y_row;
  int x_pixel, y_pixel, row, column, x_h, x_w, rows, columns, channels;
  bool far;  // what the next tile reads and writes is fetched ahead
} Tile;

// Weights as vector of channels, tap, lane; zeros behind the last. Global size: (vectors of channels).
__kernel ONE_ITEM void direct_cpu_pack(__global const float *restrict w, __global float *restrict packed,
                                       const int channels) {
  const int first = get_global_id(0) * VEC;
  packed += (long)get_global_id(0) * BLOCK;
  for (int tap = 0; tap < TAPS; tap++)
    for (int lane = 0; lane < VEC; lane++)
      packed[tap * VEC + lane] = first + lane < channels ? w[(long)(first + lane) * TAPS + tap] : 0.0f;
}

// Where a source column lies, or one that exists in place of it, and what is left of that: everything, or zeros.
typedef struct {
  long from[COLUMN_SPAN];
  int8 mask[COLUMN_SPAN];
} Places;

INLINE void find(const Tile *tile, Places *places) {
#pragma unroll
  for (int j = 0; j < COLUMN_SPAN; j++) {
    const int column = tile->column + j, there = clamp(column, 0, tile->x_w - 1);
    places->from[j] = (long)(there - tile->column) * tile->x_pixel;
    places->mask[j] = column == there ? -1 : 0;
  }
}

// Half a vector of source channels, each for all of its results, of which `count` exist.
INLINE float8 load_source(const int kind, __global const float *at, const int count) {
  const int own = min(count, HALF) / FILTERS;
#if FILTERS == 1
  return kind == GUARDED ? load_part(at, count).lo : vload8(0, at);
#elif FILTERS == 2
  const float4 value = kind == GUARDED ? load_part(at, own).s0123 : vload4(0, at);
  return value.s00112233;
#elif FILTERS == 4
  const float2 value = kind == GUARDED ? load_part(at, own).s01 : vload2(0, at);
  return value.s00001111;
#else
  return own > 0 ? at[0] : 0.0f;
#endif
}

// The sums of half a vector of channels, of which `count` exist.
INLINE void sums_of(const int kind, const Tile *tile, const Places *places, __global const float *x,
                    __global const float *packed, int count, float *sums) {
  const long x_row = tile->x_row;
  const int x_pixel = tile->x_pixel;
  float8 sum[ROWS][COLUMNS];
#pragma unroll
  for (int o = 0; o < ROWS; o++)
#pragma unroll
    for (int p = 0; p < COLUMNS; p++) sum[o][p] = 0.0f;
#pragma unroll
  for (int r = 0; r < ROW_SPAN; r++) {
    if (kind != INSIDE && (tile->row + r < 0 || tile->row + r >= tile->x_h)) continue;
    __global const float *from = x + r * x_row;
    float8 value[COLUMN_SPAN];
#pragma unroll
    for (int j = 0; j < COLUMN_SPAN; j++) {
      __global const float *at = from + (kind == INSIDE ? (long)j * x_pixel : places->from[j]);
      value[j] = load_source(kind, at, count);
      if (kind != INSIDE) value[j] = as_float8(as_int8(value[j]) & places->mask[j]);
    }
#pragma unroll
    for (int o = 0; o < ROWS; o++) {
      if (!ROWS_MEET(o, r)) continue;
#pragma unroll
      for (int f = 0; f < FILTER_W; f++) {
        const float8 weight = vload8(0, packed + (ROW_TAP(o, r) * FILTER_W + f) * VEC);
#pragma unroll
        for (int p = 0; p < COLUMNS; p++) sum[o][p] = fma(value[p * STRIDE_W + f * DILATION_W], weight, sum[o][p]);
      }
    }
  }
#pragma unroll
  for (int o = 0; o < ROWS; o++)
#pragma unroll
    for (int p = 0; p < COLUMNS; p++) vstore8(sum[o][p], 0, sums + (o * COLUMNS + p) * VEC);
}

// The first `count` results of a vector of sums.
INLINE void store(const int count, float16 sum, __global float *y, float16 bias, const Epilogue epilogue) {
  float16 value = BIASED(sum, bias, epilogue);
  if (CF_ADDS_Z(epilogue)) value = fma((float16)(epilogue.beta), load_part(Z_OF(y, epilogue), count), value);
  value = finished(value, y, count, epilogue);
  if (count == VEC) vstore16(value, 0, y);
  if (count == 12) vstore4(value.s89ab, 2, y);
  if (count == 12 || count == HALF) vstore8(value.lo, 0, y);
  if (count == 4) vstore4(value.s0123, 0, y);
}

INLINE void store_all(const int count, const Tile *tile, const float *sums, __global float *y, const Epilogue epilogue) {
  const float16 bias = biases_of(epilogue, 0, count);
#pragma unroll 1
  for (int o = 0; o < ROWS; o++)
#pragma unroll
    for (int p = 0; p < COLUMNS; p++)
      store(count, vload16(o * COLUMNS + p, sums), y + o * tile->y_row + (long)p * tile->y_pixel, bias, epilogue);
}

INLINE void fetch(const Tile *tile, int k) {
#pragma unroll
  for (int o = 0; o < ROWS; o++)
#pragma unroll
    for (int p = 0; p < COLUMNS; p++) PREFETCH(tile->y + k + o * tile->y_row + (long)(COLUMNS + p) * tile->y_pixel);
#pragma unroll
  for (int r = 0; r < ROW_SPAN; r++)
#pragma unroll
    for (int j = 0; j < COLUMN_STEP; j++)
      PREFETCH(tile->x + k / FILTERS + r * tile->x_row + (long)(COLUMN_SPAN + j) * tile->x_pixel);
}

INLINE void compute(const int kind, const Tile *tile, const Epilogue epilogue) {
  float sums[ROWS * COLUMNS * VEC] __attribute__((aligned(64)));
  Places places;
  if (kind != INSIDE) find(tile, &places);
  for (int k = 0; k < tile->channels; k += VEC) {
    const int count = min(tile->channels - k, VEC);
    if (tile->far) fetch(tile, k);
#pragma unroll 1
    for (int i = 0; i < count; i += HALF)
      sums_of(kind, tile, &places, tile->x + (k + i) / FILTERS, tile->packed + (long)k * TAPS + i, count - i, sums + i);
    const Epilogue own = CF_EPILOGUE_FROM(epilogue, k);
    __global float *y = tile->y + k;
    if (kind != GUARDED && count == VEC) {
      store_all(VEC, tile, sums, y, own);
    } else if (kind != GUARDED && count == 12) {
      store_all(12, tile, sums, y, own);
    } else if (kind != GUARDED && count == HALF) {
      store_all(HALF, tile, sums, y, own);
    } else if (kind != GUARDED && count == 4) {
      store_all(4, tile, sums, y, own);
    } else {
      const float16 bias = biases_of(own, 0, count);
#pragma unroll 1
      for (int o = 0; o < tile->rows; o++)
#pragma unroll 1
        for (int p = 0; p < tile->columns; p++)
          store_part(vload16(o * COLUMNS + p, sums), y + o * tile->y_row + (long)p * tile->y_pixel, count, bias, own);
    }
  }
}

// Calls of their own: what the kernel keeps in registers would push sums out of them.
NOINLINE void compute_inside(const Tile *tile, const Epilogue epilogue) { compute(INSIDE, tile, epilogue); }
NOINLINE void compute_edge(const Tile *tile, const Epilogue epilogue) { compute(EDGE, tile, epilogue); }
NOINLINE void compute_guarded(const Tile *tile, const Epilogue epilogue) { compute(GUARDED, tile, epilogue); }

// Global size: (images, bands of `strips` times ROWS rows). Pixels of x and y are so many floats apart.
__kernel ONE_ITEM void direct_cpu_depthwise(__global const float *restrict x, __global const float *restrict packed,
                                            __global float *restrict y, CF_EPILOGUE_PARAMETERS, const int channels,
                                            const int x_h, const int x_w, const int r_h, const int r_w, const int pad_h,
                                            const int pad_w, const int strips, const int x_pixel, const int y_pixel) {
  const Epilogue epilogue = CF_EPILOGUE(y);
  const long x_row = (long)x_w * x_pixel, y_row = (long)r_w * y_pixel;
  // Floats of x from this image on, to behind its last channel.
  const long left = (get_global_size(0) - get_global_id(0)) * x_h * x_row - (x_pixel - channels / FILTERS);
  x += get_global_id(0) * x_h * x_row;
  y += get_global_id(0) * r_h * y_row;
  const bool far = (long)x_h * x_w * channels > CACHED_FLOATS;
  const int step = far ? RUN : channels;
  // Where y is only written, the last tiles overlap their neighbours.
  const bool overlaps = !CF_READS_RESULT(epilogue) && r_h >= ROWS && r_w >= COLUMNS;
  const int first = get_global_id(1) * strips * ROWS, behind = min(r_h, first + strips * ROWS);
  for (int next_row = first; next_row < behind; next_row += ROWS) {
    const int row = overlaps ? min(next_row, r_h - ROWS) : next_row;
    const int row0 = row * STRIDE_H - pad_h;
    for (int begin = 0; begin < channels; begin += step) {
      const int run = min(step, channels - begin);
      for (int next = 0; next < r_w; next += COLUMNS) {
        const int column = overlaps ? min(next, r_w - COLUMNS) : next;
        const int column0 = column * STRIDE_W - pad_w;
        const Tile tile = {x + row0 * x_row + (long)column0 * x_pixel + begin / FILTERS,
                           packed + (long)begin * TAPS,
                           y + row * y_row + (long)column * y_pixel + begin,
                           x_row, y_row, x_pixel, y_pixel, row0, column0, x_h, x_w,
                           min(ROWS, r_h - row), min(COLUMNS, r_w - column), run, far && TAPS <= 9};
        const long furthest = (min(row0 + ROW_SPAN, x_h) - 1L) * x_row + (min(column0 + COLUMN_SPAN, x_w) - 1L) * x_pixel;
        const bool is_whole = tile.rows == ROWS && tile.columns == COLUMNS &&
                              furthest + (begin + (run + HALF - 1) / HALF * HALF) / FILTERS <= left;
        const bool is_inside = row0 >= 0 && row0 + ROW_SPAN <= x_h && column0 >= 0 && column0 + COLUMN_SPAN <= x_w;
        const Epilogue own = CF_EPILOGUE_FROM(epilogue, begin);
        if (!is_whole)
          compute_guarded(&tile, own);
        else if (is_inside)
          compute_inside(&tile, own);
        else
          compute_edge(&tile, own);
      }
    }
  }
}
