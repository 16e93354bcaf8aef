// Fused Winograd of stride 2, F(4 x 4, 3 x 3), for CPU devices.
#include "cpu_value.h"
#include "transform_f4x3s2.h"
#include "cpu_fused.h"
