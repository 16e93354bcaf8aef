// Fused Winograd F(4, 5) for CPU devices.
#include "cpu_value.h"
#include "transform_f4x5.h"
#include "cpu_fused.h"
