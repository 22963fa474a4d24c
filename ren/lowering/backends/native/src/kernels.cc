// The handler that XLA calls, which runs bytecode by vectors, and what else the host calls for it.
//
// What a step computes is defined by its namesake in ren/lowering/kernels, and is equal to it bit for
// bit. Residues are uint32 in [0, q), q < 2^30; arrays are [*batch, limb, n], row-major.
//
// Each .cc file is a part of the library, and all are compiled at the same time.

#include "helper.h"
#include "parts.h"
#include "plans.h"

namespace {

// Vectors where a ring is long enough for them.
void run(const Call& in) {
  if (degree_of(in) >= kLeastSquare) plan_call<Vector>(in); else plan_in_words(in.frame);
}

// Arrays of more bytes are for another core that is awake, and of more yet for one that sleeps.
constexpr size_t kSome = size_t(1) << 18, kMuch = size_t(1) << 20;

size_t bytes_of(const HostFrame& frame) {
  size_t residues = 0;
  for (const XLA_FFI_Buffer& buffer : frame.buffers) residues += Call::size(buffer);
  return residues * sizeof(u32);
}

}  // namespace

REN_HOST XLA_FFI_Error* ren_plan(XLA_FFI_CallFrame* frame) { return handle(frame, run); }

// Bytecode, run while the caller waits. The arrays are those of arguments, then of results.
// `dims` has the lengths of all their axes. Returns nullptr, or what failed.
REN_HOST const char* ren_run(size_t args, size_t results, void* const* data, const int64_t* ranks,
                             int64_t* dims) {
  static thread_local std::string why;
  try {
    const HostFrame frame(args, results, data, ranks, dims);
    const Call in(&frame.call);
    if (in.size(0) == 0) return nullptr;
    const size_t bytes = bytes_of(frame);
    if (bytes < kSome) run(in); else helper().run([&in] { run(in); }, bytes >= kMuch);
    return nullptr;
  } catch (const std::bad_alloc&) {
    return "Ren's native code is out of memory.";
  } catch (const std::exception& error) {
    why = error.what();
    return why.c_str();
  }
}

// From now on `ren_run` works in the thread that calls alone.
REN_HOST void ren_alone() { helper().forbid(); }

REN_HOST const char* ren_vectors() { return kVectors; }
REN_HOST size_t ren_lanes() { return lanes<Vector>; }
