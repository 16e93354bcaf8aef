// Which tiles the products of a point of the weight gradient sum up. Tiles lie in four regions:
//
//   whole rows, short columns | whole rows, whole columns | short rows, whole columns | short rows, short columns
//
// A short one lacks the element that the last point along the axis, infinity, would have taken: whatever is there
// counts for whole tiles only, which lie in one piece.
#ifndef GPU_SPANS_H
#define GPU_SPANS_H

#ifndef SPANS
#define SPANS 0  // points along an axis of a product that has spans: each has its own part of the sum
#endif
#if SPANS
#define SPAN_ARGUMENTS , const int groups, const int first_end, const int second_end, const int third_end
#else
#define SPAN_ARGUMENTS
#endif

// Where the regions end; the last end is the number of tiles.
typedef struct {
  int first, second, third, last;
} Ends;

// Where the tiles of a point begin and end, which is the last along an axis, or not.
CF_INLINE int span_begin(const Ends ends, const int last_column) { return last_column ? ends.first : 0; }
CF_INLINE int span_end(const Ends ends, const int last_row, const int last_column) {
  return last_row ? ends.second : last_column ? ends.third : ends.last;
}
CF_INLINE int span_of(const Ends ends, const int last_row, const int last_column) {
  return span_end(ends, last_row, last_column) - span_begin(ends, last_column);
}

#endif  // GPU_SPANS_H
