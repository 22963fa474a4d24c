"""The special Fourier transform between slots and coefficients, as few matrices with diagonals.

The transform has log2(s) stages of butterflies of length 2, 4, .., s for s slots. SlotToCoeff
multiplies the slots by the stages, CoeffToSlot by their inverses in the opposite order. Neither
undoes the bit reversal: the two cancel. Consecutive stages are grouped to one matrix.

A matrix is a sum of diagonals: M x = sum_d v_d rot_d(x), rot_d(x)_i = x_(i + d). Those of
butterflies up to length B repeat with the period B: one period is kept.

Diagonals are numbered first + unit i, i >= 0. The rotation by `first` is pulled out to the right,
through the matrices that act before: rot(v x) = rot(v) rot(x). So a product of matrices has one
offset, a rotation of its argument. The babies of the first matrix absorb it.

A matrix has `bases`, which are rotations of its argument, and `babies`, rotations of each base. It
sums their products with diagonals, once for each of its `giants`. These sums are rotated and added.
Babies share the decomposition of their base and cost a product with a key. Each further base and
giant costs a decomposition, and takes the same key as the one before. So 63 diagonals take 8 babies
of 2 bases for 4 giants: 9 keys and 5 decompositions. Of one base they would take 8 giants: 8 keys
and 8 decompositions.

Reference: Cheon, Han and Hhan, "Faster homomorphic discrete Fourier transforms and improved FHE
bootstrapping", 2019 (the factors); Bossuat, Mouchet, Troncoso-Pastoriza and Hubaux, 2021.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache, reduce
from typing import NamedTuple

import attrs
import numpy as np
from numpy.typing import NDArray

_TINY = 1e-12  # of entries: what sums of products leave of zero
_Diagonals = dict[int, NDArray[np.complex128]]


class _Prices(NamedTuple):
    """Prices that a split is chosen by, in products of one ciphertext with one key.

    Those for all moduli are measured, on two cores with vectors of 256 bits. The one of SlotToCoeff
    is in proportion to its transforms. With wider vectors products count more.
    """

    decomposition: float
    key: float = 4.0  # its place in memory
    has_bases: bool = True


_LOW, _FULL = _Prices(6), _Prices(9)  # of keys for SlotToCoeff, and for all moduli


def _raised(addends: int) -> _Prices:
    """Prices for products of one digit, where so many rotations are one baby."""
    return _Prices(24 / addends, has_bases=False)


@attrs.frozen
class Matrix:
    """One matrix of a product: diagonal i is for the rotation by unit i, after the offset.

    Its diagonals are computed when they are asked for: those of all slots have 0.2 GiB.

    Args:
        slots: their number.
        lengths: of its butterflies, in the order in which they act.
        is_inverse: whether these are the inverse ones.
        factor: by which all entries are multiplied.
        first: the rotation of diagonal 0, and `turn`: that of what the diagonals multiply.
        unit: the greatest common divisor of the steps from one diagonal to another.
        numbers: i of the diagonals that are not zero, ascending.
        babies: rotations of each base, by multiples of `baby_step`.
        bases: rotations of what comes in, by multiples of the unit.
        is_packed: whether the result, w again and again, is w and -i w by turns.
    """

    slots: int
    lengths: tuple[int, ...]
    is_inverse: bool
    factor: float
    first: int
    turn: int
    unit: int
    numbers: tuple[int, ...]
    babies: int
    bases: int
    is_packed: bool = False

    @property
    def period(self) -> int:
        """With which the diagonals repeat."""
        return 2 * self.slots if self.is_packed else max(self.lengths)

    @property
    def rotations(self) -> int:
        """Number of rotations that are multiplied, by 0, unit, 2 unit, ..: babies of all bases."""
        return self.babies * self.bases

    @property
    def giants(self) -> int:
        """Number of sums of rotations."""
        return self.numbers[-1] // self.rotations + 1

    @property
    def baby_step(self) -> int:
        """Rotation from one baby to the next. It is that of all bases, so that one key follows."""
        return self.unit * self.bases

    @property
    def giant_step(self) -> int:
        """Rotation from one sum to the next."""
        return self.unit * self.rotations

    def factors(self) -> list[dict[int, NDArray[np.complex128]]]:
        """For each giant the factor of each rotation that has one: complex128 [period]."""
        stages = [_stage(self.slots, length, self.is_inverse) for length in self.lengths]
        _, diagonals = reduce(lambda done, s: _composed(s, done, self.slots), stages)
        made: list[_Diagonals] = [{} for _ in range(self.giants)]
        for i in self.numbers:
            v = self.factor * np.roll(
                diagonals[(self.first + self.unit * i) % self.slots], -self.turn
            )
            if self.is_packed:
                v = np.repeat([1.0, -1.0j], self.slots) * np.tile(v, 2 * self.slots // len(v))
            giant, rotation = divmod(i, self.rotations)
            made[giant][rotation] = np.roll(v, giant * self.giant_step)
        return made


@attrs.frozen
class Product:
    """Matrices, the first to act first, and the rotation of their argument."""

    matrices: tuple[Matrix, ...]
    offset: int


@lru_cache(maxsize=64)
def slot_to_coeff(slots: int, count: int) -> Product:
    """SlotToCoeff: slots become the coefficients of X^j and X^(j + n/2), in bit-reversed order."""
    lengths = [2 << i for i in range(slots.bit_length() - 1)]
    return _product(lengths, slots, False, (_LOW,) * count)


@lru_cache(maxsize=64)
def coeff_to_slot(slots: int, count: int, addends: int = 1) -> Product:
    """CoeffToSlot, half of it: w of which the real part is w + conj(w).

    Each baby of the first matrix is the sum of so many rotations of what was raised.
    """
    lengths = [2 << i for i in range(slots.bit_length() - 1)]
    prices = (_raised(addends), *[_FULL] * (count - 1))
    return _product(lengths[::-1], slots, True, prices)


def _stage(slots: int, length: int, is_inverse: bool) -> tuple[int, _Diagonals]:
    """The butterflies of one length, with their period."""
    half = length // 2
    powers = np.array([pow(5, j, 4 * length) for j in range(half)])
    w = np.tile(np.exp(2j * np.pi * powers / (4 * length)), 2)
    upper = np.arange(length) < half
    if is_inverse:
        here, right, left = np.where(upper, 0.5, -0.5 / w), 0.5 * upper, 0.5 / w * ~upper
    else:
        here, right, left = np.where(upper, 1, -w), w * upper, 1.0 * ~upper
    diagonals = {0: here.astype(np.complex128)}
    for step, v in ((half, right), (-half, left)):
        step %= slots
        diagonals[step] = np.add(diagonals.get(step, 0), v).astype(np.complex128)
    return length, diagonals


def _composed(
    outer: tuple[int, _Diagonals], inner: tuple[int, _Diagonals], slots: int
) -> tuple[int, _Diagonals]:
    """The product of two sums of diagonals: v_a rot_a(v_b rot_b(x)) = v_a rot_a(v_b) rot_(a+b)."""
    period = max(outer[0], inner[0])
    made: _Diagonals = {}
    for a, v in outer[1].items():
        for b, u in inner[1].items():
            step = (a + b) % slots
            term = np.tile(v, period // len(v)) * np.roll(np.tile(u, period // len(u)), -a)
            made[step] = made.get(step, 0) + term
    return period, {step: v for step, v in made.items() if np.abs(v).max() > _TINY}


def _product(
    lengths: list[int], slots: int, is_inverse: bool, prices: Sequence[_Prices]
) -> Product:
    """Nearly as many stages in each matrix, the later ones have more; the offsets pulled out."""
    count = min(len(prices), len(lengths))
    ends = [len(lengths) * i // count for i in range(count + 1)]
    made: list[Matrix] = []
    offset = 0
    for place in reversed(range(count)):
        own = tuple(lengths[ends[place] : ends[place + 1]])
        steps = sorted((d + slots // 2) % slots - slots // 2 for d in _steps(own, slots))
        unit = math.gcd(*steps) or 1
        if len(steps) * unit >= slots:  # all multiples of the unit
            steps = [unit * i for i in range(slots // unit)]
        first, numbers = steps[0], tuple((d - steps[0]) // unit for d in steps)
        factor = 0.5 if is_inverse and place == count - 1 else 1.0
        split = _split(numbers[-1] + 1, prices[place])
        made.append(Matrix(slots, own, is_inverse, factor, first, offset, unit, numbers, *split))
        offset += first
    return Product(tuple(reversed(made)), offset % slots)


def _steps(lengths: Sequence[int], slots: int) -> set[int]:
    """The rotations of a product of butterflies: each is by half its length, or none."""
    found = {0}
    for length in lengths:
        found = {(d + k * length // 2) % slots for d in found for k in (-1, 0, 1)}
    return found


def _split(diagonals: int, prices: _Prices) -> tuple[int, int]:
    """The number of babies and of bases that cost least."""

    def cost(split: tuple[int, int]) -> float:
        babies, bases = split
        giants = -(-diagonals // (babies * bases))
        keys = babies + (bases > 1) + (giants > 1)
        return (bases + giants) * prices.decomposition + babies * bases + keys * prices.key

    most = math.isqrt(diagonals) + 1 if prices.has_bases else 1
    return min(((b, h) for h in range(1, most + 1) for b in range(1, diagonals + 1)), key=cost)
