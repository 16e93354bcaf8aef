// The "source" of every mock solver. Nothing compiles it: MockDevice runs the Python function that is
// registered for the entry point instead.

#ifndef MICROSECONDS
#define MICROSECONDS 1000  // what one launch takes on the virtual clock: any whole number
#endif
#ifndef BUILD_FAILS
#define BUILD_FAILS 0  // 1: compiling raises KernelBuildError
#endif
