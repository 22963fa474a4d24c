"""Interval of the numbers of a ciphertext: stated by the user, and what follows from it.

The tracked bound is one of the modulus, and is known where values are. A span has a sign, and is
known while a function is traced. Operations keep it where interval arithmetic tells it, and drop
it elsewhere.
"""

from __future__ import annotations

import itertools
import math
import numbers
from collections.abc import Callable
from typing import Any

import attrs

from ren.schemes.ckks.noise.bounds import LARGEST


@attrs.frozen
class Span:
    """Interval [low, high] of the numbers of a ciphertext, up to its noise.

    Args:
        is_public: False where a number in the clear went into it: bytes then leave it out.
    """

    low: float
    high: float
    is_public: bool = attrs.field(default=True, kw_only=True)

    @property
    def largest(self) -> float:
        """The largest modulus."""
        return max(abs(self.low), abs(self.high))

    @property
    def is_truth(self) -> bool:
        """Whether each number is nearer to 0 or 1 than to another integer."""
        return self.low > -0.5 and self.high < 1.5

    def meet(self, low: float, high: float) -> Span | None:
        """The part inside [low, high]; None where there is none."""
        low, high = max(self.low, low), min(self.high, high)
        return attrs.evolve(self, low=low, high=high) if low <= high else None


def of_number(value: Any, is_public: bool) -> Span | None:
    """The span of a real number; None for any other value."""
    size = float(value) if isinstance(value, numbers.Real) else math.nan
    return Span(size, size, is_public=is_public) if abs(size) < LARGEST else None


def combined(formula: Callable[..., Any], *spans: Span | None) -> Span | None:
    """The span of a formula of numbers that is linear in each; None where one is unknown."""
    if any([s is None for s in spans]):
        return None
    known = [s for s in spans if s is not None]
    values = [formula(*ends) for ends in itertools.product(*((s.low, s.high) for s in known))]
    if not all(math.isfinite(v) and abs(v) < LARGEST for v in values):
        return None
    return Span(min(values), max(values), is_public=all(s.is_public for s in known))


def square(span: Span | None) -> Span | None:
    """The span of squares."""
    made = combined(lambda a: a * a, span)
    is_across = made is not None and span is not None and span.low < 0 < span.high
    return attrs.evolve(made, low=0.0) if is_across else made


def hull(*spans: Span | None) -> Span | None:
    """The least span that holds all; None where one is unknown."""
    if any(s is None for s in spans):
        return None
    known = [s for s in spans if s is not None]
    low, high = min(s.low for s in known), max(s.high for s in known)
    return Span(low, high, is_public=all(s.is_public for s in known))
