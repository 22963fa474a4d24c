"""Find rotations for a linear map of elements: which shifts, sums, masks and diagonals compute it.

A map is given by what it does to a vector, and by its entries. The planner sees neither the name of
a function nor its axes. It proposes plans by structure:

    view        each element stands where it is wanted
    Toeplitz    a sum of rotations, one for each distance between a row and its columns. The
                distances are a sum of progressions, or a part of one whose other terms read zeros
    masked      the same, after a product that clears what is unknown
    gathered    all rows have one pattern: a Toeplitz sum, then a map with one entry a row
    spread      all columns have one pattern: a map with one entry a column, then a Toeplitz sum
    diagonals   baby and giant steps: `ren.schemes.slots.diagonals`
    stages      a Toeplitz sum that would wrap around: banded matrices, a level each

Each proposal is proved by fingerprints. It runs on a vector of integers mod 2^64, one for each
element, as if drawn. It has to give what the map gives. The same run shows what is in the slots
then. The cheapest one that is proved is taken. The cost counts rotations. It has prices for levels,
for keys, and for the bits of precision that a product after a sum loses.

References: Halevi and Shoup, "Algorithms in HElib", 2014, 4.3; Freivalds, "Probabilistic machines
can use less running time", 1977 (the proof by random vectors).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from ren.schemes.slots.contents import UNKNOWN, ZERO, Contents, contents, in_order
from ren.schemes.slots.diagonals import best_placement
from ren.schemes.slots.entries import Entries
from ren.schemes.slots.operators import (
    Diagonals,
    Mask,
    Operator,
    Pair,
    Scale,
    Shift,
    Sum,
    levels,
    run,
    weights,
)

LEVEL = 6.0  # the price of a level, in rotations
BIT = 2.0  # of a bit of precision: sums of 2^k terms before a product lose k
KEY = 0.01  # of a key: among equal plans the one with fewer
ENOUGH = 2 * LEVEL  # below it a plan without levels is taken: any other takes a level and rotations
RADIX = 64  # a stage has at most so many diagonals


@attrs.frozen(eq=False, slots=False)
class LinearIndexMap:
    """A linear map of elements: y_i = sum_j A_ij x_j.

    Args:
        shape: (m, k).
        key: equal for equal maps; hashable.
        apply: A v for a vector [k] of numbers, or of integers mod 2^64.
        make_stages: matrices, the first one first, whose product is A: A itself as a rule.
        distances: of columns from rows where all that there are have entries; None for those of
            the entries. So a map with many entries is planned without them.
    """

    shape: tuple[int, int]
    key: Any
    apply: Callable[[NDArray], NDArray]
    make_stages: Callable[[], tuple[Entries, ...]]
    distances: NDArray[np.integer] | None = None

    @cached_property
    def stages(self) -> tuple[Entries, ...]:
        """The matrices whose product is A."""
        return self.make_stages()

    @property
    def entries(self) -> Entries:
        """The entries of A, which is one matrix."""
        (only,) = self.stages
        return only

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LinearIndexMap) and self.key == other.key

    @property
    def is_entries(self) -> bool:
        """True for one matrix whose entries are read."""
        return self.distances is None and len(self.stages) == 1

    @cached_property
    def weight(self) -> float | None:
        """The value of all entries; None where they differ."""
        if self.distances is not None:
            return 1.0
        values = self.entries.numbers
        return float(values[0].real) if (values == values[0].real).all() else None


def of_entries(entries: Entries) -> LinearIndexMap:
    """The map of a matrix that is given by its entries."""

    def apply(x: NDArray) -> NDArray:
        terms = weights(entries.numbers, x.dtype) * x[entries.columns]
        result = np.zeros(entries.shape[0], terms.dtype)
        np.add.at(result, entries.rows, terms)
        return result

    return LinearIndexMap(entries.shape, entries.digest, apply, lambda: (entries,))


def gather(source: NDArray[np.integer], size: int) -> LinearIndexMap:
    """y_i = x_source[i], 0 where source[i] < 0: a copy, of an array of `size` elements."""
    rows = np.flatnonzero(source >= 0)
    held, key = source[rows], ("gather", size, source.tobytes())
    made = lambda: (Entries(np.ones(len(rows)), (len(source), size), (rows, held)),)  # noqa: E731
    apply = lambda x: np.where(source < 0, x.dtype.type(0), x[source])  # noqa: E731
    return LinearIndexMap((len(source), size), key, apply, made)


def sums(source: NDArray[np.integer], size: int, weight: float = 1.0) -> LinearIndexMap:
    """y_i = weight (x_source[i, 0] + x_source[i, 1] + ...), of an array of `size` elements."""
    m, count = source.shape
    rows, values = np.repeat(np.arange(m), count), np.full(source.size, float(weight))
    return of_entries(Entries(values, (m, size), (rows, source.ravel())))


@lru_cache(maxsize=16)
def cumulative(length: int) -> LinearIndexMap:
    """y_i = x_0 + ... + x_i, of `length` elements."""

    def made() -> tuple[Entries, ...]:
        count = max(1, -(-(length - 1).bit_length() // (RADIX.bit_length() - 1)))
        radix = int(np.ceil(round(length ** (1 / count), 9)))
        steps = [radix**stage for stage in range(count) if radix**stage < length] or [1]
        return tuple(_band(length, step, min(radix, -(-length // step))) for step in steps)

    distances = np.arange(1 - length, 1)
    return LinearIndexMap((length, length), ("cumulative", length), np.cumsum, made, distances)


@attrs.frozen(eq=False)
class RotationPlan:
    """Operators one after another, and what the slots hold then.

    Args:
        operators: from the first to the last.
        contents: of the slots of the result, its elements at the places that were asked for.
        terms: for each operator, the most terms of the vector in one slot after it.
        cost: in rotations, prices included.
    """

    operators: tuple[Operator, ...]
    contents: Contents
    terms: tuple[float, ...]
    cost: float

    @property
    def levels(self) -> int:
        """The levels that it takes."""
        return levels(self.operators)

    @property
    def keys(self) -> frozenset[int]:
        """The steps that rotation keys are needed for, from 1 to slots - 1."""
        steps = frozenset[int]().union(*(operator.keys for operator in self.operators))
        return frozenset(step % self.contents.slots for step in steps) - {0}


def plan(
    m: LinearIndexMap,
    source: Contents,
    places: NDArray[np.integer] | None = None,
) -> RotationPlan:
    """The cheapest plan that takes a vector with some contents to the map of it.

    Args:
        m: the map, of as many elements as the vector has.
        source: contents of the vector. All elements stand somewhere.
        places: the slot of each element of the result; None for 0, 1, ... Others are don't-care.
    """
    where = None if places is None else np.asarray(places, np.intp).tobytes()
    return _plan(m, source, where)


@lru_cache(maxsize=64)
def left_standing(m: LinearIndexMap, source: Contents) -> RotationPlan | None:
    """A plan without levels, whose elements stand where its sums leave them; None without one.

    They are to be multiplied by the weight of the map.
    """
    if not m.is_entries or m.weight is None:
        return None
    problem = _Problem(m, source, np.empty(0, np.intp))
    for terms, places, _ in problem.standing:
        made = attrs.evolve(problem, places=places).proved((*terms, Scale(m.weight)))
        if made is not None:
            cost = float(sum(operator.cost for operator in terms))
            return attrs.evolve(made, operators=terms, terms=made.terms[: len(terms)], cost=cost)
    return None


@lru_cache(maxsize=64)
def scaled(m: LinearIndexMap, factor: float) -> LinearIndexMap:
    """The map, which is one matrix, times a number."""
    entries = m.entries
    return of_entries(attrs.evolve(entries, values=entries.numbers * factor))


@lru_cache(maxsize=64)
def _plan(m: LinearIndexMap, source: Contents, where: bytes | None) -> RotationPlan:
    places = np.arange(m.shape[0]) if where is None else np.frombuffer(where, np.intp)
    problem = _Problem(m, source, places)
    for proposal in problem.proposals():
        made = problem.proved(proposal)
        best = problem.best
        if made is not None and (best is None or made.cost < best.cost):
            problem.best = made
            if not made.levels and made.cost < ENOUGH:
                break
    assert problem.best is not None, "diagonals compute any map"
    return problem.best


@attrs.define(eq=False, slots=False)
class _Problem:
    """A map between slots: what is proposed for it, and what is proved.

    Args:
        m: between elements.
        source: contents before.
        places: slot of each element of the result.
        best: the cheapest plan until now.
    """

    m: LinearIndexMap
    source: Contents
    places: NDArray[np.intp]
    best: RotationPlan | None = None

    @cached_property
    def wanted(self) -> NDArray[np.uint64]:
        """The fingerprints of the elements of the result."""
        of_slots = self.source.fingerprint
        return self.m.apply(of_slots[self.source.places])

    def proved(self, operators: Sequence[Operator]) -> RotationPlan | None:
        """The plan of these operators; None where they do not compute the map."""
        x, live = self.source.fingerprint, (self.source.elements != ZERO).astype(np.float64)
        terms, cost, most, taken = [], 0.0, 1.0, 0
        for operator in operators:
            cost += BIT * _bits_lost(operator, most, is_rescaled=bool(taken))
            taken += operator.levels
            x, live = operator.run(x), _of_moduli(operator, live)
            most = float(live.max())
            terms.append(most)
            cost += operator.cost + LEVEL * operator.levels
        if not np.array_equal(x[self.places], self.wanted):
            return None
        made = RotationPlan(tuple(operators), self._contents(x), tuple(terms), cost)
        return attrs.evolve(made, cost=cost + KEY * len(made.keys))

    def _contents(self, x: NDArray[np.uint64]) -> Contents:
        """Contents of the slots with these fingerprints."""
        order = np.argsort(self.wanted, kind="stable")
        at = np.searchsorted(self.wanted[order], x)
        found = order[np.minimum(at, len(order) - 1)]
        _, codes = np.unique(x, return_inverse=True)
        elements = np.where(self.wanted[found] == x, found, UNKNOWN - codes)
        elements[x == 0] = ZERO
        elements[self.places] = np.arange(len(self.places))
        return contents(elements, len(self.places))

    # ------------------------------------------------------------------- proposals

    def proposals(self) -> Iterator[tuple[Operator, ...]]:
        """Plans that may be right, the ones that are cheap to find first."""
        weight, slots = self.m.weight, self.source.slots
        scaled = () if weight in (1.0, None) else (Scale(weight),)
        clear = Mask(~self.source.is_unknown)
        if weight is not None:
            yield scaled
            for distances in self._distances:
                for terms in _toeplitz(distances, slots):
                    yield (*terms, *scaled)
                    if self.source.is_unknown.any():
                        yield (clear, *terms, *scaled)
        if self.m.distances is not None:
            yield self._stages()
            return
        yield (self._diagonals(self._rows, self._columns, self.m.entries.numbers, self.source),)
        if weight is not None:
            yield from self._gathered()
            yield from self._spread()

    def _may_be_best(self, terms: Sequence[Operator], bits: float) -> bool:
        """True where these operators may be the best, beside a map of one entry a row or column."""
        least = sum(operator.cost for operator in terms) + LEVEL + BIT * bits
        return self.best is None or least < self.best.cost

    @cached_property
    def _rows(self) -> NDArray[np.intp]:
        """The slot that each entry adds to."""
        return self.places[self.m.entries.rows]

    @cached_property
    def _columns(self) -> NDArray[np.intp]:
        """The slot that each entry reads."""
        return self.source.places[self.m.entries.columns]

    @property
    def _distances(self) -> Iterator[NDArray[np.integer]]:
        """The distances of the slots that are read from those of the result, ascending.

        As they are, and as the cyclic ones of least modulus.
        """
        if self.m.distances is not None:
            yield self.m.distances
            return
        around = self.source.period or self.source.slots
        found = np.unique(self._columns - self._rows)
        cyclic = np.unique((found + around // 2) % around - around // 2)
        yield found
        if len(cyclic) < len(found) or (cyclic != found).any():
            yield cyclic

    def _gathered(self) -> Iterator[tuple[Operator, ...]]:
        """One pattern of columns for all rows: its sum in every slot, then one entry a row."""
        for terms, firsts, count in self.standing:
            if count < 2 or not self._may_be_best(terms, math.log2(count)):
                continue
            summed = run(terms, self.source.fingerprint)
            elements = np.where(summed == 0, ZERO, UNKNOWN - np.arange(self.source.slots))
            elements[firsts] = np.arange(len(firsts))
            there = contents(elements, len(firsts))
            values = np.full(len(firsts), self.m.weight)
            yield (*terms, self._diagonals(self.places, firsts, values, there))

    @property
    def standing(self) -> Iterator[tuple[tuple[Operator, ...], NDArray[np.intp], int]]:
        """Operators without a level, the slot that each element gets, and terms of an element."""
        found = _pattern(self.m.entries.rows, self._columns, self.m.shape[0])
        if found is not None and self.m.weight is not None:
            firsts, distances = found
            if len(distances) > 1:
                for terms in _toeplitz(distances, self.source.slots):
                    yield terms, firsts, len(distances)
            elif len(np.unique(firsts)) == len(firsts):
                yield (), firsts, 1

    def _spread(self) -> Iterator[tuple[Operator, ...]]:
        """One pattern of rows for all columns: one entry a column, then the sum of its copies."""
        found = _pattern(self.m.entries.columns, self._rows, self.m.shape[1])
        if found is None:
            return
        firsts, distances = found
        if len(distances) < 2:
            return
        for terms in _toeplitz(-distances[::-1], self.source.slots):
            if self._may_be_best(terms, 0):
                values = np.full(len(firsts), self.m.weight)
                yield self._diagonals(firsts, self.source.places, values, self.source), *terms

    def _diagonals(
        self, rows: NDArray, columns: NDArray, values: NDArray, there: Contents
    ) -> Diagonals:
        """The entries between slots as diagonals."""
        places = rows.astype(np.int32), columns.astype(np.int32)
        entries = Entries(values, (int(rows.max()) + 1, int(columns.max()) + 1), places)
        beyond_is_zero = bool((there.elements[entries.shape[1] :] == ZERO).all())
        placed = best_placement(entries, there.slots, None, beyond_is_zero, False, there.period)
        return Diagonals(*placed)

    def _stages(self) -> tuple[Operator, ...]:
        """The matrices whose product the map is, each on numbers in order."""
        made, there = [], self.source
        for entries in self.m.stages:
            columns = there.places[entries.columns]
            made.append(self._diagonals(entries.rows, columns, entries.numbers, there))
            there = in_order(entries.shape[0], there.slots)
        return tuple(made)


def _band(length: int, step: int, count: int) -> Entries:
    """sum_(j < count) x[i - j step], i < length, without what lies below 0."""
    place = np.arange(length)
    rows = np.concatenate([place[j * step :] for j in range(count)])
    columns = np.concatenate([place[: length - j * step] for j in range(count)])
    return Entries(np.ones(len(rows)), (length, length), (rows, columns))


def _bits_lost(operator: Operator, most: float, is_rescaled: bool) -> float:
    """The bits of precision that an operator takes.

    A product with an array rounds it, and `most` terms stand in a slot then. A sum adds the errors
    of its terms, which are large where a rescale is behind them. Those count little: a rotation
    less is worth more than half a bit for each doubling.
    """
    if isinstance(operator, Sum):
        return math.log2(operator.count) / 20 if is_rescaled else 0.0
    if isinstance(operator, Diagonals):
        return math.log2(max(most, 1.0)) + len(operator.split.folds) / 20
    return math.log2(max(most, 1.0)) if isinstance(operator, Mask) else 0.0


def _of_moduli(operator: Operator, live: NDArray[np.float64]) -> NDArray[np.float64]:
    """The most terms of the vector in each slot, each with its weight."""
    if isinstance(operator, Diagonals):
        entries = operator.placement.entries
        moduli = attrs.evolve(entries, values=np.abs(entries.numbers))
        return attrs.evolve(
            operator, placement=attrs.evolve(operator.placement, entries=moduli)
        ).run(live)
    return np.abs(operator.run(live))


def _pattern(
    lines: NDArray[np.integer], across: NDArray[np.integer], count: int
) -> tuple[NDArray[np.intp], NDArray[np.intp]] | None:
    """The first of what each line holds, and the distances from it, where these are common to all.

    Args:
        lines: the row of each entry.
        across: the slot of its column.
        count: number of rows.
    """
    each, rest = divmod(len(lines), count)
    if rest or not each or not np.array_equal(np.bincount(lines, minlength=count), [each] * count):
        return None
    table = across[np.lexsort((across, lines))].reshape(count, each)
    distances = table - table[:, :1]
    if (distances != distances[0]).any():
        return None
    return table[:, 0].astype(np.intp), distances[0].astype(np.intp)


# ------------------------------------------------------------------- sums of rotations


def _toeplitz(distances: NDArray[np.integer], slots: int) -> Iterator[tuple[Operator, ...]]:
    """Shifts and sums whose rotations are those by the distances, or more that hold them."""
    if len(distances) == 2 and distances.all():
        yield (Pair(*distances.tolist()),)
    for steps in _completed(distances, slots):
        made = _factored(steps)
        if made is not None:
            yield made


def _completed(distances: NDArray[np.integer], slots: int) -> Iterable[NDArray[np.integer]]:
    """The distances, and progressions that hold them: other terms may read zeros alone."""
    yield distances
    if len(distances) < 2:
        return
    step = int(np.gcd.reduce(np.diff(distances)))
    count = int(distances[-1] - distances[0]) // step + 1
    for terms in sorted({count, 1 << (count - 1).bit_length()}):
        if terms * step <= slots and terms < 4 * len(distances):
            yield distances[0] + step * np.arange(terms)
            yield distances[-1] - step * np.arange(terms)[::-1]


def _factored(steps: NDArray[np.integer]) -> tuple[Operator, ...] | None:
    """Ascending steps as a shift and sums of progressions; None where they are no such sum."""
    if len(steps) > 1 and steps[-1] == 0:
        other_way = _factored(-steps[::-1])
        return None if other_way is None else tuple(map(_mirrored, other_way))
    low, rest = int(steps[0]), steps - steps[0]
    made: list[Operator] = [Shift(low)] if low else []
    while len(rest) > 1:
        options = [found for step in rest[1:9].tolist() if (found := _progression(rest, step))]
        if not options:
            return None
        count, step, rest = max(options, key=lambda option: option[0])
        made.append(Sum(count, step))
    return tuple(made)


def _progression(steps: NDArray[np.integer], step: int) -> tuple[int, int, NDArray] | None:
    """The steps as starts plus 0, step, ... of `count` terms: count, step and starts."""
    starts = steps[~np.isin(steps - step, steps)]
    count, rest = divmod(len(steps), len(starts))
    if rest or count < 2:
        return None
    whole = np.sort((starts[:, None] + step * np.arange(count)).ravel())
    return (count, step, starts) if np.array_equal(whole, steps) else None


def _mirrored(operator: Any) -> Operator:
    """The operator that rotates the other way."""
    if isinstance(operator, Shift):
        return Shift(-operator.steps)
    return Sum(operator.count, -operator.step)
