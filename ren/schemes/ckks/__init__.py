"""CKKS: approximate arithmetic on encrypted real and complex vectors.

Example:
    >>> import numpy as np
    >>> from ren.schemes import ckks
    >>> ctx = ckks.context(depth=1)
    >>> x = ctx.encrypt(np.linspace(0, 1, 5))
    >>> (x * x - 0.5).decrypt().round(4)
    array([-0.5   , -0.4375, -0.25  ,  0.0625,  0.5   ])
"""

import sys
from typing import NoReturn

from ren.core.attributes import unknown_attribute
from ren.core.errors import (
    ContextError,
    DepthError,
    InsecureParametersError,
    MessageBoundError,
    MessageBoundWarning,
    MissingKeyError,
    ParameterError,
    PrecisionError,
    ScaleError,
    SerializationError,
    SharingError,
    TransparentWarning,
)
from ren.poly.calls import check_functions, check_methods
from ren.schemes.ckks import math, stats, testing
from ren.schemes.ckks.analysis.debugging import debug
from ren.schemes.ckks.analysis.planning import plan, spec
from ren.schemes.ckks.analysis.precision import Precision, precision
from ren.schemes.ckks.analysis.requirements import Requirements
from ren.schemes.ckks.arithmetic.manual import manual
from ren.schemes.ckks.arithmetic.number_types import typed
from ren.schemes.ckks.bootstrapping.bootstrap import bootstrap
from ren.schemes.ckks.ciphertext import Ciphertext
from ren.schemes.ckks.circuits.convolution import conv1d, conv2d, convolution
from ren.schemes.ckks.circuits.linear import linear
from ren.schemes.ckks.circuits.linear_map import LinearMap
from ren.schemes.ckks.circuits.matmul import matmul
from ren.schemes.ckks.circuits.mixing import mix
from ren.schemes.ckks.circuits.reductions import strided_sum
from ren.schemes.ckks.circuits.shaping import concat, pad
from ren.schemes.ckks.circuits.stacking import stack, unstack
from ren.schemes.ckks.context import Context
from ren.schemes.ckks.create import context, from_polys, load_context, load_server
from ren.schemes.ckks.encoding.advice import instead_in_ckks
from ren.schemes.ckks.encoding.other_libraries import IN_OTHERS
from ren.schemes.ckks.encoding.plaintext import Plaintext
from ren.schemes.ckks.functions.approximation import Approximation, approximate
from ren.schemes.ckks.functions.calls import intervals
from ren.schemes.ckks.functions.logic import where
from ren.schemes.ckks.functions.loops import while_loop
from ren.schemes.ckks.functions.polynomial import chebyshev, poly
from ren.schemes.ckks.noise.estimate import Estimate
from ren.schemes.ckks.parameters.keywords import INSTEAD
from ren.schemes.ckks.parameters.parameters import PRESETS, Parameters

__all__ = [
    "PRESETS",
    "Approximation",
    "Ciphertext",
    "Context",
    "ContextError",
    "DepthError",
    "Estimate",
    "InsecureParametersError",
    "LinearMap",
    "MessageBoundError",
    "MessageBoundWarning",
    "MissingKeyError",
    "ParameterError",
    "Parameters",
    "Plaintext",
    "Precision",
    "PrecisionError",
    "Requirements",
    "ScaleError",
    "SerializationError",
    "SharingError",
    "TransparentWarning",
    "approximate",
    "bootstrap",
    "chebyshev",
    "concat",
    "context",
    "conv1d",
    "conv2d",
    "convolution",
    "debug",
    "from_polys",
    "intervals",
    "linear",
    "load_context",
    "load_server",
    "manual",
    "math",
    "matmul",
    "mix",
    "pad",
    "plan",
    "poly",
    "precision",
    "spec",
    "stack",
    "stats",
    "strided_sum",
    "testing",
    "typed",
    "unstack",
    "where",
    "while_loop",
]


check_functions(globals(), __all__, "ckks", INSTEAD)
for _kind in (Plaintext, LinearMap):
    check_methods(_kind, f"ckks.{_kind.__name__}", INSTEAD, inherited=("save", "load"))

_CONTEXT = "with ctx = ckks.context(depth=4)"
_INSTEAD = {
    **dict.fromkeys(("encrypt", "array", "asarray"), f"ctx.encrypt(values), {_CONTEXT}"),
    "encode": f"ctx.encode(values), {_CONTEXT}", "decrypt": "ct.decrypt()",
    "zeros": "ctx.encrypt(np.zeros(k))", "ones": "ctx.encrypt(np.ones(k))",
    "full": "ctx.encrypt(np.full(k, value))", "keygen": "ckks.context(depth=4), which makes keys",
}  # fmt: skip


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> NoReturn:
    if name.startswith("_"):
        raise AttributeError(name, name=name, obj=sys.modules[__name__])
    functions = {f: f"ckks.math.{f}(x)" for f in math.__all__}
    methods = {f: f"x.{f}(...)" for f in ("sum", "mean", "dot", "rotate", "roll", "tile", "mask")}
    other = instead_in_ckks(name)
    others = IN_OTHERS | ({name: other} if other else {})
    raise unknown_attribute("ckks", name, __all__, others | functions | methods | _INSTEAD)
