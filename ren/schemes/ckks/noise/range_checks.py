"""Checks of tracked bounds: the range of a level, the interval of a function; and their reports.

A report warns at the user's line, or raises. Under `ren.jit` a check is a step of the program, and
reports at each replay. Inside a JAX transformation nothing can be reported: noise becomes unknown
instead, which `decrypt` reports.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ren.core.errors import MessageBoundError, MessageBoundWarning
from ren.core.user_frame import warn_user
from ren.poly.batching import chosen
from ren.poly.symbolic import derived, is_sampling
from ren.schemes.ckks.noise.around import around
from ren.schemes.ckks.noise.bounds import LARGEST
from ren.schemes.ckks.noise.readable import Noise, known, on_host
from ren.schemes.ckks.noise.sigmas import log2_of
from ren.schemes.ckks.parameters.parameters import Parameters

TOLERANCE = 1 + 1e-5  # of comparisons between bounds: float32 rounds
_REMEDY = (
    "Give the context more integer_bits, scale the values down, or state a bound that you know: "
    "ct.within(bound)."
)

# ------------------------------------------------------------------- ranges


@functools.lru_cache(maxsize=1 << 10)
def largest_message(params: Parameters, level: int) -> float:
    """The modulus that messages at a level stay below, from `integer_bits` at level 0.

    It grows with Q_level / s_level: a message wraps around where it passes Q_level / (2 s_level).
    """
    q, scale = params.ring(level).q, params.scale(level)
    above = q * params.scale(0) / (params.ring(0).q * scale)
    return 2.0 ** min(params.integer_bits - 1 + log2_of(above), 1000.0)


def limit_of(x: Any) -> float:
    """The modulus that the message of a ciphertext stays below, at its level and scale."""
    return _limit(x.params, x.level, x.own_scale)


def _limit(params: Parameters, level: int, own_scale: Fraction | None) -> float:
    limit = largest_message(params, level)
    if own_scale is None:
        return limit
    return limit * 2.0 ** (log2_of(params.scale(level)) - log2_of(own_scale))


def limit_text(params: Parameters, level: int, own_scale: Fraction | None) -> str:
    """The range of a ciphertext, for reports."""
    limit = f"2^{math.log2(_limit(params, level, own_scale)):.2f}"
    at_scale = "" if own_scale is None else f" at scale 2^{log2_of(own_scale):.1f}"
    return (
        f"{limit}, the range that integer_bits={params.integer_bits} gives level {level}{at_scale}"
    )


def bound_of(x: Any) -> float | None:
    """The tracked bound of a ciphertext, the largest of a batch; None where it is not known."""
    if (later := vars(x).get("later")) is not None:  # a plaintext has none
        return later.bound
    noise = x.noise
    if type(noise) is np.ndarray and noise.ndim == 1:  # as a rule
        return noise.item(0)
    noise = known(noise)
    return None if noise is None else largest_bound(noise)


def largest_bound(noise: NDArray[np.float32]) -> float:
    """The tracked bound of a noise on the host, the largest of a batch."""
    return float(noise[0] if noise.ndim == 1 else noise[..., 0].max(initial=0.0))


# ------------------------------------------------------------------- checks


def inside(a: Noise, bound: float, report: Callable[[float], None]) -> Noise:
    """Noise of an argument; unknown where its bound is beyond the `bound` that a function takes.

    `report` is called with the bound that is beyond, under `ren.jit` at replays.
    """
    return derived(partial(_inside, bound * TOLERANCE, report), on_host(a))


def _inside(bound: float, report: Callable[[float], None], a: Noise) -> Noise:
    beyond = a[..., :1] > bound  # False where it is unknown
    if isinstance(a, np.ndarray):
        if not beyond.any():
            return a
        if not is_sampling():
            report(float(a[..., 0].max()))
    return chosen(beyond, np.float32(np.nan), a)


def checked(
    a: Noise, limit: float, operands: Sequence[tuple[Noise, float]], report: Callable[[float], None]
) -> Noise:
    """Noise of a result as it is, after its bound was compared with the `limit` of its level.

    Args:
        operands: the noise of each operand, and the limit of its level. Where one was beyond that
            already, nothing is reported.
        report: called with a bound that is beyond `limit`. Called with NaN where it is unknown and
            was known of all operands.
    """
    limits = tuple(held * TOLERANCE for held in (limit, *(held for _, held in operands)))
    hosts = (on_host(noise) for noise, _ in operands)
    return derived(partial(_checked, limits, report), on_host(a), *hosts)


def _checked(
    limits: tuple[float, ...], report: Callable[[float], None], a: Noise, *operands: Noise
) -> Noise:
    if not isinstance(a, np.ndarray):
        limit = np.float32(min(limits[0], 2 * LARGEST))  # beyond it bounds are unknown anyway
        return chosen(a[..., :1] > limit, np.float32(np.nan), a)
    bound = largest_bound(a)
    if bound <= limits[0] or is_sampling():
        return a
    before = [largest_bound(o) if isinstance(o, np.ndarray) else math.nan for o in operands]
    if any(map(math.isnan, before)):
        return a
    if math.isnan(bound) or all(b <= held for b, held in zip(before, limits[1:], strict=True)):
        report(bound)
    return a


def reported_if_unknown(a: Noise, what: str, params: Parameters) -> Noise:
    """Noise of values as it is; where they pass 2^60, so that it is unknown, that is reported."""
    return derived(partial(_reported_if_unknown, what, params), on_host(a))


def _reported_if_unknown(what: str, params: Parameters, a: Noise) -> Noise:
    if isinstance(a, np.ndarray) and not is_sampling() and np.isnan(a[..., 0]).any():
        report(
            f"{what}: the numbers pass 2^{math.log2(LARGEST):.0f}, up to which bounds are tracked; "
            "from here on bound and error are unknown.",
            params,
            "Scale the values down, and the result up again once it is decrypted.",
        )
    return a


# ------------------------------------------------------------------- reports


def collect_bits(bound: float, params: Parameters, level: int) -> None:
    """Add the integer bits that a message up to `bound` needs, while such are collected."""
    if (bits := around().bits) is not None:
        room = largest_message(params, level) / 2.0 ** (params.integer_bits - 1)
        bits.append(math.log2(max(bound, 1e-30)) - math.log2(room) + 1)


def is_planning() -> bool:
    """True where integer bits are collected, and nothing is computed."""
    return around().bits is not None


def report(text: str, params: Parameters, remedy: str = _REMEDY) -> None:
    """Warn at the user's own line, or raise where the parameters are strict.

    Raises:
        MessageBoundError: `params.strict` is set.
    """
    if is_planning():
        return
    will_report()
    given, _, rest = text.partition("; ")
    if params.strict:
        raise MessageBoundError(f"{given}.", f"{rest[:1].upper()}{rest[1:]}", remedy)
    warn(f"{text} {remedy}")


def will_report() -> None:
    """Note that a step of the program makes a report: the circuit around it makes none."""
    if (circuit := around().circuit) is not None:
        circuit.is_reported = True


def warn(text: str, category: type[Warning] = MessageBoundWarning) -> None:
    """Warn at the user's own line: once, also where other calls of it have other bounds."""
    warn_user(text, category)
