"""Keys of a bootstrap: which there are, and over which gadgets.

Each has a label: the gadget that it is for, and the galois element. For an element g the key leads
from s to sigma_g^-1(s), as every rotation key, so that the permutation follows the products.

    low g            from the floor down, for SlotToCoeff
    sparse           from s to the sparse secret, modulo q_0 and one special prime
    raised g         from the sparse secret back, for what was raised: the babies of the first
                     matrix of CoeffToSlot, or those of the trace. One digit.
    full g           over all moduli, for the trace, CoeffToSlot and the conjugation
    full square      the relinearization key over all moduli
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from ren.schemes.ckks.parameters.bootstrapping import matrices
from ren.schemes.ckks.parameters.bootstrapping.chain import Chain, chain_of
from ren.schemes.rlwe.keyswitch import Gadget, conjugation_element, galois_element

SPARSE, SQUARE = "sparse", "full square"
_RAISED_BITS, _GROUP_BITS = 3, 2  # log2 of the most rotations in a group of the trace
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


def conjugation(chain: Chain) -> str:
    """The label of the conjugation."""
    return f"full {conjugation_element(chain.params.n)}"


@lru_cache(maxsize=8)
def labels(chain: Chain) -> tuple[str, ...]:
    """All keys that a bootstrap takes, each once."""
    down, up = products(chain)
    found: dict[str, None] = {}
    for place, m in enumerate(down.matrices):
        steps = _steps(m, 0 if place else down.offset)
        found |= dict.fromkeys(low(k, chain) for k in steps if k % chain.params.slots)
    found[SPARSE] = None
    first, *rest = up.matrices
    if chain.is_sparse:
        back, *groups = trace(chain)
        found |= dict.fromkeys(raised(k, chain) for k in back)
        joins = chain.params.slots  # the rotation that brings the two parts together
        found |= dict.fromkeys(full(k, chain) for group in groups for k in group if k)
        found[full(joins, chain)] = None
        steps = list(_steps(first, up.offset))
    else:
        babies = (up.offset + first.unit * j for j in range(first.babies))
        found |= dict.fromkeys(raised(k, chain) for k in babies)
        steps = [first.giant_step] * (first.giants > 1)
    steps += [k for m in rest for k in _steps(m, 0)]
    found |= dict.fromkeys(full(k, chain) for k in steps if k % chain.params.slots)
    return (*found, conjugation(chain), SQUARE)


def trace(chain: Chain) -> tuple[tuple[int, ...], ...]:
    """The rotations by multiples of the slots, in groups: their sum is a product of sums.

    It leaves what repeats with the slots, times the number of copies. The first group comes back
    from the sparse secret with it.
    """
    bits = chain.copies.bit_length() - 1
    sizes, step = [min(bits, _RAISED_BITS)], chain.params.slots
    count = -(-(bits - sizes[0]) // _GROUP_BITS)  # groups after the first, of nearly one size
    for i in range(count):
        sizes.append(-(-(bits - sum(sizes)) // (count - i)))
    groups = []
    for size in sizes:
        groups.append(tuple(step * j for j in range(1 << size)))
        step <<= size
    return tuple(groups)


def products(chain: Chain) -> tuple[matrices.Product, matrices.Product]:
    """SlotToCoeff and CoeffToSlot."""
    slots = chain.params.slots
    return (
        matrices.slot_to_coeff(slots, chain.above.floor),
        matrices.coeff_to_slot(slots, chain.top - chain.first),
    )


def _steps(m: matrices.Matrix, offset: int) -> Iterator[int]:
    yield from (offset + m.unit * j for j in range(m.babies))
    if m.giants > 1:
        yield m.giant_step


def gadget_of(label: str, chain: Chain) -> Gadget:
    """The gadget of a key: its ring and its digits."""
    chain = chain.whole
    gadgets = {"low": chain.low, "sparse": chain.sparse, "raised": chain.raised}
    return gadgets.get(label.split()[0], chain.full)


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
                2 * m.period * len(m.diagonals) * gadget.extended(chain.rings[level - i]).limbs
            )
    if chain.is_sparse:
        m = matrices.packed(up.matrices[-1], chain.params.slots)
        limbs = chain.full.extended(chain.rings[chain.first + 1]).limbs
        residues += 2 * m.period * len(m.diagonals) * limbs
    return _RESIDUE_BYTES * residues
