// How the windows of a source become a tile in local memory, for the GPU kernels of forward and the data gradient.
//
// GATHER says how items share the work:
//   GATHER_RUN        an item has a position and reads a run of channels of one tap. All in bounds or none: the
//                     positions of a tap that are in bounds are bits of a mask.
//   GATHER_CHANNELS   channels last: an item reads four neighbouring channels at a time, for a few positions.
//   GATHER_POSITIONS  1x1, channels first: an item reads four neighbouring positions at a time.
//   GATHER_TABLE      channels and taps are one axis; what lies where is looked up in a table of the step.
// With FETCH, elements travel to local memory past the registers, four where GATHER_POSITIONS has them aligned, else
// one by one. That leaves registers for another work-group a unit, and no address that has to outlive a product.
#define CHANNEL(row, column) (CHANNELS_LAST ? (column) : (row))
#include "gpu_geometry.h"
#include "convfind_gpu_tile.h"

#define GATHER_RUN 0
#define GATHER_CHANNELS 1
#define GATHER_POSITIONS 2
#define GATHER_TABLE 3
#ifndef GATHER
#define GATHER GATHER_RUN
#endif
#ifndef POINTWISE
#define POINTWISE 0  // 1: 1x1, stride 1, no padding: every position is in bounds
#endif
#ifndef WHOLE_SOURCE
#define WHOLE_SOURCE 0  // 1: SOURCE_CHANNELS is a multiple of TILE_K
#endif
#ifndef FETCH
#define FETCH 0  // 1, for floats, channels first, GATHER_RUN or GATHER_POSITIONS, on NVIDIA's GPUs from sm_80 on
#endif
#if FETCH
#include "convfind_nvidia.h"
#endif

#define TILE_P (CHANNELS_LAST ? TILE_M : TILE_N)  // positions
#define TILE_C (CHANNELS_LAST ? TILE_N : TILE_M)  // channels of the result
#define GATHERED (TILE_P * TILE_K / THREADS)      // elements that an item reads
#if GATHER == GATHER_CHANNELS
#define PLACES (GATHERED / 4)
#elif GATHER == GATHER_POSITIONS
#define PLACES 4
#else
#define PLACES (TILE_P > THREADS ? TILE_P / THREADS : 1)
#endif
#define RUN (GATHERED / PLACES)
#define GATHER_SKEW (GATHER == GATHER_CHANNELS ? SKEW_QUADS : SKEW_NONE)

// The windows that an item reads.
typedef struct {
#if GATHER == GATHER_POSITIONS
  CF_GLOBAL const ELEMENT *at[1];  // the first of four positions
  int behind[PLACES];              // how far the others lie behind it
  int wide;                        // whether they are its neighbours, and aligned
#else
  CF_GLOBAL const ELEMENT *at[PLACES];  // the first tap, in bounds or not
#endif
#if GATHER == GATHER_TABLE
  int d[PLACES], h[PLACES], w[PLACES];
#elif GATHER != GATHER_POSITIONS
  CF_UINT mask[PLACES];  // which taps are in bounds
#endif
} Windows;

// Where things of one step lie, for GATHER_TABLE.
typedef struct {
  int shift[TILE_K], d[TILE_K], h[TILE_K], w[TILE_K];
  int filter[TILE_K];  // negative: behind the last
} Table;

#if GATHER == GATHER_CHANNELS
#define PLACE_OF(item, q) ((item) / (TILE_K / 4) + (q) * (4 * THREADS / TILE_K))
#define FIRST_CHANNEL(item) ((item) % (TILE_K / 4) * 4)
#elif GATHER == GATHER_POSITIONS
#define PLACE_OF(item, q) ((item) % (TILE_P / 4) * 4 + (q))
#define FIRST_CHANNEL(item) ((item) / (TILE_P / 4))
#define CHANNEL_STRIDE (4 * THREADS / TILE_P)
#else
#define PLACE_OF(item, q) ((item) % TILE_P + (q) * THREADS)
#define FIRST_CHANNEL(item) ((item) / TILE_P * RUN)
#endif

CF_INLINE CF_UINT bits_inside(int origin, Axis axis, int size) {
  CF_UINT bits = 0;
  for (int tap = 0; tap < axis.taps; ++tap)
    bits |= (CF_UINT)is_inside(origin + tap * axis.tap_step, size) << tap;
  return bits;
}

CF_INLINE CF_UINT mask_inside(int at_d, int at_h, int at_w, Axis d, Axis h, Axis w, int size_d, int size_h,
                              int size_w) {
  const CF_UINT line = bits_inside(at_w, w, size_w), lines = bits_inside(at_h, h, size_h);
  CF_UINT mask = 0;
  for (int i = 0; i < d.taps; ++i) {
    if (!is_inside(at_d + i * d.tap_step, size_d)) continue;
    for (int j = 0; j < h.taps; ++j)
      if (lines >> j & 1u) mask |= line << ((i * h.taps + j) * w.taps);
  }
  return mask;
}

// The windows of the tile's positions, which all items look up there.
typedef struct {
  CF_LONG at[TILE_P];
#if GATHER == GATHER_TABLE
  int d[TILE_P], h[TILE_P], w[TILE_P];
#elif GATHER != GATHER_POSITIONS
  CF_UINT mask[TILE_P];
#endif
} Positions;

CF_INLINE void note_window(CF_LOCAL_PTR Positions *places, int i, Place place, Axis d, Axis h, Axis w, int size_d, int size_h,
                           int size_w, int position_step, CF_LONG image_step) {
  const int at_d = place.d * d.step + d.origin, at_h = place.h * h.step + h.origin;
  const int at_w = place.w * w.step + w.origin;
  places->at[i] = place.image * image_step + (((CF_LONG)at_d * size_h + at_h) * size_w + at_w) * position_step;
#if GATHER == GATHER_TABLE
  places->d[i] = at_d;
  places->h[i] = at_h;
  places->w[i] = at_w;
#elif GATHER != GATHER_POSITIONS
  places->mask[i] = POINTWISE ? 1u : mask_inside(at_d, at_h, at_w, d, h, w, size_d, size_h, size_w);
#endif
}

CF_INLINE void open_windows(Windows *windows, CF_GLOBAL const ELEMENT *source, CF_LOCAL_PTR const Positions *places, int item,
                            int space, int channel_step) {
  if (GATHER != GATHER_TABLE) source += (CF_LONG)FIRST_CHANNEL(item) * channel_step;
#if GATHER == GATHER_POSITIONS
  windows->wide = (space & 3) == 0;
  windows->at[0] = source + places->at[PLACE_OF(item, 0)];
  FOR_UNROLLED(q, PLACES) {
    windows->behind[q] = (int)(places->at[PLACE_OF(item, q)] - places->at[PLACE_OF(item, 0)]);
  }
#else
  CF_UNROLL
  for (int q = 0; q < PLACES; ++q) {
    const int i = PLACE_OF(item, q);
    windows->at[q] = source + places->at[i];
#if GATHER == GATHER_TABLE
    windows->d[q] = places->d[i];
    windows->h[q] = places->h[i];
    windows->w[q] = places->w[i];
#else
    windows->mask[q] = places->mask[i];
#endif
  }
#endif
}

#if GATHER == GATHER_TABLE
// Outputs: what the windows hold at a step. Item by item: its positions, and a run of the table's lines.
CF_INLINE void gather(float *part, const Windows *windows, CF_LOCAL_PTR const Table *table, int item, int size_d,
                      int size_h, int size_w) {
  CF_UNROLL
  for (int i = 0; i < RUN; ++i) {
    const int k = FIRST_CHANNEL(item) + i;
    const int shift = table->shift[k], d = table->d[k], h = table->h[k], w = table->w[k];
    CF_UNROLL
    for (int q = 0; q < PLACES; ++q) {
      const int inside = is_inside(windows->d[q] + d, size_d) && is_inside(windows->h[q] + h, size_h) &&
                         is_inside(windows->w[q] + w, size_w);
      part[q * RUN + i] = inside ? LOAD(windows->at[q], shift) : 0.0f;
    }
  }
}
#elif FETCH
// Copies what the windows hold at a tap, `shift` elements behind the first, `room` channels up to the last, to the
// tile; `to` is where the item's first element belongs.
CF_INLINED void gather(const CF_UINT to, const Windows *windows, int tap, int shift, int room, int item,
                       int channel_step) {
  const int first = FIRST_CHANNEL(item);
#if GATHER == GATHER_POSITIONS
  CF_GLOBAL const ELEMENT *from = windows->at[0] + shift;
  // The loops stand apart: a condition inside of one is asked at every copy.
  if (windows->wide) {
    FOR_UNROLLED(i, RUN) {
      const int there = WHOLE_SOURCE || first + i * CHANNEL_STRIDE < room;
      cf_copy_16(to + 4 * i * CHANNEL_STRIDE * TILE_P, from, there ? 16 : 0);
      from += CHANNEL_STRIDE * channel_step;
    }
  } else {
    FOR_UNROLLED(i, RUN) {
      const int there = WHOLE_SOURCE || first + i * CHANNEL_STRIDE < room;
      FOR_UNROLLED(q, 4) {
        cf_copy_4(to + 4 * (i * CHANNEL_STRIDE * TILE_P + q), from + windows->behind[q], there ? 4 : 0);
      }
      from += CHANNEL_STRIDE * channel_step;
    }
  }
#else
  CF_UNROLL
  for (int q = 0; q < PLACES; ++q) {
    CF_GLOBAL const ELEMENT *from = windows->at[q] + shift;
    const int inside = POINTWISE || (windows->mask[q] >> tap & 1u);
    const int left = inside ? room - first : 0;
    const CF_UINT all = inside ? 4 : 0;
    FOR_UNROLLED(i, RUN) {
      const CF_UINT size = WHOLE_SOURCE ? all : i < left ? 4 : 0;
      cf_copy_4(to + 4 * (i * TILE_P + PLACE_OF(0, q)), from + (CF_LONG)i * channel_step, size);
    }
  }
#endif
}
#else
// What the windows hold at a tap: `shift` elements behind the first, `room` channels up to the last.
CF_INLINE void gather(float *part, const Windows *windows, int tap, int shift, int room, int item,
                      int channel_step) {
#if GATHER == GATHER_POSITIONS
  CF_GLOBAL const ELEMENT *from = windows->at[0] + shift;
  CF_UNROLL
  for (int i = 0; i < RUN; ++i) {
    if (!WHOLE_SOURCE && FIRST_CHANNEL(item) + i * CHANNEL_STRIDE >= room) {
      FOR_UNROLLED(q, 4) part[4 * i + q] = 0.0f;
    } else if (windows->wide) {
      LOAD_FOUR(part + 4 * i, from);
    } else {
      FOR_UNROLLED(q, 4) part[4 * i + q] = LOAD(from, windows->behind[q]);
    }
    from += CHANNEL_STRIDE * channel_step;
  }
#else
  CF_UNROLL
  for (int q = 0; q < PLACES; ++q) {
    CF_GLOBAL const ELEMENT *from = windows->at[q] + shift;
    const int inside = POINTWISE || (windows->mask[q] >> tap & 1u);
    const int left = inside ? room - FIRST_CHANNEL(item) : 0;
    if (WHOLE_SOURCE ? inside : left >= RUN) {
#if GATHER == GATHER_CHANNELS
      LOAD_FOUR(part + 4 * q, from);
#else
      FOR_UNROLLED(i, RUN) part[q * RUN + i] = LOAD(from, (CF_LONG)i * channel_step);
#endif
    } else {
      FOR_UNROLLED(i, RUN) {
        part[q * RUN + i] = !WHOLE_SOURCE && i < left ? LOAD(from, (CF_LONG)i * channel_step) : 0.0f;
      }
    }
  }
#endif
}
#endif

#if !FETCH
CF_INLINE void put_windows(CF_LOCAL_PTR float *tile, const float *part, int item) {
  const int first = FIRST_CHANNEL(item);
#if GATHER == GATHER_POSITIONS
  FOR_UNROLLED(i, RUN) {
    CF_STORE4_LOCAL(tile + (first + i * CHANNEL_STRIDE) * TILE_P + PLACE_OF(item, 0), part + 4 * i);
  }
#else
  CF_LOCAL_PTR float *to = tile + first * TILE_P + SKEW(GATHER_SKEW, first) + PLACE_OF(item, 0);
  CF_UNROLL
  for (int q = 0; q < PLACES; ++q) {
    FOR_UNROLLED(i, RUN) to[i * TILE_P + PLACE_OF(0, q)] = part[q * RUN + i];
  }
#endif
}
#endif
