// Fused Winograd F(4 x 4, 3 x 3) on GPUs, forward and the data gradient.
#include "gpu_value.h"
#include "transform_f4x3.h"
#include "gpu_fused.h"
