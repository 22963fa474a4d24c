"""Estimate: the tracked noise of a ciphertext as numbers that can be read."""

from __future__ import annotations

import math

import attrs

from ren.core.errors import TracedValueError
from ren.core.user_frame import user_line
from ren.schemes.ckks.noise import bounds as noises
from ren.schemes.ckks.noise.bounds import Noise


@attrs.frozen
class Estimate:
    """Estimate without decrypting, for the worst of a batch: NaN where nothing is known.

    Attributes:
        message_bound: at least the modulus of the message in every slot.
        variance: of the random part of the error in a slot, in units of the message.
        offset: a bound of its fixed part.
        error_bound: offset + 6.5 sqrt(variance), and what decoding in float64 adds.
    """

    message_bound: float
    variance: float
    offset: float
    error_bound: float

    @classmethod
    def of(cls, noise: Noise) -> Estimate:
        """The estimate of the `noise` of a ciphertext or a plaintext.

        Raises:
            TracedValueError: it is not known, inside a function that is being captured or traced.
        """
        if not noises.is_known(noise):
            raise TracedValueError(
                f"{user_line()} asks for the estimate of a ciphertext that is still symbolic.",
                "While a function is captured or traced it is not known.",
                "Return the ciphertext and ask outside.",
            )
        return cls(*noises.read(noise))

    @property
    def bits(self) -> float:
        """-log2(error_bound): so many bits after the point are right; 0 for none, or NaN."""
        if math.isnan(self.error_bound):
            return math.nan
        return max(0.0, -math.log2(self.error_bound)) if self.error_bound else math.inf

    def __str__(self) -> str:
        if math.isnan(self.error_bound):
            return "unknown"
        return (
            f"|message| <= {self.message_bound:.4g}, error <= {self.error_bound:.3g} "
            f"(~{self.bits:.1f} bits)"
        )
