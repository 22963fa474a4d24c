"""`matrix @ ct` and `ckks.linear`: matrices times encrypted vectors, by diagonals."""

from __future__ import annotations

import dataclasses
import itertools
import numbers
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import partial, reduce
from typing import Any

import attrs
import jax
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ren.core import html
from ren.core.errors import ContextError, DepthError, OperandError, ParameterError
from ren.core.listed import Listed
from ren.core.ring import RingSpec
from ren.core.text_table import size
from ren.lowering.devices.devices import is_tracing
from ren.poly.display import steady
from ren.poly.poly import realize_polys
from ren.poly.realization import is_capturing
from ren.poly.symbolic import Aside
from ren.schemes.ckks.arithmetic.argument_checks import check_ciphertext
from ren.schemes.ckks.arithmetic.automatic import Factors, add, sum_of_products
from ren.schemes.ckks.arithmetic.evolve import drop_to, kept_to, need_level, within_that_of
from ren.schemes.ckks.arithmetic.manual import normal
from ren.schemes.ckks.arithmetic.number_types import of_result, with_type
from ren.schemes.ckks.arithmetic.operation_hooks import circuit, in_circuit, with_levels
from ren.schemes.ckks.arithmetic.rotation import cleared, rotate
from ren.schemes.ckks.arithmetic.shapes import batch_axes, count_text
from ren.schemes.ckks.circuits import map_serialization
from ren.schemes.ckks.circuits.complex_pairs import imaginary_unit, paired, twice_real
from ren.schemes.ckks.circuits.diagonals import Place, Placement, Split, best_placement
from ren.schemes.ckks.circuits.entries import Entries, checked
from ren.schemes.ckks.circuits.shaping import as_blocks, blocks_of, rotations_summed
from ren.schemes.ckks.encoding.ciphertext_data import (
    CiphertextData,
    CiphertextT,
    is_columns,
    known_length,
)
from ren.schemes.ckks.encoding.layout import LEFTOVERS, ZEROS, Tail
from ren.schemes.ckks.encoding.plaintext import (
    Plaintext,
    encode,
    expanded,
    integer_ring,
    periodic_ring,
)
from ren.schemes.ckks.encoding.refusals import no_attribute, refusal, refuse_arithmetic
from ren.schemes.ckks.noise import bounds as noises
from ren.schemes.ckks.parameters.display import security_marks
from ren.schemes.ckks.parameters.parameters import Parameters
from ren.schemes.rlwe.active_context import RlweContext, active_context
from ren.schemes.rlwe.frame import PathLike, Stored, write

_PART, _LEAST = 1 << 23, 16  # bytes of diagonals that are encoded together, and their number
Babies = Mapping[tuple[int, int], CiphertextT]


@steady("plaintexts", "norm")
@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class LinearMap(Stored, metaclass=Listed):
    """A matrix encoded for one set of parameters: `linear_map @ ct`, again and again.

    A pytree: its leaves are the encoded diagonals.

    Attributes:
        plaintexts: the diagonals by place, each rotated back by its giant step. Each plaintext is
            a batch of many, all but the last of one size. Some keep their coefficients alone, and
            are transformed in each product.
        places: of each diagonal (block of the result, block of the vector, giant step, baby step).
            Where they are paired, of each pair, with the first of its baby steps.
        split: the rotations.
        shape: (m, k), of the matrix.
        is_complex: whether it is.
        norm: at least the largest sum of moduli along a row, a power of two, float32 []. It bounds
            the result, which tells of it.
        label: the shape in which the m numbers decrypt; None for a vector.
    """

    __internal__ = ("plaintexts", "places", "split", "norm", "label")

    plaintexts: tuple[Plaintext, ...]
    places: tuple[Place, ...]
    split: Split
    shape: tuple[int, int]
    is_complex: bool
    norm: Any
    label: tuple[int, ...] | None = None

    @property
    def rotations(self) -> list[int]:
        """The steps whose keys a server needs: `ctx.rotation_keys(map.rotations, map.level)`."""
        slots = self.plaintexts[0].slots
        below = (slots - 1) // 2
        return sorted({(k + below) % slots - below for k in self.split.keys} - {0})

    @property
    def needs_conjugation(self) -> bool:
        """True where a server needs `ctx.conjugation_key(map.level)`: diagonals are paired."""
        return self.split.is_paired

    @property
    def level(self) -> int:
        """The level at which it is encoded; its results lie one below, or lower."""
        return self.plaintexts[0].level

    @property
    def nbytes(self) -> int:
        """Bytes of the diagonals in memory."""
        return sum(p.nbytes for p in self.plaintexts)

    @circuit("a product with a matrix")
    def __matmul__(self, ct: CiphertextT) -> CiphertextT:
        """The product: m numbers, one level below the lower of the two levels."""
        check_ciphertext(ct, "A product with a matrix")
        length = known_length(ct)
        if length != self.shape[1]:
            raise ParameterError(
                f"A matrix of shape {self.shape} was multiplied by a ciphertext of "
                f"{count_text(length)}.",
                f"It takes a vector of {self.shape[1]} numbers.",
                "Encrypt a vector of that length, or slice it: ct[:k].",
            )
        if ct.params != self.plaintexts[0].params:
            raise ParameterError(
                f"A matrix encoded for {self.plaintexts[0].params!r} met a ciphertext of others.",
                f"The ciphertext has {ct.params!r}.",
                "Encode it for the context that made the ciphertext: ckks.linear(matrix, ctx). A "
                "function for ckks.plan takes the matrix itself: matrix @ x.",
            )
        if self.split.is_paired and ct.layout.is_complex:
            raise ParameterError(
                "A map with paired diagonals met a ciphertext of complex numbers.",
                "Two diagonals are the real and the imaginary part of one, for real vectors.",
                "Encode it without paired=True, or multiply ct.real and ct.imag by it.",
            )
        babies = self._babies(blocks_of(self._replicated(ct)))
        factors = tuple(expanded(p, self.split.is_wide) for p in self.plaintexts)
        rows = [self._row(i, factors, babies) for i in range(self.split.blocks[0])]
        is_complex = ct.layout.is_complex or self.is_complex
        tail, label = self._tail(ct.slots), self.label
        result = as_blocks(
            rows,
            length=self.shape[0],
            is_complex=is_complex,
            shape=label,
            tail=tail,
            columns=ct.layout.columns,
        )
        largest = noises.of_largest(ct.noise, ct.layout.blocks)
        if len(rows) > 1:
            largest = noises.side_by_side([largest] * len(rows))
        return within_that_of(result, largest, self.norm)

    def _tail(self, slots: int) -> Tail:
        """Content of the slots beyond the result: of folds around all slots, more such results."""
        folds = self.split.folds
        if not folds:
            return ZEROS
        return attrs.evolve(LEFTOVERS, period=folds[-1] if 2 * folds[0] == slots else 0)

    def _replicated(self, ct: CiphertextT) -> CiphertextT:
        """The vector at the level of the map at most, with its copies, which it may have.

        Leftovers between these are cleared before, at a level.
        """
        count, period = self.split.copies, self.split.period
        need_level(ct, 1, "A product with a matrix")
        if count == 1 or (ct.layout.tail.period and period % ct.layout.tail.period == 0):
            return self._lowered(ct)
        if ct.layout.tail.has_leftovers and ct.level < 2:
            raise DepthError(
                f"A map that replicates its vector met one with leftovers beyond its length, at "
                f"level {ct.level}.",
                "Leftovers are cleared by a product with a mask: it takes two levels in all.",
                "Encode it with ckks.linear(matrix, ctx, leftovers=True), or write matrix @ ct: "
                "one level, with more diagonals.",
            )
        ct = self._lowered(cleared(ct, "A product with a map that replicates its vector"))
        return kept_to(rotations_summed(ct, count, -period), ct)

    def _lowered(self, ct: CiphertextT) -> CiphertextT:
        """Once, before it is rotated: products would lower each rotation by itself."""
        return drop_to(normal(ct), self.level) if ct.level > self.level else ct

    def _babies(self, blocks: Sequence[CiphertextData]) -> Babies[CiphertextT]:
        """Each block rotated by the baby steps that its tiles need."""
        s, result = self.split, {}
        unit = imaginary_unit(blocks[0]) if s.is_paired else None
        for j, x in enumerate(blocks):
            needed = {baby for _, column, _, baby in self.places if column == j}
            pairs = {a: s.pairs[a] for a in sorted(needed)} if s.is_paired else {}
            steps = needed.union(b for b in pairs.values() if b is not None)
            if s.is_walked:
                turned = {0: x}
                for step in range(s.unit, max(steps, default=0) + 1, s.unit):
                    turned[step] = rotate(turned[step - s.unit], s.unit)
            else:
                turned = {baby: rotate(x, baby) for baby in sorted(steps)}
            for a, b in pairs.items():
                if b is not None:
                    turned[a] = paired(turned[a], turned[b], unit)
            result |= {(j, baby): y for baby, y in turned.items()}
        return result

    def _row(
        self, row: int, factors: tuple[Plaintext, ...], babies: Babies[CiphertextT]
    ) -> CiphertextT:
        """One block of the result."""
        inner: dict[int, list[tuple[int, CiphertextT]]] = {}
        for number, (i, j, giant, baby) in enumerate(self.places):
            if i == row:
                inner.setdefault(giant, []).append((number, babies[j, baby]))
        sums = {giant: _summed(factors, terms) for giant, terms in sorted(inner.items())}
        if self.split.is_chained:
            total = self._chained(sums)
        else:
            total = reduce(add, (rotate(x, giant) for giant, x in sums.items()))
        folds = self.split.folds
        total = rotations_summed(total, 1 << len(folds), folds[-1]) if folds else total
        return twice_real(total) if self.split.is_paired else total

    def _chained(self, sums: Mapping[int, CiphertextT]) -> CiphertextT:
        """From the highest giant step down, each time by the stride."""
        low, high, stride = self.split.giants[0], max(sums), self.split.stride
        total = sums[high]
        for giant in range(high - stride, low - 1, -stride):
            total = rotate(total, stride)
            total = add(total, sums[giant]) if giant in sums else total
        return rotate(total, low)

    def __ren_parts__(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        static = (self.places, self.split, self.shape, self.is_complex, self.label)
        return (*self.plaintexts, Aside(self.norm)), static

    @classmethod
    def __ren_whole__(cls, parts: Sequence[Any], static: tuple[Any, ...]) -> LinearMap:
        (*plaintexts, norm), (places, split, shape, is_complex, label) = parts, static
        return cls(tuple(plaintexts), places, split, shape, is_complex, norm.value, label)

    def to_bytes(self) -> bytes:
        """The map for `from_bytes`, as it is encoded; not secret to who reads it.

        Diagonals that are kept as coefficients, by `memory=`, are written so.
        """
        return b"".join(self._parts())

    def save(self, path: PathLike) -> None:
        """Writes `to_bytes()` to a file, whole or not at all, a batch of diagonals at a time.

        Raises:
            OSError: the place cannot be written to.
        """
        write(path, self._parts())

    @classmethod
    def from_bytes(cls, data: bytes) -> LinearMap:
        """The map that `to_bytes` wrote: nothing is encoded, and its products have the same bits.

        Raises:
            SerializationError: truncated, altered or foreign bytes.
        """
        return cls(**map_serialization.read_map(data))

    def _parts(self) -> Iterator[bytes | memoryview]:
        return map_serialization.map_parts(
            self.plaintexts, self.places, self.split, self.shape, self.is_complex, self.norm,
            self.label,
        )  # fmt: skip

    def __reduce__(self) -> Any:
        return LinearMap.from_bytes, (self.to_bytes(),)

    def __repr__(self) -> str:
        (m, k), s = self.shape, self.split
        keys = len(s.keys) + s.is_paired
        return (
            f"LinearMap({m} x {k}, {self._counted} at level {self.level}, "
            f"{s.rotations} rotation{'s' * (s.rotations != 1)} with {keys} key{'s' * (keys != 1)})"
        )

    @property
    def _counted(self) -> str:
        count = len(self.places)
        pairs = f"pair{'s' * (count != 1)} of " * self.split.is_paired
        return f"{count} {pairs}diagonal{'s' * (count != 1 or self.split.is_paired)}"

    def _repr_html_(self) -> str:
        m, k = self.shape
        params, split = self.plaintexts[0].params, self.split
        rows = [
            ("matrix", f"{m} x {k}, {'complex' if self.is_complex else 'real'}"),
            ("diagonals", f"{len(self.places)}{' pairs' * split.is_paired}"),
            ("level", f"{self.level} of {params.depth}"),
            ("vector", f"{split.copies} copies, {abs(split.period)} slots apart"),
            ("rotations", f"{split.rotations}, {len(split.folds)} of them folds of a wide matrix"),
            ("keys", f"{len(self.rotations)}: {', '.join(map(str, self.rotations)) or 'none'}"),
            ("conjugation key", "needed"),
            ("size", size(self.nbytes)),
        ]
        left_out = {"vector"} if split.copies == 1 else set()
        left_out |= set() if split.is_paired else {"conjugation key"}
        rows = [row for row in rows if row[0] not in left_out]
        return html.card("LinearMap", html.facts(rows), **security_marks(params.security_bits))


def _summed(
    factors: tuple[Plaintext, ...], terms: Sequence[tuple[int, CiphertextT]]
) -> CiphertextT:
    """The sum of ciphertexts times the diagonals of these numbers."""
    numbers, vectors = zip(*terms, strict=True)
    return sum_of_products(Factors(factors, numbers), *vectors)


jax.tree_util.register_dataclass(
    LinearMap, ["plaintexts", "norm"], ["places", "split", "shape", "is_complex", "label"]
)


_OF_MATRICES = {
    "T": "ckks.linear(matrix.T, ctx)", "dot": "map @ ct", "matmul": "map @ ct",
    "transpose": "ckks.linear(matrix.T, ctx)", "inverse": "ckks.linear(np.linalg.inv(matrix), ctx)",
}  # fmt: skip
LinearMap.__getattr__ = no_attribute(_OF_MATRICES)  # type: ignore[attr-defined]
refuse_arithmetic(
    LinearMap,
    refusal(
        OperandError,
        "computes with a LinearMap, other than `map @ ct`.",
        "It is a matrix that was encoded for products with ciphertexts on its right.",
        "Compute with the matrix, and encode the result: ckks.linear(2 * matrix.T, ctx).",
    ),
)


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
        matrix: real or complex [m, k], of any size.
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

    References: `ren.schemes.ckks.circuits.diagonals`.

    Example:
        >>> import numpy as np
        >>> from ren.schemes import ckks
        >>> ctx = ckks.context(depth=1, n=2**13)
        >>> turn = ckks.linear(np.array([[0.0, -1.0], [1.0, 0.0]]), ctx)
        >>> (turn @ ctx.encrypt([1.0, 2.0])).decrypt().round(3)
        array([-2.,  1.])
    """
    entries = Entries.of(_checked(matrix))
    call, where = "ckks.linear(matrix, ctx)", (inputs, outputs)
    if not isinstance(leftovers, bool | np.bool):
        raise ParameterError(
            f"ckks.linear() got leftovers={leftovers!r:.40}.",
            "It is True where vectors have leftovers beyond their length, else False.",
            "Pass leftovers=True, or leave it out.",
        )
    return prepared(entries, context, call, level, keys, None, not leftovers, where, memory, paired)


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
) -> LinearMap:
    """The map for the context given, or the active one, its diagonals transformed once, now.

    `where` has the slots of the columns and of the rows, as of `Entries.at`.

    Raises ContextError where there is neither.
    """
    context = context or active_context(Parameters)
    if context is None:
        raise ContextError(
            f"{call.partition('(')[0]}() got no context, and none is active.",
            "The diagonals are encoded for one set of parameters.",
            f"Pass one, {call}, or write `with ctx:` around it.",
        )
    if not isinstance(getattr(context, "params", None), Parameters):
        raise ContextError(
            f"{call.partition('(')[0]}() got a {type(context).__name__} as the context.",
            "The diagonals are encoded for the parameters of a context.",
            f"Pass one, {call}, or write `with ctx:` around it.",
        )
    for name, count in (("keys", keys), ("memory", memory)):
        is_count = isinstance(count, numbers.Real) and not isinstance(count, bool)
        if count is not None and not (is_count and count >= 0):
            raise ParameterError(
                f"{call.partition('(')[0]}() got {name}={count!r:.40}.",
                "It is a number from 0 on, or None for no limit.",
                f"Pass for example {name}={'20' if name == 'keys' else '2**30'}, or leave it out.",
            )
    if not isinstance(is_paired, bool | np.bool):
        raise ParameterError(
            f"{call.partition('(')[0]}() got paired={is_paired!r:.40}.",
            "It is True where two diagonals are the two parts of a complex one, else False.",
            "Pass paired=True, or leave it out.",
        )
    if is_paired and matrix.values.dtype.kind == "c":
        raise ParameterError(
            f"{call.partition('(')[0]}() got paired=True and a matrix of complex numbers.",
            "Two diagonals are the real and the imaginary part of one where both are real.",
            "Leave paired out, or encode the real and the imaginary part of the matrix.",
        )
    params, level = context.params, context.params._checked_level(level)
    if not level and params.depth:
        raise ParameterError(
            f"{call.partition('(')[0]}() got level=0.",
            "A product with a matrix takes a level: none is left there.",
            "Pass a level of 1 or more, or leave it out for the highest.",
        )
    matrix, label = matrix.at(*where, params.slots), label if where[1] is None else None
    return _realized(
        _encoded(matrix, params, level, keys, label, can_replicate, memory, bool(is_paired))
    )


def _realized(m: LinearMap) -> LinearMap:
    realize_polys([p.wide for p in m.plaintexts])
    return m


class _KeptMaps:
    """The maps that lines without `ren.jit` encode, by content, the last used last.

    One is kept from the second time on that its matrix is seen, up to `most_bytes` of all. Kept
    weights stay in the memory of the process, as those of `ckks.linear` do.
    """

    def __init__(self, most_bytes: int, most_seen: int = 256) -> None:
        self._most_bytes, self._most_seen = most_bytes, most_seen
        self._lock = threading.Lock()
        self._seen: OrderedDict[Hashable, LinearMap | None] = OrderedDict()
        self._nbytes = 0

    @property
    def nbytes(self) -> int:
        """Size of what is kept."""
        return self._nbytes

    def found(self, key: Hashable, make: Callable[[], LinearMap]) -> LinearMap:
        """The map of a key: kept, or made."""
        with self._lock:
            was_seen, kept = key in self._seen, self._seen.get(key)
            self._seen[key] = kept
            self._seen.move_to_end(key)
            while len(self._seen) > self._most_seen:
                self._forget(next(iter(self._seen)))
        if kept is not None:
            return kept
        made = make()
        size = made.nbytes
        if not was_seen or size > self._most_bytes:
            return made
        _realized(made)
        with self._lock:
            if self._seen.get(key) is None:
                self._seen[key] = made
                self._nbytes += size
            for old in [k for k, m in self._seen.items() if m is not None and k != key]:
                if self._nbytes <= self._most_bytes:
                    break
                self._forget(old)
        return made

    def _forget(self, key: Hashable) -> None:
        m = self._seen.pop(key)
        self._nbytes -= 0 if m is None else m.nbytes


_KEPT = _KeptMaps(1 << 28)


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
    rest, made = (params, level, keys, label, can_replicate), partial(_encoded, period=period)
    if is_capturing() or is_tracing():
        return made(matrix, *rest)
    device = jax.config.jax_default_device  # type: ignore[attr-defined]
    return _KEPT.found((matrix.digest, device, period, *rest), lambda: made(matrix, *rest))


def _encoded(
    matrix: Entries,
    params: Parameters,
    level: int,
    keys: int | None = None,
    label: tuple[int, ...] | None = None,
    can_replicate: bool = False,
    memory: int | None = None,
    is_paired: bool = False,
    period: int = 0,
) -> LinearMap:
    placement, split = best_placement(matrix, params.slots, keys, can_replicate, is_paired, period)
    return placed(placement, split, params, level, label, memory)


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
            vectors = _as_pairs(vectors, numbers, [split.first_of[b] == b for *_, b in held])
        kept_in = None if stop <= room else ring
        made = encode(vectors, params, level, at_once=True, kept_in=kept_in, is_wide=split.is_wide)
        plaintexts.append(made)
    is_complex = placement.entries.values.dtype.kind == "c"
    norm = np.array(min(noises.public_bound(largest), noises.LARGEST), np.float32)
    shape = placement.entries.shape
    return LinearMap(tuple(plaintexts), places, split, shape, is_complex, norm, label)


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
    vectors: NDArray, numbers: NDArray[np.intp], are_first: Sequence[bool]
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
    entries, shape, label = Entries.of(_checked(matrix)), ct.layout.shape, None
    m = entries.transposed if is_transposed else entries
    if shape is not None:
        left, right = (shape, entries.shape) if is_transposed else (entries.shape, shape)
        if len(left) != 2 or len(right) != 2 or left[1] != right[0]:
            are_matrices = len(left) == len(right) == 2
            differing = f": {left[1]} columns meet {right[0]} rows" if are_matrices else ""
            raise ParameterError(
                f"Shapes {left} and {right} met in a matrix product{differing}.",
                "The columns of the left one are the rows of the right one, and each has two axes.",
                "Transpose the matrix, or flatten the ciphertext to a vector: ct.reshape(-1).",
            )
        label = (left[0], right[1])
        m = m.on_rows(shape[0]) if is_transposed else m.on_columns(shape[1])
    elif not is_transposed:
        text = f"A matrix of shape {entries.shape}"
        write = "batch @ matrix.T, or ckks.linear(matrix, ctx) @ batch, for each vector"
        check_no_batch_axis(entries.shape[1], ct, text, write)
    tail = ct.layout.tail
    can_replicate, period = not tail.has_leftovers, 0 if is_columns(ct) else tail.period
    result = encoded(m, ct.params, ct.level, None, label, can_replicate, period) @ ct
    return with_type(result, None if in_circuit() else of_result(ct, matrix))


def check_no_batch_axis(columns: int | None, ct: CiphertextData, left: str, write: str) -> None:
    """Raise where NumPy's product with a batch on the right is one along the batch axis."""
    if is_columns(ct) or batch_axes(ct)[-1:] != (columns,):
        return
    raise ParameterError(
        f"{left} met a batch of shape {ct.shape} on its right.",
        "NumPy would sum over the batch axis here; Ren multiplies each vector of a batch.",
        f"Write {write}; ckks.mix(matrix, batch) sums over a batch.",
    )


def _checked(matrix: Any) -> NDArray:
    return checked(matrix, (2,), "a matrix", "map = ckks.linear(matrix, ctx)")
