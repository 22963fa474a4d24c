"""Rotations and conjugation, and the slots beyond the length that they would show.

A rotation is a key switch, then the automorphism. The key of the galois element g encrypts s under
sigma_g^-1(s), so that the permutation comes after the product with the key. So every rotation of
one ciphertext shares its ModUp, being the same node.

Slots beyond the length behave as zeros in every operation. `Layout.tail` tracks statically what
stands there. A sum with a number leaves that number there; it is subtracted where it would become
visible, at no level. A slice or a rotation leaves numbers of the vector there. Where these would
become visible, one product with a mask clears them.

Reference: Halevi and Shoup, "Faster homomorphic linear transformations in HElib", 2018 (hoisting).
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ren.core.errors import ParameterError, ScaleError
from ren.poly.key_ids import call_name, called
from ren.poly.symbolic import Symbolic, SymbolicLength
from ren.schemes.ckks.arithmetic.argument_checks import as_integer
from ren.schemes.ckks.arithmetic.automatic import add, add_plain, masked, multiply_plain
from ren.schemes.ckks.arithmetic.evolve import (
    evolve,
    fills_slots,
    kept_to,
    need_level,
    with_noise,
    with_span,
    with_tail,
    within_that_of,
)
from ren.schemes.ckks.arithmetic.manual import is_manual, normal, two_components
from ren.schemes.ckks.arithmetic.number_types import with_type
from ren.schemes.ckks.arithmetic.operation_hooks import in_circuit, operation, with_levels
from ren.schemes.ckks.encoding.ciphertext_data import (
    CiphertextData,
    CiphertextT,
    known_length,
    with_fields,
)
from ren.schemes.ckks.encoding.layout import ZEROS, Tail
from ren.schemes.ckks.encoding.plaintext import encode
from ren.schemes.ckks.noise import bounds as noises
from ren.schemes.ckks.noise import sigmas, spans
from ren.schemes.ckks.noise.spans import Span
from ren.schemes.rlwe.active_context import context_for, kept_context
from ren.schemes.rlwe.keys import SwitchingKey
from ren.schemes.rlwe.keyswitch import conjugation_element, gadget_of, galois_element, key_switch


def automorphism(x: CiphertextT, galois: int, what: str, tail: Tail, steps: int = 0) -> CiphertextT:
    """sigma_g(x): (sigma_g(c0 + k0), sigma_g(k1)) with (k0, k1) the switch of c1 by the g key.

    `steps` is by how many slots it rotates, for the noise; `tail` is that of the result.
    """
    what = call_name(what)
    if x.layout.blocks > 1 and galois != conjugation_element(x.n):
        raise across_blocks(x, what)
    x = two_components(x, what) if is_manual() else normal(x)
    key = context_for(x.key_id, what).galois_key(galois, what, x.polys[1].ring)
    k0, k1 = key_switch(x.polys[1], key, gadget_of(x.params))
    polys = ((x.polys[0] + k0).automorphism(galois), k1.automorphism(galois))
    moved = noises.rotated(x.noise, steps, x.slots)
    sigma = sigmas.switch_sigma(x.params, x.level, sigmas.as_float(x.scale))
    noise, layout = noises.with_source(moved, sigma), x.layout.with_tail(tail)
    span = _moved(x) if steps else x.span
    return evolve(x, polys, noise, layout=layout, span=span, dtype=x.stated_dtype)


def _moved(x: CiphertextData) -> Span | None:
    """The span of rotated numbers: what stood beyond the length may be among them."""
    length = x.layout.length
    if x.span is None or length is None or length == x.slots * x.layout.blocks:
        return x.span
    return spans.hull(x.span, Span(0.0, 0.0)) if x.layout.tail.is_zero else None


def rotate(x: CiphertextT, steps: int) -> CiphertextT:
    """result[i] = x[i + steps], cyclic over the slots; steps of any sign and size.

    Slots beyond the length are zeros. Where leftovers there would become visible, a product that
    takes a level clears them. A number in the clear is subtracted. Circuits, and manual mode, clear
    by themselves.

    Raises:
        DepthError: no level is left to clear leftovers.
        ScaleError: leftovers would become visible in manual mode.
    """
    requested = as_integer(steps, "rotate()")
    steps = (requested + x.slots // 2) % x.slots - x.slots // 2  # the fewest
    if steps == 0:
        return x
    if in_circuit():
        return cyclic(x, steps)
    with called(f"rotate({requested})"):
        x = x if is_manual() else normal(x)
        tail = x.layout.tail
        if not tail.is_zero and (tail.has_value or _shows_leftovers(x, steps)):
            x = cleared(x, call_name(f"rotate({steps})"))
        return cyclic(x, steps)


@operation("a rotation", lambda x, steps: np.roll(x, -steps, -1))
def cyclic(x: CiphertextT, steps: int) -> CiphertextT:
    """result[i] = x[i + steps], cyclic over the slots, whatever stands beyond the length."""
    steps %= x.slots
    if steps == 0:
        return x
    half, tail = x.slots // 2, x.layout.tail
    if isinstance(x.layout.length, SymbolicLength) or not fills_slots(x):
        tail = tail.moved((steps + half) % x.slots - half)
    return automorphism(x, galois_element(steps, x.n), f"rotate({steps})", tail, steps)


@operation("a conjugation", np.conj)
def conjugate(x: CiphertextT) -> CiphertextT:
    """The complex conjugate of every slot."""
    tail = x.layout.tail
    value = tail.value.map(np.conj) if isinstance(tail.value, Symbolic) else np.conj(tail.value)
    return automorphism(x, conjugation_element(x.n), "conj()", tail.mapped(value))


def rotations_summed(ct: CiphertextT, count: int, step: int) -> CiphertextT:
    """x[i] + x[i + step] + ... of `count` terms, `count * step` being within the slots."""
    result, terms, switches = ct, 1, 0
    for bit in bin(count)[3:]:
        result, terms = add(result, cyclic(result, terms * step)), 2 * terms
        switches = 2 * switches + 1  # as often each key switch stands in the sum
        if bit == "1":
            result, terms, switches = add(ct, cyclic(result, step)), terms + 1, switches + 1
    return summed_from(ct, result, count, step, switches)


def summed_from(
    x: CiphertextT, result: CiphertextT, count: int, step: int, switches: int
) -> CiphertextT:
    """`result`, a sum of rotations of `x`, with its noise: `switches` key switches stand in it."""
    if result is x:
        return x
    added = switches * sigmas.switch_sigma(result.params, result.level) ** 2
    rule = partial(noises.of_rotations, count=count, step=step, slots=x.slots, added=added)
    return with_noise(result, lambda noise: rule(x.noise, noise))


def spliced(x: CiphertextT, mask: NDArray[np.bool], a: CiphertextT, b: CiphertextT) -> CiphertextT:
    """`a` where the mask [length] holds, else `b`, both rotations of `x`: one level."""
    ahead, behind = (encode(m, x.params, x.level) for m in (mask, ~mask))
    joined = kept_to(add(multiply_plain(a, ahead), multiply_plain(b, behind)), x)
    return with_type(with_span(joined, x.span), x.stated_dtype)


@operation("switch_key()", lambda x, key, key_id: x)
def switched(x: CiphertextT, key: SwitchingKey, key_id: str) -> CiphertextT:
    """The message of `x` under the secret that `key` leads to: one key switch."""
    x = normal(x)
    k0, k1 = key_switch(x.polys[1], key, gadget_of(x.params))
    noise = noises.with_source(x.noise, sigmas.switch_sigma(x.params, x.level))
    result = evolve(x, (x.polys[0] + k0, k1), noise, span=x.span, dtype=x.stated_dtype)
    kept = kept_context(key_id)
    return with_fields(result, key_id=key_id, keeps=kept)


def across_blocks(x: CiphertextData, what: str) -> ParameterError:
    return ParameterError(
        f"{what} was asked of a vector that is cut into {x.layout.blocks} blocks of {x.slots}.",
        "It moves slots within one ciphertext, never from block to block.",
        "Outside of ckks.manual() write x.rotate(k), which goes across blocks. Or choose more "
        "slots, by n= or slots=.",
    )


# ------------------------------------------------------------------- slots beyond the length


def _shows_leftovers(x: CiphertextData, steps: int) -> bool:
    """Whether a rotation by `steps`, of at most half the slots, moves leftovers to numbers."""
    length, tail = known_length(x) or 0, x.layout.tail
    first, last = length + tail.after, x.slots - tail.before  # zeros stand from first to last
    if last <= length or first >= x.slots:
        return True
    if steps > 0:  # reads the slots from `length` to `length + steps`
        return tail.after > 0 or length + steps > last
    return tail.before > 0 or x.slots + steps < first


def has_to_be_cleared(x: CiphertextData) -> bool:
    """True where leftovers beyond the length are cleared before a sum: one level."""
    return x.layout.tail.has_leftovers and not fills_slots(x)


@with_levels
def cleared(x: CiphertextT, what: str) -> CiphertextT:
    """`x` with zeros beyond its length: by a sum where a number stands there, else by a product.

    Raises DepthError where no level is left for it, ScaleError in manual mode: nothing is inserted.
    """
    if x.layout.tail.is_zero or fills_slots(x):
        return x
    if is_manual():
        raise ScaleError(
            f"In manual mode {what} would show what stands beyond the length.",
            "Slots there behave as zeros; clearing them is a sum, or a product and a rescale.",
            "Write .mask() outside of ckks.manual() before, or encrypt as many numbers as slots.",
        )
    if not x.layout.tail.has_leftovers:
        return with_value(x, 0)
    need_level(x, 0, what, clearing=1)
    return masked(x)


def with_value(x: CiphertextT, value: float) -> CiphertextT:
    """`x` with `value` beyond its length in place of another number: a sum with a plaintext."""
    tail, is_symbol = x.layout.tail, isinstance(x.layout.tail.value, Symbolic)
    if fills_slots(x) or (not is_symbol and tail.value == value):
        return x
    length, slots = known_length(x) or 0, x.slots * x.layout.blocks

    def difference(there: Any) -> NDArray:
        return np.where(np.arange(slots) < length, 0, value - there)

    values = tail.value.map(difference) if is_symbol else difference(tail.value)
    p = encode(values, x.params, x.level, x.layout.blocks)
    p = with_fields(p, layout=x.layout.with_tail(ZEROS))
    result = within_that_of(add_plain(x, p), noises.reaching(x.noise, abs(value)))
    result = with_fields(result, span=x.span, stated_dtype=x.stated_dtype)
    return with_tail(result, Tail(tail.before, tail.after, value, tail.is_bounded))
