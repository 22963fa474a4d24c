"""Encoded diagonals of the matrices, over the rings and at the scales of a chain; kept."""

from __future__ import annotations

import threading
from fractions import Fraction
from functools import lru_cache

import attrs
import numpy as np

from ren.capture.programs import Integers, replayed
from ren.core.ring import Domain, RingSpec
from ren.poly import Poly
from ren.poly.realization import not_capturing
from ren.schemes.ckks.encoding import encoder
from ren.schemes.ckks.parameters.bootstrapping.chain import Chain
from ren.schemes.ckks.parameters.bootstrapping.labels import products
from ren.schemes.ckks.parameters.bootstrapping.matrices import Matrix
from ren.schemes.rlwe.keys import from_residues
from ren.schemes.rlwe.keyswitch import Gadget


@attrs.frozen(eq=False)
class Encoded:
    """A matrix: for each giant its factors [rotation, limb, m] in Q P, and for which rotations.

    Where they repeat with a period m / 2, they are polynomials in X^(n/m), kept in degree m.

    Args:
        gadget: whose special primes the factors have too.
    """

    matrix: Matrix
    gadget: Gadget
    factors: tuple[Poly, ...]
    rotations: tuple[tuple[int, ...], ...]

    @property
    def nbytes(self) -> int:
        """Bytes of the factors."""
        return sum(p.limbs.nbytes for p in self.factors)


@attrs.frozen(eq=False)
class Diagonals:
    """All that a bootstrap multiplies by, but constants: two products of matrices.

    Args:
        down: SlotToCoeff.
        up: CoeffToSlot.
        packed: its last matrix for complex messages that repeat: w and -i w by turns.
    """

    down: tuple[Encoded, ...]
    up: tuple[Encoded, ...]
    packed: Encoded | None

    @property
    def nbytes(self) -> int:
        """Bytes of all factors."""
        return sum(m.nbytes for m in (*self.down, *self.up, self.packed) if m is not None)


_lock = threading.Lock()


def diagonals_of(chain: Chain) -> Diagonals:
    """The encoded diagonals of a chain, made once; the last two chains keep theirs."""
    with _lock, not_capturing():
        return _made(chain)


@lru_cache(maxsize=2)
def _made(chain: Chain) -> Diagonals:
    down, up = products(chain)
    floor = chain.above.floor
    turned = None
    if chain.is_sparse:
        m = attrs.evolve(up.matrices[-1], is_packed=True)
        turned = _encoded(chain, m, chain.first + 1, chain.full, chain.coeff_to_slot[-1])
    return Diagonals(
        tuple(
            _encoded(chain, m, floor - i, chain.low, scale)
            for i, (m, scale) in enumerate(zip(down.matrices, chain.slot_to_coeff, strict=True))
        ),
        tuple(
            _encoded(chain, m, chain.top - i, chain.full, scale)
            for i, (m, scale) in enumerate(zip(up.matrices, chain.coeff_to_slot, strict=True))
        ),
        turned,
    )


def _encoded(chain: Chain, m: Matrix, level: int, gadget: Gadget, scale: Fraction) -> Encoded:
    ring = gadget.extended(chain.rings[level])
    found = m.factors()
    factors = tuple(_encode(np.stack([*vectors.values()]), ring, scale) for vectors in found)
    return Encoded(m, gadget, factors, tuple(map(tuple, found)))


def _encode(vectors: np.ndarray, ring: RingSpec, scale: Fraction) -> Poly:
    """Slots complex [count, period] at a scale, in the NTT domain, in the ring of one period."""
    period = vectors.shape[-1]
    ring = ring if 2 * period == ring.n else RingSpec(2 * period, ring.moduli)
    coefficients = encoder.encode(vectors, ring.n, period, scale)
    values = encoder.as_integers(coefficients)
    if values is not None:
        return replayed(_transformed, None, Integers(values, ring))[0]
    limbs = encoder.residues(coefficients, ring.moduli)  # a scale from 2^62 on
    return replayed(_transformed, None, from_residues(limbs, ring, Domain.COEFF))[0]


@lru_cache(maxsize=32)
def turn_of(ring: RingSpec) -> Poly:
    """X^(n/2), which is i in every slot."""
    values = np.zeros(ring.n, np.int64)
    values[ring.n // 2] = 1
    with not_capturing():
        return replayed(_transformed, None, Integers(values, ring))[0]


@lru_cache(maxsize=32)
def mask_of(chain: Chain, first: complex, second: complex) -> Poly:
    """A factor for the first half of what repeats with twice the slots, and one for the second.

    Its scale leads from the canonical one of the level where a sine ends to that of the next.
    """
    ring, scale = chain.rings[chain.user], chain.params.scale
    ratio = Fraction(ring.q, chain.rings[chain.end].q)
    factor = scale(chain.end) * ratio / scale(chain.user)
    with not_capturing():
        return _encode(np.repeat([first, second], chain.params.slots), ring, factor)


def _transformed(_: None, p: Poly) -> tuple[Poly]:
    return (p.ntt(),)
