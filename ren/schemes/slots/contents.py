"""Contents of the slots: which element of an array stands in each, zeros, and what is unknown.

Copies, periods, padding and leftovers are one thing. An element may stand in many slots, and a slot
may hold none. `ren.schemes.slots.planner` reads contents, and says what is in the slots afterwards.
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from weakref import WeakValueDictionary

import attrs
import numpy as np
from numpy.typing import NDArray

ZERO = -1
UNKNOWN = -2  # and below: slots with equal codes hold one number
_SEED = 0x9E3779B97F4A7C15


@attrs.frozen(eq=False, repr=False, slots=False)
class Contents:
    """Contents of all slots. Equal contents are one object: see `contents`.

    Args:
        elements: int32 [slots], read-only. The flat index of an element, or `ZERO`. Or a code of at
            most `UNKNOWN`, of a number that is not known. Slots of one code hold the same number.
        size: number of elements of the array. Each may stand in many slots, in one, or in none.
    """

    elements: NDArray[np.int32]
    size: int

    @property
    def slots(self) -> int:
        """Number of slots."""
        return len(self.elements)

    @cached_property
    def places(self) -> NDArray[np.intp]:
        """The first slot of each element, [size]; -1 where it stands in none."""
        found = np.full(self.size, -1, np.intp)
        held = np.flatnonzero(self.elements >= 0)[::-1]
        found[self.elements[held]] = held
        return found

    @cached_property
    def is_unknown(self) -> NDArray[np.bool]:
        """The slots that hold neither an element nor zero."""
        return self.elements <= UNKNOWN

    @cached_property
    def period(self) -> int:
        """The least power of two after which the slots repeat; 0 where they do not."""
        half, found = self.slots, 0
        while half % 2 == 0:
            half //= 2
            if not np.array_equal(self.elements[:half], self.elements[half : 2 * half]):
                break
            found = half
        return found

    @cached_property
    def fingerprint(self) -> NDArray[np.uint64]:
        """A number for each slot: one for each element and each code, 0 for zeros.

        It is the same in each process, and not secret. Sums of a few of them are equal where they
        have the same terms, else in one case of 2^64.
        """
        return np.where(self.elements == ZERO, np.uint64(0), mixed(self.elements))

    def __repr__(self) -> str:
        zeros, unknown = int((self.elements == ZERO).sum()), int(self.is_unknown.sum())
        return f"Contents({self.size} in {self.slots} slots, {zeros} zero, {unknown} unknown)"


def mixed(ids: NDArray[np.integer]) -> NDArray[np.uint64]:
    """A number for each integer, as if drawn: splitmix64 (Steele, Lea and Flood, 2014)."""
    x = (ids.astype(np.int64).view(np.uint64) + np.uint64(_SEED)) * np.uint64(_SEED)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
    return x ^ (x >> np.uint64(31))


_interned: WeakValueDictionary[tuple[bytes, int], Contents] = WeakValueDictionary()


def contents(elements: NDArray[np.integer], size: int) -> Contents:
    """The contents with these elements, [slots]: the one object that equal ones are."""
    own = np.array(elements, np.int32)
    own.flags.writeable = False
    return _interned.setdefault((own.tobytes(), size), Contents(own, size))


@lru_cache(maxsize=256)
def in_order(size: int, slots: int, before: int = 0, after: int = 0) -> Contents:
    """Elements 0, 1, ... in slots 0, 1, ..., and zeros behind them.

    Args:
        before, after: slots below 0 and behind the last element that may hold something unknown.
    """
    elements = np.full(slots, ZERO, np.int32)
    elements[:size] = np.arange(size)
    room = slots - size
    for unknown in (slice(size, size + min(after, room)), slice(slots - min(before, room), slots)):
        elements[unknown] = UNKNOWN - np.arange(slots)[unknown]
    return contents(elements, size)


@lru_cache(maxsize=256)
def repeated(size: int, slots: int, period: int) -> Contents:
    """Elements 0, 1, ... in slots 0, 1, ..., all slots repeating after `period`.

    Between the elements and the period something unknown may stand.
    """
    place = np.arange(period)
    return contents(np.tile(np.where(place < size, place, UNKNOWN - place), slots // period), size)
