"""Plaintext: encoded slots at a level's canonical scale, and how values become one."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import warnings
from collections.abc import Hashable, Sequence
from typing import Any

import attrs
import jax
import numpy as np
from numpy.typing import NDArray

from ren.core.args import Spec
from ren.core.errors import ParameterError, TracedValueError
from ren.core.ring import Domain
from ren.lowering.devices import is_tracer
from ren.poly import Poly
from ren.schemes.ckks import encoder
from ren.schemes.ckks import noise as noises
from ren.schemes.ckks.gadget import gadget_of
from ren.schemes.ckks.noise import Noise
from ren.schemes.ckks.parameters import Parameters
from ren.schemes.rlwe.keys import from_residues
from ren.symbolic import Aside, Length, Symbolic, Unfit, as_symbol, longest


@attrs.frozen
class Layout:
    """What went in: how many slots are in use and of which kind, so that the same comes out.

    Args:
        length: numbers along the last axis; None for a scalar, which fills all slots.
        is_complex: whether they are complex.
    """

    length: int | None
    is_complex: bool

    def joined(self, other: Layout) -> Layout:
        """The layout of a sum or product of two vectors: the longer one, complex if either is."""
        length = longest((self.length, other.length))
        return Layout(length, self.is_complex or other.is_complex)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Plaintext:
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

    def __ren_parts__(self) -> tuple[tuple[Any, ...], Hashable]:
        static = (self.layout.is_complex, self.level, self.params, self.bits)
        return (self.wide, Length(self.layout.length), Aside(self.noise)), static

    @classmethod
    def __ren_whole__(cls, parts: Sequence[Any], static: Any) -> Plaintext:
        (wide, length, noise), (is_complex, level, params, bits) = parts, static
        return cls(wide, level, Layout(length.count, is_complex), params, bits, noise.value)

    def __repr__(self) -> str:
        return f"<Plaintext level {self.level}, {self.params.slots} slots>"


def _flatten(p: Plaintext) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    return (p.wide, p.noise), (p.level, p.layout, p.params, p.bits)


def _unflatten(static: tuple[Any, ...], children: Any) -> Plaintext:
    (wide, noise), (level, layout, params, bits) = children, static
    return Plaintext(wide, level, layout, params, bits, noise)


jax.tree_util.register_pytree_node(Plaintext, _flatten, _unflatten)


def encode(values: Any, params: Parameters, level: int) -> Plaintext:
    """The plaintext of real or complex `values` [*batch, k], k <= params.slots, at `level`.

    Leading axes are batch axes; a scalar fills all slots. Shorter vectors are padded with zeros.

    Raises:
        ParameterError: values that are not numbers, are too many, or too large for the level.
    """
    symbol = as_symbol(values)
    if symbol is not None:
        return _encode_symbol(symbol, params, level)
    z, layout = as_slots(values)
    coefficients = _coefficients(z, params, level)
    ring = gadget_of(params).extended(params.ring(level))
    limbs = encoder.residues(coefficients, ring.moduli)
    wide = from_residues(limbs, ring, Domain.COEFF).ntt()
    bits = max(_room(level, params), _bit_length(coefficients))
    noise = noises.of_values(z, params, level)
    return Plaintext(wide, level, layout, params, bits, noise)


def _encode_symbol(symbol: Symbolic, params: Parameters, level: int) -> Plaintext:
    """The plaintext of an array that is known at each call of a captured function."""
    z, layout = as_slots(symbol.sample)
    _coefficients(z, params, level)  # a wrong shape or type is told at its own line
    room, ring = _room(level, params), gadget_of(params).extended(params.ring(level))

    def limbs(values: Any) -> NDArray:
        coefficients = _coefficients(as_slots(values)[0], params, level)
        if _bit_length(coefficients) > room:
            raise Unfit
        return encoder.residues(coefficients, ring.moduli)

    spec = Spec(ring, Domain.COEFF, z.shape[:-1])
    wide = Poly.from_node(symbol.encoded((params, level), spec, limbs)).ntt()
    noise = noises.of_values(symbol, params, level)
    return Plaintext(wide, level, layout, params, room, noise)


def _coefficients(z: NDArray, params: Parameters, level: int) -> NDArray:
    """The encoded coefficients of slots [*batch, k], or of a scalar."""
    if z.ndim == 0:
        coefficients = _constant(complex(z), level, params)
    else:
        coefficients = encoder.encode(z, params.n, params.slots, params.scale(level))
    _check_size(z, coefficients, level, params)
    return coefficients


def _room(level: int, params: Parameters) -> int:
    """The bits that the parameters leave room for: the same for all values that keep to it."""
    return math.ceil(math.log2(params.scale(level))) + params.integer_bits


def _bit_length(coefficients: NDArray) -> int:
    return int(np.abs(coefficients).max()).bit_length()


def as_slots(values: Any) -> tuple[NDArray, Layout]:
    """Values as a float64 or complex128 array, and their layout."""
    if is_tracer(values):
        raise TracedValueError(
            "A traced array was to be encoded into a plaintext.",
            "Encoding happens on the host, with concrete numbers.",
            "Encode outside the traced function (ctx.encode) and pass the plaintext in.",
        )
    z = np.asarray(values)
    if z.dtype == object:
        with contextlib.suppress(TypeError, ValueError):
            z = z.astype(np.float64)
    if z.dtype.kind not in "biufc" or z.size == 0:
        raise ParameterError(
            f"Values of dtype {z.dtype} and shape {z.shape} were given.",
            "Slots hold real or complex numbers, at least one.",
            "Pass a NumPy array or a list of numbers.",
        )
    is_complex = z.dtype.kind == "c"
    z = z.astype(np.complex128 if is_complex else np.float64)
    return z, Layout(z.shape[-1] if z.ndim else None, is_complex)


def _constant(value: complex, level: int, params: Parameters) -> NDArray:
    parts = encoder.encode_constant(value, params.n, params.scale(level))
    coefficients = np.zeros(params.n, object)
    for position, c in parts.items():
        coefficients[position] = c
    return coefficients


def _check_size(z: NDArray, coefficients: NDArray, level: int, params: Parameters) -> None:
    largest, q = float(np.abs(z).max()), params.ring(level).q
    if 2 * int(np.abs(coefficients).max()) >= q:
        raise ParameterError(
            f"Values up to {largest:.3g} were given at level {level}.",
            f"The modulus there has {q.bit_length()} bits, the scale {params.scale_bits}: "
            "the values would wrap around.",
            "Divide the values by a constant, or choose a higher level or more integer_bits.",
        )
    if largest >= 2.0 ** (params.integer_bits - 1):
        warnings.warn(
            f"encode: values up to {largest:.3g} reach beyond 2^{params.integer_bits - 1}, what "
            "integer_bits leaves room for; at level 0 they would wrap around.",
            stacklevel=4,
        )
