// Fused Winograd F(4 x 4, 3 x 3) of groups of few channels for CPU devices.
#include "convfind_cpu_lanes.h"

#define VALUE float8
#define MULTIPLY_ADD(constant, value, addend) fma((float8)(constant), value, addend)

#include "transform_f4x3.h"
#include "cpu_groups.h"
