// SHAKE-256 as FIPS 202 has it, of many messages at once: a vector has a word of one in each lane.

#pragma once

#include <utility>

#include "vectors.h"
#include "workers.h"

namespace {

typedef uint8_t byte;

#if defined(__AVX512F__)
typedef Wide Words;
inline Words xor3(Words a, Words b, Words c) {
  return (Words)_mm512_ternarylogic_epi64((__m512i)a, (__m512i)b, (__m512i)c, 0x96);
}
inline Words chi(Words a, Words b, Words c) {
  return (Words)_mm512_ternarylogic_epi64((__m512i)a, (__m512i)b, (__m512i)c, 0xD2);
}
template <int bits>
inline Words rotated(Words a) { return (Words)_mm512_maskz_rol_epi64(0xFF, (__m512i)a, bits); }
#else
#if defined(__AVX2__) || (defined(__ARM_NEON) && defined(__aarch64__))
typedef Wide Words;
#else
typedef u64 Words;
#endif
inline Words xor3(Words a, Words b, Words c) { return a ^ b ^ c; }
inline Words chi(Words a, Words b, Words c) { return a ^ (~b & c); }
template <int bits>
inline Words rotated(Words a) {
  if constexpr (bits == 0) return a;
  else return (a << bits) | (a >> (64 - bits));
}
#endif

constexpr size_t kStreams = sizeof(Words) / sizeof(u64);
constexpr size_t kRate = 17;  // words of a block
constexpr byte kSuffix = 0x1F, kLastBit = 0x80;

// Word x + 5 y of the state is rotated by kRotations of it, and goes to y + 5 ((2 x + 3 y) mod 5).
constexpr int kRotations[25] = {0,  1,  62, 28, 27, 36, 44, 6,  55, 20, 3,  10, 43,
                                25, 39, 41, 45, 15, 21, 8,  18, 2,  61, 56, 14};
constexpr u64 kRounds[24] = {
    0x0000000000000001, 0x0000000000008082, 0x800000000000808A, 0x8000000080008000,
    0x000000000000808B, 0x0000000080000001, 0x8000000080008081, 0x8000000000008009,
    0x000000000000008A, 0x0000000000000088, 0x0000000080008009, 0x000000008000000A,
    0x000000008000808B, 0x800000000000008B, 0x8000000000008089, 0x8000000000008003,
    0x8000000000008002, 0x8000000000000080, 0x000000000000800A, 0x800000008000000A,
    0x8000000080008081, 0x8000000000008080, 0x0000000080000001, 0x8000000080008008};

template <size_t... i>
inline void round_of(Words (&a)[25], u64 constant, std::index_sequence<i...>) {
  Words c[5], d[5], b[25];
  UNROLL for (int x = 0; x < 5; x++)
    c[x] = xor3(xor3(a[x], a[x + 5], a[x + 10]), a[x + 15], a[x + 20]);
  UNROLL for (int x = 0; x < 5; x++) d[x] = c[(x + 4) % 5] ^ rotated<1>(c[(x + 1) % 5]);
  ((b[i / 5 + 5 * ((2 * (i % 5) + 3 * (i / 5)) % 5)] = rotated<kRotations[i]>(a[i] ^ d[i % 5])), ...);
  UNROLL for (int y = 0; y < 25; y += 5)
    UNROLL for (int x = 0; x < 5; x++)
      a[x + y] = chi(b[x + y], b[(x + 1) % 5 + y], b[(x + 2) % 5 + y]);
  a[0] ^= constant;
}

inline void keccak(Words (&a)[25]) {
  for (u64 constant : kRounds) round_of(a, constant, std::make_index_sequence<25>{});
}

// Byte p of a message that is some bytes, eight more that are left zero here, and the padding.
struct Message {
  const byte* prefix;
  size_t length;

  size_t blocks() const { return (length + 8) / (8 * kRate) + 1; }
  u64 word(size_t w) const {
    u64 found = 0;
    for (size_t i = 0; i < 8; i++) {
      const size_t p = 8 * w + i;
      byte at = p < length ? prefix[p] : 0;
      if (p == length + 8) at ^= kSuffix;
      if (p == 8 * kRate * blocks() - 1) at ^= kLastBit;
      found |= u64(at) << (8 * i);
    }
    return found;
  }
  // The part of a counter, in the eight bytes, that is in a word.
  u64 counted(size_t w, u64 counter) const {
    const std::ptrdiff_t ahead = std::ptrdiff_t(length) - std::ptrdiff_t(8 * w);
    if (ahead >= 8 || ahead <= -8) return 0;
    return ahead >= 0 ? counter << (8 * ahead) : counter >> (-8 * ahead);
  }
};

inline u64& lane(Words& words, size_t i) { return reinterpret_cast<u64*>(&words)[i]; }

// The first blocks of the streams of `some` counters from `first` on, one stream after the other.
inline void squeezed(const Message& message, u64 first, size_t some, size_t blocks, byte* out) {
  Words a[25]{};
  for (size_t block = 0; block < message.blocks(); block++) {
    if (block) keccak(a);
    for (size_t i = 0; i < kRate; i++) {
      const size_t w = block * kRate + i;
      a[i] ^= message.word(w);
      for (size_t l = 0; l < kStreams; l++) lane(a[i], l) ^= message.counted(w, first + l);
    }
  }
  for (size_t block = 0; block < blocks; block++) {
    keccak(a);
    for (size_t l = 0; l < some; l++) {
      byte* const to = out + 8 * kRate * (l * blocks + block);
      for (size_t i = 0; i < kRate; i++) {
        const u64 word = lane(a[i], l);
        __builtin_memcpy(to + 8 * i, &word, 8);
      }
    }
  }
}

// The same of any number of counters, with the help of other threads.
inline void shake(const Message& message, u64 first, size_t count, size_t blocks, byte* out,
                  size_t threads) {
  work_off(threads, count, [&](size_t i) {
    squeezed(message, first + i, count - i < kStreams ? count - i : kStreams, blocks,
             out + 8 * kRate * blocks * i);
  }, kStreams);
}

// words mod q, and where a word is above `largest`: how many, and their positions.
template <class V>
inline size_t uniform(const u32* words, size_t count, u32 q, u32 largest, u32* out, u32* above) {
  constexpr size_t kPart = 64;
  const u32 inverse = u32((u64(1) << 32) / q);
  size_t found = 0;
  for (size_t start = 0; start < count; start += kPart) {
    const size_t end = start + kPart < count ? start + kPart : count;
    size_t i = start;
    for (; i + lanes<V> <= end; i += lanes<V>) {
      const V w = load<V>(words + i);
      const V r = w - mulhi<true>(w, splat<V>(inverse)) * q;  // < 2q
      store<V>(out + i, lower(r, r - q));
    }
    for (; i < end; i++) out[i] = words[i] % q;
    u32 any = 0;
    for (size_t j = start; j < end; j++) any |= words[j] > largest;
    if (any)
      for (size_t j = start; j < end; j++) {
        above[found] = u32(j);  // found <= j < count
        found += words[j] > largest;
      }
  }
  return found;
}

}  // namespace
