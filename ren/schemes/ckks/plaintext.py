"""Plaintext: encoded slots at a level's canonical scale, and how values become one."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Hashable, Sequence
from fractions import Fraction
from typing import Any

import attrs
import jax
import numpy as np
from numpy.typing import NDArray

from ren.core.args import Spec
from ren.core.errors import ParameterError, TracedValueError
from ren.core.ring import Domain, RingSpec
from ren.lowering.devices import is_tracer
from ren.poly import Poly
from ren.programs import Integers, replayed
from ren.schemes.ckks import encoder, serialization
from ren.schemes.ckks import noise as noises
from ren.schemes.ckks.files import Stored
from ren.schemes.ckks.gadget import gadget_of
from ren.schemes.ckks.layout import Layout
from ren.schemes.ckks.noise import Noise
from ren.schemes.ckks.parameters import Parameters
from ren.schemes.ckks.protocols import no_assignment
from ren.schemes.ckks.showing import plaintext_page
from ren.schemes.ckks.watch import warn_of_bound
from ren.schemes.rlwe.keys import from_integers, from_residues
from ren.symbolic import Aside, Length, Symbolic, Unfit, as_symbol


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Plaintext(Stored):
    """Encoded values, reusable as an addend and as a factor.

    Attributes:
        wide: round(s_level * embedding^-1(values)), NTT domain, over the ring of `level` and the
            special primes: so a product with it can be summed before a key switch is divided by P.
        level, layout, params: static.
        bits: static; the coefficients are below 2^bits.
        noise: the bound of the values, and the rounding error of their encoding: see `noise`.
    """

    wide: Poly
    level: int
    layout: Layout
    params: Parameters
    bits: int
    noise: Noise

    @property
    def poly(self) -> Poly:
        """The encoded polynomial over the ring of its level: a view of `wide`."""
        return self.wide.bounded(self.bits).to_ring(self.params.ring(self.level))

    @property
    def slots(self) -> int:
        """How many slots there are."""
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
        return (self.wide, Length(self.layout.length), Aside(self.noise)), static

    @classmethod
    def __ren_whole__(cls, parts: Sequence[Any], static: Any) -> Plaintext:
        (wide, length, noise), (layout, level, params, bits) = parts, static
        return cls(wide, level, Layout(length.count, *layout), params, bits, noise.value)

    def __repr__(self) -> str:
        mark = ", INSECURE" if self.params.is_insecure else ""
        return f"<Plaintext level {self.level}, {self.params.slots} slots{mark}>"

    def _repr_html_(self) -> str:
        return plaintext_page(self)

    def to_bytes(self) -> bytes:
        """The plaintext for `from_bytes`; it is not secret to who reads it, as its name says."""
        return serialization.plaintext_to_bytes(self)

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
    return (p.wide, p.noise), (p.level, p.layout, p.params, p.bits)


def _unflatten(static: tuple[Any, ...], children: Any) -> Plaintext:
    (wide, noise), (level, layout, params, bits) = children, static
    return Plaintext(wide, level, layout, params, bits, noise)


Plaintext.__setattr__ = Plaintext.__delattr__ = no_assignment
jax.tree_util.register_pytree_node(Plaintext, _flatten, _unflatten)


@attrs.frozen(eq=False)
class Encoded:
    """What becomes a plaintext or a ciphertext: integer coefficients, and what is known of them.

    Attributes:
        coefficients: float64, int64 or object [*batch, n], integers below 2^bits.
        layout, bits, noise: as of a `Plaintext`.
    """

    coefficients: NDArray
    layout: Layout
    bits: int
    noise: Noise


def encoded(values: Any, params: Parameters, level: int, blocks: int = 1) -> Encoded:
    """The coefficients of real or complex `values`; arguments and errors as of `encode`."""
    z, layout = as_slots(values, params.slots, blocks)
    coefficients, bits = _coefficients(z, params, level)
    return Encoded(
        coefficients,
        layout,
        max(bits, _room(level, params)),
        noises.of_values(z, params, float(params.scale(level))),
    )


def encode(
    values: Any, params: Parameters, level: int, blocks: int = 1, at_once: bool = False
) -> Plaintext:
    """The plaintext of real or complex `values` [*batch, k] at `level`.

    Leading axes are batch axes; a scalar fills all slots. Shorter vectors are padded with zeros,
    longer ones cut into blocks of `params.slots`, at least as many as asked for. It is a program;
    `at_once` it is computed, which does not wait for a plan of its own.

    Raises:
        ParameterError: values that are not numbers, are too many, or too large for the level.
    """
    symbol = as_symbol(values)
    if symbol is not None:
        return _encode_symbol(symbol, params, level, blocks)
    given = encoded(values, params, level, blocks)
    ring = gadget_of(params).extended(params.ring(level))
    if at_once:
        integers = encoder.as_integers(given.coefficients)
        poly = None if integers is None else Integers(integers, ring)
        (wide,) = replayed(_transformed, None, poly or poly_of(given.coefficients, ring))
    else:
        wide = poly_of(given.coefficients, ring).ntt()
    return Plaintext(wide, level, given.layout, params, given.bits, given.noise)


def _transformed(_: None, poly: Poly) -> tuple[Poly]:
    return (poly.ntt(),)


def poly_of(coefficients: NDArray, ring: RingSpec) -> Poly:
    """The polynomial with integer coefficients [*batch, n] of any size and dtype."""
    values = encoder.as_integers(coefficients)
    if values is None:
        return from_residues(encoder.residues(coefficients, ring.moduli), ring, Domain.COEFF)
    return from_integers(values, ring)


def _encode_symbol(symbol: Symbolic, params: Parameters, level: int, blocks: int) -> Plaintext:
    """The plaintext of an array that is known at each call of a captured function."""
    z, layout = as_slots(symbol.sample, params.slots, blocks)
    _coefficients(z, params, level)  # a wrong shape or type is told at its own line
    room, ring = _room(level, params), gadget_of(params).extended(params.ring(level))

    def limbs(values: Any) -> Any:
        z = as_slots(values, params.slots, blocks)[0]
        coefficients, bits = _coefficients(z, params, level)
        if bits > room:
            raise Unfit
        return poly_of(coefficients, ring).limbs

    def cut(values: Any) -> NDArray:
        return as_slots(values, params.slots, blocks)[0]

    spec = Spec(ring, Domain.COEFF, z.shape[:-1])
    wide = Poly.from_node(symbol.encoded((params, level, blocks), spec, limbs)).ntt()
    noise = noises.of_values(symbol.map(cut), params, float(params.scale(level)))
    return Plaintext(wide, level, layout, params, room, noise)


def _coefficients(z: NDArray, params: Parameters, level: int) -> tuple[NDArray, int]:
    """The encoded coefficients of slots [*batch, k], or of a scalar, and their bits."""
    if z.ndim == 0:
        coefficients = encoder.constant_coefficients(complex(z), params.n, params.scale(level))
    else:
        coefficients = encoder.encode(z, params.n, params.slots, params.scale(level))
    largest = int(np.abs(coefficients).max())
    _check_size(z, largest, level, params)
    return coefficients, largest.bit_length()


def _room(level: int, params: Parameters) -> int:
    """The bits that the parameters leave room for: the same for all values that keep to it."""
    return math.ceil(math.log2(params.scale(level))) + params.integer_bits


def as_slots(values: Any, slots: int, blocks: int = 1) -> tuple[NDArray, Layout]:
    """Values as a float64 or complex128 array, cut into `blocks` or more, and their layout."""
    if is_tracer(values):
        raise TracedValueError(
            "A traced array was to be encoded into a plaintext.",
            "Encoding happens on the host, with concrete numbers.",
            "Encode outside the traced function (ctx.encode) and pass the plaintext in.",
        )
    try:
        z = np.asarray(values)
    except ValueError:  # rows of several lengths
        z = np.empty(0, object)
    if z.dtype == object and None not in z.flat:
        with contextlib.suppress(TypeError, ValueError):
            z = z.astype(np.float64)
    if z.dtype.kind not in "biufc" or z.size == 0:
        raise ParameterError(
            f"A {type(values).__name__} was to be encoded: dtype {z.dtype}, shape {z.shape}.",
            "Slots hold real or complex numbers, at least one; rows have one length.",
            "Pass a NumPy array or a list of numbers.",
        )
    is_complex = z.dtype.kind == "c"
    z = z.astype(np.complex128 if is_complex else np.float64)
    if z.ndim == 0:
        return z, Layout(None, is_complex)
    length = z.shape[-1]
    blocks = max(blocks, -(-length // slots))
    return _cut(z, blocks, slots), Layout(length, is_complex, blocks)


def _cut(z: NDArray, blocks: int, slots: int) -> NDArray:
    """[*batch, k] as [*batch, blocks, slots], zeros at the end; one block stays as it is."""
    if blocks == 1:
        return z
    padding = [(0, 0)] * (z.ndim - 1) + [(0, blocks * slots - z.shape[-1])]
    return np.pad(z, padding).reshape(*z.shape[:-1], blocks, slots)


def _check_size(z: NDArray, coefficient: int, level: int, params: Parameters) -> None:
    largest, q = float(np.abs(z).max()), params.ring(level).q
    if 2 * coefficient >= q:
        raise ParameterError(
            f"Values up to {largest:.3g} were given at level {level}.",
            f"The modulus there has {q.bit_length()} bits, the scale {params.scale_bits}: "
            "the values would wrap around.",
            "Divide the values by a constant, or choose a higher level or more integer_bits.",
        )
    if largest >= 2.0 ** (params.integer_bits - 1):
        warn_of_bound(
            f"encode: values up to {largest:.3g} reach beyond 2^{params.integer_bits - 1}, what "
            "integer_bits leaves room for; at level 0 they would wrap around."
        )
