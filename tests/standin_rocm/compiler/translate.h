// Preprocessed HIP to C++ that g++ compiles.
#pragma once

#include <string>

// Rewrites the words that the header leaves (kernels, local memory, clang's vectors) and appends an entry for every
// kernel.
std::string translated(const std::string &text);
