// operators-local-response: y = x / (bias + alpha / size * sum of squares of neighbouring channels)^beta.
//
// The walk's rows and lanes are all axes but that of the channels, or on CPUs, where channels are neighbours in memory, lanes
// are channels.
#include "elements.h"
#include "walk.h"

#ifndef DTYPE
#define DTYPE FLOAT32
#endif
#ifndef X_IS
#define X_IS 1  // lanes of x, and of y: 1 neighbours, 2 at any distance
#define Y_IS 1
#endif
#ifndef CHANNEL_LANES
#define CHANNEL_LANES 0  // 1: lanes are channels
#endif

CF_KERNEL ONE_ITEM void operators_local_response(CF_GLOBAL const CF_TYPE(DTYPE) *x, STEPS(x), CF_GLOBAL CF_TYPE(DTYPE) *y,
                                        STEPS(y), ROW_SIZES, const int length, const CF_LONG all,
                                        const CF_LONG per_item, const int channels, const CF_LONG x_channel,
                                        const CF_LONG y_channel, const int before, const int after, const NUMBER share,
                                        const NUMBER beta, const NUMBER bias) {
#if WIDTH == 1
  for (CF_LONG index = CF_GLOBAL_ID(0); index < all * length; index += CF_GLOBAL_SIZE(0)) {
    const int i = index % length, left = 1;
    const CF_LONG at = index / length;
    {
#else
  const CF_LONG first = CF_GLOBAL_ID(0) * per_item;
  for (CF_LONG at = first; at < min(first + per_item, all); ++at) {
    for (int i = 0; i < length; i += WIDTH) {
      const int left = min(length - i, WIDTH);
#endif
#if CHANNEL_LANES
      const Row row = ROW_OF(at);
      const int c = i;
#else
      const Row row = ROW_OF(at / channels);
      const int c = at % channels;
#endif
      CF_GLOBAL const CF_TYPE(DTYPE) *const from = x + ROW_START(x, row) + i * x_step + (CHANNEL_LANES ? 0 : c * x_channel);
      VALUE squares = EACH(0);
      for (int o = -before; o <= after; ++o) {
#if CHANNEL_LANES && WIDTH > 1
        NUMBER lanes[WIDTH];
        VALUE value;
        if (c + o >= 0 && c + o + WIDTH <= channels) {
          value = LOAD(DTYPE, from + o);
        } else {
          for (int lane = 0; lane < WIDTH; ++lane)
            lanes[lane] = c + lane + o >= 0 && c + lane + o < channels ? (NUMBER)CF_LOAD(DTYPE, from, lane + o) : (NUMBER)0;
          value = vload16(0, lanes);
        }
#else
        if (c + o < 0 || c + o >= channels) continue;
        const VALUE value = LOAD_STEPPED(DTYPE, from + o * x_channel, X_IS, x_step, left);
#endif
        squares += value * value;
      }
      const VALUE element = LOAD_STEPPED(DTYPE, from, X_IS, x_step, left);
      const VALUE value = element / CF_MATH(pow)(EACH(bias) + EACH(share) * squares, EACH(beta));
      STORE_STEPPED(DTYPE, y + ROW_START(y, row) + i * y_step + (CHANNEL_LANES ? 0 : c * y_channel), Y_IS, y_step, left,
                    value);
    }
  }
}
