// Winograd F(6 x 6, 3 x 3) on GPUs, forward and the data gradient.
#include "gpu_value.h"
#include "transform_f6x3.h"
#include "gpu_conv.h"
