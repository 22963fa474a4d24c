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
from ren.schemes.ckks.argument_checks import as_integer
from ren.schemes.ckks.arithmetic import kept_to, need_level, with_noise
from ren.schemes.ckks.blocks import as_blocks, blocks_of, evolve_layout
from ren.schemes.ckks.noise import of_rotations
from ren.schemes.ckks.plaintext import Layout, encode
from ren.schemes.ckks.sigmas import switch_sigma
from ren.schemes.ckks.watch import operation, unchecked

if TYPE_CHECKING:
    from ren.schemes.ckks.ciphertext import Ciphertext


def known_length(ct: Ciphertext) -> int | None:
    """The numbers that went in; None for a scalar. Inside a capture the plan depends on it."""
    length = ct.layout.length
    return None if length is None else operator.index(length)


@operation("a change of length", lambda x, length, is_complex: x)
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
        return cleared(ct, "mask()")
    factors = np.asarray(m)
    if factors.ndim != 1 or len(factors) != (ct.slots if length is None else length):
        raise ParameterError(
            f"mask() got an array of shape {factors.shape}.",
            f"The ciphertext holds {'a scalar' if length is None else f'{length} numbers'}.",
            "Pass one factor for each number.",
        )
    need_level(ct, 1, "mask()")
    return ct * (factors if factors.dtype.kind == "c" else factors.astype(np.float64))


def fills_slots(ct: Ciphertext) -> bool:
    """Whether nothing lies beyond the length, so that nothing has to be cleared there."""
    return known_length(ct) in (None, ct.slots * ct.layout.blocks)


def cleared(ct: Ciphertext, what: str) -> Ciphertext:
    """With zeros beyond the length: one level for `what`, or none where it fills the slots."""
    if fills_slots(ct):
        return ct
    need_level(ct, 1, what)
    return ct * np.ones(known_length(ct) or 0)


def item(ct: Ciphertext, index: Any) -> Ciphertext:
    """ct[i:j]: one rotation, no level. What lies beyond stays in the other slots, unseen.

    Of a vector that is cut into blocks: within one of them, or from the start of one on.
    """
    length = known_length(ct)
    if isinstance(index, tuple) and len(index) == 2 and index[0] is Ellipsis:
        index = index[1]  # ct[..., i:j] of a batch
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
    if ct.layout.blocks > 1:
        return _from_blocks(ct, start, stop)
    return relabelled(ct.rotate(start), stop - start, ct.layout.is_complex)


def _from_blocks(ct: Ciphertext, start: int, stop: int) -> Ciphertext:
    first, offset = divmod(start, ct.slots)
    parts = blocks_of(ct)[first : -(-stop // ct.slots)]
    if len(parts) > 1 and offset:
        return ct.rotate(start)  # which tells that nothing moves from block to block
    parts = [part.rotate(offset) for part in parts]
    return as_blocks(parts, Layout(stop - start, ct.layout.is_complex, len(parts)))


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
    return evolve_layout(ct, attrs.evolve(ct.layout, shape=label))


@unchecked()
def tile(ct: Ciphertext, count: int) -> Ciphertext:
    """`count` copies one after another, as numpy.tile: one level, none where the slots are full."""
    length, count = _vector_length(ct, "tile()"), as_integer(count, "tile()")
    if count < 1 or count * length > ct.slots:
        raise ParameterError(
            f"{count} copies of {length} numbers were asked for.",
            f"There are {ct.slots} slots.",
            f"Pass a count from 1 to {ct.slots // length}."
            if length <= ct.slots
            else "Vectors that are cut into blocks are not tiled: choose a larger n.",
        )
    made = kept_to(rotations_summed(cleared(ct, "tile()"), count, -length), ct)
    return relabelled(made, count * length, ct.layout.is_complex)


def rotations_summed(ct: Ciphertext, count: int, step: int) -> Ciphertext:
    """x[i] + x[i + step] + ... of `count` terms, `count * step` being within the slots."""
    made, terms, switches = ct, 1, 0
    for bit in bin(count)[3:]:
        made, terms = made + made.rotate(terms * step), 2 * terms
        switches = 2 * switches + 1  # as often each key switch stands in the sum
        if bit == "1":
            made, terms, switches = ct + made.rotate(step), terms + 1, switches + 1
    if made is ct:
        return ct
    added = switches * switch_sigma(made.params, made.level) ** 2
    return with_noise(made, lambda noise: of_rotations(ct.noise, noise, count, added))


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
    need_level(ct, 1, "concat()")
    there = np.zeros(offset + length)
    there[offset:] = 1
    return ct.rotate(-offset) * encode(there, ct.params, ct.level)


@unchecked()
def real(ct: Ciphertext) -> Ciphertext:
    """The real parts: one level and a conjugation; none where what went in is real."""
    if not ct.layout.is_complex:
        return ct
    need_level(ct, 1, "The real part")
    return _as_real(kept_to((ct + ct.conj()) * 0.5, ct))


@unchecked()
def imag(ct: Ciphertext) -> Ciphertext:
    """The imaginary parts: one level and a conjugation; zeros where what went in is real."""
    if not ct.layout.is_complex:
        return ct * 0
    need_level(ct, 1, "The imaginary part")
    return _as_real(kept_to((ct - ct.conj()) * -0.5j, ct))


def _as_real(ct: Ciphertext) -> Ciphertext:
    return evolve_layout(ct, attrs.evolve(ct.layout, is_complex=False))


def _vector_length(ct: Ciphertext, what: str) -> int:
    length = known_length(ct)
    if length is None:
        raise ParameterError(
            f"{what} got a scalar, which fills all slots.",
            "It takes vectors.",
            "Encrypt an array of one number or more.",
        )
    return length
