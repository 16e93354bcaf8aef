// A part of a ring of numbers, whatever they are: see convfind.checking.device_rings.
//
// NUMBER_SIZE: of a number.
#include "convfind_kernel.h"

#if NUMBER_SIZE == 1
typedef unsigned char Number;
#elif NUMBER_SIZE == 2
typedef unsigned short Number;
#elif NUMBER_SIZE == 4
typedef CF_UINT Number;
#else
typedef unsigned CF_LONG Number;
#endif

CF_KERNEL void part_of_ring(
    CF_GLOBAL const Number *ring, CF_GLOBAL Number *part, const CF_LONG size, const CF_LONG start, const CF_LONG count) {
  const CF_LONG step = CF_GLOBAL_SIZE(0);
  for (CF_LONG at = CF_GLOBAL_ID(0); at < count; at += step) part[at] = ring[(start + at) % size];
}
