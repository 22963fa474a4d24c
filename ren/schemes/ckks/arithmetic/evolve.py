"""Ciphertexts with other fields than an operand: polynomials, noise, layout, level.

Every ciphertext holds its normal form: two components, degree 1, at the canonical scale of its
level. So a scale is the level's exact rational and is never multiplied along.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Any

import attrs
import numpy as np

from ren.core.errors import DepthError, ScaleError
from ren.core.ring import RingSpec
from ren.poly.batching import repeated
from ren.schemes.ckks.arithmetic.lazy_product import Operand, Polys
from ren.schemes.ckks.arithmetic.operation_hooks import (
    Lacking,
    has_cleared,
    in_circuit,
    operation,
    settings,
    with_levels,
)
from ren.schemes.ckks.encoding.ciphertext_data import (
    CiphertextData,
    CiphertextT,
    NumberType,
    Origin,
    known_length,
    with_fields,
)
from ren.schemes.ckks.encoding.layout import LEFTOVERS, Layout, Tail
from ren.schemes.ckks.encoding.plaintext import Plaintext
from ren.schemes.ckks.noise import bounds as noises
from ren.schemes.ckks.noise import sigmas
from ren.schemes.ckks.noise.readable import Noise
from ren.schemes.ckks.noise.spans import Span
from ren.schemes.ckks.parameters.bootstrapping.chain import chain_of
from ren.schemes.ckks.parameters.bootstrapping.precision import spread_of_leftovers
from ren.schemes.ckks.parameters.parameters import Parameters

_CLEARS = "A level of them clears the slots beyond the length, which may hold leftovers. "
_CLEARED = "A level before has cleared the slots beyond the length, which may hold leftovers. "


def evolve(
    x: CiphertextT,
    polys: Polys,
    noise: Noise,
    level: int | None = None,
    layout: Layout | None = None,
    span: Span | None = None,
    dtype: NumberType | None = None,
) -> CiphertextT:
    """`x` with other polynomials, noise, span and type, the seed and what is pending gone."""
    batches = {p.shape[:-2] for p in polys}
    if len(batches) > 1:  # a sum with a batch of plaintexts gives its axes to one polynomial alone
        batch = np.broadcast_shapes(*batches)
        polys = tuple(repeated(p.ntt(), batch) for p in polys)
    return with_fields(
        x,
        polys=polys,
        level=x.level if level is None else level,
        layout=x.layout if layout is None else layout.on(x.slots),
        noise=noise,
        seed=None,
        pending=None,
        origin=None,
        later=None,
        span=span,
        stated_dtype=dtype,
    )


# ------------------------------------------------------------------- noise


@operation("within()", lambda x, *_: x, is_checked=False)
def with_noise(
    x: CiphertextT, function: Callable[[Noise], Noise], origin: Origin | None = None
) -> CiphertextT:
    """`x` with function(noise), also where it is pending: what else is known of it.

    Its origin is gone, unless one is given: there the error is another one.
    """
    pending = None if x.pending is None else x.pending.map_noise(function)
    return with_fields(x, noise=function(x.noise), pending=pending, origin=origin)


def with_error(x: CiphertextT, error: float) -> CiphertextT:
    """`x`, every number of which is off by at most `error` more: that of an approximation."""
    return with_noise(x, lambda noise: noises.with_offset(noise, error))


def within_that_of(x: CiphertextT, other: Noise, times: Any = 1) -> CiphertextT:
    """`x`, whose message is known to be nowhere larger than `times` the largest of another."""
    return with_noise(x, lambda noise: noises.within_that_of(noise, other, times), x.origin)


def kept_to(x: CiphertextT, other: CiphertextT, times: int = 1) -> CiphertextT:
    """`x`, whose message is known to be nowhere larger than `times` the largest of `other`."""
    return within_that_of(x, noises.scaled(other.noise, times))


def within(x: CiphertextT, bound: float) -> CiphertextT:
    """`x`, whose numbers are stated to keep to `bound`.

    Leftovers keep to the bound that was tracked. A bootstrap takes a little of them to all slots.
    That is counted here, where it is known how large they are.
    """
    tail = x.layout.tail
    if in_circuit() or x.layout.length is None or not tail.has_leftovers:
        return with_noise(x, lambda noise: noises.within(noise, bound), x.origin)
    spread = 0.0 if x.params.above is None else spread_of_leftovers(x.params)

    def stated(noise: Noise) -> Noise:
        return noises.within(noises.with_relative(noise, spread) if spread else noise, bound)

    return with_tail(with_noise(x, stated), attrs.evolve(tail, is_bounded=False))


def in_span(x: CiphertextT, span: Span | None) -> CiphertextT:
    """`x`, whose numbers lie in `span`: inside of an operation."""
    return x if span == x.span else with_fields(x, span=span)


with_span = operation("within()", lambda x, span: x, is_checked=False)(in_span)


# ------------------------------------------------------------------- layout


def fills_slots(x: CiphertextData) -> bool:
    """Whether no slot lies beyond the length. Inside a capture the plan depends on the length."""
    return known_length(x) in (None, x.slots * x.layout.blocks)


@operation("a change of shape", lambda x, tail: x, is_checked=False)
def with_tail(x: CiphertextT, tail: Tail) -> CiphertextT:
    """`x` with this known of the slots beyond its length."""
    layout = x.layout.with_tail(tail)
    return x if layout is x.layout else with_fields(x, layout=layout)


@operation("a change of shape", lambda x, *_: x)
def evolve_layout(x: CiphertextT, **changes: Any) -> CiphertextT:
    """The same slots with other fields of their layout; what is pending stays so."""
    fields = {
        "layout": attrs.evolve(x.layout, **changes),
        "span": None if "length" in changes else x.span,
        "stated_dtype": None if "is_complex" in changes else x.stated_dtype,
    }
    return with_fields(x, **fields)


@operation("a change of length", lambda x, *_: x)
def relabelled(
    x: CiphertextT, length: int | None, tail: Tail = LEFTOVERS, is_complex: bool | None = None
) -> CiphertextT:
    """The same slots, of which `length` are in use; `tail` is what stands in the others."""
    dtype = x.stated_dtype if is_complex is None else None
    is_complex = x.layout.is_complex if is_complex is None else is_complex
    layout = Layout(length, is_complex, tail=tail)
    return with_fields(x, layout=layout, span=None, stated_dtype=dtype)


# ------------------------------------------------------------------- levels


def need_level(x: Any, needed: int, what: str, has_parts: bool = False, clearing: int = 0) -> None:
    """Raises DepthError when `x` is below the level that `what` takes.

    Where ciphertexts are bootstrapped automatically, the levels below the floor do not count. What
    `has_parts` that need levels each may then take more than one bootstrap gives.

    Args:
        x: a ciphertext, or a plaintext.
        needed: levels that `what` takes.
        what: the operation, for the error.
        has_parts: whether bootstraps may stand between its parts.
        clearing: levels that clearing leftovers takes besides.
    """
    without, needed = needed, needed + clearing
    floor = automatic_floor(x.params) if needed else 0
    if x.level < needed + floor:
        fits = fits_after_bootstrap(x.params, without)
        if floor and has_parts and not fits:
            return
        why = _CLEARS if clearing else _CLEARED * has_cleared()
        levels = f"{what} takes {needed} level{'s' * (needed > 1)}, and the ciphertext is at level "
        least = x.params.depth + needed - x.level  # with which this operation ends at level 0
        if floor:
            raise DepthError(
                f"{levels}{x.level} of {x.params.depth}; bootstraps begin at level {floor}.",
                f"{why}It would end below that level, and its operands cannot be bootstrapped.",
                "Make the context with more depth between bootstraps"
                + (
                    ", or bootstrap before: x.bootstrap()."
                    if fits
                    else f", depth={needed} or more: this takes more levels than one bootstrap "
                    "gives. Operations in a row are bootstrapped in between."
                ),
                Lacking(without, floor, bool(why)),
            )
        reason = "Each product, other than by an integer, divides one level away."
        if needed <= x.params.depth and getattr(x, "seed", None) is not None:
            reason = "It was encrypted at that level."
            do = f"Encrypt it at a level of {needed} or more: leave level= out for the highest."
        elif x.params.above is not None and fits:
            do = (
                f"Bootstrap before, at level {x.params.above.floor} or more: x = x.bootstrap(). "
                'ckks.context(bootstrapping="auto") does it where levels run out.'
            )
        else:
            do = (
                f"Make the context with more depth, ckks.context(depth={least}) or more, or use "
                "fewer multiplications in a row. ckks.plan(f, ...).depth has that of a whole "
                "function f."
            )
        raise DepthError(f"{levels}{x.level} of {x.params.depth}.", f"{why}{reason}", do)


def fits_after_bootstrap(params: Parameters, needed: int) -> bool:
    """True where so many levels fit between two bootstraps, or without any below one.

    With few slots, or two runs, a bootstrap ends below the top.
    """
    highest = params.depth if params.above is None else chain_of(params).result
    return needed + automatic_floor(params) <= highest


def automatic_floor(params: Parameters) -> int:
    """The floor of ciphertexts that are bootstrapped automatically; 0 for others.

    In manual mode none are, and the levels below it are the user's.
    """
    above = params.above
    return above.floor if above and above.is_automatic and not settings().manual else 0


@with_levels
def with_room(x: CiphertextT, needed: int, what: str, spare: int = 0) -> CiphertextT:
    """`x`, bootstrapped where that is automatic and it lacks levels; or DepthError.

    It lacks `spare` levels more, where one bootstrap gives so many.
    """
    need_level(x, needed + spare * fits_after_bootstrap(x.params, needed + spare), what)
    return x


def need_normal_form(x: CiphertextData) -> None:
    """Raises ScaleError for what only `ckks.manual()` makes; operators normalize it themselves."""
    if not x.is_normal:
        raise ScaleError(
            f"A ciphertext of {len(x.polys)} components at scale 2^{sigmas.log2_of(x.scale):.1f}, "
            "from manual mode, was given.",
            "This operation takes two components at the scale of the level.",
            "Call .rescale() outside of ckks.manual(), which brings it to normal form.",
        )


@operation("rescale()", lambda x: x)
def settle(x: CiphertextT) -> CiphertextT:
    """`x` relinearized and rescaled, if it is not."""
    if x.pending is None:
        return x
    return evolve(x, x.polys, x.noise, span=x.span, dtype=x.stated_dtype)


@lru_cache(maxsize=1 << 10)
def is_view(params: Parameters, level: int, target: int) -> bool:
    """Whether a drop from one level to another leaves out limbs and makes none."""
    return set(params.ring(target).moduli) <= set(params.ring(level).moduli)


@lru_cache(maxsize=1 << 10)
def drop_source(params: Parameters, level: int, target: int, bits: int) -> RingSpec:
    """The part of the ring of a level that a rescale onto the ring of a lower one begins with.

    Limbs are left out while an integer of at least `bits` bits takes one scale to the other. So a
    drop by several levels transforms few limbs. The modulus stays above that of the target.
    """
    source, ring = params.ring(level).moduli, params.ring(target).moduli
    made = math.prod(set(ring) - set(source))
    mains = [m for m in source if m in params.mains and m not in ring]
    terminals = [m for m in reversed(source) if m not in params.mains and m not in ring]
    kept, divided = set(ring), 1
    for m in (*mains, *terminals):
        if divided >= made << bits:
            break
        kept.add(m)
        divided *= m
    return params.ring(level).with_moduli(tuple(m for m in source if m in kept))


def drop_factor(params: Parameters, source: RingSpec, scale: Fraction, target: int) -> int:
    """round(s_j Q / (s Q_j)): what takes a scale s to s_j once Q / Q_j is divided away."""
    ratio = Fraction(source.q, params.ring(target).q)
    return round(params.scale(target) * ratio / scale)


def dropped(x: Operand, polys: Polys, target: int) -> tuple[Polys, Noise]:
    """Polynomials of `x` at the scale and ring of a level at or below its own, and their noise.

    The factor is about 2^scale_bits or more, so rounding it costs a relative 2^-(scale_bits + 1).
    """
    if x.level == target:
        return polys, x.noise
    params, ring = x.params, x.params.ring(target)
    source = drop_source(params, x.level, target, params.scale_bits - 1)
    factor = drop_factor(params, source, params.scale(x.level), target)
    noise = noises.with_relative(x.noise, 0.5 / factor)  # the factor is rounded; so is what follows
    if isinstance(x, Plaintext):
        noise = noises.with_rounding(noise, sigmas.plain_rescale_sigma(params, target))
    else:
        noise = noises.with_source(noise, sigmas.rescale_sigma(params, target))
    return tuple((p.to_ring(source) * factor).rescale(ring) for p in polys), noise


@operation("drop_to()", lambda x, target: x)
def drop_to(x: CiphertextT, target: int) -> CiphertextT:
    """The same message at a lower level, at that level's canonical scale; else DepthError."""
    if not 0 <= target <= x.level:
        raise DepthError(
            f"drop_to({target}) was asked of a ciphertext at level {x.level}.",
            f"The target lies between 0 and {x.level}: levels only go down.",
            f"Pass a level up to {x.level}, or encrypt with a bigger depth.",
        )
    need_normal_form(x)
    if target == x.level:
        return x
    polys, noise = dropped(x, x.polys, target)
    return evolve(x, polys, noise, target, span=x.span, dtype=x.stated_dtype)
