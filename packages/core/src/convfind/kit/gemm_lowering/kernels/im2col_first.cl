// im2col, channels first: x of some images into columns [image][channel][tap][position].
//
// Work-items: runs of BLOCK positions, channels, images.
#ifndef BLOCK
#define BLOCK 1  // positions of a work-item: 1 (GPU: neighbours write side by side), or thousands (CPU)
#endif
#define COPIES 1
#include "window.h"

CF_KERNEL ITEMS void im2col_first(CF_GLOBAL const ELEMENT *CF_RESTRICT x,
                                  CF_GLOBAL ELEMENT *CF_RESTRICT columns, const int channels,
                                  const int image, const int images, const int start,
                                  const int positions, WINDOW) {
  const int begin = CF_GLOBAL_ID(0) * BLOCK;
  const int count = BLOCK == 1 ? 1 : min(BLOCK, positions - begin);
  if (begin >= positions) return;
  const int begin_w = (start + begin) % y_w;
  const int begin_h = (start + begin) / y_w % y_h;
  const int begin_d = (start + begin) / y_w / y_h;
  FOR_EACH(n, 2, images)
  FOR_EACH(c, 1, channels) {
    const CF_LONG plane = (CF_LONG)(image + n) * channels + c;
    CF_GLOBAL const ELEMENT *from = x + plane * x_d * x_h * x_w;
    CF_GLOBAL ELEMENT *to =
        columns + ((CF_LONG)n * channels + c) * f_d * f_h * f_w * positions + begin;
    for (int tap_d = 0; tap_d < f_d; ++tap_d)
    for (int tap_h = 0; tap_h < f_h; ++tap_h)
    for (int tap_w = 0; tap_w < f_w; ++tap_w, to += positions) {
      int d = begin_d, h = begin_h, w = begin_w;
      for (int done = 0; done < count;) {
        const int width = BLOCK == 1 ? 1 : min(y_w - w, count - done);
        const int at_d = d * stride_d - pad_d + tap_d * dilation_d;
        const int at_h = h * stride_h - pad_h + tap_h * dilation_h;
        const int is_inside = at_d >= 0 && at_d < x_d && at_h >= 0 && at_h < x_h;
        copy_line(to + done, from + ((CF_LONG)at_d * x_h + at_h) * x_w, width,
                  w * stride_w - pad_w + tap_w * dilation_w, stride_w, is_inside ? x_w : 0);
        done += width;
        w = 0;
        if (++h == y_h) {
          h = 0;
          ++d;
        }
      }
    }
  }
}
