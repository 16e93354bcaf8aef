// Sums of 16 lanes through an epilogue, on CPU devices.
#define CF_PASSES 1
#include "convfind_cpu_vector.h"

// Lanes are the channels, of which there are `channels` or more floats; the last vector is part of one.
__kernel ONE_ITEM void along_channels(__global const float *sums, __global float *y, CF_EPILOGUE_PARAMETERS,
                                      const int channels) {
  const Epilogue epilogue = CF_EPILOGUE(y);
  const int row = get_global_id(0) * channels;
  for (int c = 0; c < channels; c += VEC) {
    const float16 bias = biases_of(epilogue, c, channels - c);
    __global float *to = y + row + c;
    const float16 sum = load_part(sums + row + c, channels - c);
    if (channels - c >= VEC && !CF_READS_RESULT(epilogue))
      vstore16(result_of(sum, to, bias, epilogue), 0, to);
    else
      store_part(sum, to, channels - c, bias, epilogue);
  }
}

// Lanes are channels in turns.
__kernel ONE_ITEM void in_turns(__global const float *sums, __global float *y, CF_EPILOGUE_PARAMETERS,
                                const int channels) {
  const Epilogue epilogue = CF_EPILOGUE(y);
  const int row = get_global_id(0) * channels;
  for (int c = 0; c < channels; c += VEC)
    store_part(load_part(sums + row + c, channels - c), y + row + c, channels - c,
               biases_in_turns(epilogue, row + c, channels), epilogue);
}

// A vector has one channel: each lane is stored as the only one of its vector.
__kernel ONE_ITEM void along_positions(__global const float *sums, __global float *y, CF_EPILOGUE_PARAMETERS,
                                       const int channels) {
  const Epilogue epilogue = CF_EPILOGUE(y);
  const int row = get_global_id(0) * channels;
  for (int c = 0; c < channels; c++)
    store_part((float16)(sums[row + c]), y + row + c, 1, bias_of(epilogue, c), epilogue);
}
