// operators-elementwise, operators-copy: y = function(inputs), element by element; inputs may be repeated along axes.
//
// The walk's innermost axis is a row. On CPUs a work-item has `rows` rows, of each `columns` elements, in vectors; elsewhere
// work-items have FOUR neighbours after the other, of which no four is in two rows.
#include "fours.h"
#include "functions.h"
#include "walk.h"

#ifndef FUNCTION
#define FUNCTION IDENTITY  // a name in functions.h
#endif
#ifndef INPUTS
#define INPUTS 1  // 0 to 5
#endif
#ifndef Y_TYPE
#define Y_TYPE FLOAT32  // elements of y
#endif
#ifndef Y_IS
#define Y_IS 1  // elements of y in a row: 1 neighbours, 2 any distance
#endif
#ifndef PER_ITEM
#define PER_ITEM 1  // so many times FOUR elements are loaded before the first is stored, a group's size apart
#endif
#ifndef GROUP
#define GROUP 256  // work-items of a group
#endif
#ifndef INDEX
#define INDEX CF_LONG  // counts FOURs of y, and what a launch has beyond them: CF_UINT where it can
#endif
#ifndef TAIL
#define TAIL 0  // 1: rows are no multiples of FOUR
#endif
// ACTIVATES_0, ACTIVATES_1, ACTIVATES_RESULT: one of them says what CF_ACTIVATION is applied to.
// TYPE_0, ..: elements of the inputs; IS_0, ..: those in a row: 0 one for all, 1 neighbours, 2 any distance.
#ifndef TYPE_0
#define TYPE_0 FLOAT32
#define IS_0 1
#endif

#define PARAMETER(t) CF_GLOBAL const CF_TYPE(TYPE_##t) *in_##t, STEPS(x##t),
#define POINTER(t) CF_GLOBAL const CF_TYPE(TYPE_##t) *const at_##t = in_##t + ROW_START(x##t, row);
#define ELEMENT(t) CF_JOIN(ELEMENT_, IS_##t)(t)
#define ELEMENT_0(t) all_##t
#define ELEMENT_1(t) LOAD_STEPPED(TYPE_##t, at_##t + i, 1, 1, left)
#define ELEMENT_2(t) LOAD_STEPPED(TYPE_##t, at_##t + i * x##t##_step, 2, x##t##_step, left)
#define LOADED(t) const VALUE v_##t = GIVEN_##t(ELEMENT(t));
#define AHEAD(t) CF_JOIN(AHEAD_, IS_##t)(t)
#define AHEAD_OF 512  // elements
#define AHEAD_0(t)
#define AHEAD_1(t) PREFETCH(at_##t + i + AHEAD_OF);
#define AHEAD_2(t)
#define ALL(t) CF_JOIN(ALL_, IS_##t)(t)
#define ALL_0(t) const VALUE all_##t = EACH(CF_LOAD(TYPE_##t, at_##t, 0));
#define ALL_1(t)
#define ALL_2(t)

// On GPUs: the numbers of a work-item, all of them loaded first.
#define NUMBERS(t) NUMBER n_##t[PER_ITEM][FOUR];
#define FETCHED(t) CF_JOIN(FETCHED_, IS_##t)(t)
#define FETCHED_0(t)                                        \
  {                                                         \
    const NUMBER once = LOAD(TYPE_##t, at_##t);             \
    for (int e = 0; e < FOUR; ++e) n_##t[part][e] = once;   \
  }
#define FETCHED_1(t) LOAD_FIRST(TYPE_##t, n_##t[part], at_##t + i, LEFT, 1);
#define FETCHED_2(t) n_##t[part][0] = LOAD(TYPE_##t, at_##t + i * x##t##_step);
#define OF_FOUR(t) const NUMBER v_##t = GIVEN_##t(n_##t[part][e]);

#if INPUTS == 0
#define FOR_INPUTS(what)
#define RESULT EACH(a)
#elif INPUTS == 1
#define FOR_INPUTS(what) what(0)
#define RESULT CF_JOIN(OF_, FUNCTION)(v_0)
#elif INPUTS == 2
#define FOR_INPUTS(what) what(0) what(1)
#define RESULT CF_JOIN(OF_, FUNCTION)(v_0, v_1)
#elif INPUTS == 3
#define FOR_INPUTS(what) what(0) what(1) what(2)
#define RESULT CF_JOIN(OF_, FUNCTION)(v_0, v_1, v_2)
#elif INPUTS == 4
#define FOR_INPUTS(what) what(0) what(1) what(2) what(3)
#define RESULT CF_JOIN(OF_, FUNCTION)(v_0, v_1, v_2, v_3)
#else
#define FOR_INPUTS(what) what(0) what(1) what(2) what(3) what(4)
#define RESULT CF_JOIN(OF_, FUNCTION)(v_0, v_1, v_2, v_3, v_4)
#endif
// An activation of an input, or of the result.
#ifdef ACTIVATES_0
#define GIVEN_0(value) ACTIVATED(value)
#else
#define GIVEN_0(value) (value)
#endif
#ifdef ACTIVATES_1
#define GIVEN_1(value) ACTIVATED(value)
#else
#define GIVEN_1(value) (value)
#endif
#define GIVEN_2(value) (value)
#define GIVEN_3(value) (value)
#define GIVEN_4(value) (value)
#ifdef ACTIVATES_RESULT
#define FINISHED(value) ACTIVATED(value)
#else
#define FINISHED(value) (value)
#endif
// Declares `value`, what `left` elements of a row become from the i-th on.
#define COMPUTE        \
  FOR_INPUTS(LOADED)   \
  const VALUE value = FINISHED(RESULT);

#define LEFT (TAIL ? counts[part] : FOUR)

// a, b and epsilon: numbers of the function. `all` counts elements, on GPUs FOURs.
CF_KERNEL ONE_ITEM void operators_map(FOR_INPUTS(PARAMETER) CF_GLOBAL CF_TYPE(Y_TYPE) *y, STEPS(y), ROW_SIZES, const int length,
                             const CF_LONG all, const CF_LONG rows, const CF_LONG columns, const NUMBER a, const NUMBER b,
                             const NUMBER epsilon CF_ACTIVATION_PARAMETERS) {
#if WIDTH == 1
  const INDEX fours = (length + FOUR - 1) / FOUR, last = all - 1;
  for (INDEX first = CF_GROUP_ID(0) * (PER_ITEM * GROUP) + CF_LOCAL_ID(0); first <= last;
       first += PER_ITEM * CF_GLOBAL_SIZE(0)) {
    FOR_INPUTS(NUMBERS)
    CF_LONG places[PER_ITEM];
    int counts[PER_ITEM];
    // No branch keeps one load back until another is there: what is behind the last loads that once more.
    CF_UNROLL
    for (int part = 0; part < PER_ITEM; ++part) {
      const INDEX index = first + part * GROUP <= last ? first + part * GROUP : last;
      const int i = (OUTER == 0 ? index : index % fours) * FOUR;
      const Row row = ROW_OF(OUTER == 0 ? 0 : index / fours);
      counts[part] = TAIL ? length - i : FOUR;
      FOR_INPUTS(POINTER)
      FOR_INPUTS(FETCHED)
      places[part] = ROW_START(y, row) + i * (Y_IS == 1 ? 1 : y_step);
    }
    CF_UNROLL
    for (int part = 0; part < PER_ITEM; ++part) {
      NUMBER values[FOUR];
      CF_UNROLL
      for (int e = 0; e < FOUR; ++e) {
        FOR_INPUTS(OF_FOUR)
        values[e] = FINISHED(RESULT);
      }
      if (first + part * GROUP <= last) STORE_FIRST(Y_TYPE, y + places[part], values, LEFT);
    }
  }
#else
  const CF_LONG first = CF_GLOBAL_ID(0) * rows, begin = CF_GLOBAL_ID(1) * columns;
  const CF_LONG last = min(first + rows, all / length), end = min(begin + columns, (CF_LONG)length);
  for (CF_LONG index = first; index < last; ++index) {
    const Row row = ROW_OF(index);
    FOR_INPUTS(POINTER)
    FOR_INPUTS(ALL)
    CF_GLOBAL CF_TYPE(Y_TYPE) *const at_y = y + ROW_START(y, row);
    CF_LONG i = begin;
#if STREAMED && defined(STORE_STREAMED)
    {
      const int left = min((CF_LONG)(-((size_t)(at_y + i) >> 2) & (WIDTH - 1)), end - i);
      if (left > 0) {
        COMPUTE
        STORE_SOME(Y_TYPE, at_y + i, 1, left, value);
        i += left;
      }
    }
    for (; i + WIDTH <= end; i += WIDTH) {
      const int left = WIDTH;
      FOR_INPUTS(AHEAD)
      COMPUTE
      STORE_STREAMED(at_y + i, value);
    }
#endif
    for (; i < end; i += WIDTH) {
      const int left = min(end - i, (CF_LONG)WIDTH);
      COMPUTE
      STORE_STEPPED(Y_TYPE, at_y + i * (Y_IS == 1 ? 1 : y_step), Y_IS, y_step, left, value);
    }
  }
#endif
}
