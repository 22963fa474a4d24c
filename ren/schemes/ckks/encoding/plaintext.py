"""Plaintext: encoded slots at a level's canonical scale, and how values become one."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Hashable, Sequence
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any, NoReturn

import attrs
import jax
import numpy as np
from numpy.typing import NDArray

from ren.capture.programs import Integers, replayed
from ren.core.errors import (
    OperandError,
    ParameterError,
    TracedValueError,
    kind_of,
)
from ren.core.listed import Listed
from ren.core.node import placeholder
from ren.core.ring import Domain, RingSpec
from ren.core.spec import Spec
from ren.core.user_frame import user_line
from ren.lowering.devices.devices import concretely, is_tracer
from ren.lowering.kernels import embedding
from ren.lowering.runtime.host_arrays import centered
from ren.poly import Poly
from ren.poly.display import steady
from ren.poly.poly import bounded, from_array, from_node
from ren.poly.realization import has_placeholder, not_capturing
from ren.poly.symbolic import Aside, Symbolic, Unfit, as_symbol, traced
from ren.schemes.ckks.encoding import encoder, serialization
from ren.schemes.ckks.encoding.ciphertext_data import with_fields, without_axis
from ren.schemes.ckks.encoding.display import plaintext_page
from ren.schemes.ckks.encoding.encoder import as_numbers
from ren.schemes.ckks.encoding.layout import LEFTOVERS, Layout, Tail
from ren.schemes.ckks.encoding.refusals import (
    made_by,
    no_assignment,
    no_attribute,
    no_transformation,
    refusal,
    refuse_arithmetic,
)
from ren.schemes.ckks.noise import bounds as noises
from ren.schemes.ckks.noise.range_checks import is_planning, report
from ren.schemes.ckks.noise.readable import Noise
from ren.schemes.ckks.parameters.checks import as_python_int, check_number
from ren.schemes.ckks.parameters.parameters import Parameters
from ren.schemes.rlwe.frame import Stored
from ren.schemes.rlwe.keys import from_integers, from_residues
from ren.schemes.rlwe.keyswitch import gadget_of


@steady("wide", "noise")
@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Plaintext(Stored, metaclass=Listed):
    """Encoded values, reusable as an addend and as a factor.

    Attributes:
        level, params: static.
        wide: round(s_level * embedding^-1(values)), NTT domain, over the ring of `level` and the
            special primes. So a product with it can be summed before a key switch is divided by P.
            Diagonals of a linear map may be without the special primes.
        layout: static.
        bits: static; the coefficients are below 2^bits.
        noise: a public bound of the values, and the rounding of their encoding: see `noise`.
        is_zero: all values are known to round to zero. Arguments of a captured function, and the
            leaves of a pytree, are not known to.
    """

    __internal__ = ("wide", "layout", "bits", "noise", "is_zero", "factor")

    wide: Poly
    level: int
    layout: Layout
    params: Parameters
    bits: int
    noise: Noise
    is_zero: bool = False

    @property
    def poly(self) -> Poly:
        """The encoded polynomial over the ring of its level: a view of `wide`."""
        return bounded(self.wide, self.bits).to_ring(self.params.ring(self.level))

    @property
    def factor(self) -> Poly:
        """The same in a product: the program shows where it is zero, see `Node.is_zero`."""
        return self.poly * 0 if self.is_zero else self.poly

    @property
    def slots(self) -> int:
        """Number of slots of the parameters."""
        return self.params.slots

    @property
    def scale(self) -> Fraction:
        """The canonical scale of the level, exactly."""
        return self.params.scale(self.level)

    @property
    def nbytes(self) -> int:
        """Bytes of the limb array in memory."""
        return 4 * math.prod(self.wide.shape)

    def __ren_parts__(self) -> tuple[tuple[Any, ...], Hashable]:
        static = (self.layout.static, self.level, self.params, self.bits)
        return (self.wide, *self.layout.leaves, Aside(self.noise)), static

    @classmethod
    def __ren_whole__(cls, parts: Sequence[Any], static: Any) -> Plaintext:
        (wide, length, value, noise), (static_layout, level, params, bits) = parts, static
        layout = Layout.of_static(length.count, static_layout, value)
        return cls(wide, level, layout, params, bits, noise.value)

    def __repr__(self) -> str:
        mark = ", INSECURE" if self.params.is_insecure else ""
        return f"<Plaintext level {self.level}, {self.params.slots} slots{mark}>"

    def _repr_html_(self) -> str:
        return plaintext_page(self)

    def to_bytes(self) -> bytes:
        """The plaintext for `from_bytes`; it is not secret to who reads it, as its name says."""
        return serialization.plaintext_to_bytes(
            expanded(self).wide, self.level, self.layout, self.params, self.bits, self.noise
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> Plaintext:
        """The plaintext that `to_bytes` wrote.

        Raises:
            SerializationError: truncated, altered or foreign bytes.
        """
        return cls(**serialization.read_plaintext(data))

    def __reduce__(self) -> Any:
        return Plaintext.from_bytes, (self.to_bytes(),)


def _flatten(p: Plaintext) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    no_transformation(p)
    return (p.wide, traced(p.noise)), (p.level, p.layout.settled, p.params, p.bits)


def _unflatten(static: tuple[Any, ...], children: Any) -> Plaintext:
    (wide, noise), (level, layout, params, bits) = children, static
    return Plaintext(wide, level, without_axis((wide,), layout), params, bits, noise)


_IN_THE_CLEAR = {
    "decode": "the array that was encoded, or (ctx.encrypt(0.0) + p).decrypt()",
    "decrypt": "the array that was encoded, or (ctx.encrypt(0.0) + p).decrypt()",
    "tolist": "the array that was encoded, or (ctx.encrypt(0.0) + p).decrypt()",
    "shape": "values.shape, of what was encoded", "ndim": "values.ndim, of what was encoded",
    "dtype": "values.dtype, of what was encoded", "size": "values.size, of what was encoded",
    "reshape": "ctx.encode(values.reshape(...))", "rotate": "ctx.encode(np.roll(values, -k))",
    "sum": "ctx.encode(values.sum())", "mean": "ctx.encode(values.mean())",
    "T": "ctx.encode(values.T)", "rescale": "ctx.encode(values, level)",
    "drop_to": "ctx.encode(values, level)",
}  # fmt: skip
Plaintext.__setattr__ = Plaintext.__delattr__ = no_assignment
Plaintext.__new__ = made_by(6, "ctx.encode(values)")
Plaintext.__getattr__ = no_attribute(_IN_THE_CLEAR)  # type: ignore[attr-defined]
refuse_arithmetic(
    Plaintext,
    refusal(
        OperandError,
        "computes with a plaintext and no ciphertext.",
        "A plaintext is an array that was encoded, as an addend or a factor of a ciphertext.",
        "Compute with the array, and encode the result: ctx.encode(a + b).",
    ),
    is_operand=True,
)
jax.tree_util.register_pytree_node(Plaintext, _flatten, _unflatten)


@attrs.frozen(eq=False)
class Encoded:
    """Integer coefficients [*batch, n] below 2^bits of any dtype, and the slots behind them."""

    coefficients: NDArray
    values: NDArray
    layout: Layout
    bits: int
    is_zero: bool


def _refuse_derivative() -> NoReturn:
    raise TracedValueError(
        f"{user_line()} differentiates with respect to a number that meets a ciphertext.",
        "JAX differentiates floats; ciphertexts and plaintexts are integers modulo primes.",
        "Write the derivative as a function of ct, or differentiate in the clear.",
    )


def _encode_traced(
    values: Any, params: Parameters, level: int, blocks: int, bound: float | None
) -> Plaintext:
    """The plaintext of an array that JAX traces, encoded in float64 inside the traced program.

    Nothing raises there: the noise of values that do not fit is unknown, and `decrypt` tells.
    """
    values = embedding.without_derivative(values, _refuse_derivative)
    z, scale = embedding.as_floats(values), float(params.scale(level))
    ring = ring_of(params, level)
    layout, domain = Layout(None, z.dtype.kind == "c", tail=LEFTOVERS), Domain.COEFF
    if z.ndim == 0:
        integers = embedding.constant(z, scale)
        if layout.is_complex:
            limbs = embedding.constant_polynomial(integers, ring.n)
            limbs = embedding.residues(limbs, ring.moduli)
        else:
            limbs = embedding.evaluated_constant(integers[0], ring.moduli, ring.n)
            domain = Domain.NTT
    else:
        _check_not_empty(values, z)
        length = z.shape[-1]
        blocks = max(blocks, -(-length // params.slots))
        layout = Layout(length, layout.is_complex, blocks)
        z = embedding.in_blocks(z, blocks, params.slots) if blocks > 1 else z
        tables = encoder.transform_tables(params.slots, scale)
        integers = embedding.coefficients(z, *tables, ring.n)
        limbs = embedding.residues(integers, ring.moduli)
    q = params.ring(level).q
    fits = embedding.fits(integers, q)
    noise = noises.of_traced(z, fits, params, scale, bound)
    wide = from_array(limbs, ring, domain).ntt()
    return Plaintext(wide, level, layout, params, q.bit_length(), noise)


def encoded(values: Any, params: Parameters, level: int, blocks: int = 1) -> Encoded:
    """The coefficients of real or complex `values`; arguments and errors as of `encode`."""
    z, layout = as_slots(values, params.slots, blocks)
    coefficients, bits = _coefficients(z, params, level)
    return Encoded(coefficients, z, layout, max(bits, _room(level, params)), bits == 0)


def encode(
    values: Any,
    params: Parameters,
    level: int,
    blocks: int = 1,
    at_once: bool = False,
    bound: float | None = None,
    is_kept: bool = False,
    kept_in: RingSpec | None = None,
    is_wide: bool = True,
) -> Plaintext:
    """The plaintext of real or complex `values` [*batch, k] at `level`; errors as of `ctx.encode`.

    Leading axes are batch axes; a scalar fills all slots. Shorter vectors are padded with zeros,
    longer ones cut into blocks of `params.slots`, at least as many as asked for. Values that JAX
    traces are encoded inside the traced program. It is a program;
    `at_once` it is computed, which does not wait for a plan of its own. `bound` is public, of the
    modulus of the values; None for the power of two above.

    While `ren.plan` records a function, nothing is encoded: the polynomial is a placeholder. Except
    for plaintexts that the user keeps (`is_kept`), which may be encoded again in another shape.

    In `kept_in` the polynomial takes less memory, and `expanded` makes a plaintext of it. In an
    `integer_ring` it keeps its coefficients alone: they are below half the modulus. In a
    `periodic_ring` it keeps the residues of slots that repeat. What is not `is_wide` is without
    the special primes.
    """
    symbol = as_symbol(values)
    if symbol is not None:
        return _encode_symbol(symbol, params, level, blocks, bound, is_wide)
    if is_tracer(values):
        return _encode_traced(values, params, level, blocks, bound)
    ring = kept_in or ring_of(params, level, is_wide)
    is_integer = kept_in is not None and kept_in.n == params.n
    if is_planning() and not is_kept:
        z, layout = as_slots(values, params.slots, blocks)
        if _surely_fits(z, params, level):
            # A program may encode at each call.
            domain = Domain.NTT if at_once and not is_integer else Domain.COEFF
            wide = from_node(placeholder(Spec(ring, domain, z.shape[:-1])))
            wide = wide if is_integer else wide.ntt()
            noise = noises.of_values(z, params, float(params.scale(level)), bound)
            return Plaintext(wide, level, layout, params, _room(level, params), noise, not z.any())
    given = encoded(values, params, level, blocks)
    noise = noises.of_values(given.values, params, float(params.scale(level)), bound)
    coefficients = given.coefficients[..., :: params.n // ring.n]  # those between are zeros
    if is_integer:
        wide = Poly(encoder.as_integers(coefficients, given.bits), ring)
    elif at_once:
        (wide,) = replayed(_transformed, None, integers_of(coefficients, ring, given.bits))
    else:
        wide = poly_of(coefficients, ring).ntt()
    return Plaintext(wide, level, given.layout, params, given.bits, noise, given.is_zero)


@lru_cache
def integer_ring(n: int, is_wide: bool) -> RingSpec:
    """The ring of coefficients that are kept as integers: below 2^60 in 8 bytes, or 2^28 in 4.

    Its modulus is a prime that is a limb of no parameters.
    """
    return RingSpec(n, (1 << 61) - 1 if is_wide else (1 << 30) - 35)


def ring_of(params: Parameters, level: int, is_wide: bool = True) -> RingSpec:
    """The ring of the plaintexts of a level; with the special primes where it `is_wide`."""
    ring = params.ring(level)
    return gadget_of(params).extended(ring) if is_wide else ring


def periodic_ring(params: Parameters, level: int, is_wide: bool) -> RingSpec | None:
    """The smaller ring that plaintexts are embedded from; None where the slots are n/2.

    With slots that repeat, a plaintext is a polynomial in X^(n / (2 slots)).
    """
    n = 2 * params.slots
    return RingSpec(n, ring_of(params, level, is_wide).moduli) if n < params.n else None


def expanded(p: Plaintext, is_wide: bool = True) -> Plaintext:
    """The plaintext with all of its residues, as a program, where it is kept in another ring."""
    ring = ring_of(p.params, p.level, is_wide)
    if p.wide.ring.n < ring.n:
        return with_fields(p, wide=p.wide.embed(ring))
    if p.wide.domain is Domain.NTT:
        return p
    return with_fields(p, wide=p.wide.to_ring(ring).ntt())


def _transformed(_: None, poly: Poly) -> tuple[Poly]:
    return (poly.ntt(),)


def integers_of(numbers: NDArray, ring: RingSpec, bits: int | None = None) -> Integers | Poly:
    """Integer coefficients, as of `poly_of`, for a program that runs at once; below 2^bits."""
    if (values := encoder.as_integers(numbers, bits)) is not None:
        return Integers(values, ring)
    return from_residues(encoder.residues(numbers, ring.moduli), ring, Domain.COEFF)


def poly_of(coefficients: NDArray, ring: RingSpec) -> Poly:
    """The polynomial with integer coefficients [*batch, n] of any size and dtype."""
    given = integers_of(coefficients, ring)
    return given if isinstance(given, Poly) else from_integers(given.values, ring)


def constant_poly(
    value: complex | Symbolic, ring: RingSpec, scale: Fraction
) -> Poly | int | Symbolic:
    """round(value scale) in every slot: an integer, or of complex values two terms."""
    n = ring.n
    if not isinstance(value, Symbolic):
        parts = encoder.encode_constant(value, n, scale)
        if parts.keys() <= {0}:
            return parts.get(0, 0)
        return from_residues(_constant_limbs(ring, scale, value), ring, Domain.COEFF).ntt()
    if not isinstance(value.sample, complex):
        return value.map(lambda v: encoder.encode_constant(v, n, scale).get(0, 0))
    limbs = partial(_constant_limbs, ring, scale)
    return from_node(value.encoded((ring, scale), Spec(ring, Domain.COEFF), limbs)).ntt()


def _constant_limbs(ring: RingSpec, scale: Fraction, value: complex) -> NDArray[np.uint32]:
    return encoder.residues(encoder.constant_coefficients(value, ring.n, scale), ring.moduli)


def _encode_symbol(
    symbol: Symbolic,
    params: Parameters,
    level: int,
    blocks: int,
    bound: float | None,
    is_wide: bool,
) -> Plaintext:
    """The plaintext of an array that is known at each call of a captured function."""
    z, layout = as_slots(symbol.sample, params.slots, blocks)
    _coefficients(z, params, level)  # a wrong shape or type raises at the user's line
    room, ring = _room(level, params), ring_of(params, level, is_wide)

    def slots(values: Any) -> NDArray:
        return as_slots(values, params.slots, blocks)[0]

    def limbs(values: Any) -> Any:
        coefficients, bits = _coefficients(slots(values), params, level)
        if bits > room:
            raise Unfit
        return poly_of(coefficients, ring).limbs

    spec = Spec(ring, Domain.COEFF, z.shape[:-1])
    wide = from_node(symbol.encoded((params, level, blocks, is_wide), spec, limbs)).ntt()
    noise = noises.of_values(symbol.map(slots), params, float(params.scale(level)), bound)
    if layout.length is None:
        layout = layout.with_tail(Tail(value=symbol))
    return Plaintext(wide, level, layout, params, room, noise)


def _coefficients(z: NDArray, params: Parameters, level: int) -> tuple[NDArray, int]:
    """The encoded coefficients of slots [*batch, k], or of a scalar, and their bits."""
    if z.ndim == 0:
        coefficients = encoder.constant_coefficients(complex(z), params.n, params.scale(level))
    else:
        coefficients = encoder.encode(z, params.n, params.slots, params.scale(level))
    largest = int(encoder.largest(coefficients))
    _check_size(z, largest, level, params)
    return coefficients, largest.bit_length()


def _surely_fits(z: NDArray, params: Parameters, level: int) -> bool:
    """Whether the slots alone show that coefficients keep to their room, and are not all zero.

    With b_m of the `encoder`, scaled, max |b_m| <= scale mean |z_j|. By Parseval's equation it is
    at least scale max |z_j| / slots. Slots that are all zero fit.
    """
    if not z.ndim:
        return False
    sizes, scale = np.abs(z), float(params.scale(level))
    least = scale * sizes.max() / params.slots / math.sqrt(2)
    most = scale * sizes.sum(-1).max() / params.slots + 1
    room = min(1 << _room(level, params), params.ring(level).q // 2)  # q may be beyond float64
    return bool(most < room and (least > 1 or not sizes.max()))


def _room(level: int, params: Parameters) -> int:
    """The bits that the parameters leave room for: the same for all values that keep to it."""
    return math.ceil(math.log2(params.scale(level))) + params.integer_bits


def as_slots(values: Any, slots: int, blocks: int = 1) -> tuple[NDArray, Layout]:
    """Values as a float64 or complex128 array, cut into `blocks` or more, and their layout."""
    z = as_numbers(values)
    _check_not_empty(values, z)
    is_complex = z.dtype.kind == "c"
    z = z.astype(np.complex128 if is_complex else np.float64, copy=False)
    if z.ndim == 0:
        return z, Layout(None, is_complex, tail=Tail(value=z.item()))
    length = z.shape[-1]
    blocks = max(blocks, -(-length // slots))
    if blocks > 1:  # zeros at the end
        z = np.pad(z, [(0, 0)] * (z.ndim - 1) + [(0, blocks * slots - length)])
        z = z.reshape(*z.shape[:-1], blocks, slots)
    return z, Layout(length, is_complex, blocks)


def _check_not_empty(values: Any, z: Any) -> None:
    if z.dtype.kind not in "biufc" or z.size == 0:
        shape = f"dtype {z.dtype}, shape {z.shape}"
        rows = values if isinstance(values, list | tuple) else ()
        rows = [row for row in rows if isinstance(row, list | tuple)]
        if len({*map(len, rows)}) > 1:
            shape = f"{len(rows)} rows of different lengths"
        others = {type(v).__name__ for v in z.flat if not encoder.is_number(v)}
        if others:
            shape += f", with entries of type {', '.join(sorted(others)[:3])}"
        raise ParameterError(
            f"A{kind_of(values)[1:]} was to be encoded: {shape}.",
            "Slots hold real or complex numbers, at least one; rows have one length.",
            "Pass values.toarray(), the array of its numbers."
            if encoder.is_sparse(values)
            else "Pass a NumPy array or a list of numbers.",
        )


def _check_size(z: NDArray, coefficient: int, level: int, params: Parameters) -> None:
    largest, q = float(encoder.largest(z)), params.ring(level).q
    if 2 * coefficient >= q:
        raise ParameterError(
            f"Values up to {noises.power_above(largest)} were given at level {level}.",
            f"The modulus there has {q.bit_length()} bits, the scale {params.scale_bits}: "
            "the values would wrap around.",
            "Divide the values by a constant, or choose a higher level or more integer_bits.",
        )
    if level == 0 and largest >= 2.0 ** (params.integer_bits - 1):
        report(
            f"encode: values up to {noises.power_above(largest)} reach beyond "
            f"2^{params.integer_bits - 1}, the range that integer_bits gives level 0; beyond it "
            "they wrap around.",
            params,
        )


def level_of(poly: Any, level: int | None, params: Parameters, what: str) -> int:
    """The level whose ring a polynomial of the user is over.

    Raises:
        OperandError: not a polynomial.
        ParameterError: over another ring, or that of another level than the one stated.
    """
    if not isinstance(poly, Poly):
        raise OperandError(
            f"{what} got {kind_of(poly)}.",
            "It takes polynomials over the ring of a level.",
            "Write for example ren.Poly.zeros(ctx.params.ring(level)).",
        )
    levels = [i for i in range(params.depth + 1) if params.ring(i) == poly.ring]
    if not levels or level not in (None, *levels):
        at = "any level" if level is None else f"level {level}"
        raise ParameterError(
            f"{what} got a polynomial over {poly.ring!r:.60}.",
            f"That is not the ring of {at}: a level has a ring of its own.",
            "Take params.ring(level), or p.to_ring(params.ring(level)).",
        )
    return levels[0]


def layout_of(length: Any, slots: int, is_complex: bool, what: str) -> Layout:
    """The layout of so many numbers from slot 0 on, all by default, and of others behind them."""
    count = as_python_int(slots if length is None else length)
    check_number("length", count, range(1, slots + 1), f"Leave it out of {what} for all slots.")
    return Layout(count, is_complex, tail=LEFTOVERS)


def decoded(p: Plaintext) -> NDArray:
    """The slots of a plaintext, as they were rounded: complex128 [*batch, slots].

    TracedValueError inside a function that is captured or traced, where it is symbolic.
    """
    if has_placeholder(p.wide.node) or (p.wide.is_realized and is_tracer(p.wide.limbs)):
        raise TracedValueError(
            "A plaintext met numbers of another shape inside a captured or traced function.",
            "It has to be encoded again, and there it has no values.",
            "Encode it in the shape of the other operand, or pass the array itself.",
        )
    with not_capturing(), concretely():
        poly = p.poly.intt().realize()
    coefficients = centered(poly.limbs, poly.ring.moduli)
    return encoder.decode(coefficients, p.params.n, p.slots, p.scale)
