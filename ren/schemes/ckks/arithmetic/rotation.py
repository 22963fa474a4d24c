"""Rotations and conjugation: a key switch, then the automorphism.

The key of the galois element g encrypts s under sigma_g^-1(s), so that the permutation comes after
the product with the key. So every rotation of one ciphertext shares its ModUp, being the same node.

Reference: Halevi and Shoup, "Faster homomorphic linear transformations in HElib", 2018 (hoisting).
"""

from __future__ import annotations

import dataclasses

import numpy as np

from ren.core.errors import ParameterError, ScaleError
from ren.poly.symbolic import Symbolic
from ren.schemes.ckks.arithmetic import tails
from ren.schemes.ckks.arithmetic.argument_checks import as_integer
from ren.schemes.ckks.arithmetic.automatic import (
    add,
    evolve,
    kept_to,
    multiply_plain,
    need_level,
)
from ren.schemes.ckks.arithmetic.manual import normal, two_components
from ren.schemes.ckks.arithmetic.mode import is_manual
from ren.schemes.ckks.arithmetic.operation_hooks import circuit, in_circuit, operation
from ren.schemes.ckks.encoding.ciphertext_data import CiphertextData, CiphertextT
from ren.schemes.ckks.encoding.layout import Tail
from ren.schemes.ckks.encoding.plaintext import encode
from ren.schemes.ckks.noise import bounds as noises
from ren.schemes.ckks.noise import sigmas
from ren.schemes.rlwe.active_context import context_for
from ren.schemes.rlwe.gadget import gadget_of
from ren.schemes.rlwe.galois import conjugation_element, galois_element
from ren.schemes.rlwe.keys import SwitchingKey
from ren.schemes.rlwe.keyswitch import key_switch
from ren.schemes.rlwe.user_call import announce, call_name, called


def automorphism(x: CiphertextT, galois: int, what: str, tail: Tail, steps: int = 0) -> CiphertextT:
    """sigma_g(x): (sigma_g(c0 + k0), sigma_g(k1)) with (k0, k1) the switch of c1 by the g key.

    `steps` is by how many slots it rotates, for the noise; `tail` is that of the result.
    """
    what = call_name(what)
    if x.layout.blocks > 1 and galois != conjugation_element(x.n):
        raise _across_blocks(x, what)
    x = two_components(x, what) if is_manual() else normal(x)
    key = context_for(x.key_id, what).galois_key(galois, what)
    k0, k1 = key_switch(x.polys[1], key, gadget_of(x.params))
    polys = ((x.polys[0] + k0).automorphism(galois), k1.automorphism(galois))
    moved = noises.rotated(x.noise, steps, x.slots)
    sigma = sigmas.switch_sigma(x.params, x.level, sigmas.as_float(x.scale))
    return evolve(x, polys, noises.with_source(moved, sigma), layout=x.layout.with_tail(tail))


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
        return cyclic(visible(x if is_manual() else normal(x), steps), steps)


@operation("a rotation", lambda x, steps: np.roll(x, -steps, -1))
def cyclic(x: CiphertextT, steps: int) -> CiphertextT:
    """result[i] = x[i + steps], cyclic over the slots, whatever stands beyond the length."""
    steps %= x.slots
    if steps == 0:
        return x
    half = x.slots // 2
    tail = tails.moved(x, (steps + half) % x.slots - half)
    return automorphism(x, galois_element(steps, x.n), f"rotate({steps})", tail, steps)


def visible(x: CiphertextT, steps: int) -> CiphertextT:
    """`x` with zeros in those slots beyond its length that a rotation by `steps` shows."""
    if x.layout.length is None or x.layout.tail.is_zero or tails.fills_slots(x):
        return x
    if x.layout.tail.has_value or tails.shows_leftovers(x, steps):
        return tails.cleared(x, call_name(f"rotate({steps})"))
    return x


@operation("a conjugation", np.conj)
def conjugate(x: CiphertextT) -> CiphertextT:
    """The complex conjugate of every slot."""
    tail = x.layout.tail
    value = tail.value.map(np.conj) if isinstance(tail.value, Symbolic) else np.conj(tail.value)
    return automorphism(x, conjugation_element(x.n), "conj()", tail.mapped(value))


def roll(x: CiphertextT, shift: int) -> CiphertextT:
    """numpy.roll over the logical length: result[i] = x[(i - shift) mod length].

    Where the length fills the slots it is one rotation; else two, masked, and takes a level.
    """
    if x.layout.blocks > 1:
        raise _across_blocks(x, f"roll({shift})")
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
    need_level(x, 1, f"roll({shift})")
    announce(lambda: [-shift, length - shift])
    mask = np.arange(length) >= shift
    ahead, behind = (encode(m, x.params, x.level) for m in (mask, ~mask))
    result = add(
        multiply_plain(cyclic(x, -shift), ahead),
        multiply_plain(cyclic(x, length - shift), behind),
    )
    return kept_to(result, x)


@operation("switch_key()", lambda x, key, key_id: x)
def switched(x: CiphertextT, key: SwitchingKey, key_id: str) -> CiphertextT:
    """The message of `x` under the secret that `key` leads to: one key switch."""
    x = normal(x)
    k0, k1 = key_switch(x.polys[1], key, gadget_of(x.params))
    noise = noises.with_source(x.noise, sigmas.switch_sigma(x.params, x.level))
    return dataclasses.replace(evolve(x, (x.polys[0] + k0, k1), noise), key_id=key_id)


def _across_blocks(x: CiphertextData, what: str) -> ParameterError:
    return ParameterError(
        f"{what} was asked of a vector that is cut into {x.layout.blocks} blocks of {x.slots}.",
        "A rotation moves slots within one ciphertext, never from block to block.",
        "Rotate the values before they are encrypted, or choose parameters with a larger n.",
    )
