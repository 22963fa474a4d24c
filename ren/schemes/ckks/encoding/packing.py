"""Packing of tables: which of the numbers of an array of two or more axes share a ciphertext."""

from __future__ import annotations

import math
from typing import Any

import attrs
import numpy as np

from ren.core.errors import ParameterError
from ren.lowering.devices.devices import is_tracer
from ren.poly.symbolic import as_symbol
from ren.schemes.ckks.encoding.encoder import as_numbers
from ren.schemes.ckks.encoding.layout import Layout

PACKS = ("rows", "columns", "flat")


@attrs.frozen
class Packing:
    """Packing of an array [*batch, r, c] into vectors; of fewer axes it is one vector in each.

    Args:
        name: "flat": all numbers one after another in C order, in the fewest ciphertexts. "rows":
            a ciphertext for each row, leading axes being batch axes. "columns": one for each
            column.
    """

    name: str = "flat"

    @classmethod
    def of(cls, pack: str | None) -> Packing:
        """The packing of a name; None for the one of the fewest ciphertexts, "flat"."""
        if pack is None:
            return cls()
        if not isinstance(pack, str) or pack not in PACKS:
            raise ParameterError(
                f"A packing pack={pack!r:.40} was given.",
                "It says which numbers of a table share a ciphertext: 'rows', 'columns' or 'flat'.",
                "Leave it out for the fewest ciphertexts, all numbers one after another.",
            )
        return cls(pack)

    def vectors(self, values: Any) -> tuple[Any, tuple[int, ...]]:
        """The vectors [*batch, k] that are encoded, and the shape of the array.

        Args:
            values: an array, a table with `to_numpy()`, or a symbol that stands for one. What is
                not an array of numbers stays as it is, for `as_slots` to refuse.
        """
        symbol = as_symbol(values)
        if is_tracer(values):
            z = values
        else:
            z = as_numbers(values) if symbol is None else np.asarray(symbol.sample)
        if z.ndim < 2 or z.dtype.kind not in "biufc" or not z.size or self.name == "rows":
            return values, z.shape
        turn = _joined if self.name == "flat" else _turned
        return turn(z) if symbol is None else symbol.map(turn), z.shape

    def labelled(self, layout: Layout, shape: tuple[int, ...]) -> Layout:
        """The layout of the vectors of an array of this shape."""
        if len(shape) < 2 or self.name == "rows":
            return layout
        if self.name == "columns":
            return attrs.evolve(layout, columns=True)
        return attrs.evolve(layout, shape=shape)

    def vector_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape [*batch, k] of the vectors of an array of this shape."""
        if len(shape) < 2 or self.name == "rows":
            return shape
        if self.name == "columns":
            return (*shape[:-2], shape[-1], shape[-2])
        return (math.prod(shape),)


def _joined(values: Any) -> Any:
    return _array(values).reshape(-1)


def _turned(values: Any) -> Any:
    return _array(values).swapaxes(-1, -2)


def _array(values: Any) -> Any:
    return values if is_tracer(values) else np.asarray(values)


def on_columns(values: Any) -> Any:
    """An array that broadcasts with a table [*batch, r, c], as one that does with its columns."""
    array = _array(values)
    return array[:, None] if array.ndim == 1 else array.swapaxes(-1, -2)
