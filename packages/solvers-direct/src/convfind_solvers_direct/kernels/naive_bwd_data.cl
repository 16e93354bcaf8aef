// direct-naive-bwd-data: x = alpha * gradient + beta * x; any layout, type, grouping and geometry.
//
// Work-items: positions and channels of x (which is axis 0: CHANNELS_LAST), then the batch. Every
// element gathers the results that it took part in, so nothing is added atomically.
#include "naive.h"

CF_KERNEL void direct_naive_bwd_data(CF_GLOBAL RESULT *CF_RESTRICT x,
                                     CF_GLOBAL const INPUT *CF_RESTRICT w,
                                     CF_GLOBAL const INPUT *CF_RESTRICT y, ARGUMENTS) {
  const Epilogue epilogue = CF_EPILOGUE(x);
  FOR_EACH(int, n, 2, batch)
  FOR_EACH(int, channel, CHANNEL_AXIS, groups * c_per_group)
  FOR_EACH(CF_LONG, position, POSITION_AXIS, (CF_LONG)x_d * x_h * x_w) {
    const int in_w = position % x_w;
    const int in_h = position / x_w % x_h;
    const int in_d = position / x_w / x_h;
    const CF_LONG k_first = (CF_LONG)(channel / c_per_group) * k_per_group;
    const CF_LONG y_base = n * y_step_n + k_first * y_step_c;
    const CF_LONG w_base = k_first * w_step_n + channel % c_per_group * w_step_c;
    SUM sum = 0;
    for (int d = 0; d < f_d; ++d) {
      const int at_d = in_d + pad_d - d * dilation_d;
      if (at_d < 0 || at_d % stride_d != 0 || at_d / stride_d >= y_d) continue;
      for (int h = 0; h < f_h; ++h) {
        const int at_h = in_h + pad_h - h * dilation_h;
        if (at_h < 0 || at_h % stride_h != 0 || at_h / stride_h >= y_h) continue;
        for (int v = 0; v < f_w; ++v) {
          const int at_w = in_w + pad_w - v * dilation_w;
          if (at_w < 0 || at_w % stride_w != 0 || at_w / stride_w >= y_w) continue;
          CF_LONG from_y = y_base + at_d / stride_d * y_step_d + at_h / stride_h * y_step_h +
                           at_w / stride_w * y_step_w;
          CF_LONG from_w = w_base + d * w_step_d + h * w_step_h + v * w_step_w;
          SUM part = 0;
          for (int k = 0; k < k_per_group; ++k) {
            part += LOAD(y, from_y) * LOAD(w, from_w);
            from_y += y_step_c;
            from_w += w_step_n;
          }
          sum += part;
        }
      }
    }
    const CF_LONG to_x =
        n * x_step_n + channel * x_step_c + in_d * x_step_d + in_h * x_step_h + in_w * x_step_w;
    CF_STORE_RESULT(DTYPE, x + to_x, channel, sum, epilogue);
  }
}
