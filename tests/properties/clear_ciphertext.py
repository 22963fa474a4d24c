"""NumPy twin of a Ciphertext: the same methods on numbers in the clear.

The source of a program runs on twins as it runs on ciphertexts. The rules of a twin:

- Operators follow NumPy: shapes broadcast, and what NumPy refuses raises here too.
- `rotate` and `strided_sum` are cyclic over the slots, with zeros beyond the length. What a
  rotation moves beyond the length is lost. A scalar fills all slots.
- Leading axes are batch axes. Methods act on each row of the batch as NumPy does on the row.
- Approximated functions are NumPy's, with the error that their documentation allows as `drift`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

_UFUNCS = {
    np.add: operator.add,
    np.subtract: operator.sub,
    np.multiply: operator.mul,
    np.matmul: operator.matmul,
}


class RefusedError(ValueError):
    """An operation that ciphertexts must refuse although NumPy has an answer."""


class UndefinedError(Exception):
    """An operation whose result the contract leaves open."""


class ClearCiphertext:
    """Numbers in the clear that behave as a ciphertext of `slots` slots.

    Args:
        values: float64 or complex128 [*batch, *inner].
        inner: how many of the axes are numbers of one row: 0 for a scalar, 1 for a vector.
        slots: how many slots a ciphertext has.
        level: about the level of the ciphertext. The generator aims with it; nothing is judged.
        drift: bound of the documented error of approximations, of the shape of `values`.
        is_inner: whether a function was given numbers outside of its interval whose modulus is
            inside. Ren cannot see that, so that only the bound of the message is judged.
    """

    def __init__(
        self,
        values: Any,
        inner: int,
        slots: int,
        level: int,
        drift: Any = 0.0,
        is_inner: bool = False,
    ) -> None:
        z = np.asarray(values)
        self.values: NDArray = z.astype(np.complex128 if z.dtype.kind == "c" else np.float64)
        self.inner, self.slots, self.level, self.is_inner = inner, slots, level, is_inner
        self.drift: NDArray = np.broadcast_to(np.asarray(drift, np.float64), self.values.shape)
        if self.values.size == 0:
            raise RefusedError("a ciphertext holds one number at least")

    # ---------------------------------------------------------------- shapes

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape that decrypts."""
        return self.values.shape

    @property
    def batch(self) -> tuple[int, ...]:
        """The leading axes."""
        return self.shape[: self.values.ndim - self.inner]

    @property
    def row(self) -> tuple[int, ...]:
        """The axes of one row."""
        return self.shape[self.values.ndim - self.inner :]

    @property
    def length(self) -> int:
        """The count of numbers in one row; 1 for a scalar."""
        return int(np.prod(self.row, dtype=int))

    @property
    def has_blocks(self) -> bool:
        """Whether a row is longer than the slots."""
        return self.length > self.slots

    def made(
        self, values: Any, drift: Any = None, *, inner: int | None = None, cost: int = 0
    ) -> ClearCiphertext:
        """The result of an operation on this twin, `cost` levels lower."""
        return ClearCiphertext(
            values,
            self.inner if inner is None else inner,
            self.slots,
            self.level - cost,
            np.zeros(np.shape(values)) if drift is None else drift,
            self.is_inner,
        )

    def by_row(
        self,
        function: Callable[[NDArray], NDArray],
        of_drift: Callable[[NDArray], NDArray] | None = None,
        *,
        inner: int = 1,
        cost: int = 0,
    ) -> ClearCiphertext:
        """A linear function of each flat row; `of_drift` is the same with moduli of its weights."""
        flat, drift = (z.reshape(*self.batch, -1) for z in (self.values, self.drift))
        return self.made(function(flat), (of_drift or function)(drift), inner=inner, cost=cost)

    def in_shape(self, row: Iterable[int]) -> ClearCiphertext:
        """The same numbers in rows of another shape."""
        sizes = (*self.batch, *row)
        inner = len(sizes) - len(self.batch)
        return self.made(self.values.reshape(sizes), self.drift.reshape(sizes), inner=inner)

    # ---------------------------------------------------------------- operators

    def _other(self, other: Any) -> ClearCiphertext | None:
        if isinstance(other, ClearCiphertext):
            return other
        z = np.asarray(other)
        if z.dtype.kind not in "biufc":
            return None
        return ClearCiphertext(z, min(z.ndim, 1), self.slots, self.level)

    def _joined(self, other: Any, function: Callable, cost: int) -> Any:
        """A sum or product, with the rules of NumPy for shapes and kinds."""
        y = self._other(other)
        if y is None:
            return NotImplemented
        values = function(self.values, y.values)
        if function is np.multiply:
            drift = np.abs(self.values) * y.drift + np.abs(y.values) * self.drift
            drift = drift + self.drift * y.drift
        else:
            drift = self.drift + y.drift
        made = self.made(values, np.broadcast_to(drift, values.shape), inner=0)
        is_batch = any(z.inner == 0 and z.values.ndim for z in (self, y))  # of scalars
        made.inner = 0 if is_batch else min(max(self.inner, y.inner), values.ndim)
        made.level = min(self.level, y.level) - cost
        made.is_inner = self.is_inner or y.is_inner
        return made

    def __add__(self, other: Any) -> Any:
        return self._joined(other, np.add, 0)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self._joined(other, np.subtract, 0)

    def __rsub__(self, other: Any) -> Any:
        return (-self).__add__(other)

    def __mul__(self, other: Any) -> Any:
        is_integer = np.ndim(other) == 0 and np.asarray(other).dtype.kind in "biu"
        return self._joined(other, np.multiply, 0 if is_integer else 1)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        if isinstance(other, ClearCiphertext):
            raise RefusedError("there is no division by a ciphertext")
        z = np.asarray(other)
        wide = z.astype(np.complex128 if z.dtype.kind == "c" else np.float64)
        return self._joined(1 / wide, np.multiply, 1)

    def __rtruediv__(self, other: Any) -> Any:
        raise RefusedError("there is no division by a ciphertext")

    def __neg__(self) -> ClearCiphertext:
        return self.made(-self.values, self.drift)

    def __pos__(self) -> ClearCiphertext:
        return self

    def __pow__(self, exponent: int) -> ClearCiphertext:
        k = operator.index(exponent)
        size, cost = np.abs(self.values), max(k - 1, 0).bit_length()
        drift = (size + self.drift) ** k - size**k
        return self.made(self.values**k, drift, cost=cost)

    def __matmul__(self, other: Any) -> ClearCiphertext:
        if self.inner == 0:
            raise RefusedError("matmul of a scalar")
        if isinstance(other, ClearCiphertext):
            return self._times(other)
        m = np.asarray(other)
        if m.ndim == 1 and self.inner == 1:
            return self.dot(m)
        inner = self.inner if m.ndim > 1 else self.inner - 1
        return self.made(self.values @ m, self.drift @ np.abs(m), inner=inner, cost=1)

    def __rmatmul__(self, other: Any) -> ClearCiphertext:
        m = np.asarray(other)
        if self.inner == 0 or m.ndim not in (1, 2):
            raise RefusedError("matmul of a scalar, or of more than two axes")
        if self.inner > 1 or (m.ndim == 2 and self.values.ndim > 1):  # a batch is a matrix
            values, drift = m @ self.values, np.abs(m) @ self.drift
            return self.made(values, drift, inner=self.inner + m.ndim - 2, cost=1)
        if m.ndim == 1:
            return self.dot(m)
        values, drift = (np.einsum("ij,...j->...i", m, self.values),
                         np.einsum("ij,...j->...i", np.abs(m), self.drift))  # fmt: skip
        return self.made(values, drift, cost=1)

    def _times(self, other: ClearCiphertext) -> ClearCiphertext:
        """The product of two encrypted matrices, or of two vectors."""
        if self.inner == other.inner == 1:
            return self.dot(other)
        if self.inner != 2 or other.inner != 2:
            raise UndefinedError
        values = self.values @ other.values
        a, b = np.abs(self.values), np.abs(other.values)
        drift = a @ other.drift + self.drift @ b + self.drift @ other.drift
        return self.made(values, drift, cost=3)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *args: Any, **kwargs: Any) -> Any:
        if ufunc not in _UFUNCS or method != "__call__" or kwargs:
            return NotImplemented
        left, right = args
        if isinstance(left, ClearCiphertext):
            return _UFUNCS[ufunc](left, right)
        name = _UFUNCS[ufunc].__name__
        return getattr(right, f"__r{name}__")(left)

    # ---------------------------------------------------------------- slots

    def _padded(self, z: NDArray) -> NDArray:
        """Flat rows with zeros up to the slots; a scalar in every slot."""
        if self.inner == 0:
            return np.repeat(z[..., :1], self.slots, -1)
        padding = [(0, 0)] * (z.ndim - 1) + [(0, self.slots - z.shape[-1])]
        return np.pad(z, padding)

    def _over_slots(self, function: Callable[[NDArray], NDArray]) -> ClearCiphertext:
        """A function of all slots; what it moves beyond the length is lost."""
        made = self.by_row(lambda z: function(self._padded(z))[..., : self.length])
        return made.in_shape(self.row)

    def rotate(self, steps: int) -> ClearCiphertext:
        """result[i] = x[i + steps], cyclic over the slots."""
        if self.inner == 0 or steps % self.slots == 0:
            return self
        if self.has_blocks:
            raise RefusedError("a rotation moves nothing from block to block")
        return self._over_slots(lambda z: np.roll(z, -steps, -1))

    def roll(self, shift: int, axis: int | None = None) -> ClearCiphertext:
        """numpy.roll over the length; of each vector of a batch."""
        if (self.batch or axis is not None) and (axis is None or self.inner != 1):
            raise RefusedError("a roll is along the numbers of a vector")
        cost = int(self.length != self.slots and shift % self.length != 0)
        return self.by_row(lambda z: np.roll(z, shift, -1), cost=cost).in_shape(self.row)

    def conj(self) -> ClearCiphertext:
        """The complex conjugates."""
        return self.made(np.conj(self.values), self.drift)

    @property
    def real(self) -> ClearCiphertext:
        """The real parts."""
        cost = int(self.values.dtype.kind == "c")
        return self.made(np.real(self.values), self.drift, cost=cost)

    @property
    def imag(self) -> ClearCiphertext:
        """The imaginary parts."""
        cost = int(self.values.dtype.kind == "c")
        return self.made(np.imag(self.values), self.drift, cost=cost)

    def __getitem__(self, index: Any) -> ClearCiphertext:
        """x[i] and x[i:j] along the first axis, also of a batch; x[..., i:j] along the last."""
        if self.values.ndim == 0:
            raise RefusedError("a scalar has no slices")
        values, drift = self.values[index], self.drift[index]
        if isinstance(index, tuple):
            return self.made(values, drift, inner=values.ndim - len(self.batch))
        is_gone = values.ndim < self.values.ndim and not self.batch  # an axis of numbers
        return self.made(values, drift, inner=self.inner - is_gone)

    def reshape(self, *shape: Any) -> ClearCiphertext:
        """Another shape, which has the axes of a batch first."""
        if self.inner == 0:
            raise RefusedError("a scalar has no other shape")
        sizes = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape
        made, axes = self.values.reshape(sizes).shape, len(self.batch)
        if made[:axes] != self.batch or len(made) == axes:
            raise RefusedError("the axes of a batch stay, and a row has one axis at least")
        return self.in_shape(made[axes:])

    def mask(self, m: Any = None) -> ClearCiphertext:
        """Each row times m."""
        if m is None:
            return self.made(self.values, self.drift, cost=int(self.length != self.slots))
        z = np.asarray(m)
        if self.inner == 0:
            raise UndefinedError
        if z.shape != (self.length,):
            raise RefusedError("a mask has one factor for each number")
        factors = z * 1.0
        made = self.by_row(lambda v: v * factors, lambda d: d * np.abs(factors), cost=1)
        return made.in_shape(self.row)

    def tile(self, count: int) -> ClearCiphertext:
        """`count` copies of each row along its last axis."""
        if self.inner == 0 or count < 1:
            raise RefusedError("a scalar is not tiled, and there is one copy at least")
        copies = (1,) * (self.values.ndim - 1) + (count,)
        cost = int(self.length != self.slots)
        return self.made(np.tile(self.values, copies), np.tile(self.drift, copies), cost=cost)

    def pad(self, length: int) -> ClearCiphertext:
        """Each vector with zeros behind it up to a length."""
        if self.inner != 1 or length < self.length:
            raise RefusedError("vectors are padded to a length that is not below theirs")
        padding = [(0, 0)] * (self.values.ndim - 1) + [(0, length - self.length)]
        return self.made(np.pad(self.values, padding), np.pad(self.drift, padding))

    # ---------------------------------------------------------------- reductions

    def sum(self, axis: int | None = None) -> ClearCiphertext:
        """The sum of each row, or along an axis."""
        if axis is not None and not self._is_along_rows(axis):
            return self._along(axis, lambda z: z.sum(axis))
        cost = int(self.inner > 0 and self.length % self.slots != 0)
        return self.by_row(lambda z: z.sum(-1), inner=0, cost=cost)

    def mean(self, axis: int | None = None) -> ClearCiphertext:
        """The mean of each row, or along an axis."""
        if axis is not None and not self._is_along_rows(axis):
            return self._along(axis, lambda z: z.mean(axis))
        return self.by_row(lambda z: z.mean(-1), inner=0, cost=int(self.inner > 0))

    def dot(self, w: Any) -> ClearCiphertext:
        """The scalar product of each row with w, or with the rows of another ciphertext."""
        y = self._other(w)
        if y is None or self.inner != 1 or y.inner != 1:
            raise UndefinedError
        if not isinstance(w, ClearCiphertext) and y.values.ndim != 1:
            raise UndefinedError
        if self.length != y.length:
            raise RefusedError("a scalar product is of vectors of one length")
        made = self._joined(y, np.multiply, 1 + int(isinstance(w, ClearCiphertext)))
        return made.made(made.values.sum(-1), made.drift.sum(-1), inner=0)

    def _check_axis(self, axis: int | None) -> None:
        if axis is not None and not self._is_along_rows(axis):
            raise RefusedError("an axis is that of the numbers of a vector")

    def _is_along_rows(self, axis: int) -> bool:
        return self.inner == 1 and axis in (-1, self.values.ndim - 1)

    def _along(self, axis: int, function: Callable[[NDArray], NDArray]) -> ClearCiphertext:
        """A sum or mean along a batch axis, or along one axis of a matrix."""
        if not -self.values.ndim <= axis < self.values.ndim:
            raise RefusedError("there is no such axis")
        inner = self.inner - (axis % self.values.ndim >= len(self.batch))
        return self.made(function(self.values), function(self.drift), inner=inner, cost=1)

    def cumsum(self, axis: int | None = None) -> ClearCiphertext:
        """The cumulative sums of each row, flat as in numpy.cumsum."""
        self._check_axis(axis)
        if self.inner == 0:
            return self
        cost = -(-(self.length - 1).bit_length() // 6)
        return self.by_row(lambda z: z.cumsum(-1), cost=cost)

    def strided_sum(self, count: int, step: int = 1) -> ClearCiphertext:
        """x[i] + x[i + step] + ... of `count` terms, cyclic over the slots."""
        if count < 1 or (count - 1) * abs(step) >= self.slots:
            raise RefusedError("the terms of a sum are different slots")
        if self.has_blocks:
            raise UndefinedError
        steps = range(0, -count * step, -step) if step else [0] * count
        return self._over_slots(lambda z: np.sum([np.roll(z, k, -1) for k in steps], axis=0))

    # ---------------------------------------------------------------- levels and bytes

    def drop_to(self, level: int) -> ClearCiphertext:
        """The same at a lower level."""
        made = self.made(self.values, self.drift)
        made.level = min(level, self.level)
        return made

    def compress(self) -> ClearCiphertext:
        """The same at level 0."""
        return self.drop_to(0)

    def within(self, bound: float) -> ClearCiphertext:
        """The same; only true bounds are said."""
        if not np.abs(self.values).max() <= bound:
            raise UndefinedError
        return self

    def _same(self) -> ClearCiphertext:
        return self

    rescale = relinearize = realize = to_bytes = _same
