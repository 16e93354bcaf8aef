// Which keys a query of attention sees.
#ifndef CAUSAL
#define CAUSAL 0  // 1: a query sees the keys up to its own place
#endif
#ifndef MASK
#define MASK 0  // 1: bytes that are not 0 where a query sees a key; 2: numbers that are added to scores
#endif
#ifndef MASK_DTYPE
#define MASK_DTYPE FLOAT32
#endif
#ifndef MASK_KEY
#define MASK_KEY mask_key  // elements of the mask from key to key, where the compiler is told
#endif
#ifndef ZEROS
#define ZEROS 0  // 1: the result of a query that sees no key is 0, otherwise NaN
#endif

#define LEAST CF_AS_FLOAT(0xff800000u)
