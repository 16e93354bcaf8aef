// Winograd F(5 x 5, 4 x 4) on GPUs: the weight gradient.
#include "gpu_value.h"
#include "transform_f5x4.h"
#include "gpu_weights.h"
