// Sums through an epilogue: element by element, by fours, and in two passes.
#define CF_PASSES 1
#include "convfind_epilogue.h"

#ifndef SUM
#define SUM FLOAT32     // FLOAT64, FLOAT32, INT32
#endif
#ifndef RESULT
#define RESULT FLOAT32  // FLOAT64, FLOAT32, FLOAT16, BFLOAT16, INT32
#endif
#ifndef WHOLE
#define WHOLE 0         // 1: sums are whole numbers
#endif

// Element i has channel i % channels.
CF_KERNEL void one_by_one(CF_GLOBAL const CF_TYPE(SUM) *sums, CF_GLOBAL CF_TYPE(RESULT) *result, CF_EPILOGUE_PARAMETERS,
                          const int channels) {
  const Epilogue epilogue = CF_EPILOGUE(result);
  const int at = (int)CF_GLOBAL_ID(0);
#if WHOLE
  CF_STORE_WHOLE_RESULT(RESULT, result + at, at % channels, sums[at], epilogue);
#else
  CF_STORE_RESULT(RESULT, result + at, at % channels, sums[at], epilogue);
#endif
}

// The same where the result is not read, or stored as it is in any case.
CF_KERNEL void not_reading(CF_GLOBAL const CF_TYPE(SUM) *sums, CF_GLOBAL CF_TYPE(RESULT) *result,
                           CF_EPILOGUE_PARAMETERS, const int channels) {
  const Epilogue epilogue = CF_EPILOGUE(result);
  const int at = (int)CF_GLOBAL_ID(0);
  if (CF_READS_RESULT(epilogue))
    CF_STORE_RESULT(RESULT, result + at, at % channels, sums[at], epilogue);
  else
    CF_STORE(RESULT, result, at, CF_RESULT(RESULT, result + at, at % channels, sums[at], epilogue));
}

#if !WHOLE
// A sum in two parts, with channels counted from a later one.
CF_KERNEL void in_passes(CF_GLOBAL const CF_TYPE(SUM) *sums, CF_GLOBAL CF_TYPE(RESULT) *result, CF_EPILOGUE_PARAMETERS,
                         const int channels) {
  const Epilogue whole = CF_EPILOGUE(result);
  const int at = (int)CF_GLOBAL_ID(0), channel = at % channels;
  const CF_TYPE(SUM) part = sums[at] / 4;
  const Epilogue first = cf_epilogue_of_pass(whole, 1, 0), last = cf_epilogue_of_pass(whole, 0, 1);
  CF_STORE_RESULT(RESULT, result + at, 0, part, CF_EPILOGUE_FROM(first, channel));
  CF_STORE_RESULT(RESULT, result + at, 0, sums[at] - part, CF_EPILOGUE_FROM(last, channel));
}

// Of four neighbours the channels are neighbours, too.
CF_KERNEL void by_fours(CF_GLOBAL const float *sums, CF_GLOBAL float *result, CF_EPILOGUE_PARAMETERS,
                        const int channels) {
  const Epilogue epilogue = CF_EPILOGUE(result);
  const int at = (int)CF_GLOBAL_ID(0) * 4;
  float four[4];
  CF_LOAD4(four, sums + at);
  cf_store_four_results(result + at, at % channels, 1, four, epilogue);
}
#endif
