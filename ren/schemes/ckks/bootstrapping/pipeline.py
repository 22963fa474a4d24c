"""A bootstrap of polynomials: its stages one after another, with keys and diagonals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax

from ren.capture.programs import replayed
from ren.lowering.devices.devices import is_tracing
from ren.poly import Poly
from ren.poly.realization import is_capturing
from ren.schemes.ckks.bootstrapping import stages
from ren.schemes.ckks.bootstrapping.diagonals import Encoded, diagonals_of, mask_of, turn_of
from ren.schemes.ckks.bootstrapping.stages import Pair
from ren.schemes.ckks.parameters.bootstrapping import labels
from ren.schemes.ckks.parameters.bootstrapping.chain import Chain, chain_of
from ren.schemes.rlwe.keys import SwitchingKey
from ren.schemes.rlwe.keyswitch import galois_element

KeyOf = Callable[[str], SwitchingKey]


def refreshed(chain: Chain, c: Pair, key_of: KeyOf, is_complex: bool) -> Pair:
    """The message of `c`, at the floor, at the user's highest level and its canonical scale.

    Args:
        chain: of the parameters.
        c: two polynomials at the floor, at its canonical scale.
        key_of: from the label of a key to the key.
        is_complex: whether the message has an imaginary part; without one, what noise there is in
            it goes.
    """
    if not is_complex:
        chain = chain_of(chain.params, chain.end)
        (part,) = parts_of(chain, lowered(chain, c, key_of), key_of, False)
        return sine(chain, part, key_of)
    parts = _sines(chain, c, key_of)
    if chain.is_sparse:
        return _unpacked(chain, parts[0], (1, 1j), key_of)
    return _run(stages.joined, chain, *parts, turn_of(chain.rings[chain.user]))


def refreshed_parts(chain: Chain, c: Pair, key_of: KeyOf) -> list[Pair]:
    """The same, the real and the imaginary part apart."""
    parts = _sines(chain, c, key_of)
    if chain.is_sparse:
        return [_unpacked(chain, parts[0], mask, key_of) for mask in ((1, 0), (0, 1))]
    return parts


def _sines(chain: Chain, c: Pair, key_of: KeyOf) -> list[Pair]:
    parts = parts_of(chain, lowered(chain, c, key_of), key_of, True)
    return [sine(chain, part, key_of) for part in parts]


def lowered(chain: Chain, c: Pair, key_of: KeyOf) -> Pair:
    """SlotToCoeff: from the floor to level 0, also where a chain ends below the floor."""
    chain = chain.whole
    down, _ = labels.products(chain)
    for place, encoded in enumerate(diagonals_of(chain).down):
        offset, level = 0 if place else down.offset, chain.above.floor - place
        c = _transformed(chain, encoded, level, offset, c, lambda k: key_of(labels.low(k, chain)))
    return c


def parts_of(chain: Chain, c: Pair, key_of: KeyOf, is_complex: bool) -> list[Pair]:
    """Raise, CoeffToSlot and the split: y of the real part, and of the imaginary part.

    Parts of a message that repeats stand in the slots by turns, in one ciphertext.
    """
    held, (_, up) = diagonals_of(chain.whole), labels.products(chain)

    def full(k: int) -> SwitchingKey:
        return key_of(labels.full(k, chain))

    def raised(k: int) -> SwitchingKey:
        return key_of(labels.raised(k, chain))

    c = _run(stages.raised, chain, c, _halves(key_of(labels.SPARSE)))
    encoded = list(held.up)
    if chain.is_sparse and is_complex:
        assert held.packed is not None, "made for messages that repeat"
        encoded[-1] = held.packed
    for place, matrix in enumerate(encoded):
        offset, level = 0 if place else up.offset, chain.top - place
        c = _transformed(chain, matrix, level, offset, c, full, None if place else raised)
    if chain.is_sparse:
        return [_traced(chain, c, key_of)]
    key = _halves(key_of(labels.conjugated(0, chain)))
    turn = turn_of(chain.rings[chain.first]) if is_complex else None
    made = _run(stages.halved, (chain, is_complex), c, key, turn)
    return [(made[i], made[i + 1]) for i in range(0, len(made), 2)]


def _traced(chain: Chain, c: Pair, key_of: KeyOf) -> Pair:
    """y of the part that repeats, times the copies but two: the first matrix has summed these."""
    *groups, last = [[labels.full(k, chain) for k in group] for group in labels.trace(chain)]
    for names in groups:
        c = _summed(stages.summed, chain, c, names, key_of)
    last += [labels.conjugated(k, chain) for k in labels.trace(chain)[-1]]
    return _summed(stages.gathered, chain, c, last, key_of)


def _summed(
    stage: Callable[..., Pair], chain: Chain, c: Pair, names: list[str], key_of: KeyOf
) -> Pair:
    """The sum of the automorphisms that the keys with these labels are for."""
    elements = [labels.element_of(name) for name in names]
    each = zip(names, elements, strict=True)
    keys = [None if element == 1 else _halves(key_of(name)) for name, element in each]
    rotations = stages.Rotations(chain.gathered, chain.full, tuple((g,) for g in elements))
    return _run(stage, (chain, rotations), c, keys)


def _unpacked(chain: Chain, c: Pair, mask: tuple[complex, complex], key_of: KeyOf) -> Pair:
    steps = chain.params.slots
    key = _halves(key_of(labels.full(steps, chain)))
    given = chain, galois_element(steps, chain.params.n)
    return _run(stages.unpacked, given, c, mask_of(chain, *mask), key)


def sine(chain: Chain, c: Pair, key_of: KeyOf) -> Pair:
    """The sine of one part."""
    return _run(stages.sine, chain, c, _halves(key_of(labels.SQUARE)))


def _transformed(
    chain: Chain,
    encoded: Encoded,
    level: int,
    offset: int,
    c: Pair,
    key_of: Callable[[int], SwitchingKey],
    raised_key_of: Callable[[int], SwitchingKey] | None = None,
) -> Pair:
    m, n, slots = encoded.matrix, chain.params.n, chain.params.slots
    steps = [offset + m.baby_step * j for j in range(m.babies)]
    if raised_key_of is not None:
        babies = [[k + more for more in labels.folded(chain)] for k in steps]
        baby_keys = [_halves(raised_key_of(k)) for baby in babies for k in baby]
    else:
        babies = [[k] for k in steps]
        baby_keys = [_halves(key_of(k)) if k % slots else None for k in steps]
    rotations = stages.Rotations(
        level,
        encoded.gadget,
        tuple(tuple(galois_element(k, n) for k in baby) for baby in babies),
        raised_key_of is not None,
        m.bases,
        galois_element(m.unit, n),
    )
    end = level if level == chain.gathered else level - 1  # the trace comes before the rescale
    giants = stages.Giants(encoded.rotations, galois_element(m.giant_step, n), end)
    base_key = _halves(key_of(m.unit)) if m.bases > 1 else None
    giant_key = _halves(key_of(m.giant_step)) if m.giants > 1 else None
    given = chain, rotations, giants
    return _run(stages.transformed, given, c, encoded.factors, baby_keys, base_key, giant_key)


def _halves(key: SwitchingKey) -> stages.Halves:
    return key.b, key.a


def _is_poly(x: Any) -> bool:
    return isinstance(x, Poly)


def _run(stage: Callable[..., Any], static: Any, *args: Any) -> Any:
    """stage(static, *args): at once, by a plan that is kept; a part of a program at a capture."""
    if is_capturing() or is_tracing():
        return stage(static, *args)
    leaves, tree = jax.tree_util.tree_flatten(args, is_leaf=_is_poly)
    return tuple(replayed(_staged, (stage, static, tree), *leaves))


def _staged(given: tuple[Callable[..., Any], Any, Any], *leaves: Poly) -> Sequence[Poly]:
    stage, static, tree = given
    return stage(static, *jax.tree_util.tree_unflatten(tree, leaves))
