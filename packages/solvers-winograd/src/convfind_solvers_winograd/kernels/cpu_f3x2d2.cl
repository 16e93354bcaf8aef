// The weight gradient of stride 2 by Winograd F(3 x 3, 2 x 2) for CPU devices.
#include "cpu_value.h"
#include "transform_f3x2d2.h"
#include "cpu_weights.h"
