// Fused Winograd F(6 x 6, 3 x 3) for CPU devices.
#include "cpu_value.h"
#include "transform_f6x3.h"
#include "cpu_fused.h"
