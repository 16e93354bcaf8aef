// The turns that gpu_weights_wgmma.cl shares out, one tile of the products behind the other: a tile has one for each
// pair of blocks that it sums up, and a last one for its end, which takes about as long. SIZE is the number of points
// along an axis. Of each point there are so many `tiles`; ends are those of regions, in pairs: see gpu_spans.h.
#include "gpu_spans.h"

// Of a tile of a point.
CF_INLINE int pairs_of(const Ends ends, const int row, const int column) {
  return span_of(ends, row == SIZE - 1, column == SIZE - 1);
}
CF_INLINE CF_UINT turns_of(const Ends ends, const int row, const int column) {
  return (CF_UINT)pairs_of(ends, row, column) + 1;
}

// Of a row of points.
CF_INLINE CF_UINT turns_of_row(const Ends ends, const int tiles, const int row) {
  return (CF_UINT)tiles * ((SIZE - 1) * turns_of(ends, row, 0) + turns_of(ends, row, SIZE - 1));
}

CF_INLINE CF_UINT first_turn_of(const Ends ends, const int tiles, const int point) {
  const int row = point / SIZE, column = point % SIZE;
  return (CF_UINT)row * turns_of_row(ends, tiles, 0) + (CF_UINT)(tiles * column) * turns_of(ends, row, 0);
}

// The tile, of all points, that has a turn, and which of the tile's it is. Behind the last turn a tile would follow.
CF_INLINE int tile_with(const Ends ends, const int tiles, const CF_UINT turn, int *in_tile) {
  const int row = (int)min(turn / turns_of_row(ends, tiles, 0), (CF_UINT)(SIZE - 1));
  const CF_UINT in_row = turn - (CF_UINT)row * turns_of_row(ends, tiles, 0);
  const CF_UINT of_point = (CF_UINT)tiles * turns_of(ends, row, 0);
  const int column = (int)min(in_row / of_point, (CF_UINT)(SIZE - 1));
  const CF_UINT in_point = in_row - (CF_UINT)column * of_point, of_tile = turns_of(ends, row, column);
  *in_tile = (int)(in_point % of_tile);
  return (row * SIZE + column) * tiles + (int)(in_point / of_tile);
}
