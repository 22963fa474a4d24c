// What the parts of the library call of each other, and how the host sees their functions.

#pragma once

#include "xla/ffi/api/c_api.h"

#define REN_HOST extern "C" __attribute__((visibility("default")))

// Bytecode on rings that are too small for vectors. It throws what failed.
void plan_in_words(const XLA_FFI_CallFrame* frame);
