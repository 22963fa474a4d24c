"""A matrix as encoded diagonals, and its product with an encrypted vector."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from typing import Any

import attrs
import jax

from ren.core import html
from ren.core.attributes import frozen
from ren.core.errors import DepthError, OperandError, ParameterError
from ren.core.listed import Listed
from ren.core.text_table import size
from ren.poly.display import steady
from ren.poly.symbolic import Aside, traced
from ren.schemes.ckks.arithmetic.argument_checks import check_ciphertext
from ren.schemes.ckks.arithmetic.automatic import Factors, add, sum_of_products
from ren.schemes.ckks.arithmetic.complex_pairs import imaginary_unit, paired, twice_real
from ren.schemes.ckks.arithmetic.evolve import drop_to, kept_to, need_level, within_that_of
from ren.schemes.ckks.arithmetic.manual import normal
from ren.schemes.ckks.arithmetic.number_types import of_product, with_type
from ren.schemes.ckks.arithmetic.operation_hooks import circuit, in_circuit
from ren.schemes.ckks.arithmetic.rotation import cleared, rotate, rotations_summed
from ren.schemes.ckks.arithmetic.shapes import count_text
from ren.schemes.ckks.circuits import map_serialization
from ren.schemes.ckks.circuits.stacking import as_blocks, blocks_of
from ren.schemes.ckks.encoding.ciphertext_data import CiphertextData, CiphertextT, known_length
from ren.schemes.ckks.encoding.layout import LEFTOVERS, ZEROS, Tail
from ren.schemes.ckks.encoding.plaintext import Plaintext, expanded
from ren.schemes.ckks.encoding.refusals import no_attribute, refusal, refuse_arithmetic
from ren.schemes.ckks.noise import bounds as noises
from ren.schemes.ckks.parameters.display import security_marks
from ren.schemes.rlwe.frame import PathLike, Stored, write
from ren.schemes.slots.diagonals import Place, Split

_STATIC = ("places", "split", "shape", "is_complex", "label", "number_type")
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
        number_type: the name of the type of the matrix, with which that of a vector is promoted.
            None for results of 64 bits.
    """

    __internal__ = ("plaintexts", "places", "split", "norm", "label", "number_type")

    plaintexts: tuple[Plaintext, ...]
    places: tuple[Place, ...]
    split: Split
    shape: tuple[int, int]
    is_complex: bool
    norm: Any
    label: tuple[int, ...] | None = None
    number_type: str | None = None

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

    def __matmul__(self, ct: CiphertextT) -> CiphertextT:
        """The product: m numbers, one level below the lower of the two levels."""
        result = self._product(ct)
        return with_type(result, None if in_circuit() else of_product(ct, self.number_type))

    @circuit("a product with a matrix")
    def _product(self, ct: CiphertextT) -> CiphertextT:
        check_ciphertext(ct, "A product with a matrix")
        self._check_one("were multiplied by a ciphertext")
        length = known_length(ct)
        if length != self.shape[1]:
            raise ParameterError(
                f"A matrix of shape {self.shape} was multiplied by a ciphertext of "
                f"{count_text(length)}.",
                f"It takes a vector of {self.shape[1]} numbers.",
                "Encrypt a vector of that length. ckks.mix(matrix, ct) takes as many ciphertexts."
                if length is None
                else "Encrypt a vector of that length, or write "
                f"{f'ckks.pad(ct, {self.shape[1]})' if length < self.shape[1] else 'ct[:k]'}.",
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
        return (*self.plaintexts, Aside(self.norm)), tuple(getattr(self, f) for f in _STATIC)

    @classmethod
    def __ren_whole__(cls, parts: Sequence[Any], static: tuple[Any, ...]) -> LinearMap:
        *plaintexts, norm = parts
        return _unflatten(static, (tuple(plaintexts), norm.value))

    def to_bytes(self) -> bytes:
        """The map for `from_bytes`, as it is encoded; not secret to who reads it.

        Diagonals that are kept as coefficients, by `memory=`, are written so.
        """
        return b"".join(self._parts())

    def save(self, path: PathLike) -> None:
        """Writes `to_bytes()` to a file, whole or not at all, a batch of diagonals at a time.

        Raises:
            OperandError: not a path.
            OSError: the place cannot be written to.
        """
        write(path, self._parts())

    @classmethod
    def from_bytes(cls, data: bytes) -> LinearMap:
        """The map that `to_bytes` wrote: nothing is encoded.

        Its products with realized vectors have the same bits.

        Raises:
            SerializationError: truncated, altered or foreign bytes.
        """
        return cls(**map_serialization.read_map(data))

    def _check_one(self, done: str) -> None:
        """Raise for maps that were stacked, leaf by leaf, outside of what takes them apart."""
        more = self.plaintexts[0].wide.shape[:-3]
        if more:
            raise OperandError(
                f"Linear maps in a stack of shape {more} {done}.",
                "jax.vmap and lax.scan take them out of it, one after another.",
                "Write jax.vmap(lambda m: m @ ct)(maps), or take one: "
                "jax.tree.map(lambda leaf: leaf[0], maps).",
            )

    def _parts(self) -> Iterator[bytes | memoryview]:
        self._check_one("were to be written as bytes")
        return map_serialization.map_parts(self)

    def __reduce__(self) -> Any:
        return LinearMap.from_bytes, (self.to_bytes(),)

    def __repr__(self) -> str:
        (m, k), s = self.shape, self.split
        keys = len(s.keys) + s.is_paired
        return (
            f"LinearMap({m} x {k}, {self._counted} at level {self.level}, "
            f"{s.rotations} rotation{'s' * (s.rotations != 1)} with {keys} key{'s' * (keys != 1)}"
            f"{', INSECURE' * self.plaintexts[0].params.is_insecure})"
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


def _flatten(m: LinearMap) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    *plaintexts, norm = m.__ren_parts__()[0]
    return (tuple(plaintexts), traced(norm.value)), m.__ren_parts__()[1]


def _unflatten(static: tuple[Any, ...], children: Any) -> LinearMap:
    plaintexts, norm = children
    return LinearMap(plaintexts, norm=norm, **dict(zip(_STATIC, static, strict=True)))


jax.tree_util.register_pytree_node(LinearMap, _flatten, _unflatten)


_OF_MATRICES = {
    "T": "ckks.linear(matrix.T, ctx)", "dot": "map @ ct", "matmul": "map @ ct",
    "transpose": "ckks.linear(matrix.T, ctx)", "inverse": "ckks.linear(np.linalg.inv(matrix), ctx)",
}  # fmt: skip
LinearMap.__getattr__ = no_attribute(_OF_MATRICES)  # type: ignore[attr-defined]
LinearMap.__setattr__ = LinearMap.__delattr__ = frozen(  # type: ignore[method-assign]
    otherwise="Encode another one: ckks.linear(matrix, ctx)."
)
refuse_arithmetic(
    LinearMap,
    refusal(
        OperandError,
        "computes with a LinearMap, other than `map @ ct`.",
        "It is a matrix that was encoded for products with ciphertexts on its right.",
        "Compute with the matrix, and encode the result: ckks.linear(2 * matrix.T, ctx).",
    ),
)
