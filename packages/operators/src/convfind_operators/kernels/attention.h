// Parameters of attention's kernels, and which keys a query sees.
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

// The mask has its steps and the number of sequences that it is repeated for behind it.
#if MASK
#define MASK_PARAMETERS                                                                                      \
  CF_GLOBAL const CF_TYPE(MASK_DTYPE) *mask, const CF_LONG mask_batch, const CF_LONG mask_head,              \
      const CF_LONG mask_query, const CF_LONG mask_key, const int mask_sequences,
#else
#define MASK_PARAMETERS
#endif
// Operands with their first elements, and steps from sequence to sequence, head to head and on in it.
#define OPERANDS                                                                                             \
  CF_GLOBAL const CF_TYPE(DTYPE) *q, CF_GLOBAL const CF_TYPE(DTYPE) *k, CF_GLOBAL const CF_TYPE(DTYPE) *v,   \
      MASK_PARAMETERS CF_GLOBAL CF_TYPE(DTYPE) *y, const CF_LONG q_start, const CF_LONG k_start,             \
      const CF_LONG v_start, const CF_LONG q_batch, const CF_LONG q_head, const CF_LONG q_step,              \
      const CF_LONG k_batch, const CF_LONG k_head, const CF_LONG k_step, const CF_LONG v_batch,              \
      const CF_LONG v_head, const CF_LONG v_step, const CF_LONG y_batch, const CF_LONG y_head,               \
      const CF_LONG y_step
// Steps from element to element of a vector, in kernels that take others than neighbours.
#define ELEMENT_STEPS                                                                                        \
  const CF_LONG q_element, const CF_LONG k_element, const CF_LONG v_element, const CF_LONG y_element
// Query heads, those that share keys, queries, keys, elements of a key and of a value; what scores are multiplied by.
#define SIZES                                                                                                \
  const int heads, const int sharing, const int queries, const int keys, const int depth, const int values,  \
      const float factor

// Operands of a head, from its query `first` on.
#define ENTER_HEAD(batch, head, first)                                              \
  do {                                                                              \
    q += q_start + batch * q_batch + head * q_head + first * q_step;                \
    k += k_start + batch * k_batch + head / sharing * k_head;                       \
    v += v_start + batch * v_batch + head / sharing * v_head;                       \
    y += batch * y_batch + head * y_head + first * y_step;                          \
    ENTER_MASK(batch, head);                                                        \
  } while (0)
#if MASK
#define ENTER_MASK(batch, head) mask += batch % mask_sequences * mask_batch + head * mask_head
#else
#define ENTER_MASK(batch, head)
#endif
