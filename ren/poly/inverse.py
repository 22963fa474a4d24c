"""Inverses in Z_q[X]/(X^n + 1), through norms to smaller and smaller rings."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ren.core import op as ops
from ren.core.errors import RingError, TracedValueError
from ren.core.node import toposort
from ren.core.ring import RingSpec
from ren.core.user_frame import user_line
from ren.poly import realization


def norm(p: Any) -> tuple[Any, Any]:
    """(r, c) with p r = c and c a constant polynomial; lazy.

    X -> -X takes p(X) to a factor whose product with p is a polynomial in X^2. The same in X^2, X^4
    and so on leads to a constant. Cost: 2 log2(n) products.
    """
    cofactor, c, step = None, p, p.ring.n
    while step > 1:
        conjugate = c.automorphism(1 + step)  # the sign of each second power that is left
        cofactor = conjugate if cofactor is None else cofactor * conjugate
        c, step = c * conjugate, step // 2
    return cofactor, c


def inverses(constants: np.ndarray, ring: RingSpec) -> np.ndarray:
    """c^-1 mod q of integers, object[*batch].

    Raises:
        RingError: one of them has a factor in common with a modulus.
    """
    made = np.empty(constants.shape, object)
    for place, c in np.ndenumerate(constants):
        for m in ring.moduli:
            if math.gcd(int(c), m) > 1:
                where = f" at batch position {place}" if place else ""
                raise RingError(
                    f"{user_line()} takes the inverse of a polynomial that has none{where}.",
                    f"Modulo {m} it has a factor in common with X^{ring.n} + 1.",
                    "Draw another one, or leave out that modulus: x.to_ring(ring).inverse().",
                )
        made[place] = pow(int(c), -1, ring.q)
    return made


def check_known(p: Any) -> None:
    """Raises TracedValueError where the values of a polynomial are not known yet."""
    node = p.node
    is_traced = any(x.op is ops.BUFFER and x.arg.traced for x in toposort(node))
    if is_traced or realization.has_placeholder(node):
        raise TracedValueError(
            f"{user_line()} takes the inverse of a polynomial that is symbolic or traced.",
            "Whether there is an inverse depends on values, which are not known there.",
            "Take the inverse outside, and pass it in.",
        )
