// What a value is in the transforms on CPU devices: a vector of channels or filters.
#ifndef CPU_VALUE_H
#define CPU_VALUE_H

#include "convfind_cpu_vector.h"

#define VALUE float16
#define MULTIPLY_ADD(constant, value, addend) fma((float16)(constant), value, addend)

#endif  // CPU_VALUE_H
