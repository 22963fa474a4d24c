"""CiphertextData: the fields of a ciphertext, below the functions that compute with them.

`Ciphertext` adds methods and defines the operators. Functions take any subclass and return the same
one: `with_fields` keeps the class of its operand.
"""

from __future__ import annotations

import dataclasses
import math
import operator
import weakref
from collections.abc import Callable, Sequence
from contextvars import Context, copy_context
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import attrs
import numpy as np

from ren.core.errors import OperandError, ParameterError
from ren.core.listed import Listed, undivided
from ren.core.node import Node
from ren.core.ring import RingSpec
from ren.core.user_frame import user_line
from ren.lowering.devices.devices import is_tracer
from ren.lowering.devices.donation import is_donated
from ren.lowering.kernels import embedding
from ren.poly import Poly
from ren.poly.key_ids import run_later
from ren.poly.symbolic import Symbolic, derived
from ren.schemes.ckks.encoding.layout import Layout
from ren.schemes.ckks.noise.estimate import Estimate, estimate_of
from ren.schemes.ckks.noise.range_checks import TOLERANCE, limit_of
from ren.schemes.ckks.noise.readable import Noise
from ren.schemes.ckks.noise.spans import Span
from ren.schemes.ckks.parameters.parameters import Parameters
from ren.schemes.rlwe.active_context import Kept
from ren.schemes.rlwe.keys import SwitchingKey
from ren.schemes.slots.planner import RotationPlan

CiphertextT = TypeVar("CiphertextT", bound="CiphertextData")
DataT = TypeVar("DataT")

# Types that numbers can come out as.
DTYPES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16",
    "float32", "float64", "complex64", "complex128",
)  # fmt: skip


@attrs.frozen(eq=False)
class Implied:
    """The type of the array that numbers were encrypted from.

    Programs do not depend on it. Under `ren.jit` it is a symbol: one plan serves all types.

    Args:
        code: its position in DTYPES, and one more; 0 where it is unknown. Or a symbol of that.
    """

    code: Any

    @classmethod
    def of(cls, dtype: np.dtype) -> Implied:
        """That of a type; unknown where numbers do not come out as it."""
        return cls(np.int8(DTYPES.index(dtype.name) + 1 if dtype.name in DTYPES else 0))

    @property
    def known(self) -> np.dtype | None:
        """The type; None where it is unknown, as in a function that is being captured."""
        if isinstance(self.code, Symbolic) or not self.code:
            return None
        return np.dtype(DTYPES[int(self.code) - 1])


_MOST_WAITING = 32  # noises that wait for each other
NumberType = np.dtype | Implied  # of numbers that come out: stated by the user, or of arrays


@attrs.frozen(eq=False)
class Beyond:
    """Noise of the slots beyond the length, where numbers are zero and errors are mostly smaller.

    A sum over all slots reads it; programs have many products that no such sum follows.

    Args:
        length: of the numbers, or the symbol that stands for it.
        made: makes the noise.
        depth: how many such functions call each other in it.
    """

    length: Any
    made: Callable[[], Noise]
    depth: int = 1

    @classmethod
    def of(cls, length: Any, function: Callable[..., Noise], *given: Beyond | Noise) -> Beyond:
        """The one of function(*noises); it is made at once where others wait in a long row."""
        depth = 1 + max([g.depth for g in given if isinstance(g, Beyond)], default=0)

        def made() -> Noise:
            return function(*[g.made() if isinstance(g, Beyond) else g for g in given])

        if depth < _MOST_WAITING:
            return cls(length, made, depth)
        noise = made()
        return cls(length, lambda: noise)

    def map(self, function: Callable[[Noise], Noise]) -> Beyond:
        """The same with function(noise)."""
        return Beyond.of(self.length, function, self)


@attrs.frozen(eq=False)
class Pending:
    """The addends of a ciphertext whose normal form has not run yet, held weakly: see `LazySum`.

    The program of the normal form reads the addends and so keeps them alive. Once it has run they
    are freed, and with them the operands of the product.
    """

    product: tuple[weakref.ref[Node], ...]
    base: tuple[weakref.ref[Node], ...]
    key: SwitchingKey | None
    noise: Noise
    source: Noise | None
    beyond: Beyond | None = None

    def map_noise(self, function: Callable[[Noise], Noise]) -> Pending:
        """The same with function(noise)."""
        beyond = self.beyond and self.beyond.map(function)
        return attrs.evolve(self, noise=function(self.noise), beyond=beyond)


@attrs.frozen(eq=False)
class Origin:
    """The numbers of a ciphertext before a product with a number, and before they were in order.

    A further product starts from there, and takes no further level. So does a map of the numbers,
    where that is cheaper than two maps. It is kept in this process alone, as long as the ciphertext
    is, whether that was read or not. So levels do not depend on what was read before.

    Args:
        source: a ciphertext.
        factor: a number or [*batch, length] of them, a symbol, or what JAX traces. Times it,
            `source` holds the numbers.
        left: operators without a level, and where they leave the numbers. None where these stand
            in the same slots as in `source`.
        cost: of what leads from there to the numbers in order, in rotations.
    """

    source: CiphertextData
    factor: Any
    left: RotationPlan | None = None
    cost: float = 0.0

    @property
    def is_by_number(self) -> bool:
        """True where the factor is a number that is known now, or at a call."""
        return not np.ndim(self.factor) and not is_tracer(self.factor)

    @property
    def is_there(self) -> bool:
        """True unless the buffers of the source were donated since."""
        polys = vars(self.source).get("polys", ())
        return not any(is_donated(p._in_memory()) for p in polys if type(p) is Poly)

    def times(self, value: Any) -> Origin | None:
        """The same of the product with a number or numbers; None where it cannot start there.

        Maps are planned before symbols are known. So a number after one takes a level of its own.
        A factor below 2^-36 may be encoded as zero, and one above 2^40 leaves the range.
        """
        is_no_number = isinstance(value, np.ndarray) and value.dtype.kind not in "biufc"
        if self.left is not None or is_no_number or not self.is_there:
            return None
        if is_tracer(self.factor) or is_tracer(value):
            return attrs.evolve(self, factor=embedding.product(self.factor, value))
        if isinstance(value, int) and abs(value) > _MOST:
            return None
        factor = derived(_product, self.factor, value)
        if not isinstance(factor, Symbolic):
            largest = np.abs(factor).max(initial=0.0)
            if largest and not _LEAST <= largest <= _MOST:
                return None
        return attrs.evolve(self, factor=factor)


_LEAST, _MOST = 2.0**-36, 2.0**40  # of the largest factor


def _product(a: Any, b: Any) -> Any:
    """a b in 64 bits: integers and short floats of users would wrap around, or round."""
    return np.multiply(a, b, dtype=np.result_type(a, b, np.float64))


@attrs.define(eq=False)
class Later:
    """Polynomials and noise of a ciphertext, recorded and made when they are first read.

    So what only another product or map starts from takes no time, and no keys.

    Args:
        make: gives a ciphertext that has them.
        batch: its batch axes, with that of blocks.
        bound: of the message; None where it is not known before a call.
    """

    make: Callable[[], Any] | None
    batch: tuple[int, ...]
    bound: float | None
    _context: Context | None = attrs.field(init=False, factory=copy_context)
    _made: Any = attrs.field(init=False, default=None)

    @property
    def made(self) -> Any:
        """The ciphertext, made once, as it would have been where it was recorded."""
        context, make = self._context, self.make
        if context is not None and make is not None:
            self._made = run_later(context, make)
            self._context = self.make = None
        return self._made

    def map(self, function: Callable[[Any], Any]) -> Later:
        """The same with a function of the ciphertext."""
        return Later(lambda: function(self.made), self.batch, self.bound)


class _Recorded:
    """A field that is made when it is read, where `later` stands in place of it."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, x: CiphertextData | None, owner: type) -> Any:
        if x is None:
            return self
        fields, later = vars(x), x.later
        if later is None:
            if self.name == "pending":
                return None
            raise AttributeError(self.name)
        made = later.made
        fields.update(polys=made.polys, noise=made.noise, pending=made.pending, later=None)
        return fields[self.name]


@undivided
@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class CiphertextData(metaclass=Listed):
    """Fields of a ciphertext, and properties that cost nothing; see `Ciphertext` for the public.

    Attributes:
        layout: static, as level, key_id, params and own_scale are.
        noise: what is known of message and error, float32 [*batch, WIDTH], public; NaN where
            nothing is. Read it as `estimate`.
        seed: what c1 was expanded from, for fresh ciphertexts only; halves their bytes. It does
            not travel through pytrees, nor does the next.
        pending: what sums go on from while the normal form of a product has not run.
        origin: what products with numbers and maps start from, where there is something.
        later: what makes `polys`, `noise` and `pending` before they are read; else None.
        own_scale: the scale where it is not the level's, inside `ckks.manual()` only.
        keeps: the context that made it, alive as long as it is. In this process alone: it is in no
            bytes, and in no leaves or static data of a pytree.
        span: static: where the numbers lie, as far as the user stated it; None where it is unknown.
        stated_dtype: the type that numbers come out as, where it is not `default_dtype`. Static
            where it was stated: see `ckks.typed`.
    """

    __internal__ = (
        "layout", "noise", "seed", "pending", "origin", "later", "own_scale", "keeps", "span",
        "stated_dtype", "default_dtype", "static_dtype", "is_normal",
    )  # fmt: skip

    polys: tuple[Poly, ...]
    level: int
    layout: Layout
    key_id: str
    params: Parameters
    noise: Noise
    seed: bytes | None = None
    pending: Pending | None = None
    origin: Origin | None = None
    later: Later | None = None
    own_scale: Fraction | None = None
    keeps: Kept | None = None
    span: Span | None = None
    stated_dtype: NumberType | None = None

    @property
    def n(self) -> int:
        """The degree of the ring, twice the most slots."""
        return self.params.n

    @property
    def degree(self) -> int:
        """Its degree in the secret key, 1; 2 for a product in `ckks.manual()`."""
        return len(self.polys) - 1

    @property
    def is_normal(self) -> bool:
        """True for two components at the scale of the level: not always so in manual mode."""
        return self.own_scale is None and (self.later is not None or len(self.polys) == 2)

    @property
    def ring(self) -> RingSpec:
        """The ring of its level."""
        return self.params.ring(self.level)

    @property
    def slots(self) -> int:
        """Number of slots; rotations are cyclic over them."""
        return self.params.slots

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of what `decrypt` gives: [*batch, length], () of a number; or as reshaped.

        Inside a function that is being captured the plan then depends on the length.
        """
        batch = batch_of(self)
        length = known_length(self)
        batch = batch[:-1] if self.layout.blocks > 1 else batch
        if self.layout.shape is not None and self.layout.has_shape:
            return (*batch, *self.layout.shape)
        if batch and length is not None and self.layout.columns:
            return (*batch[:-1], length, batch[-1])
        return batch if length is None else (*batch, length)

    @property
    def ndim(self) -> int:
        """The number of axes of `shape`."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The count of the numbers, of all vectors of a batch: the product of `shape`."""
        return math.prod(self.shape)

    @property
    def dtype(self) -> np.dtype:
        """The type of what `decrypt` gives: that of `ckks.typed`, or of the array that went in.

        Inside a function that is being captured the second is unknown: float64 or complex128.
        """
        made = self.stated_dtype
        made = made.known if isinstance(made, Implied) else made
        if made is None or (self.layout.is_complex and made.kind != "c"):
            return self.default_dtype
        return made

    @property
    def static_dtype(self) -> np.dtype | None:
        """The type that was stated, which programs depend on; None where none was."""
        return None if isinstance(self.stated_dtype, Implied) else self.stated_dtype

    @property
    def default_dtype(self) -> np.dtype:
        """Float64, or complex128."""
        return np.dtype(np.complex128 if self.layout.is_complex else np.float64)

    def __len__(self) -> int:
        if not self.shape:
            raise OperandError(
                "len() was asked of an encrypted number.",
                "It has no length, as in NumPy: it fills all slots.",
                "See ct.shape and ct.slots.",
            )
        return self.shape[0]

    @property
    def scale(self) -> Fraction:
        """The scale, exactly: that of the level, after a rescale that is pending."""
        return self.own_scale or self.params.scale(self.level)

    @property
    def nbytes(self) -> int:
        """Bytes of the limb arrays in memory."""
        return sum(4 * math.prod(p.shape) for p in self.polys)

    @property
    def estimate(self) -> Estimate:
        """The tracked bounds of message and error; see `ckks.precision` for the true error.

        Raises:
            TracedValueError: inside a function that is being captured or traced.
        """
        return estimate_of(self.noise, limit_of(self) * TOLERANCE)

    if TYPE_CHECKING:  # what arithmetic and circuits compute with; `Ciphertext` defines it
        _in_order: ClassVar[Any]
        _fresh: ClassVar[Any]
        _with_levels: ClassVar[Any]

        def __add__(self, other: Any) -> Self: ...
        def __radd__(self, other: Any) -> Self: ...
        def __sub__(self, other: Any) -> Self: ...
        def __rsub__(self, other: Any) -> Self: ...
        def __mul__(self, other: Any) -> Self: ...
        def __rmul__(self, other: Any) -> Self: ...
        def __neg__(self) -> Self: ...
        def __matmul__(self, other: Any) -> Self: ...


_RECORDED = ("polys", "noise", "pending")
for _name in _RECORDED:
    setattr(CiphertextData, _name, _Recorded(_name))


def recorded(x: CiphertextT, later: Later, **fields: Any) -> CiphertextT:
    """`x` with other fields, and polynomials and noise that are made when they are read."""
    made = with_fields(x, seed=None, later=later, **fields)
    for name in _RECORDED:
        vars(made).pop(name, None)
    return made


def with_fields(x: DataT, **fields: Any) -> DataT:
    """`dataclasses.replace`, in a third of its time: each operation makes a ciphertext.

    Of a ciphertext or a plaintext, whose fields users do not replace.
    """
    made = object.__new__(type(x))
    vars(made).update(vars(x), **fields)
    return made


def known_length(x: Any) -> int | None:
    """The numbers that went in; None for a scalar. Inside a capture the plan depends on it."""
    length = x.layout.length
    return None if length is None else operator.index(length)


def is_columns(x: Any) -> bool:
    """Whether a ciphertext or a plaintext holds a table by its columns, one vector for each.

    Where a transformation of JAX maps a function over them, it sees one vector.
    """
    if not x.layout.columns:
        return False
    batch = batch_of(x) if isinstance(x, CiphertextData) else x.wide.shape[:-2]
    return len(batch) > (x.layout.blocks > 1)


def without_axis(polys: Sequence[Any], layout: Layout) -> Layout:
    """The layout of leaves, that of a vector where JAX gives one column of a table by its columns.

    Raises:
        ParameterError: where it gives one block of a vector that is cut into blocks.
    """
    if not (layout.columns or layout.blocks > 1) or any(type(p) is not Poly for p in polys):
        return layout
    arrays = [p.node.spec if p._node is not None else p._leaf for p in polys]
    if not all(hasattr(a, "shape") for a in arrays):  # what JAX puts in the place of leaves
        return layout
    axes = max(len(a.shape) for a in arrays) - 2
    if layout.blocks > 1 and axes < 1:
        raise ParameterError(
            f"{user_line()} takes a block of a vector that is cut into {layout.blocks}.",
            "The numbers of all blocks are one vector.",
            "Map over a batch of such vectors, ckks.stack([x, y]), and slice by ct[i:j].",
        )
    return layout.as_column if axes <= (layout.blocks > 1) else layout


def batch_of(x: Any) -> tuple[int, ...]:
    """The batch axes of a ciphertext, that of blocks the last; its polynomials may have fewer."""
    if x.later is not None:
        return x.later.batch
    return np.broadcast_shapes(*(p.shape[:-2] for p in x.polys))
