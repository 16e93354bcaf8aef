// How the weights become a tile in local memory, for the GPU kernels of forward and the data gradient.
//
// FILTER says which neighbours an item reads at once:
//   FILTER_ONE     single elements
//   FILTER_SOURCE  four channels of the source: they are neighbours, and a multiple of four
//   FILTER_RESULT  four channels of the result, likewise
// With FETCH, elements travel to local memory past the registers; not with FILTER_SOURCE, as the four belong apart.
#include "gpu_geometry.h"
#include "convfind_gpu_tile.h"

#define FILTER_ONE 0
#define FILTER_SOURCE 1
#define FILTER_RESULT 2
#ifndef FILTER
#define FILTER FILTER_ONE
#endif
#ifndef WHOLE_RESULT
#define WHOLE_RESULT 0  // 1: RESULT_CHANNELS is a multiple of the tile's channels
#endif

// Elements from one channel, and from one tap, to the next.
#define FILTER_CHANNELS (BACKWARD ? RESULT_CHANNELS : SOURCE_CHANNELS)
#define FILTER_INNER_STEP (CHANNELS_LAST ? 1 : TAPS)
#define FILTER_OUTER_STEP (TAPS * FILTER_CHANNELS)
#define FILTER_SOURCE_STEP (BACKWARD ? FILTER_OUTER_STEP : FILTER_INNER_STEP)
#define FILTER_RESULT_STEP (BACKWARD ? FILTER_INNER_STEP : FILTER_OUTER_STEP)
#define FILTER_TAP_STEP (CHANNELS_LAST ? FILTER_CHANNELS : 1)
#define FILTER_GROUP_STEP ((CF_LONG)(BACKWARD ? SOURCE_CHANNELS : RESULT_CHANNELS) * FILTER_OUTER_STEP)

#define FILTERED (TILE_C * TILE_K / THREADS)  // elements that an item reads
#if FILTER == FILTER_SOURCE
#define FILTER_SKEW SKEW_QUADS
#define FILTER_STRIDE (4 * THREADS / TILE_K)
#define FILTER_X(item) ((item) / (TILE_K / 4))
#define FILTER_K(item) ((item) % (TILE_K / 4) * 4)
#elif FILTER == FILTER_RESULT
#define FILTER_SKEW SKEW_NONE
#define FILTER_STRIDE (4 * THREADS / TILE_C)
#define FILTER_X(item) ((item) % (TILE_C / 4) * 4)
#define FILTER_K(item) ((item) / (TILE_C / 4))
#elif BACKWARD
// Neighbouring items read neighbouring channels of whichever tensor has its own closer together.
#define FILTER_SKEW SKEW_NONE
#define FILTER_STRIDE (THREADS / TILE_C)
#define FILTER_X(item) ((item) % TILE_C)
#define FILTER_K(item) ((item) / TILE_C)
#else
#define FILTER_SKEW SKEW_ROWS
#define FILTER_STRIDE (THREADS / TILE_K)
#define FILTER_X(item) ((item) / TILE_K)
#define FILTER_K(item) ((item) % TILE_K)
#endif

// Where channel k of the source begins, and whether it is there: the step has `room` of them.
#if GATHER == GATHER_TABLE
#define FILTER_AT(k) (table->filter[k])
#define FILTER_HAS(k) (table->filter[k] >= 0)
#else
#define FILTER_AT(k) ((k) * source_step)
#define FILTER_HAS(k) ((WHOLE_SOURCE && !FUSED) || (k) < room)
#endif
#define CLAMPED(x, last) (WHOLE_RESULT ? (x) : min(x, last))

#if FETCH
// Copies the elements of a step to the tile, `to` the place of the item's first; for the others see below.
CF_INLINED void read_filter(const CF_UINT to, CF_GLOBAL const ELEMENT *from, CF_LOCAL_PTR const Table *table, int item,
                            int last, int room, int result_step, int source_step) {
  const int x = FILTER_X(item), k = FILTER_K(item);
#if FILTER == FILTER_RESULT
  from += CLAMPED(x, last - 3) + k * source_step;
  FOR_UNROLLED(i, FILTERED / 4) {
    cf_copy_16(to + 4 * i * FILTER_STRIDE * TILE_C, from, FILTER_HAS(k + i * FILTER_STRIDE) ? 16 : 0);
    from += FILTER_STRIDE * source_step;
  }
#elif BACKWARD
  if (!FUSED) from += CLAMPED(x, last) * result_step;
  from += k * source_step;
  FOR_UNROLLED(i, FILTERED) {
    const int there = FILTER_HAS(k + i * FILTER_STRIDE);
    cf_copy_4(to + 4 * i * FILTER_STRIDE * TILE_C, from + (CF_LONG)(i * FILTER_STRIDE) * source_step, there ? 4 : 0);
  }
#else
  const CF_UINT size = FILTER_HAS(k) ? 4 : 0;
  from += CLAMPED(x, last) * result_step + FILTER_AT(k);
  FOR_UNROLLED(i, FILTERED) {
    cf_copy_4(to + 4 * i * FILTER_STRIDE, from, size);
    if (WHOLE_RESULT || x + (i + 1) * FILTER_STRIDE <= last) from += FILTER_STRIDE * result_step;
  }
#endif
}
#else
// The elements of a step; `from` is what channel 0 of the source's block, and of the tile's, has at the tap.
// Channels of the result behind the `last` are read as the last one, those of the source are zero.
CF_INLINE void read_filter(float *part, CF_GLOBAL const ELEMENT *from, CF_LOCAL_PTR const Table *table, int item,
                           int last, int room, int result_step, int source_step) {
#if FILTER == FILTER_SOURCE
  const int there = FILTER_HAS(FILTER_K(item));
  from += CLAMPED(FILTER_X(item), last) * result_step + FILTER_K(item);
  CF_UNROLL
  for (int i = 0; i < FILTERED / 4; ++i) {
    if (there) {
      LOAD_FOUR(part + 4 * i, from);
    } else {
      FOR_UNROLLED(e, 4) part[4 * i + e] = 0.0f;
    }
    if (WHOLE_RESULT || FILTER_X(item) + (i + 1) * FILTER_STRIDE <= last) from += FILTER_STRIDE * result_step;
  }
#elif FILTER == FILTER_RESULT
  from += CLAMPED(FILTER_X(item), last - 3) + FILTER_K(item) * source_step;
  CF_UNROLL
  for (int i = 0; i < FILTERED / 4; ++i) {
    if (FILTER_HAS(FILTER_K(item) + i * FILTER_STRIDE)) {
      LOAD_FOUR(part + 4 * i, from);
    } else {
      FOR_UNROLLED(e, 4) part[4 * i + e] = 0.0f;
    }
    from += FILTER_STRIDE * source_step;
  }
#elif BACKWARD
  if (!FUSED) from += CLAMPED(FILTER_X(item), last) * result_step;
  if (GATHER != GATHER_TABLE) from += FILTER_K(item) * source_step;
  FOR_UNROLLED(i, FILTERED) {
    const int k = FILTER_K(item) + i * FILTER_STRIDE;
    const CF_LONG at = GATHER == GATHER_TABLE ? FILTER_AT(k) : (CF_LONG)(i * FILTER_STRIDE) * source_step;
    part[i] = FILTER_HAS(k) ? LOAD(from, at) : 0.0f;
  }
#else
  const int there = FILTER_HAS(FILTER_K(item));
  from += CLAMPED(FILTER_X(item), last) * result_step + FILTER_AT(FILTER_K(item));
  FOR_UNROLLED(i, FILTERED) {
    part[i] = there ? LOAD(from, 0) : 0.0f;
    if (WHOLE_RESULT || FILTER_X(item) + (i + 1) * FILTER_STRIDE <= last) from += FILTER_STRIDE * result_step;
  }
#endif
}

CF_INLINE void put_filter(CF_LOCAL_PTR float *tile, const float *part, int item) {
  const int x = FILTER_X(item), k = FILTER_K(item);
  CF_LOCAL_PTR float *to = tile + k * TILE_C + SKEW(FILTER_SKEW, k) + x;
#if FILTER == FILTER_SOURCE
  CF_UNROLL
  for (int i = 0; i < FILTERED / 4; ++i) {
    FOR_UNROLLED(e, 4) to[e * TILE_C + i * FILTER_STRIDE] = part[4 * i + e];
  }
#elif FILTER == FILTER_RESULT
  FOR_UNROLLED(i, FILTERED / 4) { CF_STORE4_LOCAL(to + i * FILTER_STRIDE * TILE_C, part + 4 * i); }
#elif BACKWARD
  FOR_UNROLLED(i, FILTERED) to[i * FILTER_STRIDE * TILE_C] = part[i];
#else
  FOR_UNROLLED(i, FILTERED) to[i * FILTER_STRIDE] = part[i];
#endif
}
#endif
