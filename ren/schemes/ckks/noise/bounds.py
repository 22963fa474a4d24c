"""Tracked bounds of message and error: one small array that travels with a ciphertext.

The array is float32 [*batch, 4 + K] in units of the message:

    [bound, offset, coherent, rounding, a_0 .. a_(K-1)]

`bound` is at least the modulus of the message in every slot. The error of a slot is a fixed part of
at most `offset` plus a random part. The fixed part has rounded constants, approximations, and a
relative error of 2^-40 per dropped level. In the canonical embedding the random part has the
variance V = rounding^2 + a_0^2 + ... + a_(K-1)^2.

Every source of noise has one of K places. Sources in one place add as if they were one source,
standard deviation to standard deviation. This holds for dependent and for independent sources (the
triangle inequality). So x + x has four times the variance of x and x^8 amplifies the error of x
eightfold. Sources in different places are independent: their variances add. A rotation moves the
error of one slot to another, whose own error is independent of it. So it moves the places too.

The errors of a rescale and of a key switch depend on the second polynomial c1 alone. (The rounding
of c0 is far smaller.) Two ciphertexts with one c1, as p + x and q + x for plaintexts p and q, get
the same such error. So the place of that source follows from the set of places that c1's own
sources occupy. It is a free one, while there is one, and then that of the least source. Equal c1
occupy equal sets. Plaintexts occupy none.
The rounding of all encodings adds in `rounding`, as if it were one source, since equal plaintexts
round alike.

No entry but `bound` depends on encrypted or encoded values. `bound` is a power of two or was stated
by the user. Fresh encryptions take their places in the order of their making.

A rotation by K slots comes back to the same place, where it adds as one source with what is there.
`coherent` is the standard deviation if all sources were one and stood in one
slot: always a sum. N different rotations read N different slots. So their sum has
V <= N coherent^2 (Young's inequality), spread evenly over all places. Before such a sum each a_k is
always a sum as well, and they add up to `coherent`. Then the N rotations that come back to a place
add sqrt(N) a_k there: see `of_rotations`.

The bound of the error in a slot is offset + 6.5 sqrt(V). Variances are those of the modulus of a
complex slot; `sigmas` has those of the sources.
Unknown noise is NaN throughout, and NaN propagates. Noise is unknown for programs planned without
data, for approximations outside of their interval, and beyond 2^60.

All rules are arithmetic of arrays. They take NumPy arrays and JAX tracers, and under `ren.jit` the
host evaluates them at each call.

References: Gentry, Halevi and Smart, "Homomorphic evaluation of the AES circuit", 2012 (canonical
embedding); Costache, Curtis, Hales, Murphy, Ogilvie and Player, "On the precision loss
in approximate homomorphic encryption", 2022 (average-case CKKS).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import lru_cache, partial, wraps
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ren.core.errors import ParameterError
from ren.lowering.devices.devices import is_tracer
from ren.lowering.kernels import embedding
from ren.poly.batching import chosen, joined_arrays, stacked_arrays
from ren.poly.symbolic import derived
from ren.schemes.ckks.noise.places import PLACES, next_of_one, next_place, place_of
from ren.schemes.ckks.noise.readable import Noise, on_host
from ren.schemes.ckks.noise.sigmas import power_above
from ren.schemes.ckks.parameters.bootstrapping.precision import SIGMAS
from ren.schemes.ckks.parameters.parameters import Parameters

Rule = TypeVar("Rule", bound=Callable[..., Noise])

_HEAD = 4  # bound, offset, coherent, rounding
WIDTH = _HEAD + PLACES
LARGEST = 2.0**60  # noise beyond is unknown, so that squares stay inside float32
_LARGEST = np.float32(LARGEST)
ZERO = np.zeros(WIDTH, np.float32)
_INDICES = np.arange(WIDTH)
_IS_BOUND, _IS_COHERENT = _INDICES == 0, _INDICES == 2
_OFFSET = (_INDICES == 1).astype(np.float32)
_ROUNDINGS = np.isin(_INDICES, (2, 3)).astype(np.float32)  # coherent and rounding
_ERRORS = (_INDICES > 0).astype(np.float32)
RANDOM = slice(_HEAD - 1, None)  # entries whose squares add up to V
_AT_PLACES = (_INDICES >= _HEAD).astype(np.float32)
_SURE = (_INDICES < _HEAD - 1).astype(np.float32)  # bound, offset, coherent
_CLEARLY = 0.8  # a bound whose places are known is taken, unless another is less by this factor
_PLACE_NUMBERS = np.maximum(_INDICES - _HEAD, -1).astype(np.int32)
_NEARLY = 1 - 2.0**-40  # exp(i t) may come out a little above 1
FLOAT64 = 2.0**-50  # relative error of encoding and of decoding in float64, with its transform
_LEAST_BOUND = 2.0**-30  # of plaintexts: smaller values publish this


# Declared state: counts the encryptions of this process. Places of noise follow from it, and from
# nothing that is encrypted.
serials = itertools.count()

# ------------------------------------------------------------------- sources


def of_values(
    values: Any,
    params: Parameters,
    scale: float,
    bound: float | None = None,
    least: float = _LEAST_BOUND,
) -> Noise:
    """Noise of encoded slots: a public bound of the values, and the rounding of encoding.

    Args:
        values: slots [*batch, k], a number for all slots, or a symbol that stands for either.
        bound: stated by the user; None for the power of two above the largest modulus.
        least: of the bounds that are not stated.

    Raises:
        ParameterError: values beyond `bound`.
    """
    rounding = math.sqrt(2 * params.slots / 12) / scale
    return derived(partial(_of_values, rounding, 1 / scale, bound, least), values)


def fresh(
    values: Any, params: Parameters, scale: float, sigma: float, serial: int, bound: float | None
) -> Noise:
    """Noise of a fresh ciphertext: parameters, a public bound and a serial number decide it.

    Args:
        values, scale, bound: as in `of_values`; bounds that are not stated are at least 1.
        sigma: standard deviation of the noise of encryption, in a slot.
        serial: counts encryptions; the place of the noise follows from it.
    """
    source = np.zeros(WIDTH, np.float32)
    source[[2, _HEAD + place_of(serial)]] = sigma
    return total(of_values(values, params, scale, bound, 1.0), source)


def _of_values(
    rounding: float, unit: float, bound: float | None, least: float, values: ArrayLike
) -> NDArray[np.float32]:
    if isinstance(values, int | float) and bound is None and abs(values) <= LARGEST:
        return _of_number(unit, least, abs(values))
    if isinstance(values, int):  # of any size
        values = float(min(abs(values), 4 * LARGEST))
    z = np.abs(np.asarray(values))
    if z.ndim:
        noise = np.zeros((*z.shape[:-1], WIDTH), np.float32)
        noise[..., [2, 3]] = rounding
        largest = z.max(-1)
    else:
        noise, largest = np.zeros(WIDTH, np.float32), z
        noise[1] = unit * math.sqrt(0.5)  # half a unit in the real and in the imaginary part
    if bound is not None and np.max(largest) * _NEARLY > bound:
        raise ParameterError(
            f"bound={bound:.12g} was stated; values go beyond, up to {power_above(largest.max())}.",
            "The bound is public: it is what everyone may know about the modulus of the values.",
            "State a larger bound, or leave it out for the next power of two.",
        )
    noise[..., 0] = _rounded_up(public_bound(largest, least) if bound is None else bound)
    noise[..., 1] += noise[..., 0] * np.float32(FLOAT64)
    return _limited(noise)


def of_traced(
    values: Any, fits: Any, params: Parameters, scale: float, bound: float | None
) -> Noise:
    """Noise of slots [*batch, k], or of a number, that JAX traces; unknown where they do not fit.

    Args:
        values, scale, bound: as in `of_values`; beyond a stated bound noise is unknown, too.
        fits: bool [*batch], whether the coefficients lie below the modulus.
    """
    fixed = np.zeros(WIDTH, np.float32)
    if values.ndim:
        fixed[[2, 3]] = math.sqrt(2 * params.slots / 12) / scale
    else:
        fixed[1] = math.sqrt(0.5) / scale
    sizes = embedding.largest(values)
    known = embedding.public_bound(sizes, _LEAST_BOUND)
    if bound is not None:
        fits = fits & embedding.is_within(sizes, bound / _NEARLY)
        known = known * 0 + np.float32(_rounded_up(bound))
    noise = known[..., None] * (_IS_BOUND + np.float32(FLOAT64) * _OFFSET) + fixed
    return chosen(fits[..., None], noise, np.float32(np.nan))


def _of_number(unit: float, least: float, size: float) -> NDArray[np.float32]:
    """`_of_values` of one real number: the same, quickly."""
    noise = np.zeros(WIDTH, np.float32)
    noise[0] = bound = 2.0 ** math.ceil(math.log2(max(size * _NEARLY, least)))
    noise[1] = np.float32(unit * math.sqrt(0.5)) + np.float32(bound) * np.float32(FLOAT64)
    return noise


def public_bound(largest: ArrayLike, least: float = _LEAST_BOUND) -> NDArray[np.float64]:
    """The power of two at or above the largest modulus of some values, and at least `least`."""
    return np.exp2(np.ceil(np.log2(np.maximum(np.asarray(largest) * _NEARLY, least))))


def of_constant(value: Any, scale: float, is_public: bool = False) -> Noise:
    """Noise of a number, or its symbol, in every slot, rounded to a multiple of 1/scale.

    `is_public` says that the program fixes it, so that its modulus is not secret.
    """
    if is_public:
        return derived(partial(_of_constant, 1 / scale), value)
    return derived(partial(_of_values, 0.0, 1 / scale, None, _LEAST_BOUND), value)


def _of_constant(unit: float, value: Any) -> NDArray[np.float32]:
    noise = np.zeros(WIDTH, np.float32)
    size = min(abs(value), 4 * LARGEST) if isinstance(value, int) else abs(complex(value))
    noise[0] = _rounded_up(size)
    noise[1] = unit * math.sqrt(0.5)  # half a unit in the real and in the imaginary part
    return _limited(noise)


# ------------------------------------------------------------------- rules


def _rule(function: Rule) -> Rule:
    """Lift a function of arrays: noises may also lie on a device, or be symbols."""

    @wraps(function)
    def lifted(*args: Any) -> Noise:
        is_at_hand = all([type(a) is np.ndarray for a in args])  # as a rule
        return function(*args) if is_at_hand else derived(function, *map(on_host, args))

    return lifted  # type: ignore[return-value]


def _limited(noise: Noise) -> Noise:
    """Noise beyond 2^60 as unknown noise: each array [WIDTH] of a batch by itself."""
    # No place has more than `coherent`: the first four entries tell, and XLA reduces nothing.
    if _is_single(noise):  # no comparison holds with a NaN
        is_known = all([entry <= LARGEST for entry in noise[:_HEAD].tolist()])
        return noise if is_known else noise * np.float32(np.nan)
    b, o, c, r = [noise[..., i : i + 1] <= _LARGEST for i in range(_HEAD)]
    return chosen(b & o & c & r, noise, np.float32(np.nan))


def _random(noise: Noise) -> Noise:
    """sqrt(V), [*batch, 1]; XLA would take a sum of more than 32 numbers apart."""
    return ((noise[..., _HEAD:] ** 2).sum(-1, keepdims=True) + noise[..., 3:4] ** 2) ** 0.5


def error_in_slot(noise: Noise) -> Noise:
    """The bound of the error in a slot, [*batch, 1]."""
    if _is_single(noise):
        random = noise[RANDOM]
        return noise.item(1) + SIGMAS * math.sqrt(random.dot(random))
    return noise[..., 1:2] + _random(noise) * np.float32(SIGMAS)


def _is_single(noise: Noise) -> bool:
    """Whether the faster forms for one host array will do: replays take these."""
    return isinstance(noise, np.ndarray) and noise.ndim == 1


@_rule
def total(a: Noise, b: Noise) -> Noise:
    """Noise of a sum or a difference."""
    return _limited(a + b)


@_rule
def product(a: Noise, b: Noise) -> Noise:
    """Noise of a product slot by slot: x e_y + (y + e_y) e_x, with y and e_y at their bounds."""
    if _is_single(a) and _is_single(b):
        noise = a * np.float32(b.item(0) + error_in_slot(b))
        noise += b * a[0]
        noise[0] = a[0] * b[0]
        return _limited(noise)
    return _limited(a * _ERRORS * (b[..., :1] + error_in_slot(b)) + b * a[..., :1])


def of_products(
    factors: Sequence[Noise], indices: Sequence[Sequence[int]], terms: Sequence[Noise]
) -> Noise:
    """Noise of a sum of products, as `total` of each `product`; `indices` are those of factors."""
    rule = partial(_of_products, tuple(np.array(i, np.intp) for i in indices))
    return derived(rule, *map(on_host, (*factors, *terms)))


def _of_products(indices: Sequence[NDArray[np.intp]], *noises: Noise) -> Noise:
    count = len(indices)
    read = [factors[i] for factors, i in zip(noises[:count], indices, strict=True)]
    b, a = joined_arrays(*read), stacked_arrays(*noises[count:])
    b = b.reshape(b.shape[0], *(1,) * (a.ndim - b.ndim), *b.shape[1:])
    each = _limited(a * _ERRORS * (b[..., :1] + error_in_slot(b)) + b * a[..., :1])
    return _limited(each.sum(0))


def scaled(a: Noise, factor: Any, is_public: bool = True) -> Noise:
    """Noise of an exact product with an integer, or its symbol.

    Where it is not `is_public`, the power of two above stands for its modulus.
    """
    if is_tracer(factor):
        size = embedding.public_bound(embedding.largest(factor), 1.0)
    else:
        size = derived(partial(_size, is_public), factor)
    return derived(lambda a, size: _limited(a * size), on_host(a), size)


def _size(is_public: bool, factor: Any) -> np.float32:
    size = abs(factor) if abs(factor) <= 2 * LARGEST else math.nan  # unknown, as what is beyond
    return np.float32(size if is_public or not size else public_bound(size))


def with_source(a: Noise, sigma: float, of: Noise | None = None) -> Noise:
    """Noise with one more source, which depends on c1: its place follows from the places of c1.

    `of` is the noise of what is rounded or switched, where that is a part of the ciphertext.
    """
    size = np.float32(min(sigma, 2 * LARGEST))
    return derived(partial(_with_source, size), on_host(a), *([] if of is None else [on_host(of)]))


def _with_source(sigma: np.float32, a: Noise, *source: Noise) -> Noise:
    of = source[0] if source else a
    if _is_single(a) and _is_single(of):
        noise = a.copy()
        noise[2] += sigma
        noise[_HEAD + next_of_one(of[_HEAD:])] += sigma
        return _limited(noise)
    place = next_place(of[..., _HEAD:])
    return _limited(a + chosen((place == _PLACE_NUMBERS) | _IS_COHERENT, sigma, np.float32(0)))


def with_rounding(a: Noise, sigma: float) -> Noise:
    """Noise of a plaintext that is rounded once more: equal plaintexts round alike."""
    return total(a, _ROUNDINGS * np.float32(min(sigma, 2 * LARGEST)))


@_rule
def with_relative(a: Noise, error: float) -> Noise:
    """Noise with a relative error of the message that is the same in every slot."""
    return _limited(a + a[..., :1] * (_OFFSET * np.float32(error)))


def with_offset(a: Noise, error: float) -> Noise:
    """Noise with a fixed error of at most `error` in every slot: that of an approximation."""
    return total(a, _OFFSET * _rounded_up(error))


@_rule
def as_message(a: Noise, slack: float) -> Noise:
    """Noise of slots whose fixed errors, and random ones up to `slack`, count as the message."""
    random = _random(a) * np.float32(SIGMAS)
    return chosen(random <= np.float32(slack), a * _IS_BOUND, a * (1 - _OFFSET))


def rotated(a: Noise, steps: int, slots: int) -> Noise:
    """Noise of slots moved by `steps`, cyclic: one place stays one place, and steps add up."""
    shift = steps * max(1, PLACES // slots) % PLACES
    if not shift:
        return a
    return derived(partial(_rotated, _HEAD + shift), on_host(a))


def _rotated(first: int, a: Noise) -> Noise:  # XLA fuses parts, and no gather
    return joined_arrays(a[..., :_HEAD], a[..., first:], a[..., _HEAD:first], axis=-1)


def of_rotations(
    a: Noise, tracked: Noise, count: int, step: int, slots: int, added: float
) -> Noise:
    """Noise of a sum of rotations of one term by 0, step, ... (count - 1) step: the least of three.

    Args:
        a, tracked: noise of each term; of the sum, as the rules of its steps give it.
        added: the variance of what the rotations added, in the sum.
    """
    if count < 2:
        return tracked
    shift = step * max(1, PLACES // slots) % PLACES
    rule = partial(_of_rotations, count, shift, float(min(added, LARGEST)))
    return derived(rule, on_host(a), on_host(tracked))


def _of_rotations(count: int, shift: int, added: float, a: Noise, tracked: Noise) -> Noise:
    whole = a[..., RANDOM].sum(-1, keepdims=True) * np.float32(1 + 1e-4)  # float32 rounds
    local = (a[..., None] * _spread(count, shift)).sum(-2)
    if shift:
        local = (local**2 + _AT_PLACES * np.float32(added / PLACES)) ** 0.5
    else:  # what was added has one place too
        local = local + (_with_source(np.float32(math.sqrt(added)), a) - a) * _AT_PLACES
    local = tracked * _SURE + local
    is_less = (a[..., 2:3] <= whole) & (_random(local) < _random(tracked))
    least = chosen(is_less, local, tracked)
    if count < PLACES:  # spread evenly it would be too small beside a source of `a`
        return _limited(least)
    even = (a[..., 2:3] * np.float32(math.sqrt(count / PLACES))).clip(None, LARGEST)
    even = (even**2 + np.float32(added / PLACES)) ** 0.5
    is_even = even * np.float32(math.sqrt(PLACES)) < _random(least) * np.float32(_CLEARLY)
    return _limited(chosen(is_even, tracked * _SURE + even * _AT_PLACES, least))


@_rule
def plus_slots(zeros: Noise, a: Noise, count: int) -> Noise:
    """Noise of a sum over slots, in every slot: `zeros`, and `count` different ones of noise `a`.

    Their deviations add up at most (Minkowski's inequality); or see Young's above. It is spread
    evenly over the places, in each at least what `a` has in a slot.
    """
    random = _random(a)
    added, spread = random * np.float32(count), a[..., 2:3] * np.float32(math.sqrt(count))
    even = chosen(added < spread, added, spread) * np.float32(PLACES**-0.5)
    even = chosen(even < random, random, even)
    return _limited(zeros + a * (_SURE * np.float32(count)) + even * _AT_PLACES)


@lru_cache(maxsize=256)
def _spread(count: int, shift: int) -> NDArray[np.float32]:
    """By how much each entry goes into each of the sum: sqrt(N), of the N that are in one place."""
    result = np.zeros((WIDTH, WIDTH), np.float32)
    result[_HEAD - 1, _HEAD - 1] = math.sqrt(count)  # of rounding
    repeats = np.bincount(np.arange(count) * shift % PLACES, minlength=PLACES)
    place = np.arange(PLACES)
    for moved in np.flatnonzero(repeats):
        result[_HEAD + (place + moved) % PLACES, _HEAD + place] = math.sqrt(repeats[moved])
    return result


# ------------------------------------------------------------------- bounds of messages
# Entries are chosen and never computed from two bounds, since differences of floats cancel.


@_rule
def without_message(a: Noise) -> Noise:
    """Noise of slots that are zero, with the error of others."""
    return a * _ERRORS


def within(a: Noise, bound: float) -> Noise:
    """Noise of a message that is known to keep to `bound`."""
    return within_that_of(a, _IS_BOUND * _rounded_up(bound))


@_rule
def within_that_of(a: Noise, other: Noise, times: Any = 1) -> Noise:
    """Noise of a message that is nowhere larger than `times` the largest of another."""
    most = other * times
    return chosen((a[..., :1] > most[..., :1]) & _IS_BOUND, most, a)


def reaching(a: Noise, bound: float) -> Noise:
    """Noise of a message that may reach `bound` too."""
    return larger(a, _IS_BOUND * _rounded_up(bound))


@_rule
def larger(a: Noise, b: Noise) -> Noise:
    """Noise of the first, with the larger of two bounds of messages."""
    known = a + b[..., :1] * 0  # unknown where that of b is
    return chosen((b[..., :1] > a[..., :1]) & _IS_BOUND, b, known)


# ------------------------------------------------------------------- batch axes


@_rule
def item(a: Noise, index: int) -> Noise:
    """Noise of one block of a vector that is cut: an index of the last batch axis."""
    return a if a.ndim == 1 else a[..., index if a.shape[-2] > 1 else 0, :]


@_rule
def beside_blocks(a: Noise, is_alike: bool) -> Noise:
    """Noise of a batch with an axis for the blocks that it is broadcast to; else the largest."""
    changed = a[..., None, :] if is_alike else a.reshape(-1, a.shape[-1]).max(0)
    return a if a.ndim == 1 else changed


def side_by_side(parts: Sequence[Noise]) -> Noise:
    """Noise of blocks as one vector: each keeps its own, along a new last batch axis."""
    return derived(partial(stacked_arrays, axis=-2), *map(on_host, parts))


@_rule
def of_largest(a: Noise, blocks: int) -> Noise:
    """Noise with the largest entries of all blocks."""
    return a if blocks == 1 or a.ndim == 1 else a.max(-2)


@_rule
def broadcast(a: Noise, batch: tuple[int, ...]) -> Noise:
    """Noise with all the batch axes."""
    return a + np.zeros((*batch, WIDTH), np.float32)


def stacked(parts: Sequence[Noise], batch: tuple[int, ...]) -> Noise:
    """Noises along a new first axis, each with all the batch axes first."""
    return derived(stacked_arrays, *(broadcast(a, batch) for a in parts))


def _rounded_up(values: ArrayLike) -> NDArray[np.float32]:
    """float32 values, at most 2^61, that are nowhere below the given ones."""
    limited = np.minimum(values, 2 * LARGEST)
    single = limited.astype(np.float32)
    return np.where(single < limited, np.nextafter(single, np.float32(np.inf)), single)
