// Four neighbouring channels of int8 as the bytes of a word, the first one the lowest; channels behind the last are 0.
#include "convfind_kernel.h"

// From [lines][channels][inner] to [lines][channels / 4, rounded up][inner], `size` words.
// Global size: at least `size`, any work-group size.
CF_KERNEL void igemm_gpu_words(CF_GLOBAL const CF_TYPE(INT8) *from, CF_GLOBAL CF_UINT *to, const int size,
                               const int channels, const int inner) {
  const int at = (int)CF_GLOBAL_ID(0);
  if (at >= size) return;
  const int words = (channels + 3) / 4, row = at / inner, line = row / words, channel = row % words * 4;
  from += ((CF_LONG)line * channels + channel) * inner + at % inner;
  CF_UINT word = 0;
  for (int i = 0; i < 4 && channel + i < channels; ++i)
    word |= ((CF_UINT)CF_LOAD(INT8, from, (CF_LONG)i * inner) & 255u) << (8 * i);
  to[at] = word;
}
