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
from ren.core.errors import RenError
from ren.core.version import __version__ as __version__
from ren.jit import CacheInfo, clear_jit, djit, jit
from ren.lowering.runtime.trace import Trace, trace
from ren.poly import Poly, equal
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


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        hint = "; write `from ren.schemes import ckks`" * (name == "ckks")
        text = f"module {__name__!r} has no attribute {name!r}{hint}"
        raise AttributeError(text, name=name, obj=sys.modules[__name__])
    module, here = import_module(_LAZY[name]), globals()
    if name not in here:  # a package is bound by its import
        here[name] = getattr(module, name)
    return here[name]


def __dir__() -> list[str]:
    return [*__all__, "__version__", "poly", "ring", "schemes"]
