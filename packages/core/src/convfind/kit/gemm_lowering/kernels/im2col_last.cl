// im2col, channels last: x of some images into columns [image][position][group][tap][channel].
//
// A tap's channels lie side by side in x and in the columns: one copy. Without groups and dilation so
// do the taps of a filter row; the host then states them as one tap with `length` = f_w * channels.
// Work-items: runs of RUN floats of a copy in each group, runs of BLOCK positions, images.
#ifndef RUN
#define RUN 1    // floats of a work-item: 1 (GPU: neighbours write side by side), or a whole copy (CPU)
#endif
#ifndef BLOCK
#define BLOCK 1  // positions of a work-item: 1 or more
#endif
#define COPIES 1
#include "window.h"

// taps_w: copies for each row of the filter, 1 or f_w. length: floats of a copy.
CF_KERNEL ITEMS void im2col_last(CF_GLOBAL const ELEMENT *CF_RESTRICT x,
                                 CF_GLOBAL ELEMENT *CF_RESTRICT columns, const int channels,
                                 const int groups, const int taps_w, const int length,
                                 const int image, const int images, const int start,
                                 const int positions, WINDOW) {
  const int runs = (length - 1) / RUN + 1;
  FOR_EACH(n, 2, images)
  FOR_EACH(block, 1, (positions - 1) / BLOCK + 1)
  FOR_EACH(unit, 0, groups * runs) {
    const int begin = block * BLOCK;
    const int count = min(BLOCK, positions - begin);
    const int group = unit / runs;
    const int first = unit % runs * RUN;
    const int floats = RUN == 1 ? 1 : min(RUN, length - first);
    int w = (start + begin) % y_w;
    int h = (start + begin) / y_w % y_h;
    int d = (start + begin) / y_w / y_h;
    CF_GLOBAL const ELEMENT *from = x + (CF_LONG)(image + n) * x_d * x_h * x_w * channels;
    const CF_LONG depth = (CF_LONG)f_d * f_h * taps_w * length;
    CF_GLOBAL ELEMENT *row =
        columns + (((CF_LONG)n * positions + begin) * groups + group) * depth + first;
    for (int done = 0; done < count; ++done, row += groups * depth) {
      CF_GLOBAL ELEMENT *to = row;
      for (int tap_d = 0; tap_d < f_d; ++tap_d)
      for (int tap_h = 0; tap_h < f_h; ++tap_h)
      for (int tap_w = 0; tap_w < taps_w; ++tap_w, to += length) {
        const int at_d = d * stride_d - pad_d + tap_d * dilation_d;
        const int at_h = h * stride_h - pad_h + tap_h * dilation_h;
        const int at_w = w * stride_w - pad_w + tap_w * dilation_w;
        const int is_inside = at_d >= 0 && at_d < x_d && at_h >= 0 && at_h < x_h;
        // A single tap lies wholly inside or outside the line of x; of joined taps it is cut off.
        copy_line(to, from + ((CF_LONG)at_d * x_h + at_h) * x_w * channels, floats,
                  at_w * channels + group * length + first, 1, is_inside ? x_w * channels : 0);
      }
      w += 1;
      if (w == y_w) {
        w = 0;
        if (++h == y_h) {
          h = 0;
          ++d;
        }
      }
    }
  }
}
