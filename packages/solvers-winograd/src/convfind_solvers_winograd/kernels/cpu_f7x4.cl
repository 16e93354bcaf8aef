// The weight gradient by F(7, 4) for CPU devices.
#include "cpu_value.h"
#include "transform_f7x4.h"
#include "cpu_weights.h"
