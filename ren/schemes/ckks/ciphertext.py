"""Ciphertext: an encrypted vector of slots with NumPy's operators, and a JAX pytree."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Self

import jax
import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from ren.core.attributes import Unchanging
from ren.poly import Poly
from ren.poly.display import steady
from ren.poly.key_ids import KeyId
from ren.poly.poly import realize_polys
from ren.poly.symbolic import Aside, Symbolic, derived, traced
from ren.schemes.ckks.arithmetic import automatic as arithmetic
from ren.schemes.ckks.arithmetic import complex_pairs, evolve, rotation
from ren.schemes.ckks.arithmetic import manual as explicit
from ren.schemes.ckks.arithmetic.argument_checks import as_bound, as_exponent, as_integer
from ren.schemes.ckks.arithmetic.manual import is_manual
from ren.schemes.ckks.arithmetic.number_types import (
    floating,
    of_operands,
    of_result,
    of_total,
    with_type,
)
from ren.schemes.ckks.arithmetic.operation_hooks import Settings, operation, settings
from ren.schemes.ckks.arithmetic.shapes import (
    check_axis,
    check_is_in_slots,
    check_not_flattened,
    refuse_columns,
)
from ren.schemes.ckks.bootstrapping.bootstrap import bootstrap_one, fresh, with_levels
from ren.schemes.ckks.circuits import (
    linear,
    moments,
    moves,
    operators,
    products,
    reductions,
    shaping,
    tables,
)
from ren.schemes.ckks.encoding import refusals, serialization
from ren.schemes.ckks.encoding.ciphertext_data import (
    CiphertextData,
    Implied,
    with_fields,
    without_axis,
)
from ren.schemes.ckks.encoding.display import ciphertext_page, packed_text
from ren.schemes.ckks.encoding.layout import Layout
from ren.schemes.ckks.functions import array_protocols as protocols
from ren.schemes.ckks.functions.arguments import stated
from ren.schemes.ckks.functions.calls import call
from ren.schemes.ckks.functions.logic import over_truth, selected
from ren.schemes.ckks.noise.estimate import bits_text
from ren.schemes.ckks.noise.readable import is_known
from ren.schemes.ckks.noise.sigmas import log2_of
from ren.schemes.rlwe.active_context import context_for, kept_context
from ren.schemes.rlwe.frame import Stored


@protocols.checked_arguments
@steady("polys", "noise")
class Ciphertext(CiphertextData, Stored, Unchanging):
    """Encrypted slots: c0 + c1 s = round(s_level * message) + noise over the ring of `level`.

    Made by `ctx.encrypt`. Operators `+ - *` take ciphertexts of one context, plaintexts, arrays
    (slot by slot) and numbers. `/` takes arrays and numbers, `**` integers from 0 on. Where an
    interval is stated, `/` takes ciphertexts and `**` other exponents. Levels are aligned where
    needed. Factors in the clear, as in x * 0.5 * 0.25, take one level together. Products are
    relinearized and rescaled late. A sum of products is once, when it is needed in normal form,
    with two components and degree 1. A ciphertext that leaves laziness is in
    that form.

    Attributes:
        polys: (c0, c1), NTT domain, the normal form: with the tracked noise the children of the
            pytree. Inside `ckks.manual()` a product has three polynomials.
        level: counts a rescale that is pending. It, key_id and params are static.

    Raises:
        DepthError: an operation below level 0.
        ContextError: operands under two keys, or no context with the keys.

    Example:
        >>> from ren.schemes import ckks
        >>> ctx = ckks.context(depth=1, n=2**13)
        >>> x = ctx.encrypt([1.0, 2.0, 3.0])
        >>> (x * x + 1).decrypt().round(3)
        array([ 2.,  5., 10.])
    """

    __array_priority__ = 1000
    __new__ = refusals.made_by(6, "ctx.encrypt(values)")

    def __ren_parts__(self) -> tuple[tuple[Any, ...], Hashable]:
        x = _ready(self)
        kinds = (x.span, x.static_dtype, settings())
        static = (x.layout.static, x.level, x.params, x.own_scale, *kinds)
        kind = x.stated_dtype
        code = Aside(kind.code if isinstance(kind, Implied) else _UNKNOWN)
        return (*x.polys, *x.layout.leaves, Aside(x.noise), KeyId(x.key_id), code), static

    @classmethod
    def __ren_whole__(cls, parts: Sequence[Any], static: Any) -> Ciphertext:
        *polys, length, value, noise, key_id, code = parts
        fixed, level, params, scale, span, dtype, _ = static
        if dtype is None and (isinstance(code.value, Symbolic) or code.value):
            dtype = Implied(derived(np.int8, code.value))
        is_plain = value is None and type(length.count) in (int, type(None))
        layout = (_layout if is_plain else _new_layout)(length.count, fixed, value, params.slots)
        made, key_id = object.__new__(cls), key_id.value
        vars(made).update(  # at each replay; `__init__` sets the fields one by one
            polys=tuple(polys), level=level, layout=layout, key_id=key_id, params=params,
            noise=noise.value, own_scale=scale, keeps=kept_context(key_id), span=span,
            stated_dtype=dtype,
        )  # fmt: skip
        return made

    def __ren_realized__(self, run: Callable[[Sequence[Poly]], list[Poly]]) -> Ciphertext:
        x = _ready(self)
        if x.keeps is None and (kept := kept_context(x.key_id)) is not None:
            x = with_fields(x, keeps=kept)
        polys = tuple(run(x.polys)) if _are_polys(x) else x.polys
        if x.pending is None and all([p is q for p, q in zip(polys, x.polys, strict=True)]):
            return x  # they were realized where they stand
        return with_fields(x, polys=polys, pending=None, seed=None)

    def __repr__(self) -> str:
        mark = ", INSECURE" if self.params.is_insecure else ""
        if is_known(self.noise) and math.isfinite((estimate := self.estimate).error_bound):
            mark = f", {bits_text(estimate)}{mark}"
        mark = ", 3 components" * (len(self.polys) > 2) + mark
        mark = f", {self.dtype}{mark}" if self.static_dtype else mark
        return (
            f"Ciphertext({packed_text(self)}level {self.level} of {self.params.depth}, scale 2^"
            f"{log2_of(self.scale):.2f}, {self.slots} slots, {self.nbytes / 2**20:.2f} MiB{mark})"
        )

    def _repr_html_(self) -> str:
        return ciphertext_page(self)

    # ---------------------------------------------------------------- arithmetic

    def __add__(self, other: Any) -> Self:
        return operators.SUM(self, other)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Self:
        return operators.DIFFERENCE(self, other)

    def __rsub__(self, other: Any) -> Self:
        result = operators.SUM(-self, other)
        return result if result is NotImplemented else with_type(result, of_result(self, other))

    def __mul__(self, other: Any) -> Self:
        return operators.PRODUCT(self, other)

    __rmul__ = __mul__

    def __neg__(self) -> Self:
        if is_manual():
            return with_type(explicit.MANUAL.negate(self), of_total(self))
        return with_type(arithmetic.negate(explicit.normal(self)), of_total(self))

    def __pos__(self) -> Ciphertext:
        return self

    def __pow__(self, exponent: Any, modulus: None = None) -> Ciphertext:
        """self^exponent: products for whole exponents from 0 on, else `ckks.math.pow`."""
        if modulus is not None:
            refusals.no_remainder()
        power = as_exponent(exponent)
        if not isinstance(power, int) or power < 0:
            return call("pow", self, power, asked=f"takes {refusals.power_text(power)} of")
        if is_manual():
            return with_type(explicit.power(self, power), of_total(self))
        return with_type(arithmetic.power(explicit.normal(self), power), of_total(self))

    def __rpow__(self, base: Any) -> Ciphertext:
        return call("pow", base, self, asked="raises a number to the power of")

    def __truediv__(self, other: Any) -> Ciphertext:
        """self times 1/other: one level for numbers and arrays, else with `ckks.math.inverse`."""
        if isinstance(other, Ciphertext):
            return self * call("inverse", other, asked="divides by")
        result = self * protocols.inverted(other)
        return with_type(result, of_operands(floating, self, other))

    def __rtruediv__(self, other: Any) -> Ciphertext:
        return call("inverse", self, asked="divides by") * other

    def __mod__(self, divisor: Any) -> Ciphertext:
        """numpy.mod by a number: `ckks.math.mod`."""
        by = refusals.operand_text(divisor)
        return call("mod", self, divisor, asked=f"takes the remainder by {by} of")

    def __floordiv__(self, divisor: Any) -> Ciphertext:
        """self // number: `ckks.math.floor_divide`."""
        by = refusals.operand_text(divisor)
        return call("floor_divide", self, divisor, asked=f"divides by {by} rounding")

    def __divmod__(self, divisor: Any) -> tuple[Ciphertext, Ciphertext]:
        """(self // number, self % number), of one quotient."""
        quotient = self // divisor
        return quotient, self - quotient * divisor

    def __floor__(self) -> Ciphertext:
        """self // 1: holds at integers, and above them up to a fifth below the next."""
        return self // 1

    def __ceil__(self) -> Ciphertext:
        """-(-self // 1)."""
        return -(-self // 1)

    def __abs__(self) -> Ciphertext:
        return call("abs", self, asked="asks for the absolute value of")

    def __round__(self, digits: None = None) -> Ciphertext:
        """The nearest integers, ckks.math.round; digits raise OperandError."""
        if digits is not None:
            refusals.no_decimals(digits)
        return call("round", self, asked="asks for the nearest integers to")

    # ---------------------------------------------------------------- truth: 1 or 0

    def __gt__(self, other: Any) -> Ciphertext:
        return protocols.compared("greater", self, other)

    def __ge__(self, other: Any) -> Ciphertext:
        return protocols.compared("greater_equal", self, other)

    def __lt__(self, other: Any) -> Ciphertext:
        return protocols.compared("less", self, other)

    def __le__(self, other: Any) -> Ciphertext:
        return protocols.compared("less_equal", self, other)

    def __eq__(self, other: object) -> Any:
        """True for the object itself, else encrypted: near 1 where numbers are equal."""
        return self is other or protocols.compared("equal", self, other)

    def __ne__(self, other: object) -> Any:
        return self is not other and protocols.compared("not_equal", self, other)

    __hash__ = object.__hash__

    def __and__(self, other: Any) -> Ciphertext:
        return call("logical_and", self, other)

    def __or__(self, other: Any) -> Ciphertext:
        return call("logical_or", self, other)

    def __xor__(self, other: Any) -> Ciphertext:
        return call("logical_xor", self, other)

    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__

    def __invert__(self) -> Ciphertext:
        return call("logical_not", self)

    def __rmatmul__(self, matrix: Any) -> Ciphertext:
        """matrix @ ct as numpy.matmul, one level; `ckks.linear` encodes a matrix once."""
        return products.multiplied(matrix, self)

    def __matmul__(self, matrix: Any) -> Ciphertext:
        """ct @ matrix, one level, as numpy.matmul: the transposed matrix times the vector.

        With a ciphertext: of vectors as `dot`, of matrices as `ckks.matmul`. A matrix packed flat,
        with a vector, takes the product and the sum along an axis. Of the columns of a table it is
        `ckks.mix`: no rotation, and no level for integers.
        """
        if isinstance(matrix, linear.LinearMap):
            return NotImplemented  # its reflected operator says what to write
        return products.multiplied(self, matrix)

    # ---------------------------------------------------------------- what only the owner can see

    __bool__ = refusals.no_truth
    __float__ = __int__ = __complex__ = __index__ = refusals.no_value
    __iter__ = refusals.no_iteration
    __setitem__ = refusals.no_item_assignment
    __delitem__ = refusals.no_item_deletion
    __rfloordiv__ = __rmod__ = __rdivmod__ = refusals.no_remainder
    __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = refusals.no_shift
    __trunc__ = refusals.no_rounding
    __enter__ = __exit__ = refusals.no_with
    __bytes__ = refusals.no_bytes
    if not TYPE_CHECKING:  # checkers take what has these for an array, and `array * ct` too
        __array__, __buffer__ = refusals.no_value, refusals.no_bytes
    __pandas_priority__ = property(protocols.above_pandas)
    __format__ = refusals.formatted
    __array_ufunc__ = protocols.array_ufunc
    __array_function__ = protocols.array_function
    __jax_array__ = refusals.jax_protocol(protocols.refuse_jax)

    # ---------------------------------------------------------------- slots

    def rotate(self, steps: int) -> Ciphertext:
        """result[i] = x[i + steps], cyclic over `slots`; steps of any sign and size.

        Of a vector that is cut into blocks it is cyclic over the slots of all, and takes a level.

        Raises:
            ParameterError: numbers that each fill the slots, such as the sums of a table's columns.
        """
        check_is_in_slots(self)
        if self.layout.blocks > 1 and not is_manual():
            return moves.rotated_blocks(self, as_integer(steps, "rotate()"))
        return rotation.rotate(self, steps)

    def roll(self, shift: int, axis: int | None = None) -> Ciphertext:
        """numpy.roll by `shift` over the length: two rotations, one where that is `slots`.

        It takes a level where twice the length does not fit into the slots.

        A batch needs axis=-1, which rolls each vector; other axes raise.
        """
        check_axis(self, axis, "roll()")
        check_not_flattened(self, axis)
        return moves.roll(self, as_integer(shift, "roll()"))

    def conj(self) -> Ciphertext:
        """The complex conjugate of every slot."""
        return rotation.conjugate(self)

    def __getitem__(self, index: Any) -> Ciphertext:
        """ct[i:j]: one rotation, no level; what lies beyond stays in the other slots, unseen.

        Of a table rows: m[i] and m[i:j], as in NumPy. Of a table by its columns also m[:, j] and
        m[:, i:j]; there m[i], a number for each column, takes a level.
        """
        return tables.item(self, index)

    def reshape(self, *shape: int | Sequence[int], order: str = "C") -> Ciphertext:
        """The same numbers in another shape, in C order, as numpy.reshape; costs nothing.

        It is the shape in which they decrypt. `reshape(-1)` makes a vector of them. Two axes make
        a matrix: `ct @ other` and `matrix @ ct` are then matrix products. Arrays in `+ - *`
        broadcast against the shape. The axes of a batch stay: its vectors are apart.
        """
        if order not in ("C", "A"):
            refusals.no_order(order, self.shape)
        return shaping.reshape(self, shape)

    def mask(self, m: ArrayLike | None = None) -> Ciphertext:
        """The slots times m, one level; without m, zeros beyond the length.

        Without m it takes a level where leftovers stand there. There is one factor for each number.
        Of a table by its columns it is one for each row, in an array [rows, 1].
        """
        return shaping.mask(self, m)

    def tile(self, count: int) -> Ciphertext:
        """`count` copies one after another; takes a level where leftovers are cleared first."""
        refuse_columns(self, "tile()")
        return shaping.tile(self, count)

    @property
    def real(self) -> Ciphertext:
        """The real parts: one level, none where what went in is real."""
        return complex_pairs.real(self)

    @property
    def imag(self) -> Ciphertext:
        """The imaginary parts: one level."""
        return complex_pairs.imag(self)

    def sum(
        self, axis: int | None = None, *, keepdims: bool = False, where: Any = True
    ) -> Ciphertext:
        """The sum, a scalar: in every slot. Takes a level where leftovers are cleared first.

        It is that of each vector of a batch, and of all numbers of a table. Along an `axis` it is
        numpy.sum. Of a table packed flat that takes a level, unless it is the first axis. With
        `keepdims` the axis stays with size 1, so that it broadcasts with what was summed. With
        `where`, encrypted truth or zeros and ones, it is that of the numbers where it is 1: one
        level more.
        """
        return with_type(tables.total(selected(self, where), axis, keepdims), of_total(self))

    def mean(self, axis: int | None = None, *, keepdims: bool = False) -> Ciphertext:
        """The mean, a scalar: in every slot. Takes a level; `axis` and `keepdims` as for `sum`."""
        return tables.mean(self, axis, keepdims)

    def var(self, axis: int | None = None, *, ddof: int = 0, keepdims: bool = False) -> Ciphertext:
        """numpy.var, of real numbers: two levels; `axis` and `keepdims` as for `sum`.

        The squares of the distances to the mean are divided by their count less `ddof`. It takes
        three levels where leftovers are cleared before. So it does along an axis of a flat table
        that is not the first. Across blocks it takes four.
        """
        return moments.var(self, axis, ddof, keepdims)

    def dot(self, w: Any, axis: int | None = None) -> Ciphertext:
        """sum_i x_i w_i, a scalar, with an array, a plaintext or a ciphertext of one length.

        Takes a level; two with a ciphertext where leftovers of both are cleared first. Of a table
        it is one number for each row, or along another `axis`, with as many numbers in `w`.
        """
        return products.dot(self, w, axis)

    def any(self, axis: int | None = None, *, where: Any = True) -> Ciphertext:
        """Whether one of the numbers is 1, in every slot: `ckks.math.any` of encrypted truth.

        It is that of each vector of a batch, as axis=-1 says too. With `where`, encrypted truth or
        zeros and ones, only numbers where that is 1 take part: one level more.
        """
        check_axis(self, axis, "any()")
        return over_truth(reductions.any_of, self, where, 0)

    def all(self, axis: int | None = None, *, where: Any = True) -> Ciphertext:
        """Whether all of the numbers are 1, in every slot; `axis` and `where` as for `any`."""
        check_axis(self, axis, "all()")
        return over_truth(reductions.all_of, self, where, 1)

    def cumsum(self, axis: int | None = None) -> Ciphertext:
        """The sums of the first 1, 2, ... numbers; a level for each factor of 64 in the length.

        They are those of each vector of a batch, as axis=-1 says too; other axes raise.
        """
        check_axis(self, axis, "cumsum()")
        return reductions.cumsum(self)

    # ---------------------------------------------------------------- levels

    def rescale(self) -> Ciphertext:
        """The same in normal form: a rescale that is pending stands before every later sum.

        In manual mode: one level down, and the scale divided by the ratio of the moduli.
        """
        return explicit.rescale(self) if is_manual() else evolve.settle(explicit.normal(self))

    def relinearize(self) -> Ciphertext:
        """The same in normal form; relinearization and rescale are one step, as in `rescale`.

        In manual mode: two components instead of three.
        """
        if is_manual():
            return explicit.relinearize(self)
        return evolve.settle(explicit.normal(self))

    def drop_to(self, level: int) -> Ciphertext:
        """The same message at a lower level; smaller and faster, with less depth left."""
        if is_manual():
            return explicit.drop_to(self, level)
        return evolve.drop_to(explicit.normal(self), as_integer(level, "drop_to()"))

    def compress(self) -> Ciphertext:
        """The same message at level 0, where it takes the fewest bytes: for replies."""
        return self.drop_to(0)

    def bootstrap(self, level: int | None = None, precision: float | None = None) -> Ciphertext:
        """The same numbers at the highest level that it reaches, for parameters with bootstrapping.

        Real and imaginary parts keep to `ctx.params.bootstrapping.bound`, in every slot: a tracked
        bound beyond it warns. Leftovers beyond the length are cleared first, which takes a level.

        Args:
            level: of the result. When None it is the top, or one below it where fewer slots than
                n / 2 were asked for, or two runs.
            precision: bits that are right, 8 to those of the parameters; these when None. Where the
                parameters have two runs, up to 20 bits take one, which ends a level higher.

        Returns:
            The ciphertext, about `ctx.params.bootstrapping.precision_bits` bits right; see
            `ct.estimate`. With a probability of 2^`failure_log2` it is destroyed.

        Raises:
            ParameterError: parameters without bootstrapping, or of fewer bits.
            DepthError: a level below the floor, `ctx.params.bootstrapping.floor`.
            MissingKeyError: a server without the keys of `ctx.bootstrapping_keys()`.
            MessageBoundError: a tracked bound beyond the bound, with strict parameters.
        """
        return bootstrap_one(self, level, precision)

    _in_order, _fresh, _with_levels = explicit.ordered, fresh, staticmethod(with_levels)

    # ---------------------------------------------------------------- values

    def within(self, bound: float | None, high: float | None = None) -> Ciphertext:
        """The same numbers, stated to keep to `bound`: estimates and warnings go by it.

        For what interval arithmetic cannot see: a sigmoid is below 1, a mean below its terms. It
        speaks of the numbers: leftovers beyond the length are cleared before a product.

        `x.within(low, high)` states an interval of real numbers. Operators and NumPy's functions
        are then close on it: x / y, np.log(x). Sums, products with numbers and ciphertexts,
        rotations and slices keep it, as interval arithmetic tells. It is a part of the type of a
        carry under JAX: `x.within(None)` forgets it, and leaves the bound.

        Raises:
            ParameterError: the bound is not a positive number. The numbers are complex, not low <
                high, or no number lies both here and where they are known to lie.
        """
        if bound is None:
            return evolve.with_span(self, None)
        if high is None:
            return evolve.within(self, as_bound(bound))
        return stated(self, bound, high)

    def decrypt(self, dtype: DTypeLike | None = None) -> NDArray:
        """The message, with the shape and the type of numbers that went in.

        Args:
            dtype: the type of the numbers: see `Context.decrypt`.

        Raises:
            ContextError: no context that holds the secret key is active or alive.
            TracedValueError: inside a function that is being captured or traced.
            PrecisionError: integers that their error hides, or that the type does not hold.
        """
        return context_for(self.key_id, "decrypt()").decrypt(self, dtype)

    @operation("realize()", lambda x: x)
    def realize(self) -> Ciphertext:
        """The same in normal form, computed: both polynomials as one program."""
        return with_fields(self, polys=tuple(realize_polys(self.polys)), pending=None)

    # ---------------------------------------------------------------- bytes

    def to_bytes(self) -> bytes:
        """The ciphertext for `from_bytes`; a fresh one takes half, its second half being a seed."""
        return serialization.ciphertext_to_bytes(explicit.normal(self))

    @classmethod
    def from_bytes(cls, data: bytes) -> Ciphertext:
        """The ciphertext that `to_bytes` wrote; it uses the live context with its `key_id`.

        Raises:
            SerializationError: truncated, altered or foreign bytes.
        """
        return cls(**serialization.read_ciphertext(data))

    def __reduce__(self) -> Any:
        return Ciphertext.from_bytes, (self.to_bytes(),)


def _flatten(x: Ciphertext) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """The polynomials, realized together so that shared work runs once, and what is static."""
    refusals.no_transformation(x)
    are_polys = _are_polys(x)
    x = _ready(x) if are_polys else x
    polys = tuple(x.polys)
    are_nodes = are_polys and all([p._node is not None for p in polys])
    if are_nodes and not all([p.is_realized for p in polys]):
        polys = tuple(realize_polys(polys))
    dtype = x.static_dtype
    kinds = (x.span, dtype, _name_of(dtype or x.default_dtype))
    static = (x.level, x.layout.settled, x.key_id, x.params, x.own_scale, *kinds, _settings_of(x))
    return (*polys, traced(x.noise)), static


def _unflatten(static: tuple[Any, ...], children: Any) -> Ciphertext:
    *polys, noise = children
    level, layout, key_id, params, scale, span, dtype, _, given = static
    layout = without_axis(polys, layout)
    kept = kept_context(key_id)
    fields = {"own_scale": scale, "keeps": kept, "span": span, "stated_dtype": dtype}
    made = Ciphertext(tuple(polys), level, layout, key_id, params, noise, **fields)
    if given is not settings():
        vars(made)["_settings"] = given
    return made


def _settings_of(x: Ciphertext) -> Settings:
    """The settings here; those of a structure that JAX compares, in which there are no arrays."""
    leaves = [p._in_memory() for p in x.polys if type(p) is Poly]
    if all([isinstance(leaf, np.ndarray | jax.Array | jax.ShapeDtypeStruct) for leaf in leaves]):
        return settings()
    return vars(x).get("_settings", settings())


@lru_cache(maxsize=64)
def _name_of(dtype: np.dtype) -> str:
    return dtype.name


_UNKNOWN = np.int8(0)  # the code of no type


def _new_layout(length: int | None, fixed: tuple[Any, ...], value: Any, slots: int) -> Layout:
    return Layout.of_static(length, fixed, value).on(slots)


_layout = lru_cache(maxsize=1024)(_new_layout)  # of what symbols are not in: replays ask again


def _are_polys(x: Ciphertext) -> bool:
    """False where JAX put something else in the place of leaves, or of polynomials."""
    return all([type(p) is Poly for p in x.polys])


def _ready(x: Ciphertext) -> Ciphertext:
    """Bring to normal form what leaves laziness; in manual mode leave it as it is."""
    return x if is_manual() else explicit.normal(x)


Ciphertext.__setattr__ = Ciphertext.__delattr__ = refusals.no_assignment
Ciphertext.__getattr__ = refusals.no_attribute(protocols.ATTRIBUTES)  # type: ignore[attr-defined]
refusals.refuse_primitives(Ciphertext, protocols.refuse_jax)
jax.tree_util.register_pytree_node(Ciphertext, _flatten, _unflatten)
