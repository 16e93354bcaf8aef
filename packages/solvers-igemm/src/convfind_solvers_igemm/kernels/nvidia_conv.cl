// Implicit GEMM on Hopper's matrix units, forward and the data gradient: result = alpha * convolution + beta * result.
//
// The product of the source's windows, which are gathered tile by tile, and of the filter: rows are positions of the
// result, over all images, columns its channels, with FUSED those of all phases of the data gradient. The sum runs over
// blocks of channels and, inside a block, over the taps. Rows of the filter are a column each: taps, and in a tap
// channels of the source, see igemm_nvidia_pack. With PARTIAL work-groups share a sum: each adds up a run of its steps.
#include "nvidia_gather.h"
#include "nvidia_result.h"

#define BLOCKS ((SOURCE_CHANNELS + PER_ROW - 1) / PER_ROW)
#define FILTER_STEP(elements) ((SPLIT_BEFORE ? 2 : 1) * (elements))  // what they take
#define PRODUCTS_FIRST (GATHER == GATHER_LINES)  // before the copies, which is slower elsewhere
#define AHEAD (STAGES > 2 ? STAGES - 2 : 1)  // stages that are fetched before they are multiplied, with PRODUCTS 1

// Two lots of rows, for as many steps as a line has taps, and the stages' columns; or stages of both.
#if GATHER == GATHER_LINES
#define LINE_BYTES (ROWS_BYTES + EXTRA_ROWS * 128)
#define LINE(tiles, number) ((tiles) + (number) % 2 * LINE_BYTES)
#define COLUMNS_STEP ((SPLIT_BEFORE ? 2 : 1) * COLUMNS_BYTES)
#define COLUMNS(tiles, step) ((tiles) + 2 * LINE_BYTES + (step) % STAGES * COLUMNS_STEP)
#define STAGES_BYTES (2 * LINE_BYTES + STAGES * COLUMNS_STEP)
#else
#define COLUMNS(tiles, step) STAGE_COLUMNS(tiles, step)
#define STAGES_BYTES (STAGES * STAGE_BYTES)
#endif
#define SPLIT_AT(tiles, step) ((tiles) + STAGES_BYTES + (step) % SPLIT_STAGES * 2 * COLUMNS_BYTES)
#define OPERAND_BYTES (STAGES_BYTES + SPLIT_BYTES)
#define MEMORY_BYTES (WIDE && TILE_M * RESULT_ROW > OPERAND_BYTES ? TILE_M * RESULT_ROW : OPERAND_BYTES)

// n / number, n below 2^31: `by` holds a factor, and from bit 32 on a shift; see reciprocal() in nvidia_conv.py.
#if FIXED
#define DIVIDED(n, number, by) ((n) / (number))
#else
#define DIVIDED(n, number, by) ((int)((ulong)(CF_UINT)(n) * (CF_UINT)(by) >> (int)((by) >> 32)))
#endif

#if IS_FLAT
// Step after step.
#define NOTE_ENTRIES(step)                                                                                       \
  do {                                                                                                           \
    if (item < ENTRIES) {                                                                                        \
      entries[(step) % 2][item] =                                                                                \
          entry_of(along, d, h, w, SOURCE_H, SOURCE_W, SOURCE_POSITION_STEP, SOURCE_CHANNEL_STEP);               \
      along = moved_place(along, by, h.taps, w.taps, SOURCE_CHANNELS / UNIT);                                    \
    }                                                                                                            \
  } while (0)
#if IN_PIECES
#define FETCH_WINDOWS(step)                                                                                      \
  do {                                                                                                           \
    const Entry entry = entries[(step) % 2][item % 8];                                                           \
    Window own[4];                                                                                               \
    read_windows(own, windows, item);                                                                            \
    fetch_pieces(STAGE_ROWS(tiles, step), source, own, item, entry.shift, (ulong)1 << entry.tap);                \
  } while (0)
#else
#define FETCH_WINDOWS(step) \
  fetch_windows(STAGE_ROWS(tiles, step), source, windows, entries[(step) % 2], item, 0, 0, 0, 0)
#endif
#define FETCH(step)                                                                                              \
  do {                                                                                                           \
    if ((step) < steps) {                                                                                        \
      FETCH_WINDOWS(step);                                                                                       \
      fetch_filter(STAGE_COLUMNS(tiles, step), filter + (step) * FILTER_STEP(PER_ROW), item,                     \
                   FILTER_STEP(FILTER_ROW), columns, FILTER_ROW - (step) * PER_ROW);                             \
    }                                                                                                            \
    CF_COPIES_COMMIT();                                                                                          \
    NOTE_ENTRIES((step) + 1);                                                                                    \
  } while (0)
#else
#if GATHER == GATHER_EACH
#define FETCH_WINDOWS(step) \
  fetch_windows(STAGE_ROWS(tiles, step), source, windows, entries, item, shift, tap, room, SOURCE_CHANNEL_STEP)
#else
#define FETCH_PIECES(to, bit)                                                                 \
  do {                                                                                        \
    Window own[OWN_WINDOWS];                                                                  \
    read_windows(own, windows, item);                                                         \
    fetch_pieces(to, source, own, item, shift + item % 8 * PER_PIECE,                         \
                 item % 8 * PER_PIECE < room ? (ulong)1 << (bit) : 0);                        \
  } while (0)
#if GATHER == GATHER_LINES
#define FETCH_WINDOWS(step)                                             \
  do {                                                                  \
    if (of_line == 0) FETCH_PIECES(LINE(tiles, lines), line);           \
    if (++of_line == w.taps) {                                          \
      of_line = 0;                                                      \
      ++lines;                                                          \
      if (++line == d.taps * h.taps) line = 0;                          \
    }                                                                   \
  } while (0)
#else
#define FETCH_WINDOWS(step) FETCH_PIECES(STAGE_ROWS(tiles, step), tap)
#endif
#endif
// The next step's entry is read at the end: nothing waits for it then.
#define FETCH(step)                                                                                    \
  do {                                                                                                 \
    if ((step) < steps) {                                                                              \
      const int room = SOURCE_CHANNELS - channel, shift = entry.shift + channel * SOURCE_CHANNEL_STEP; \
      FETCH_WINDOWS(step);                                                                             \
      fetch_filter(COLUMNS(tiles, step), filter + FILTER_STEP(entry.filter + channel), item,           \
                   FILTER_STEP(FILTER_ROW), columns, room);                                            \
      if (++tap == taps) {                                                                             \
        tap = 0;                                                                                       \
        channel += PER_ROW;                                                                            \
      }                                                                                                \
      entry = entries[tap];                                                                            \
    }                                                                                                  \
    CF_COPIES_COMMIT();                                                                                \
  } while (0)
#endif

// One-dimensional grid: channel tiles * position_tiles * groups * phases work-groups of THREADS items, with PARTIAL for
// each of `parts_of_sum`; a part of the result then has `part_size` elements. A row of the filter has FILTER_ROW
// elements, a tap in it FILTER_CHANNELS. by_... are for DIVIDED, the sizes of the result for a single phase.
CF_KERNEL CF_WORK_GROUP_SIZE(THREADS, 1, 1) void igemm_nvidia_conv(
    CF_GLOBAL const ELEMENT *source, CF_GLOBAL const ELEMENT *filter, CF_GLOBAL RESULT_ELEMENT *result,
    CF_EPILOGUE_PARAMETERS, const int position_tiles, const int FILTER_ROW, const int FILTER_CHANNELS,
    const CF_LONG by_channel_tiles, const CF_LONG by_position_tiles, const CF_LONG by_groups, const CF_LONG by_d,
    const CF_LONG by_h, const CF_LONG by_w,
#if PARTIAL
    const int parts_of_sum, const CF_LONG part_size,
#endif
    GEOMETRY) {
  const Epilogue whole = CF_EPILOGUE(result);
  CF_LOCAL unsigned char memory[MEMORY_BYTES] __attribute__((aligned(1024)));
  CF_LOCAL Window windows[WINDOWS] __attribute__((aligned(16)));
  CF_LOCAL CF_LONG result_at[TILE_M];
#if FUSED
  CF_LOCAL int phases_at[TILE_M], column_phase[TILE_N], column_at[TILE_N];
#endif
#if IS_FLAT
  CF_LOCAL Entry entries[2][ENTRIES];
#else
  CF_LOCAL Entry entries[MOST_TAPS];
#endif
  const CF_UINT tiles = CF_SHARED(memory);
#if WIDE && KEEPS_BIAS
  CF_LOCAL float bias_at[TILE_N] __attribute__((aligned(16)));
#define BIASES CF_SHARED(bias_at)
#else
#define BIASES 0
#endif

  const int channel_tiles = (FUSED_CHANNELS + TILE_N - 1) / TILE_N;
  const int number = (int)CF_GROUP_ID(0), tile = DIVIDED(number, channel_tiles, by_channel_tiles);
  const int first_channel = (number - tile * channel_tiles) * TILE_N;
  const int product = DIVIDED(tile, position_tiles, by_position_tiles);
  const int first = (tile - product * position_tiles) * TILE_M;
  const int part_of_sum = PARTIAL ? product / (GROUPS * PHASES) : 0, part = product - part_of_sum * (GROUPS * PHASES);
  const int phase = PHASES == 1 ? 0 : DIVIDED(part, GROUPS, by_groups), group = part - phase * GROUPS;
  Place at_phase = {0, 0, 0, 0};
  if (PHASES > 1) at_phase = place_of(phase, STRIDE_D, STRIDE_H, STRIDE_W);
  const Axis d = AXIS(D, at_phase.d), h = AXIS(H, at_phase.h), w = AXIS(W, at_phase.w);
#if GATHER == GATHER_LINES
  const Axis row = line_of(w, SOURCE_W);
#else
  const Axis row = w;
#endif
  const int positions = IMAGES * d.count * h.count * row.count;
  if (first >= positions) return;

  const int item = (int)CF_LOCAL_ID(0);
#if WIDE && KEEPS_BIAS
  float own_biases[OWN_BIASES];
  read_biases(own_biases, item, FUSED_CHANNELS - first_channel,
              CF_EPILOGUE_FROM(whole, group * RESULT_CHANNELS + first_channel));
#endif
  if (item < WINDOWS) {
    const int is_there = first + item < positions;
    const int position = is_there ? first + item : 0;
    Place place;
    if (PHASES > 1) {
      place = place_of(position, d.count, h.count, row.count);
    } else {
      const int line = DIVIDED(position, row.count, by_w), plane = DIVIDED(line, h.count, by_h);
      place.image = DIVIDED(plane, d.count, by_d);
      place.d = plane - place.image * d.count;
      place.h = line - plane * h.count;
      place.w = position - line * row.count;
    }
    Window window = window_of(place, d, h, row, SOURCE_D, SOURCE_H, SOURCE_W, SOURCE_POSITION_STEP, SOURCE_IMAGE_STEP);
    if (EXTRA_ROWS && !is_there) window.inside = 0;  // rows behind the last are read
    windows[item] = window;
    const int spot = (place.d * d.out_step * RESULT_H + place.h * h.out_step) * RESULT_W + place.w * w.out_step;
    if (item < TILE_M)
      result_at[item] = is_there && place.w < w.count
                            ? place.image * RESULT_IMAGE_STEP + (CF_LONG)spot * RESULT_POSITION_STEP
                            : -1;
#if FUSED
    if (item < TILE_M) phases_at[item] = mark_of_position(place, d, h, w, RESULT_D, RESULT_H, RESULT_W);
#endif
  }
#if FUSED
  if (item < TILE_N) {
    const int own = first_channel + item;
    const Place at = place_of(own / RESULT_CHANNELS, STRIDE_D, STRIDE_H, STRIDE_W);
    column_phase[item] = mark_of_phase(at, d, h, w);
    column_at[item] = ((at.d * RESULT_H + at.h) * RESULT_W + at.w) * RESULT_POSITION_STEP +
                      own % RESULT_CHANNELS * RESULT_CHANNEL_STEP;
  }
#endif
#if WIDE && KEEPS_BIAS
  keep_biases(bias_at, own_biases, item);
#endif
  source += (CF_LONG)group * SOURCE_CHANNELS * SOURCE_CHANNEL_STEP;
  filter += FILTER_STEP((group * FUSED_CHANNELS + first_channel) * FILTER_ROW);
  const int columns = FUSED_CHANNELS - first_channel;
  const int taps = d.taps * h.taps * w.taps;
#if IS_FLAT
  const int steps = (SOURCE_CHANNELS * taps + PER_ROW - 1) / PER_ROW;
  const Place by = place_of(ENTRIES, h.taps, w.taps, SOURCE_CHANNELS / UNIT);
  Place along = place_of(item % ENTRIES, h.taps, w.taps, SOURCE_CHANNELS / UNIT);
  NOTE_ENTRIES(0);
#else
#if PARTIAL
  // Taps that share rows stay together.
  const int unit = GATHER == GATHER_LINES ? max(w.taps, 1) : 1;
  const CF_LONG units = BLOCKS * taps / unit;
  const int from = (int)(units * part_of_sum / parts_of_sum) * unit;
  const int steps = (int)(units * (part_of_sum + 1) / parts_of_sum) * unit - from;
  int channel = from / max(taps, 1), tap = from - channel * taps;
  channel *= PER_ROW;
#else
  const int steps = BLOCKS * taps;
  int tap = 0, channel = 0;
#endif
  if (item < taps) {
    Tap own;
    own.w = item % w.taps;
    own.h = item / w.taps % h.taps;
    own.d = item / w.taps / h.taps;
    entries[item] =
        entry_of(own, d, h, w, WINDOW_H, WINDOW_W, SOURCE_H, SOURCE_W, SOURCE_POSITION_STEP, FILTER_CHANNELS);
  }
  CF_BARRIER();
  Entry entry = entries[tap];
#endif

// The rows of a step, and which of them is the first one's.
#if GATHER != GATHER_LINES
#define ROWS(step) STAGE_ROWS(tiles, step)
#define SHIFT 0
#define NEXT_ROWS() ((void)0)
#else
#define ROWS(step) LINE(tiles, reading)
#define SHIFT (first_row + part_of_line * w.tap_step)
#define NEXT_ROWS()                   \
  do {                                \
    if (++part_of_line == w.taps) {   \
      part_of_line = 0;               \
      ++reading;                      \
    }                                 \
  } while (0)
  // Of what is fetched: the tap along w, the line of taps, lines of all steps.
  int of_line = 0, line = PARTIAL ? tap / max(w.taps, 1) : 0, lines = 0;
  int reading = 0, part_of_line = 0;     // of what is multiplied
  const int first_row = w.tap_step < 0 ? (1 - w.taps) * w.tap_step : 0;
#endif
  float sums[SUMS];
  CF_UNROLL for (int i = 0; i < SUMS; ++i) sums[i] = 0.0f;

#if PRODUCTS == 1
#if ELEMENT_BYTES == 4
  RowsPart rounded[2];  // one of them is loaded while the other one is multiplied
#define MULTIPLY(step, second)                                                                                    \
  CF_UNROLL for (int part = 0; part < ROW_PARTS; ++part) {                                                        \
    if (part > 0) CF_WGMMA_WAIT(1);                                                                               \
    multiply_part(sums, rounded + (ROW_PARTS > 1 ? part : second), ROWS(step), SHIFT, COLUMNS(tiles, step), item, \
                  part, (step) + part > 0);                                                                       \
  }
#else
#define MULTIPLY(step, second) multiply_stage(sums, ROWS(step) + SHIFT * 128, COLUMNS(tiles, step), item, (step) > 0);
#endif
#define STEP(step, second)                     \
  do {                                         \
    CF_COPIES_WAIT(AHEAD - 1);                 \
    CF_FENCE_MATRICES();                       \
    CF_BARRIER();                              \
    if (!PRODUCTS_FIRST) FETCH((step) + AHEAD); \
    MULTIPLY(step, second)                     \
    NEXT_ROWS();                               \
    if (PRODUCTS_FIRST) FETCH((step) + AHEAD); \
    CF_WGMMA_WAIT(STAGES > 2 ? 1 : 0);         \
  } while (0)
  // From three stages on two products are on their way at a time, and the stage that is filled again is the one before.
  for (int step = 0; step < AHEAD; ++step) {
    CF_BARRIER();
    FETCH(step);
  }
  if (steps > 0) {
    for (int step = 0; step < steps; ++step) {
      STEP(step, 0);
#if ELEMENT_BYTES == 4 && ROW_PARTS == 1
      if (++step == steps) break;
      STEP(step, 1);
#endif
    }
    CF_WGMMA_WAIT(0);
  }
#elif SPLIT_BEFORE
  // Each stage is a part. An item that hands products over waits for most of them, so what else is to be done overlaps
  // with those of other work-groups of the unit.
  float parts[SUMS];
  SplitRows rows;
  for (int step = 0; step < STAGES - 1; ++step) {
    CF_BARRIER();
    FETCH(step);
  }
  for (int step = 0; step < steps; ++step) {
    CF_COPIES_WAIT(STAGES - 2);
    CF_FENCE_MATRICES();
    CF_BARRIER();
    FETCH(step + STAGES - 1);
    load_rows(&rows, ROWS(step), SHIFT, item);
    NEXT_ROWS();
    split_rows(&rows);
    multiply_split(parts, &rows, COLUMNS(tiles, step), 0);
    CF_WGMMA_WAIT(0);
    CF_UNROLL for (int i = 0; i < SUMS; ++i) sums[i] += parts[i];
  }
#elif STAGES == 2
  // Weights come as they are. A stage after the other, each a part: meanwhile other work-groups of the unit work.
  float parts[SUMS];
  SplitRows rows;
  CF_BARRIER();
  FETCH(0);
  for (int step = 0; step < steps; ++step) {
    CF_COPIES_WAIT(0);
    CF_BARRIER();
    FETCH(step + 1);
    load_rows(&rows, ROWS(step), SHIFT, item);
    NEXT_ROWS();
    split_columns(SPLIT_AT(tiles, 0), COLUMNS(tiles, step), item);
    split_rows(&rows);
    CF_FENCE_MATRICES();
    CF_BARRIER();
    multiply_split(parts, &rows, SPLIT_AT(tiles, 0), 0);
    CF_WGMMA_WAIT(0);
    CF_UNROLL for (int i = 0; i < SUMS; ++i) sums[i] += parts[i];
  }
#else
#define SPLIT(to, step)                                               \
  do {                                                                \
    CF_COPIES_WAIT(STAGES - 2);                                       \
    CF_BARRIER();                                                     \
    FETCH((step) + STAGES - 1);                                       \
    load_rows(to, ROWS(step), SHIFT, item);                           \
    NEXT_ROWS();                                                      \
    split_columns(SPLIT_AT(tiles, step), COLUMNS(tiles, step), item); \
    split_rows(to);                                                   \
    CF_FENCE_MATRICES();                                              \
  } while (0)
  // While a stage is multiplied the next one is split: two of them go into a part.
  float parts[SUMS];
  SplitRows even, odd;
  for (int step = 0; step < STAGES - 1; ++step) {
    CF_BARRIER();
    FETCH(step);
  }
  if (steps > 0) SPLIT(&even, 0);
  for (int step = 0; step < steps; step += 2) {
    CF_BARRIER();
    multiply_split(parts, &even, SPLIT_AT(tiles, 0), 0);
    if (step + 1 < steps) {
      SPLIT(&odd, step + 1);
      CF_BARRIER();
      multiply_split(parts, &odd, SPLIT_AT(tiles, 1), 1);
      CF_WGMMA_WAIT(1);
      if (step + 2 < steps) SPLIT(&even, step + 2);
    }
    CF_WGMMA_WAIT(0);
    CF_UNROLL for (int i = 0; i < SUMS; ++i) sums[i] += parts[i];
  }
#endif

#if PARTIAL
  result += part_of_sum * part_size;
#endif
  result += (CF_LONG)group * RESULT_CHANNELS * RESULT_CHANNEL_STEP +
            origin_of(d, h, w, RESULT_H, RESULT_W) * RESULT_POSITION_STEP;
  const Epilogue epilogue = CF_EPILOGUE_FROM(whole, group * RESULT_CHANNELS + first_channel);
#if WIDE
  if (WRITES_ROWS(epilogue)) {
    CF_BARRIER();  // no product reads a stage any more
#if FETCHES_Z
    fetch_z(tiles, Z_OF(result + first_channel, epilogue), result_at, item, columns);
    await_z();
#endif
    put_sums(tiles, sums, BIASES, item, epilogue);
    CF_WAVE_BARRIER();
    store_rows(result + first_channel, tiles, result_at, item, columns);
    return;
  }
#endif
  CF_UNROLL for (int upper = 0; upper < 2; ++upper) {
    const CF_LONG row = result_at[OWN_ROW(item) + 8 * upper];
    if (row < 0) continue;
#if FUSED
    const int phases = phases_at[OWN_ROW(item) + 8 * upper];
    CF_UNROLL for (int j = 0; j < TILE_N / 4; ++j) {
      const int column = j / 2 * 8 + OWN_COLUMN(item) + j % 2;
      if (column < columns && has_phase(phases, column_phase[column]))
        store_one(result + (row + column_at[column]), sums[j / 2 * 4 + 2 * upper + j % 2], column, epilogue);
    }
#else
    CF_GLOBAL RESULT_ELEMENT *to = result + (row + (CF_LONG)(first_channel + OWN_COLUMN(item)) * RESULT_CHANNEL_STEP);
#if READS_AHEAD
    if (WRITES_ROWS(epilogue)) {
      store_columns(to, sums + 2 * upper, OWN_COLUMN(item), columns, RESULT_CHANNEL_STEP, epilogue);
      continue;
    }
#endif
    CF_UNROLL for (int j = 0; j < TILE_N / 8; ++j) {
      const int column = 8 * j + OWN_COLUMN(item);
      if (column < columns) store_one(to, sums[4 * j + 2 * upper], column, epilogue);
      if (column + 1 < columns) store_one(to + RESULT_CHANNEL_STEP, sums[4 * j + 2 * upper + 1], column + 1, epilogue);
      to += (CF_LONG)8 * RESULT_CHANNEL_STEP;
    }
#endif
  }
}

#include "nvidia_pack.cl"
#if PARTIAL
#include "nvidia_parts.cl"
#endif
