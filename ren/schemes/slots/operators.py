"""Operators on slots: what a plan of rotations is made of, with their cost and what they compute.

`run` computes on a vector in the clear, of any NumPy type: of integers mod 2^64 it is exact. A
scheme has one rule for each operator.
"""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from ren.schemes.slots.contents import mixed
from ren.schemes.slots.diagonals import Placement, Split, doublings

_IMAGINARY = 0x9E3779B97F4A7C15  # stands for i among integers mod 2^64
PRODUCT = 0.04  # of slots with an array, in rotations


@attrs.frozen
class Shift:
    """result[i] = x[i + steps], cyclic."""

    steps: int
    levels = 0

    @property
    def keys(self) -> frozenset[int]:
        """The steps that rotation keys are needed for."""
        return frozenset({self.steps})

    @property
    def cost(self) -> float:
        """The time, in rotations."""
        return 1.0

    def run(self, x: NDArray) -> NDArray:
        """The slots that result from `x`, [slots]."""
        return np.roll(x, -self.steps)


@attrs.frozen
class Sum:
    """result[i] = x[i] + x[i + step] + ... of `count` terms, cyclic.

    About log2(count) rotations.
    """

    count: int
    step: int
    levels = 0

    @property
    def keys(self) -> frozenset[int]:
        """The steps that rotation keys are needed for."""
        odd = {self.step} if self.count & (self.count - 1) else set()
        return frozenset(odd.union(doublings(self.count, self.step)))

    @property
    def cost(self) -> float:
        """The time, in rotations."""
        return float(self.count.bit_length() + self.count.bit_count() - 2)

    def run(self, x: NDArray) -> NDArray:
        """The slots that result from `x`, [slots]."""
        result, terms = x, 1
        for bit in bin(self.count)[3:]:
            result, terms = result + np.roll(result, -terms * self.step), 2 * terms
            if bit == "1":
                result, terms = x + np.roll(result, -self.step), terms + 1
        return result


@attrs.frozen
class Pair:
    """result[i] = x[i + first] + x[i + second], cyclic: two rotations that share a ModUp."""

    first: int
    second: int
    levels = 0
    cost = 1.5

    @property
    def keys(self) -> frozenset[int]:
        """The steps that rotation keys are needed for."""
        return frozenset({self.first, self.second})

    def run(self, x: NDArray) -> NDArray:
        """The slots that result from `x`, [slots]."""
        return np.roll(x, -self.first) + np.roll(x, -self.second)


@attrs.frozen(eq=False)
class Mask:
    """Zeros where `keep`, bool [slots], is false: one level."""

    keep: NDArray[np.bool]
    levels = 1
    keys: frozenset[int] = frozenset()
    cost = PRODUCT

    def run(self, x: NDArray) -> NDArray:
        """The slots that result from `x`, [slots]."""
        return np.where(self.keep, x, x.dtype.type(0))


@attrs.frozen
class Scale:
    """The slots times a number: a level, but for an integer."""

    weight: float

    @property
    def levels(self) -> int:
        """The levels that it takes."""
        return 0 if float(self.weight).is_integer() else 1

    keys: frozenset[int] = frozenset()
    cost = PRODUCT

    def run(self, x: NDArray) -> NDArray:
        """The slots that result from `x`, [slots]."""
        return x * weights(np.array([float(self.weight)]), x.dtype)


@attrs.frozen(eq=False)
class Diagonals:
    """A matrix over the slots, by baby and giant steps: one level."""

    placement: Placement
    split: Split
    levels = 1

    @property
    def keys(self) -> frozenset[int]:
        """The steps that rotation keys are needed for."""
        return self.split.keys

    @property
    def cost(self) -> float:
        """The time, in rotations."""
        return self.split.cost(len(self.placement.tiles))

    @property
    def _terms(self) -> tuple[NDArray[np.integer], NDArray[np.integer], NDArray]:
        """Slot of the result, slot of the vector and value of each entry, before the folds."""
        p = self.placement
        places, steps = p.places_and_steps
        return places % p.slots, (places + steps) % p.slots, p.entries.numbers

    def run(self, x: NDArray) -> NDArray:
        """The slots that result from `x`, [slots]; of integers mod 2^64 the values are `mixed`."""
        rows, columns, values = self._terms
        folds, copies = self.split.folds, self.split.copies
        x = Sum(copies, -self.split.period).run(x) if copies > 1 else x
        terms = weights(values, x.dtype) * x[columns]
        result = np.zeros(len(x), terms.dtype)
        np.add.at(result, rows, terms)
        for step in folds:
            result = result + np.roll(result, -step)
        return result


Operator = Shift | Sum | Pair | Mask | Scale | Diagonals


def weights(values: NDArray, kind: Any) -> NDArray:
    """Factors as numbers of a type.

    Among integers mod 2^64 whole numbers stay, and each other one is a number as if drawn.
    """
    if np.dtype(kind) != np.uint64:
        return values
    if np.iscomplexobj(values):
        return weights(np.real(values), kind) + weights(np.imag(values), kind) * np.uint64(
            _IMAGINARY
        )
    whole = np.isfinite(values) & (np.floor(values) == values) & (np.abs(values) < 2.0**53)
    bits = np.ascontiguousarray(values, np.float64).view(np.int64)
    return np.where(whole, np.where(whole, values, 0).astype(np.int64).view(np.uint64), mixed(bits))


def run(operators: tuple[Operator, ...], x: NDArray) -> NDArray:
    """The slots that result from `x` by one operator after another."""
    for operator in operators:
        x = operator.run(x)
    return x


def levels(operators: tuple[Operator, ...]) -> int:
    """The levels that operators take one after another."""
    return sum(operator.levels for operator in operators)
