"""Programs on coefficients as integers, and on batch axes: what methods of `Poly` record.

Remainders, rounded quotients and digits are exact for any size of q
(`ren.lowering.kernels.division`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any, NoReturn

import numpy as np

from ren.core import op as ops
from ren.core.errors import (
    BatchIndexError,
    CoefficientTypeError,
    DomainError,
    OperandError,
    ParameterError,
    TracedValueError,
)
from ren.core.node import Node, const, make
from ren.core.ring import Domain, RingSpec
from ren.core.spec import DivideArg, MixArg, PartArg, StackArg
from ren.core.user_frame import user_line
from ren.lowering.devices.devices import is_tracer
from ren.lowering.kernels.mixing import matrix_of
from ren.poly.checks import as_int
from ren.poly.integers import as_integers
from ren.poly.symbolic import Symbolic


def remainder(p: Node, t: Any, centered: bool) -> Node:
    """c mod t for each coefficient, in [0, t), or in (-t/2, t/2] of the centred c."""
    t, ring = _at_least(t, 1, "mod", "t"), p.spec.ring
    if not centered:
        return make(ops.DIVIDE, (p,), DivideArg("remainder", ring, t))
    most_negative = (t - 1) // 2
    arg = DivideArg("remainder", ring, t, 1, most_negative, -ring.q, most_negative)
    return make(ops.DIVIDE, (p,), arg)


def rounded_quotient(p: Node, a: Any, b: Any, ring: RingSpec) -> Node:
    """round(a c / b) of each centred coefficient, over `ring`; ties go up."""
    a, b = _integer(a), _integer(b)
    if b == 0:
        raise ParameterError(
            "round_div got b=0.", "It divides by b.", "Pass an integer other than 0."
        )
    a, b = (-a, -b) if b < 0 else (a, b)
    if a == 0:
        return make(ops.DIVIDE, (p,), DivideArg("remainder", ring, 1))
    # floor((2 a c + b) / 2 b); of a negative a it is -floor((2 |a| c + b - 1) / 2 b).
    times, plus = 2 * abs(a), b if a > 0 else b - 1
    arg = DivideArg("quotient", ring, 2 * b, times, plus, -times * p.spec.ring.q)
    found = make(ops.DIVIDE, (p,), arg)
    return found if a > 0 else make(ops.NEG, (found,))


def digits(p: Node, base: Any, centered: bool) -> Node:
    """The digits of each coefficient along a new first batch axis, the lowest first."""
    ring = p.spec.ring
    base, count = _digit_count(base, ring, centered)
    if not centered:
        return make(ops.DIVIDE, (p,), DivideArg("digits", ring, base, count=count))
    half = base // 2
    plus = half * (base**count - 1) // (base - 1)
    return make(ops.DIVIDE, (p,), DivideArg("digits", ring, base, 1, plus, -ring.q, half, count))


def gadget(base: Any, ring: RingSpec, centered: bool) -> Node:
    """The powers of a base, one for each digit, along a batch axis."""
    base, count = _digit_count(base, ring, centered)
    powers = [const(base**i, ring, Domain.COEFF) for i in range(count)]
    return make(ops.STACK, powers, StackArg())


def gadget_product(p: Node, rows: Node | None, base: Any, centered: bool) -> Node:
    """The sum of digit times row."""
    found = digits(p, base, centered)
    count, batch = found.spec.batch[0], () if rows is None else rows.spec.batch
    if rows is None or batch[:1] != (count,):
        raise OperandError(
            f"gadget_product got rows of batch shape {batch}, for {count} digits in base {base}.",
            "It takes a Poly whose first batch axis has one row for each digit.",
            "Make rows with Poly.gadget(base, ring), of the same base and `centered`.",
        )
    terms = [make(ops.MUL, (_part(found, i), _part(rows, i))) for i in range(count)]
    return reduce(lambda a, b: make(ops.ADD, (a, b)), terms)


def mixed(p: Node, matrix: Any, axis: Any) -> Node:
    """The product of a matrix of integers with the entries of a batch axis."""
    if is_tracer(matrix) or isinstance(matrix, Symbolic):
        raise TracedValueError(
            f"{user_line()} mixes polynomials by a matrix that is an argument of a captured or "
            "traced function.",
            "The matrix makes the program: its entries are known while it is captured.",
            "Let the function close over it, as an array of NumPy.",
        )
    w, place, axes = as_integers(matrix, "mix"), as_int(axis), len(p.spec.batch)
    if w.ndim != 2:
        raise ParameterError(
            f"mix got an array of shape {w.shape}.",
            "It takes a matrix: a row for each result, a column for each entry of the batch axis.",
            "Pass [row] for one result; it is an entry of a batch axis, y[0].",
        )
    if not -axes <= place < axes:
        raise DomainError(
            f"mix got axis={place} and a polynomial with batch shape {p.spec.batch}.",
            f"The axis is one of the batch axes, from {-axes} to {axes - 1}."
            if axes
            else "It mixes the entries of a batch axis, and there is none.",
            "Coefficients are mixed by products; Poly of a matrix of coefficients makes a batch."
            if not axes
            else "Pass one of these, or leave it out for the first.",
        )
    return make(ops.MIX, (p,), MixArg(matrix_of(w), place % axes - axes))


def item(p: Node, index: Any) -> Node:
    """Entries of the batch axes, by integers, slices and `...`."""
    given, axes = index if isinstance(index, tuple) else (index,), len(p.spec.batch)
    if any(i is None or isinstance(i, np.ndarray | list | bool) for i in given):
        _no_parts(p)
    if Ellipsis in given:
        at = given.index(Ellipsis)
        whole = [slice(None)] * (axes - len(given) + 1)
        given = (*given[:at], *whole, *given[at + 1 :])
    if not axes or len(given) > axes:
        _no_parts(p)
    return _taken(p, given)


def count_of(p: Node) -> int:
    """The length of the first batch axis."""
    return p.spec.batch[0] if p.spec.batch else _no_parts(p)


def _taken(p: Node, index: Sequence[Any]) -> Node:
    if all(isinstance(i, slice) and i == slice(None) for i in index):
        return p
    first, rest, count = index[0], index[1:], p.spec.batch[0]
    if not isinstance(first, slice):
        return _taken(_part(p, _position(as_int(first), count)), rest)
    chosen = range(count)[first]
    if not chosen:
        raise DomainError(
            f"{user_line()} takes no entries of a batch of {count} polynomials.",
            "What is taken has one polynomial at least.",
            "Pass a slice that is not empty.",
        )
    return make(ops.STACK, [_taken(_part(p, i), rest) for i in chosen], StackArg())


def _position(index: int, count: int) -> int:
    if -count <= index < count:
        return index % count
    raise BatchIndexError(
        f"{user_line()} takes entry {index} of a batch of {count} polynomials.",
        f"Entries are {-count} to {count - 1}.",
        "Pass an index in that range.",
    )


def _part(p: Node, index: int) -> Node:
    return make(ops.PART, (p,), PartArg(index))


def _no_parts(p: Node) -> NoReturn:
    raise OperandError(
        f"{user_line()} takes parts of a polynomial with batch shape {p.spec.batch}.",
        "Integers, slices and ... choose entries of batch axes. A polynomial is a program: its "
        "coefficients are there once it has run.",
        "Write x.coefficients()[..., i], x.tolist(), or x.limbs for the array of residues.",
    )


def _digit_count(base: Any, ring: RingSpec, centered: bool) -> tuple[int, int]:
    """A base, and how many digits in it all coefficients of the ring have."""
    base = _at_least(base, 3 if centered else 2, "digits", "base")
    half, count = ring.q // 2, 1
    while True:
        low = base // 2 * (base**count - 1) // (base - 1) if centered else 0
        high = base**count - 1 - low
        if high >= (half if centered else ring.q - 1) and (low >= half or not centered):
            return base, count
        count += 1


def _integer(value: Any) -> int:
    if isinstance(value, bool | np.bool):
        raise CoefficientTypeError(
            f"{user_line()} passes {value!r} as a number to divide by or to multiply with.",
            "An integer is needed here: a comparison may have been meant.",
            f"Write {int(value)}.",
        )
    return as_int(value)


def _at_least(value: Any, least: int, method: str, name: str) -> int:
    value = _integer(value)
    if value < least:
        raise ParameterError(
            f"{method} got {name}={value}.",
            f"It is an integer of {least} or more"
            + (": balanced digits in base 2 are no positive numbers." if least == 3 else "."),
            f"Pass for example {name}=16.",
        )
    return value
