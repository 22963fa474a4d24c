"""The special Fourier transform between slots and coefficients, as few matrices with diagonals.

The transform has log2(s) stages of butterflies of length 2, 4, .., s for s slots. SlotToCoeff
multiplies the slots by the stages, CoeffToSlot by their inverses in the opposite order. Neither
undoes the bit reversal: the two cancel. Consecutive stages are grouped to one matrix.

A matrix is a sum of diagonals: M x = sum_d v_d rot_d(x), rot_d(x)_i = x_(i + d). Those of
butterflies up to length B repeat with the period B: one period is kept.

Diagonals are numbered first + unit i, i >= 0. The rotation by `first` is pulled out to the right,
through the matrices that act before: rot(v x) = rot(v) rot(x). So a product of matrices has one
offset, a rotation of its argument. The babies of the first matrix absorb it.

A matrix multiplies `babies` rotations of each of `bases` rotations of its argument, and sums the
products for each of `giants` rotations of the sums. Babies share the decomposition of their base
and cost a product with a key. Each further base and giant costs a decomposition, and takes the same
key as the one before. So 63 diagonals take 7 babies of 3 bases for 3 giants, with 8 keys. Without
bases they are 8 babies for 8 giants, with 8 keys and 7 decompositions where there are 4.

Reference: Cheon, Han and Hhan, "Faster homomorphic discrete Fourier transforms and improved FHE
bootstrapping", 2019 (the factors); Bossuat, Mouchet, Troncoso-Pastoriza and Hubaux, 2021.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache, reduce

import attrs
import numpy as np
from numpy.typing import NDArray

_TINY = 1e-12  # of entries: what sums of products leave of zero
_Diagonals = dict[int, NDArray[np.complex128]]


# A split is chosen by products with a key. As many cost what a key's place in memory is worth.
_KEY = 10
_LOW, _FULL = 11, 17  # and as many cost a decomposition, for the keys of SlotToCoeff and all moduli
_RAISED = 50  # where products are those of one digit


@attrs.frozen(eq=False)
class Matrix:
    """One matrix of a product: diagonal i is for the rotation by unit i, after the offset.

    Args:
        unit: the greatest common divisor of the steps.
        babies: rotations of each base, by multiples of `baby_step`.
        bases: rotations of what comes in, by multiples of the unit.
        diagonals: by i; each complex128 [period].
        period: with which the diagonals repeat.
    """

    unit: int
    babies: int
    bases: int
    diagonals: _Diagonals
    period: int

    @property
    def rotations(self) -> int:
        """Number of rotations that are multiplied, by 0, unit, 2 unit, ..: babies of all bases."""
        return self.babies * self.bases

    @property
    def giants(self) -> int:
        """Number of sums of rotations."""
        return max(self.diagonals) // self.rotations + 1

    @property
    def baby_step(self) -> int:
        """Rotation from one baby to the next. It is that of all bases, so that one key follows."""
        return self.unit * self.bases

    @property
    def giant_step(self) -> int:
        """Rotation from one sum to the next."""
        return self.unit * self.rotations

    def diagonal(self, giant: int, rotation: int) -> NDArray[np.complex128] | None:
        """The factor of a rotation in the sum of a giant; None where it is zero."""
        v = self.diagonals.get(giant * self.rotations + rotation)
        return None if v is None else np.roll(v, giant * self.giant_step)


@attrs.frozen(eq=False)
class Product:
    """Matrices, the first to act first, and the rotation of their argument."""

    matrices: tuple[Matrix, ...]
    offset: int


@lru_cache(maxsize=16)
def slot_to_coeff(slots: int, count: int) -> Product:
    """SlotToCoeff: slots become the coefficients of X^j and X^(j + n/2), in bit-reversed order."""
    stages = [_stage(slots, 2 << i, is_inverse=False) for i in range(slots.bit_length() - 1)]
    return _product(_grouped(stages, count, slots), slots, 1.0, (_LOW,) * count)


@lru_cache(maxsize=16)
def coeff_to_slot(slots: int, count: int) -> Product:
    """CoeffToSlot, half of it: w of which the real part is w + conj(w)."""
    lengths = [2 << i for i in range(slots.bit_length() - 1)]
    stages = [_stage(slots, length, is_inverse=True) for length in reversed(lengths)]
    return _product(_grouped(stages, count, slots), slots, 0.5, (_RAISED, *[_FULL] * (count - 1)))


def packed(m: Matrix, slots: int) -> Matrix:
    """A matrix whose result w, which repeats with the slots, is followed by -i w, by turns."""
    turned = np.repeat([1.0, -1.0j], slots)
    diagonals = {i: turned * np.tile(v, 2 * slots // len(v)) for i, v in m.diagonals.items()}
    return attrs.evolve(m, diagonals=diagonals, period=2 * slots)


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


def _grouped(
    stages: list[tuple[int, _Diagonals]], count: int, slots: int
) -> list[tuple[int, _Diagonals]]:
    """`count` matrices, or fewer, of nearly as many stages each; the later ones have more."""
    count = min(count, len(stages))
    ends = [len(stages) * (i + 1) // count for i in range(count)]
    starts = [0, *ends[:-1]]
    return [
        reduce(lambda done, stage: _composed(stage, done, slots), stages[a:b])
        for a, b in zip(starts, ends, strict=True)
    ]


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
    groups: list[tuple[int, _Diagonals]], slots: int, factor: float, prices: Sequence[int]
) -> Product:
    """The matrices with their offsets pulled out; the last is multiplied by `factor`."""
    made: list[Matrix] = []
    offset = 0
    for place, (period, diagonals) in reversed(list(enumerate(groups))):
        steps = sorted((d + slots // 2) % slots - slots // 2 for d in diagonals)
        unit = math.gcd(*steps) or 1
        if len(steps) * unit >= slots:  # all multiples of the unit
            steps = [unit * i for i in range(slots // unit)]
        times = factor if place == len(groups) - 1 else 1.0
        numbered = {
            (d - steps[0]) // unit: times * np.roll(diagonals[d % slots], -offset) for d in steps
        }
        babies, bases = _split(max(numbered) + 1, prices[place])
        made.append(Matrix(unit, babies, bases, numbered, period))
        offset += steps[0]
    return Product(tuple(reversed(made)), offset % slots)


def _split(diagonals: int, decomposition: int) -> tuple[int, int]:
    """The number of babies and of bases that cost least; what was raised is one base."""

    def cost(split: tuple[int, int]) -> int:
        babies, bases = split
        giants = -(-diagonals // (babies * bases))
        keys = babies + (bases > 1) + (giants > 1)
        return (bases + giants) * decomposition + babies * bases + keys * _KEY

    most = 1 if decomposition == _RAISED else math.isqrt(diagonals) + 1
    return min(((b, h) for h in range(1, most + 1) for b in range(1, diagonals + 1)), key=cost)
