"""The error of a bootstrap, by its parts: what the noise estimate adds, and what is printed.

The sine is off by a fixed part, at most `Sine.fixed_error` for the real and for the imaginary part.
The random part is that of each stage, counted in the message:

    level 0      rounding and the switch to the sparse secret, in coefficients, which are the slots
    StC, CtS     rounding of the diagonals, and of what leaves a matrix
    sine         rounding at each level, amplified by what follows; the error of the polynomial,
                 which goes by the overflow, and this is another in each bootstrap
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

from ren.schemes.ckks.parameters.bootstrapping.above import WEIGHT
from ren.schemes.ckks.parameters.bootstrapping.chain import Chain, chain_of
from ren.schemes.ckks.parameters.bootstrapping.labels import products
from ren.schemes.ckks.parameters.bootstrapping.matrices import Matrix
from ren.schemes.ckks.parameters.bootstrapping.sine import DOUBLINGS, amplifications

TAIL = 2.5  # over the mean of |s(z)|^2 over the slots: see `noise.sigmas`
_SPARE = 0.25  # bits that the magnified error stays below the bound by
SIGMAS = 6.5  # standard deviations that the bound of an error takes


class Error(NamedTuple):
    """Error in a slot: a fixed part up to `offset`, and a random one of deviation `sigma`."""

    offset: float
    sigma: float

    @property
    def bits(self) -> float:
        """-log2 of the bound of both."""
        return -math.log2(self.offset + SIGMAS * self.sigma)


@lru_cache(maxsize=16)
def spread_of_leftovers(params: Any) -> float:
    """The error of all slots by those beyond the bound, relative to how large these are.

    The diagonals of SlotToCoeff are rounded; what is rounded to zero is not quite zero.
    """
    variance = 0.0
    for m, scale in _slot_to_coeff(chain_of(params)):
        variance += len(m.numbers) * (params.n / 12) / float(scale) ** 2
    return SIGMAS * math.sqrt(variance)


def _slot_to_coeff(chain: Chain) -> Iterator[tuple[Matrix, Fraction]]:
    return zip(products(chain)[0].matrices, chain.whole.slot_to_coeff, strict=True)


@lru_cache(maxsize=16)
def error_of(chain: Chain, is_complex: bool, is_typical: bool = False) -> Error:
    """The error that a run adds, relative to the bound of the messages.

    A quarter of all slots are raised without an overflow. There the noise of the sine counts most,
    and it is taken for all. With `is_typical` it is the rms over all slots.
    """
    above, n = chain.above, chain.params.n
    parts = 2 if is_complex else 1
    rounding = (1 + TAIL * 2 * n / 3) / 12  # variance in a coefficient
    slot = n * rounding  # and of the modulus in a slot
    lowest = float(chain.lowest) * above.bound
    variance = 3 * 2 * rounding / lowest**2
    _, up = products(chain)
    for m, scale in _slot_to_coeff(chain):
        # A slot of the product sums that many diagonals, each rounded; then slots are coefficients.
        variance += len(m.numbers) * (n / 12) / float(scale) ** 2
    spread = (WEIGHT + 1) / 12 * 4.0**above.ratio_bits  # variance of I, in units of the message
    for m, scale in zip(up.matrices, chain.coeff_to_slot, strict=True):
        variance += parts * len(m.numbers) * (n / 12) / float(scale) ** 2 * spread
    # Noise in y counts gains[0] times; each gain is that of one part.
    gains = amplifications(above.sine, WEIGHT, not is_typical)
    for gain, scale in zip(gains, _scales(chain), strict=True):
        variance += parts * slot * (gain / float(scale)) ** 2
    variance += parts * slot / (float(chain.params.scale(chain.user)) * above.bound) ** 2
    if chain.is_sparse and is_complex:  # the parts come together one level lower
        variance += 2 * parts * slot / (float(chain.params.scale(chain.end)) * above.bound) ** 2
    variance += parts * above.sine.scatter(is_typical) ** 2
    offset = above.sine.fixed_error * math.sqrt(parts)
    return Error(offset, math.sqrt(variance))


def magnified(chain: Chain, is_complex: bool) -> int:
    """log2 of the factor by which the error of a first run is bootstrapped by a second one."""
    return math.floor(error_of(chain, is_complex).bits - _SPARE)


def error_after(chain: Chain, is_complex: bool) -> Error:
    """The error of a whole bootstrap, of one run or two, relative to the bound."""
    one = error_of(chain, is_complex)
    if chain.runs == 1:
        return one
    smaller = 2.0 ** -magnified(chain, is_complex)
    n, scales = chain.params.n, (chain.params.scale(chain.result), chain.params.scale(1))
    slot = n * (1 + TAIL * 2 * n / 3) / 12  # of a drop to the floor, and of the last rescale
    rounding = sum(slot / (float(scale) * chain.above.bound) ** 2 for scale in scales)
    return Error(one.offset * smaller, math.hypot(one.sigma * smaller, math.sqrt(rounding)))


def _scales(chain: Chain) -> list[Fraction]:
    """The scale of y, then that at the end of each level of the sine but the last."""
    squares = [chain.scales[level] for level in range(chain.first, chain.user + DOUBLINGS, -1)]
    ends = [chain.ends[level] for level in range(chain.user + DOUBLINGS, chain.user, -1)]
    return [*squares, *ends]
