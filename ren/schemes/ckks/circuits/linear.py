"""`matrix @ ct` and `ckks.linear`: matrices times encrypted vectors, by diagonals."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ren.core.errors import ContextError, ParameterError, TracedValueError
from ren.schemes.ckks.active import active_context
from ren.schemes.ckks.arithmetic import need_level
from ren.schemes.ckks.circuits.diagonals import Split, best_diagonals
from ren.schemes.ckks.circuits.shaping import known_length, relabelled, rotations_summed
from ren.schemes.ckks.parameters import Parameters
from ren.schemes.ckks.plaintext import Plaintext, encode
from ren.schemes.ckks.watch import unchecked
from ren.symbolic import Symbolic

if TYPE_CHECKING:
    from ren.schemes.ckks.ciphertext import Ciphertext
    from ren.schemes.ckks.context import Context


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class LinearMap:
    """A matrix encoded for one set of parameters: `linear_map @ ct`, again and again.

    A pytree: its leaves are the encoded diagonals.

    Attributes:
        plaintexts: by (giant, baby) step, ascending; each rotated back by its giant step.
        steps: those pairs.
        split: the rotations.
        shape: (m, k), of the matrix.
        is_complex: whether it is.
    """

    plaintexts: tuple[Plaintext, ...]
    steps: tuple[tuple[int, int], ...]
    split: Split
    shape: tuple[int, int]
    is_complex: bool

    @property
    def rotations(self) -> list[int]:
        """The steps whose keys a server needs: `ctx.rotation_keys(map.rotations)`."""
        return sorted(self.split.keys)

    @property
    def level(self) -> int:
        """The level at which it is encoded; its results lie one below, or lower."""
        return self.plaintexts[0].level

    @unchecked()
    def __matmul__(self, ct: Ciphertext) -> Ciphertext:
        """The product: m numbers, one level below the lower of the two levels."""
        length = known_length(ct)
        if length != self.shape[1]:
            raise ParameterError(
                f"A matrix of shape {self.shape} was multiplied by a ciphertext of "
                f"{'a scalar' if length is None else f'{length} numbers'}.",
                f"It takes a vector of {self.shape[1]} numbers.",
                "Encrypt a vector of that length, or slice it: ct[:k].",
            )
        need_level(ct, 1, "A product with a matrix")
        made = self._folded(self._sum(self._babies(ct)))
        return relabelled(made, self.shape[0], ct.layout.is_complex or self.is_complex)

    def _babies(self, x: Ciphertext) -> Mapping[int, Ciphertext]:
        s = self.split
        if not s.is_walked:
            return {baby: x.rotate(baby) for baby in s.babies}
        walked = {0: x}
        for step in range(s.unit, max(s.babies) + 1, s.unit):
            walked[step] = walked[step - s.unit].rotate(s.unit)
        return walked

    def _sum(self, babies: Mapping[int, Ciphertext]) -> Ciphertext:
        inner: dict[int, list[Ciphertext]] = {}
        for (giant, baby), p in zip(self.steps, self.plaintexts, strict=True):
            inner.setdefault(giant, []).append(babies[baby] * p)
        sums = {giant: reduce(add, terms) for giant, terms in inner.items()}
        if not self.split.is_chained:
            return reduce(add, (sums[giant].rotate(giant) for giant in self.split.giants))
        low, high, stride = self.split.giants[0], self.split.giants[-1], self.split.stride
        total = sums[high]
        for giant in range(high - stride, low - 1, -stride):
            total = total.rotate(stride)
            total = total + sums[giant] if giant in sums else total
        return total.rotate(low)

    def _folded(self, x: Ciphertext) -> Ciphertext:
        folds = self.split.folds
        return rotations_summed(x, 1 << len(folds), folds[-1]) if folds else x

    def __repr__(self) -> str:
        m, k = self.shape
        return (
            f"LinearMap({m} x {k}, {len(self.plaintexts)} diagonals at level {self.level}, "
            f"{self.split.rotations} rotations with {len(self.split.keys)} keys)"
        )


def _flatten(x: LinearMap) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    return (x.plaintexts,), (x.steps, x.split, x.shape, x.is_complex)


def _unflatten(static: tuple[Any, ...], children: Any) -> LinearMap:
    return LinearMap(children[0], *static)


jax.tree_util.register_pytree_node(LinearMap, _flatten, _unflatten)


def linear(
    matrix: ArrayLike,
    context: Context | None = None,
    *,
    level: int | None = None,
    keys: int | None = None,
) -> LinearMap:
    """The matrix M encoded once, for many products `map @ ct`.

    The vector has as many numbers as the matrix has columns; what the other slots hold does not
    matter. Only diagonals that are not zero are encoded: those of a banded or sparse matrix are
    few. A matrix as large as the slots has the fewest, since the slots are cyclic: a context with
    slots=64 multiplies 64x64 matrices with 64 diagonals and 14 rotations, others with 127 and 21.

    Args:
        matrix: real or complex [m, k], m and k at most the slots.
        context: whose parameters and slots; the active one by default.
        level: of the vectors; the top by default. The diagonals are smaller at lower levels.
        keys: the most rotation keys that it may need; None for the fewest rotations.

    Returns:
        The map. It takes one level. `.rotations` are the steps that a server needs keys for.

    Raises:
        ParameterError: no matrix, one that is too large, or too few keys.

    Example:
        >>> import numpy as np
        >>> from ren.schemes import ckks
        >>> ctx = ckks.context(depth=1, n=2**13)
        >>> turn = ckks.linear(np.array([[0.0, -1.0], [1.0, 0.0]]), ctx)
        >>> (turn @ ctx.encrypt([1.0, 2.0])).decrypt().round(3)
        array([-2.,  1.])
    """
    context = context or active_context()
    if context is None:
        raise ContextError(
            "ckks.linear() got no context, and none is active.",
            "The diagonals are encoded for one set of parameters.",
            "Pass one, ckks.linear(matrix, ctx), or write `with ctx:` around it.",
        )
    at = context.params.checked_level(level)
    return encoded(_checked(matrix, context.params), context.params, at, keys)


def encoded(matrix: NDArray, params: Parameters, level: int, keys: int | None = None) -> LinearMap:
    """The map of a checked matrix."""
    diagonals, split = best_diagonals(matrix, params.slots, keys)
    return of_diagonals(diagonals, split, matrix.shape, params, level)


def of_diagonals(
    diagonals: Mapping[int, NDArray],
    split: Split,
    shape: tuple[int, ...],
    params: Parameters,
    level: int,
) -> LinearMap:
    """The map with the diagonals encoded, each rotated back by its giant step."""
    steps = sorted(split.parted(d) for d in diagonals)
    plaintexts = tuple(
        encode(np.roll(diagonals[giant + baby], giant), params, level) for giant, baby in steps
    )
    is_complex = any(v.dtype.kind == "c" for v in diagonals.values())
    return LinearMap(plaintexts, tuple(steps), split, (shape[0], shape[1]), is_complex)


def product(matrix: Any, ct: Ciphertext, is_transposed: bool = False) -> Ciphertext:
    """matrix @ ct, or ct @ matrix, one level down."""
    need_level(ct, 1, "A product with a matrix")
    m = _checked(matrix, ct.params)
    return encoded(m.T if is_transposed else m, ct.params, ct.level) @ ct


def _checked(matrix: Any, params: Parameters) -> NDArray:
    if isinstance(matrix, Symbolic):
        raise TracedValueError(
            f"A ciphertext was multiplied by the argument {matrix.name!r}, a matrix.",
            "Which rotations that takes depends on its numbers, which a plan does not know.",
            "Encode it outside, map = ckks.linear(matrix, ctx), and pass the map.",
        )
    m = np.asarray(matrix)
    if m.ndim != 2 or m.dtype.kind not in "biufc" or not m.size:
        raise ParameterError(
            f"An array of shape {m.shape} and dtype {m.dtype} was given as a matrix.",
            "A matrix has two axes, [m, k], and holds numbers.",
            "Multiply several vectors one after another, or stack the ciphertexts.",
        )
    if max(m.shape) > params.slots:
        raise ParameterError(
            f"A matrix of shape {m.shape} was given for {params.slots} slots.",
            "Rows and columns are at most as many as the slots.",
            "Cut the matrix into blocks, or choose parameters with a larger n.",
        )
    return m.astype(np.complex128 if m.dtype.kind == "c" else np.float64)
