// Winograd F(3 x 3, 6 x 6) on GPUs: the weight gradient.
#include "gpu_value.h"
#include "transform_f3x6.h"
#include "gpu_weights.h"
