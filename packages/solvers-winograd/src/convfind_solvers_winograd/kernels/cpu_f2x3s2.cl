// Fused Winograd of stride 2, F(2 x 2, 3 x 3), for CPU devices.
#include "cpu_value.h"
#include "transform_f2x3s2.h"
#include "cpu_fused.h"
