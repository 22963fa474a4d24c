// Checks of a plan's bytecode before it runs, in builds with -DREN_DEBUG alone.
//
// Control flow does not depend on residues. So one pass over the words before the first task covers
// all that runs. Every opcode, count, position and row is compared with the size of what it
// indexes; the entries of permutations too. Moduli, their inverses and constants index nothing.

#pragma once

#if defined(REN_DEBUG)

#include <stdexcept>
#include <string>
#include <vector>

#include "bytecode.h"
#include "calls.h"
#include "conversions.h"

namespace {

// Rows of one buffer that are in bounds at every batch position.
struct Extent {
  u64 rows, length;
  bool is_number, is_result;
};

// What a reference may name besides whole rows of arguments, results and kept rows.
struct Allowed {
  u64 scratch;  // rows
  u64 constants = 0;
  bool has_numbers = false, has_short_rows = false;
};

class Checker {
 public:
  Checker(const Call& in, size_t lanes) : in_(in), lanes_(lanes) {
    code_ = in[args() - 1];
    words_ = in.size(args() - 1);
  }

  // Checks the words before the phases; later checks rely on them.
  void header() {
    const size_t buffers = args() + results();
    at_least(4 + buffers);
    phases_ = word(0, "the number of phases", 0, words_ - 4 - buffers);
    scratch_ = word(1, "the number of scratch rows", 0, words_);
    kept_ = word(2, "the number of kept rows", 0, words_);
    n_ = word(3, "the degree", 4, 1 << 17);
    if (n_ & (n_ - 1)) fail(3, "the degree", "a power of two");
    for (size_t i = 0; i < results(); i++) {
      const XLA_FFI_Buffer& b = in_.result_buffer(i);
      if (b.rank < 2 || u64(b.dims[b.rank - 1]) != n_) fail(3, "the degree", "that of the results");
    }
    loops_ = loops_of(in_.result_buffer(0), code_[4 + phases_ + args()]);
    for (size_t i = 0; i < buffers; i++) axes(i);
  }

  // Checks all other words. `starts` holds where each batch position begins; empty for position 0.
  void body(const std::vector<std::vector<size_t>>& starts) {
    for (size_t i = 0; i < args() + results(); i++) extents_.push_back(extent(i, starts[i]));
    extents_[args() - 1].rows = 0;  // the bytecode itself
    starts_ = &starts;
    size_t end = 4 + phases_ + extents_.size();
    for (size_t p = 0; p < phases_; p++) end = phase(4 + p, end);
  }

 private:
  size_t args() const { return size_t(in_.frame->args.size); }
  size_t results() const { return size_t(in_.frame->rets.size); }
  const XLA_FFI_Buffer& buffer(size_t i) const {
    return i < args() ? in_.buffer(i) : in_.result_buffer(i - args());
  }

  [[noreturn]] void fail(size_t i, const std::string& role, const std::string& needed) const {
    throw std::invalid_argument("Word " + std::to_string(i) + " of the bytecode is " +
                                std::to_string(code_[i]) + ". As " + role + " it must be " + needed +
                                ". Report this as a defect of Ren's compiler.");
  }
  void at_least(size_t words) const {
    if (words_ >= words) return;
    throw std::invalid_argument("Word " + std::to_string(words_) + " of the bytecode is missing: " +
                                "it has " + std::to_string(words_) + " words. The steps before it " +
                                "need " + std::to_string(words) +
                                ". Report this as a defect of Ren's compiler.");
  }
  u32 word(size_t i, const char* role, u64 low, u64 high) const {
    at_least(i + 1);
    if (code_[i] < low || code_[i] > high)
      fail(i, role, "in [" + std::to_string(low) + ", " + std::to_string(high) + "]");
    return code_[i];
  }

  // Axes that are loops are as long as those of the first result, or 1 in arguments.
  void axes(size_t i) const {
    const XLA_FFI_Buffer& b = buffer(i);
    const size_t place = 4 + phases_ + i;
    const std::vector<size_t> own = loops_of(b, code_[place]);
    const bool is_result = i >= args();
    bool fits = is_result ? own.size() == loops_.size() : own.size() <= loops_.size();
    for (size_t k = 0; fits && k < own.size(); k++) {
      const size_t whole = loops_[loops_.size() - own.size() + k];
      fits = own[k] == whole || (own[k] == 1 && !is_result);
    }
    if (!fits) fail(place, "the mask of batch axes that are taken apart", "one that fits the shapes");
  }

  Extent extent(size_t i, const std::vector<size_t>& starts) const {
    const XLA_FFI_Buffer& b = buffer(i);
    const bool is_number = b.rank > 1 && b.dims[b.rank - 1] == 1;
    const u64 length = b.rank > 1 ? u64(b.dims[b.rank - 1]) : n_;
    const u64 rows = Call::size(b) / length, step = is_number ? lanes_ : length;
    u64 most = 0;
    for (size_t start : starts) most = start > most ? start : most;
    most = (most + step - 1) / step;
    return {rows > most ? rows - most : 0, length, is_number, i >= args()};
  }

  size_t phase(size_t place, size_t end) {
    const size_t head = word(place, "the position of a phase", end, words_ - 1);
    const bool is_columns = word(head, "the kind of a phase", 0, 1);
    const size_t tasks = word(head + 1, "the number of tasks", 0, words_ - head);
    const size_t width = word(head + 2, "the columns of a task", is_columns ? lanes_ : n_, n_);
    if (n_ % width || width % lanes_)
      fail(head + 2, "the columns of a task", "whole vectors that divide the degree");
    end = head + 3 + tasks;
    at_least(end);
    for (size_t i = 0; i < tasks; i++) {
      const size_t start = word(head + 3 + i, "the position of a task", end, words_ - 1);
      end = is_columns ? conversion(start, width) : rows(start);
    }
    return end;
  }

  size_t rows(size_t at) const {
    const Allowed whole{scratch_};
    for (;;) {
      switch (word(at, "an opcode", kEnd, kGroup)) {
        case kEnd: return at + 1;
        case kNtt:
        case kIntt:
          write(at + 1, whole);
          read(at + 2, whole);
          read(at + 4, whole, 4);  // twiddles and their companions, forward and inverse
          at += 5;
          break;
        case kPermute:
          write(at + 1, whole);
          read(at + 2, Allowed{scratch_, 0, false, true});
          permutation(at + 3, length_of(at + 2));
          at += 4;
          break;
        default: at = group(at + 1);
      }
    }
  }

  size_t group(size_t at) const {
    at_least(at + 2);
    const size_t end = at + word(at, "the length of a group", 2, words_ - at);
    const size_t constants = word(at + 1, "the number of constants", 0, end - at - 2);
    at += 2 + constants;
    while (at < end) at = elementwise(at, constants, end);
    if (at > end) fail(at - 1, "the last word of a step", "inside its group");
    return end;
  }

  size_t elementwise(size_t at, size_t constants, size_t end) const {
    constexpr size_t kWords[] = {5, 6, 6, 5, 7, 6, 6, 6, 11, 9, 9, 7, 8};
    const u32 step = word(at, "an elementwise opcode", kCopy, kWideFlip);
    if (at + kWords[step] > end) fail(at, "an elementwise opcode", "one whose words the group holds");
    const Allowed source{scratch_, constants, true};
    write(at + 3, Allowed{scratch_});
    if (step == kLiftFrom) {
      read(at + 4, source), read(at + 5, source);
      return at + kWords[step];
    }
    if (step == kRepeat) {
      const u64 block = word(at + 1, "the length of a block", lanes_, kColumnsOfGroup);
      const u64 period = word(at + 2, "the period of a block", 1, block);
      if (block & (block - 1) || n_ % block)
        fail(at + 1, "the length of a block", "a power of two that divides the degree");
      if (period > 1 && (block % period || period % lanes_))
        fail(at + 2, "the period of a block", "1, or whole vectors that divide it");
      read(at + 4, Allowed{scratch_, 0, false, true});
      permutation(at + 5, length_of(at + 4));
      return at + kWords[step];
    }
    if (step > kLiftFrom) {
      word(at + 4, "a limb of the result", 0, 1);
      for (size_t i = 5; i < kWords[step]; i++) read(at + i, source);
      return at + kWords[step];
    }
    if (step != kDot) {
      for (size_t i = 4; i < kWords[step]; i++) read(at + i, source);
      return at + kWords[step];
    }
    const size_t terms = word(at + 4, "the number of terms", 1, kMaxTerms);
    if (word(at + 5, "the flag of a sum", 0, 1)) read(at + 6, source);
    if (at + 7 + 2 * terms > end) fail(at + 4, "the number of terms", "one that the group holds");
    for (size_t i = 0; i < 2 * terms; i++) read(at + 7 + i, source);
    return at + 7 + 2 * terms;
  }

  size_t conversion(size_t at, size_t width) const {
    const u32 kind = word(at, "the kind of a conversion", kApproximate, kMix);
    if (kind == kMix) return mix(at);
    const bool is_exact = kind != kApproximate, is_wide = kind == kExactToWide;
    const u64 k = word(at + 1, "the number of sources", 1, kMaxDigits / width);
    const u64 m = word(at + 2, "the number of targets", is_wide ? 2 : 0, is_wide ? 2 : words_);
    const u64 words = 3 + 3 * k + m + (is_exact ? 2 * k + k * k : 2 * k) +
                      (is_wide ? 4 + 2 * k : 3 * m + k * m);
    if (words > words_ - at) fail(at + 2, "the number of targets", "one whose tables follow");
    const Allowed columns{0};  // a task of columns has no scratch rows
    for (size_t i = 0; i < k; i++) read(at + 3 + i, columns);
    for (size_t j = 0; j < m; j++) write(at + 3 + k + j, columns);
    return at + words;
  }

  size_t mix(size_t at) const {
    const u64 k = word(at + 1, "the number of sources", 1, words_);
    const u64 m = word(at + 2, "the number of targets", 1, words_);
    if (6 + k + m > words_ - at) fail(at + 2, "the number of targets", "one that follows");
    for (size_t i = 0; i < k; i++) read(at + 3 + i, Allowed{0});
    for (size_t j = 0; j < m; j++) write(at + 3 + k + j, Allowed{0});
    const size_t place = at + 5 + k + m;
    const u32 reference = word(place, "a reference", 0, ~u32(0)), number = reference >> kRowBits;
    const u64 weights = (m + kMixed - 1) / kMixed * kMixed * k;
    const bool is_first = !(reference & ((1u << kRowBits) - 1));
    if (!is_first || number >= args() ||
        extents_[number].rows * extents_[number].length < weights)
      fail(place, "the weights of a mix", "a table that holds them");
    return at + 6 + k + m;
  }

  void write(size_t i, const Allowed& allowed) const { row(i, 1, true, allowed); }
  void read(size_t i, const Allowed& allowed, u64 count = 1) const { row(i, count, false, allowed); }

  // A reference to `count` rows that follow each other.
  void row(size_t i, u64 count, bool is_written, const Allowed& allowed) const {
    const u32 reference = word(i, "a reference", 0, ~u32(0)), number = reference >> kRowBits;
    const u64 row = reference & ((1u << kRowBits) - 1);
    u64 rows = 0;
    if (number == kScratch) rows = allowed.scratch;
    if (number == kConstant && !is_written) rows = allowed.constants;
    if (number == kKept) rows = kept_;
    if (number < extents_.size()) {
      const Extent& buffer = extents_[number];
      bool fits = is_written ? buffer.is_result : allowed.has_numbers || !buffer.is_number;
      if (!buffer.is_number && buffer.length != n_) fits = allowed.has_short_rows;
      if (fits) rows = buffer.rows;
    }
    if (row + count <= rows) return;
    const std::string what = is_written ? "a row to write: row " : "a row to read: row ";
    fail(i, what + std::to_string(row) + " of buffer " + std::to_string(number),
         "among " + std::to_string(rows) + " rows");
  }

  // The length of a row that a reference names.
  u64 length_of(size_t i) const {
    const u32 number = code_[i] >> kRowBits;
    return number < extents_.size() ? extents_[number].length : n_;
  }

  // A reference to the index of a permutation: an argument, whose entries nothing changes meanwhile.
  void permutation(size_t i, u64 length) const {
    read(i, Allowed{0});
    const u32 number = code_[i] >> kRowBits, row = code_[i] & ((1u << kRowBits) - 1);
    if (number >= args()) fail(i, "the index of a permutation", "a row of an argument");
    const std::vector<size_t>& starts = (*starts_)[number];
    for (size_t b = 0; b < (starts.empty() ? 1 : starts.size()); b++) {
      const u32* const index = in_[number] + (starts.empty() ? 0 : starts[b]) + row * n_;
      for (size_t c = 0; c < n_; c++)
        if (index[c] >= length)
          fail(i, "the index of a permutation", "one with entries in the row; one is " +
                                                    std::to_string(index[c]));
    }
  }

  const Call& in_;
  const size_t lanes_;
  const u32* code_;
  size_t words_, phases_ = 0, scratch_ = 0, kept_ = 0, n_ = 0;
  std::vector<size_t> loops_;
  std::vector<Extent> extents_;
  const std::vector<std::vector<size_t>>* starts_ = nullptr;
};

}  // namespace

#endif
