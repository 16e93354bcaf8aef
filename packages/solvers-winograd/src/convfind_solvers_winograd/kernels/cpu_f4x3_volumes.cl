// Winograd F(4 x 4, 3 x 3) of the planes of volumes for CPU devices.
#include "cpu_value.h"
#include "transform_f4x3.h"
#include "cpu_volumes.h"
