// direct-naive-fwd: y = alpha * conv(x, w) + beta * y; any layout, type, grouping and geometry.
//
// Work-items: positions and channels of y (which is axis 0: CHANNELS_LAST), then the batch. The
// filter is walked outside of the channels: bounds are checked there, not in the inner loop.
#include "naive.h"

CF_KERNEL void direct_naive_fwd(CF_GLOBAL const INPUT *CF_RESTRICT x,
                                CF_GLOBAL const INPUT *CF_RESTRICT w,
                                CF_GLOBAL RESULT *CF_RESTRICT y, ARGUMENTS) {
  const Epilogue epilogue = CF_EPILOGUE(y);
  FOR_EACH(int, n, 2, batch)
  FOR_EACH(int, k, CHANNEL_AXIS, groups * k_per_group)
  FOR_EACH(CF_LONG, position, POSITION_AXIS, (CF_LONG)y_d * y_h * y_w) {
    const int out_w = position % y_w;
    const int out_h = position / y_w % y_h;
    const int out_d = position / y_w / y_h;
    const CF_LONG x_base = n * x_step_n + (CF_LONG)(k / k_per_group) * c_per_group * x_step_c;
    const CF_LONG w_base = k * w_step_n;
    SUM sum = 0;
    for (int d = 0; d < f_d; ++d) {
      const int in_d = out_d * stride_d - pad_d + d * dilation_d;
      if (in_d < 0 || in_d >= x_d) continue;
      for (int h = 0; h < f_h; ++h) {
        const int in_h = out_h * stride_h - pad_h + h * dilation_h;
        if (in_h < 0 || in_h >= x_h) continue;
        for (int v = 0; v < f_w; ++v) {
          const int in_w = out_w * stride_w - pad_w + v * dilation_w;
          if (in_w < 0 || in_w >= x_w) continue;
          CF_LONG from_x = x_base + in_d * x_step_d + in_h * x_step_h + in_w * x_step_w;
          CF_LONG from_w = w_base + d * w_step_d + h * w_step_h + v * w_step_w;
          SUM part = 0;
          for (int c = 0; c < c_per_group; ++c) {
            part += LOAD(x, from_x) * LOAD(w, from_w);
            from_x += x_step_c;
            from_w += w_step_c;
          }
          sum += part;
        }
      }
    }
    const CF_LONG to_y =
        n * y_step_n + k * y_step_c + out_d * y_step_d + out_h * y_step_h + out_w * y_step_w;
    CF_STORE_RESULT(Y_DTYPE, y + to_y, k, sum, epilogue);
  }
}
