// The handler that XLA calls, which runs bytecode, and the functions that the host calls.
//
// What a step computes is defined by its namesake in ren/lowering/kernels, and is equal to it bit for
// bit. Residues are uint32 in [0, q), q < 2^30; arrays are [*batch, limb, n], row-major.

#include "floats.h"
#include "keccak.h"
#include "plans.h"

// Vectors where a ring is long enough for them.
extern "C" __attribute__((visibility("default"))) XLA_FFI_Error* ren_plan(
    XLA_FFI_CallFrame* frame) {
  return handle(frame, [](const Call& in) {
    if (degree_of(in) >= kLeastSquare) plan_call<Vector>(in); else plan_call<u32>(in);
  });
}

// What the host calls itself: see ren/lowering/backends/native/hashing.py and host_call.py.
#define REN_HOST extern "C" __attribute__((visibility("default")))

// Bytecode, run by the thread that calls. The arrays are those of arguments, then of results.
// `dims` has the lengths of all their axes. Returns nullptr, or what failed.
REN_HOST const char* ren_run(size_t args, size_t results, void* const* data, const int64_t* ranks,
                             int64_t* dims) {
  static thread_local std::string why;
  try {
    const HostFrame frame(args, results, data, ranks, dims);
    const Call in(&frame.call);
    if (in.size(0) > 0) {
      if (degree_of(in) >= kLeastSquare) plan_call<Vector>(in); else plan_call<u32>(in);
    }
    return nullptr;
  } catch (const std::bad_alloc&) {
    return "Ren's native code is out of memory.";
  } catch (const std::exception& error) {
    why = error.what();
    return why.c_str();
  }
}

REN_HOST const char* ren_vectors() { return kVectors; }
REN_HOST size_t ren_lanes() { return lanes<Vector>; }
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
