// operators-reduction: on GPUs, where lanes are neighbouring lines, and fewer than the device has work-items.
//
// A work-group has the lines of SIDE items, FOUR of each, and its other items take their share of their elements.
#include "fours.h"
#include "reductions.h"
#include "walk.h"

#ifndef X_TYPE
#define X_TYPE FLOAT32
#define Y_TYPE FLOAT32
#endif
#ifndef GROUP
#define GROUP 256  // work-items: a power of two
#endif
#ifndef SIDE
#define SIDE 4  // of them side by side: a power of two
#endif
#define SHARES (GROUP / SIDE)  // of a line
#define AT_ONCE 8  // loads of an item under way

#define ADD_FOUR(four) CF_UNROLL for (int e = 0; e < FOUR; ++e) kept[e] = both(kept[e], PART((four)[e]))

// One-dimensional grid of work-groups, which loop over what is beyond them.
CF_KERNEL CF_WORK_GROUP_SIZE(GROUP, 1, 1) void operators_reduction_columns(
    CF_GLOBAL const CF_TYPE(X_TYPE) *x, STEPS(x), MORE(x), CF_GLOBAL CF_TYPE(Y_TYPE) *y, STEPS(y), MORE(y), ROW_SIZES,
    const int length, const int more_0, const int more_1, const int more_2, const CF_LONG all, const CF_LONG rows,
    const CF_LONG columns, const NUMBER elements, const NUMBER epsilon) {
  CF_LOCAL NUMBER shares[SHARES][SIDE * FOUR];
  const int item = (int)CF_LOCAL_ID(0) % SIDE, share = (int)CF_LOCAL_ID(0) / SIDE;
  const int strips = (length + SIDE * FOUR - 1) / (SIDE * FOUR);
  const CF_LONG more = (CF_LONG)more_0 * more_1 * more_2;
  for (CF_LONG number = CF_GROUP_ID(0); number < all * strips; number += CF_GLOBAL_SIZE(0) / GROUP) {
    const Row row = ROW_OF(number / strips);
    const int first = ((int)(number % strips) * SIDE + item) * FOUR, left = length - first;
    CF_GLOBAL const CF_TYPE(X_TYPE) *const at_x = x + ROW_START(x, row) + first;
    VALUE kept[FOUR];
    CF_UNROLL for (int e = 0; e < FOUR; ++e) kept[e] = EACH(NONE);
    CF_LONG m = share;
    for (; left >= FOUR && m + (AT_ONCE - 1) * SHARES < more; m += AT_ONCE * SHARES) {
      NUMBER fours[AT_ONCE][FOUR];
      CF_UNROLL for (int i = 0; i < AT_ONCE; ++i) LOAD_FOUR(X_TYPE, fours[i], at_x + PLACE(m + i * SHARES));
      CF_UNROLL for (int i = 0; i < AT_ONCE; ++i) ADD_FOUR(fours[i]);
    }
    for (; left > 0 && m < more; m += SHARES) {
      NUMBER four[FOUR];
      LOAD_FIRST(X_TYPE, four, at_x + PLACE(m), left, NONE);
      ADD_FOUR(four);
    }
    CF_BARRIER();  // what others read of the strip before is written again
    CF_UNROLL for (int e = 0; e < FOUR; ++e) shares[share][item * FOUR + e] = kept[e];
    for (int others = SHARES / 2; others > 0; others /= 2) {
      CF_BARRIER();
      if (share < others) {
        CF_UNROLL for (int e = 0; e < FOUR; ++e) {
          kept[e] = both(kept[e], shares[share + others][item * FOUR + e]);
          shares[share][item * FOUR + e] = kept[e];
        }
      }
    }
    if (share == 0 && left > 0) {
      CF_UNROLL for (int e = 0; e < FOUR; ++e) kept[e] = END(kept[e]);
      STORE_FIRST(Y_TYPE, y + ROW_START(y, row) + first, kept, left);
    }
  }
}
