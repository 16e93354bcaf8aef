// Fused Winograd F(4, 7) for CPU devices.
#include "cpu_value.h"
#include "transform_f4x7.h"
#include "cpu_fused.h"
