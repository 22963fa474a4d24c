"""Layout: how the values that went in lie in the slots, so that the same shape comes out."""

from __future__ import annotations

import math

import attrs
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ren.core.errors import ParameterError
from ren.symbolic import longest


@attrs.frozen
class Layout:
    """What went in: how many slots are in use and of which kind, so that the same comes out.

    Args:
        length: numbers along the last axis; None for a scalar, which fills all slots.
        is_complex: whether they are complex.
        blocks: how many ciphertexts a vector longer than the slots is cut into: the last batch
            axis. 1 where it is not cut; there is no such axis then.
        shape: of an image or a matrix that the numbers are, in C order; None for a vector. It says
            how they come out, and is forgotten where an operation makes another number of them.
    """

    length: int | None
    is_complex: bool
    blocks: int = 1
    shape: tuple[int, ...] | None = None

    def joined(self, other: Layout) -> Layout:
        """The layout of a sum or product of two vectors: the longer one, complex if either is.

        Raises:
            ParameterError: vectors that are cut into different numbers of blocks.
        """
        if self.blocks != other.blocks and None not in (self.length, other.length):
            raise ParameterError(
                f"Vectors of {self.blocks} and {other.blocks} blocks met in one operation.",
                "Vectors longer than the slots are cut into blocks, and go block by block.",
                "Pad the shorter one with zeros before it is encrypted.",
            )
        length, blocks = longest((self.length, other.length)), max(self.blocks, other.blocks)
        shapes = {self.shape, other.shape} - {None}
        shape = shapes.pop() if len(shapes) == 1 else None
        if shape is not None and isinstance(length, int) and length != math.prod(shape):
            shape = None
        return Layout(length, self.is_complex or other.is_complex, blocks, shape)

    def flattened(self, values: ArrayLike) -> ArrayLike:
        """Values that broadcast against `shape`, with any batch axes, as the numbers in C order.

        What does not is left as it is, and so is everything where there is no shape.
        """
        if self.shape is None:
            return values
        z = np.asarray(values)
        batch = z.shape[: -len(self.shape)]
        try:
            return np.broadcast_to(z, (*batch, *self.shape)).reshape(*batch, -1)
        except ValueError:
            return values

    def unpacked(self, slots: NDArray) -> NDArray:
        """The values that went in, of decoded slots [*batch, slots]: complex128 or float64."""
        z = slots
        if self.blocks > 1:
            z = z.reshape(*z.shape[:-2], -1)
        z = z[..., 0] if self.length is None else z[..., : self.length]
        if self.shape is not None and self.has_shape:
            z = z.reshape(*z.shape[:-1], *self.shape)
        return z if self.is_complex else np.real(z).copy()

    @property
    def has_shape(self) -> bool:
        """Whether the numbers have a shape: in a captured sum others may have come behind them."""
        return self.shape is not None and math.prod(self.shape) == self.length

    @property
    def static(self) -> tuple[bool, int, tuple[int, ...] | None]:
        """What programs depend on; a plan is replayed for vectors of any length."""
        return self.is_complex, self.blocks, self.shape
