// The tiles of the weight gradient: TAPS elements of y along each axis, or, of short ones, one less. Whole rows of
// tiles come first in an image, and so do whole columns. See gpu_spans.h for their order. Channels first no tile is
// short: neighbouring items, which have neighbouring tiles, would read from different images.
#define SHORTENS CHANNELS_LAST
#include "gpu_spans.h"

// Where a tile of y begins, and what it lacks.
typedef struct {
  int image, top, left, short_rows, short_columns;
} GradientTile;

CF_INLINE GradientTile tile_of(const int number, const int tiles_h, const int tiles_w, const int whole_h,
                               const int whole_w, const Ends ends) {
  GradientTile at;
  at.short_rows = SHORTENS && number >= ends.second;
  at.short_columns = SHORTENS && (number < ends.first || number >= ends.third);
  const int in_columns = at.short_columns ? ends.third : ends.second, past = at.short_columns ? 0 : ends.first;
  const int begin = at.short_rows ? in_columns : SHORTENS ? past : 0;
  const CF_UINT rows = at.short_rows ? tiles_h - whole_h : whole_h;
  const CF_UINT columns = at.short_columns ? tiles_w - whole_w : whole_w;
  const CF_UINT above = (CF_UINT)(number - begin) / columns;
  const int column = (int)((CF_UINT)(number - begin) % columns), row = (int)(above % rows);
  at.image = (int)(above / rows);
  at.top = at.short_rows ? whole_h * TAPS + row * (TAPS - 1) : row * TAPS;
  at.left = at.short_columns ? whole_w * TAPS + column * (TAPS - 1) : column * TAPS;
  return at;
}

// Whether products of point p of the tile are summed up.
#define COUNTS(at, p) \
  (!((at).short_rows && (p) / SIZE == SIZE - 1) && !((at).short_columns && (p) % SIZE == SIZE - 1))
