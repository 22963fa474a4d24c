"""Sums over the slots, and any and all: results stand in every slot, as scalars do."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from ren.core.errors import ParameterError, ScaleError
from ren.schemes.ckks.arithmetic.argument_checks import as_integer, check_ciphertext
from ren.schemes.ckks.arithmetic.automatic import AUTOMATIC, multiply_plain
from ren.schemes.ckks.arithmetic.evolve import (
    evolve_layout,
    fills_slots,
    kept_to,
    need_level,
    relabelled,
    with_noise,
    within,
    within_that_of,
)
from ren.schemes.ckks.arithmetic.lazy_product import noise_beyond
from ren.schemes.ckks.arithmetic.manual import is_manual
from ren.schemes.ckks.arithmetic.number_types import arithmetic, floating, truth
from ren.schemes.ckks.arithmetic.operation_hooks import circuit
from ren.schemes.ckks.arithmetic.rotation import (
    cleared,
    has_to_be_cleared,
    rotate,
    rotations_summed,
)
from ren.schemes.ckks.circuits.moves import moved
from ren.schemes.ckks.circuits.stacking import blocks_of
from ren.schemes.ckks.encoding.ciphertext_data import (
    CiphertextData,
    CiphertextT,
    known_length,
    with_fields,
)
from ren.schemes.ckks.encoding.encoder import rank_of
from ren.schemes.ckks.encoding.layout import ZEROS
from ren.schemes.ckks.encoding.plaintext import Plaintext, encode
from ren.schemes.ckks.noise import bounds as noises
from ren.schemes.ckks.noise.places import PLACES
from ren.schemes.ckks.noise.readable import Noise
from ren.schemes.slots.planner import cumulative

_FEW = 4  # times as many slots as terms: the bound is a fifth of a bit more then, or much less


@circuit("sum()")
def total(ct: CiphertextT) -> CiphertextT:
    """The sum, in every slot: log2(slots) rotations; a level where leftovers are cleared first."""
    return ct if known_length(ct) is None else over_all_slots(cleared(ct, "sum()"))


@circuit("mean()", floating)
def mean(ct: CiphertextT) -> CiphertextT:
    """The mean, in every slot: log2(slots) rotations, one level.

    The product is after the sum, so that its noise is not summed too: 10 bits of 2^12 slots. Where
    leftovers stand beyond the length it is before, and clears them.
    """
    length = known_length(ct)
    if length is None:
        return ct
    need_level(ct, 1, "mean()")
    if fills_slots(ct) or ct.layout.tail.is_zero:
        result = AUTOMATIC.multiply_scalar(over_all_slots(ct), 1 / length)
    else:
        shares, blocks = np.full(length, 1 / length), ct.layout.blocks
        p = encode(shares, ct.params, ct.level, blocks, bound=1 / length)
        result = over_all_slots(multiply_plain(ct, p))
    return _kept(result, ct, 1)


@circuit("dot()", arithmetic, 2)
def dot(ct: CiphertextT, w: Any) -> CiphertextT:
    """sum_i x_i w_i, in every slot: log2(slots) rotations.

    Args:
        ct: x.
        w: an array or a plaintext of the same length: one level. A ciphertext of the same length:
            one level; two where leftovers stand beyond the length of both.
    """
    if is_manual():
        raise ScaleError(
            "In manual mode dot() was called.",
            "It is a product and a sum, with a rescale in between.",
            "Write (x * w).rescale().sum(), with .relinearize() between ciphertexts; or leave "
            "ckks.manual().",
        )
    length, other = known_length(ct), _length_of(w)
    if length is None or length != other:
        texts = ("a scalar or a matrix" if n is None else f"{n} numbers" for n in (length, other))
        raise ParameterError(
            f"dot() got vectors of {' and '.join(texts)}.",
            "Both have one length.",
            "Pad the shorter one, or slice the longer one."
            if None not in (length, other)
            else "Write x * number for a number or a scalar, x @ M for a matrix M.",
        )
    is_encrypted = isinstance(w, type(ct))
    shows = is_encrypted and not ct.layout.tail.times(w.layout.tail).is_zero
    is_masked = shows and has_to_be_cleared(ct)
    need_level(ct, 1, "dot()", clearing=is_masked)
    if is_encrypted:
        need_level(w, 1, "dot()")
    ct = cleared(ct, "dot()") if shows else ct
    return over_all_slots(ct * w)


@circuit("cumsum()", arithmetic)
def cumsum(ct: CiphertextT) -> CiphertextT:
    """The sums of the first 1, 2, ... numbers, as numpy.cumsum without an axis.

    log2(length) rotations where so many zeros stand beyond the numbers as there are, and no level.
    Else a level for each factor of 64 in the length, and about 14 rotations.
    """
    length = known_length(ct)
    if length is None:
        return ct
    return moved(evolve_layout(ct, shape=None), cumulative(length), "cumsum()")


@circuit("strided_sum()", arithmetic)
def strided_sum(ct: CiphertextT, count: int, step: int = 1) -> CiphertextT:
    """result[i] = x[i] + x[i + step] + ... + x[i + (count - 1) step], cyclic over the slots.

    Sums of rows and of columns of a matrix that is packed row by row. With a negative step copies,
    where all but every count-th of the numbers are zero.

    Args:
        ct: x; all slots take part, those beyond its length as zeros.
        count: of the terms.
        step: between them, of any sign.

    Returns:
        The sums, at the same level: about log2(count) rotations, at most twice as many.

    Raises:
        OperandError: no ciphertext, or no integers.
        ParameterError: no terms, or more than there are different slots at that step.

    Example:
        >>> from ren.schemes import ckks
        >>> ctx = ckks.context(depth=1, slots=8)
        >>> x = ctx.encrypt([1.0, 2, 3, 4, 5, 6, 7, 8])  # two rows of four
        >>> ckks.strided_sum(x, 4).decrypt().round(3)[::4]
        array([10., 26.])
        >>> ckks.strided_sum(x, 2, step=4).decrypt().round(3)
        array([ 6.,  8., 10., 12.,  6.,  8., 10., 12.])
    """
    what = "strided_sum()"
    check_ciphertext(ct, what)
    count, step = as_integer(count, what), as_integer(step, what)
    most = ct.slots // math.gcd(step, ct.slots)  # different slots at this step
    if not 1 <= count <= most:
        raise ParameterError(
            f"strided_sum() got count={count} and step={step}.",
            f"The terms are different slots: from 1 to {most} at this step, of {ct.slots} slots.",
            "Pass fewer, or another step, for example the width of a row.",
        )
    ct = cleared(ct, what)
    return kept_to(rotations_summed(ct, count, step), ct, count)


@circuit("all", truth)
def all_of(ct: CiphertextT) -> CiphertextT:
    """1 where all numbers are 1, 0 where one is 0, in every slot: their product.

    log2(slots) rotations, and ceil(log2(length)) levels; one more where leftovers are cleared.
    """
    check_ciphertext(ct, "all")
    return _product(ct, "all")


def _product(ct: CiphertextT, what: str) -> CiphertextT:
    length = known_length(ct)
    if length is None:
        return ct
    blocks, slots, period = ct.layout.blocks, ct.slots, 1 << (length - 1).bit_length()
    need_level(ct, len(_doublings(1, period)), what, clearing=has_to_be_cleared(ct))
    is_truth = ct.span is not None and ct.span.is_truth
    limit = max(ct.span.largest, 1.0) if ct.span is not None else 1.0
    ct, room = cleared(ct, what), blocks * slots if blocks > 1 else period
    if length < room:
        ct = evolve_layout(ct, length=room, shape=None, tail=ZEROS, columns=False)
        ct = ct + np.repeat([0.0, 1.0], [length, room - length])
    period = min(period, slots)

    def times(a: CiphertextT, b: CiphertextT, factors: int) -> CiphertextT:
        """The product of so many numbers; truth keeps to 1, where a bound is raised to a power."""
        bound = 2.0 ** min(factors * math.log2(limit), 60.0)
        return within(a * b, bound) if is_truth else a * b

    parts = [within(x, limit) if is_truth else x for x in blocks_of(ct)]
    while len(parts) > 1:
        pairs = zip(parts[::2], parts[1::2], strict=False)
        parts = [times(a, b, blocks) for a, b in pairs] + parts[len(parts) // 2 * 2 :]
    (ct,) = parts
    for step in _doublings(period, slots):
        ct = kept_to(ct + rotate(ct, -step), ct)  # each slot has one that is not zero
    for step in _doublings(1, period):
        ct = times(ct, rotate(ct, step), 2 * step * blocks)
    return relabelled(ct, None)


@circuit("any", truth)
def any_of(ct: CiphertextT) -> CiphertextT:
    """1 where a number is 1, 0 where all are 0, in every slot: 1 - all(1 - x). Levels: as `all`."""
    check_ciphertext(ct, "any")
    return 1 - _product(1 - ct, "any")


def over_all_slots(
    ct: CiphertextT,
    summed: Callable[[CiphertextT, int, int], CiphertextT] = rotations_summed,
    zeros: Callable[[], Noise | None] | None = None,
) -> CiphertextT:
    """The sum over all slots of all blocks, zeros beyond the length, in every slot.

    It has the error of each number once. Zeros add their own error, which is mostly smaller.
    `zeros` finds it; without that, it is what `ct` has pending. `summed` is as `rotations_summed`.
    """
    whole, noise, length = reduce(operator.add, blocks_of(ct)), None, known_length(ct) or 1
    if ct.layout.blocks == 1 and are_few(length, ct.slots):
        noise = zeros() if zeros is not None else noise_beyond(ct, length)
    if noise is None:
        result = summed(whole, ct.slots, 1)
    else:
        result = summed(with_fields(whole, noise=noise, pending=None), ct.slots, 1)
        result = with_noise(result, lambda noise: noises.plus_slots(noise, ct.noise, length))
    return relabelled(_kept(result, ct, length), None)


def are_few(count: int, slots: int) -> bool:
    """Whether the error of a sum over slots is less if all but `count` are known to be zero."""
    return _FEW * max(count, PLACES) <= slots  # of more the other bound may be much less


def _kept(result: CiphertextT, ct: CiphertextT, times: int) -> CiphertextT:
    """`result`, nowhere larger than `times` the largest of `ct`."""
    return within_that_of(result, noises.of_largest(ct.noise, ct.layout.blocks), times)


def _doublings(first: int, end: int) -> list[int]:
    return [first << i for i in range((end // first - 1).bit_length())]


def _length_of(w: Any) -> int | None:
    if isinstance(w, CiphertextData | Plaintext):
        return known_length(w)
    return len(w) if rank_of(w) == 1 else None
