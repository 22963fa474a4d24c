"""The native backend: bytecode of whole segments, run by a C++ library that is built at first use.

`limb_program`, `phases` and `bytecode` lower a segment, `backend` compiles it, `ffi_call` calls the
library from XLA. `library` builds, checks and registers it by the system's compiler (`build`). What
native code computes is defined by `ren.lowering.kernels`; without the library, XLA runs that.
"""
