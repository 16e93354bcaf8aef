// Reductions by name: how two results become one, what an element adds to one, and what becomes of the last; and where the
// elements of a line lie.
#ifndef OPERATORS_REDUCTIONS_H
#define OPERATORS_REDUCTIONS_H

#include "functions.h"

#ifndef OPERATION
#define OPERATION SUM  // SUM, MEAN, MAX, MIN, PROD, L1, L2, LOG_SUM, SUM_SQUARE, ROOT_SUM; `elements` is a line's number
#endif

#ifndef MORE_AXES
#define MORE_AXES 3  // axes of a line beside that of the lanes
#endif

#define HOW_OF_SUM ADD
#define HOW_OF_MEAN ADD
#define HOW_OF_MAX MAX
#define HOW_OF_MIN MIN
#define HOW_OF_PROD MUL
#define HOW_OF_L1 ADD
#define HOW_OF_L2 ADD
#define HOW_OF_LOG_SUM ADD
#define HOW_OF_SUM_SQUARE ADD
#define HOW_OF_ROOT_SUM ADD
#define NONE_OF_ADD 0
#define NONE_OF_MUL 1
#define NONE_OF_MAX LEAST_NUMBER
#define NONE_OF_MIN LARGEST_NUMBER
#define SAME(value) (value)
#define SQUARE(value) ((value) * (value))
#define SHARE(value) ((value) / EACH(elements))
#define ROOT(value) CF_MATH(sqrt)(value)
#define LOG(value) CF_MATH(log)(value)
#define PART_OF_SUM SAME
#define PART_OF_MEAN SAME
#define PART_OF_MAX SAME
#define PART_OF_MIN SAME
#define PART_OF_PROD SAME
#define PART_OF_L1 OF_MAGNITUDE
#define PART_OF_L2 SQUARE
#define PART_OF_LOG_SUM SAME
#define PART_OF_SUM_SQUARE SQUARE
#define PART_OF_ROOT_SUM SAME
#define END_OF_SUM SAME
#define END_OF_MEAN SHARE
#define END_OF_MAX SAME
#define END_OF_MIN SAME
#define END_OF_PROD SAME
#define END_OF_L1 SAME
#define END_OF_L2 ROOT
#define END_OF_LOG_SUM LOG
#define END_OF_SUM_SQUARE SAME
#define END_OF_ROOT_SUM ROOT

#define JOINED(left, right) JOINED_EXPANDED(left, right)
#define JOINED_EXPANDED(left, right) left##right
#define HOW JOINED(HOW_OF_, OPERATION)
#define NONE JOINED(NONE_OF_, HOW)
#define PART(value) JOINED(PART_OF_, OPERATION)(value)
#define END(value) JOINED(END_OF_, OPERATION)(value)

CF_INLINE VALUE both(const VALUE a, const VALUE b) { return JOINED(OF_, HOW)(a, b); }

#define MORE(t) const CF_LONG t##_m0, const CF_LONG t##_m1, const CF_LONG t##_m2
// Where an element of a line begins, by its number along `more`.
#define PLACE(m)                                                                                         \
  (MORE_AXES == 0 ? 0                                                                                    \
   : MORE_AXES == 1 ? (m) * x_m0                                                                         \
                    : (m) % more_0 * x_m0 + (MORE_AXES == 2 ? (m) / more_0 : (m) / more_0 % more_1) * x_m1 + \
                          (MORE_AXES == 2 ? 0 : (m) / more_0 / more_1 * x_m2))

#endif  // OPERATORS_REDUCTIONS_H
