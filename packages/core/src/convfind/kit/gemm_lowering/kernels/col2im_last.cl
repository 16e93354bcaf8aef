// col2im, channels last: x += the columns [image][position][group][tap][channel] of each element.
//
// Every element gathers its taps, so nothing is added atomically. A chunk of positions touches the
// pixels from `first` on; those before `fresh` have sums of earlier chunks, the others get beta * x.
// Work-items: runs of RUN channels in each group, runs of BLOCK pixels, images.
#ifndef RUN
#define RUN 1    // channels of a work-item: 1 (GPU: neighbours read side by side), or hundreds (CPU)
#endif
#ifndef BLOCK
#define BLOCK 1  // pixels of a work-item: 1 or more
#endif
#include "window.h"

CF_KERNEL ITEMS void col2im_last(CF_GLOBAL const CF_NUMBER *CF_RESTRICT columns,
                                 CF_GLOBAL ELEMENT *CF_RESTRICT x, const int channels,
                                 const int groups, const int image, const int images,
                                 const int start, const int positions, const int first,
                                 const int pixels, const int fresh, CF_EPILOGUE_PARAMETERS, WINDOW) {
  const Epilogue whole = CF_EPILOGUE(x), epilogue = cf_epilogue_of_scaled(whole);
  const int group_channels = channels / groups;
  const int runs = (group_channels - 1) / RUN + 1;
  const CF_LONG depth = (CF_LONG)f_d * f_h * f_w * group_channels;
  FOR_EACH(n, 2, images)
  FOR_EACH(block, 1, (pixels - 1) / BLOCK + 1)
  FOR_EACH(unit, 0, groups * runs) {
    const int begin = block * BLOCK;
    const int count = min(BLOCK, pixels - begin);
    const int group = unit / runs;
    const int channel = unit % runs * RUN;
    const int width = RUN == 1 ? 1 : min(RUN, group_channels - channel);
    CF_GLOBAL const CF_NUMBER *from =
        columns + ((CF_LONG)n * positions * groups + group) * depth + channel;
    CF_GLOBAL ELEMENT *to = x + (CF_LONG)(image + n) * x_d * x_h * x_w * channels +
                          group * group_channels + channel;
    for (int pixel = first + begin; pixel < first + begin + count; ++pixel) {
      const int w = pixel % x_w;
      const int h = pixel / x_w % x_h;
      const int d = pixel / x_w / x_h;
      CF_NUMBER sum[RUN];
      for (int i = 0; i < width; ++i) sum[i] = 0.0f;
      for (int tap_d = 0; tap_d < f_d; ++tap_d) {
        const int out_d = output_index(d + pad_d - tap_d * dilation_d, stride_d, y_d);
        if (out_d < 0) continue;
        for (int tap_h = 0; tap_h < f_h; ++tap_h) {
          const int out_h = output_index(h + pad_h - tap_h * dilation_h, stride_h, y_h);
          if (out_h < 0) continue;
          for (int tap_w = 0; tap_w < f_w; ++tap_w) {
            const int out_w = output_index(w + pad_w - tap_w * dilation_w, stride_w, y_w);
            const int position = (out_d * y_h + out_h) * y_w + out_w - start;
            if (out_w < 0 || position < 0 || position >= positions) continue;
            const int tap = (tap_d * f_h + tap_h) * f_w + tap_w;
            CF_GLOBAL const CF_NUMBER *source =
                from + (CF_LONG)position * groups * depth + (CF_LONG)tap * group_channels;
            for (int i = 0; i < width; ++i) sum[i] += source[i];
          }
        }
      }
      const Epilogue own = cf_epilogue_of_pass(epilogue, pixel >= fresh, 1);
      CF_GLOBAL ELEMENT *target = to + (CF_LONG)pixel * channels;
      for (int i = 0; i < width; ++i)
        CF_STORE_RESULT(DTYPE, target + i, group * group_channels + channel + i, sum[i], own);
    }
  }
}
