// Residues to floats: `floats` in ren/lowering/kernels/integers.py, bit for bit.

#pragma once

#include "conversions.h"
#include "workers.h"

namespace {

// Half of the lanes of V as floats, and as signed numbers, of which comparisons make masks.
constexpr size_t kHalf = lanes<Vector> / 2 > 0 ? lanes<Vector> / 2 : 1;
template <class V>
struct Half {
  typedef double Floats __attribute__((vector_size(8 * kHalf)));
  typedef int32_t Numbers __attribute__((vector_size(4 * kHalf)));
};
template <>
struct Half<u32> {
  typedef double Floats __attribute__((vector_size(8)));
  typedef int32_t Numbers __attribute__((vector_size(4)));
};

// The tables of `floats`: constants of the digits. (q - 1)/2 and the largest digit that counts, of
// each limb. Three pieces of each weight.
struct FloatTables {
  Source from;
  const u32 *half, *own, *cross, *middles, *most;
  const double* pieces;
};

// The floats of `width` numbers given by their digits, [limbs, width]. What runs depends on none.
template <class V>
void floats_of(const FloatTables& t, size_t limbs, const u32* digits, size_t width, double* out) {
  typedef typename Half<V>::Floats Floats;
  typedef typename Half<V>::Numbers Numbers;
  for (size_t c = 0; c < width; c += sizeof(Floats) / sizeof(double)) {
    Floats upper{}, lower{};
    for (size_t i = limbs; i-- > 0;) {
      Numbers v;
      __builtin_memcpy(&v, digits + i * width + c, sizeof(v));
      v -= int32_t(t.middles[i]);
      if (t.most[i] == 1) v = (v < 0) - (v > 0);
      const Floats d = __builtin_convertvector(v, Floats);
      const double* const piece = t.pieces + 3 * i;
      // Products are exact, and so is the rounding error of this sum (Dekker).
      const Floats term = d * piece[0], total = upper + term;
      lower += (term - (total - upper)) + d * piece[1] + d * piece[2];
      upper = total;
    }
    const Floats found = upper + lower;
    __builtin_memcpy(out + c, &found, sizeof(found));
  }
}

// float64 [batches, n] of Montgomery residues x [batches, limbs, n], some columns at a time.
template <class V>
void floats(const FloatTables& t, size_t batches, size_t limbs, size_t n, const u32* x, double* out,
            size_t threads) {
  const size_t width = width_of<V>(n, limbs), parts = n / width;
  work_off(threads, batches * parts, [&](size_t task) {
    const size_t batch = task / parts, c = task % parts * width;
    const u32* const from = x + batch * limbs * n + c;
    std::vector<u32> digits(limbs * width);
    const auto limb = [&](size_t j) { return from + j * n; };
    mixed_radix<V>(t.from, limbs, t.half, t.own, t.cross, limb, width, digits.data());
    floats_of<V>(t, limbs, digits.data(), width, out + batch * n + c);
  });
}

}  // namespace
