"""Layout: where the values that went in stand in the slots, so that the same shape comes out."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from ren.core.errors import ParameterError
from ren.poly.symbolic import Length, Symbolic, common_length

MOST_SLOTS = 1 << 20  # more than there are


@attrs.frozen
class Tail:
    """Content of the slots beyond the length, as far as programs tell it.

    The numbers are in slots 0 to L - 1, cyclic over all slots. The `before` slots below 0 and the
    `after` slots from L on may hold leftovers. All other slots beyond the length hold `value`, up
    to noise.

    Args:
        before, after: counts of slots, static.
        value: a number in the clear, or a symbol that stands for one at each call of a captured
            function. It stays in this process: bytes and pytrees tell of leftovers instead.
        is_bounded: whether the tracked bound covers the leftovers too; `within()` speaks of the
            numbers alone.
        is_copies: whether all slots hold the one number of a vector of length 1.
        period: all slots repeat after so many, a divisor of their number. What stands beyond the
            length is leftovers, which are known then. 0 where slots are not known to repeat.
    """

    before: int = 0
    after: int = 0
    value: Any = attrs.field(default=0, eq=False)
    is_bounded: bool = True
    is_copies: bool = False
    period: int = 0

    @property
    def is_zero(self) -> bool:
        """Whether all slots beyond the length are zero."""
        return not self.before and not self.after and not self.has_value

    @property
    def has_value(self) -> bool:
        """Whether a number other than zero stands there."""
        return isinstance(self.value, Symbolic) or self.value != 0

    @property
    def has_leftovers(self) -> bool:
        """Whether numbers that are not known in the clear may stand there."""
        return bool(self.before or self.after)

    @property
    def settled(self) -> Tail:
        """The same without a value in the clear, leftovers everywhere in its place, or a period.

        Carries of loops keep to one type, whatever repeats.
        """
        if not self.has_value and not self.period:
            return self
        everywhere = {"before": MOST_SLOTS, "after": MOST_SLOTS} if self.has_value else {}
        return attrs.evolve(self, **everywhere, value=0, period=0)

    def moved(self, steps: int) -> Tail:
        """The tail after a cyclic rotation by `steps`: result[i] = x[i + steps]."""
        return self.cut(steps, -steps)

    def cut(self, start: int, end: int) -> Tail:
        """The tail of x[start:-end], rotated to slot 0."""
        before, after = (
            min(max(0, count), MOST_SLOTS) for count in (self.before + start, self.after + end)
        )
        return attrs.evolve(self, before=before, after=after, is_copies=False)

    def mapped(self, value: Any) -> Tail:
        """The tail of a function of the numbers, slot by slot, with this value there."""
        is_small = isinstance(value, Symbolic) or abs(value) < 2.0**1000  # also no NaN
        return attrs.evolve(self, value=value) if is_small else LEFTOVERS

    def plus(self, other: Tail, sign: int = 1) -> Tail:
        """The tail of a sum, or of a difference."""
        value = self.value + other.value if sign > 0 else self.value - other.value
        before, after = max(self.before, other.before), max(self.after, other.after)
        is_bounded, period = self.is_bounded and other.is_bounded, self._common_period(other)
        return Tail(before, after, 0, is_bounded, period=period).mapped(value)

    def times(self, other: Tail) -> Tail:
        """The tail of a product: zeros in one factor are zeros in the product."""
        sides = [t for t in (self, other) if not t.has_value]  # zero where no leftovers stand
        most, factors = (min, sides) if sides else (max, (self, other))
        before, after = most(t.before for t in factors), most(t.after for t in factors)
        is_bounded = not (before or after) or (self.is_bounded and other.is_bounded)
        period, value = self._common_period(other), 0 if sides else self.value * other.value
        return Tail(before, after, 0, is_bounded, period=period).mapped(value)

    def _common_period(self, other: Tail) -> int:
        """The period of a function of both, slot by slot; periods are powers of two."""
        return max(self.period, other.period) if self.period and other.period else 0

    def __repr__(self) -> str:
        if self.is_zero:
            return "zeros"
        return "leftovers" if self.has_leftovers else "a number"


ZEROS = Tail()
LEFTOVERS = Tail(MOST_SLOTS, MOST_SLOTS)  # also of one number, which fills all slots
COPIES = Tail(MOST_SLOTS, MOST_SLOTS, is_copies=True)


def number_tail(value: Any) -> Tail:
    """The tail of a number, which stands in all slots."""
    return Tail(value=value, period=1)


@attrs.frozen
class Layout:
    """Layout of values in slots: how many are in use and of which kind, so that the same comes out.

    Args:
        length: numbers along the last axis; None for a scalar, which fills all slots.
        blocks: how many ciphertexts a vector longer than the slots is cut into: the last batch
            axis. 1 where it is not cut; there is no such axis then.
        shape: of an image or a matrix that the numbers are, in C order; None for a vector. It says
            how they come out, and is forgotten where an operation makes another number of them.
        tail: content of the slots beyond the length; of a scalar the number itself, if it is known.
        columns: the last batch axis is the last axis of a table, and each vector a column of it.
    """

    length: int | None
    is_complex: bool
    blocks: int = 1
    shape: tuple[int, ...] | None = None
    tail: Tail = ZEROS
    columns: bool = False

    def joined(self, other: Layout, tail: Tail) -> Layout:
        """The layout of a sum or product of two vectors of one length, or with a scalar.

        Raises:
            ParameterError: vectors that are cut into different numbers of blocks.
        """
        if self.blocks != other.blocks and None not in (self.length, other.length):
            raise ParameterError(
                f"Vectors of {self.blocks} and {other.blocks} blocks met in one operation.",
                "Vectors longer than the slots are cut into blocks, and go block by block.",
                "Pad the shorter one with zeros: ckks.pad(x, length), or before it is encrypted.",
            )
        length, blocks = common_length(self.length, other.length), max(self.blocks, other.blocks)
        shapes = {self.shape, other.shape} - {None}
        shape = shapes.pop() if len(shapes) == 1 else None
        if shape is not None and isinstance(length, int) and length != math.prod(shape):
            shape = None
        tail = LEFTOVERS if length is None and not tail.has_value else tail
        columns = length is not None and (self.columns or other.columns)
        return Layout(length, self.is_complex or other.is_complex, blocks, shape, tail, columns)

    def plus(self, other: Layout, sign: int = 1) -> Layout:
        """The layout of a sum, or of a difference."""
        if self._is_plain and (self is other or (other._is_plain and self == other)):
            return self
        return self.joined(other, self.tail.plus(other.tail, sign))

    def times(self, other: Layout) -> Layout:
        """The layout of a product."""
        return self.joined(other, self.tail.times(other.tail))

    def with_tail(self, tail: Tail) -> Layout:
        """The same with another content beyond the length."""
        return self if tail is self.tail else attrs.evolve(self, tail=tail)

    def on(self, slots: int) -> Layout:
        """The same in ciphertexts of that many slots; none lies beyond numbers that fill them."""
        is_full = isinstance(self.length, int) and self.length == slots * self.blocks
        tail = self.tail
        if not is_full or tail is ZEROS or (tail.is_zero and tail == ZEROS):
            return self
        return self.with_tail(ZEROS)

    def unpacked(self, slots: NDArray) -> NDArray:
        """The values that went in, of decoded slots [*batch, slots]: complex128 or float64."""
        z = slots.reshape(*slots.shape[:-2], -1) if self.blocks > 1 else slots
        z = z[..., 0] if self.length is None else z[..., : self.length]
        if self.shape is not None and self.has_shape:
            z = z.reshape(*z.shape[:-1], *self.shape)
        if self.columns and z.ndim > 1:
            z = z.swapaxes(-1, -2)
        return z if self.is_complex else np.real(z).copy()

    @property
    def has_shape(self) -> bool:
        """Whether the numbers have a shape: in a captured sum others may have come behind them."""
        return self.shape is not None and math.prod(self.shape) == self.length

    @cached_property
    def as_column(self) -> Layout:
        """That of one column of a table by its columns: a vector."""
        return attrs.evolve(self, columns=False)

    @cached_property
    def settled(self) -> Layout:
        """The same with nothing that is known in the clear: for pytrees and bytes."""
        return self.with_tail(self.tail.settled)

    @cached_property
    def _is_plain(self) -> bool:
        """Whether a sum of two vectors of this layout has this very layout."""
        is_whole = self.shape is None or self.has_shape
        return isinstance(self.length, int) and is_whole and self.tail.is_zero

    @cached_property
    def leaves(self) -> tuple[Length, Any]:
        """Leaves that programs do not depend on: the length, the value of the tail or None."""
        return Length(self.length), self.tail.value if self.tail.has_value else None

    @cached_property
    def static(self) -> tuple[Any, ...]:
        """Static part, which programs depend on; a plan is replayed for vectors of any length."""
        tail = self.tail
        flags = (tail.is_bounded, tail.is_copies, tail.period, tail.has_value)
        tail_key = (tail.before, tail.after, *flags)
        return self.is_complex, self.blocks, self.shape, tail_key, self.columns

    @classmethod
    def of_static(cls, length: int | None, static: tuple[Any, ...], value: Any) -> Layout:
        """The layout with these `static` data, a length, and the value of the tail or None."""
        is_complex, blocks, shape, tail_key, columns = static
        before, after, is_bounded, is_copies, period, has_value = tail_key
        tail = Tail(before, after, value if has_value else 0, is_bounded, is_copies, period)
        return cls(length, is_complex, blocks, shape, tail, columns)
