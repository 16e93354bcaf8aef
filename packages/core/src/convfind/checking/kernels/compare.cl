// How far a result is off, and what that is relative to: for each work-group the largest error, the largest size, and
// the sums of the squares of both. See convfind.checking.comparer.
//
// ITEMS: work-items of a group, a power of 2; DTYPE: of the result; RIGHT: of what is right; YARDSTICK: of what the
// sizes are taken of, which may be what is right. With CF_ACTIVATION, see convfind_activation.h, that is applied to what is
// right first, which is also what sizes are taken of, by a factor and with an addend.
#define CF_ARITHMETIC FLOAT64
#include "convfind_activation.h"

#define NUMBERS 4
#define TOO_LARGE 1.7e308  // an error like that is no number of a right result

CF_INLINE double larger(double one, double other) { return one < other ? other : one; }

CF_KERNEL CF_WORK_GROUP_SIZE(ITEMS, 1, 1) void compare(
    CF_GLOBAL const CF_TYPE(DTYPE) *result, CF_GLOBAL const CF_TYPE(RIGHT) *right,
    CF_GLOBAL const CF_TYPE(YARDSTICK) *yardstick, CF_GLOBAL double *found, const CF_LONG count, const float step,
    const double factor, const double addend CF_ACTIVATION_PARAMETERS) {
  CF_LOCAL double parts[NUMBERS * ITEMS];
  const int item = CF_LOCAL_ID(0);
  const CF_LONG first = (CF_LONG)CF_GROUP_ID(0) * ITEMS + item, stride = CF_GLOBAL_SIZE(0);
  double most = 0, error_squares = 0, largest = 0, squares = 0;
  for (CF_LONG at = first; at < count; at += stride) {
    double expected = (double)CF_LOAD(RIGHT, right, at);
#ifdef CF_ACTIVATION
    expected = cf_activation(expected CF_ACTIVATION_VALUES);
#endif
    double error = (double)CF_LOAD(DTYPE, result, at) - expected;
    double size = (double)CF_LOAD(YARDSTICK, yardstick, at);
    error = error < 0 ? -error : error;
    size = factor * (size < 0 ? -size : size) + addend;
    if (!(error <= TOO_LARGE)) error = TOO_LARGE;  // a NaN too
    if (error <= step) error = 0;
    most = larger(most, error);
    largest = larger(largest, size);
    error_squares += error * error;
    squares += size * size;
  }
  parts[item] = most;
  parts[ITEMS + item] = largest;
  parts[2 * ITEMS + item] = error_squares;
  parts[3 * ITEMS + item] = squares;
  CF_BARRIER();
  for (int others = ITEMS / 2; others > 0; others /= 2) {
    if (item < others) {
      for (int number = 0; number < NUMBERS; ++number) {
        CF_LOCAL_PTR double *part = parts + number * ITEMS + item;
        part[0] = number < 2 ? larger(part[0], part[others]) : part[0] + part[others];
      }
    }
    CF_BARRIER();
  }
  if (item < NUMBERS) found[CF_GROUP_ID(0) * NUMBERS + item] = parts[item * ITEMS];
}
