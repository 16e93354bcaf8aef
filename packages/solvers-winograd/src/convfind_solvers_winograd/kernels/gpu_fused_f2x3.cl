// Fused Winograd F(2 x 2, 3 x 3) on GPUs, forward and the data gradient.
#include "gpu_value.h"
#include "transform_f2x3.h"
#include "gpu_fused.h"
