// Fused Winograd F(4 x 4, 3 x 3) on NVIDIA's tensor cores, channels last: OpenCL C with PTX from sm_80 on, for devices
// of 180 KiB of local memory.
//
// A work-group computes blocks of TILES tiles of FILTERS filters, one after the other. Channels go by in steps of CHANNELS: tiles of the source are
// transformed into local memory, filters, transformed ahead, are copied there, and each wave multiplies the matrices of
// some points, whose sums stay in registers. In the end the sums go through local memory to the items that transform
// them. While a step is multiplied, filters of the next and elements of the one after it are on their way. Half of the
// waves transform before they multiply and half after it, so that tensor cores are never idle. Tensor cores cut off what
// they add up; whole sums are left to them, so these should be of at most some hundred channels.
#define CHANNELS_LAST 1
#include "gpu_value.h"
#include "transform_f4x3.h"
#include "gpu_store.h"
#include "gpu_mma.h"

// A factor, of which tensor cores read the upper bits, and what they leave of it.
#if PRODUCTS == 3
#define HIGH(value) CF_AS_UINT(value)
#define LOW(value) LOW_OF(value, CF_AS_UINT(value) & 0xffffe000u)
#else
#define HIGH(value) HIGH_OF(value)
#endif

#define STRIDE OUTPUTS
#define TILES 32
#define FILTERS 32
#define CHANNELS 8
#define THREADS 256  // TILES * CHANNELS
#define WAVES (THREADS / 32)
// Points of a wave, all tiles, and of one more point half of the tiles; sums of 16 tiles each.
#define WHOLE_POINTS (POINTS / WAVES)
#define WAVE_SUMS (2 * WHOLE_POINTS + 1)

// A point's matrices in local memory are in the order in which lanes read them: four of a tile and its eighth neighbour,
// or of two such filters, and two channels of each, four apart.
#define POINT_FLOATS (32 * CHANNELS)
#define HALF (POINT_FLOATS / 2)
#define TILE_PLACE(tile, channel) \
  ((((tile) / 16 * 8 + (tile) % 8) * 4 + (channel) % 4) * 4 + (channel) / 4 * 2 + (tile) / 8 % 2)
#define MATRICES (POINTS * POINT_FLOATS)
#define LOCAL_FLOATS (4 * MATRICES + POINTS * THREADS)  // two steps, and elements of a third
// A sum there, so that neither writes nor reads meet in a bank.
#define SUM_PLACE(point, tile, filter) (((point) * TILES + (tile)) * FILTERS + ((filter) ^ (tile) % 4 * 8))
#define COPIES (MATRICES / 4 / THREADS)

// A tile of one channel: where it is, and which of its rows and columns are in the image.
typedef struct {
  CF_GLOBAL const float *at;
  CF_UINT rows, columns;
} Patch;

CF_INLINE CF_UINT inside(int first, int size) {
  CF_UINT mask = 0;
  FOR_UNROLLED(i, SIZE) mask |= (CF_UINT)((CF_UINT)(first + i) < (CF_UINT)size) << i;
  return mask;
}

// Four tiles of a wave: two and their eighth neighbours, which go to different banks.
#define TILE_OF(which) (wave / 4 * 16 + wave % 4 * 2 + (which) / 2 + (which) % 2 * 8)

// What a work-group computes: neighbours share tiles.
typedef struct {
  int filter, tile, group;
} Block;

CF_INLINE Block block_of(int number, int filters, int tiles) {
  Block found;
  const int filter_blocks = (filters + FILTERS - 1) / FILTERS, tile_blocks = (tiles + TILES - 1) / TILES;
  found.filter = number % filter_blocks * FILTERS;
  found.tile = number / filter_blocks % tile_blocks * TILES;
  found.group = number / filter_blocks / tile_blocks;
  return found;
}

// Elements of step `number` to local memory, as [row and column][item]; zeros outside of the image. An item copies four
// channels of a tile of its wave, of every fourth row and column: three of these are two rows apart from the next three.
#define READ(number)                                                                                     \
  do {                                                                                                   \
    CF_GLOBAL const float *from = patch.at + (number) * CHANNELS;                                        \
    CF_UINT rows = copied_channel + (number) * CHANNELS < channels ? patch.rows : 0, in = patch.columns; \
    int down = width * position_step, right = position_step;                                             \
    /* Or compilers keep all distances and masks in registers, which are needed for sums. */             \
    asm volatile("" : "+r"(rows), "+r"(in), "+r"(down), "+r"(right));                                    \
    const int first = lane / 8, later = first >= 2;                                                      \
    FOR_UNROLLED(q, POINTS / 4) {                                                                        \
      const int i = q / 3 * 2 + (q % 3 == 0 ? 0 : q % 3 == 1 ? later : 1);                               \
      const int j = q % 3 == 0 ? first : q % 3 == 1 ? first + 4 - 6 * later : first + 2;                 \
      cf_copy_16(elements_at + q * (16 * THREADS), from + i * down + j * right, (rows >> i & in >> j & 1u) * 16); \
    }                                                                                                    \
    CF_COPIES_COMMIT();                                                                                  \
  } while (0)

// From there, transformed, to the matrices.
CF_INLINE __attribute__((always_inline)) void put(CF_LOCAL_PTR float *to, CF_LOCAL_PTR const float *elements) {
  VALUE values[POINTS];
  FOR_UNROLLED(j, SIZE) {
    VALUE before[SIZE], column[SIZE];
    FOR_UNROLLED(i, SIZE) before[i] = elements[(i * SIZE + j) * THREADS];
    transform_data(before, 1, column, 1);
    FOR_UNROLLED(i, SIZE) values[i * SIZE + j] = column[i];
  }
  FOR_UNROLLED(i, SIZE) {
    VALUE row[SIZE];
    transform_data(values + i * SIZE, 1, row, 1);
    FOR_UNROLLED(j, SIZE) to[(i * SIZE + j) * POINT_FLOATS] = row[j];
  }
}
#define PUT(number) put(local_memory + (number) % 2 * MATRICES + put_at, local_memory + 4 * MATRICES + item)

// What the wave has copied; then it copies the next step's elements, or the next block's first ones, to the same place.
#define TRANSFORM_NEXT(step)                \
  do {                                      \
    if ((step) < steps) {                   \
      CF_WAVE_BARRIER();                    \
      PUT(step);                            \
      CF_WAVE_BARRIER();                    \
      int coming = (step) + 1;              \
      if (coming == steps) {                \
        ENTER_PATCH(number + apart);        \
        coming = 0;                         \
      }                                     \
      READ(coming);                         \
    } else {                                \
      CF_COPIES_COMMIT();                   \
    }                                       \
  } while (0)

// The tile that an item copies from: of the block, if there is one.
#define ENTER_PATCH(number)                                                                                         \
  do {                                                                                                              \
    const Block entered = block_of(number, filters, tiles);                                                         \
    const int tile = entered.tile + TILE_OF(lane % 8 / 2), above = tile / tiles_w;                                  \
    const int left = tile % tiles_w * STRIDE - pad_w, top = above % tiles_h * STRIDE - pad_h;                       \
    patch.at = source + (CF_LONG)(above / tiles_h) * height * width * position_step + entered.group * channels +    \
               copied_channel + (top * width + left) * position_step;                                               \
    patch.rows = (number) < blocks && tile < tiles ? inside(top, height) : 0;                                       \
    patch.columns = inside(left, width);                                                                            \
  } while (0)

// Filters of step `number` to local memory.
#define FETCH(number)                                                                                     \
  do {                                                                                                    \
    CF_LONG stride = (THREADS / 64) * point_step;                                                         \
    asm volatile("" : "+l"(stride));                                                                      \
    const CF_UINT to = filters_to + (CF_UINT)((number) % 2) * (4 * MATRICES);                             \
    FOR_UNROLLED(q, COPIES)                                                                               \
    cf_copy_16(to + q * (4 * THREADS * 4), filters_from + (CF_LONG)(number) * CHANNELS * padded_filters + q * stride, \
               16);                                                                                       \
  } while (0)

// One-dimensional grid: blocks of FILTERS filters * blocks of TILES tiles * groups. Filters' points are
// [point][group][channels / 8][filters / 32] of POINT_FLOATS each: see FILTERS_IN_FRAGMENTS in gpu_conv.h.
CF_KERNEL CF_WORK_GROUP_SIZE(THREADS, 1, 1) void winograd_gpu_fused(
    CF_GLOBAL const float *source, CF_GLOBAL const float *points, CF_GLOBAL float *result, CF_EPILOGUE_PARAMETERS,
    const int images, const int groups, const int channels, const int filters, const int height, const int width,
    const int out_height, const int out_width, const int pad_h, const int pad_w, const int tiles_h,
    const int tiles_w, const int padded_channels, const int padded_filters) {
  const Epilogue epilogue = CF_EPILOGUE(result);
  CF_LOCAL float local_memory[LOCAL_FLOATS] __attribute__((aligned(128)));
  const int item = (int)CF_LOCAL_ID(0), lane = item % 32, wave = item / 32;
  const int tiles = images * tiles_h * tiles_w;
  const int apart = (int)CF_GLOBAL_SIZE(0) / THREADS;
  const int blocks = (filters + FILTERS - 1) / FILTERS * ((tiles + TILES - 1) / TILES) * groups;

  // What an item transforms: neighbours read neighbouring memory.
  const int put_at = TILE_PLACE(TILE_OF(lane / 8), item % CHANNELS);
  const int copied_channel = item % 2 * 4, position_step = groups * channels;
  Patch patch;
  ENTER_PATCH((int)CF_GROUP_ID(0));
  // What it copies: pieces of every fourth point.
  const CF_LONG point_step = (CF_LONG)groups * padded_channels * padded_filters;
  const CF_UINT filters_to = CF_SHARED(local_memory) + 4 * (2 * MATRICES + item * 4);
  const CF_UINT elements_at =
      CF_SHARED(local_memory) + 4 * (4 * MATRICES + wave * 32 + lane % 8 * 4 + lane / 8 * THREADS);

  // Two waves share their last point.
  const int first_point = wave * WHOLE_POINTS, last_point = WAVES * WHOLE_POINTS + wave / 2;
  CF_LOCAL_PTR const float *own = local_memory + lane * 4;
  const int early = wave < WAVES / 2;
  const int steps = (channels + CHANNELS - 1) / CHANNELS;
  READ(0);
  _Pragma("unroll 1")
  for (int number = (int)CF_GROUP_ID(0); number < blocks; number += apart) {
    CF_GLOBAL const float *filters_from;
    {
      const Block block = block_of(number, filters, tiles);
      filters_from = points + item / 64 * point_step + (CF_LONG)block.group * padded_channels * padded_filters +
                     block.filter * CHANNELS + item % 64 * 4;
    }
    float sum[WAVE_SUMS][4][4];
    FOR_UNROLLED(i, WAVE_SUMS) FOR_UNROLLED(j, 4) FOR_UNROLLED(e, 4) sum[i][j][e] = 0.0f;
    CF_BARRIER();
    FETCH(0);
    CF_COPIES_COMMIT();
    CF_COPIES_WAIT(1);
    TRANSFORM_NEXT(0);
    for (int step = 0; step < steps; ++step) {
      CF_COPIES_WAIT(1);
      CF_BARRIER();
      if (step + 1 < steps) FETCH(step + 1);
      CF_COPIES_COMMIT();
      if (early) {
        CF_COPIES_WAIT(1);
        TRANSFORM_NEXT(step + 1);
      }
      CF_LOCAL_PTR const float *now = own + step % 2 * MATRICES;
      FOR_UNROLLED(p, WHOLE_POINTS + 1) {
        CF_LOCAL_PTR const float *a_at = now + (p < WHOLE_POINTS ? first_point + p : last_point) * POINT_FLOATS;
        CF_LOCAL_PTR const float *b_at = a_at + 2 * MATRICES;
        float b[2][4];
        FOR_UNROLLED(j, 2) CF_LOAD4_LOCAL(b[j], b_at + j * HALF);
        CF_UINT b_high[4][2];
        FOR_UNROLLED(j, 4) FOR_UNROLLED(e, 2) b_high[j][e] = HIGH(b[j / 2][j % 2 * 2 + e]);
#if PRODUCTS == 3
        CF_UINT b_low[4][2];
        FOR_UNROLLED(j, 4) FOR_UNROLLED(e, 2) b_low[j][e] = LOW(b[j / 2][j % 2 * 2 + e]);
#endif
        FOR_UNROLLED(h, p < WHOLE_POINTS ? 2 : 1) {
          float a[4], (*to)[4] = sum[2 * p + h];
          CF_LOAD4_LOCAL(a, a_at + (p < WHOLE_POINTS ? h : wave % 2) * HALF);
          CF_UINT a_high[4];
          FOR_UNROLLED(e, 4) a_high[e] = HIGH(a[e]);
#if PRODUCTS == 3
          // Neighbouring products are of different sums: none waits for the one before it.
          CF_UINT a_low[4];
          FOR_UNROLLED(e, 4) a_low[e] = LOW(a[e]);
          FOR_UNROLLED(j, 4) CF_MMA_FLOAT32(to[j], a_low, b_high[j]);
          FOR_UNROLLED(j, 4) CF_MMA_FLOAT32(to[j], a_high, b_low[j]);
#endif
          FOR_UNROLLED(j, 4) CF_MMA_FLOAT32(to[j], a_high, b_high[j]);
        }
      }
      if (!early) {
        CF_COPIES_WAIT(1);
        TRANSFORM_NEXT(step + 1);
      }
    }

    // Computed once more, so that it takes no registers meanwhile.
    int again = number;
    asm volatile("" : "+r"(again));
    const Block block = block_of(again, filters, tiles);
    CF_BARRIER();
    FOR_UNROLLED(i, WAVE_SUMS) {
      const int point = i < 2 * WHOLE_POINTS ? first_point + i / 2 : last_point;
      const int line = lane / 4 + (i < 2 * WHOLE_POINTS ? i % 2 : wave % 2) * 16;
      FOR_UNROLLED(j, 4) FOR_UNROLLED(h, 2) {
        float2 pair;
        pair.x = sum[i][j][2 * h];
        pair.y = sum[i][j][2 * h + 1];
        *(CF_LOCAL_PTR float2 *)(local_memory + SUM_PLACE(point, line + h * 8, lane % 4 * 2 + 8 * j)) = pair;
      }
    }
    CF_BARRIER();
    for (int at = item; at < TILES * FILTERS; at += THREADS) {
      const int line = at / FILTERS, other = at % FILTERS;
      const int tile = block.tile + line, filter = block.filter + other;
      if (tile >= tiles || filter >= filters) continue;
      VALUE sums[POINTS], output[OUTPUTS * OUTPUTS];
      FOR_UNROLLED(p, POINTS) sums[p] = local_memory[SUM_PLACE(p, line, other)];
      TRANSFORM(transform_result, sums, SIZE, output, OUTPUTS);
      const int above = tile / tiles_w, column = tile % tiles_w * OUTPUTS, row = above % tiles_h * OUTPUTS;
      const int out_step = groups * filters;
      CF_GLOBAL float *to = result + (CF_LONG)(above / tiles_h) * out_height * out_width * out_step +
                            block.group * filters + filter + (row * out_width + column) * out_step;
      store_tile(to, output, out_height - row, out_width - column, out_width * out_step, out_step,
                 block.group * filters + filter, epilogue);
    }
  }
  CF_COPIES_WAIT(0);
}
