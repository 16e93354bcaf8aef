// Winograd F(3 x 3, 4 x 4) on GPUs: the weight gradient.
#include "gpu_value.h"
#include "transform_f3x4.h"
#include "gpu_weights.h"
