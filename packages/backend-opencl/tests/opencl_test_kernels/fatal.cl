// A pointwise convolution, and what must not be done in one.
#if DEED == 3
#define E
#define A E E E E E E E E E E E E E E E E
#define B A A A A A A A A A A A A A A A A
#define C B B B B B B B B B B B B B B B B
#define D C C C C C C C C C C C C C C C C
#define F D D D D D D D D D D D D D D D D
#define G F F F F F F F F F F F F F F F F
#define H G G G G G G G G G G G G G G G G
#define I H H H H H H H H H H H H H H H H
#define J I I I I I I I I I I I I I I I I
J
#endif

kernel void fatal(global const float *x, global const float *w, global float *y, int channels,
                  int filters, int points) {
#if DEED == 1
  *(volatile global float *)(size_t)(64 + channels) = 1.0f;
#elif DEED == 2
  for (volatile int forever = 1; forever;) {
  }
#endif
  for (int filter = 0; filter < filters; ++filter)
    for (int point = 0; point < points; ++point) {
      float sum = 0.0f;
      for (int channel = 0; channel < channels; ++channel)
        sum += x[channel * points + point] * w[filter * channels + channel];
      y[filter * points + point] = sum;
    }
#if DEED == 4
  *(volatile global float *)(y + ((size_t)1 << 38)) = 1.0f;
#endif
}
