"""`matrix @ ct` and `ckks.linear`: matrices times encrypted vectors, by diagonals."""

from __future__ import annotations

import itertools
import math
import numbers
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any

import attrs
import jax
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ren.core.errors import ContextError, ParameterError, kind_of
from ren.core.ring import RingSpec
from ren.lowering.devices.devices import is_tracing
from ren.poly.poly import realize_polys
from ren.poly.realization import is_capturing
from ren.poly.symbolic import derived
from ren.schemes.ckks.arithmetic.evolve import need_level
from ren.schemes.ckks.arithmetic.number_types import name_of, of_result, with_type
from ren.schemes.ckks.arithmetic.operation_hooks import in_circuit, with_levels
from ren.schemes.ckks.arithmetic.shapes import reshape_text
from ren.schemes.ckks.circuits.linear_map import LinearMap
from ren.schemes.ckks.circuits.matrix_checks import are_entries, entries_of
from ren.schemes.ckks.encoding.ciphertext_data import CiphertextT, is_columns, with_fields
from ren.schemes.ckks.encoding.plaintext import encode, integer_ring, periodic_ring
from ren.schemes.ckks.noise import bounds as noises
from ren.schemes.ckks.parameters.parameters import Parameters
from ren.schemes.rlwe.active_context import RlweContext, active_context
from ren.schemes.slots.diagonals import Place, Placement, Split, best_placement
from ren.schemes.slots.entries import Entries
from ren.schemes.slots.operators import Diagonals

_PART, _LEAST = 1 << 23, 16  # bytes of diagonals that are encoded together, and their number


def linear(
    matrix: ArrayLike,
    context: RlweContext[Parameters] | None = None,
    *,
    level: int | None = None,
    keys: int | None = None,
    leftovers: bool = False,
    inputs: ArrayLike | None = None,
    outputs: ArrayLike | None = None,
    memory: int | None = None,
    paired: bool = False,
) -> LinearMap:
    """The matrix M encoded once, for many products `map @ ct`: y_i = sum_j M_ij x_j.

    The vector has as many numbers as the matrix has columns. Leading axes of a ciphertext are batch
    axes: each vector of the batch is multiplied. Vectors longer than the slots, and matrices that
    make such, are cut into blocks. Only diagonals that are not zero are encoded: those of a banded,
    Toeplitz or sparse matrix are few.

    Others have min(m, k) diagonals where the slots have room. Products with a wide one are folded:
    log2(k / m) rotations. A tall or a square one takes a vector that is replicated,
    log2(m / k + 1) rotations. That needs zeros beyond the length of the vector. Leftovers there, as
    of a slice or of the product of a wide one, are cleared at a level more. Where folds go around
    all slots their result repeats instead, and is replicated as it is.


    Args:
        matrix: real or complex [m, k], of any size. Or a sparse array of SciPy, or the tuple (rows,
            columns, values, shape), whose values at one place are added.
        context: whose parameters and slots; the active one by default.
        level: of the vectors; the top by default. The diagonals are smaller at lower levels.
        keys: the most rotation keys that it may need, the budget of a server; None for the least
            time. Steps are then reached one after another: fewer keys take more rotations.
        leftovers: whether vectors have leftovers beyond their length. The map then takes one level
            for these too. It replicates no vector, and has up to m + k - 1 diagonals.
        inputs: the slot that each column reads, integers [k]; in order by default. The vector has
            max(inputs) + 1 numbers, and the others of them are ignored.
        outputs: the slot of each number of the result, integers [m]; in order by default. The
            result has max(outputs) + 1 numbers, and the others of them are zero.
        memory: the most bytes of diagonals; None for no limit. Those beyond it are kept as
            coefficients, and transformed in each product: the same result, later. They take 8 n
            bytes each, or 4 n where entries times the scale are below 2^27. Where slots are fewer
            than n/2, residues that repeat are left out, if that is enough: 2 slots / n is left.
        paired: whether two diagonals are the real and the imaginary part of one. That is half the
            products and half the memory, for real matrices and real vectors, where diagonals are
            many. It takes a conjugation more, and its key on a server beside `keys`:
            `ctx.conjugation_key(map.level)`.

    Returns:
        The map. It takes one level, two where leftovers are cleared. `.rotations` are the steps
        that a server needs keys for. With d diagonals in b x c blocks it takes about c sqrt(d) baby
        and b sqrt(d) giant rotations.

    Raises:
        ParameterError: no matrix, too few keys or too little memory. Slots are taken twice, or lie
            outside of the ciphertexts.

    References: `ren.schemes.slots.diagonals`.

    Example:
        >>> import numpy as np
        >>> from ren.schemes import ckks
        >>> ctx = ckks.context(depth=1, n=2**13)
        >>> turn = ckks.linear(np.array([[0.0, -1.0], [1.0, 0.0]]), ctx)
        >>> (turn @ ctx.encrypt([1.0, 2.0])).decrypt().round(3)
        array([-2.,  1.])
    """
    entries = entries_of(matrix)
    call, where = "ckks.linear(matrix, ctx)", (inputs, outputs)
    _check_flag(
        "ckks.linear()", "leftovers", leftovers, "vectors have leftovers beyond their length"
    )
    return prepared(
        entries, context, call, level, keys, None, not leftovers, where, memory, paired,
        number_type=name_of(matrix[2] if are_entries(matrix) else matrix),
    )  # fmt: skip


def _check_flag(call: str, name: str, value: Any, meaning: str) -> None:
    if not isinstance(value, bool | np.bool):
        raise ParameterError(
            f"{call} got {name}={value!r:.40}.",
            f"It is True where {meaning}, else False.",
            f"Pass {name}=True, or leave it out.",
        )


def prepared(
    matrix: Entries,
    context: RlweContext[Parameters] | None,
    call: str,
    level: int | None,
    keys: int | None,
    label: tuple[int, ...] | None = None,
    can_replicate: bool = False,
    where: tuple[Any, Any] = (None, None),
    memory: int | None = None,
    is_paired: bool = False,
    number_type: str | None = None,
) -> LinearMap:
    """The map for the context given, or the active one, its diagonals transformed once, now.

    `where` has the slots of the columns and of the rows, as of `Entries.at`.

    Raises ContextError where there is neither.
    """
    context, name = context or active_context(Parameters), f"{call.partition('(')[0]}()"
    if context is None or not isinstance(getattr(context, "params", None), Parameters):
        given = "no context, and none is active" if context is None else kind_of(context)
        raise ContextError(
            f"{name} got {given}{' as the context' * (context is not None)}.",
            "The diagonals are encoded for the parameters of a context.",
            f"Pass one, {call}, or write `with ctx:` around it.",
        )
    for limit, count, most in (("keys", keys, "20"), ("memory", memory, "2**30")):
        is_count = isinstance(count, numbers.Real) and not isinstance(count, bool)
        if count is not None and not (is_count and count >= 0):
            raise ParameterError(
                f"{name} got {limit}={count!r:.40}.",
                "It is a number from 0 on, or None for no limit.",
                f"Pass for example {limit}={most}, or leave it out.",
            )
    _check_flag(name, "paired", is_paired, "two diagonals are the two parts of a complex one")
    if is_paired and matrix.values.dtype.kind == "c":
        raise ParameterError(
            f"{name} got paired=True and a matrix of complex numbers.",
            "Two diagonals are the real and the imaginary part of one where both are real.",
            "Leave paired out, or encode the real and the imaginary part of the matrix.",
        )
    params, level = context.params, context.params._checked_level(level)
    if not level and params.depth:
        raise ParameterError(
            f"{name} got level=0.",
            "A product with a matrix takes a level: none is left there.",
            "Pass a level of 1 or more, or leave it out for the highest.",
        )
    matrix, label = matrix.at(*where, params.slots), label if where[1] is None else None
    way = best_placement(matrix, params.slots, keys, can_replicate, bool(is_paired))
    made = placed(*way, params, level, label, memory)
    return _realized(with_fields(made, number_type=number_type))


def _realized(m: LinearMap) -> LinearMap:
    realize_polys([p.wide for p in m.plaintexts])
    return m


class KeptMaps:
    """The maps that lines without `ren.jit` encode, by content, the last used last.

    One is kept from the second time on that its matrix is seen, up to `most_bytes` of all. Kept
    weights stay in the memory of the process, as those of `ckks.linear` do.
    """

    def __init__(self, most_bytes: int, most_seen: int = 256) -> None:
        self._most_bytes, self._most_seen = most_bytes, most_seen
        self._lock = threading.Lock()
        self._seen: OrderedDict[Hashable, LinearMap | None] = OrderedDict()

    @property
    def nbytes(self) -> int:
        """Size of what is kept."""
        return sum(m.nbytes for m in self._seen.values() if m is not None)

    def found(self, key: Hashable, make: Callable[[], LinearMap]) -> LinearMap:
        """The map of a key: kept, or made."""
        with self._lock:
            was_seen, kept = key in self._seen, self._seen.pop(key, None)
            self._seen[key] = kept
            if len(self._seen) > self._most_seen:
                self._seen.popitem(last=False)
        if kept is not None:
            return kept
        made = make()
        if not was_seen or made.nbytes > self._most_bytes:
            return made
        _realized(made)
        with self._lock:
            self._seen[key] = made
            while self.nbytes > self._most_bytes:
                del self._seen[next(k for k, m in self._seen.items() if m is not None and k != key)]
        return made


_KEPT = KeptMaps(1 << 28)


def encoded(
    matrix: Entries,
    params: Parameters,
    level: int,
    keys: int | None = None,
    label: tuple[int, ...] | None = None,
    can_replicate: bool = False,
    period: int = 0,
) -> LinearMap:
    """The map of a matrix; its results decrypt in the shape `label`.

    Without `ren.jit` it is encoded once and kept, where the same matrix is met again and again.

    `can_replicate` says that the slots beyond the length of its vectors are zeros, and `period`
    that all slots repeat.
    """

    def make() -> LinearMap:
        way = best_placement(matrix, params.slots, keys, can_replicate, period=period)
        return placed(*way, params, level, label)

    return _kept(lambda: (matrix.digest, period, params, level, keys, label, can_replicate), make)


def map_of(operator: Diagonals, params: Parameters, level: int) -> LinearMap:
    """The map of diagonals over the slots, as `encoded` keeps it."""
    make = partial(placed, operator.placement, operator.split, params, level)
    return _kept(lambda: (operator, params, level), make)


def _kept(key: Callable[[], Hashable], make: Callable[[], LinearMap]) -> LinearMap:
    if is_capturing() or is_tracing():
        return make()
    device = jax.config.jax_default_device  # type: ignore[attr-defined]
    return _KEPT.found((device, key()), make)


def placed(
    placement: Placement,
    split: Split,
    params: Parameters,
    level: int,
    label: tuple[int, ...] | None = None,
    memory: int | None = None,
) -> LinearMap:
    """The map with the diagonals encoded, each rotated back by its giant step.

    Raises ParameterError before any is, where they do not fit into so many bytes of memory.
    """
    tiles = [(row, column, *split.parted(step)) for row, column, step in placement.tiles]
    places, ends = _places(tiles, split)
    limbs, specials = params.ring(level).limbs, len(params.specials)
    split = attrs.evolve(split, is_wide=split.saves_by_sums(places, limbs, specials))
    limbs += specials if split.is_wide else 0
    nbytes, periodic = 4 * limbs * params.n, periodic_ring(params, level, split.is_wide)
    count = max(_LEAST, _PART // nbytes)
    room, ring = _most_expanded(placement, len(places), params, level, nbytes, periodic, memory)
    largest, plaintexts = placement.largest_row(split.folds), []
    for start in range(0, len(places), count):
        stop = min(start + count, len(places))
        held = tiles[ends[start] : ends[stop]]
        vectors = placement.vectors(ends[start], [giant for _, _, giant, _ in held])
        if split.is_paired:
            numbers = np.repeat(np.arange(stop - start), np.diff(ends[start : stop + 1]))
            are_first = [split.first_of[b] == b for *_, b in held]
            vectors = derived(partial(_as_pairs, numbers, are_first), vectors)
        kept_in = None if stop <= room else ring
        made = encode(vectors, params, level, at_once=True, kept_in=kept_in, is_wide=split.is_wide)
        plaintexts.append(made)
    is_complex = placement.entries.values.dtype.kind == "c"
    norm = derived(_norm, largest)
    shape = placement.entries.shape
    return LinearMap(tuple(plaintexts), places, split, shape, is_complex, norm, label)


def _norm(largest: float) -> NDArray[np.float32]:
    return np.array(min(noises.public_bound(largest), noises.LARGEST), np.float32)


def _places(tiles: Sequence[Place], split: Split) -> tuple[tuple[Place, ...], list[int]]:
    """The places of tiles, of which paired ones share one, and where those of each place end."""
    if not split.is_paired:
        return tuple(tiles), [*range(len(tiles) + 1)]
    # Those of a pair stand side by side: no other step lies between theirs.
    shared = [(i, j, giant, split.first_of[baby]) for i, j, giant, baby in tiles]
    runs = [(place, len([*run])) for place, run in itertools.groupby(shared)]
    ends = itertools.accumulate((count for _, count in runs), initial=0)
    return tuple(place for place, _ in runs), [*ends]


def _as_pairs(
    numbers: NDArray[np.intp], are_first: Sequence[bool], vectors: NDArray
) -> NDArray[np.complex128]:
    """Halves of p - i q for each pair of vectors [tile, slots]; `numbers` are those of its pair.

    A sum with the conjugate then gives the whole of what they stand for.
    """
    firsts = np.array(are_first, bool)
    made = np.zeros((int(numbers[-1]) + 1, vectors.shape[1]), np.complex128)
    made.real[numbers[firsts]] = vectors[firsts] / 2
    made.imag[numbers[~firsts]] = vectors[~firsts] / -2
    return made


def _most_expanded(
    placement: Placement,
    count: int,
    params: Parameters,
    level: int,
    nbytes: int,
    periodic: RingSpec | None,
    memory: int | None,
) -> tuple[int, RingSpec | None]:
    """The number of diagonals of `nbytes` that fit, and the ring that others are kept in.

    Those of slots that repeat are kept in the smaller ring, if that is enough, or as coefficients.
    """
    if memory is None or memory >= count * nbytes:
        return count, None
    smaller = {} if periodic is None else {4 * periodic.limbs * periodic.n: periodic}
    # A coefficient is at most sqrt(2) times the scale times the largest entry.
    largest = np.abs(placement.entries.values).max(initial=0.0) * float(params.scale(level))
    integers = integer_ring(params.n, largest >= 2.0**27)
    if 4 * integers.limbs * params.n < nbytes and largest < 2.0**59:
        smaller.setdefault(4 * integers.limbs * params.n, integers)
    for each, ring in smaller.items():
        if memory >= count * each:
            return (memory - count * each) // (nbytes - each), ring
    least = count * min(smaller, default=nbytes)
    raise ParameterError(
        f"{count} diagonals at level {level} were to be kept in memory={memory} bytes.",
        f"They take {least} bytes at least, and {count * nbytes} if none is transformed again.",
        f"Pass memory={least} or more, or a matrix with fewer diagonals.",
    )


@with_levels
def product(matrix: Any, ct: CiphertextT, is_transposed: bool = False) -> CiphertextT:
    """matrix @ ct, or ct @ matrix, one level down.

    A ciphertext that was given two axes by `reshape` is a matrix, as in numpy.matmul.
    """
    need_level(ct, 1, "A product with a matrix")
    entries, shape, label = entries_of(matrix), ct.layout.shape, None
    m = entries.transposed if is_transposed else entries
    if shape is not None:
        left, right = (shape, entries.shape) if is_transposed else (entries.shape, shape)
        if len(left) < 2 or len(right) != 2 or left[-1] != right[0]:
            differing = ""
            if len(left) == 2 and len(right) == 2:
                differing = f": {left[1]} columns meet {right[0]} rows"
            raise ParameterError(
                f"Shapes {left} and {right} met in a matrix product{differing}.",
                "The columns of the left one are the rows of the right one, and each has two axes.",
                f"Transpose the matrix, or flatten the ciphertext to a vector: {reshape_text(ct)}.",
            )
        label = (*left[:-1], right[1])
        m = m.on_rows(math.prod(shape[:-1])) if is_transposed else m.on_columns(shape[1])
    tail = ct.layout.tail
    can_replicate, period = not tail.has_leftovers, 0 if is_columns(ct) else tail.period
    result = encoded(m, ct.params, ct.level, None, label, can_replicate, period) @ ct
    return with_type(result, None if in_circuit() else of_result(ct, matrix))
