"""Linear maps of the numbers of a vector, by the rotations that the planner of slots finds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from ren.core.errors import ScaleError
from ren.poly.key_ids import called
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
from ren.schemes.ckks.arithmetic.operation_hooks import circuit, note_cleared
from ren.schemes.ckks.arithmetic.rotation import (
    across_blocks,
    cleared,
    cyclic,
    rotations_summed,
    with_value,
)
from ren.schemes.ckks.circuits.linear import encoded, map_of
from ren.schemes.ckks.encoding.ciphertext_data import (
    CiphertextT,
    Later,
    Origin,
    batch_of,
    known_length,
    recorded,
    with_fields,
)
from ren.schemes.ckks.encoding.layout import COPIES, LEFTOVERS, ZEROS, Layout, Tail
from ren.schemes.ckks.encoding.plaintext import encode
from ren.schemes.ckks.noise import bounds as noises
from ren.schemes.ckks.noise.range_checks import bound_of
from ren.schemes.ckks.noise.spans import Span, hull
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
    here = contents_of(ct.layout, known_length(ct) or 1, ct.slots)
    start = _Start(ct, here, m, planner.plan(m, here))
    start = _from_origin(start) or start
    plan = start.plan
    masks = sum(isinstance(operator, Mask) for operator in plan.operators)
    need_level(start.source, plan.levels - masks, what, clearing=masks)
    if masks:
        note_cleared(ct)
    tail = tail_of(plan.contents)
    if tail.has_leftovers and not ct.layout.tail.is_bounded:  # they may be among these
        tail = attrs.evolve(tail, is_bounded=False)
    layout = Layout(m.shape[0], ct.layout.is_complex, tail=tail, columns=ct.layout.columns)
    return recorded(
        ct,
        Later(start.moved, batch_of(ct), start.bound),
        layout=layout.on(ct.slots),
        level=start.source.level - plan.levels,
        origin=_origin(start),
        span=None,
        stated_dtype=None,
    )


@attrs.frozen(eq=False)
class _Start:
    """A map, and what it starts from: a ciphertext with some contents."""

    source: Any
    here: Contents
    map: LinearIndexMap
    plan: RotationPlan
    before: RotationPlan | None = None

    def moved(self) -> Any:
        """The ciphertext in order."""
        x = with_value(self.source, 0) if self.source.layout.tail.has_value else self.source
        if self.before is not None:
            x = relabelled(_by_operators(x, self.before), x.slots, ZEROS)
        return _by_operators(x, self.plan)

    @property
    def bound(self) -> float | None:
        """The tracked bound of what comes out; None where it is not known yet."""
        most = bound_of(self.source)
        for plan in (self.before, self.plan):
            if most is not None and plan is not None and plan.terms:
                most *= plan.terms[-1]
        return most


def _origin(start: _Start) -> Origin | None:
    """The numbers where sums without a level leave them, before the plan puts them in order."""
    left, weight = planner.left_standing(start.map, start.here), start.map.weight
    if start.before is not None or left is None or weight is None:
        return None
    source = with_fields(start.source, origin=None)
    return Origin(source, weight, left, start.plan.cost - left.cost)


def _from_origin(start: _Start) -> _Start | None:
    """The same map of the numbers before they were put in order, where that is cheaper."""
    origin, m = start.source.origin, start.map
    if origin is None or origin.left is None or not (m.is_entries or origin.factor == 1):
        return None
    if origin.left.contents.size != start.here.size or not origin.is_there:
        return None
    there, m = origin.left.contents, m if origin.factor == 1 else planner.scaled(m, origin.factor)
    plan = planner.plan(m, there)
    if plan.cost > origin.cost + start.plan.cost or plan.levels > origin.source.level:
        return None
    return _Start(origin.source, there, m, plan, origin.left)


def _by_operators(x: CiphertextT, plan: RotationPlan) -> CiphertextT:
    largest = noises.of_largest(x.noise, 1)
    for operator, terms in zip(plan.operators, plan.terms, strict=True):
        x = within_that_of(_RULES[type(operator)](x, operator), largest, terms)
    return x


def roll(x: CiphertextT, shift: int) -> CiphertextT:
    """numpy.roll over the logical length: result[i] = x[(i - shift) mod length].

    Where the length fills the slots it is one rotation. Else it is two, with no level where twice
    the length fits into the slots. Across blocks it takes a level.
    """
    if x.layout.blocks > 1 and is_manual():
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
        return _turned(x, (np.arange(length) - shift) % length, what)


def rotated_blocks(x: CiphertextT, steps: int) -> CiphertextT:
    """result[i] = x[i + steps] of a vector in blocks, cyclic over all their slots: one level."""
    length, whole = known_length(x) or 1, x.slots * x.layout.blocks
    source = (np.arange(length) + steps % whole) % whole
    what = "A rotation of a vector across the blocks that it is cut into"
    return _turned(x, np.where(source < length, source, -1), what) if steps % whole else x


@circuit("roll()")
def _turned(x: CiphertextT, source: NDArray[np.integer], what: str) -> CiphertextT:
    """x[source], zeros where that is negative, of the length and shape of `x`."""
    result = moved(x, gather(source, len(source)), what)
    result = evolve_layout(result, shape=x.layout.shape)
    span = x.span if source.min() >= 0 else hull(x.span, Span(0.0, 0.0))
    return with_type(with_span(result, span), x.stated_dtype)


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
