// Whole plans: the code that ren/lowering/backends/native/bytecode.py writes and describes. What a
// limb goes through stays in the cache of a core.

#pragma once

#include <algorithm>
#include <vector>

#include "bytecode.h"
#include "calls.h"
#include "checks.h"
#include "conversions.h"
#include "memory.h"
#include "transforms.h"
#include "two_limbs.h"

namespace {

constexpr size_t kAheadOfSum = 512;  // words of each factor, some of which are keys in memory

// An argument, a result, or the rows that are kept. The fields: its address, the distance of its
// rows, and the start of each batch. The starts are nullptr where all begin at once. Of a number
// for each limb, a row is one vector of it. Permutations and `repeat` alone read shorter rows.
struct Buffer {
  u32* data;
  size_t row;
  const size_t* starts;
  bool is_number;
};

// Where the rows of one task are.
struct Frame {
  size_t n, batch;
  const Buffer* buffers;
  u32 *kept, *scratch;

  u32* row(u32 reference) const {
    const u32 number = reference >> kRowBits;
    const size_t row = reference & ((1u << kRowBits) - 1);
    if (number == kScratch) return scratch + row * n;
    if (number == kKept) return kept + row * n;
    const Buffer& buffer = buffers[number];
    return buffer.data + (buffer.starts ? buffer.starts[batch] : 0) + buffer.row * row;
  }
  bool is_number(u32 reference) const {
    const u32 number = reference >> kRowBits;
    return number < kKept && buffers[number].is_number;
  }
};

// A source of elementwise steps: a row, or one vector again and again.
struct Operand {
  const u32* data;
  size_t mask;

  template <class V>
  V at(size_t c) const { return load<V>(data + (c & mask)); }
  void ahead(size_t c) const { fetch(data + ((c + kAheadOfSum) & mask)); }
};

template <class V, class Function>
void map(u32* to, size_t width, const Function& f) {
  for (size_t c = 0; c < width; c += lanes<V>) store<V>(to + c, f(c));
}

// to = acc + sum_i a_i b_i / 2^32; for `fixed` terms, or as many as there are.
template <class V, int fixed>
void dot(u32* to, size_t width, size_t terms, const Operand* a, const Operand* b,
         const Operand* acc, const Montgomery<V>& m) {
  const size_t count = fixed ? fixed : terms;
  for (size_t c = 0; c < width; c += lanes<V>) {
    Sum<V> t;
    for (size_t i = 0; i < count; i++) {
      a[i].ahead(c), b[i].ahead(c);
      const V x = a[i].at<V>(c), y = b[i].at<V>(c);
      t.add(x, y, second(x), second(y));
    }
    V total = reduce(t, m);
    if (acc) total = add(total, acc->at<V>(c), m.q);
    store<V>(to + c, total);
  }
}

// to[c] = from[index[c]], where blocks of the index have a period.
template <class V>
void repeat(u32* to, size_t width, const u32* from, const u32* index, size_t block, size_t period) {
  for (size_t start = 0; start < width; start += block) {
    u32* const own = to + start;
    if (period == 1) {
      const V all = splat<V>(from[index[start]]);
      map<V>(own, block, [&](size_t) { return all; });
      continue;
    }
    map<V>(own, period, [&](size_t c) { return gather<V>(from, load<V>(index + start + c)); });
    for (size_t c = period; c < block; c += lanes<V>) store<V>(own + c, load<V>(own + c - period));
  }
}

// A step on residues of two limbs, one limb of the result: the low words, or the high ones. Which
// is behind the modulus, then the sources. Returns its number of words.
template <class V, class Source>
size_t wide_step(const u32* at, u32* to, size_t width, const Source& source) {
  const Pair<V> m = splat_pair<V>(at + 1);
  const bool is_high = at[4];
  const Operand low = source(at[5]), high = source(at[6]);
  const auto limb = [&](const Pair<V>& x) { return is_high ? x.high : x.low; };
  const auto negated = [&](const Pair<V>& x) { return lifted(Pair<V>{} - x, m); };
  if (at[0] == kWideNeg) {
    map<V>(to, width, [&](size_t c) { return limb(negated({low.at<V>(c), high.at<V>(c)})); });
    return 7;
  }
  if (at[0] == kWideFlip) {
    const Operand mask = source(at[7]);
    map<V>(to, width, [&](size_t c) {
      const Pair<V> x{low.at<V>(c), high.at<V>(c)};
      const V flips = mask.at<V>(c);
      return (limb(x) & ~flips) | (limb(negated(x)) & flips);
    });
    return 8;
  }
  const Operand b_low = source(at[7]), b_high = source(at[8]);
  const bool is_sum = at[0] == kWideAdd;
  map<V>(to, width, [&](size_t c) {
    const Pair<V> a{low.at<V>(c), high.at<V>(c)}, b{b_low.at<V>(c), b_high.at<V>(c)};
    return limb(lifted(is_sum ? a + b - m : a - b, m));
  });
  return 9;
}

// Elementwise steps on columns that stay in the L1 cache from one step to the next.
template <class V>
void group(const Frame& frame, const u32* code) {
  const u32* const end = code + code[0];
  const size_t constants = code[1];
  std::vector<u32> splats(constants * lanes<V>);
  for (size_t i = 0; i < splats.size(); i++) splats[i] = code[2 + i / lanes<V>];
  const u32* const first = code + 2 + constants;
  const size_t width = frame.n < kColumnsOfGroup ? frame.n : kColumnsOfGroup;
  for (size_t start = 0; start < frame.n; start += width) {
    const auto source = [&](u32 reference) {
      if (reference >> kRowBits == kConstant)
        return Operand{splats.data() + (reference & ((1u << kRowBits) - 1)) * lanes<V>, 0};
      if (frame.is_number(reference)) return Operand{frame.row(reference), 0};
      return Operand{frame.row(reference) + start, ~size_t(0)};
    };
    for (const u32* at = first; at < end;) {
      const u32 step = at[0], q = at[1], q_inv = at[2];
      u32* const to = frame.row(at[3]) + start;
      const Operand a = step == kDot || step == kRepeat ? Operand{} : source(at[4]);
      switch (step) {
        case kCopy:
          map<V>(to, width, [&](size_t c) { return a.at<V>(c); });
          at += 5;
          break;
        case kNeg: {
          const V modulus = splat<V>(q);
          map<V>(to, width, [&](size_t c) {
            const V x = a.at<V>(c);
            return lower(V{} - x, modulus - x);
          });
          at += 5;
          break;
        }
        case kMask: {
          const Operand mask = source(at[5]);
          map<V>(to, width, [&](size_t c) { return a.at<V>(c) & mask.at<V>(c); });
          at += 6;
          break;
        }
        case kFlip: {
          const Operand mask = source(at[5]);
          const V modulus = splat<V>(q);
          map<V>(to, width, [&](size_t c) {
            const V x = a.at<V>(c), flipped = lower(V{} - x, modulus - x), m = mask.at<V>(c);
            return (x & ~m) | (flipped & m);
          });
          at += 6;
          break;
        }
        case kRepeat:
          repeat<V>(to, width, frame.row(at[4]), frame.row(at[5]) + start, at[1], at[2]);
          at += 6;
          break;
        case kAdd: {
          const Operand b = source(at[5]);
          const V modulus = splat<V>(q);
          map<V>(to, width, [&](size_t c) { return add(a.at<V>(c), b.at<V>(c), modulus); });
          at += 6;
          break;
        }
        case kSub: {
          const Operand b = source(at[5]);
          const V modulus = splat<V>(q);
          map<V>(to, width, [&](size_t c) {
            const V difference = a.at<V>(c) - b.at<V>(c);
            return lower(difference, difference + modulus);
          });
          at += 6;
          break;
        }
        case kLiftFrom: {
          const Operand b = source(at[5]);
          const Montgomery<V> prime(q, q_inv);
          const u32* const factors = at + 6;
          map<V>(to, width, [&](size_t c) {
            return lift_from<V>({a.at<V>(c), b.at<V>(c)}, factors, prime);
          });
          at += 11;
          break;
        }
        case kWideAdd:
        case kWideSub:
        case kWideNeg:
        case kWideFlip:
          at += wide_step<V>(at, to, width, source);
          break;
        default: {  // the number of terms, whether there is a sum to add to, it, and the factors
          const size_t terms = at[4];
          const u32* const sources = at + 7;
          Operand x[kMaxTerms], y[kMaxTerms], sum{};
          for (size_t i = 0; i < terms; i++) {
            x[i] = source(sources[2 * i]);
            y[i] = source(sources[2 * i + 1]);
          }
          if (at[5]) sum = source(at[6]);
          const Operand* const to_add = at[5] ? &sum : nullptr;
          const Montgomery<V> m(q, q_inv);
          if (terms == 1) dot<V, 1>(to, width, terms, x, y, to_add, m);
          else if (terms == 2) dot<V, 2>(to, width, terms, x, y, to_add, m);
          else if (terms == 3) dot<V, 3>(to, width, terms, x, y, to_add, m);
          else if (terms == 4) dot<V, 4>(to, width, terms, x, y, to_add, m);
          else dot<V, 0>(to, width, terms, x, y, to_add, m);
          at = sources + 2 * terms;
        }
      }
    }
  }
}

// The steps of one task on its rows.
template <class V>
void run_rows(const Frame& frame, const u32* at) {
  const int log_n = log2_of(frame.n), log_c = log_n / 2 < kMaxLogC ? log_n / 2 : kMaxLogC;
  for (;;) {
    switch (at[0]) {
      case kEnd: return;
      case kNtt:
      case kIntt: {
        const u32* const tables = frame.row(at[4]) + (at[0] == kNtt ? 0 : 2 * frame.n);
        const Limb limb{tables, tables + frame.n, at[3], log_n, log_c};
        if (at[0] == kNtt) Transform<V, true>{limb}.whole(frame.row(at[2]), frame.row(at[1]));
        else Transform<V, false>{limb}.whole(frame.row(at[2]), frame.row(at[1]));
        at += 5;
        break;
      }
      case kPermute: {
        u32* const to = frame.row(at[1]);
        const u32 *const from = frame.row(at[2]), *const index = frame.row(at[3]);
        map<V>(to, frame.n, [&](size_t c) { return gather<V>(from, load<V>(index + c)); });
        at += 4;
        break;
      }
      default:
        group<V>(frame, at + 1);
        at += 1 + at[1];
    }
  }
}

// One base conversion, of the columns from c on.
template <class V>
void run_columns(const Frame& frame, const u32* code, size_t c, size_t width) {
  const bool is_exact = code[0] != kApproximate;
  const size_t k = code[1], m = code[2];
  const u32 *const from = code + 3, *const to = from + k, *const d = to + m, *const d_inv = d + k;
  if (code[0] == kMix) {
    u32* const columns = scratch(k * width * sizeof(u32));  // side by side, for all rows
    for (size_t i = 0; i < k; i++)
      std::copy_n(frame.row(from[i]) + c, width, columns + i * width);
    const auto out = [&](size_t j) { return frame.row(to[j]) + c; };
    return mixed<V>(k, m, frame.row(d[2]), Montgomery<V>(d[0], d[1]), columns, width, out);
  }
  const u32* rest = d_inv + k;
  alignas(64) u32 digits[kMaxDigits];
  const auto source = [&](size_t i) { return frame.row(from[i]) + c; };
  if (is_exact) {
    const u32 *const half = rest, *const own = half + k, *const cross = own + k;
    mixed_radix<V>({d, d_inv}, k, half, own, cross, source, width, digits);
    rest = cross + k * k;
    if (code[0] == kExactToWide)
      return wide_sums<V>(rest, k, digits, width, frame.row(to[0]) + c, frame.row(to[1]) + c);
  } else {
    own_digits<V>({d, d_inv}, k, rest, rest + k, source, width, digits);
    rest += 2 * k;
  }
  const Target target{k, m, rest, rest + m, rest + 2 * m, rest + 3 * m};
  all_weighted_sums<V>(target, digits, width, [&](size_t j) { return frame.row(to[j]) + c; });
}

// inputs, tables, code -> outputs.
template <class V>
void plan_call(const Call& in) {
  const size_t args = size_t(in.frame->args.size), results = size_t(in.frame->rets.size);
  const u32* const code = code_of(in);
  const size_t phases = code[0], scratch_rows = code[1], kept_rows = code[2], n = code[3];
  const u32* const apart = code + 4 + phases;
#if defined(REN_DEBUG)
  Checker checker(in, lanes<V>);
  checker.header();
#endif
  const std::vector<size_t> loops = loops_of(in.result_buffer(0), apart[args]);
  size_t batches = 1;
  for (size_t length : loops) batches *= length;
  std::vector<Buffer> buffers;
  std::vector<std::vector<u32>> numbers;
  std::vector<std::vector<size_t>> starts(args + results);
  for (size_t i = 0; i < args + results; i++) {
    const XLA_FFI_Buffer& b = i < args ? in.buffer(i) : in.result_buffer(i - args);
    Buffer buffer{static_cast<u32*>(b.data), n, nullptr, false};
    if (b.rank > 1 && i < args) buffer.row = size_t(b.dims[b.rank - 1]);
    if (b.rank > 1 && size_t(b.dims[b.rank - 1]) == 1) {
      numbers.emplace_back(Call::size(b) * lanes<V>);
      for (size_t j = 0; j < numbers.back().size(); j++)
        numbers.back()[j] = buffer.data[j / lanes<V>];
      buffer = {numbers.back().data(), lanes<V>, nullptr, true};
    }
    if (b.rank > 2) {
      const size_t size = size_t(b.dims[b.rank - 2]) * buffer.row;
      starts[i] = starts_of(b, apart[i], loops, size);
      buffer.starts = starts[i].data();
    }
    if (i >= args) prefer_large_pages(b.data, Call::size(b) * sizeof(u32));
    buffers.push_back(buffer);
  }
#if defined(REN_DEBUG)
  checker.body(starts);
#endif
  const auto run = [&](size_t phase, size_t task, size_t part, size_t batch, u32* kept) {
    const u32* const head = code + code[4 + phase];
    const u32* const own = code + head[3 + task];
    Frame frame{n, batch, buffers.data(), kept, nullptr};
    if (head[0] == kColumns) return run_columns<V>(frame, own, part * head[2], head[2]);
    if (scratch_rows) frame.scratch = scratch(scratch_rows * n * sizeof(u32));
    run_rows<V>(frame, own);
  };
  const auto parts = [&](size_t phase) { return n / code[code[4 + phase] + 2]; };
  const auto tasks = [&](size_t phase) { return size_t(code[code[4 + phase] + 1]); };
  if (batches >= in.pool.threads() && batches > 1) {  // no thread waits for another
    parallel(in.pool, batches, batches * n * 16 * phases, [&](size_t batch) {
      const Kept kept(kept_rows * n);
      for (size_t phase = 0; phase < phases; phase++)
        for (size_t i = 0; i < tasks(phase) * parts(phase); i++)
          run(phase, i / parts(phase), i % parts(phase), batch, kept.data());
    });
    return;
  }
  const Kept kept(batches * kept_rows * n);
  for (size_t phase = 0; phase < phases; phase++) {
    const size_t pieces = parts(phase), count = tasks(phase) * batches;
    parallel(in.pool, count * pieces, count * n * 16, [&](size_t i) {
      const size_t batch = i / pieces % batches;
      run(phase, i / pieces / batches, i % pieces, batch, kept.data() + batch * kept_rows * n);
    });
  }
}

}  // namespace
