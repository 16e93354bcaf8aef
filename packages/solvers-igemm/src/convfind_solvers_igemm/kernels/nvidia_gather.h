// How tiles of windows and of the filter travel to local memory: a step of 128 bytes along the sum at a time.
#define GATHER_PIECES 0  // 16 bytes at a time: channels last, whole pieces of channels
#define GATHER_EACH 1    // single floats, of a block of channels at one tap
#define GATHER_FLAT 2    // single floats; channels and taps are one axis, taps outside
#define GATHER_FLAT_PIECES 3  // 16 bytes at a time; channels and taps are one axis, taps outside
#define GATHER_LINES 4        // as GATHER_PIECES, and the taps along w read the same rows
#ifndef GATHER
#define GATHER GATHER_PIECES  // with GATHER_EACH and GATHER_FLAT: DTYPE FLOAT32
#endif
#define IS_FLAT (GATHER == GATHER_FLAT || GATHER == GATHER_FLAT_PIECES)
#define IN_PIECES (GATHER == GATHER_PIECES || GATHER == GATHER_FLAT_PIECES || GATHER == GATHER_LINES)
#if GATHER != GATHER_PIECES && GATHER != GATHER_LINES
#define SPLIT_PASS 1  // registers are short
#endif
#if GATHER == GATHER_LINES
#define ROW_PARTS 2  // the same
#endif
#include "convfind_nvidia_tile.h"
#include "gpu_geometry.h"

// What a position of the result reads: from where on, and a bit for each of its taps that is inside. At most 63 taps.
typedef struct {
  CF_LONG from;
  ulong inside;
} Window;
#define MOST_TAPS 63
#define NO_TAP 63

CF_INLINED Window window_of(Place place, Axis d, Axis h, Axis w, int size_d, int size_h, int size_w,
                           int position_step, CF_LONG image_step) {
  const int first_d = d.origin + place.d * d.step, first_h = h.origin + place.h * h.step;
  const int first_w = w.origin + place.w * w.step;
  ulong row = 0;
  for (int i = 0; i < w.taps; ++i) row |= (ulong)is_inside(first_w + i * w.tap_step, size_w) << i;
  Window window;
  window.inside = 0;
  for (int i = 0; i < d.taps; ++i) {
    if (!is_inside(first_d + i * d.tap_step, size_d)) continue;
    for (int j = 0; j < h.taps; ++j)
      if (is_inside(first_h + j * h.tap_step, size_h)) window.inside |= row << ((i * h.taps + j) * w.taps);
  }
  window.from = place.image * image_step + (((CF_LONG)first_d * size_h + first_h) * size_w + first_w) * position_step;
  return window;
}

#if IS_FLAT
#define UNIT (IN_PIECES ? PER_PIECE : 1)  // elements that one entry tells the place of
#define ENTRIES (PER_ROW / UNIT)
// Where elements of a step lie behind the windows' start, and at which tap.
typedef struct {
  int shift, tap;
} Entry;

// `at` is an index along the sum as digits: taps, and units of channels in the place of w.
CF_INLINED Entry entry_of(Place at, Axis d, Axis h, Axis w, int size_h, int size_w, int position_step,
                          int channel_step) {
  Tap tap;
  tap.w = at.h;
  tap.h = at.d;
  tap.d = at.image;
  Entry entry;
  entry.tap = NO_TAP;
  entry.shift = 0;
  if (tap.d < d.taps) {
    entry.tap = (tap.d * h.taps + tap.h) * w.taps + tap.w;
    entry.shift = tap_shift(tap, d, h, w, size_h, size_w) * position_step + at.w * UNIT * channel_step;
  }
  return entry;
}
#else
// Where a tap lies behind the windows' start, and in a row of the filter.
typedef struct {
  int shift, filter;
} Entry;

CF_INLINED Entry entry_of(Tap tap, Axis d, Axis h, Axis w, int window_h, int window_w, int size_h, int size_w,
                          int position_step, int filter_step) {
  Entry entry;
  entry.shift = tap_shift(tap, d, h, w, size_h, size_w) * position_step;
#if FUSED
  entry.filter = ((tap.d * h.taps + tap.h) * w.taps + tap.w) * filter_step;
#else
  entry.filter = (((d.w_first + tap.d * d.w_step) * window_h + h.w_first + tap.h * h.w_step) * window_w + w.w_first +
                  tap.w * w.w_step) *
                 filter_step;
#endif
  return entry;
}
#endif

#if GATHER == GATHER_LINES
// Rows for the taps behind a tile's last position: up to nine of them along w, steps between them included.
#define EXTRA_ROWS 8
#define WINDOWS (TILE_M + EXTRA_ROWS)

// The axis w as the rows see it: a line of results has a row for each place in the source that any of their taps may
// read. Places outside, before a line and behind it, are the same for a line and the next one. Results of the rows
// behind a line's last one are not stored.
CF_INLINED Axis line_of(Axis w, int size) {
  const int reach = (w.taps - 1) * w.tap_step, more = max(reach, -reach), first = w.origin + min(reach, 0);
  const int outside = min(max(-first, 0), max(first + w.count + more - size, 0));
  w.count += more - min(outside, more);
  w.origin = first;
  w.taps = 1;
  return w;
}
#else
#define EXTRA_ROWS 0
#define WINDOWS TILE_M
#endif

#if IN_PIECES
// The windows whose pieces an item fetches. They are read before any of the copies, which the compiler does not move.
#define OWN_WINDOWS (EXTRA_ROWS ? 5 : 4)
CF_INLINED void read_windows(Window own[OWN_WINDOWS], CF_LOCAL_PTR const Window *windows, const int item) {
  CF_UNROLL for (int i = 0; i < 4; ++i) own[i] = windows[item / 8 + i * (THREADS / 8)];
  if (EXTRA_ROWS && item / 8 < EXTRA_ROWS) own[OWN_WINDOWS - 1] = windows[WINDOWS - EXTRA_ROWS + item / 8];
}

// An item's piece of its windows, `shift` elements behind where they start, where they have the tap in `bit`.
CF_INLINED void fetch_pieces(const CF_UINT to, CF_GLOBAL const ELEMENT *source, const Window own[OWN_WINDOWS],
                             const int item, const int shift, const ulong bit) {
  CF_UNROLL for (int i = 0; i < 4; ++i)
    cf_copy_16(to + CF_PIECE(item / 8 + i * (THREADS / 8), item % 8), source + (own[i].from + shift),
                 own[i].inside & bit ? 16 : 0);
  if (EXTRA_ROWS && item / 8 < EXTRA_ROWS)
    cf_copy_16(to + CF_PIECE(TILE_M + item / 8, item % 8), source + (own[OWN_WINDOWS - 1].from + shift),
               own[OWN_WINDOWS - 1].inside & bit ? 16 : 0);
}
#else
// Waves have eight rows by four elements at a time: these go to different banks.
CF_INLINED void fetch_windows(const CF_UINT to, CF_GLOBAL const ELEMENT *source, CF_LOCAL_PTR const Window *windows,
                             CF_LOCAL_PTR const Entry *entries, const int item, const int shift, const int tap,
                             const int room, const int channel_step) {
  _Pragma("unroll 1") for (int i = 0; i < 2; ++i) {  // both at once take more registers than there are
    const int row = OWN_ROW(item) + 8 * i;
    const Window window = windows[row];
    CF_GLOBAL const ELEMENT *from = source + (window.from + shift + item % 4 * channel_step);
    _Pragma("unroll 4") for (int piece = 0; piece < 8; ++piece) {
      const int element = piece * 4 + item % 4;
#if GATHER == GATHER_FLAT
      const Entry entry = entries[element];
      const int there = (int)(window.inside >> entry.tap & 1);
      cf_copy_4(to + CF_PIECE(row, piece) + item % 4 * 4, from + entry.shift, there * 4);
#else
      const int there = element < room ? (int)(window.inside >> tap & 1) : 0;
      cf_copy_4(to + CF_PIECE(row, piece) + item % 4 * 4, from, there * 4);
      from += 4 * channel_step;
#endif
    }
  }
}
#endif

// Rows of the filter, one for each channel of the result; `from` is the first one's first element. Split ones have 256
// bytes for a step: see igemm_nvidia_pack.
CF_INLINED void fetch_filter(const CF_UINT to, CF_GLOBAL const ELEMENT *from, const int item, const int row_step,
                            const int rows, const int room) {
#if SPLIT_BEFORE
  const CF_UINT first = to + item % 16 / 8 * COLUMNS_BYTES;
  _Pragma("unroll 4") for (int i = 0; i < TILE_N * 16 / THREADS; ++i) {
    const int row = item / 16 + i * (THREADS / 16);
    cf_copy_16(first + CF_PIECE(row, item % 8), from + (row * row_step + item % 16 * 4), row < rows ? 16 : 0);
  }
#else
  const int piece = item % 8, element = piece * PER_PIECE, there = element < room;
  CF_UNROLL for (int i = 0; i < (TILE_N * 8 + THREADS - 1) / THREADS; ++i) {
    const int row = item / 8 + i * (THREADS / 8);
    if (TILE_N * 8 % THREADS && row >= TILE_N) break;
    cf_copy_16(to + CF_PIECE(row, piece), from + (row * row_step + element), there && row < rows ? 16 : 0);
  }
#endif
}
