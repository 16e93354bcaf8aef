// Data gradients of stride 2, by Winograd F(8 x 8, 3 x 3), for CPU devices.
#include "cpu_value.h"
#include "transform_f8x3up2.h"
#include "cpu_fused.h"
