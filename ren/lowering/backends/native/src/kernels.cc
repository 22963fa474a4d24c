// The kernels that matter most, for CPUs: transforms, base conversion, and whole plans of them.
//
// What each computes is defined by its namesake in ren/lowering/kernels, and is equal to it bit for
// bit. Residues are uint32 in [0, q), q < 2^30; arrays are [*batch, limb, n], row-major. Tables are
// those of the jax.numpy kernels.

#include "floats.h"
#include "keccak.h"
#include "plans.h"

namespace {

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
REN_KERNEL(ren_plan, degree_of(in), kLeastSquare, plan_call<Vector>, plan_call<u32>)

// What the host calls itself: see ren/lowering/backends/native/hashing.py.
#define REN_HOST extern "C" __attribute__((visibility("default")))

REN_HOST void ren_shake256(const byte* prefix, size_t length, u64 first, size_t count,
                           size_t blocks, byte* out, size_t threads) {
  shake({prefix, length}, first, count, blocks, out, threads);
}
REN_HOST size_t ren_uniform(const u32* words, size_t count, u32 q, u32 largest, u32* out,
                            u32* above) {
  return uniform<Vector>(words, count, q, largest, out, above);
}
REN_HOST void ren_floats(const u32* x, size_t batches, size_t limbs, size_t n, const u32* q,
                         const u32* q_inv, const u32* middles, const u32* own, const u32* cross,
                         const double* pieces, double* out, size_t threads) {
  const FloatTables tables{{q, q_inv}, middles, own, cross, pieces};
  (n >= lanes<Vector> ? floats<Vector> : floats<u32>)(tables, batches, limbs, n, x, out, threads);
}
