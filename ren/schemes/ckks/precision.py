"""ckks.precision: how many bits of a decrypted result are right."""

from __future__ import annotations

import html
import math
from typing import Any

import attrs
import numpy as np

from ren.core.errors import ParameterError
from ren.schemes.ckks.active import context_for
from ren.schemes.ckks.ciphertext import Ciphertext


@attrs.frozen
class Precision:
    """The true error of a ciphertext; bits are -log2 of an absolute error.

    Attributes:
        worst_bits: of the largest error.
        median_bits: of the median error.
        rms_error: the root of the mean squared error.
        largest_error: in `worst_slot`.
        worst_slot: its index in the decrypted array, batch axes first.
        level: of the ciphertext.
        estimated_bits: what its tracked noise promises, by `Ciphertext.estimate`; NaN for unknown.
    """

    worst_bits: float
    median_bits: float
    rms_error: float
    largest_error: float
    worst_slot: tuple[int, ...]
    level: int
    estimated_bits: float

    def _rows(self) -> list[tuple[str, str]]:
        slot = ", ".join(map(str, self.worst_slot)) or "every one"
        return [
            ("worst", f"{self.worst_bits:.1f} bits, {self.largest_error:.2e} in slot {slot}"),
            ("median", f"{self.median_bits:.1f} bits"),
            ("rms error", f"{self.rms_error:.2e}"),
            ("estimated", _promised(self.estimated_bits)),
            ("level", str(self.level)),
        ]

    def __str__(self) -> str:
        return "\n".join(f"{name:<10} {value}" for name, value in self._rows())

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th>{name}</th><td>{html.escape(value)}</td></tr>" for name, value in self._rows()
        )
        return f"<table>{rows}</table>"


def precision(x: Ciphertext, expected: Any) -> Precision:
    """The error of `x` against the values that it should hold.

    Args:
        x: a ciphertext whose context holds the secret.
        expected: real or complex, of the shape that `x.decrypt()` has or one that broadcasts to it.

    Raises:
        ParameterError: `expected` has another shape.
        MissingKeyError: the context does not hold the secret.

    Example:
        >>> from ren.schemes import ckks
        >>> ctx = ckks.context(depth=1)
        >>> x = ctx.encrypt([0.5, 0.25])
        >>> report = ckks.precision(x * x, [0.25, 0.0625])
        >>> report.worst_bits > report.estimated_bits > 15
        True
    """
    got = context_for(x.key_id, "precision()").decrypt(x)
    want = np.asarray(expected)
    try:
        error = np.abs(got - np.broadcast_to(want, got.shape))
    except ValueError:
        raise ParameterError(
            f"precision() got expected values of shape {want.shape}.",
            f"The ciphertext decrypts to an array of shape {got.shape}.",
            "Pass what the same computation gives in the clear.",
        ) from None
    largest = float(error.max())
    slot = np.unravel_index(int(error.argmax()), error.shape)
    return Precision(
        _bits(largest),
        _bits(float(np.median(error))),
        math.sqrt(float((error**2).mean())),
        largest,
        tuple(map(int, slot)),
        x.level,
        x.estimate.bits,
    )


def _promised(bits: float) -> str:
    return "unknown" if math.isnan(bits) else f"{bits:.1f} bits at least"


def _bits(error: float) -> float:
    return -math.log2(error) if error else math.inf
