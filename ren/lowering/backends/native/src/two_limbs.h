// Residues modulo m, 2^30 <= m < 2^61, in two limbs: rows of their low and of their high words. As
// in ren/lowering/kernels/wide_moduli.py.

#pragma once

#include "conversions.h"
#include "vectors.h"

namespace {

// 64-bit numbers with a sign, lane by lane.
template <class V>
struct Pair {
  V low, high;
};

// All ones where a < b.
template <class V>
inline V below(V a, V b) {
  if constexpr (lanes<V> == 1) return V(0) - V(a < b);
  else return (V)(a < b);
}
template <class V>
inline Pair<V> operator+(Pair<V> a, Pair<V> b) {
  const V low = a.low + b.low;
  return {low, a.high + b.high - below(low, a.low)};
}
template <class V>
inline Pair<V> operator-(Pair<V> a, Pair<V> b) {
  return {a.low - b.low, a.high - b.high + below(a.low, b.low)};
}
// All ones where a < 0.
template <class V>
inline V negative(Pair<V> a) { return V{} - (a.high >> 31); }
// a in (-m, m) to [0, m).
template <class V>
inline Pair<V> lifted(Pair<V> a, Pair<V> m) {
  const V mask = negative(a);
  return a + Pair<V>{m.low & mask, m.high & mask};
}
template <class V>
inline Pair<V> splat_pair(const u32* words) { return {splat<V>(words[0]), splat<V>(words[1])}; }

// The centred lift of x in [0, m) modulo a prime. The factors are 2^64, 2^96 and m 2^32 modulo it,
// and the words of m/2.
template <class V>
inline V lift_from(Pair<V> x, const u32* factors, const Montgomery<V>& p) {
  Sum<V> t;
  const V by_low = splat<V>(factors[0]), by_high = splat<V>(factors[1]);
  t.add(x.low, by_low, second(x.low), by_low);
  t.add(x.high, by_high, second(x.high), by_high);  // the sum is below 2^33 p
  const V above = negative(splat_pair<V>(factors + 3) - x);
  return reduce(t, p, (p.q - splat<V>(factors[2])) & above);
}

template <class W>
struct Types {
  typedef double Float __attribute__((vector_size(sizeof(W))));
  typedef int64_t Signed __attribute__((vector_size(sizeof(W))));
};
template <>
struct Types<u64> {
  typedef double Float;
  typedef int64_t Signed;
};
template <class To, class From>
inline To converted(From a) {
  if constexpr (sizeof(From) == sizeof(u64)) return To(a);
  else return __builtin_convertvector(a, To);
}

// x in (-m, m) to [0, m).
template <class W>
inline W not_negative(W x, W m) {
  return x + (m & (W)((typename Types<W>::Signed)x >> 63));
}
// low + 2^31 high mod m, for a quotient below 2^33. Its estimate is off by one at most, so that the
// remainder is in (-m, 2m), which the low 64 bits tell.
template <class W>
inline W reduced(W low, W high, W m, double inverse) {
  typedef typename Types<W>::Float Float;
  const Float value = converted<Float>(high) * 2147483648.0 + converted<Float>(low);
  const W quotient = converted<W>(value * inverse);
  const W r = not_negative(low + (high << 31) - quotient * m, m);
  return not_negative(r - m, m);
}

constexpr size_t kMaxWideTerms = 8;  // products below 2^61 that 64 bits hold

// `width` numbers given by their digits, [digits, width], modulo m: words to `low` and `high`.
// `rest` holds the words of m and of the offset, then of each weight the low 31 bits and the rest.
template <class V>
void wide_sums(const u32* rest, size_t count, const u32* digits, size_t width, u32* to_low,
               u32* to_high) {
  typedef decltype(product_first(V{}, V{})) W;
  const u64 modulus = rest[0] | u64(rest[1]) << 32, offset = rest[2] | u64(rest[3]) << 32;
  const u32* const weights = rest + 4;
  const double inverse = 1.0 / double(modulus);
  const W m = W{} + modulus;
  for (size_t c = 0; c < width; c += lanes<V>) {
    W totals[2] = {W{} + offset, W{} + offset};
    for (size_t start = 0; start < count; start += kMaxWideTerms) {
      const size_t end = start + kMaxWideTerms < count ? start + kMaxWideTerms : count;
      Sum<V> low, high;
      for (size_t i = start; i < end; i++) {
        const V y = load<V>(digits + i * width + c), y_second = second(y);
        const V w = splat<V>(weights[2 * i]), w_high = splat<V>(weights[2 * i + 1]);
        low.add(y, w, y_second, w);
        high.add(y, w_high, y_second, w_high);
      }
      totals[0] = not_negative(totals[0] + reduced(low.first, high.first, m, inverse) - m, m);
      totals[1] = not_negative(totals[1] + reduced(low.second, high.second, m, inverse) - m, m);
    }
    store<V>(to_low + c, ::low(totals[0], totals[1]));
    store<V>(to_high + c, ::high(totals[0], totals[1]));
  }
}

}  // namespace
