// col2im, channels first: x += the columns [image][channel][tap][position] that each element is in.
//
// Every element gathers its taps, so nothing is added atomically. A chunk of positions touches the
// elements from `first` on; those before `fresh` have sums of earlier chunks, the others get beta * x.
// Work-items: runs of BLOCK elements, channels, images.
#ifndef BLOCK
#define BLOCK 1  // elements of a work-item: 1 (GPU: neighbours read side by side), or hundreds (CPU)
#endif
#include "window.h"

CF_KERNEL ITEMS void col2im_first(CF_GLOBAL const CF_NUMBER *CF_RESTRICT columns,
                                  CF_GLOBAL ELEMENT *CF_RESTRICT x, const int channels,
                                  const int image, const int images, const int start,
                                  const int positions, const int first, const int elements,
                                  const int fresh, CF_EPILOGUE_PARAMETERS, WINDOW) {
  const Epilogue whole = CF_EPILOGUE(x), epilogue = cf_epilogue_of_scaled(whole);
  const int begin = CF_GLOBAL_ID(0) * BLOCK;
  if (begin >= elements) return;
  const int count = BLOCK == 1 ? 1 : min(BLOCK, elements - begin);
  FOR_EACH(n, 2, images)
  FOR_EACH(c, 1, channels) {
    CF_GLOBAL const CF_NUMBER *from =
        columns + ((CF_LONG)n * channels + c) * f_d * f_h * f_w * positions;
    CF_GLOBAL ELEMENT *to =
        x + ((CF_LONG)(image + n) * channels + c) * x_d * x_h * x_w + first + begin;
    int w = (first + begin) % x_w;
    int h = (first + begin) / x_w % x_h;
    int d = (first + begin) / x_w / x_h;
    for (int done = 0; done < count;) {
      const int width = BLOCK == 1 ? 1 : min(x_w - w, count - done);
      CF_NUMBER sum[BLOCK];
      for (int i = 0; i < width; ++i) sum[i] = 0.0f;
      for (int tap_d = 0; tap_d < f_d; ++tap_d) {
        const int out_d = output_index(d + pad_d - tap_d * dilation_d, stride_d, y_d);
        if (out_d < 0) continue;
        for (int tap_h = 0; tap_h < f_h; ++tap_h) {
          const int out_h = output_index(h + pad_h - tap_h * dilation_h, stride_h, y_h);
          if (out_h < 0) continue;
          const int line = (out_d * y_h + out_h) * y_w - start;  // where the row's positions begin
          const int least = max(0, -line), end = min(y_w, positions - line);
          for (int tap_w = 0; tap_w < f_w; ++tap_w) {
            const int offset = tap_w * dilation_w - pad_w - w;
            const int low = max(least, ceil_quotient(-offset, stride_w));
            const int high = min(end, ceil_quotient(width - offset, stride_w));
            CF_GLOBAL const CF_NUMBER *source =
                from + (CF_LONG)((tap_d * f_h + tap_h) * f_w + tap_w) * positions + line;
            if (BLOCK == 1) {
              if (low < high) sum[0] += source[low];
            } else if (stride_w == 1) {
              for (int i = low; i < high; ++i) sum[i + offset] += source[i];
            } else {
              for (int i = low; i < high; ++i) sum[i * stride_w + offset] += source[i];
            }
          }
        }
      }
      for (int i = 0; i < width; ++i, ++done) {
        const Epilogue own = cf_epilogue_of_pass(epilogue, first + begin + done >= fresh, 1);
        CF_STORE_RESULT(DTYPE, to + done, c, sum[i], own);
      }
      w = 0;
      if (++h == x_h) {
        h = 0;
        ++d;
      }
    }
  }
}
