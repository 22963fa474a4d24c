"""`ckks.math`: functions of encrypted numbers, slot by slot, on an interval that you name.

Example:
    >>> from ren.schemes import ckks
    >>> ctx = ckks.context(depth=4)
    >>> x = ctx.encrypt([0.0, 1.0])
    >>> ckks.math.sigmoid(x, interval=(-2, 2), precision=12).decrypt().round(3)
    array([0.5  , 0.731])
"""

import sys
from typing import Any, NoReturn

from ren.core.attributes import unknown_attribute
from ren.poly.calls import check_functions
from ren.schemes.ckks.circuits.reductions import all_of, any_of
from ren.schemes.ckks.encoding.advice import instead_in_ckks
from ren.schemes.ckks.encoding.ciphertext_data import CiphertextT
from ren.schemes.ckks.functions.comparison import absolute as abs
from ren.schemes.ckks.functions.comparison import (
    equal,
    greater,
    greater_equal,
    less,
    less_equal,
    not_equal,
    relu,
    sign,
)
from ren.schemes.ckks.functions.comparison import maximum as max
from ren.schemes.ckks.functions.comparison import minimum as min
from ren.schemes.ckks.functions.division import inverse
from ren.schemes.ckks.functions.elementary import (
    cos,
    cosh,
    exp,
    log,
    sigmoid,
    sin,
    sinh,
    sqrt,
    tan,
    tanh,
)
from ren.schemes.ckks.functions.elementary import log as ln
from ren.schemes.ckks.functions.elementary import rounded as round
from ren.schemes.ckks.functions.logic import (
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    over_truth,
    where,
)
from ren.schemes.ckks.functions.powers import floor_divide, mod
from ren.schemes.ckks.functions.powers import pow_ as pow
from ren.schemes.ckks.parameters.keywords import INSTEAD

__all__ = [
    "abs",
    "all",
    "any",
    "cos",
    "cosh",
    "equal",
    "exp",
    "floor_divide",
    "greater",
    "greater_equal",
    "inverse",
    "less",
    "less_equal",
    "ln",
    "log",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "max",
    "min",
    "mod",
    "not_equal",
    "pow",
    "relu",
    "round",
    "sigmoid",
    "sign",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "where",
]


def any(ct: CiphertextT, *, where: Any = True) -> CiphertextT:
    """1 where a number is 1, 0 where all are 0, in every slot: 1 - all(1 - x). Levels: as `all`.

    Args:
        ct: numbers that are 0 or 1.
        where: encrypted truth, or an array of zeros and ones. Only numbers where it is 1 take part,
            for one level more. The numbers are then truth too, as of a comparison.

    Raises:
        OperandError: with `where`, numbers that are not known to be 0 or 1.
        DepthError: too few levels.
    """
    return any_of(ct) if where is True else over_truth(any_of, ct, where, 0)


def all(ct: CiphertextT, *, where: Any = True) -> CiphertextT:
    """1 where all numbers are 1, 0 where one is 0, in every slot: their product.

    log2(slots) rotations, and ceil(log2(length)) levels; one more where leftovers are cleared.

    Args, raises: as for `any`.
    """
    return all_of(ct) if where is True else over_truth(all_of, ct, where, 1)


check_functions(globals(), __all__, "ckks.math", INSTEAD)


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> NoReturn:
    if name.startswith("_"):
        raise AttributeError(name, name=name, obj=sys.modules[__name__])
    other = instead_in_ckks(name)
    raise unknown_attribute("ckks.math", name, __all__, {name: other} if other else {})
