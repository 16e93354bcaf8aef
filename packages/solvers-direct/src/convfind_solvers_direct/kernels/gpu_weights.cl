// Weight gradient with few channels a group on GPUs.
//
// A work-group sums over a part of all images and positions, for the weights of a few groups (channels
// first) or of UNITS neighbouring weights' channels (channels last). An item has the sums of CHUNK filter
// rows of one channel of w in registers, and walks down x like the forward kernels. At the end items of
// the same sums add up through local memory, in a fixed order.
#include "gpu_lanes.h"
#include "gpu_edge.h"
#include "gpu_stage.h"

#ifndef CHANNELS_LAST
#define CHANNELS_LAST 0   // 0: channels first; 1: channels last
#endif
#ifndef CHUNK
#define CHUNK FILTER_H    // filter rows of an item: 1..FILTER_H
#endif
#ifndef COLUMNS
#define COLUMNS 1         // CHANNELS_LAST: neighbouring columns of y that an item takes at a time
#endif
#ifndef UNITS
#define UNITS 32          // CHANNELS_LAST: LANES of the weights' channels of a work-group: divides ITEMS
#endif
#ifndef STEPPED
#define STEPPED 0         // 1, CHANNELS_LAST: pointers go from place to place; offsets of all would fill the registers
#endif
#ifndef SPLIT
#define SPLIT 0           // 1: the sums are parts of the result, which direct_gpu_sum adds up
#endif

#define CHUNKS ((FILTER_H + CHUNK - 1) / CHUNK)
#define WALK SPAN(ROWS, CHUNK, STRIDE_H, DILATION_H)
#define MEETS(o, r) MEET(o, r, CHUNK, STRIDE_H, DILATION_H)
#define TAP(o, r) (DISTANCE(o, r, CHUNK, STRIDE_H, DILATION_H) / DILATION_H)

#if SPLIT
#define RESULT float
#define WRITE(to, sum, epilogue) (*(to) = (sum))
#else
#define RESULT ELEMENT
#define WRITE(to, sum, epilogue) store(to, sum, 0, epilogue)
#endif

#if CHANNELS_LAST
#define SHARERS (ITEMS / UNITS)  // items with the same sums
#if STEPPED
#define AT(pointer, offset) (pointer)
#define STEP(pointer, offset) ((pointer) += (offset))
#else
#define AT(pointer, offset) ((pointer) + (offset))
#define STEP(pointer, offset) ((void)0)
#endif

// Global size: (ITEMS for each UNITS * LANES of the weights' channels, CHUNKS, parts). Steps are tiles of ROWS x
// COLUMNS places of y, `per_part` for each part.
CF_KERNEL CF_WORK_GROUP_SIZE(ITEMS, 1, 1) void direct_gpu_weights(
    CF_GLOBAL const ELEMENT *CF_RESTRICT x, CF_GLOBAL const ELEMENT *CF_RESTRICT y, CF_GLOBAL RESULT *CF_RESTRICT w,
    CF_EPILOGUE_PARAMETERS, const int images, const int groups, const int x_h, const int x_w,
    const int y_h, const int y_w, const int pad_h, const int pad_w, const int per_part) {
  const Epilogue epilogue = CF_EPILOGUE(w);
  CF_LOCAL float shared[ITEMS * FILTER_W * LANES];
  const int item = (int)CF_LOCAL_ID(0), chunk = (int)CF_GROUP_ID(1) * CHUNK, sharer = item / UNITS;
  const int all = groups * FILTERS * CHANNELS, unit = ((int)CF_GROUP_ID(0) * UNITS + item % UNITS) * LANES;
  const int k = min(unit / CHANNELS, groups * FILTERS - LANES), c = unit % CHANNELS;
  const int across = (y_w + COLUMNS - 1) / COLUMNS, down = (y_h + ROWS - 1) / ROWS;
  const int steps = images * down * across, first = (int)CF_GROUP_ID(2) * per_part;
  const int x_pixel = groups * CHANNELS, y_pixel = groups * FILTERS;
  x += k / FILTERS * CHANNELS + c;
  y += k;

  float sum[CHUNK][FILTER_W][LANES];
  FOR_UNROLLED(i, CHUNK) {
    FOR_UNROLLED(f, FILTER_W) { FOR_UNROLLED(l, LANES) sum[i][f][l] = 0.0f; }
  }
  for (int step = first + sharer; step < min(first + per_part, steps); step += SHARERS) {
    const int line = step / across, p0 = step % across * COLUMNS, image = line / down, o0 = line % down * ROWS;
    const int rows = y_h - o0, columns = y_w - p0;
    CF_GLOBAL const ELEMENT *of = y + ((CF_LONG)image * y_h + o0) * y_w * y_pixel + p0 * y_pixel;
    float gradient[ROWS][COLUMNS][LANES];
    FOR_UNROLLED(o, ROWS) {
      FOR_UNROLLED(p, COLUMNS) {
        FOR_UNROLLED(l, LANES) gradient[o][p][l] = 0.0f;
        if (o < rows && p < columns) LOAD_LANES(gradient[o][p], AT(of, (o * y_w + p) * y_pixel));
        STEP(of, y_pixel);
      }
      STEP(of, (y_w - COLUMNS) * y_pixel);
    }
    const int row = o0 * STRIDE_H - pad_h + chunk * DILATION_H, column = p0 * STRIDE_W - pad_w;
    CF_GLOBAL const ELEMENT *from = x + ((CF_LONG)image * x_h + row) * x_w * x_pixel + column * x_pixel;
    FOR_UNROLLED(r, WALK) {
      const int inside = row + r >= 0 && row + r < x_h;
      float value[COLUMN_SPAN][LANES];
      FOR_UNROLLED(j, COLUMN_SPAN) {
        FOR_UNROLLED(l, LANES) value[j][l] = 0.0f;
        if (inside && column + j >= 0 && column + j < x_w) LOAD_LANES(value[j], AT(from, (r * x_w + j) * x_pixel));
        STEP(from, x_pixel);
      }
      STEP(from, (x_w - COLUMN_SPAN) * x_pixel);
      FOR_UNROLLED(o, ROWS) {
        if (!MEETS(o, r) || IS_BEHIND(o, rows)) continue;
        FOR_UNROLLED(j, COLUMN_SPAN) {
          FOR_UNROLLED(p, COLUMNS) {
            if (!COLUMNS_MEET(p, j) || IS_BEHIND(p, columns)) continue;
            FOR_UNROLLED(l, LANES)
              sum[TAP(o, r)][COLUMN_TAP(p, j)][l] =
                  CF_FMA(value[j][l], gradient[o][p][l], sum[TAP(o, r)][COLUMN_TAP(p, j)][l]);
          }
        }
      }
    }
  }

  w += SPLIT ? (CF_LONG)CF_GROUP_ID(2) * all * TAPS : 0;
  FOR_UNROLLED(i, CHUNK) {
    FOR_UNROLLED(f, FILTER_W) {
      FOR_UNROLLED(l, LANES) shared[(f * LANES + l) * ITEMS + item] = sum[i][f][l];
    }
    CF_BARRIER();
    for (int e = item; e < UNITS * FILTER_W * LANES; e += ITEMS) {
      const int f = e / UNITS / LANES, l = e / UNITS % LANES;
      const int of = ((int)CF_GROUP_ID(0) * UNITS + e % UNITS) * LANES + l;
      float total = 0.0f;
      for (int s = 0; s < SHARERS; ++s) total += shared[(f * LANES + l) * ITEMS + s * UNITS + e % UNITS];
      if (of < all && chunk + i < FILTER_H) {
        const CF_LONG to = ((CF_LONG)(of / CHANNELS) * TAPS + (chunk + i) * FILTER_W + f) * CHANNELS + of % CHANNELS;
        WRITE(w + to, total, epilogue);
      }
    }
    CF_BARRIER();
  }
}

#else

// Global size: (ITEMS for each run of `sets` groups, CHUNKS, parts). Steps are bands of `band` rows of y of
// an image, `bands` an image and `per_part` for each part; `sharers` items have the same sums.
CF_KERNEL CF_WORK_GROUP_SIZE(ITEMS, 1, 1) void direct_gpu_weights(
    CF_GLOBAL const ELEMENT *CF_RESTRICT x, CF_GLOBAL const ELEMENT *CF_RESTRICT y, CF_GLOBAL RESULT *CF_RESTRICT w,
    CF_EPILOGUE_PARAMETERS, const int images, const int groups, const int x_h, const int x_w,
    const int y_h, const int y_w, const int pad_h, const int pad_w, const int per_part, const int sets,
    const int sharers, const int bands, const int band, const int per_columns) {
  const Epilogue epilogue = CF_EPILOGUE(w);
  CF_LOCAL float staged[TILE_FLOATS] __attribute__((aligned(16)));
  const int item = (int)CF_LOCAL_ID(0), chunk = (int)CF_GROUP_ID(1) * CHUNK, first_set = (int)CF_GROUP_ID(0) * sets;
  const int own_sets = min(sets, groups - first_set), pairs = own_sets * FILTERS * CHANNELS;
  const int pair = item / sharers, sharer = item % sharers;
  const int k = first_set * FILTERS + pair / CHANNELS, source = pair / CHANNELS / FILTERS * CHANNELS + pair % CHANNELS;
  const int steps = images * bands, first = (int)CF_GROUP_ID(2) * per_part;
  const int x_plane = x_h * x_w, y_plane = y_h * y_w;
  const CF_LONG size = (CF_LONG)images * groups * CHANNELS * x_plane;

  float sum[CHUNK][FILTER_W];
  FOR_UNROLLED(i, CHUNK) { FOR_UNROLLED(f, FILTER_W) sum[i][f] = 0.0f; }
  for (int step = first; step < min(first + per_part, steps); ++step) {
    const int image = step / bands, top = step % bands * band;
    // The rows that the band takes; all where it is the image.
    const int above = top * STRIDE_H - pad_h;
    const int row0 = bands == 1 ? 0 : min(max(above, 0), x_h);
    const int row1 = bands == 1 ? x_h : min(max(above + SPAN(band, FILTER_H, STRIDE_H, DILATION_H), row0), x_h);
    const int pitch = bands == 1 ? x_plane : ((row1 - row0) * x_w + 3) / 4 * 4 + 4;
    const CF_LONG start = ((CF_LONG)image * groups + first_set) * CHANNELS * x_plane + (CF_LONG)row0 * x_w;
    CF_BARRIER();
    if (bands == 1) {
      stage(staged, x, start, own_sets * CHANNELS * x_plane, size, item);
    } else {
      for (int c = 0; c < own_sets * CHANNELS; ++c)
        stage(staged + c * pitch, x, start + (CF_LONG)c * x_plane, (row1 - row0) * x_w, size, item);
    }
    CF_BARRIER();
    if (pair >= pairs) continue;

    const CF_LONG own = bands == 1 ? start : start + (CF_LONG)source * x_plane;
    CF_LOCAL_PTR const float *plane = staged + source * pitch + SKIP(own);
    CF_GLOBAL const ELEMENT *results = y + ((CF_LONG)image * groups * FILTERS + k) * y_plane;
    const int strips = (min(band, y_h - top) + ROWS - 1) / ROWS;
    for (int index = sharer; index < strips * y_w; index += sharers) {
      const int strip = QUOTIENT(index, per_columns), column = index - strip * y_w, o0 = top + strip * ROWS;
      const int rows = y_h - o0;
      float gradient[ROWS];
      FOR_UNROLLED(o, ROWS) gradient[o] = o < rows ? LOAD(results, (o0 + o) * y_w + column) : 0.0f;
      const int row = o0 * STRIDE_H - pad_h + chunk * DILATION_H, at = column * STRIDE_W - pad_w;
      CF_LOCAL_PTR const float *from = plane + (row - row0) * x_w + at;
      FOR_UNROLLED(r, WALK) {
        const int inside = row + r >= 0 && row + r < x_h;
        float value[FILTER_W];
        FOR_UNROLLED(f, FILTER_W) {
          const int place = at + f * DILATION_W;
          value[f] = inside && place >= 0 && place < x_w ? from[r * x_w + f * DILATION_W] : 0.0f;
        }
        FOR_UNROLLED(o, ROWS) {
          if (!MEETS(o, r) || IS_BEHIND(o, rows)) continue;
          FOR_UNROLLED(f, FILTER_W) sum[TAP(o, r)][f] = CF_FMA(value[f], gradient[o], sum[TAP(o, r)][f]);
        }
      }
    }
  }

  w += SPLIT ? (CF_LONG)CF_GROUP_ID(2) * groups * FILTERS * CHANNELS * TAPS : 0;
  w += (CF_LONG)first_set * FILTERS * CHANNELS * TAPS;
  FOR_UNROLLED(i, CHUNK) {
    CF_BARRIER();
    FOR_UNROLLED(f, FILTER_W) staged[f * ITEMS + item] = sum[i][f];
    CF_BARRIER();
    for (int e = item; e < pairs * FILTER_W; e += ITEMS) {
      const int of = e / FILTER_W, f = e % FILTER_W;
      float total = 0.0f;
      for (int s = 0; s < sharers; ++s) total += staged[f * ITEMS + of * sharers + s];
      if (chunk + i < FILTER_H) WRITE(w + ((CF_LONG)of * TAPS + (chunk + i) * FILTER_W + f), total, epilogue);
    }
  }
}
#endif
