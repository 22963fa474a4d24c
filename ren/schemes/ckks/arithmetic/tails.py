"""Slots beyond the length: which of them a program would show, and how they are cleared.

They behave as zeros in every operation. `Layout.tail` tracks statically what stands there. A sum
with a number leaves that number there; it is subtracted where it would become visible, at no level.
A slice or a rotation leaves numbers of the vector there. Where these would become visible, one
product with a mask clears them.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ren.core.errors import ScaleError
from ren.poly.symbolic import Symbolic, SymbolicLength
from ren.schemes.ckks.arithmetic.automatic import (
    add_plain,
    masked,
    need_level,
    with_noise,
    with_tail,
)
from ren.schemes.ckks.arithmetic.mode import is_manual
from ren.schemes.ckks.encoding.ciphertext_data import (
    CiphertextData,
    CiphertextT,
    batch_of,
    known_length,
)
from ren.schemes.ckks.encoding.layout import ZEROS, Tail
from ren.schemes.ckks.encoding.plaintext import encode
from ren.schemes.ckks.noise import bounds as noises


def shape_text(x: Any) -> str:
    """The shape of a ciphertext, and which of its axes are in the slots, for errors."""
    batch = len(batch_of(x)) - (x.layout.blocks > 1)
    return described_shape(x.shape[:batch], x.shape[batch:])


def described_shape(batch: tuple[int, ...], core: tuple[int, ...]) -> str:
    """The same from batch axes and axes of the numbers in the slots."""
    kind = ("number", "vector", "matrix")[len(core)] if len(core) < 3 else "array"
    plural = {"matrix": "matrices"}.get(kind, f"{kind}s")
    return f"{(*batch, *core)}, {f'a batch of {plural}' if batch else f'one {kind}'}"


def fills_slots(x: CiphertextData) -> bool:
    """Whether no slot lies beyond the length. Inside a capture the plan depends on the length."""
    return known_length(x) in (None, x.slots * x.layout.blocks)


def moved(x: CiphertextData, steps: int) -> Tail:
    """The tail of `x` after a cyclic rotation."""
    length = x.layout.length
    if length is None or (not isinstance(length, SymbolicLength) and fills_slots(x)):
        return x.layout.tail
    return x.layout.tail.moved(steps)


def shows_leftovers(x: CiphertextData, steps: int) -> bool:
    """Whether a rotation by `steps`, of at most half the slots, moves leftovers to numbers."""
    length, tail = known_length(x) or 0, x.layout.tail
    first, last = length + tail.after, x.slots - tail.before  # zeros stand from first to last
    if last <= length or first >= x.slots:
        return True
    if steps > 0:  # reads the slots from `length` to `length + steps`
        return tail.after > 0 or length + steps > last
    return tail.before > 0 or x.slots + steps < first


def cleared(x: CiphertextT, what: str) -> CiphertextT:
    """`x` with zeros beyond its length: by a sum where a number stands there, else by a product.

    Raises:
        DepthError: leftovers stand there, and no level is left for the product.
        ScaleError: leftovers stand there in manual mode, which inserts nothing.
    """
    if x.layout.length is None or x.layout.tail.is_zero or fills_slots(x):
        return x
    if is_manual():
        raise ScaleError(
            f"In manual mode {what} would show what stands beyond the length.",
            "Slots there behave as zeros; clearing them is a sum, or a product and a rescale.",
            "Write .mask() outside of ckks.manual() before, or encrypt as many numbers as slots.",
        )
    if not x.layout.tail.has_leftovers:
        return without_value(x)
    need_level(x, 1, f"{what}, which clears leftovers beyond the length by a product with a mask,")
    return masked(x)


def without_value(x: CiphertextT) -> CiphertextT:
    """`x` less the number that stands beyond its length."""
    return with_value(x, 0)


def with_value(x: CiphertextT, value: float) -> CiphertextT:
    """`x` with `value` beyond its length in place of another number: a sum with a plaintext."""
    tail = x.layout.tail
    if fills_slots(x) or (not isinstance(tail.value, Symbolic) and tail.value == value):
        return x
    length, slots = known_length(x) or 0, x.slots * x.layout.blocks

    def difference(there: Any) -> NDArray:
        return np.where(np.arange(slots) < length, 0, value - there)

    is_symbol = isinstance(tail.value, Symbolic)
    values = tail.value.map(difference) if is_symbol else difference(tail.value)
    p = encode(values, x.params, x.level, x.layout.blocks)
    p = dataclasses.replace(p, layout=x.layout.with_tail(ZEROS))
    most = noises.reaching(x.noise, abs(value))
    result = with_noise(add_plain(x, p), lambda noise: noises.within_that_of(noise, most))
    return with_tail(result, Tail(tail.before, tail.after, value, tail.is_bounded))
