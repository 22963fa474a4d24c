"""A matrix as diagonals over the cyclic slots, and how its rotations are split into two steps.

y = M x is sum_d v_d rot_d(x), v_d[i] = M[i, i + d]. With d = g + b it is

    sum_g rot_g( sum_b rot_-g(v_(g+b)) rot_b(x) )

so that baby steps b and giant steps g are rotated by, not each d: about 2 sqrt(count) rotations.
All baby steps rotate x and share one ModUp; each giant step has one of its own.

References: Halevi and Shoup, "Algorithms in HElib", 2014, 4.3 (diagonals), and "Faster homomorphic
linear transformations in HElib", 2018 (two steps, one key for all giants); Juvekar et al.,
"Gazelle", 2018 (a wide matrix folds its diagonals).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import attrs
import numpy as np
from numpy.typing import NDArray

from ren.core.errors import ParameterError

Diagonals = dict[int, NDArray]


@attrs.frozen
class Split:
    """How the steps of diagonals are reached.

    Args:
        stride: step = giant + baby, and giant is a multiple of it.
        first: babies lie in [first, first + stride), first <= 0.
        babies, giants: the steps, ascending; negative ones rotate the other way.
        is_chained: one key for all giant steps: from the highest down, each time by the stride.
        is_walked: one key for all baby steps as well: one after another by `unit`.
        unit: all steps are multiples of it.
        folds: halving steps at the end, for a wide matrix.
    """

    stride: int
    first: int
    babies: tuple[int, ...]
    giants: tuple[int, ...]
    is_chained: bool = False
    is_walked: bool = False
    unit: int = 1
    folds: tuple[int, ...] = ()

    def parted(self, step: int) -> tuple[int, int]:
        """The giant and the baby whose sum is the step."""
        baby = (step - self.first) % self.stride + self.first
        return step - baby, baby

    @property
    def keys(self) -> frozenset[int]:
        """The steps that rotation keys are needed for."""
        babies = {self.unit} if self.is_walked and max(self.babies) else set(self.babies)
        giants = set(self.giants)
        if self.is_chained:
            giants = {self.giants[0]} | ({self.stride} if len(self.giants) > 1 else set())
        return frozenset((babies | giants | set(self.folds)) - {0})

    @property
    def rotations(self) -> int:
        """How often something is rotated."""
        babies = max(self.babies) // self.unit if self.is_walked else _nonzero(self.babies)
        giants = _nonzero(self.giants)
        if self.is_chained:
            span = (self.giants[-1] - self.giants[0]) // self.stride
            giants = span + (self.giants[0] != 0)
        return babies + giants + len(self.folds)


def _nonzero(steps: Iterable[int]) -> int:
    return sum(step != 0 for step in steps)


def split(steps: Iterable[int], keys: int | None = None, folds: tuple[int, ...] = ()) -> Split:
    """The split with the fewest rotations, among those that need at most `keys` rotation keys.

    Raises:
        ParameterError: no split needs so few.
    """
    steps = np.array(sorted(steps))
    found = _candidates(steps, folds, keys is not None)
    fitting = [s for s in found if keys is None or len(s.keys) <= keys]
    if not fitting:
        least = min(len(s.keys) for s in found)
        raise ParameterError(
            f"A matrix with {len(steps)} diagonals was to be multiplied with keys={keys}.",
            f"It takes {least} rotation keys at least.",
            f"Pass keys={least} or more, or leave keys out for the fewest rotations.",
        )
    return min(fitting, key=lambda s: (s.rotations, len(s.keys), len(s.giants)))


def _candidates(steps: NDArray, folds: tuple[int, ...], sparing: bool) -> list[Split]:
    unit = math.gcd(*(int(s) for s in steps)) or 1
    span = int(steps[-1] - steps[0]) // unit + 1
    most = min(span, 4 * math.isqrt(span) + 4)
    found = []
    for count in {*range(1, most + 1), span}:
        stride = count * unit
        low = int(steps[0]) % stride
        firsts = {0, unit - stride, -(count // 2) * unit, low - stride if low else 0}
        found += [_of_stride(steps, stride, first, unit, folds) for first in sorted(firsts)]
    if sparing:
        chained = [attrs.evolve(s, is_chained=True) for s in found]
        found += chained
        found += [attrs.evolve(s, is_walked=True) for s in chained if s.first == 0]
    return found


def _of_stride(steps: NDArray, stride: int, first: int, unit: int, folds: tuple[int, ...]) -> Split:
    offsets = (steps - first) % stride + first
    babies, giants = np.unique(offsets).tolist(), np.unique(steps - offsets).tolist()
    return Split(stride, first, tuple(babies), tuple(giants), unit=unit, folds=folds)


def square_diagonals(matrix: NDArray, slots: int) -> Diagonals:
    """{d: v_d}, v_d of length `slots`: row i times the slot i + d. Zero diagonals are left out."""
    rows, columns = np.nonzero(matrix)
    return _gathered(matrix, rows, columns, rows, slots)


def folded_diagonals(matrix: NDArray, slots: int) -> tuple[Diagonals, tuple[int, ...]]:
    """Diagonals of a wide matrix that go around its rows, and the steps that add what they leave.

    With w, a power of two, rows: the entry (r, j) stands in slot i = r (mod w), j <= i < j + w.
    The sum over all slots i = r (mod w) is y_r: log2 of their number of folds.
    """
    width = 1 << (matrix.shape[0] - 1).bit_length()
    rows, columns = np.nonzero(matrix)
    places = columns + (rows - columns) % width
    chunks = int(places.max(initial=0)) // width + 1
    count = min(1 << (chunks - 1).bit_length(), slots // width)
    folds = tuple(width * count >> s for s in range(1, count.bit_length()))
    return _gathered(matrix, rows, columns, places, slots), folds


def _gathered(
    matrix: NDArray, rows: NDArray, columns: NDArray, places: NDArray, slots: int
) -> Diagonals:
    steps = (columns - places + slots // 2) % slots - slots // 2
    order = np.argsort(steps, kind="stable")
    found: Diagonals = {}
    for part in np.split(order, np.flatnonzero(np.diff(steps[order])) + 1):
        if len(part):
            vector = np.zeros(slots, matrix.dtype)
            vector[places[part] % slots] = matrix[rows[part], columns[part]]
            found[int(steps[part[0]])] = vector
    return found or {0: np.zeros(slots, matrix.dtype)}


def best_diagonals(
    matrix: NDArray, slots: int, keys: int | None
) -> tuple[Mapping[int, NDArray], Split]:
    """The diagonals and their split, folded where that takes fewer rotations."""
    plain = square_diagonals(matrix, slots)
    options: list[tuple[Mapping[int, NDArray], tuple[int, ...]]] = [(plain, ())]
    if matrix.shape[0] < matrix.shape[1]:
        options.append(folded_diagonals(matrix, slots))
    found, failures = [], []
    for diagonals, folds in options:
        try:
            found.append((diagonals, split(diagonals, keys, folds)))
        except ParameterError as error:
            failures.append(error)
    if not found:
        raise failures[0]
    return min(found, key=lambda option: option[1].rotations)
