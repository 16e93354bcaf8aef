// The weight gradient by F(5, 4) for CPU devices.
#include "cpu_value.h"
#include "transform_f5x4.h"
#include "cpu_weights.h"
