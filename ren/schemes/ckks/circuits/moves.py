"""Linear maps of the numbers of a vector, by the rotations that the planner of slots finds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np

from ren.core.errors import ScaleError
from ren.schemes.ckks.arithmetic.automatic import AUTOMATIC, add, multiply_plain
from ren.schemes.ckks.arithmetic.evolve import (
    evolve_layout,
    fills_slots,
    need_level,
    relabelled,
    with_span,
    within_that_of,
)
from ren.schemes.ckks.arithmetic.manual import is_manual
from ren.schemes.ckks.arithmetic.number_types import with_type
from ren.schemes.ckks.arithmetic.operation_hooks import circuit
from ren.schemes.ckks.arithmetic.rotation import across_blocks, cleared, cyclic, with_value
from ren.schemes.ckks.circuits.linear import encoded, map_of
from ren.schemes.ckks.circuits.shaping import rotations_summed
from ren.schemes.ckks.encoding.ciphertext_data import (
    CiphertextData,
    CiphertextT,
    Origin,
    known_length,
    with_fields,
)
from ren.schemes.ckks.encoding.layout import COPIES, LEFTOVERS, ZEROS, Layout, Tail
from ren.schemes.ckks.encoding.plaintext import encode
from ren.schemes.ckks.noise import bounds as noises
from ren.schemes.ckks.noise.readable import Noise
from ren.schemes.rlwe.active_context import called
from ren.schemes.slots import contents as slot_contents
from ren.schemes.slots import planner
from ren.schemes.slots.contents import ZERO, Contents
from ren.schemes.slots.operators import Diagonals, Mask, Pair, Scale, Shift, Sum
from ren.schemes.slots.planner import LinearIndexMap, RotationPlan, gather


def moved(ct: CiphertextT, m: LinearIndexMap, what: str) -> CiphertextT:
    """The numbers m x of a vector x, in order from slot 0 on.

    Args:
        ct: x; leading axes are batch axes. Its shape is not read.
        m: the map, of as many numbers as `ct` has.
        what: the operation, for errors.

    Returns:
        A vector, at the level of `ct` less what the plan takes.

    Raises:
        DepthError: too few levels.
    """
    if max(m.shape) > ct.slots:
        need_level(ct, len(m.stages), what)
        for entries in m.stages:
            ct = encoded(entries, ct.params, ct.level) @ ct
        return ct
    x = with_value(ct, 0) if ct.layout.tail.has_value else ct
    here = contents_of(x.layout, known_length(x) or 1, x.slots)
    plan = planner.plan(m, here)
    is_complex, largest = ct.layout.is_complex, noises.of_largest(x.noise, 1)
    bounds = [(largest, plan.terms[-1])] if plan.terms else []
    if (shorter := _from_origin(ct, m, plan)) is not None:
        x, here, m, plan = shorter
        largest = noises.of_largest(x.noise, 1)
    masks = sum(isinstance(operator, Mask) for operator in plan.operators)
    need_level(x, plan.levels - masks, what, clearing=masks)
    origin, x = _origin(x, here, m, plan), _by_operators(x, plan, largest)
    tail = tail_of(plan.contents)
    if tail.has_leftovers and not ct.layout.tail.is_bounded:  # they may be among these
        tail = attrs.evolve(tail, is_bounded=False)
    x = evolve_layout(relabelled(x, m.shape[0], tail, is_complex), columns=ct.layout.columns)
    for bound in bounds:
        x = within_that_of(x, *bound)
    return with_fields(x, origin=origin)


def _by_operators(x: CiphertextT, plan: RotationPlan, largest: Noise) -> CiphertextT:
    for operator, terms in zip(plan.operators, plan.terms, strict=True):
        x = within_that_of(_RULES[type(operator)](x, operator), largest, terms)
    return x


# ------------------------------------------------------------------- numbers left where they stand


def _origin(
    x: CiphertextData, here: Contents, m: LinearIndexMap, plan: RotationPlan
) -> Origin | None:
    """The numbers m x where the sums leave them, before a plan puts them in order."""
    left = planner.left_standing(planner.Keyed(m), here)
    if left is None:
        return None
    source = with_fields(x, origin=None)
    return Origin(source, m.weight, left, plan.cost - left.cost)


def _from_origin(
    ct: CiphertextT, m: LinearIndexMap, plan: RotationPlan
) -> tuple[CiphertextT, Contents, LinearIndexMap, RotationPlan] | None:
    """The origin of `ct` where a map of it is cheaper: its slots, contents, the map and a plan."""
    origin = ct.origin
    if origin is None or origin.left is None or origin.left.contents.size != known_length(ct):
        return None
    m = planner.scaled(m, origin.factor) if isinstance(origin.factor, float) else None
    if m is None:
        return None
    found = planner.plan(m, origin.left.contents)
    if found.cost > origin.cost + plan.cost or found.levels > origin.source.level:
        return None
    source = relabelled(origin.source, ct.slots, ZEROS, ct.layout.is_complex)
    return (
        _by_operators(source, origin.left, noises.of_largest(source.noise, 1)),
        origin.left.contents,
        m,
        found,
    )


def roll(x: CiphertextT, shift: int) -> CiphertextT:
    """numpy.roll over the logical length: result[i] = x[(i - shift) mod length].

    Where the length fills the slots it is one rotation. Else it is two, with no level where twice
    the length fits into the slots.
    """
    if x.layout.blocks > 1:
        raise across_blocks(x, f"roll({shift})")
    length, what = x.layout.length or x.slots, f"roll({shift})"
    shift %= length
    if is_manual() and shift and length != x.slots:
        raise ScaleError(
            f"In manual mode roll({shift}) was asked of {length} numbers in {x.slots} slots.",
            "It is two rotations, two products with masks and a rescale.",
            "Write these out, or leave ckks.manual().",
        )
    with called(what):
        if shift == 0 or length == x.slots:
            return cyclic(x, -shift)
        return _rolled(x, shift, length)


@circuit("roll()")
def _rolled(x: CiphertextT, shift: int, length: int) -> CiphertextT:
    source = (np.arange(length) - shift) % length
    result = moved(x, gather(source, length), f"roll({shift})")
    result = evolve_layout(result, shape=x.layout.shape)
    return with_type(with_span(result, x.span), x.stated_dtype)


def contents_of(layout: Layout, length: int, slots: int) -> Contents:
    """Contents of the slots of a vector, whatever number stands beyond the length."""
    tail = layout.tail
    if tail.is_copies or tail.period >= length:
        return slot_contents.repeated(length, slots, 1 if tail.is_copies else tail.period)
    return slot_contents.in_order(length, slots, tail.before, tail.after)


def tail_of(found: Contents) -> Tail:
    """The tail behind the elements 0, 1, ... in slots 0, 1, ..."""
    beyond = found.elements[found.size :] != ZERO
    if not beyond.any():
        return ZEROS
    if found.period == 1:
        return COPIES
    if 0 < found.size <= found.period:
        return Tail(LEFTOVERS.before, LEFTOVERS.after, period=found.period)
    edges = np.concatenate([[-1], np.flatnonzero(beyond), [len(beyond)]])
    widest = int(np.diff(edges).argmax())  # zeros that leftovers stand before and behind
    return Tail(before=len(beyond) - int(edges[widest + 1]), after=int(edges[widest]) + 1)


def _by_diagonals(x: CiphertextT, operator: Diagonals) -> CiphertextT:
    """The product with the matrix, which reads the slots up to its last column."""
    columns, split = operator.placement.entries.shape[1], operator.split
    tail = ZEROS if split.copies > 1 else LEFTOVERS
    x = relabelled(x, columns, tail, x.layout.is_complex)
    return map_of(operator, x.params, x.level) @ x


def _masked(x: CiphertextT, operator: Mask) -> CiphertextT:
    """Zeros where a mask is; the slots beyond the length where it does not say all slots."""
    if not fills_slots(x):
        return cleared(x, "A mask")
    return multiply_plain(x, encode(operator.keep.astype(np.float64), x.params, x.level, bound=1))


_RULES: dict[type, Callable[[Any, Any], Any]] = {
    Shift: lambda x, operator: cyclic(x, operator.steps),
    Sum: lambda x, operator: rotations_summed(x, operator.count, operator.step),
    Pair: lambda x, operator: add(cyclic(x, operator.first), cyclic(x, operator.second)),
    Mask: _masked,
    Scale: lambda x, operator: AUTOMATIC.multiply_scalar(x, operator.weight),
    Diagonals: _by_diagonals,
}
