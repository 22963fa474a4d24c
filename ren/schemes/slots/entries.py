"""Matrices as the entries that are not zero: large ones that are sparse are never written out."""

from __future__ import annotations

import hashlib
from functools import partial
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from ren.core.errors import ParameterError
from ren.poly.symbolic import Symbolic, derived


@attrs.frozen(eq=False)
class Entries:
    """The matrix with values[e] at (rows[e], columns[e]), each place once, and zero elsewhere.

    Args:
        values: float64 or complex128 [count]; or a symbol, of a matrix that is an argument of a
            captured function.
        shape: (m, k).
        places: rows and columns, integers [count]; of a matrix int32, which takes half. None where
            no entry is zero: places are then in C order, and take no memory.
    """

    values: NDArray | Symbolic
    shape: tuple[int, int]
    places: tuple[NDArray[np.integer], NDArray[np.integer]] | None = None

    @classmethod
    def of(cls, matrix: NDArray | Symbolic) -> Entries:
        """Those of an array [m, k]; all of a symbol, whatever its numbers are."""
        if isinstance(matrix, Symbolic):
            return cls(matrix.map(np.ravel), (matrix.shape[0], matrix.shape[1]))
        held, (m, k) = matrix != 0, matrix.shape
        if held.all():
            return cls(matrix.reshape(-1), (m, k))
        rows = np.broadcast_to(np.arange(m, dtype=np.int32)[:, None], held.shape)[held]
        columns = np.broadcast_to(np.arange(k, dtype=np.int32), held.shape)[held]
        return cls(matrix[held], (m, k), (rows, columns))

    def places_of(self, part: slice | NDArray) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
        """Rows and columns of a part of the entries."""
        if self.places is not None:
            return self.places[0][part], self.places[1][part]
        if isinstance(part, slice):
            kind = np.int32 if len(self.values) < 1 << 31 else np.int64
            part = np.arange(*part.indices(len(self.values)), dtype=kind)
        rows = part // self.shape[1]
        return rows, part - rows * self.shape[1]

    @property
    def numbers(self) -> NDArray:
        """The values, where none is known only at a call."""
        assert isinstance(self.values, np.ndarray)
        return self.values

    @property
    def rows(self) -> NDArray[np.integer]:
        """The row of each entry."""
        return self.places_of(slice(None))[0]

    @property
    def columns(self) -> NDArray[np.integer]:
        """The column of each entry."""
        return self.places_of(slice(None))[1]

    @property
    def digest(self) -> bytes:
        """A digest of the content: places, values with their type, shape."""
        arrays = *(self.places or ()), np.asarray(self.values)
        kinds = repr((self.shape, [array.dtype for array in arrays]))
        found = hashlib.blake2b(kinds.encode(), digest_size=16)
        for array in arrays:
            found.update(np.ascontiguousarray(array).data)
        return found.digest()

    @property
    def transposed(self) -> Entries:
        """The transposed matrix."""
        m, k = self.shape
        rows, columns = self.places_of(slice(None))
        return Entries(self.values, (k, m), (columns, rows))

    def at(self, inputs: Any, outputs: Any, slots: int) -> Entries:
        """The matrix over slots: it reads slot inputs[j] for column j, row i is at outputs[i].

        Args:
            inputs, outputs: integers, one for each column and each row; None for their numbers.
            slots: of one ciphertext.

        Raises:
            ParameterError: other shapes or types, slots outside of the ciphertexts, or two columns
                or two rows in one slot.
        """
        if inputs is None and outputs is None:
            return self
        rows, columns = self.places_of(slice(None))
        rows, m = _placed(rows, self.shape[0], outputs, "outputs", "row", slots)
        columns, k = _placed(columns, self.shape[1], inputs, "inputs", "column", slots)
        return Entries(self.values, (m, k), (rows, columns))

    def on_columns(self, count: int) -> Entries:
        """The matrix that maps X, [k, count] in C order, to M X: the Kronecker product with I."""
        return self._repeated(count, stride=count, row_shift=1, column_shift=1)

    def on_rows(self, count: int) -> Entries:
        """The matrix that maps X, [count, k] in C order, to X M^T."""
        m, k = self.shape
        return self._repeated(count, stride=1, row_shift=m, column_shift=k)

    def _repeated(self, count: int, stride: int, row_shift: int, column_shift: int) -> Entries:
        copy = np.arange(count)[:, None]
        rows, columns = self.places_of(slice(None))
        rows = (rows * stride + copy * row_shift).ravel()
        columns = (columns * stride + copy * column_shift).ravel()
        m, k = self.shape
        values = derived(partial(np.tile, reps=count), self.values)
        return Entries(values, (m * count, k * count), (rows, columns))


def _placed(
    index: NDArray[np.integer], count: int, given: Any, name: str, what: str, slots: int
) -> tuple[NDArray[np.integer], int]:
    """The slots of these rows or columns, and how many numbers they are among."""
    if given is None:
        return index, count
    where, room = np.asarray(given), -(-count // slots) * slots
    if where.shape != (count,) or where.dtype.kind not in "iu":
        raise ParameterError(
            f"{name}= is an array of shape {where.shape} and dtype {where.dtype}.",
            f"It has the slot of each {what} of the matrix: {count} integers.",
            f"Pass {name}=np.arange({count}) for the usual order, or leave it out.",
        )
    if where.min() < 0 or where.max() >= room:
        raise ParameterError(
            f"{name}= has slots from {where.min()} to {where.max()}.",
            f"{count} numbers lie in slots 0 to {room - 1}: a ciphertext has {slots}.",
            "Choose slots in that range, or a context of more, by n= or slots=.",
        )
    if len(np.unique(where)) < count:
        found, counts = np.unique(where, return_counts=True)
        raise ParameterError(
            f"{name}= has the slot {found[counts > 1][0]} more than once.",
            f"Each {what} of the matrix has a slot of its own.",
            f"Add the {what}s that share one before, in the clear.",
        )
    return where.astype(np.intp)[index], int(where.max()) + 1
