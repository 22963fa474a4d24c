"""Reports of tracked bounds that leave their range: warnings at the user's line, or errors."""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from ren.core.errors import MessageBoundError, MessageBoundWarning
from ren.core.user_frame import user_frame
from ren.schemes.ckks.noise import bounds as noises
from ren.schemes.ckks.parameters.parameters import Parameters

_REMEDY = (
    "Give the context more integer_bits, scale the values down, or state a bound that you know: "
    "ct.within(bound)."
)
_reports: ContextVar[int] = ContextVar("ren_ckks_reports", default=0)
_bits: ContextVar[list[float] | None] = ContextVar("ren_ckks_bits", default=None)


@functools.lru_cache(maxsize=1 << 10)
def largest_message(params: Parameters, level: int) -> float:
    """The modulus that messages at a level stay below, from `integer_bits` at level 0.

    It grows with Q_level / s_level: a message wraps around where it passes Q_level / (2 s_level).
    """
    q, scale = params.ring(level).q, params.scale(level)
    above = q * params.scale(0) / (params.ring(0).q * scale)
    return 2.0 ** min(params.integer_bits - 1 + math.log2(above), 1000.0)


def limit_text(params: Parameters, level: int) -> str:
    """The range of a level, for reports."""
    limit = f"2^{math.log2(largest_message(params, level)):.2f}"
    return f"{limit}, the range that integer_bits={params.integer_bits} gives level {level}"


def bound_of(x: Any) -> float | None:
    """The tracked bound of a ciphertext, the largest of a batch; None where it is not known."""
    noise = noises.known(x.noise)
    return None if noise is None else float(noise[..., 0].max())


@contextmanager
def collecting_bits() -> Iterator[list[float]]:
    """Collect the integer bits that each operation needs, instead of warnings: for planning."""
    bits: list[float] = []
    token = _bits.set(bits)
    try:
        yield bits
    finally:
        _bits.reset(token)


def collect_bits(bound: float, params: Parameters, level: int) -> None:
    """Add the integer bits that a message up to `bound` needs, while such are collected."""
    if (bits := _bits.get()) is not None:
        room = largest_message(params, level) / 2.0 ** (params.integer_bits - 1)
        bits.append(math.log2(max(bound, 1e-30) / room) + 1)


def is_planning() -> bool:
    """True where integer bits are collected, and nothing is computed."""
    return _bits.get() is not None


def report(text: str, params: Parameters, remedy: str = _REMEDY) -> None:
    """Warn at the user's own line, or raise where the parameters are strict.

    Raises:
        MessageBoundError: `params.strict` is set.
    """
    if is_planning():
        return
    _reports.set(_reports.get() + 1)
    given, _, rest = text.partition("; ")
    if params.strict:
        raise MessageBoundError(f"{given}.", f"{rest[:1].upper()}{rest[1:]}", remedy)
    warn(f"{text} {remedy}")


def will_report() -> None:
    """Note that a step of the program reports what becomes unknown: the circuit around need not."""
    _reports.set(_reports.get() + 1)


def warn(text: str, category: type[Warning] = MessageBoundWarning) -> None:
    """Warn at the user's own line."""
    frame = user_frame()
    if frame is None:
        return
    warnings.warn_explicit(
        text,
        category,
        frame.f_code.co_filename,
        frame.f_lineno,
        frame.f_globals.get("__name__") or "__main__",
        frame.f_globals.setdefault("__warningregistry__", {}),
    )


def report_count() -> int:
    """The reports so far in this thread or task."""
    return _reports.get()
