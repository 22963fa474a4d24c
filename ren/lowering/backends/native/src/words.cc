// Bytecode on rings that are too small for vectors, and what the host calls beside bytecode: see
// ren/lowering/backends/native/hashing.py.

#include "floats.h"
#include "keccak.h"
#include "parts.h"
#include "plans.h"

void plan_in_words(const XLA_FFI_CallFrame* frame) { plan_call<u32>(Call(frame)); }

REN_HOST void ren_shake256(const byte* prefix, size_t length, u64 first, size_t count,
                           size_t blocks, byte* out, size_t threads) {
  shake({prefix, length}, first, count, blocks, out, threads);
}
REN_HOST size_t ren_uniform(const u32* words, size_t count, u32 q, u32 largest, u32* out,
                            u32* above) {
  return uniform<Vector>(words, count, q, largest, out, above);
}
REN_HOST void ren_floats(const u32* x, size_t batches, size_t limbs, size_t n, const u32* q,
                         const u32* q_inv, const u32* half, const u32* own, const u32* cross,
                         const u32* middles, const u32* most, const double* pieces, double* out,
                         size_t threads) {
  const FloatTables tables{{q, q_inv}, half, own, cross, middles, most, pieces};
  (n >= lanes<Vector> ? floats<Vector> : floats<u32>)(tables, batches, limbs, n, x, out, threads);
}
