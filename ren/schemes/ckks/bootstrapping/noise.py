"""The noise estimate of a bootstrap: see `parameters.bootstrapping.precision` for its parts."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from ren.poly.batching import chosen
from ren.poly.symbolic import derived, is_sampling
from ren.schemes.ckks.noise import bounds as noises
from ren.schemes.ckks.noise.range_checks import TOLERANCE, report
from ren.schemes.ckks.noise.readable import Noise, on_host
from ren.schemes.ckks.parameters.bootstrapping.chain import Chain
from ren.schemes.ckks.parameters.bootstrapping.precision import Error, error_after

_SLACK = 17 / 16  # times the bound: what an approximation of numbers up to it may reach
_REACHES = (_SLACK, 2, 4)  # likewise, beyond it; the polynomial of the sine is fitted so far


def noise_after(a: Noise, chain: Chain, is_complex: bool, is_asked: bool = True) -> Noise:
    """Noise after a bootstrap: that of the message, and what the bootstrap adds.

    A tracked bound beyond that of the parameters is reported, with the bits that are left. From
    four times it on the error is unknown. Of one run a sixteenth beyond it is not reported. There
    the sine is a little less exact, and that is counted. Nor is what leaves as many bits as the
    parameters promise, of a bootstrap that was inserted.
    """
    bound, error = chain.above.bound, error_after(chain, is_complex)
    one = math.sqrt(2 if is_complex else 1)
    # Beyond the bound a second run has no error that it can take away.
    offsets = [error.offset, *(chain.above.sine.error_within(k) * one for k in _REACHES)]
    limits = tuple(bound * k * TOLERANCE for k in (1, *_REACHES))
    bits = tuple(Error(o, error.sigma).bits for o in offsets[1:])
    told = partial(_told, chain, bits, is_asked)
    rule = partial(_with_offset, limits, tuple(bound * o for o in offsets), told)
    # The slope of the sine is within a millionth of 1: what comes in is carried over.
    return noises.with_source(derived(rule, on_host(a)), error.sigma * bound)


def _with_offset(
    limits: tuple[float, ...], offsets: tuple[float, ...], told: object, a: Noise
) -> Noise:
    bound = a[..., :1]
    if isinstance(a, np.ndarray) and not is_sampling() and (bound > limits[0]).any():
        told(float(bound.max()))  # type: ignore[operator]
    made = a * np.float32(np.nan)
    for limit, offset in zip(reversed(limits), reversed(offsets), strict=True):
        made = chosen(bound > limit, made, noises.with_offset(a, offset))
    return made


def _told(chain: Chain, bits: tuple[float, ...], is_asked: bool, largest: float) -> None:
    bound = chain.above.bound
    if chain.runs == 1 and largest <= bound * _SLACK * TOLERANCE:
        return
    reach = next((i for i, k in enumerate(_REACHES) if largest <= bound * k * TOLERANCE), None)
    if reach is not None and bits[reach] >= chain.above.precision and not is_asked:
        return
    left = (
        "and the result is far off"
        if reach is None
        else f"and about {bits[reach]:.1f} bits are right"
    )
    report(
        f"bootstrap(): the numbers may reach {largest:.4g}; bootstrapping was made for |x| <= "
        f"{bound:g}, {left}.",
        chain.params,
        "State a bound that you know, x.within(bound), or make the context with another "
        "bound=: ckks.context(bootstrapping=True, bound=...).",
    )
