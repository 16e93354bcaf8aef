// example-pointwise-fwd: y = w * x for 1x1 filters, NCHW, float32, on CPU devices.
//
// A work-item computes CHUNK tiles of neighbouring positions of one image in all output channels,
// TILE_K channels at a time in registers. The longer the runs that it reads, the better memory streams. Work-groups have
// one work-item: the vectors fill the machine, no parallelism among work-items is needed.

#ifndef TILE_K
#define TILE_K 1  // output channels in registers: 1 to 4; at most out_channels
#endif
#ifndef VECTORS
#define VECTORS 8  // vectors of 16 positions in registers: 1, 2, 4, 8, 16; TILE_K * VECTORS at most 24
#endif
#ifndef CHUNK
#define CHUNK 4  // tiles of positions that a work-item computes: 1 and more
#endif

#define POSITIONS (VECTORS * 16)  // of a tile; at most those of an image

__kernel __attribute__((vec_type_hint(float16))) void example_pointwise_fwd(
    __global const float *restrict x, __global const float *restrict w, __global float *restrict y,
    const int channels, const int out_channels, const int positions) {
  x += get_global_id(1) * (size_t)channels * positions;
  y += get_global_id(1) * (size_t)out_channels * positions;
  const int first = get_global_id(0) * (CHUNK * POSITIONS);
  const int last = min(first + CHUNK * POSITIONS, positions);

  // The last tiles of an image and of the channels overlap their neighbours instead of ending early:
  // what two of them compute is the same.
  for (int k_tile = 0; k_tile < out_channels; k_tile += TILE_K) {
    const int k = min(k_tile, out_channels - TILE_K);
    for (int tile = first; tile < last; tile += POSITIONS) {
      const int p = min(tile, positions - POSITIONS);
      float16 sum[TILE_K][VECTORS];
#pragma unroll
      for (int i = 0; i < TILE_K; ++i)
#pragma unroll
        for (int v = 0; v < VECTORS; ++v) sum[i][v] = 0;
      for (int c = 0; c < channels; ++c) {
        float16 in[VECTORS];
#pragma unroll
        for (int v = 0; v < VECTORS; ++v) in[v] = vload16(v, x + (size_t)c * positions + p);
#pragma unroll
        for (int i = 0; i < TILE_K; ++i) {
          const float16 weight = w[(k + i) * channels + c];
#pragma unroll
          for (int v = 0; v < VECTORS; ++v) sum[i][v] = fma(weight, in[v], sum[i][v]);
        }
      }
#pragma unroll
      for (int i = 0; i < TILE_K; ++i)
#pragma unroll
        for (int v = 0; v < VECTORS; ++v)
          vstore16(sum[i][v], v, y + (size_t)(k + i) * positions + p);
    }
  }
}
