"""A matrix as diagonals over the cyclic slots, and how its rotations are split into two steps.

y = M x is sum_d v_d rot_d(x), v_d[i] = M[i, i + d]. With d = g + b it is

    sum_g rot_g( sum_b rot_-g(v_(g+b)) rot_b(x) )

so that baby steps b and giant steps g are rotated by, not each d: about 2 sqrt(count) rotations.
All baby steps rotate x and share one ModUp; each giant step has one of its own.

m rows and k columns have up to m + k - 1 diagonals. Two ways around take fewer:

    folded      around the m rows of a wide matrix: m diagonals, then log2(k / m + 1) rotations
    replicated  around the k columns of a tall or square one: k diagonals. The vector is copied
                every k slots: log2(m / k + 1) rotations before, or none where its slots repeat.
                The result of folds around all slots repeats

Steps around rows are negative. Those around columns are too, so that maps share rotation keys. But
a tall matrix without such slots needs copies behind the vector, and its steps are positive.

Vectors longer than the slots are blocks, and the matrix is cut into tiles of slots x slots. All
tiles have one split: each block of x has its baby steps once, each block of y its giant steps.

References: Halevi and Shoup, "Algorithms in HElib", 2014, 4.3 (diagonals), and "Faster homomorphic
linear transformations in HElib", 2018 (two steps, one key for all giants); Juvekar et al.,
"Gazelle", 2018 (a wide matrix folds its diagonals).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, lru_cache, partial
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from ren.core.errors import ParameterError
from ren.poly.symbolic import Symbolic, derived
from ren.schemes.slots.entries import Entries

_PART = 1 << 18  # entries whose places are in memory together
_MOST_STRIDES = 128  # of those that the distances between few diagonals suggest

# Times of a product with a diagonal, and of a rotation that shares its ModUp, in rotations that do
# not. Measured at n = 2^13 on two levels.
_PRODUCT, _SHARED = 0.04, 0.5
_NEAR = 1.07  # times the least: no reason to need keys of its own


Place = tuple[int, int, int, int]  # block of the result and of the vector, giant and baby step


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
        copies: how often the vector stands in the slots; it is replicated first.
        period: slots from one copy to the next; negative where the copy stands before the vector.
        is_paired: whether two babies are the real and the imaginary part of one vector.
        is_wide: whether diagonals are known over the special primes too. Sums of products are then
            divided by P, and not each baby before them.
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
    copies: int = 1
    period: int = 0
    is_paired: bool = False
    is_wide: bool = True

    @cached_property
    def pairs(self) -> dict[int, int | None]:
        """The first baby of each pair, and the second if there is one."""
        seconds = (*self.babies[1::2], None)
        return dict(zip(self.babies[::2], seconds, strict=False))

    @cached_property
    def first_of(self) -> dict[int, int]:
        """The first baby of its pair, for each baby."""
        return {b: pair[0] for pair in self.pairs.items() for b in pair if b is not None}

    def parted(self, step: int) -> tuple[int, int]:
        """The giant and the baby whose sum is the step."""
        baby = (step - self.first) % self.stride + self.first
        return step - baby, baby

    def saves_by_sums(self, places: Sequence[Place], limbs: int, specials: int) -> bool:
        """True where dividing sums of products by P takes less time than dividing each baby.

        That goes for babies that one sum alone reads: what others read is divided before. It saves
        divisions of both components, with a transform of each limb. It costs a product with each
        special prime, half of a transform.
        """
        sums: dict[tuple[int, int], set[tuple[int, int]]] = {}
        for row, column, giant, baby in places:
            sums.setdefault((column, baby), set()).add((row, giant))
        own = [one for one in sums.values() if len(one) == 1] if not self.is_walked else []
        saved = 2 * (len(own) - len(set().union(*own)))
        return 2 * saved * (limbs + specials) > len(places) * specials

    @property
    def keys(self) -> frozenset[int]:
        """The steps that rotation keys are needed for."""
        babies = {self.unit} if self.is_walked and max(self.babies) else set(self.babies)
        giants = set(self.giants)
        if self.is_chained:
            giants = {self.giants[0]} | ({self.stride} if len(self.giants) > 1 else set())
        copied = doublings(self.copies, -self.period)
        return frozenset((babies | giants | {*self.folds, *copied}) - {0})

    @property
    def rotations(self) -> int:
        """Number of rotations, at most: tiles may need fewer. Conjugations count too."""
        return self._shared + self._unshared

    def cost(self, products: int) -> float:
        """The time with so many diagonals, in rotations."""
        products = products // 2 if self.is_paired else products
        return self._shared * _SHARED + self._unshared + products * _PRODUCT

    @property
    def _shared(self) -> int:
        """Number of baby steps that share a ModUp."""
        return 0 if self.is_walked else self.blocks[1] * _nonzero(self.babies)

    @property
    def _unshared(self) -> int:
        """Number of rotations that share none."""
        walked = max(self.babies) // self.unit if self.is_walked else 0
        giants = _nonzero(self.giants)
        if self.is_chained:
            span = (self.giants[-1] - self.giants[0]) // self.stride
            giants = span + (self.giants[0] != 0)
        after = self.blocks[0] * (giants + len(self.folds) + self.is_paired)
        return _rotations_of(self.copies) + self.blocks[1] * walked + after


def _distinct(steps: NDArray) -> tuple[int, ...]:
    """The different ones, ascending."""
    low = steps.min(initial=0)
    return tuple((np.flatnonzero(np.bincount(steps - low)) + low).tolist())


def _nonzero(steps: Iterable[int]) -> int:
    return sum(step != 0 for step in steps)


def doublings(count: int, step: int) -> list[int]:
    """The steps of the rotations by which a sum of `count` terms, `step` apart, is made."""
    return [(count >> i) * step for i in range(1, count.bit_length())]


def _rotations_of(count: int) -> int:
    """Number of these rotations: one a doubling, and one a term that is added between."""
    return count.bit_length() + count.bit_count() - 2


def split(steps: Iterable[int], keys: int | None = None, **shape: Any) -> Split:
    """The split that takes the least time, among those that need at most `keys` rotation keys.

    Among those that take nearly as little time and keys, a stride that is a power of two comes
    first. Other maps have such strides too, and one key serves all. `shape` are the folds, blocks,
    copies and period of a `Split`.
    """
    return _split(tuple(sorted(steps)), keys, tuple(sorted(shape.items())))


@lru_cache(maxsize=64)  # trials of `ckks.plan` meet the same steps at each depth
def _split(found: tuple[int, ...], keys: int | None, shape: tuple[tuple[str, Any], ...]) -> Split:
    steps = np.array(found)
    candidates = _candidates(steps, dict(shape), keys is not None)
    candidates.sort(key=lambda s: len(s.giants))  # of equal cost the fewest
    fit = fitting(candidates, keys, f"A matrix with {len(steps)} diagonals was")
    costs = [s.cost(len(steps)) for s in fit]
    near = [(s, cost) for s, cost in zip(fit, costs, strict=True) if cost <= _NEAR * min(costs)]
    most = _NEAR * min(len(s.keys) for s, _ in near)
    few = [(s, cost) for s, cost in near if len(s.keys) <= most]
    return min(few, key=lambda one: (_is_rare(one[0]), one[1], len(one[0].keys)))[0]


def _is_rare(s: Split) -> bool:
    """True where no other map is likely to have the giant steps of a split."""
    return s.stride & (s.stride - 1) != 0


def fewest(candidates: Sequence[Any], keys: int | None, what: str) -> Any:
    """The first of the fewest rotations, then keys, among those of at most `keys` rotation keys.

    Raises ParameterError where none needs so few.
    """
    fit = fitting(candidates, keys, what)
    return min(fit, key=lambda c: (c.rotations, len(c.keys)))


def fitting(candidates: Sequence[Any], keys: int | None, what: str) -> list[Any]:
    """Those of at most `keys` rotation keys.

    Raises ParameterError where none needs so few.
    """
    fit = [c for c in candidates if keys is None or len(c.keys) <= keys]
    if not fit:
        least = min(len(c.keys) for c in candidates)
        raise ParameterError(
            f"{what} to be multiplied with keys={keys}.",
            f"It takes {least} rotation keys at least.",
            f"Pass keys={least} or more, or leave keys out for no limit.",
        )
    return fit


def _candidates(steps: NDArray, shape: dict[str, Any], sparing: bool) -> list[Split]:
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
            babies, giants = map(_distinct, (offsets, steps - offsets))
            splits.append(Split(stride, first, babies, giants, unit=unit, **shape))
    if sparing:
        chained = [attrs.evolve(s, is_chained=True) for s in splits]
        splits += chained
        splits += [attrs.evolve(s, is_walked=True) for s in chained if s.first == 0]
    return splits


# ------------------------------------------------------------------- places


@attrs.frozen(eq=False)
class Placement:
    """A way around: where the entries of a matrix stand, before diagonals are written out.

    Places and steps are computed for a part of the entries at a time. A place is a slot of y, cut
    into blocks. A step leads from it to the slot of x, and is equal where rotations are.

    Args:
        entries: of the matrix.
        slots: of one ciphertext.
        rows: blocks of y.
        width: the rows that it goes around, 0 for none. The entry (r, j) then stands in slot
            i = r (mod width), j <= i < j + width.
        folds, copies, period: as of a `Split`. Steps have the sign of the period.
    """

    entries: Entries
    slots: int
    rows: int
    width: int = 0
    folds: tuple[int, ...] = ()
    copies: int = 1
    period: int = 0

    def split(self, keys: int | None = None, is_paired: bool = False) -> Split:
        """The split of its steps; ParameterError where it takes more keys."""
        steps = sorted({step for _, _, step in self.tiles})
        blocks = (self.rows, -(-self.entries.shape[1] // self.slots))
        copied = {"copies": self.copies, "period": self.period}
        return split(steps, keys, folds=self.folds, blocks=blocks, is_paired=is_paired, **copied)

    @cached_property
    def tiles(self) -> list[tuple[int, int, int]]:
        """Block of y, block of x and step of each diagonal; each block of y has one at least."""
        (low, _), held = self._limits, np.flatnonzero(self._counts)
        row, column, step = (x.tolist() for x in np.unravel_index(held, self._table))
        tiles = [(i, j, d + low) for i, j, d in zip(row, column, step, strict=True)]
        return tiles + [(i, 0, 0) for i in sorted(set(range(self.rows)) - set(row))]

    def vectors(self, start: int, shifts: Sequence[int]) -> NDArray | Symbolic:
        """The diagonals of `tiles` from `start` on, each rotated by its shift.

        Returns:
            [len(shifts), slots]; what is added to y_i stands at slot i + shift, cyclic.
        """
        ends = self._ends[start : start + len(shifts) + 1]
        held, counts = self._order[ends[0] : ends[-1]], np.diff(ends)
        slots = self._places(held) + np.repeat(np.asarray(shifts, np.intp), counts)
        places = np.repeat(np.arange(len(shifts)), counts) * self.slots + slots % self.slots

        def written(values: NDArray) -> NDArray:
            vectors = np.zeros(len(shifts) * self.slots, values.dtype)
            vectors[places] = values[held]
            return vectors.reshape(len(shifts), self.slots)

        return derived(written, self.entries.values)

    def largest_row(self, folds: Iterable[int]) -> Any:
        """The largest sum of moduli along a row, with what the steps of a wide matrix add up."""
        return derived(partial(self._largest_row, folds), self.entries.values)

    def _largest_row(self, folds: Iterable[int], values: NDArray) -> float:
        sums = np.zeros(self.rows * self.slots)
        for part in self._parts(len(sums)):
            place = self._places(part) if self.rows > 1 else self._places(part) % self.slots
            sums += np.bincount(place, np.abs(values[part]), len(sums))
        rows = sums.reshape(self.rows, self.slots)
        for step in folds:
            rows = rows + np.roll(rows, -step, -1)
        return float(rows.max())

    @cached_property
    def extent(self) -> int:
        """Slots of y up to the last place, and to the last slot that a copy of x is read at."""
        most = 0
        for part in self._parts():
            places = self._places(part)
            most = max(most, int((places + self._steps(part) if self.period else places).max()))
        return most + 1

    def _parts(self, least: int = 1) -> Iterator[slice]:
        """The entries, `least` or more at a time."""
        size = max(_PART, least)
        return (slice(i, i + size) for i in range(0, len(self.entries.values), size))

    def _places(self, part: slice | NDArray) -> NDArray[np.integer]:
        rows, columns = self.entries.places_of(part)
        return columns + (rows - columns) % self.width if self.width else rows

    def _steps(self, part: slice) -> NDArray[np.integer]:
        """Steps of a part, cyclic only where they span the slots: else their pattern is kept."""
        steps = self._uncut(part)
        return (steps + self.slots // 2) % self.slots - self.slots // 2 if self._is_cut else steps

    def _uncut(self, part: slice) -> NDArray[np.integer]:
        steps = self.entries.places_of(part)[1] - self._places(part)
        return steps % self.period if self.period else steps

    @property
    def places_and_steps(self) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
        """The slot of y of each entry, and the step from it to the slot of x."""
        return self._places(whole := slice(None)), self._steps(whole)

    @cached_property
    def _is_cut(self) -> bool:
        low, high = self._span(self._uncut)
        return high - low >= self.slots

    @cached_property
    def _limits(self) -> tuple[int, int]:
        """The least step and the largest, 0 where there is none."""
        return self._span(self._steps)

    def _span(self, steps: Callable[[slice], NDArray]) -> tuple[int, int]:
        found = [(int(x.min()), int(x.max())) for x in map(steps, self._parts())] or [(0, 0)]
        return min(low for low, _ in found), max(high for _, high in found)

    @cached_property
    def _table(self) -> tuple[int, int, int]:
        """Number of blocks of y, of blocks of x, and of the steps between the limits."""
        low, high = self._limits
        return self.rows, -(-self.entries.shape[1] // self.slots), high - low + 1

    def _codes(self, part: slice) -> NDArray[np.intp]:
        """Number of the diagonal of each entry, in a table of all that may be."""
        _, columns, steps = self._table
        codes = self._steps(part).astype(np.intp) - self._limits[0]
        if columns > 1:
            codes += self.entries.places_of(part)[1] // self.slots * steps
        if self.rows > 1:
            codes += self._places(part) // self.slots * (columns * steps)
        return codes

    @cached_property
    def _counts(self) -> NDArray[np.intp]:
        """Number of the entries of each diagonal of the table."""
        counts = np.zeros(math.prod(self._table), np.intp)
        for part in self._parts(len(counts)):
            counts += np.bincount(self._codes(part), minlength=len(counts))
        return counts

    @cached_property
    def _ends(self) -> NDArray[np.intp]:
        """Among the entries sorted by diagonal, where those of each of the `tiles` end, from 0."""
        ends = np.zeros(len(self.tiles) + 1, np.intp)
        held = self._counts[self._counts > 0]
        ends[1 : len(held) + 1] = held
        return np.cumsum(ends)

    @cached_property
    def _order(self) -> NDArray[np.integer]:
        """The entries sorted by diagonal, those of one in their order."""
        count = len(self.entries.values)
        order = np.empty(count, np.int32 if count < 1 << 31 else np.int64)
        begins = np.cumsum(self._counts) - self._counts
        for part in self._parts(len(begins)):
            codes = self._codes(part)
            inside = np.argsort(codes, kind="stable")
            counts = np.bincount(codes, minlength=len(begins))
            first = np.cumsum(counts) - counts
            sorted_codes = codes[inside]
            places = (begins - first)[sorted_codes] + np.arange(len(codes))
            order[places] = inside + part.start
            begins += counts
        return order


def square(m: Entries, slots: int) -> Placement:
    """Row i times the slot i + d: diagonals that are zero are left out."""
    return Placement(m, slots, -(-m.shape[0] // slots))


def folded(m: Entries, slots: int, width: int) -> Placement | None:
    """Around `width` rows, at least as many as there are, and the steps that add what they leave.

    The sum over all slots i = r (mod width) is y_r: log2 of their number of folds. Blocks of x are
    added up before, slot by slot. None where the slots have no room for the width.
    """
    made = Placement(m, slots, 1, width)
    chunks = (made.extent - 1) // width + 1
    count = 1 << (chunks - 1).bit_length()
    if count * width > slots:  # around all slots, blocks too
        if slots % width:
            return None
        count = slots // width
    return attrs.evolve(made, folds=tuple(width * count >> s for s in range(1, count.bit_length())))


def replicated(m: Entries, slots: int, period: int, is_before: bool = False) -> Placement | None:
    """Around `period` columns, at least as many as there are, of a vector with that period.

    Row i times the slot i + d, 0 <= d < period; or -period < d <= 0 with one copy, which
    `is_before` the vector. None where there is no room for the copies.
    """
    if is_before:
        has_room = m.shape[0] <= period and 2 * period <= slots
        return Placement(m, slots, 1, copies=2, period=-period) if has_room else None
    made = Placement(m, slots, -(-m.shape[0] // slots), period=period)
    least = -(-made.extent // period)
    most = slots // period
    if least > most:
        if slots % period or not most:
            return None
        least = most  # around all slots, blocks too
    copies = min(range(least, most + 1), key=lambda count: (_rotations_of(count), count))
    return attrs.evolve(made, copies=copies)


def best_placement(
    m: Entries,
    slots: int,
    keys: int | None = None,
    can_replicate: bool = False,
    is_paired: bool = False,
    period: int = 0,
) -> tuple[Placement, Split]:
    """The way around that takes the least time, with at most `keys` rotation keys.

    Args:
        m: the matrix.
        slots: of one ciphertext.
        keys: None for any number.
        can_replicate: whether the slots of x beyond its length are zeros.
        is_paired: as of a `Split`.
        period: of all slots of x; 0 where they do not repeat.

    Raises:
        ParameterError: none needs so few keys.
    """
    best, failures = None, []
    for option in _options(m, slots, can_replicate, period, keys is not None):
        try:
            found = option, option.split(keys, is_paired)
        except ParameterError as error:
            failures.append(error)
            continue
        cost = found[1].cost(len(option.tiles))
        if best is None or cost < best[0]:
            best = cost, found
    if best is None:
        raise failures[0]
    return best[1]


def _options(
    m: Entries, slots: int, can_replicate: bool, period: int, is_sparing: bool
) -> Iterator[Placement]:
    """The ways around for which the slots have room; of more signs of steps for few keys."""
    rows, columns = m.shape
    yield square(m, slots)
    made: list[Placement | None] = []
    if rows < min(columns, slots):
        made += [folded(m, slots, width) for width in _widths(rows)]
    if period and columns <= min(rows, slots):  # the copies are there
        around = max(period, *_widths(columns))
        made.append(Placement(m, slots, -(-rows // slots), period=-around))
        if is_sparing:
            made.append(attrs.evolve(made[-1], period=around))
    elif can_replicate and columns <= min(rows, slots):
        for width in _widths(columns):
            before = replicated(m, slots, width, is_before=True)
            made.append(before)
            if before is None or is_sparing:
                made.append(replicated(m, slots, width))
    yield from (placement for placement in made if placement is not None)


def _widths(count: int) -> list[int]:
    """A number, and the next power of two, which divides the slots."""
    return sorted({count, 1 << (count - 1).bit_length()})
