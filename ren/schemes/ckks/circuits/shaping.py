"""Slices, masks, tiles and parts of encrypted vectors: what moves slots or clears them."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
from numpy.typing import ArrayLike

from ren.core.errors import ParameterError
from ren.schemes.ckks.arithmetic import kept_to
from ren.schemes.ckks.plaintext import Layout, encode
from ren.schemes.ckks.watch import unchecked

if TYPE_CHECKING:
    from ren.schemes.ckks.ciphertext import Ciphertext


def known_length(ct: Ciphertext) -> int | None:
    """The numbers that went in; None for a scalar. Inside a capture the plan depends on it."""
    length = ct.layout.length
    return None if length is None else operator.index(length)


def relabelled(ct: Ciphertext, length: int | None, is_complex: bool) -> Ciphertext:
    """The same slots, of which `length` are in use."""
    return dataclasses.replace(ct, layout=Layout(length, is_complex))


def mask(ct: Ciphertext, m: ArrayLike | None = None) -> Ciphertext:
    """The slots times m, of any numbers: one level.

    Args:
        m: [length]; ones by default, which clear what lies beyond the length. That takes no level
            where nothing lies there.
    """
    length = known_length(ct)
    if m is None:
        return cleared(ct)
    factors = np.asarray(m)
    if factors.ndim != 1 or len(factors) != (ct.slots if length is None else length):
        raise ParameterError(
            f"mask() got an array of shape {factors.shape}.",
            f"The ciphertext holds {'a scalar' if length is None else f'{length} numbers'}.",
            "Pass one factor for each number.",
        )
    return ct * (factors if factors.dtype.kind == "c" else factors.astype(np.float64))


def cleared(ct: Ciphertext) -> Ciphertext:
    """With zeros beyond the length: one level, or none where the length fills the slots."""
    length = known_length(ct)
    return ct if length is None or is_full(ct) else ct * np.ones(length)


def is_full(ct: Ciphertext) -> bool:
    """Whether the length fills the slots of all blocks."""
    return known_length(ct) == ct.slots * ct.layout.blocks


def item(ct: Ciphertext, index: Any) -> Ciphertext:
    """ct[i:j]: one rotation, no level. What lies beyond stays in the other slots, unseen."""
    length = known_length(ct)
    if length is None or not isinstance(index, slice) or index.step not in (None, 1):
        raise ParameterError(
            f"A ciphertext of {'a scalar' if length is None else f'{length} numbers'} was indexed "
            f"by {index!r:.40}.",
            "Slices with step 1 are cut out: they are rotations.",
            "Write ct[i:j], or ct[i : i + 1] for one number.",
        )
    start, stop, _ = index.indices(length)
    if stop <= start:
        raise ParameterError(
            f"The slice [{start}:{stop}] of a ciphertext of {length} numbers is empty.",
            "A ciphertext holds one number at least.",
            f"Choose bounds from 0 to {length}, the second above the first.",
        )
    return relabelled(ct.rotate(start), stop - start, ct.layout.is_complex)


def reshaped(ct: Ciphertext, shape: tuple[Any, ...]) -> Ciphertext:
    """The same slots, which decrypt in another shape."""
    length = known_length(ct)
    sizes = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape
    try:
        made = np.empty(0 if length is None else length, np.bool).reshape(sizes).shape
    except (TypeError, ValueError):
        made = ()
    if length is None or not made:
        raise ParameterError(
            f"A ciphertext of {'a scalar' if length is None else f'{length} numbers'} was to have "
            f"the shape {sizes}.",
            "A shape is one or more sizes whose product is the count of the numbers.",
            "One size may be -1: it is worked out. For a vector write ct.reshape(-1).",
        )
    label = made if len(made) > 1 else None
    return dataclasses.replace(ct, layout=attrs.evolve(ct.layout, shape=label))


@unchecked()
def tile(ct: Ciphertext, count: int) -> Ciphertext:
    """`count` copies one after another, as numpy.tile: one level, none where the slots are full."""
    length, count = _vector_length(ct, "tile()"), operator.index(count)
    if count < 1 or count * length > ct.slots:
        raise ParameterError(
            f"{count} copies of {length} numbers were asked for.",
            f"There are {ct.slots} slots.",
            f"Pass a count from 1 to {ct.slots // length}.",
        )
    one = made = cleared(ct)
    copies = 1
    for bit in bin(count)[3:]:
        made, copies = made + made.rotate(-copies * length), 2 * copies
        if bit == "1":
            made, copies = one + made.rotate(-length), copies + 1
    return relabelled(kept_to(made, ct), count * length, ct.layout.is_complex)


@unchecked()
def concat(ciphertexts: Sequence[Ciphertext]) -> Ciphertext:
    """The vectors one after another, as numpy.concatenate: one level and a rotation each.

    Raises:
        ParameterError: none, a scalar, or more numbers than slots.
    """
    parts = list(ciphertexts)
    lengths = [_vector_length(ct, "concat()") for ct in parts]
    room = f", {parts[0].slots}" if parts else ""
    if not parts or sum(lengths) > parts[0].slots:
        raise ParameterError(
            f"{len(parts)} ciphertexts of {sum(lengths)} numbers in all were to be joined.",
            f"At least one is needed, and together they fit into the slots{room}.",
            "Join fewer, or choose parameters with a larger n.",
        )
    if len(parts) == 1:
        return parts[0]
    offsets = [sum(lengths[:i]) for i in range(len(parts))]
    placed = (_placed(ct, offset, size) for ct, offset, size in zip(parts, offsets, lengths))  # noqa: B905
    return reduce(operator.add, placed)


def _placed(ct: Ciphertext, offset: int, length: int) -> Ciphertext:
    there = np.zeros(offset + length)
    there[offset:] = 1
    return ct.rotate(-offset) * encode(there, ct.params, ct.level)


@unchecked()
def real(ct: Ciphertext) -> Ciphertext:
    """The real parts: one level and a conjugation; none where what went in is real."""
    if not ct.layout.is_complex:
        return ct
    return _as_real(kept_to((ct + ct.conj()) * 0.5, ct))


@unchecked()
def imag(ct: Ciphertext) -> Ciphertext:
    """The imaginary parts: one level and a conjugation; zeros where what went in is real."""
    if not ct.layout.is_complex:
        return ct * 0
    return _as_real(kept_to((ct - ct.conj()) * -0.5j, ct))


def _as_real(ct: Ciphertext) -> Ciphertext:
    return dataclasses.replace(ct, layout=attrs.evolve(ct.layout, is_complex=False))


def _vector_length(ct: Ciphertext, what: str) -> int:
    length = known_length(ct)
    if length is None:
        raise ParameterError(
            f"{what} got a scalar, which fills all slots.",
            "It takes vectors.",
            "Encrypt an array of one number or more.",
        )
    return length
