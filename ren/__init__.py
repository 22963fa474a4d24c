"""Lazy polynomial arithmetic over Z_q[X]/(X^n + 1) on JAX, and encrypted numbers on top.

Importing ren changes no global JAX setting.
"""

from ren.config import config
from ren.core import errors
from ren.core.errors import RenError
from ren.core.version import __version__ as __version__
from ren.jit import CacheInfo, clear_jit, djit, jit
from ren.lowering.trace import Trace, trace
from ren.poly import Poly, equal, realize_polys
from ren.reading import stages, xpr
from ren.ring import Domain, RingSpec
from ren.schemes.ckks.planning import plan
from ren.structure import realize
from ren.submitting import submit

__all__ = [
    "CacheInfo", "Domain", "Poly", "RenError", "RingSpec", "Trace",
    "clear_jit", "config", "djit", "equal", "errors", "jit", "plan", "realize", "realize_polys",
    "stages", "submit", "trace", "xpr",
]  # fmt: skip
