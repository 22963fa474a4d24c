// Base conversion: digits and their weighted sums, as in ren/lowering/kernels/convert.py.

#pragma once

#include <vector>

#include "threads.h"
#include "vectors.h"

namespace {

template <class V>
struct Montgomery {
  V q, twice, q_inv;
  Montgomery(u32 modulus, u32 inverse)
      : q(splat<V>(modulus)), twice(splat<V>(2 * modulus)), q_inv(splat<V>(inverse)) {}
};

// t / 2^32 + more mod q in [0, q), for a sum t + 2^32 more < 2^34 q.
template <class V>
inline V reduce(const Sum<V>& t, const Montgomery<V>& m, V more = V{}) {
  V top = high(t.first, t.second) + more, h = mulhi<true>(low(t.first, t.second) * m.q_inv, m.q);
  top = lower(top, top - m.twice);  // < 2q; h < q
  V r = top - h;
  r = lower(r, r + m.q);
  return lower(r, r - m.q);
}

// a b / 2^32 mod q in [0, q), for any a, and b < q the same in all lanes.
template <class V>
inline V multiply(V a, u32 b, const Montgomery<V>& m) {
  Sum<V> t;
  t.add(a, splat<V>(b), second(a), splat<V>(b));
  return reduce(t, m);
}

template <class V>
inline V add(V a, V b, V q) {
  V total = a + b;
  return lower(total, total - q);
}

constexpr size_t kMaxTerms = 16;  // of a sum before it is reduced

// What digits y[i], plain and below 2^30, stand for: sum_i y[i] weights[i][j] + offset[j] mod b[j].
struct Target {
  size_t digits, count;
  const u32 *b, *b_inv, *offset, *weights;
};

// `width` numbers given by their digits, [digits, width], modulo `some` targets from j on, to out(j)
// and so on.
template <class V, int some, class Out>
void weighted_sums(const Target& to, size_t j, const u32* digits, size_t width, const Out& out) {
  for (size_t c = 0; c < width; c += lanes<V>) {
    V totals[some]{};
    for (size_t start = 0; start < to.digits; start += kMaxTerms) {
      const size_t end = start + kMaxTerms < to.digits ? start + kMaxTerms : to.digits;
      Sum<V> sums[some];
      for (size_t i = start; i < end; i++) {
        const V y = load<V>(digits + i * width + c), y_second = second(y);
        UNROLL for (int t = 0; t < some; t++) {
          const V w = splat<V>(to.weights[i * to.count + j + t]);
          sums[t].add(y, w, y_second, w);
        }
      }
      UNROLL for (int t = 0; t < some; t++) {
        const V part = reduce(sums[t], Montgomery<V>(to.b[j + t], to.b_inv[j + t]));
        totals[t] = start ? add(totals[t], part, splat<V>(to.b[j + t])) : part;
      }
    }
    UNROLL for (int t = 0; t < some; t++)
      store<V>(out(j + t) + c,
               add(totals[t], splat<V>(to.offset[j + t]), splat<V>(to.b[j + t])));
  }
}
template <class V, class Out>
void all_weighted_sums(const Target& to, const u32* digits, size_t width, const Out& out) {
  size_t j = 0;
  for (; j + 4 <= to.count; j += 4) weighted_sums<V, 4>(to, j, digits, width, out);
  for (; j < to.count; j++) weighted_sums<V, 1>(to, j, digits, width, out);
}

// Sums of `columns` rows x[i], [columns, width], with weights, to out(j) for each j below `rows`.
// The weights of kMixed rows stand side by side, [rows / kMixed, columns, kMixed].
constexpr size_t kMixed = 4;
template <class V, class Out>
void mixed(size_t columns, size_t rows, const u32* weights, const Montgomery<V>& m, const u32* x,
           size_t width, const Out& out) {
  for (size_t j = 0; j < rows; j += kMixed, weights += kMixed * columns) {
    for (size_t c = 0; c < width; c += lanes<V>) {
      V totals[kMixed]{};
      for (size_t start = 0; start < columns; start += kMaxTerms) {
        const size_t end = start + kMaxTerms < columns ? start + kMaxTerms : columns;
        Sum<V> sums[kMixed];
        for (size_t i = start; i < end; i++) {
          const V y = load<V>(x + i * width + c), y_second = second(y);
          UNROLL for (size_t t = 0; t < kMixed; t++) {
            const V w = splat<V>(weights[i * kMixed + t]);
            sums[t].add(y, w, y_second, w);
          }
        }
        UNROLL for (size_t t = 0; t < kMixed; t++)
          totals[t] = add(totals[t], reduce(sums[t], m), m.q);
      }
      for (size_t t = 0; t < kMixed && j + t < rows; t++) store<V>(out(j + t) + c, totals[t]);
    }
  }
}

constexpr size_t kMaxDigits = size_t(1) << 13;  // of all columns that are converted at a time

// How many columns are converted at a time.
template <class V>
size_t width_of(size_t n, size_t digits) {
  size_t width = n < 512 ? n : 512;
  while (width > lanes<V> && width * digits > kMaxDigits) width /= 2;
  return width;
}

// The moduli of the source and their inverses mod 2^32.
struct Source {
  const u32 *d, *d_inv;
};

// The digits of the approximate lift: [x scale + half] mod d, each on its own; limb i is at x(i).
template <class V, class In>
void own_digits(const Source& from, size_t limbs, const u32* scale, const u32* half, const In& x,
                size_t width, u32* digits) {
  for (size_t i = 0; i < limbs; i++) {
    const Montgomery<V> m(from.d[i], from.d_inv[i]);
    for (size_t c = 0; c < width; c += lanes<V>) {
      const V y = multiply(load<V>(x(i) + c), scale[i], m);
      store<V>(digits + i * width + c, add(y, splat<V>(half[i]), m.q));
    }
  }
}

// Digits j to j + some of `mixed_radix`, where the digits before j are known.
template <class V, int some, class In>
void more_digits(const Source& from, size_t limbs, size_t j, const u32* half, const u32* own,
                 const u32* cross, const In& x, size_t width, u32* digits) {
  constexpr size_t kTerms = 12;  // with the limb itself and 3 digits at most kMaxTerms
  u32 factors[some], added[some];
  UNROLL for (int t = 0; t < some; t++) {
    const Montgomery<u32> m(from.d[j + t], from.d_inv[j + t]);
    factors[t] = half ? multiply<u32>(own[j + t], 1, m) : own[j + t];
    added[t] = half ? multiply<u32>(half[j + t], own[j + t], m) : 0;
  }
  for (size_t c = 0; c < width; c += lanes<V>) {
    Sum<V> sums[some];
    V totals[some];
    UNROLL for (int t = 0; t < some; t++) {
      const V y = load<V>(x(j + t) + c), own_j = splat<V>(factors[t]);
      sums[t].add(y, own_j, second(y), own_j);
      totals[t] = splat<V>(added[t]);
    }
    const auto take = [&](int t) {
      const Montgomery<V> m(from.d[j + t], from.d_inv[j + t]);
      totals[t] = add(totals[t], reduce(sums[t], m), m.q);
      sums[t] = Sum<V>();
    };
    for (size_t start = 0; start < j; start += kTerms) {
      const size_t end = start + kTerms < j ? start + kTerms : j;
      for (size_t i = start; i < end; i++) {
        const V v = load<V>(digits + i * width + c), v_second = second(v);
        UNROLL for (int t = 0; t < some; t++) {
          const V w = splat<V>(cross[i * limbs + j + t]);
          sums[t].add(v, w, v_second, w);
        }
      }
      if (end < j) {
        UNROLL for (int t = 0; t < some; t++) take(t);
      }
    }
    UNROLL for (int t = 0; t < some; t++) {
      take(t);
      const V v = totals[t], v_second = second(v);
      store<V>(digits + (j + t) * width + c, v);
      UNROLL for (int later = t + 1; later < some; later++) {
        const V w = splat<V>(cross[(j + t) * limbs + j + later]);
        sums[later].add(v, w, v_second, w);
      }
    }
  }
}

// The digits of the exact lift, in mixed radix. The constants own[j] and cross[i][j] are those of
// `mixed_radix` in convert.py. Limb i is at x(i). With `half` the residues are in Montgomery form,
// and (D - 1)/2 is added; then own[j] 2^-32 takes the form away.
template <class V, class In>
void mixed_radix(const Source& from, size_t limbs, const u32* half, const u32* own,
                 const u32* cross, const In& x, size_t width, u32* digits) {
  size_t j = 0;
  for (; j + 4 <= limbs; j += 4)
    more_digits<V, 4>(from, limbs, j, half, own, cross, x, width, digits);
  for (; j < limbs; j++)
    more_digits<V, 1>(from, limbs, j, half, own, cross, x, width, digits);
}

}  // namespace
