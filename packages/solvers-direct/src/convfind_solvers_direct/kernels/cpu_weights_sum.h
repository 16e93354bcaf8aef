// The sum of a weight gradient's parts on CPUs, channels last: BLOCK floats for each vector of result channels.
//
// In turn t, lane by lane, what FILTER_OF(lane, t) names, counted from the vector's first channel on, and the
// source channel of the lane's place in its group.
#ifndef CPU_WEIGHTS_SUM_H
#define CPU_WEIGHTS_SUM_H

// Global size: (vectors of channels).
__kernel ONE_ITEM void direct_cpu_sum(__global const float *restrict parts, __global float *restrict w,
                                      CF_EPILOGUE_PARAMETERS, const int groups, const int count) {
  const Epilogue epilogue = CF_EPILOGUE(w), rest = cf_epilogue_of_scaled(epilogue);
  const int channels = groups * FILTERS, first = get_global_id(0) * VEC;
  const long size = (long)(channels + VEC - 1) / VEC * BLOCK;
  for (int t = 0; t < CHANNELS; t++) {
    for (int tap = 0; tap < TAPS; tap++) {
      float16 sum = 0.0f;
      for (int i = 0; i < count; i++)
        sum += vload16(t * TAPS + tap, parts + i * size + get_global_id(0) * BLOCK);
      float lanes[VEC];
      vstore16(epilogue.alpha * sum, 0, lanes);
      for (int lane = 0; lane < min(VEC, channels - first); lane++) {
        __global float *to = w + ((long)(first + FILTER_OF(lane, t)) * TAPS + tap) * CHANNELS + lane % CHANNELS;
        CF_STORE_RESULT(FLOAT32, to, 0, lanes[lane], rest);
      }
    }
  }
}

#endif  // CPU_WEIGHTS_SUM_H
