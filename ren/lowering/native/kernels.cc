// The kernels that matter most, for CPUs: transforms and base conversion.
//
// What each computes is defined by its namesake in ren/lowering/kernels, and is equal to it bit for
// bit. Residues are uint32 in [0, q), q < 2^30; arrays are [*batch, limb, n], row-major. Tables are
// those of the jax.numpy kernels.
//
// One text for every processor: the code is written for a vector type V, which is the widest that
// the compiler has, or uint32_t itself where a ring is too small for it.

#include <sched.h>
#include <sys/mman.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "xla/ffi/api/c_api.h"

#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__ARM_NEON) && defined(__aarch64__)
#include <arm_neon.h>
#endif

#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 64")
#endif

namespace {

using std::size_t;
typedef uint32_t u32;
typedef uint64_t u64;

// ---------------------------------------------------------------- vectors

// Products of 32-bit numbers are 64 bits long, so those of two vectors fill two vectors of u64, the
// first and the second half of the lanes in an order of the processor's own. `second` brings an
// operand of the second half into place; `high` and `low` make one vector again. `lower` is the minimum
// of unsigned numbers. A lone number has no second half.

inline u32 second(u32) { return 0; }
inline u64 product_first(u32 a, u32 b) { return u64(a) * b; }
inline u64 product_second(u32, u32) { return 0; }
inline u32 high(u64 first, u64) { return u32(first >> 32); }
inline u32 low(u64 first, u64) { return u32(first); }
inline u32 lower(u32 a, u32 b) { return a < b ? a : b; }

#if defined(__AVX512F__)
constexpr int kMaxStages = 4;  // of one pass: 16 values in 32 registers
typedef u32 Vector __attribute__((vector_size(64), may_alias));
typedef u64 Wide __attribute__((vector_size(64), may_alias));

inline Vector second(Vector a) { return (Vector)_mm512_srli_epi64((__m512i)a, 32); }
inline Wide product_first(Vector a, Vector b) {
  return (Wide)_mm512_mul_epu32((__m512i)a, (__m512i)b);
}
inline Wide product_second(Vector a, Vector b) { return product_first(a, b); }
inline Vector high(Wide first, Wide second) {
  return (Vector)_mm512_mask_shuffle_epi32((__m512i)second, 0x5555, (__m512i)first,
                                           _MM_PERM_ENUM(0xF5));
}
inline Vector low(Wide first, Wide second) {
  return (Vector)_mm512_mask_shuffle_epi32((__m512i)first, 0xAAAA, (__m512i)second,
                                           _MM_PERM_ENUM(0xA0));
}
inline Vector lower(Vector a, Vector b) {
  return (Vector)_mm512_min_epu32((__m512i)a, (__m512i)b);
}
#elif defined(__AVX2__)
constexpr int kMaxStages = 3;
typedef u32 Vector __attribute__((vector_size(32), may_alias));
typedef u64 Wide __attribute__((vector_size(32), may_alias));

inline Vector second(Vector a) { return (Vector)_mm256_srli_epi64((__m256i)a, 32); }
inline Wide product_first(Vector a, Vector b) {
  return (Wide)_mm256_mul_epu32((__m256i)a, (__m256i)b);
}
inline Wide product_second(Vector a, Vector b) { return product_first(a, b); }
inline Vector high(Wide first, Wide second) {
  return (Vector)_mm256_blend_epi32(_mm256_srli_epi64((__m256i)first, 32), (__m256i)second, 0xAA);
}
inline Vector low(Wide first, Wide second) {
  return (Vector)_mm256_blend_epi32((__m256i)first, _mm256_slli_epi64((__m256i)second, 32), 0xAA);
}
inline Vector lower(Vector a, Vector b) {
  return (Vector)_mm256_min_epu32((__m256i)a, (__m256i)b);
}
#elif defined(__ARM_NEON) && defined(__aarch64__)
constexpr int kMaxStages = 3;
typedef u32 Vector __attribute__((vector_size(16), may_alias));
typedef u64 Wide __attribute__((vector_size(16), may_alias));

inline Vector second(Vector a) { return a; }
inline Wide product_first(Vector a, Vector b) {
  return (Wide)vmull_u32(vget_low_u32((uint32x4_t)a), vget_low_u32((uint32x4_t)b));
}
inline Wide product_second(Vector a, Vector b) {
  return (Wide)vmull_high_u32((uint32x4_t)a, (uint32x4_t)b);
}
inline Vector high(Wide first, Wide second) {
  return (Vector)vuzp2q_u32((uint32x4_t)first, (uint32x4_t)second);
}
inline Vector low(Wide first, Wide second) {
  return (Vector)vuzp1q_u32((uint32x4_t)first, (uint32x4_t)second);
}
inline Vector lower(Vector a, Vector b) { return (Vector)vminq_u32((uint32x4_t)a, (uint32x4_t)b); }
#else
constexpr int kMaxStages = 3;
typedef u32 Vector;
#endif

template <class V>
constexpr size_t lanes = sizeof(V) / sizeof(u32);

template <class V>
inline V load(const u32* p) {
  V v;
  __builtin_memcpy(&v, p, sizeof(V));
  return v;
}
template <class V>
inline void store(u32* p, V v) { __builtin_memcpy(p, &v, sizeof(V)); }
template <class V>
inline V splat(u32 a) { return V{} + a; }

// A sum of products of 32-bit numbers: below 2^64 if it has at most 16 terms below 2^60.
template <class V>
struct Sum {
  decltype(product_first(V{}, V{})) first{}, second{};

  void add(V a, V b, V a_second, V b_second) {
    first += product_first(a, b);
    second += product_second(a_second, b_second);
  }
};

// The high halves of products; with `is_splat`, all lanes of b are equal.
template <bool is_splat, class V>
inline V mulhi(V a, V b) {
  return high(product_first(a, b), product_second(second(a), is_splat ? b : second(b)));
}

// The square of lanes<V> vectors in x, transposed, in log2(lanes) steps that swap halves.
template <class V>
inline void transpose_square(V (&x)[lanes<V>]) {
  if constexpr (lanes<V> > 1) {
    constexpr int size = lanes<V>;
    UNROLL for (int half = size / 2; half > 0; half /= 2) {
      V first{}, second{};  // of a pair: the lanes that both keep, and those that they swap
      UNROLL for (int i = 0; i < size; i++) {
        first[i] = i & half ? size + i - half : i;
        second[i] = i & half ? size + i : i + half;
      }
      UNROLL for (int i = 0; i < size; i++) {
        if (i & half) continue;
        V a = x[i], b = x[i + half];
#if defined(__clang__)
        UNROLL for (int l = 0; l < size; l++) {
          x[i][l] = first[l] < size ? a[first[l]] : b[first[l] - size];
          x[i + half][l] = second[l] < size ? a[second[l]] : b[second[l] - size];
        }
#else
        x[i] = __builtin_shuffle(a, b, first);
        x[i + half] = __builtin_shuffle(a, b, second);
#endif
      }
    }
  }
}

// ---------------------------------------------------------------- threads

// XLA's own threads, as far as it lends them.
class Pool {
 public:
  explicit Pool(const XLA_FFI_CallFrame* frame) : api_(frame->api), context_(frame->ctx) {}

  size_t threads() const {
    int64_t count = 1;
    XLA_FFI_ThreadPool_NumThreads_Args args{XLA_FFI_ThreadPool_NumThreads_Args_STRUCT_SIZE, nullptr,
                                            context_, &count};
    return is_done(api_->XLA_FFI_ThreadPool_NumThreads(&args)) && count > 1 ? size_t(count) : 1;
  }
  template <class Work>
  void schedule(const Work& work) const {
    auto* data = new Work(work);
    XLA_FFI_Task* run = [](void* data) {
      auto* work = static_cast<Work*>(data);
      (*work)();
      delete work;
    };
    XLA_FFI_ThreadPool_Schedule_Args args{XLA_FFI_ThreadPool_Schedule_Args_STRUCT_SIZE, nullptr,
                                          context_, run, data};
    if (!is_done(api_->XLA_FFI_ThreadPool_Schedule(&args))) delete data;
  }

 private:
  bool is_done(XLA_FFI_Error* error) const {
    if (error == nullptr) return true;
    XLA_FFI_Error_Destroy_Args args{XLA_FFI_Error_Destroy_Args_STRUCT_SIZE, nullptr, error};
    api_->XLA_FFI_Error_Destroy(&args);
    return false;
  }
  const XLA_FFI_Api* api_;
  XLA_FFI_ExecutionContext* context_;
};

// Runs task(0) .. task(count - 1), each once, here and in XLA's threads. The caller waits for tasks
// that have begun, never for a thread to come: it is itself one of the pool's at times.
template <class Task>
void parallel(const Pool& pool, size_t count, size_t work, const Task& task) {
  constexpr size_t kLeastWork = size_t(1) << 15;  // residues times stages or terms; about 10 us
  size_t threads = work < kLeastWork ? 1 : pool.threads();
  if (threads > count) threads = count;
  if (threads <= 1) {
    for (size_t i = 0; i < count; i++) task(i);
    return;
  }
  struct Progress {
    std::atomic<size_t> next{0}, done{0};
  };
  auto progress = std::make_shared<Progress>();
  auto work_off = [progress, count, &task] {  // `task` is read only by who got an i < count
    for (size_t i; (i = progress->next.fetch_add(1)) < count;) {
      task(i);
      progress->done.fetch_add(1, std::memory_order_release);
    }
  };
  for (size_t i = 1; i < threads; i++) pool.schedule(work_off);
  work_off();
  while (progress->done.load(std::memory_order_acquire) < count) sched_yield();
}

// ---------------------------------------------------------------- butterflies

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

// `stages` stages on 2^stages values, of which the first has the one twiddle at(0, 0), the next
// at(1, 0) and at(1, 1), and so on.
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

// A transform in two steps, each of independent parts: the far pass over the whole limb in columns,
// and all else in chunks.
template <class V, bool is_forward>
struct Transform {
  const Limb& limb;
  const int far = limb.log_n - limb.log_c, top = stages_of<V>(far), log_child = limb.log_n - top,
            log_chunk = log_child < 2 * limb.log_c ? 2 * limb.log_c : log_child;

  size_t chunks() const { return size_t(1) << (limb.log_n - log_chunk); }

  void columns(const u32* x, u32* y, size_t part, size_t parts) const {
    const size_t width = (size_t(1) << log_child) / parts;
    any_far_pass<V, is_forward, !is_forward>(limb, x, y, top, limb.log_n, 1, part * width,
                                             (part + 1) * width);
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
    if (is_forward) columns(x, y, 0, 1);
    for (size_t i = 0; i < chunks(); i++) chunk(is_forward ? y : x, y, i);
    if (!is_forward) columns(y, y, 0, 1);
  }
};

int log2_of(size_t n) { return 63 - __builtin_clzll(n); }

template <class V, bool is_forward>
void transform(const Pool& pool, size_t batches, size_t limbs, size_t n, const u32* x,
               const u32* q, const u32* w, const u32* s, u32* y) {
  const int log_n = log2_of(n), log_c = log_n / 2 < kMaxLogC ? log_n / 2 : kMaxLogC;
  const size_t count = batches * limbs, work = count * n * size_t(log_n);
  const auto limb = [=](size_t i) { return Limb{w + i * n, s + i * n, q[i], log_n, log_c}; };
  const auto part = [=](size_t i) { return (i % batches * limbs + i / batches) * n; };
  const size_t threads = pool.threads();
  constexpr size_t kParts = 4;
  if (count >= 4 * threads || n < (size_t(1) << 12)) {
    parallel(pool, count, work, [&](size_t i) {
      const Limb own = limb(i / batches);
      Transform<V, is_forward>{own}.whole(x + part(i), y + part(i));
    });
    return;
  }
  const auto columns = [&](const u32* from) {
    parallel(pool, count * kParts, work, [&](size_t i) {
      const Limb own = limb(i / kParts / batches);
      const size_t at = part(i / kParts);
      Transform<V, is_forward>{own}.columns(from + at, y + at, i % kParts, kParts);
    });
  };
  const auto chunks = [&](const u32* from) {
    const Limb first = limb(0);
    const size_t parts = Transform<V, is_forward>{first}.chunks();
    parallel(pool, count * parts, work, [&](size_t i) {
      const Limb own = limb(i / parts / batches);
      const size_t at = part(i / parts);
      Transform<V, is_forward>{own}.chunk(from + at, y + at, i % parts);
    });
  };
  is_forward ? columns(x) : chunks(x);
  is_forward ? chunks(y) : columns(y);
}

// ---------------------------------------------------------------- base conversion

template <class V>
struct Montgomery {
  V q, twice, q_inv;
  Montgomery(u32 modulus, u32 inverse)
      : q(splat<V>(modulus)), twice(splat<V>(2 * modulus)), q_inv(splat<V>(inverse)) {}
};

// t / 2^32 mod q in [0, q), for a sum t < 2^34 q.
template <class V>
inline V reduce(const Sum<V>& t, const Montgomery<V>& m) {
  V top = high(t.first, t.second), h = mulhi<true>(low(t.first, t.second) * m.q_inv, m.q);
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
    V totals[some];
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

constexpr size_t kMaxDigits = size_t(1) << 13;  // of all columns that are converted at a time

// How many columns are converted at a time.
template <class V>
size_t width_of(size_t n, size_t digits) {
  size_t width = n < 512 ? n : 512;
  while (width > lanes<V> && width * digits > kMaxDigits) width /= 2;
  return width;
}

// Converts coefficients, a few at a time: `to_digits(x, width, digits)` for their digits, then the
// sums.
template <class V, class Digits>
void convert(const Pool& pool, const Target& to, size_t batches, size_t limbs, size_t n,
             const u32* x, u32* y, const Digits& to_digits) {
  const size_t width = width_of<V>(n, to.digits), parts = n / width;
  parallel(pool, batches * parts, batches * n * to.digits * to.count, [&](size_t task) {
    const size_t batch = task / parts, c = task % parts * width;
    std::vector<u32> digits(to.digits * width);
    const u32* from = x + batch * limbs * n + c;
    to_digits([=](size_t i) { return from + i * n; }, width, digits.data());
    u32* out = y + batch * to.count * n + c;
    all_weighted_sums<V>(to, digits.data(), width, [=](size_t j) { return out + j * n; });
  });
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

// The digits of the exact lift, in mixed radix, by blocks of kBlock: the constants own[block][j]
// and cross[i][j] are those of `_mixed_radix` in convert.py.
constexpr size_t kBlock = 4;
template <class V, class In>
void mixed_digits(const Source& from, size_t limbs, const u32* half, const u32* own,
                  const u32* cross, const In& x, size_t width, u32* digits) {
  for (size_t j = 0; j < limbs; j++) {
    const Montgomery<V> m(from.d[j], from.d_inv[j]);
    for (size_t c = 0; c < width; c += lanes<V>) {
      V y = add(multiply(load<V>(x(j) + c), 1, m), splat<V>(half[j]), m.q);
      for (size_t start = 0; start <= j; start += kBlock) {
        Sum<V> t;
        const V first = splat<V>(own[start / kBlock * limbs + j]);
        t.add(y, first, second(y), first);
        for (size_t i = start; i < j && i < start + kBlock; i++) {
          const V v = load<V>(digits + i * width + c), w = splat<V>(cross[i * limbs + j]);
          t.add(v, w, second(v), w);
        }
        y = reduce(t, m);
      }
      store<V>(digits + j * width + c, y);
    }
  }
}

// ---------------------------------------------------------------- calls

// The arrays that a call reads, the two last axes of the first, and where the result goes.
struct Call {
  const Pool pool;
  const XLA_FFI_CallFrame* frame;
  size_t limbs, n, batches;

  explicit Call(const XLA_FFI_CallFrame* frame) : pool(frame), frame(frame) {
    const XLA_FFI_Buffer& x = buffer(0);
    n = size_t(x.dims[x.rank - 1]);
    limbs = size_t(x.dims[x.rank - 2]);
    batches = size(0) / (limbs * n);
  }
  const XLA_FFI_Buffer& buffer(size_t i) const {
    return *static_cast<XLA_FFI_Buffer*>(frame->args.args[i]);
  }
  static size_t size(const XLA_FFI_Buffer& b) {
    size_t total = 1;
    for (int64_t d = 0; d < b.rank; d++) total *= size_t(b.dims[d]);
    return total;
  }
  size_t size(size_t i) const { return size(buffer(i)); }
  const u32* operator[](size_t i) const { return static_cast<u32*>(buffer(i).data); }
  const XLA_FFI_Buffer& result_buffer(size_t i) const {
    return *static_cast<XLA_FFI_Buffer*>(frame->rets.rets[i]);
  }
  u32* result() const { return static_cast<u32*>(result_buffer(0).data); }
};

// What XLA calls: it first asks which version of the interface it would call.
template <class Body>
XLA_FFI_Error* handle(XLA_FFI_CallFrame* frame, const Body& body) {
  for (auto* e = frame->extension_start; e != nullptr; e = e->next) {
    if (e->type != XLA_FFI_Extension_Metadata) continue;
    auto* about = reinterpret_cast<XLA_FFI_Metadata_Extension*>(e)->metadata;
    about->api_version = {XLA_FFI_Api_Version_STRUCT_SIZE, nullptr, XLA_FFI_API_MAJOR,
                          XLA_FFI_API_MINOR};
    about->traits = 0;
    about->state_type_id = XLA_FFI_UNKNOWN_TYPE_ID;
    return nullptr;
  }
  const Call call(frame);
  if (call.size(0) > 0) body(call);
  return nullptr;
}

template <class V, bool is_forward>
void transform_call(const Call& in) {
  transform<V, is_forward>(in.pool, in.batches, in.limbs, in.n, in[0], in[1], in[2], in[3],
                           in.result());
}

// x; d, d_inv, scale, half; b, b_inv, offset, weights.
template <class V>
void convert_call(const Call& in) {
  const Target to{in.limbs, in.size(5), in[5], in[6], in[7], in[8]};
  convert<V>(in.pool, to, in.batches, in.limbs, in.n, in[0], in.result(),
             [&](const auto& x, size_t width, u32* digits) {
               own_digits<V>({in[1], in[2]}, in.limbs, in[3], in[4], x, width, digits);
             });
}

// x; d, d_inv, half, own, cross; b, b_inv, offset, weights.
template <class V>
void lift_call(const Call& in) {
  const Target to{in.limbs, in.size(6), in[6], in[7], in[8], in[9]};
  convert<V>(in.pool, to, in.batches, in.limbs, in.n, in[0], in.result(),
             [&](const auto& x, size_t width, u32* digits) {
               mixed_digits<V>({in[1], in[2]}, in.limbs, in[3], in[4], in[5], x, width, digits);
             });
}

// ---------------------------------------------------------------- memory

constexpr size_t kPage = size_t(1) << 21;  // of the large pages that are asked for

// Large pages for memory that is about to be written for the first time: a fault for each small one
// costs more than what is done with it.
void prefer_large_pages(void* data, size_t bytes) {
#if defined(MADV_HUGEPAGE)
  constexpr size_t kSmall = 4096;
  const size_t begin = (size_t(data) + kSmall - 1) / kSmall * kSmall;
  const size_t end = (size_t(data) + bytes) / kSmall * kSmall;
  if (end >= begin + kPage) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
#endif
}

// Memory of the system's, in large pages where there are some.
class Block {
 public:
  explicit Block(size_t bytes) : bytes_((bytes + kPage - 1) / kPage * kPage) {
    data_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data_ == MAP_FAILED) throw std::bad_alloc();
    prefer_large_pages(data_, bytes_);
  }
  ~Block() { munmap(data_, bytes_); }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  u32* data() const { return static_cast<u32*>(data_); }
  size_t bytes() const { return bytes_; }

 private:
  void* data_;
  size_t bytes_;
};

// Blocks for calls, one at a time for each; some are kept for later calls.
class Blocks {
 public:
  std::unique_ptr<Block> take(size_t bytes) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      size_t best = kept_.size();
      for (size_t i = 0; i < kept_.size(); i++)
        if (kept_[i]->bytes() >= bytes && (best == kept_.size() || kept_[i]->bytes() < kept_[best]->bytes()))
          best = i;
      if (best < kept_.size()) {
        std::unique_ptr<Block> found = std::move(kept_[best]);
        kept_.erase(kept_.begin() + best);
        bytes_ -= found->bytes();
        return found;
      }
    }
    return std::make_unique<Block>(bytes);
  }
  void give_back(std::unique_ptr<Block> block) {
    std::lock_guard<std::mutex> lock(mutex_);
    while (!kept_.empty() && bytes_ + block->bytes() > kMost) {  // the oldest go
      bytes_ -= kept_.front()->bytes();
      kept_.erase(kept_.begin());
    }
    if (block->bytes() > kMost) return;
    bytes_ += block->bytes();
    kept_.push_back(std::move(block));
  }

 private:
  static constexpr size_t kMost = size_t(1) << 28;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Block>> kept_;
  size_t bytes_ = 0;
};
Blocks& blocks() {
  static Blocks* made = new Blocks;  // threads may outlive static destructors
  return *made;
}

// A block while this lives, of so many residues.
class Kept {
 public:
  explicit Kept(size_t residues) {
    if (residues) block_ = blocks().take(residues * sizeof(u32));
  }
  ~Kept() {
    if (block_) blocks().give_back(std::move(block_));
  }
  u32* data() const { return block_ ? block_->data() : nullptr; }

 private:
  std::unique_ptr<Block> block_;
};

// Rows of this thread's own, kept between its tasks.
u32* scratch(size_t bytes) {
  static thread_local std::unique_ptr<Block> own;
  if (!own || own->bytes() < bytes) own = std::make_unique<Block>(bytes);
  return own->data();
}

// ---------------------------------------------------------------- plans

// A whole plan as code, which ren/lowering/native/code.py writes and describes. A reference is a
// buffer's number and a row of it.

enum PhaseKind : u32 { kRows, kColumns };
enum Step : u32 { kEnd, kNtt, kIntt, kPermute, kGroup };
enum Elementwise : u32 { kCopy, kAdd, kSub, kNeg, kDot, kMask, kFlip };
constexpr u32 kRowBits = 20, kScratch = 4095, kConstant = 4094, kKept = 4093;
constexpr size_t kColumnsOfGroup = 1024;

// An argument, a result, or the rows that are kept: where it is, what is between its rows, and where
// each batch begins; nullptr where all begin at once. Of a number for each limb, a row is one vector
// of it.
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
      const V x = a[i].at<V>(c), y = b[i].at<V>(c);
      t.add(x, y, second(x), second(y));
    }
    V total = reduce(t, m);
    if (acc) total = add(total, acc->at<V>(c), m.q);
    store<V>(to + c, total);
  }
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
      const Operand a = step == kDot ? Operand{} : source(at[4]);
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
        for (size_t i = 0; i < frame.n; i++) to[i] = from[index[i]];
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
  const bool is_exact = code[0];
  const size_t k = code[1], m = code[2], blocks = (k + kBlock - 1) / kBlock;
  const u32 *const from = code + 3, *const to = from + k, *const d = to + m, *const d_inv = d + k;
  const u32* rest = d_inv + k;
  alignas(64) u32 digits[kMaxDigits];
  const auto source = [&](size_t i) { return frame.row(from[i]) + c; };
  if (is_exact) {
    const u32 *const half = rest, *const own = half + k, *const cross = own + blocks * k;
    mixed_digits<V>({d, d_inv}, k, half, own, cross, source, width, digits);
    rest = cross + k * k;
  } else {
    own_digits<V>({d, d_inv}, k, rest, rest + k, source, width, digits);
    rest += 2 * k;
  }
  const Target target{k, m, rest, rest + m, rest + 2 * m, rest + 3 * m};
  all_weighted_sums<V>(target, digits, width, [&](size_t j) { return frame.row(to[j]) + c; });
}

// The batch axes of the results, which are all alike.
std::vector<size_t> batch_of(const Call& in) {
  const XLA_FFI_Buffer& b = in.result_buffer(0);
  return std::vector<size_t>(b.dims, b.dims + b.rank - 2);
}

// Where each batch begins in a buffer whose batch axes, the last ones of all, are as long or 1.
std::vector<size_t> starts_of(const XLA_FFI_Buffer& b, const std::vector<size_t>& batch,
                              size_t size) {
  std::vector<size_t> starts{0};
  size_t step = size;
  const size_t own = size_t(b.rank) - 2;
  std::vector<size_t> steps(batch.size(), 0);
  for (size_t axis = 0; axis < own; axis++) {
    const size_t length = size_t(b.dims[own - 1 - axis]);
    if (length > 1) steps[batch.size() - 1 - axis] = step;
    step *= length;
  }
  for (size_t axis = 0; axis < batch.size(); axis++) {
    std::vector<size_t> finer;
    for (size_t start : starts)
      for (size_t i = 0; i < batch[axis]; i++) finer.push_back(start + i * steps[axis]);
    starts.swap(finer);
  }
  return starts;
}

// inputs, tables, code -> outputs.
const u32* code_of(const Call& in) { return in[size_t(in.frame->args.size) - 1]; }
template <class V>
void plan_call(const Call& in) {
  const size_t args = size_t(in.frame->args.size), results = size_t(in.frame->rets.size);
  const u32* const code = code_of(in);
  const size_t phases = code[0], scratch_rows = code[1], kept_rows = code[2], n = code[3];
  const std::vector<size_t> batch = batch_of(in);
  size_t batches = 1;
  for (size_t length : batch) batches *= length;
  std::vector<Buffer> buffers;
  std::vector<std::vector<u32>> numbers;
  std::vector<std::vector<size_t>> starts;
  for (size_t i = 0; i < args + results; i++) {
    const XLA_FFI_Buffer& b = i < args ? in.buffer(i) : in.result_buffer(i - args);
    Buffer buffer{static_cast<u32*>(b.data), n, nullptr, false};
    if (b.rank > 1 && size_t(b.dims[b.rank - 1]) == 1) {
      numbers.emplace_back(Call::size(b) * lanes<V>);
      for (size_t j = 0; j < numbers.back().size(); j++)
        numbers.back()[j] = buffer.data[j / lanes<V>];
      buffer = {numbers.back().data(), lanes<V>, nullptr, true};
    }
    if (b.rank > 2) {
      starts.push_back(starts_of(b, batch, size_t(b.dims[b.rank - 2]) * buffer.row));
      buffer.starts = starts.back().data();
    }
    if (i >= args) prefer_large_pages(b.data, Call::size(b) * sizeof(u32));
    buffers.push_back(buffer);
  }
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

// Vectors where a ring is long enough for them.
#define REN_KERNEL(name, length, least, vectors, numbers)                        \
  extern "C" __attribute__((visibility("default"))) XLA_FFI_Error* name(         \
      XLA_FFI_CallFrame* frame) {                                                \
    return handle(frame, [](const Call& in) {                                    \
      if (length >= (least)) vectors(in); else numbers(in);                      \
    });                                                                          \
  }

REN_KERNEL(ren_ntt, in.n, kLeastSquare, (transform_call<Vector, true>), (transform_call<u32, true>))
REN_KERNEL(ren_intt, in.n, kLeastSquare, (transform_call<Vector, false>),
           (transform_call<u32, false>))
REN_KERNEL(ren_convert, in.n, lanes<Vector>, convert_call<Vector>, convert_call<u32>)
REN_KERNEL(ren_lift, in.n, lanes<Vector>, lift_call<Vector>, lift_call<u32>)
REN_KERNEL(ren_plan, code_of(in)[3], kLeastSquare, plan_call<Vector>, plan_call<u32>)
