// How tiles of windows and of the filter travel to local memory: a step of 128 bytes along the sum at a time.
#define GATHER_PIECES 0  // 16 bytes at a time: channels last, whole pieces of channels
#define GATHER_EACH 1    // single floats, of a block of channels at one tap
#define GATHER_FLAT 2    // single floats; channels and taps are one axis, taps outside
#ifndef GATHER
#define GATHER GATHER_PIECES  // with GATHER_EACH and GATHER_FLAT: DTYPE FLOAT32
#endif
#if GATHER != GATHER_PIECES || BACKWARD
#define SPLIT_PASS 1  // registers are short
#endif
#include "convfind_nvidia_tile.h"
#include "gpu_geometry.h"

// What a position of the result reads: from where on, and a bit for each of its taps that is inside. At most 63 taps.
typedef struct {
  CF_LONG from;
  ulong inside;
} Window;
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

#if GATHER == GATHER_PIECES
// `shift` elements behind where the windows start; `room` channels are left.
CF_INLINED void fetch_windows(const CF_UINT to, CF_GLOBAL const ELEMENT *source, CF_LOCAL_PTR const Window *windows,
                             const int item, const int shift, const int tap, const int room) {
  const int piece = item % 8, element = piece * PER_PIECE;
  const ulong bit = element < room ? (ulong)1 << tap : 0;
  Window own[4];  // read before any of the copies, which the compiler does not move
  CF_UNROLL for (int i = 0; i < 4; ++i) own[i] = windows[item / 8 + i * (THREADS / 8)];
  CF_UNROLL for (int i = 0; i < 4; ++i)
    cf_copy_16(to + CF_PIECE(item / 8 + i * (THREADS / 8), piece), source + (own[i].from + shift + element),
               own[i].inside & bit ? 16 : 0);
}
#else
// Where the elements of a step lie behind the windows' start, and at which tap.
typedef struct {
  int shift, tap;
} Entry;

// Waves have eight rows by four elements at a time: these go to different banks.
CF_INLINED void fetch_windows(const CF_UINT to, CF_GLOBAL const ELEMENT *source, CF_LOCAL_PTR const Window *windows,
                             CF_LOCAL_PTR const Entry *entries, const int item, const int shift, const int tap,
                             const int room, const int channel_step) {
  _Pragma("unroll 1") for (int i = 0; i < 2; ++i) {  // both at once take more registers than there are
    const int row = OWN_ROW(item) + 8 * i;
    const Window window = windows[row];
    CF_GLOBAL const ELEMENT *from = source + (window.from + shift);
    _Pragma("unroll 4") for (int piece = 0; piece < 8; ++piece) {
      const int element = piece * 4 + item % 4;
#if GATHER == GATHER_FLAT
      const Entry entry = entries[element];
      const int there = (int)(window.inside >> entry.tap & 1);
      cf_copy_4(to + CF_PIECE(row, piece) + item % 4 * 4, from + entry.shift, there * 4);
#else
      const int there = element < room ? (int)(window.inside >> tap & 1) : 0;
      cf_copy_4(to + CF_PIECE(row, piece) + item % 4 * 4, from + element * channel_step, there * 4);
#endif
    }
  }
}
#endif

// Rows of the filter, one for each channel of the result; `from` is the first one's first element.
CF_INLINED void fetch_filter(const CF_UINT to, CF_GLOBAL const ELEMENT *from, const int item, const int row_step,
                            const int rows, const int room) {
  const int piece = item % 8, element = piece * PER_PIECE, there = element < room;
  CF_UNROLL for (int i = 0; i < TILE_N * 8 / THREADS; ++i) {
    const int row = item / 8 + i * (THREADS / 8);
    cf_copy_16(to + CF_PIECE(row, piece), from + (row * row_step + element), there && row < rows ? 16 : 0);
  }
}
