// Vectors of residues: one text for every processor. The code is written for a vector type V. V is
// the widest that the compiler has, or uint32_t itself where a ring is too small for it.

#pragma once

#include <cstddef>
#include <cstdint>

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

// Products of 32-bit numbers are 64 bits long, so those of two vectors fill two vectors of u64.
// They hold the first and the second half of the lanes in an order of the processor's own. `second`
// brings an operand of the second half into place; `high` and `low` make one vector again. `lower`
// is the minimum of unsigned numbers. A lone number has no second half.

inline u32 second(u32) { return 0; }
inline u64 product_first(u32 a, u32 b) { return u64(a) * b; }
inline u64 product_second(u32, u32) { return 0; }
inline u32 high(u64 first, u64) { return u32(first >> 32); }
inline u32 low(u64 first, u64) { return u32(first); }
inline u32 lower(u32 a, u32 b) { return a < b ? a : b; }

#if defined(__AVX512F__)
constexpr char kVectors[] = "AVX-512";
constexpr int kMaxStages = 4;  // of one pass: 16 values in 32 registers
typedef u32 Vector __attribute__((vector_size(64)));
typedef u64 Wide __attribute__((vector_size(64)));

// Of the forms with masks, all set: gcc 12 warns of those without that they use what is undefined.
inline Vector second(Vector a) { return (Vector)((Wide)a >> 32); }
inline Wide product_first(Vector a, Vector b) {
  return (Wide)_mm512_maskz_mul_epu32(0xFF, (__m512i)a, (__m512i)b);
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
  return (Vector)_mm512_maskz_min_epu32(0xFFFF, (__m512i)a, (__m512i)b);
}
#elif defined(__AVX2__)
constexpr char kVectors[] = "AVX2";
constexpr int kMaxStages = 3;
typedef u32 Vector __attribute__((vector_size(32)));
typedef u64 Wide __attribute__((vector_size(32)));

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
constexpr char kVectors[] = "NEON";
constexpr int kMaxStages = 3;
typedef u32 Vector __attribute__((vector_size(16)));
typedef u64 Wide __attribute__((vector_size(16)));

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
constexpr char kVectors[] = "no vectors";
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
// The words of `from` at the places `index`.
template <class V>
inline V gather(const u32* from, V index) {
#if defined(__AVX512F__)
  if constexpr (lanes<V> == 16) {
    return (V)_mm512_mask_i32gather_epi32(__m512i{}, 0xFFFF, (__m512i)index, from, 4);
  }
#endif
  if constexpr (lanes<V> == 1) {
    return from[index];
  } else {
    V v;
    UNROLL for (size_t i = 0; i < lanes<V>; i++) v[i] = from[index[i]];
    return v;
  }
}
// Asks for the line of `p`, which is read soon, to come into the L2 cache. The processor's own
// guesses end with each page; p may lie outside of all arrays.
inline void fetch(const u32* p) { __builtin_prefetch(p, 0, 2); }

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

}  // namespace
