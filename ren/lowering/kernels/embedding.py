"""Encoding of numbers that JAX traces: slots to coefficients, and coefficients to residues.

The host encodes numbers that have values (`ren.schemes.ckks.encoding.encoder`). These are the same
steps in float64 inside a traced program, where nothing can raise. Numbers that do not fit give
residues without meaning; `fits` says where.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, NoReturn, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_batching import custom_vmap
from numpy.typing import NDArray

from ren.core.errors import OperandError
from ren.core.ring import MODULUS_BOUND
from ren.core.user_frame import user_line
from ren.lowering.devices.devices import is_tracer, wide

F = TypeVar("F")
_SPLIT = 40  # bits of the low part of a coefficient
_LARGEST = 2.0 ** (62 + _SPLIT)  # below it both parts fit into int64


def _wide(function: F) -> F:
    @wraps(function)  # type: ignore[arg-type]
    def run(*args: Any) -> Any:
        args = tuple(map(_as_typed, args))
        with wide():
            return function(*args)  # type: ignore[operator]

    return run  # type: ignore[return-value]


def _as_typed(value: Any) -> Any:
    """A tracer whose values have the type that it states.

    `jax.vmap` takes an array of NumPy as it is: 64-bit values pass for 32 bits until an operation
    reads them. Programs with 64-bit types would read them wrong.

    Raises:
        OperandError: integers that do not fit into the type that it states.
    """
    inner = value
    while is_tracer(inner):
        inner = getattr(inner, "val", None)
    if inner is value or not isinstance(inner, np.ndarray) or inner.dtype == value.dtype:
        return value
    if inner.dtype.kind in "iu" and (inner.astype(value.dtype) != inner).any():
        raise OperandError(
            f"{user_line()} got integers of {inner.dtype} which JAX cuts to {value.dtype}.",
            "Some of them do not fit, and would be other numbers.",
            "Pass floats, which are rounded, or set jax.config.update('jax_enable_x64', True).",
        )
    return jnp.copy(value)


def without_derivative(values: jax.Array, refuse: Callable[[], NoReturn]) -> jax.Array:
    """The values; `refuse` raises where JAX differentiates with respect to them.

    The derivative of their rounding is 0 for JAX, which would be a wrong answer.
    """
    if not jnp.issubdtype(values.dtype, jnp.inexact):
        return values

    @jax.custom_jvp
    def same(x: jax.Array) -> jax.Array:
        return x

    same.defjvp(lambda *_: refuse())
    return same(values)


@_wide
def as_floats(values: jax.Array) -> jax.Array:
    """The values as float64, or complex128."""
    is_complex = jnp.issubdtype(values.dtype, jnp.complexfloating)
    return values.astype(jnp.complex128 if is_complex else jnp.float64)


@_wide
def product(a: Any, b: Any) -> jax.Array:
    """a b in float64 or complex128; one of them is traced."""
    return as_floats(jnp.asarray(a)) * as_floats(jnp.asarray(b))


@_wide
def inverse(values: jax.Array) -> jax.Array:
    """1/values in float64 or complex128; infinite where one is zero."""
    return 1 / as_floats(values)


@_wide
def filled(value: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """An array of one number."""
    return jnp.broadcast_to(value, shape)


@_wide
def in_blocks(values: jax.Array, blocks: int, slots: int) -> jax.Array:
    """Values [*batch, k] with zeros behind them, as [*batch, blocks, slots]."""
    behind = blocks * slots - values.shape[-1]
    padded = jnp.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, behind)])
    return padded.reshape(*values.shape[:-1], blocks, slots)


@_wide
def coefficients(
    values: jax.Array,
    order: NDArray[np.intp],
    untwist: NDArray[np.complex128],
    offsets: NDArray[np.complex128],
    n: int,
) -> jax.Array:
    """round(scale * embedding^-1(values)): integers in float64 [*batch, n].

    Args:
        values: float64 or complex128 [*batch, k], with k up to the count of slots.
        order: [slots], the slot that is transformed at each place.
        untwist: [slots], the inverse twists times scale/slots.
        offsets: [slots], added before the rounding where a quarter of the parts is below slots/2.
        n: the degree.
    """

    def run(z: jax.Array) -> jax.Array:
        with wide():
            return _coefficients(z, order, untwist, offsets, n)

    mapped = custom_vmap(run)  # JAX's own rule of the transform would run without 64-bit types
    mapped.def_vmap(lambda size, is_batched, z: (mapped(z), True))
    return mapped(values)


def _coefficients(
    values: jax.Array,
    order: NDArray[np.intp],
    untwist: NDArray[np.complex128],
    offsets: NDArray[np.complex128],
    n: int,
) -> jax.Array:
    slots = len(order)
    padded = jnp.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, slots - values.shape[-1])])
    folded = jnp.fft.fft(padded[..., order].astype(jnp.complex128)) * untwist
    halves = jnp.stack([folded.real, folded.imag], -2)
    is_small = 2 * jnp.sum(jnp.abs(halves) < slots / 2, (-2, -1), keepdims=True) > slots
    halves += jnp.where(is_small, np.stack([offsets.real, offsets.imag]), 0.0)
    halves = jnp.rint(halves)[..., None]
    stride = n // (2 * slots)
    spread = jnp.pad(halves, [(0, 0)] * (halves.ndim - 1) + [(0, stride - 1)])
    return spread.reshape(*values.shape[:-1], n)


@_wide
def constant(value: jax.Array, scale: float) -> jax.Array:
    """The coefficients of X^0 and X^(n/2) of one number in all slots: float64 [2]."""
    return jnp.rint(jnp.stack([jnp.real(value), jnp.imag(value)]).astype(jnp.float64) * scale)


@_wide
def constant_polynomial(parts: jax.Array, n: int) -> jax.Array:
    """The coefficients [n] with these two at X^0 and X^(n/2)."""
    return jnp.pad(parts[:, None], [(0, 0), (0, n // 2 - 1)]).reshape(n)


@_wide
def residues(integers: jax.Array, moduli: Sequence[int]) -> jax.Array:
    """The residues c 2^32 mod q_i (Montgomery form): uint32 [*batch, limb, n].

    Args:
        integers: [*batch, n] of any integer type; or integers in float64, below 2^102.
        moduli: the moduli q_i < 2^30 of the limbs.
    """
    q = np.array(moduli, np.int64)[:, None]
    if not jnp.issubdtype(integers.dtype, jnp.floating):
        word = integers if integers.dtype == jnp.uint64 else integers.astype(jnp.int64)
        high, low = word >> _SPLIT, word & ((1 << _SPLIT) - 1)
    else:
        high = jnp.floor(integers * 2.0**-_SPLIT)
        low = integers - high * 2.0**_SPLIT  # exact: c has 53 bits
    high_factor, low_factor = (
        np.array([pow(2, e, m) for m in moduli], np.int64)[:, None] for e in (32 + _SPLIT, 32)
    )
    high, low = (part.astype(jnp.int64)[..., None, :] % q for part in (high, low))
    # Products of residues below 2^30: the sum stays below 2^61.
    return ((high * high_factor + low * low_factor) % q).astype(jnp.uint32)


@_wide
def limbs_of_integer(integer: jax.Array, moduli: Sequence[int], n: int) -> jax.Array:
    """The limbs of an integer as a polynomial of coefficients: uint32 [limb, n].

    A modulus below 2^30 has one limb, the Montgomery form; a wide one the words of the residue.
    """
    parts = []
    for q in moduli:
        if q < MODULUS_BOUND:
            parts.append(residues(integer[None], (q,)))
            continue
        wide = integer if integer.dtype == jnp.uint64 else integer.astype(jnp.int64)
        residue = (wide % np.asarray(q, wide.dtype)).astype(jnp.uint64)
        words = jnp.stack([residue & np.uint64(0xFFFFFFFF), residue >> np.uint64(32)])
        parts.append(words.astype(jnp.uint32)[:, None])
    return jnp.pad(jnp.concatenate(parts), ((0, 0), (0, n - 1)))


@_wide
def evaluated_constant(integer: jax.Array, moduli: Sequence[int], n: int) -> jax.Array:
    """The limbs of an integer as a polynomial, in the NTT domain: uint32 [*batch, limb, n]."""
    limbs = residues(integer[..., None], moduli)
    return jnp.broadcast_to(limbs, (*limbs.shape[:-1], n))


@_wide
def fits(integers: jax.Array, modulus: int) -> jax.Array:
    """Whether coefficients [*batch, n] are finite and below half the modulus: bool [*batch]."""
    half = min(2.0 ** min(math.log2(modulus) - 1, 1000.0), _LARGEST)
    return (jnp.abs(integers) < half).all(-1)


@_wide
def largest(values: jax.Array) -> jax.Array:
    """The largest modulus along the last axis, or that of a number: float64 [*batch]."""
    if values.dtype.kind in "biu":  # the smallest of a signed type has no modulus in it
        values = values.astype(jnp.float64)
    size = jnp.abs(values).astype(jnp.float64)
    return size.max(-1) if size.ndim else size


@_wide
def public_bound(sizes: jax.Array, least: float) -> jax.Array:
    """The power of two at or above each size, and at least `least`: float32."""
    bound = jnp.exp2(jnp.ceil(jnp.log2(jnp.maximum(sizes.astype(jnp.float64), least))))
    return bound.astype(jnp.float32)


@_wide
def is_within(sizes: jax.Array, bound: float) -> jax.Array:
    """Whether each size is at most `bound`."""
    return sizes <= bound
