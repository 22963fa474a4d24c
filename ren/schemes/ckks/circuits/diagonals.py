"""A matrix as diagonals over the cyclic slots, and how its rotations are split into two steps.

y = M x is sum_d v_d rot_d(x), v_d[i] = M[i, i + d]. With d = g + b it is

    sum_g rot_g( sum_b rot_-g(v_(g+b)) rot_b(x) )

so that baby steps b and giant steps g are rotated by, not each d: about 2 sqrt(count) rotations.
All baby steps rotate x and share one ModUp; each giant step has one of its own.

Vectors longer than the slots are blocks, and the matrix is cut into tiles of slots x slots. All
tiles have one split: each block of x has its baby steps once, each block of y its giant steps.

References: Halevi and Shoup, "Algorithms in HElib", 2014, 4.3 (diagonals), and "Faster homomorphic
linear transformations in HElib", 2018 (two steps, one key for all giants); Juvekar et al.,
"Gazelle", 2018 (a wide matrix folds its diagonals).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from ren.core.errors import ParameterError
from ren.schemes.ckks.circuits.entries import Entries

# {(block of y, block of x, step): v}, v of length `slots`.
Diagonals = dict[tuple[int, int, int], NDArray]

_MOST_STRIDES = 128  # of those that the distances between few diagonals suggest


@attrs.frozen
class Split:
    """Split of the steps of diagonals into giant and baby steps.

    Args:
        stride: step = giant + baby, and giant is a multiple of it.
        first: babies lie in [first, first + stride), first <= 0.
        babies, giants: the steps, ascending; negative ones rotate the other way.
        is_chained: one key for all giant steps: from the highest down, each time by the stride.
        is_walked: one key for all baby steps as well: one after another by `unit`.
        unit: all steps are multiples of it.
        folds: halving steps at the end, for a wide matrix.
        blocks: of y and of x.
    """

    stride: int
    first: int
    babies: tuple[int, ...]
    giants: tuple[int, ...]
    is_chained: bool = False
    is_walked: bool = False
    unit: int = 1
    folds: tuple[int, ...] = ()
    blocks: tuple[int, int] = (1, 1)

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
        """Number of rotations, at most: tiles may need fewer."""
        babies = max(self.babies) // self.unit if self.is_walked else _nonzero(self.babies)
        giants = _nonzero(self.giants)
        if self.is_chained:
            span = (self.giants[-1] - self.giants[0]) // self.stride
            giants = span + (self.giants[0] != 0)
        return self.blocks[1] * babies + self.blocks[0] * (giants + len(self.folds))


def _nonzero(steps: Iterable[int]) -> int:
    return sum(step != 0 for step in steps)


def split(
    steps: Iterable[int],
    keys: int | None = None,
    folds: tuple[int, ...] = (),
    blocks: tuple[int, int] = (1, 1),
) -> Split:
    """The split with the fewest rotations, among those that need at most `keys` rotation keys."""
    steps = np.array(sorted(steps))
    candidates = _candidates(steps, folds, blocks, keys is not None)
    candidates.sort(key=lambda s: len(s.giants))  # of equal cost the fewest
    return fewest(candidates, keys, f"A matrix with {len(steps)} diagonals was")


def fewest(candidates: Sequence[Any], keys: int | None, what: str) -> Any:
    """The first of the fewest rotations, then keys, among those of at most `keys` rotation keys.

    Raises ParameterError where none needs so few.
    """
    fitting = [c for c in candidates if keys is None or len(c.keys) <= keys]
    if not fitting:
        least = min(len(c.keys) for c in candidates)
        raise ParameterError(
            f"{what} to be multiplied with keys={keys}.",
            f"It takes {least} rotation keys at least.",
            f"Pass keys={least} or more, or leave keys out for the fewest rotations.",
        )
    return min(fitting, key=lambda c: (c.rotations, len(c.keys)))


def _candidates(
    steps: NDArray, folds: tuple[int, ...], blocks: tuple[int, int], sparing: bool
) -> list[Split]:
    unit = math.gcd(*(int(s) for s in steps)) or 1
    span = int(steps[-1] - steps[0]) // unit + 1
    most = min(span, 4 * math.isqrt(span) + 4)
    distances = ((steps[1:] - steps[0]) // unit).tolist()  # images have several channels
    few = distances if len(distances) <= _MOST_STRIDES else []
    splits = []
    for count in sorted({*range(1, most + 1), *few, span}):
        stride = count * unit
        low = int(steps[0]) % stride
        firsts = {0, unit - stride, -(count // 2) * unit, low - stride if low else 0}
        for first in sorted(firsts):
            offsets = (steps - first) % stride + first
            babies, giants = (tuple(np.unique(x).tolist()) for x in (offsets, steps - offsets))
            splits.append(Split(stride, first, babies, giants, False, False, unit, folds, blocks))
    if sparing:
        chained = [attrs.evolve(s, is_chained=True) for s in splits]
        splits += chained
        splits += [attrs.evolve(s, is_walked=True) for s in chained if s.first == 0]
    return splits


def square_diagonals(m: Entries, slots: int) -> Diagonals:
    """v_d: row i times the slot i + d. Zero diagonals are left out."""
    return _gathered(m, m.rows, slots)


def folded_diagonals(m: Entries, slots: int) -> tuple[Diagonals, tuple[int, ...]]:
    """Diagonals of a wide matrix that go around its rows, and the steps that add what they leave.

    With w, a power of two, rows: the entry (r, j) stands in slot i = r (mod w), j <= i < j + w.
    The sum over all slots i = r (mod w) is y_r: log2 of their number of folds. Blocks of x are
    added up before, slot by slot.
    """
    width = 1 << (m.shape[0] - 1).bit_length()
    places = m.columns + (m.rows - m.columns) % width
    chunks = int(places.max(initial=0)) // width + 1
    count = min(1 << (chunks - 1).bit_length(), slots // width)
    folds = tuple(width * count >> s for s in range(1, count.bit_length()))
    return _gathered(m, places, slots, blocks=1), folds


def _gathered(m: Entries, places: NDArray, slots: int, blocks: int | None = None) -> Diagonals:
    """The entries by tile and step, each at its place; `blocks` of y, those of the rows if None."""
    rows = places // slots if blocks is None else np.zeros_like(places)
    blocks = blocks or -(-m.shape[0] // slots)
    columns = m.columns // slots
    steps = _cyclic(m.columns - places, slots)
    order = np.lexsort((steps, columns, rows))
    changes = sum(np.abs(np.diff(x[order])) for x in (rows, columns, steps))
    vectors: Diagonals = {}
    for part in np.split(order, np.flatnonzero(changes) + 1):
        if len(part):
            vector = np.zeros(slots, m.values.dtype)
            vector[places[part] % slots] = m.values[part]
            first = part[0]
            vectors[int(rows[first]), int(columns[first]), int(steps[first])] = vector
    for row in set(range(blocks)) - {row for row, _, _ in vectors}:
        vectors[row, 0, 0] = np.zeros(slots, m.values.dtype)
    return vectors


def _cyclic(steps: NDArray, slots: int) -> NDArray:
    """Equal numbers for equal rotations; as they are where they are so: their pattern is kept."""
    if not len(steps) or steps.max() - steps.min() < slots:
        return steps
    return (steps + slots // 2) % slots - slots // 2


def best_diagonals(m: Entries, slots: int, keys: int | None) -> tuple[Diagonals, Split]:
    """The diagonals and their split, folded where that takes fewer rotations."""
    blocks = -(-m.shape[0] // slots), -(-m.shape[1] // slots)
    options: list[tuple[Diagonals, tuple[int, ...]]] = [(square_diagonals(m, slots), ())]
    if m.shape[0] < min(m.shape[1], slots):
        options.append(folded_diagonals(m, slots))
    found, failures = [], []
    for diagonals, folds in options:
        try:
            steps = {step for _, _, step in diagonals}
            found.append((diagonals, split(steps, keys, folds, blocks)))
        except ParameterError as error:
            failures.append(error)
    if not found:
        raise failures[0]
    return min(found, key=lambda option: option[1].rotations)
