// Which taps of a window meet where: sizes that are compiled in, on all devices.
//
// From a source, x or with GRADIENT the gradient y, to a result. CHANNELS and FILTERS are those of
// one group in source and result.
#ifndef WINDOW_H
#define WINDOW_H

#ifndef GRADIENT
#define GRADIENT 0     // 1: the source is y and the result x
#endif
#ifndef CHANNELS
#define CHANNELS 1     // source channels of a group
#endif
#ifndef FILTERS
#define FILTERS 1      // result channels of a group
#endif
#ifndef FILTER_H
#define FILTER_H 3     // taps along each axis: 1 and up
#endif
#ifndef FILTER_W
#define FILTER_W 3
#endif
#ifndef STRIDE_H
#define STRIDE_H 1     // of the convolution: 1 and up
#endif
#ifndef STRIDE_W
#define STRIDE_W 1
#endif
#ifndef DILATION_H
#define DILATION_H 1   // of the convolution: 1 and up
#endif
#ifndef DILATION_W
#define DILATION_W 1
#endif
#ifndef ROWS
#define ROWS 1         // neighbouring rows of the result at a time; multiple of STRIDE_H with GRADIENT
#endif

#define TAPS (FILTER_H * FILTER_W)

// Along one axis: how many places of the source `size` neighbouring results take, from the first to the
// last; and how far apart, in places of the axis that the dilation counts, result o and place r of these are.
#define REACH(taps, stride, dilation) (((taps) - 1) * (dilation) / (stride))
#define SPAN(size, taps, stride, dilation)                                \
  (GRADIENT ? REACH(taps, stride, dilation) + ((size) - 1) / (stride) + 1 \
            : ((size) - 1) * (stride) + ((taps) - 1) * (dilation) + 1)
#define DISTANCE(o, r, taps, stride, dilation) \
  (GRADIENT ? (o) + (REACH(taps, stride, dilation) - (r)) * (stride) : (r) - (o) * (stride))
#define MEET(o, r, taps, stride, dilation)            \
  (DISTANCE(o, r, taps, stride, dilation) >= 0 &&     \
   DISTANCE(o, r, taps, stride, dilation) % (dilation) == 0 && \
   DISTANCE(o, r, taps, stride, dilation) / (dilation) < (taps))
// The first source place of results from `first` on; with GRADIENT first + pad is a multiple of the stride.
#define SOURCE_OF(first, pad, taps, stride, dilation) \
  (GRADIENT ? ((first) + (pad)) / (stride) - REACH(taps, stride, dilation) : (first) * (stride) - (pad))

#define ROW_SPAN SPAN(ROWS, FILTER_H, STRIDE_H, DILATION_H)
#define ROWS_MEET(o, r) MEET(o, r, FILTER_H, STRIDE_H, DILATION_H)
#define ROW_TAP(o, r) (DISTANCE(o, r, FILTER_H, STRIDE_H, DILATION_H) / DILATION_H)

#endif  // WINDOW_H
