// Fused Winograd F(2, 3) for CPU devices.
#include "cpu_value.h"
#include "transform_f2x3.h"
#include "cpu_fused.h"
