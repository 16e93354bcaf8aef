// Data gradients of stride 2, by Winograd F(4 x 4, 3 x 3), for CPU devices.
#include "cpu_value.h"
#include "transform_f4x3up2.h"
#include "cpu_fused.h"
