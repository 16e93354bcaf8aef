// Winograd F(3 x 3, 5 x 5) on GPUs: the weight gradient.
#include "gpu_value.h"
#include "transform_f3x5.h"
#include "gpu_weights.h"
