"""Keys of a bootstrap: which there are, and over which gadgets.

Each has a label: the gadget that it is for, and the galois element. For an element g the key leads
from s to sigma_g^-1(s), as every rotation key, so that the permutation follows the products.

    low g            from the floor down, for SlotToCoeff
    sparse           from s to the sparse secret, modulo q_0 and one special prime
    raised g         from the sparse secret back, for what was raised: the babies of the first
                     matrix of CoeffToSlot. One digit.
    full g           for CoeffToSlot, the trace, the conjugation, and what joins two parts
    full square      the relinearization key of the sine

The full ones cover the moduli of the levels that they serve at, and the special primes.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import attrs

from ren.schemes.ckks.parameters.bootstrapping import matrices
from ren.schemes.ckks.parameters.bootstrapping.chain import Chain, chain_of
from ren.schemes.rlwe.keyswitch import Gadget, conjugation_element, galois_element

SPARSE, SQUARE = "sparse", "full square"
_GROUP_BITS = 2  # log2 of the most rotations in a group of the trace
_RESIDUE_BYTES = 4


def low(steps: int, chain: Chain) -> str:
    """The label of a rotation in SlotToCoeff."""
    return f"low {galois_element(steps, chain.params.n)}"


def raised(steps: int, chain: Chain) -> str:
    """The label of a rotation of what was raised; 0 leads back to the secret alone."""
    return f"raised {galois_element(steps, chain.params.n)}"


def full(steps: int, chain: Chain) -> str:
    """The label of a rotation in CoeffToSlot."""
    return f"full {galois_element(steps, chain.params.n)}"


def conjugated(steps: int, chain: Chain) -> str:
    """The label of a rotation and the conjugation."""
    n = chain.params.n
    return f"full {conjugation_element(n) * galois_element(steps, n) % (2 * n)}"


def element_of(label: str) -> int:
    """The galois element of a label that has one."""
    return int(label.split()[1])


def labels(chain: Chain) -> tuple[str, ...]:
    """All keys that a bootstrap takes, each once."""
    return tuple(_levels(chain))


@lru_cache(maxsize=8)
def _levels(chain: Chain) -> dict[str, int]:
    """The highest level at which each key serves."""
    found: dict[str, int] = {}

    def add(label: str, level: int) -> None:
        found[label] = max(level, found.get(label, 0))

    slots = chain.params.slots
    down, up = products(chain)
    for place, m in enumerate(down.matrices):
        babies, others = _steps(m, 0 if place else down.offset)
        for k in (*babies, *others):
            if k % slots:
                add(low(k, chain), chain.above.floor - place)
    add(SPARSE, 0)
    for place, m in enumerate(up.matrices):
        babies, others = _steps(m, 0 if place else up.offset)
        if not place:
            for k in babies:
                for more in folded(chain):
                    add(raised(k + more, chain), chain.top)
        for k in (*(babies if place else ()), *others):
            if k % slots:
                add(full(k, chain), chain.top - place)
    *groups, last = trace(chain)
    level = chain.gathered
    for k in (k for group in (*groups, last) for k in group if k):
        add(full(k, chain), level)
    for k in last:
        add(conjugated(k, chain), level)
    add(SQUARE, chain.first)
    if chain.is_sparse:
        add(full(slots, chain), chain.user)
    return found


def folded(chain: Chain) -> tuple[int, ...]:
    """The rotations whose sum the first matrix of CoeffToSlot takes: the first step of the trace.

    It cannot come later: the last matrix makes two parts of a complex message stand in the slots by
    turns.
    """
    return (0, chain.params.slots) if chain.is_sparse else (0,)


@lru_cache(maxsize=8)
def trace(chain: Chain) -> tuple[tuple[int, ...], ...]:
    """The other rotations by multiples of the slots, in groups: their sum is a product of sums.

    With the first step it leaves what repeats with the slots, times the number of copies. It comes
    after the matrices, which commute with it. They divide by their last level behind it, so that
    this rounding is not summed. The last group has the conjugates of its rotations too: the sum of
    w and conj(w) ends CoeffToSlot.
    """
    bits = max(chain.copies.bit_length() - 2, 0)
    count = max(-(-bits // _GROUP_BITS), 1)  # groups of nearly one size, the larger ones first
    groups, step = [], 2 * chain.params.slots
    for i in range(count):
        size = (bits + count - 1 - i) // count
        groups.append(tuple(step * j for j in range(1 << size)))
        step <<= size
    return tuple(groups)


def products(chain: Chain) -> tuple[matrices.Product, matrices.Product]:
    """SlotToCoeff and CoeffToSlot."""
    slots = chain.params.slots
    return (
        matrices.slot_to_coeff(slots, chain.above.floor),
        matrices.coeff_to_slot(slots, chain.top - chain.first, len(folded(chain))),
    )


def _steps(m: matrices.Matrix, offset: int) -> tuple[list[int], list[int]]:
    """The rotations of the babies, and those from one base and from one giant to the next."""
    babies = [offset + m.baby_step * j for j in range(m.babies)]
    return babies, [m.unit] * (m.bases > 1) + [m.giant_step] * (m.giants > 1)


def gadget_of(label: str, chain: Chain) -> Gadget:
    """The gadget of a key: its ring and its digits."""
    chain = chain.whole
    gadgets = {"low": chain.low, "sparse": chain.sparse, "raised": chain.raised}
    found = gadgets.get(label.split()[0])
    return _full_gadget(chain, _levels(chain)[label]) if found is None else found


@lru_cache(maxsize=32)
def _full_gadget(chain: Chain, level: int) -> Gadget:
    """The gadget over the moduli of all levels up to one: a lower one may have some of its own."""
    return chain.full.cut(q for ring in chain.rings[: level + 1] for q in ring.moduli)


def known_gadget(label: str, params: Any) -> Gadget | None:
    """The gadget of a key by its label; None where these parameters have no such key."""
    if params.above is None or label not in labels(chain := chain_of(params)):
        return None
    return gadget_of(label, chain)


def keys_nbytes(chain: Chain) -> int:
    """Bytes of all keys in memory; saved, half of it."""
    gadgets = [gadget_of(label, chain) for label in labels(chain)]
    return sum(2 * _RESIDUE_BYTES * len(g.digits) * g.ring.limbs * g.n for g in gadgets)


def diagonals_nbytes(chain: Chain) -> int:
    """Bytes of the encoded diagonals."""
    down, up = products(chain)
    residues = 0
    for product, gadget, level in (
        (down, chain.low, chain.above.floor),
        (up, chain.full, chain.top),
    ):
        for i, m in enumerate(product.matrices):
            residues += (
                2 * m.period * len(m.numbers) * gadget.extended(chain.rings[level - i]).limbs
            )
    if chain.is_sparse:
        m = attrs.evolve(up.matrices[-1], is_packed=True)
        limbs = chain.full.extended(chain.rings[chain.first + 1]).limbs
        residues += 2 * m.period * len(m.numbers) * limbs
    return _RESIDUE_BYTES * residues
