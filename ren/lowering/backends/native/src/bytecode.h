// The bytecode that ren/lowering/backends/native/bytecode.py writes and describes: its words, and
// which batch axes it loops over.

#pragma once

#include <stdexcept>
#include <vector>

#include "calls.h"
#include "vectors.h"

namespace {

// A reference is a buffer's number and a row of it.

enum PhaseKind : u32 { kRows, kColumns };
enum Step : u32 { kEnd, kNtt, kIntt, kPermute, kGroup };
// From kLiftFrom on of moduli of two limbs: their words are in the place of a prime's own.
enum Elementwise : u32 {
  kCopy, kAdd, kSub, kNeg, kDot, kMask, kFlip, kRepeat,
  kLiftFrom, kWideAdd, kWideSub, kWideNeg, kWideFlip
};
enum Conversion : u32 { kApproximate, kExact, kExactToWide, kMix };
constexpr size_t kColumnsOfGroup = 2048;  // which steps of single residues go through together
constexpr u32 kRowBits = 20, kScratch = 4095, kConstant = 4094, kKept = 4093;

// The batch axes of an array that are loops. Rows count the positions of the axes in `apart`, of
// which the last axis is the lowest bit.
std::vector<size_t> loops_of(const XLA_FFI_Buffer& b, u32 apart) {
  std::vector<size_t> loops;
  for (int64_t axis = 0; axis < b.rank - 2; axis++) {
    const int64_t bit = b.rank - 3 - axis;
    if (bit >= 32 || !(apart >> bit & 1)) loops.push_back(size_t(b.dims[axis]));
  }
  return loops;
}

// The start of each position of the loops in an array. The array's own loops, the last ones of all,
// are as long or 1.
std::vector<size_t> starts_of(const XLA_FFI_Buffer& b, u32 apart, const std::vector<size_t>& loops,
                              size_t size) {
  std::vector<size_t> steps(loops.size(), 0);
  const int64_t own = b.rank - 2;
  size_t step = size, loop = loops.size();
  for (int64_t bit = 0; bit < own; bit++) {
    const size_t length = size_t(b.dims[own - 1 - bit]);
    if (bit >= 32 || !(apart >> bit & 1)) {
      loop--;
      if (length > 1) steps[loop] = step;
    }
    step *= length;
  }
  std::vector<size_t> starts{0};
  for (size_t axis = 0; axis < loops.size(); axis++) {
    std::vector<size_t> finer;
    for (size_t start : starts)
      for (size_t i = 0; i < loops[axis]; i++) finer.push_back(start + i * steps[axis]);
    starts.swap(finer);
  }
  return starts;
}

const u32* code_of(const Call& in) { return in[size_t(in.frame->args.size) - 1]; }
// The degree, which decides the kind of vectors.
inline u32 degree_of(const Call& in) {
#if defined(REN_DEBUG)
  if (in.size(size_t(in.frame->args.size) - 1) < 4)
    throw std::invalid_argument("Words 0 to 3 of the bytecode are missing.");
#endif
  return code_of(in)[3];
}

}  // namespace
