"""Two-level segregated fit: where blocks of an arena stand, as numbers; nothing is allocated.

Free blocks are listed by size class. The first level of a class is the power of two under the size.
The second divides that power into 32 equal steps. A bit map of both levels finds the smallest class
that surely fits. So an allocation takes a constant number of steps.

Reference: Masmano, Ripoll, Crespo and Real, "TLSF: a new dynamic memory allocator for real-time
systems", ECRTS 2004.
"""

from __future__ import annotations

ALIGNMENT = 64
_STEPS = 5  # log2 of the classes between two powers of two


class Arena:
    """An arena that grows as it must; every offset and size is a multiple of `ALIGNMENT` bytes.

    It belongs to one planning run. The same calls give the same offsets.

    Example:
        >>> arena = Arena()
        >>> arena.allocate(100), arena.allocate(10)
        (0, 128)
        >>> arena.free(0)
        >>> arena.allocate(64), arena.high_water
        (0, 192)
    """

    def __init__(self) -> None:
        self.high_water = 0  # bytes: the end of the highest block ever in use
        self._end = 0
        self._sizes: dict[int, int] = {}  # offset -> size, of every block in use or free
        self._ends: dict[int, int] = {}  # end -> offset, of the same blocks
        self._free: set[int] = set()
        # Free blocks of a class; a dict for its order, in which the newest goes first.
        self._lists: dict[int, dict[int, None]] = {}
        self._classes = 0  # bit c: class c has a free block

    def allocate(self, size: int) -> int:
        """The offset of a new block of at least `size` >= 0 bytes.

        Raises:
            ValueError: a negative size.
        """
        if size < 0:
            raise ValueError(f"A block of {size} bytes was asked for.")
        size = max(ALIGNMENT, -(-size // ALIGNMENT) * ALIGNMENT)
        offset = self._fitting(size)
        if offset is None:
            offset = self._grown(size)
        whole = self._take(offset)
        self._add(offset, size)
        if whole > size:
            self._give(offset + size, whole - size)
        self.high_water = max(self.high_water, offset + size)
        return offset

    def free(self, offset: int) -> None:
        """Gives back the block at `offset`, merged with free neighbours.

        Raises:
            ValueError: no block in use starts there.
        """
        if offset not in self._sizes or offset in self._free:
            raise ValueError(f"No block in use starts at {offset}.")
        size = self._remove(offset)
        if (after := offset + size) in self._free:
            size += self._take(after)
        if (before := self._ends.get(offset)) in self._free:
            size += self._take(before)
            offset = before
        self._give(offset, size)

    def _fitting(self, size: int) -> int | None:
        """A free block of `size` bytes or more, from the smallest class that has one."""
        number = _class_of(size)
        newest = next(reversed(self._lists.get(number, {})), None)
        if newest is not None and self._sizes[newest] >= size:
            return newest
        # Every block of a class above fits; one of its own class need not.
        above = self._classes >> (number + 1)
        if not above:
            return None
        lowest = (above & -above).bit_length()
        return next(reversed(self._lists[number + lowest]))

    def _grown(self, size: int) -> int:
        """A free block of `size` bytes or more at the end of the arena."""
        start = self._ends.get(self._end, -1)
        if start in self._free:
            size = max(size, self._take(start))
        else:
            start = self._end
        self._give(start, size)
        self._end = start + size
        return start

    def _add(self, offset: int, size: int) -> None:
        self._sizes[offset] = size
        self._ends[offset + size] = offset

    def _remove(self, offset: int) -> int:
        size = self._sizes.pop(offset)
        del self._ends[offset + size]
        return size

    def _give(self, offset: int, size: int) -> None:
        """A new free block, into the list of its class."""
        self._add(offset, size)
        self._free.add(offset)
        number = _class_of(size)
        self._lists.setdefault(number, {})[offset] = None
        self._classes |= 1 << number

    def _take(self, offset: int) -> int:
        """The size of the free block at `offset`, which leaves its list and the arena."""
        self._free.remove(offset)
        number = _class_of(self._sizes[offset])
        blocks = self._lists[number]
        del blocks[offset]
        if not blocks:
            self._classes &= ~(1 << number)
        return self._remove(offset)


def _class_of(size: int) -> int:
    """The class of a block: `ALIGNMENT` <= size, so that the shift is never negative."""
    power = size.bit_length() - 1
    return (power << _STEPS) + (size >> (power - _STEPS)) - (1 << _STEPS)
