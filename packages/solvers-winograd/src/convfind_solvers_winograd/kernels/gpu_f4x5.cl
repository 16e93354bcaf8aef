// Winograd F(4 x 4, 5 x 5) on GPUs, forward and the data gradient.
#include "gpu_value.h"
#include "transform_f4x5.h"
#include "gpu_conv.h"
