// Small kernels, each for one thing that an invoker does.
#include "convfind_kernel.h"

// Value of FACTOR: any integer; shows that macros arrive.
#ifndef FACTOR
#define FACTOR 1
#endif

CF_KERNEL void affine(CF_GLOBAL const float *x, CF_GLOBAL float *y, const float a, const float b)
{
    const size_t i = CF_GLOBAL_ID(0);
    y[i] = FACTOR * (a * x[i] + b);
}

CF_KERNEL void scalars(CF_GLOBAL long *y, const int i, const uint u, const long l, const float f)
{
    y[0] = i;
    y[1] = u;
    y[2] = l;
    y[3] = (long)f;
}

CF_KERNEL void reverse_groups(CF_GLOBAL const float *x, CF_GLOBAL float *y, CF_LOCAL_PTR float *tile)
{
    const size_t local_id = CF_LOCAL_ID(0);
    tile[local_id] = x[CF_GLOBAL_ID(0)];
    CF_BARRIER();
    y[CF_GLOBAL_ID(0)] = tile[get_local_size(0) - 1 - local_id];
}

CF_KERNEL void add_all(CF_GLOBAL const float *x, CF_GLOBAL const float *w, CF_GLOBAL const float *scratch,
                       CF_GLOBAL const float *packed, CF_GLOBAL float *y)
{
    const size_t i = CF_GLOBAL_ID(0);
    y[i] = x[i] + 10 * w[i] + 100 * scratch[i] + 1000 * packed[i];
}

CF_KERNEL CF_WORK_GROUP_SIZE(8, 1, 1) void eight(CF_GLOBAL float *y)
{
    y[CF_GLOBAL_ID(0)] = 8;
}

CF_KERNEL void coordinates(CF_GLOBAL int *y)
{
    const size_t i = CF_GLOBAL_ID(0), j = CF_GLOBAL_ID(1), k = CF_GLOBAL_ID(2);
    y[(k * CF_GLOBAL_SIZE(1) + j) * CF_GLOBAL_SIZE(0) + i] = (int)(100 * k + 10 * j + i);
}

CF_KERNEL void spin(CF_GLOBAL float *y, const int rounds)
{
    float sum = y[CF_GLOBAL_ID(0)];
    for (int i = 0; i < rounds; i++)
        sum = sum * 0.999f + 1;
    y[CF_GLOBAL_ID(0)] = sum;
}
