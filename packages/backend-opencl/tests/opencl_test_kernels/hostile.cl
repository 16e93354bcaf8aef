// 1x1 convolution of one image by one work-item, which does something else besides: DEED says what.
// Numbers of DEED are those of `DEEDS` in the test. Scratch memory is never cleared between runs.

#ifndef DEED
#define DEED 0  // 0 to 7; 0: nothing
#endif

#define FAR 100000  // floats

__kernel void hostile(__global float *x, __global float *w, __global float *y,
                      __global float *scratch, int channels, int filters, int positions,
                      int scratch_size) {
  const int size = channels * positions;
  __global int *runs = (__global int *)scratch;
  const int run = runs[0] = runs[0] < 0 ? 1 : runs[0] + 1;  // poison is -1
  if (run == 1) scratch[1] = x[0];
  for (int k = 0; k < filters; ++k)
    for (int p = 0; p < positions; ++p) {
      float sum = 0;
      for (int c = 0; c < channels; ++c) sum += w[k * channels + c] * x[c * positions + p];
      y[k * positions + p] = sum;
    }
#if DEED == 1
  for (int i = 0; i < size; ++i) x[i] = 0;
  for (int i = 0; i < filters * channels; ++i) w[i] = 0;
  for (int i = 0; i < filters * positions; ++i) y[i] = 0;
#elif DEED == 2
  x[0] = 7;
#elif DEED == 3
  scratch[scratch_size + FAR] = 7;
#elif DEED == 4
  y[filters * positions + FAR] = 7;
#elif DEED == 5
  if (run >= 3) y[1] += 0.5f;
#elif DEED == 6
  if (x[0] != scratch[1]) y[1] += 0.5f;
#elif DEED == 7
  if (run >= 3) w[1] = 7;
#endif
}
