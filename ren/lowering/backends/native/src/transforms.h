// The NTT and its inverse, as `merged_tables` in ren/lowering/kernels/ntt.py describes them.

#pragma once

#include "threads.h"
#include "vectors.h"

namespace {

template <class V>
struct Modulus {
  V q, twice;
  explicit Modulus(u32 modulus) : q(splat<V>(modulus)), twice(splat<V>(2 * modulus)) {}
};

// a w mod q in [0, 2q), for any a; s is the Shoup companion of w.
template <bool is_splat, class V>
inline V shoup(V a, V w, V s, const Modulus<V>& m) {
  return a * w - mulhi<is_splat>(a, s) * m.q;
}

// (u, v) -> (u + w v, u - w v): in [0, 4q) before and after.
template <bool is_splat, class V>
inline void forward(V& u, V& v, V w, V s, const Modulus<V>& m) {
  V a = lower(u, u - m.twice), b = shoup<is_splat>(v, w, s, m);
  u = a + b;
  v = a - b + m.twice;
}

// (u, v) -> (u + v, (u - v) w): in [0, 2q) before and after.
template <bool is_splat, class V>
inline void inverse(V& u, V& v, V w, V s, const Modulus<V>& m) {
  V total = u + v, difference = u - v + m.twice;
  u = lower(total, total - m.twice);
  v = shoup<is_splat>(difference, w, s, m);
}

// `stages` stages on 2^stages values. The first has the one twiddle at(0, 0), the next at(1, 0) and
// at(1, 1), and so on.
template <int stages, bool is_splat, class V, class At>
inline void forward_stages(V (&x)[1 << stages], const Modulus<V>& m, const At& at) {
  UNROLL for (int t = 0; t < stages; t++) {
    const int half = 1 << (stages - 1 - t);
    UNROLL for (int j = 0; j < 1 << t; j++) {
      auto [w, s] = at(t, j);
      UNROLL for (int i = 2 * half * j; i < 2 * half * j + half; i++)
        forward<is_splat>(x[i], x[i + half], w, s, m);
    }
  }
}
template <int stages, bool is_splat, class V, class At>
inline void inverse_stages(V (&x)[1 << stages], const Modulus<V>& m, const At& at) {
  UNROLL for (int t = stages - 1; t >= 0; t--) {
    const int half = 1 << (stages - 1 - t);
    UNROLL for (int j = 0; j < 1 << t; j++) {
      auto [w, s] = at(t, j);
      UNROLL for (int i = 2 * half * j; i < 2 * half * j + half; i++)
        inverse<is_splat>(x[i], x[i + half], w, s, m);
    }
  }
}

template <class V>
struct Twiddle {
  V w, s;
};

// ---------------------------------------------------------------- transforms

// One limb of a ring and its tables; C = 2^log_c is the side of the squares transposed half way.
struct Limb {
  const u32 *w, *s;
  u32 q;
  int log_n, log_c;
};

constexpr size_t kAheadOfPass = 128;  // words: a few steps, each as long as a read from memory

// Stages of pairs far apart, on one block of 2^log values, each with one twiddle for many values.
// Block `index` of all blocks counts from 1 for the whole limb, 2 and 3 for its halves, and so on.
template <class V, int stages, bool is_forward, bool is_last>
void far_pass(const Limb& limb, const u32* x, u32* y, int log, size_t index, size_t begin,
              size_t end) {
  const Modulus<V> m(limb.q);
  const size_t apart = size_t(1) << (log - stages);
  auto at = [&](int t, int j) {
    const size_t i = (index << t) + j;
    return Twiddle<V>{splat<V>(limb.w[i]), splat<V>(limb.s[i])};
  };
  for (size_t c = begin; c < end; c += lanes<V>) {
    V values[1 << stages];
    if (x != y)  // it comes from memory
      UNROLL for (int i = 0; i < 1 << stages; i++) fetch(x + c + i * apart + kAheadOfPass);
    UNROLL for (int i = 0; i < 1 << stages; i++) values[i] = load<V>(x + c + i * apart);
    if constexpr (is_forward) {
      forward_stages<stages, true>(values, m, at);
    } else {
      inverse_stages<stages, true>(values, m, at);
    }
    if constexpr (is_last) {  // entry 0 of the tables is n^-1; entry 1 holds it as a factor
      UNROLL for (int i = 0; i < 1 << (stages - 1); i++)
        values[i] = shoup<true>(values[i], splat<V>(limb.w[0]), splat<V>(limb.s[0]), m);
      UNROLL for (int i = 0; i < 1 << stages; i++) values[i] = lower(values[i], values[i] - m.q);
    }
    UNROLL for (int i = 0; i < 1 << stages; i++) store<V>(y + c + i * apart, values[i]);
  }
}

// Some stages beginning with that of 2^t parts, of rows that lie as columns: x and y are [C, C].
template <class V, int stages, bool is_forward, bool is_last>
void near_pass(const Limb& limb, const u32* x, u32* y, size_t square, int first) {
  const Modulus<V> m(limb.q);
  const int log_c = limb.log_c;
  const size_t side = size_t(1) << log_c, rows = size_t(1) << (limb.log_n - log_c);
  const size_t apart = side >> (first + stages);
  for (size_t part = 0; part < size_t(1) << first; part++) {
    for (size_t r = 0; r < side; r += lanes<V>) {
      UNROLL for (int t = 0; t < stages; t++) {  // twiddles of the next square
        const size_t k = size_t(1) << (first + t), next = rows * k + (square + 1) * k * side + r;
        UNROLL for (int j = 0; j < 1 << t; j++) {
          fetch(limb.w + next + ((part << t) + j) * side);
          fetch(limb.s + next + ((part << t) + j) * side);
        }
      }
      for (size_t i = 0; i < apart; i++) {
        auto at = [&](int t, int j) {
          const size_t k = size_t(1) << (first + t);
          const size_t place = rows * k + (square * k + (part << t) + j) * side + r;
          return Twiddle<V>{load<V>(limb.w + place), load<V>(limb.s + place)};
        };
        const size_t start = (part * (side >> first) + i) * side + r;
        V values[1 << stages];
        UNROLL for (int u = 0; u < 1 << stages; u++)
          values[u] = load<V>(x + start + u * apart * side);
        if constexpr (is_forward) {
          forward_stages<stages, false>(values, m, at);
        } else {
          inverse_stages<stages, false>(values, m, at);
        }
        UNROLL for (int u = 0; u < 1 << stages; u++) {
          V v = values[u];
          if constexpr (is_last) {
            v = lower(v, v - m.twice);
            v = lower(v, v - m.q);
          }
          store<V>(y + start + u * apart * side, v);
        }
      }
    }
  }
}

template <class V>
void transpose(const u32* x, u32* y, size_t side) {
  for (size_t r = 0; r < side; r += lanes<V>) {
    for (size_t c = 0; c < side; c += lanes<V>) {
      V values[lanes<V>];
      UNROLL for (size_t i = 0; i < lanes<V>; i++) values[i] = load<V>(x + (r + i) * side + c);
      transpose_square<V>(values);
      UNROLL for (size_t i = 0; i < lanes<V>; i++) store<V>(y + (c + i) * side + r, values[i]);
    }
  }
}

constexpr int kMaxLogC = 5;
constexpr size_t kLeastSquare = size_t(1) << (2 * kMaxLogC);

// The near stages of one square, and the transposition before or after them.
template <class V>
void near_forward(const Limb& limb, u32* x, size_t square) {
  alignas(64) u32 own[1 << (2 * kMaxLogC)];
  transpose<V>(x, own, size_t(1) << limb.log_c);
  if constexpr (lanes<V> > 1) {
    near_pass<V, 3, true, false>(limb, own, own, square, 0);
    near_pass<V, 2, true, true>(limb, own, x, square, 3);
  } else {
    for (int t = 0; t < limb.log_c - 1; t++) near_pass<V, 1, true, false>(limb, own, own, square, t);
    near_pass<V, 1, true, true>(limb, own, x, square, limb.log_c - 1);
  }
}
template <class V>
void near_inverse(const Limb& limb, const u32* x, u32* y, size_t square) {
  alignas(64) u32 own[1 << (2 * kMaxLogC)];
  if constexpr (lanes<V> > 1) {
    near_pass<V, 2, false, false>(limb, x, own, square, 3);
    near_pass<V, 3, false, false>(limb, own, own, square, 0);
  } else {
    near_pass<V, 1, false, false>(limb, x, own, square, limb.log_c - 1);
    for (int t = limb.log_c - 2; t >= 0; t--) near_pass<V, 1, false, false>(limb, own, own, square, t);
  }
  transpose<V>(own, y, size_t(1) << limb.log_c);
}

// How many of `left` far stages the next pass takes: as even passes as can be. Of the five or more
// that rings of squares of side 32 have, a pass never takes one alone.
template <class V>
int stages_of(int left) {
  const int most = lanes<V> > 1 ? kMaxStages : 1, passes = (left + most - 1) / most;
  return (left + passes - 1) / passes;
}

template <class V, bool is_forward, bool is_last>
void any_far_pass(const Limb& limb, const u32* x, u32* y, int stages, int log, size_t index,
                  size_t begin, size_t end) {
  if constexpr (lanes<V> > 1) {
    if constexpr (kMaxStages > 3) {
      if (stages == 4)
        return far_pass<V, 4, is_forward, is_last>(limb, x, y, log, index, begin, end);
    }
    if (stages == 3) return far_pass<V, 3, is_forward, is_last>(limb, x, y, log, index, begin, end);
    return far_pass<V, 2, is_forward, is_last>(limb, x, y, log, index, begin, end);
  }
  far_pass<V, 1, is_forward, is_last>(limb, x, y, log, index, begin, end);
}

// The `left` far stages of a block, depth first, so that all but the first pass stay in the L1
// cache.
template <class V, bool is_forward>
void far_stages(const Limb& limb, u32* x, int left, int log, size_t index) {
  if (left == 0) return;
  const int stages = stages_of<V>(left), rest = log - stages;
  if (is_forward)
    any_far_pass<V, true, false>(limb, x, x, stages, log, index, 0, size_t(1) << rest);
  for (size_t i = 0; i < size_t(1) << stages; i++)
    far_stages<V, is_forward>(limb, x + (i << rest), left - stages, rest, (index << stages) + i);
  if (!is_forward)
    any_far_pass<V, false, false>(limb, x, x, stages, log, index, 0, size_t(1) << rest);
}

// A transform in two steps, each of independent parts. The first is the far pass over the whole
// limb in columns, the second all else in chunks.
template <class V, bool is_forward>
struct Transform {
  const Limb& limb;
  const int far = limb.log_n - limb.log_c, top = stages_of<V>(far), log_child = limb.log_n - top,
            log_chunk = log_child < 2 * limb.log_c ? 2 * limb.log_c : log_child;

  size_t chunks() const { return size_t(1) << (limb.log_n - log_chunk); }

  void columns(const u32* x, u32* y) const {
    any_far_pass<V, is_forward, !is_forward>(limb, x, y, top, limb.log_n, 1, 0,
                                             size_t(1) << log_child);
  }
  void chunk(const u32* x, u32* y, size_t chunk) const {
    const size_t start = chunk << log_chunk, end = start + (size_t(1) << log_chunk);
    const size_t square = size_t(1) << (2 * limb.log_c);
    if (!is_forward)
      for (size_t i = start; i < end; i += square)
        near_inverse<V>(limb, x + i, y + i, i / square);
    for (size_t i = start; i < end; i += size_t(1) << log_child)
      far_stages<V, is_forward>(limb, y + i, far - top, log_child,
                                (size_t(1) << top) + (i >> log_child));
    if (is_forward)
      for (size_t i = start; i < end; i += square) near_forward<V>(limb, y + i, i / square);
  }
  void whole(const u32* x, u32* y) const {
    if (is_forward) columns(x, y);
    for (size_t i = 0; i < chunks(); i++) chunk(is_forward ? y : x, y, i);
    if (!is_forward) columns(y, y);
  }
};

int log2_of(size_t n) { return 63 - __builtin_clzll(n); }

}  // namespace
