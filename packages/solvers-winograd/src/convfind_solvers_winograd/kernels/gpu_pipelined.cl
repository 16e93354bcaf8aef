// Winograd F(4 x 4, 3 x 3) in one launch on NVIDIA's GPUs, forward and the data gradient, channels last: some work-groups
// transform data and results, which memory bounds, while others multiply, which arithmetic does.
//
// Tiles go by in blocks of BLOCK. A block's transformed data and its sums of products lie in slots of two rings, which are
// small enough for the level-2 cache: device memory sees the source and the result alone. Tickets come in rounds: of a
// round are the data of the block that is `ahead` blocks on, the products of a block, and the results of the one that is
// `ahead` blocks back, in turns. Data wait until the slot's old data are multiplied, products for their data and until the
// slot's old sums are results, and results for their products: all of earlier rounds, as there are more than `ahead` slots.
#define CHANNELS_LAST 1
#include "gpu_value.h"
#include "transform_f4x3.h"
#define STRIDE OUTPUTS
#include "gpu_transform.h"
#include "gpu_store.h"
#include "convfind_nvidia.h"
#include "gpu_tickets.h"

#ifndef CHANNELS
#define CHANNELS 64  // of a group, filled up: a multiple of DEPTH
#endif
#ifndef FILTERS
#define FILTERS 64  // of a group, filled up: a multiple of 4
#endif

#define THREADS 128
#define BLOCK 64    // tiles of a block: rows of a product
#define COLUMNS 64  // filters of a product
#define DEPTH 16    // channels in local memory
#define STAGES 3    // of local memory: one is multiplied while others come
#define PARTS 16    // work-groups that transform a block's data, and its results

#define ROW_PITCH (DEPTH + 4)  // neighbouring rows in different banks
#define ROWS_FLOATS (BLOCK * ROW_PITCH)
#define STAGE_FLOATS (ROWS_FLOATS + DEPTH * COLUMNS)
// Of a slot: floats of a point of data and of sums.
#define DATA_POINT (BLOCK * CHANNELS)
#define SUMS_POINT (BLOCK * FILTERS)
#define COLUMN_BLOCKS ((FILTERS + COLUMNS - 1) / COLUMNS)
#define PRODUCTS (POINTS * COLUMN_BLOCKS)  // work-groups of a block
// Results of an item: rows 16 apart, and two groups of four columns.
#define ITEM_ROWS 4
#define ITEM_COLUMNS 8

// Counters of a block lie so far apart, and those of blocks three times as far.
#define APART 8
#define FIRST_COUNTER 32  // behind that of the tickets

typedef enum { DATA, PRODUCT, RESULT } Role;
typedef struct {
  Role role;
  int index, round;  // of the role's work-groups in a round
} Work;

// In a round each role's are evenly spread.
CF_INLINE Work work_of(const CF_UINT ticket) {
  const CF_UINT others = PRODUCTS + PARTS, all = others + PARTS;
  const CF_UINT round = ticket / all, place = ticket % all;
  Work work = {DATA, (int)(place * PARTS / all), (int)round};
  if ((int)((place + 1) * PARTS / all) > work.index) return work;
  const CF_UINT rest = place - work.index;
  work.role = RESULT;
  work.index = (int)(rest * PARTS / others);
  if ((int)((rest + 1) * PARTS / others) > work.index) return work;
  work.role = PRODUCT;
  work.index = (int)rest - work.index;
  return work;
}

// DEPTH channels of a and b.
#define FETCH(number)                                                                                                   \
  do {                                                                                                                  \
    if ((number) < CHANNELS / DEPTH) {                                                                                  \
      const CF_UINT to = base + (CF_UINT)((number) % STAGES) * (4 * STAGE_FLOATS);                                      \
      FOR_UNROLLED(q, 2) {                                                                                              \
        cf_copy_16(to + a_to + 4 * q * (BLOCK / 2) * ROW_PITCH, a + (number) * DEPTH + q * (BLOCK / 2) * CHANNELS, 16); \
        cf_copy_16(to + b_to + 4 * q * (DEPTH / 2) * COLUMNS, b + ((number) * DEPTH + q * (DEPTH / 2)) * FILTERS, 16);  \
      }                                                                                                                 \
    }                                                                                                                   \
    CF_COPIES_COMMIT();                                                                                                 \
  } while (0)

// c = a * b, of a block: COLUMNS columns from `left` on.
CF_INLINE void multiply_block(CF_GLOBAL const float *a, CF_GLOBAL const float *b, CF_GLOBAL float *c,
                              CF_LOCAL_PTR float *memory, const int left, const int item) {
  const CF_UINT base = CF_SHARED(memory);
  const int a_row = item / (DEPTH / 4), a_depth = item % (DEPTH / 4) * 4;
  const int b_depth = item / (COLUMNS / 4), b_column = item % (COLUMNS / 4) * 4;
  const CF_UINT a_to = 4 * (a_row * ROW_PITCH + a_depth), b_to = 4 * (ROWS_FLOATS + b_depth * COLUMNS + b_column);
  a += a_row * CHANNELS + a_depth;
  b += b_depth * FILTERS + min(left + b_column, FILTERS - 4);
  // Four neighbouring items are a square, which local memory serves at once.
  const int m = item / 32 * 4 + item % 32 / 16 * 2 + item / 2 % 2, n = (item / 4 % 4 * 2 + item % 2) * 4;
  float sum[ITEM_ROWS][ITEM_COLUMNS];
  FOR_UNROLLED(i, ITEM_ROWS) FOR_UNROLLED(j, ITEM_COLUMNS) sum[i][j] = 0.0f;
  FOR_UNROLLED(s, STAGES - 1) FETCH(s);
  // Straight code of all steps would not fit the cache of instructions.
#pragma unroll 1
  for (int step = 0; step < CHANNELS / DEPTH; ++step) {
    CF_COPIES_WAIT(STAGES - 2);
    CF_BARRIER();
    FETCH(step + STAGES - 1);
    CF_LOCAL_PTR const float *rows = memory + step % STAGES * STAGE_FLOATS + m * ROW_PITCH;
    CF_LOCAL_PTR const float *columns = memory + step % STAGES * STAGE_FLOATS + ROWS_FLOATS + n;
    CF_UNROLL
    for (int deep = 0; deep < DEPTH; deep += 4) {
      float left_part[ITEM_ROWS][4];
      FOR_UNROLLED(i, ITEM_ROWS) CF_LOAD4_LOCAL(left_part[i], rows + i * 16 * ROW_PITCH + deep);
      FOR_UNROLLED(e, 4) {
        float right_part[ITEM_COLUMNS];
        CF_LOAD4_LOCAL(right_part, columns + (deep + e) * COLUMNS);
        CF_LOAD4_LOCAL(right_part + 4, columns + (deep + e) * COLUMNS + COLUMNS / 2);
        FOR_UNROLLED(i, ITEM_ROWS) FOR_UNROLLED(j, ITEM_COLUMNS) {
          // To and fro, so that one factor is always that of the product before.
          const int column = i % 2 ? ITEM_COLUMNS - 1 - j : j;
          sum[i][column] = CF_FMA(left_part[i][e], right_part[column], sum[i][column]);
        }
      }
    }
  }
  FOR_UNROLLED(i, ITEM_ROWS) FOR_UNROLLED(side, 2) {
    const int column = left + n + side * (COLUMNS / 2);
    if (column < FILTERS) CF_STORE4(c + (m + 16 * i) * FILTERS + column, sum[i] + 4 * side);
  }
}

// One-dimensional grid: as many work-groups as tickets. `counters` are zeros before; rings have `slots` slots each of
// [point][tile][channel], and filters; `points` are the filters'. Blocks are numbered group by group.
CF_KERNEL CF_WORK_GROUP_SIZE(THREADS, 1, 1) void winograd_gpu_pipelined(
    CF_GLOBAL const float *source, CF_GLOBAL const float *points, CF_GLOBAL float *result, CF_GLOBAL float *data,
    CF_GLOBAL float *sums, CF_GLOBAL int *counters, CF_EPILOGUE_PARAMETERS, const int images,
    const int groups, const int channels, const int filters, const int height, const int width, const int out_height,
    const int out_width, const int pad_h, const int pad_w, const int tiles_h, const int tiles_w, const int ahead,
    const int slots) {
  const Epilogue epilogue = CF_EPILOGUE(result);
  CF_LOCAL float memory[STAGES * STAGE_FLOATS] __attribute__((aligned(16)));
  CF_LOCAL int ticket;
  const int item = (int)CF_LOCAL_ID(0);
  const int tiles = images * tiles_h * tiles_w, blocks = (tiles + BLOCK - 1) / BLOCK;
  if (item == 0) ticket = take_ticket(counters);
  CF_BARRIER();
  const Work work = work_of((CF_UINT)ticket);
  const int number = work.round - (work.role == DATA ? 0 : work.role == PRODUCT ? ahead : 2 * ahead);
  if (number < 0 || number >= groups * blocks) return;

  CF_GLOBAL int *done = counters + FIRST_COUNTER + number * (3 * APART), *before = done - slots * (3 * APART);
  if (item == 0) {
    if (work.role == DATA && number >= slots) wait_until_done(before + PRODUCT * APART, PRODUCTS);
    if (work.role == PRODUCT) wait_until_done(done + DATA * APART, PARTS);
    if (work.role == PRODUCT && number >= slots) wait_until_done(before + RESULT * APART, PARTS);
    if (work.role == RESULT) wait_until_done(done + PRODUCT * APART, PRODUCTS);
  }
  CF_BARRIER();

  const int group = number / blocks, first_tile = number % blocks * BLOCK;
  data += number % slots * (POINTS * DATA_POINT);
  sums += number % slots * (POINTS * SUMS_POINT);
  if (work.role == PRODUCT) {
    const int point = work.index / COLUMN_BLOCKS;
    multiply_block(data + point * DATA_POINT, points + (point * groups + group) * (CF_LONG)(CHANNELS * FILTERS),
                   sums + point * SUMS_POINT, memory, work.index % COLUMN_BLOCKS * COLUMNS, item);
  } else if (work.role == DATA) {
    const int first = work.index * (DATA_POINT / PARTS);
#pragma unroll 1
    for (int at = first + item; at < first + DATA_POINT / PARTS; at += THREADS) {
      const int channel = at % CHANNELS, tile = first_tile + at / CHANNELS;
      if (tile >= tiles) break;
      const int above = tile / tiles_w, there = channel < channels, position_step = groups * channels;
      CF_GLOBAL const float *from = source;
      if (there) from += (CF_LONG)(above / tiles_h) * height * width * position_step + group * channels + channel;
      VALUE patch[POINTS], transformed[POINTS];
      READ_PATCH(patch, from, SIZE, above % tiles_h * OUTPUTS - pad_h, tile % tiles_w * OUTPUTS - pad_w, 1, 1,
                 there ? height : 0, width, width * position_step, position_step);
      TRANSFORM(transform_data, patch, SIZE, transformed, SIZE);
      FOR_UNROLLED(p, POINTS) data[at + p * DATA_POINT] = transformed[p];
    }
  } else {
    const int first = work.index * (SUMS_POINT / PARTS);
#pragma unroll 1
    for (int at = first + item; at < first + SUMS_POINT / PARTS; at += THREADS) {
      const int filter = at % FILTERS, tile = first_tile + at / FILTERS;
      if (tile >= tiles) break;
      if (filter >= filters) continue;
      VALUE of_points[POINTS], values[OUTPUTS * OUTPUTS];
      FOR_UNROLLED(p, POINTS) of_points[p] = load_of_others(sums + at + p * SUMS_POINT);
      TRANSFORM(transform_result, of_points, SIZE, values, OUTPUTS);
      const int above = tile / tiles_w, row = above % tiles_h * OUTPUTS, column = tile % tiles_w * OUTPUTS;
      const int step = groups * filters;
      CF_GLOBAL float *to = result + (((CF_LONG)(above / tiles_h) * out_height + row) * out_width + column) * step +
                            group * filters + filter;
      store_tile(to, values, out_height - row, out_width - column, out_width * step, step,
                 group * filters + filter, epilogue);
    }
  }
  CF_BARRIER();
  if (item == 0) count_done(done + work.role * APART);
}
