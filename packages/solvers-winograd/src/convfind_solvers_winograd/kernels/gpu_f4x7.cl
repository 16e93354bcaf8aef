// Winograd F(4, 7) along one axis on GPUs, forward and the data gradient.
#include "gpu_value.h"
#include "transform_f4x7.h"
#include "gpu_conv.h"
