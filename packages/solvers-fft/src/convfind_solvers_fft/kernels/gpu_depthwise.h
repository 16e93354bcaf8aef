// Spectra of single channels on GPUs: where their numbers lie.
#ifndef GPU_DEPTHWISE_H
#define GPU_DEPTHWISE_H

#include "gpu_view.h"

// Real parts, then imaginary ones: [frequency][row], so that neighbouring items have neighbouring numbers. Row HALF is
// the other spectrum of row 0.
#define NUMBER(row, i) ((i) * (HALF + 1) + (row))
#define NUMBERS (2 * TILE * (HALF + 1))

// Weights are images, or with CHANNELS_LAST channels of one image; `channels` of them.
#define TILING_OF_WEIGHTS {0, CHANNELS_LAST ? 1 : channels, 1, 1, 0, 0}

#endif  // GPU_DEPTHWISE_H
