"""Lazy polynomial arithmetic over Z_q[X]/(X^n + 1) on JAX, and encrypted numbers on top.

Importing ren changes no global JAX setting, and no scheme is imported before it is used.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ren.capture.pytrees import realize
from ren.capture.submit import submit
from ren.capture.xpr import spec, stages, xpr
from ren.config import config
from ren.core import errors
from ren.core.attributes import unknown_attribute
from ren.core.errors import RenError
from ren.core.version import __version__ as __version__
from ren.jit import CacheInfo, clear_jit, djit, jit
from ren.lowering.runtime.trace import Trace, trace
from ren.poly import Poly, equal
from ren.poly.calls import check_constructor, check_functions
from ren.ring import Domain, RingSpec

if TYPE_CHECKING:
    from ren import schemes as schemes
    from ren.schemes.ckks.analysis.planning import plan
    from ren.self_test import selftest

__all__ = [
    "CacheInfo", "Domain", "Poly", "RenError", "RingSpec", "Trace",
    "clear_jit", "config", "djit", "equal", "errors", "jit", "plan", "realize", "selftest",
    "spec", "stages", "submit", "trace", "xpr",
]  # fmt: skip

# Where names come from that are imported when they are first asked for.
_LAZY = {
    "plan": "ren.schemes.ckks.analysis.planning",
    "schemes": "ren.schemes.ckks",
    "selftest": "ren.self_test",
}
_CKKS = "from ren.schemes import ckks"
_CONTEXT = f"{_CKKS}; ctx = ckks.context(depth=4)"
_INSTEAD = {
    "ckks": f"`{_CKKS}`", "Context": f"{_CKKS}; ckks.context(depth=4)",
    "context": f"{_CKKS}; ckks.context(depth=4)", "keygen": f"{_CONTEXT}, which makes keys",
    **dict.fromkeys(("encrypt", "Ciphertext"), f"{_CONTEXT}; ctx.encrypt(values)"),
    "encode": f"{_CONTEXT}; ctx.encode(values)", "Plaintext": f"{_CONTEXT}; ctx.encode(values)",
    "decrypt": "x.decrypt()", "Parameters": f"{_CKKS}; ckks.Parameters.for_depth(4)",
    "load_context": f"{_CKKS}; ckks.load_context(data)", "stats": f"{_CKKS}; ckks.stats",
    "load_server": f"{_CKKS}; ckks.load_server(data)", "math": f"{_CKKS}; ckks.math",
    **dict.fromkeys(("Ring", "ring_spec"), "ren.RingSpec(n=8, moduli=(17, 97))"),
    **dict.fromkeys(("polynomial", "Polynomial"), "ren.Poly(coefficients, ring)"),
    "uniform": "ren.Poly.uniform(ring)", "random": "ren.Poly.uniform(ring)",
    "compile": "ren.jit(f)", "make_jaxpr": "ren.xpr(f, p)", "jaxpr": "ren.xpr(f, p)",
    "block_until_ready": "ren.realize(x)", "set": "ren.config.name = value",
}  # fmt: skip
# jit and djit name their own options.
_CALLED = ("clear_jit", "equal", "realize", "spec", "stages", "submit", "trace", "xpr")
check_functions(globals(), _CALLED, "ren", {"+function": "a function f", "+ring": "ring"})


_OTHERS = {
    **dict.fromkeys(("q", "p", "modulus", "mod", "primes"), "Pass moduli=(17, 97)."),
    **dict.fromkeys(("degree", "N", "ring_dim", "poly_modulus_degree"), "Write n=."),
    "+moduli": "moduli=(17, 97)", "+n": "n=8",
}  # fmt: skip
check_constructor(RingSpec, "ren.RingSpec", _OTHERS)


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        if name.startswith("_"):  # a protocol that Python or a library probes for
            raise AttributeError(name, name=name, obj=sys.modules[__name__])
        error = unknown_attribute("ren", name, __dir__(), _INSTEAD)
        error.name, error.obj = name, sys.modules[__name__]
        raise error
    module, here = import_module(_LAZY[name]), globals()
    if name not in here:  # a package is bound by its import
        here[name] = getattr(module, name)
    return here[name]


def __dir__() -> list[str]:
    return [*__all__, "__version__", "poly", "ring", "schemes"]
