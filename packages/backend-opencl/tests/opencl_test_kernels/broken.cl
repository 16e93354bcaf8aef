// Does not compile.
__kernel void broken(__global float *y)
{
    y[0] = undeclared_name;
}
