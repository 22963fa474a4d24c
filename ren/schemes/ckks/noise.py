"""What is known of a message and its error, as one small array that travels with a ciphertext.

The array is float32 [*batch, 3 + K] in units of the message:

    [bound, offset, coherent, a_0 .. a_(K-1)]

`bound` is at least the modulus of the message in every slot. The error of a slot is a fixed part of
at most `offset` (constants that were rounded, a relative error of 2^-40 in going down a level) and
a random part, seen in the canonical embedding, of variance V = a_0^2 + ... + a_(K-1)^2. Every
source of noise has one of K places, and what stands in one place is added as if it were one source,
standard deviation to standard deviation: that holds for dependent sources and for independent ones
(it is the triangle inequality). So x + x has four times the variance of x and x^8 amplifies the
error of x by 8, while sums of independent terms grow as they do. A rotation moves the errors of one
slot to another, where they are independent of those there: it moves the places too. The place of a
source follows from what it is added to, so that equal programs give equal arrays.

Rotations by K slots and more come back to a place, so that a sum of N > K of them would be counted
as if N/K were one source. `coherent` is the standard deviation if all sources were one and stood in
one slot: always a sum. Of N different rotations no slot's error is taken more than coherent allows,
so their sum has V <= N coherent^2 (Hoelder's inequality), spread evenly over all places: see
`of_rotations`.

The bound of the error in a slot is offset + 6.5 sqrt(V). Variances are those of the modulus of a
complex slot; `sigmas` has those of the sources.

Noise that is not known, of what was planned without data, is NaN throughout and stays so.

All rules are arithmetic of arrays, so that they hold for NumPy arrays, for JAX's tracers, and under
`ren.jit`, where they are carried out by the host at each call.

References: Gentry, Halevi and Smart, "Homomorphic evaluation of the AES circuit", 2012 (canonical
embedding); Costache, Curtis, Hales, Murphy, Ogilvie and Player, "On the precision loss
in approximate homomorphic encryption", 2022 (average-case CKKS).
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ren.batching import stacked_arrays
from ren.core.errors import ParameterError
from ren.lowering.devices import is_tracer
from ren.schemes.ckks.parameters import Parameters
from ren.symbolic import Symbolic, derived

Noise = Any  # float32 [*batch, WIDTH]: an array, a tracer, or a symbol

SIGMAS = 6.5  # standard deviations that the bound of an error takes
PLACES = 32
_HEAD = 3  # bound, offset, coherent
WIDTH = _HEAD + PLACES
LARGEST = 2.0**60  # entries end there, so that their squares stay inside float32
_LARGEST = np.float32(LARGEST)
ZERO = np.zeros(WIDTH, np.float32)
_ERRORS = np.array([0.0] + [1.0] * (WIDTH - 1), np.float32)
_NEARLY = np.float32(1 - 1e-6)  # exp(i t) may come out a little above 1
_NUMBERED = np.r_[[-1] * _HEAD, np.arange(PLACES)].astype(np.int32)
_IS_COHERENT = np.arange(WIDTH) == 2
_IS_PLACE = (np.arange(WIDTH) >= _HEAD).astype(np.float32)
_PLACE_WEIGHTS = (5 * np.arange(PLACES) + 7).astype(np.int32)
_FLOAT64 = 2.0**-50  # relative error of encoding and of decoding in float64, with its transform


# ------------------------------------------------------------------- sources


def unknown(batch: tuple[int, ...] = ()) -> NDArray[np.float32]:
    """Of what nothing is known of: NaN throughout, and so is all that follows from it."""
    return np.full((*batch, WIDTH), np.nan, np.float32)


def of_values(values: Any, params: Parameters, scale: float) -> Noise:
    """Of encoded slots [*batch, k], or of a scalar: their exact modulus, the rounding of encoding.

    Args:
        values: an array, or a symbol that stands for one; its place follows from them.
        params: tell how many slots there are.
        scale: at which they are encoded.
    """
    rounding = math.sqrt(2 * params.slots / 12) / scale
    return derived(partial(_of_values, rounding, 1 / scale), values)


def _of_values(rounding: float, unit: float, values: ArrayLike) -> NDArray[np.float32]:
    given = np.ascontiguousarray(values)
    z = np.abs(given)
    if z.ndim == 0:
        return _of_constant(unit, complex(z))
    made = np.zeros((*z.shape[:-1], WIDTH), np.float32)
    made[..., 0] = _rounded_up(z.max(-1))
    made[..., 1] = made[..., 0] * np.float32(_FLOAT64)
    made[..., [2, _HEAD + _place(zlib.crc32(given.data))]] = rounding
    return made


def of_constant(value: Any, scale: float) -> Noise:
    """Of one number in every slot, rounded to a multiple of 1/scale."""
    return derived(partial(_of_constant, 1 / scale), value)


def _of_constant(unit: float, value: Any) -> NDArray[np.float32]:
    made = np.zeros(WIDTH, np.float32)
    made[0] = _rounded_up(np.asarray(abs(complex(value))))
    made[1] = unit * math.sqrt(0.5)  # half a unit in the real and in the imaginary part
    return made


def encrypted(plain: Noise, sigma: float, serial: int, bound: float | None) -> Noise:
    """Of a fresh ciphertext: of its plaintext, with the noise of encryption and a public bound.

    Args:
        serial: of a node of the ciphertext, which is no other's: its place follows from it.
        bound: what the message keeps to, said by the owner. None for the power of two at or above
            its modulus, at least 1: all that the estimate then tells about the message.

    Raises:
        ParameterError: the message is beyond `bound`.
    """
    added = np.zeros(WIDTH, np.float32)
    added[[2, _HEAD + _place(serial)]] = sigma
    return total(derived(partial(_published, bound), plain), added)


def _published(bound: float | None, noise: NDArray[np.float32]) -> NDArray[np.float32]:
    made = noise.copy()
    if bound is None:
        made[..., 0] = np.exp2(np.ceil(np.log2(np.maximum(noise[..., 0] * _NEARLY, 1))))
    elif noise[..., 0].max() * _NEARLY > bound:
        raise ParameterError(
            f"encrypt() got bound={bound} and values up to {noise[..., 0].max():.3g}.",
            "The bound is what everyone may know about the modulus of the values.",
            "Give a larger bound, or leave it out for the next power of two.",
        )
    else:
        made[..., 0] = bound
    made[..., 1] = made[..., 0] * np.float32(_FLOAT64)
    return np.where(np.isnan(noise), noise, made)


def _place(number: int) -> int:
    return (number * 0x9E3779B1 & 0xFFFFFFFF) * PLACES >> 32


# ------------------------------------------------------------------- rules


def _host(noise: Noise) -> Noise:
    """Device arrays on the host, so that nothing is dispatched for a few numbers."""
    if isinstance(noise, np.ndarray | Symbolic) or is_tracer(noise):
        return noise
    return np.asarray(noise)


def _limited(noise: Noise) -> Noise:
    if isinstance(noise, np.ndarray):
        return np.minimum(noise, _LARGEST)
    return noise.clip(None, LARGEST)


def _random(noise: Noise) -> Noise:
    """sqrt(V), [*batch, 1]."""
    return (noise[..., _HEAD:] ** 2).sum(-1, keepdims=True) ** 0.5


def _error(noise: Noise) -> Noise:
    """The bound of the error in a slot, [*batch, 1]."""
    if _is_single(noise):
        random = noise[_HEAD:]
        return noise[1] + SIGMAS * math.sqrt(random.dot(random))
    return noise[..., 1:2] + _random(noise) * np.float32(SIGMAS)


def _is_single(noise: Noise) -> bool:
    """Whether the faster forms for one host array will do: replays take these."""
    return isinstance(noise, np.ndarray) and noise.ndim == 1


def total(a: Noise, b: Noise) -> Noise:
    """Of a sum or a difference."""
    return derived(_total, _host(a), _host(b))


def _total(a: Noise, b: Noise) -> Noise:
    return _limited(a + b)


def product(a: Noise, b: Noise) -> Noise:
    """Of a product slot by slot: x e_y + (y + e_y) e_x, with y and e_y at their bounds."""
    return derived(_product, _host(a), _host(b))


def _product(a: Noise, b: Noise) -> Noise:
    if _is_single(a) and _is_single(b):
        made = a * np.float32(b[0] + _error(b))
        made += b * a[0]
        made[0] = a[0] * b[0]
        return np.minimum(made, _LARGEST, out=made)
    return _limited(a * _ERRORS * (b[..., :1] + _error(b)) + b * a[..., :1])


def scaled(a: Noise, factor: Any) -> Noise:
    """Of an exact product with an integer."""
    return derived(_scaled, _host(a), factor)


def _scaled(a: Noise, factor: int) -> Noise:
    return _limited(a * np.float32(min(abs(factor), LARGEST)))


def with_source(a: Noise, sigma: float) -> Noise:
    """With noise of standard deviation `sigma` that is new, in a place that follows from `a`."""
    return derived(partial(_with_source, np.float32(min(sigma, LARGEST))), _host(a))


def _with_source(sigma: np.float32, a: Noise) -> Noise:
    if _is_single(a):
        made = a.copy()
        made[2] += sigma
        made[_HEAD + int((a[_HEAD:] > 0).dot(_PLACE_WEIGHTS)) % PLACES] += sigma
        return made
    taken = ((a[..., _HEAD:] > 0) * _PLACE_WEIGHTS).sum(-1, keepdims=True) % PLACES
    return _limited(a + ((taken == _NUMBERED) | _IS_COHERENT) * sigma)


def with_relative(a: Noise, error: float) -> Noise:
    """With a relative error that is the same in every slot."""
    return derived(partial(_with_relative, error), _host(a))


def _with_relative(error: float, a: Noise) -> Noise:
    added = np.zeros(WIDTH, np.float32)
    added[1] = error
    return _limited(a + a[..., :1] * added)


def rotated(a: Noise, steps: int, slots: int) -> Noise:
    """Of slots moved by `steps`, cyclic: what was in one place still is, and steps add up."""
    shift = steps * max(1, PLACES // slots) % PLACES
    if not shift:
        return a
    order = np.r_[:_HEAD, _HEAD + (np.arange(PLACES) + shift) % PLACES]
    return derived(partial(_reordered, order), _host(a))


def _reordered(order: NDArray[np.intp], a: Noise) -> Noise:
    return a[..., order]


def of_rotations(a: Noise, made: Noise, count: int, added: float) -> Noise:
    """Of a sum of `count` different rotations of what has the noise `a`: the lesser of two bounds.

    With fewer than PLACES rotations the second one would be too small beside a source of `a`.

    Args:
        a: of each term.
        made: of the sum, as it was tracked.
        count: of the terms.
        added: the variance of what the rotations added, in the sum.
    """
    if count < PLACES:
        return made
    return derived(partial(_of_rotations, count / PLACES, added / PLACES), _host(a), _host(made))


def _of_rotations(share: float, added: float, a: Noise, made: Noise) -> Noise:
    even = (a[..., 2:_HEAD] * np.float32(math.sqrt(share))).clip(None, LARGEST)
    even = (even**2 + np.float32(added)) ** 0.5
    is_less = (even * np.float32(math.sqrt(PLACES)) < _random(made)) * _IS_PLACE
    return made * (1 - is_less) + even * is_less


def within(a: Noise, bound: float) -> Noise:
    """Of a message that is known to keep to `bound`."""
    return derived(partial(_within, bound), _host(a))


def _within(bound: float, a: Noise) -> Noise:
    limits = np.array([bound] + [LARGEST] * (WIDTH - 1), np.float32)
    return a - (a - limits).clip(0, None)


def within_that_of(a: Noise, other: Noise) -> Noise:
    """Of a message that is nowhere larger than the largest of another."""
    return derived(_within_that_of, _host(a), _host(other))


def _within_that_of(a: Noise, other: Noise) -> Noise:
    return a - ((a - other) * (1 - _ERRORS)).clip(0, None)


def within_times(a: Noise, other: Noise, times: Any) -> Noise:
    """Of a message that is nowhere larger than `times` the largest of another."""
    return derived(_within_times, _host(a), _host(other), times)


def _within_times(a: Noise, other: Noise, times: Any) -> Noise:
    return a - ((a - other * times) * (1 - _ERRORS)).clip(0, None)


def item(a: Noise, index: int) -> Noise:
    """Of one block of a vector that is cut: a place of the last batch axis."""
    return derived(partial(_item, index), _host(a))


def _item(index: int, a: Noise) -> Noise:
    return a if a.ndim == 1 else a[..., index if a.shape[-2] > 1 else 0, :]


def side_by_side(parts: Sequence[Noise]) -> Noise:
    """Of blocks as one vector: each keeps its own, along a new last batch axis."""
    return derived(_side_by_side, *map(_host, parts))


def _side_by_side(*parts: Noise) -> Noise:
    return stacked_arrays(*parts, axis=-2)


def of_largest(a: Noise, blocks: int) -> Noise:
    """With the largest entries of all blocks."""
    return a if blocks == 1 else derived(_of_largest, _host(a))


def _of_largest(a: Noise) -> Noise:
    return a if a.ndim == 1 else a.max(-2)


def broadcast(a: Noise, batch: tuple[int, ...]) -> Noise:
    """With all the batch axes."""
    return derived(partial(_broadcast, batch), _host(a))


def _broadcast(batch: tuple[int, ...], a: Noise) -> Noise:
    return a + np.zeros((*batch, WIDTH), np.float32)


def stacked(parts: Sequence[Noise], batch: tuple[int, ...]) -> Noise:
    """Along a new first axis, each with all the batch axes first."""
    return derived(stacked_arrays, *(broadcast(a, batch) for a in parts))


def _rounded_up(values: NDArray) -> NDArray[np.float32]:
    limited = np.minimum(values, LARGEST)
    made = limited.astype(np.float32)
    return np.where(made < limited, np.nextafter(made, np.float32(np.inf)), made)


# ------------------------------------------------------------------- reading


def known(noise: Noise) -> NDArray[np.float32] | None:
    """The array itself; the sample where it is symbolic; None for a tracer."""
    noise = noise.sample if isinstance(noise, Symbolic) else noise
    return np.asarray(noise) if is_known(noise) else None


def is_known(noise: Noise) -> bool:
    """False inside a function that is being captured or traced."""
    return isinstance(noise, np.ndarray) or (isinstance(noise, jax.Array) and not is_tracer(noise))


def read(noise: Noise) -> tuple[float, float, float, float]:
    """The fields of an `Estimate`, each the largest over the batch."""
    values = np.asarray(noise).astype(np.float64)
    bound, offset, variance = values[..., 0], values[..., 1], (values[..., _HEAD:] ** 2).sum(-1)
    error = offset + SIGMAS * np.sqrt(variance)
    error = error + (bound + error) * _FLOAT64
    return float(bound.max()), float(variance.max()), float(offset.max()), float(error.max())
