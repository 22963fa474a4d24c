"""Estimate: the tracked noise of a ciphertext as numbers that can be read."""

from __future__ import annotations

import math

import attrs
import numpy as np

from ren.core import html
from ren.core.attributes import closed
from ren.core.errors import TracedValueError
from ren.core.user_frame import user_line
from ren.lowering.devices.devices import check_addressable
from ren.schemes.ckks.noise.bounds import FLOAT64, RANDOM, SIGMAS
from ren.schemes.ckks.noise.readable import Noise, is_known

_INSTEAD = {
    **dict.fromkeys(("error", "error_max", "max_error"), "x.estimate.error_bound"),
    **dict.fromkeys(("precision", "precision_bits", "noise_budget"), "x.estimate.bits"),
    **dict.fromkeys(("std", "sigma"), "math.sqrt(x.estimate.variance)"),
    **dict.fromkeys(("bound", "message"), "x.estimate.message_bound"),
}  # fmt: skip


@closed(_INSTEAD)
@attrs.frozen
class Estimate:
    """Estimate without decrypting, for the worst of a batch: infinite where nothing is known.

    Attributes:
        message_bound: at least the modulus of the message in every slot.
        variance: of the random part of the error in a slot, in units of the message.
        offset: a bound of its fixed part.
        error_bound: offset + 6.5 sqrt(variance), and what decoding in float64 adds. Infinite where
            the message may be beyond the range of its level: it may have wrapped around.
    """

    message_bound: float
    variance: float
    offset: float
    error_bound: float

    @property
    def bits(self) -> float:
        """-log2(error_bound): so many bits after the point are right; 0 where none is known to."""
        return max(0.0, -math.log2(self.error_bound)) if self.error_bound else math.inf

    def __str__(self) -> str:
        if math.isinf(self.message_bound):
            return "unknown"
        if math.isinf(self.error_bound):
            return f"|message| <= {self.message_bound:.4g}, which may wrap around: error unknown"
        if math.isinf(self.bits):
            return f"|message| <= {self.message_bound:.4g}, exact"
        return (
            f"|message| <= {self.message_bound:.4g}, error <= {self.error_bound:.3g} "
            f"(~{self.bits:.1f} bits)"
        )

    def _repr_html_(self) -> str:
        if math.isinf(self.message_bound):
            return html.card("Estimate", tags=("unknown",))
        rows = [("message", f"at most {self.message_bound:.4g}")]
        if math.isinf(self.error_bound):
            rows += [("error", "unknown: the message may wrap around")]
            return html.card("Estimate", html.facts(rows))
        if math.isinf(self.bits):
            return html.card("Estimate", html.facts([*rows, ("error", "none")]))
        rows += [
            ("error", f"at most {self.error_bound:.3g}: ~{self.bits:.1f} bits are right"),
            ("random part", f"standard deviation {math.sqrt(self.variance):.3g}"),
            ("fixed part", f"at most {self.offset:.3g}"),
        ]
        return html.card("Estimate", html.facts(rows), tags=("of the worst slot",))


def bits_text(estimate: Estimate) -> str:
    """The whole bits in words; "exact" where no slot has an error, as in x * 0."""
    return "exact" if math.isinf(estimate.bits) else f"~{math.floor(estimate.bits)} bits"


def estimate_of(noise: Noise, limit: float) -> Estimate:
    """The estimate of tracked noise of messages that wrap around beyond `limit`.

    Raises:
        TracedValueError: it is symbolic.
        DeviceError: it is divided over processes.
    """
    check_addressable(noise)
    if not is_known(noise):
        raise TracedValueError(
            f"{user_line()} asks for the estimate of a ciphertext that is still symbolic.",
            "While a function is captured or traced it is not known.",
            "Return the ciphertext and ask outside.",
        )
    values = np.asarray(noise).astype(np.float64)
    bound, offset, variance = values[..., 0], values[..., 1], (values[..., RANDOM] ** 2).sum(-1)
    error = offset + SIGMAS * np.sqrt(variance)
    error = np.where(bound > limit, np.inf, error + (bound + error) * FLOAT64)
    entries = (bound, variance, offset, error)
    known = (np.where(np.isnan(entry), np.inf, entry) for entry in entries)
    return Estimate(*(float(entry.max()) for entry in known))
