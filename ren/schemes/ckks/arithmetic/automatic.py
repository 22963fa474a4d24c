"""Automatic mode: levels are aligned, products relinearized and rescaled, late.

Every ciphertext holds its normal form: two components, degree 1, at the canonical scale of its
level. So a scale is the level's exact rational and is never multiplied along. A product is tensor,
key switch, rescale, all of it lazy in the graph. Sums start from the terms before the key switch
(see `lazy_product`). So a sum of products is relinearized and rescaled once.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Any

import attrs
import numpy as np

from ren.core.errors import DepthError, ParameterError, ScaleError
from ren.poly import Poly
from ren.poly.batching import repeated
from ren.poly.capturing import capture_serial
from ren.poly.symbolic import as_symbol
from ren.schemes.ckks.arithmetic.lazy_product import LazySum, lazy_sum_of, pending_of
from ren.schemes.ckks.arithmetic.operation_hooks import circuit, in_circuit, operation, told_if_zero
from ren.schemes.ckks.arithmetic.primitives import Polys, Primitives
from ren.schemes.ckks.encoding.ciphertext_data import CiphertextData, CiphertextT
from ren.schemes.ckks.encoding.layout import Layout, Tail
from ren.schemes.ckks.encoding.plaintext import Plaintext, encode
from ren.schemes.ckks.noise import bounds as noises
from ren.schemes.ckks.noise import sigmas
from ren.schemes.ckks.noise.bounds import Noise
from ren.schemes.ckks.noise.sigmas import log2_of
from ren.schemes.ckks.parameters.parameters import Parameters
from ren.schemes.rlwe.active_context import context_for, same_key


def evolve(
    x: CiphertextT,
    polys: tuple[Poly, ...],
    noise: Noise,
    level: int | None = None,
    layout: Layout | None = None,
) -> CiphertextT:
    """`x` with other polynomials, the seed and what is pending gone; what is not given stays."""
    return dataclasses.replace(
        x,
        polys=with_one_batch(polys),
        level=x.level if level is None else level,
        layout=x.layout if layout is None else layout.on(x.slots),
        noise=noise,
        seed=None,
        pending=None,
    )


def with_one_batch(polys: tuple[Poly, ...]) -> tuple[Poly, ...]:
    """The polynomials with all batch axes: a sum with a batch of plaintexts gives them to one."""
    batches = {p.shape[:-2] for p in polys}
    if len(batches) == 1:
        return polys
    batch = np.broadcast_shapes(*batches)
    return tuple(repeated(p.ntt(), batch) for p in polys)


@operation("within()", lambda x, function: x, is_checked=False)
def with_noise(x: CiphertextT, function: Callable[[Noise], Noise]) -> CiphertextT:
    """`x` with function(noise), also where it is pending: what else is known of it."""
    pending = None if x.pending is None else x.pending.map_noise(function)
    return dataclasses.replace(x, noise=function(x.noise), pending=pending)


def kept_to(x: CiphertextT, other: CiphertextT, times: int = 1) -> CiphertextT:
    """`x`, whose message is known to be nowhere larger than `times` the largest of `other`."""
    most = noises.scaled(other.noise, times)
    return with_noise(x, lambda noise: noises.within_that_of(noise, most))


def within(x: CiphertextT, bound: float) -> CiphertextT:
    """`x`, whose numbers are stated to keep to `bound`."""
    result = with_noise(x, lambda noise: noises.within(noise, bound))
    tail = x.layout.tail
    if in_circuit() or x.layout.length is None or not tail.has_leftovers:
        return result
    return with_tail(result, attrs.evolve(tail, is_bounded=False))


@operation("a change of shape", lambda x, tail: x, is_checked=False)
def with_tail(x: CiphertextT, tail: Tail) -> CiphertextT:
    """`x` with this known of the slots beyond its length."""
    layout = x.layout.with_tail(tail)
    return x if layout is x.layout else dataclasses.replace(x, layout=layout)


def _has_run(p: Poly) -> bool:
    return p.is_realized or p.node.serial < capture_serial()


def _need_normal_form(x: CiphertextData) -> None:
    """Raises ScaleError for what only `ckks.manual()` makes; operators normalize it themselves."""
    if x.own_scale is not None or len(x.polys) != 2:
        raise ScaleError(
            f"A ciphertext of {len(x.polys)} components at scale 2^{log2_of(x.scale):.1f}, from "
            "manual mode, was given.",
            "This operation takes two components at the scale of the level.",
            "Call .rescale() outside of ckks.manual(), which brings it to normal form.",
        )


@operation("rescale()", lambda x: x)
def settle(x: CiphertextT) -> CiphertextT:
    """`x` relinearized and rescaled, if it is not."""
    return x if x.pending is None else evolve(x, x.polys, x.noise)


# ------------------------------------------------------------------- levels


@lru_cache(maxsize=1 << 10)
def drop_factor(params: Parameters, level: int, target: int) -> int:
    """round(s_j Q_i / (s_i Q_j)): what takes scale s_i to s_j once Q_i / Q_j is divided away.

    It is about 2^scale_bits a level dropped, so rounding it costs a relative 2^-(scale_bits + 1).
    """
    ratio = Fraction(params.ring(level).q, params.ring(target).q)
    return round(params.scale(target) * ratio / params.scale(level))


def drop_polys(polys: tuple[Poly, ...], params: Parameters, level: int, target: int) -> tuple:
    """Polynomials at the scale of `level`, at the scale and ring of `target` <= `level`."""
    if level == target:
        return polys
    factor, ring = drop_factor(params, level, target), params.ring(target)
    return tuple((p * factor).rescale(ring) for p in polys)


def dropped_noise(noise: Noise, params: Parameters, level: int, target: int) -> Noise:
    """Noise after `drop_polys`: with the rounding of its factor and of its rescale."""
    if level == target:
        return noise
    relative = 0.5 / drop_factor(params, level, target)
    sigma = sigmas.rescale_sigma(params, target)
    return noises.with_source(noises.with_relative(noise, relative), sigma)


def dropped_plain_noise(noise: Noise, params: Parameters, level: int, target: int) -> Noise:
    """Noise of a plaintext after `drop_polys`."""
    if level == target:
        return noise
    relative = 0.5 / drop_factor(params, level, target)
    sigma = sigmas.plain_rescale_sigma(params, target)
    return noises.with_rounding(noises.with_relative(noise, relative), sigma)


@operation("drop_to()", lambda x, target: x)
def drop_to(x: CiphertextT, target: int) -> CiphertextT:
    """The same message at a lower level, at that level's canonical scale.

    Raises:
        DepthError: when `target` is above the level of `x`, or below 0.
    """
    if not 0 <= target <= x.level:
        raise DepthError(
            f"drop_to({target}) was asked of a ciphertext at level {x.level}.",
            f"The target lies between 0 and {x.level}: levels only go down.",
            f"Pass a level up to {x.level}, or encrypt with a bigger depth.",
        )
    _need_normal_form(x)
    if target == x.level:
        return x
    polys = drop_polys(x.polys, x.params, x.level, target)
    noise = dropped_noise(x.noise, x.params, x.level, target)
    return evolve(x, (polys[0], polys[1]), noise, target)


def need_level(x: Any, needed: int, what: str) -> None:
    """Raises DepthError when `x` is below level `needed`, which `what` takes."""
    if x.level < needed:
        raise DepthError(
            f"{what} takes {needed} level{'s' * (needed > 1)}, and the ciphertext is at level "
            f"{x.level} of {x.params.depth}.",
            "Each product, other than by an integer, divides one level away.",
            f"Make the context with more depth, ckks.context(depth={x.params.depth + needed}) or "
            "more, or use fewer multiplications in a row.",
        )


# ------------------------------------------------------------------- operations


class Automatic(Primitives):
    """Operations that align levels; products are one level down, relinearized and rescaled late."""

    def addend(self, x: CiphertextData | Plaintext) -> LazySum:
        """The pending form of `x` until the normal form has run.

        What a function under `ren.jit` closes over runs once, at the capture, and counts as run.
        """
        if isinstance(x, Plaintext):
            return LazySum(base=(x.poly,), noise=x.noise)
        _need_normal_form(x)
        settled = LazySum(base=x.polys, noise=x.noise)
        if x.pending is None or any(_has_run(p) for p in x.polys):
            return settled
        return lazy_sum_of(x.pending) or settled

    def addends(
        self, x: CiphertextData, y: CiphertextData | Plaintext
    ) -> tuple[LazySum, LazySum, int]:
        """Both at the lower level; pending where one of them is pending there."""
        level = min(x.level, y.level)
        there = [self.addend(o) if o.level == level else None for o in (x, y)]
        is_pending = any(terms.product for terms in there if terms is not None)
        left, right = (
            _lowered(o, level, is_pending) if terms is None else terms
            for o, terms in zip((x, y), there, strict=True)
        )
        return left, right, level

    def factors(self, x: CiphertextT, y: CiphertextT) -> tuple[CiphertextT, CiphertextT]:
        """Both at the lower level, with zeros in place of leftovers that no bound covers."""
        x, y = bounded(x), bounded(y)
        same_key(x.key_id, y.key_id, "A product")
        level = min(x.level, y.level)
        x, y = drop_to(x, level), drop_to(y, level)
        need_level(x, 1, "A product of ciphertexts")
        return x, y

    def plain_factor(self, x: CiphertextT, p: Plaintext) -> tuple[CiphertextT, Poly, Noise]:
        """Both at the lower level."""
        level = min(x.level, p.level)
        (poly,) = drop_polys((p.factor,), p.params, p.level, level)
        noise = dropped_plain_noise(p.noise, p.params, p.level, level)
        x = drop_to(x, level)
        need_level(x, 1, "A product with a plaintext")
        return x, poly, noise

    def check_factor_of_number(self, x: CiphertextData) -> None:
        """Raise where `x` is not in normal form, or at level 0."""
        _need_normal_form(x)
        need_level(x, 1, "A product with a number that is not an integer")

    def summed(self, x: CiphertextT, terms: LazySum, level: int, layout: Layout) -> CiphertextT:
        """`x` with the value of `terms`: in normal form, and with what sums can go on from."""
        polys, noise = terms.settled(x.params, level), terms.settled_noise(x.params, level)
        return dataclasses.replace(
            evolve(x, polys, noise, level, layout), pending=pending_of(terms)
        )

    def multiplied(
        self,
        x: CiphertextT,
        polys: Polys,
        noise: Noise,
        layout: Layout,
        factor: CiphertextData | Plaintext | None = None,
    ) -> CiphertextT:
        """One level below `x`, where the scale is that of the level again."""
        key = None
        if len(polys) > 2:
            key = context_for(x.key_id, "A product of ciphertexts").relinearization_key()
        return self.summed(x, LazySum(polys, key=key, noise=noise), x.level - 1, layout)


AUTOMATIC = Automatic()
add, subtract, negate = AUTOMATIC.add, AUTOMATIC.subtract, AUTOMATIC.negate
add_plain, multiply_plain = AUTOMATIC.add_plain, AUTOMATIC.multiply_plain
multiply, multiply_scalar = AUTOMATIC.multiply, AUTOMATIC.multiply_scalar


def _lowered(x: CiphertextData | Plaintext, level: int, is_pending: bool) -> LazySum:
    """`x` from above `level` taken down to it, to be added to what is pending there or not.

    It meets what is pending one level above, at degree 2. It is raised by round(s_(level+1)), with
    a relative error of 2^-(scale_bits + 1), as in going down, but without a rescale's transforms.
    """
    polys = (x.poly,) if isinstance(x, Plaintext) else x.polys
    target = level + 1 if is_pending else level
    polys = drop_polys(polys, x.params, x.level, target)
    dropped = dropped_plain_noise if isinstance(x, Plaintext) else dropped_noise
    noise = dropped(x.noise, x.params, x.level, target)
    if not is_pending:
        return LazySum(base=polys, noise=noise)
    factor = round(x.params.scale(level + 1))
    noise = noises.with_relative(noise, 0.5 / factor)
    return LazySum(product=tuple(p * factor for p in polys), noise=noise)


def warning_of_zeros(p: Plaintext, values: Any) -> Plaintext:
    """A factor made of these values, with a warning at each call where a symbol stands for zeros.

    It is for one product: the warning goes along with the noise.
    """
    symbol = as_symbol(values)
    if symbol is None:
        return p
    noise = told_if_zero(p.noise, symbol, float(p.scale), "a product with an array")
    return dataclasses.replace(p, noise=noise)


def power(x: CiphertextT, exponent: int) -> CiphertextT:
    """x^exponent in ceil(log2(exponent)) levels, each power that is needed made once.

    Raises:
        ParameterError: for a negative exponent.
        DepthError: when there are too few levels.
    """
    if exponent < 0:
        raise ParameterError(
            f"A ciphertext was raised to the power {exponent}.",
            "Exponents are integers from 0 on: encrypted division needs an approximation.",
            "Use a polynomial that approximates the inverse on your interval.",
        )
    if exponent == 0:
        return _ones(x)
    need_level(x, (exponent - 1).bit_length(), f"The power {exponent}")
    return _powers(x, exponent, {1: x})


@circuit("the power 0")
def _ones(x: CiphertextT) -> CiphertextT:
    return AUTOMATIC.add_scalar(AUTOMATIC.multiply_integer(x, 0), 1)


def _powers(x: CiphertextT, exponent: int, known: dict[int, CiphertextT]) -> CiphertextT:
    if exponent not in known:
        half = 1 << ((exponent - 1).bit_length() - 1)  # halves of depth one less, largest first
        low, high = _powers(x, exponent - half, known), _powers(x, half, known)
        known[exponent] = multiply(low, high)
    return known[exponent]


def bounded(x: CiphertextT) -> CiphertextT:
    """`x` with zeros in place of leftovers that its tracked bound does not cover: a product grows.

    One level where there are such; `within()` after a slice leaves them.
    """
    if x.layout.tail.is_bounded or x.layout.length is None:
        return x
    is_full = operator.index(x.layout.length) == x.slots * x.layout.blocks
    return x if is_full else masked(x)


def masked(x: CiphertextT) -> CiphertextT:
    """The product with ones, and zeros beyond the length: one level."""
    ones = np.ones(operator.index(x.layout.length or 0))
    return multiply_plain(x, encode(ones, x.params, x.level, x.layout.blocks))
