// The weight gradient by F(3 x 3, 4 x 4) for CPU devices.
#include "cpu_value.h"
#include "transform_f3x4.h"
#include "cpu_weights.h"
