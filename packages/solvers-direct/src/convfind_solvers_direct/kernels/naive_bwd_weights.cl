// direct-naive-bwd-weights: w = alpha * gradient + beta * w; any layout, type, grouping, geometry.
//
// Work-items: the elements of one output channel's filter in the order in memory (CHANNELS_LAST),
// then output channels. Each sums over the batch and over the positions of y, row by row.
#include "naive.h"

CF_KERNEL void direct_naive_bwd_weights(CF_GLOBAL const INPUT *CF_RESTRICT x,
                                        CF_GLOBAL RESULT *CF_RESTRICT w,
                                        CF_GLOBAL const INPUT *CF_RESTRICT y, ARGUMENTS) {
  const Epilogue epilogue = CF_EPILOGUE(w);
  const CF_LONG positions = (CF_LONG)f_d * f_h * f_w;
  FOR_EACH(int, k, 1, groups * k_per_group)
  FOR_EACH(CF_LONG, element, 0, positions * c_per_group) {
#if CHANNELS_LAST
    const int c = element % c_per_group;
    const CF_LONG position = element / c_per_group;
#else
    const int c = element / positions;
    const CF_LONG position = element % positions;
#endif
    const int v = position % f_w;
    const int h = position / f_w % f_h;
    const int d = position / f_w / f_h;
    const CF_LONG x_base = ((CF_LONG)(k / k_per_group) * c_per_group + c) * x_step_c;
    const CF_LONG y_base = k * y_step_c;
    SUM sum = 0;
    for (int n = 0; n < batch; ++n) {
      for (int out_d = 0; out_d < y_d; ++out_d) {
        const int in_d = out_d * stride_d - pad_d + d * dilation_d;
        if (in_d < 0 || in_d >= x_d) continue;
        for (int out_h = 0; out_h < y_h; ++out_h) {
          const int in_h = out_h * stride_h - pad_h + h * dilation_h;
          if (in_h < 0 || in_h >= x_h) continue;
          const CF_LONG x_row = x_base + n * x_step_n + in_d * x_step_d + in_h * x_step_h;
          const CF_LONG y_row = y_base + n * y_step_n + out_d * y_step_d + out_h * y_step_h;
          SUM part = 0;
          for (int out_w = 0; out_w < y_w; ++out_w) {
            const int in_w = out_w * stride_w - pad_w + v * dilation_w;
            if (in_w < 0 || in_w >= x_w) continue;
            part += LOAD(x, x_row + in_w * x_step_w) * LOAD(y, y_row + out_w * y_step_w);
          }
          sum += part;
        }
      }
    }
    const CF_LONG to_w = k * w_step_n + c * w_step_c + d * w_step_d + h * w_step_h + v * w_step_w;
    CF_STORE_RESULT(DTYPE, w + to_w, 0, sum, epilogue);
  }
}
