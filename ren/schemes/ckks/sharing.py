"""Decryptions that others may see: noise that hides the error, and a budget.

The error of a CKKS decryption depends on the secret key, so enough decryptions reveal the key
(IND-CPA-D). Gaussian noise of sigma = sqrt(12 queries) 2^(bits/2) |e|_2 in every real coordinate
hides errors of norm |e|_2 over the slots. `queries` decryptions together then give no attack an
advantage beyond 2^-bits or so. It is keyed by the ciphertext. A second decryption of the same one
repeats it, else averaging would remove it.

References: Li and Micciancio, "On the security of homomorphic encryption on approximate numbers",
2021; Li, Micciancio, Schultz and Sorrell, "Securing approximate homomorphic encryption using
differential privacy", 2022 (the Gaussian mechanism, and its sigma).
"""

from __future__ import annotations

import hashlib
import logging
import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ren.core.errors import ParameterError, SharingError, shown
from ren.schemes.ckks.encoding.ciphertext_data import CiphertextData
from ren.schemes.ckks.noise.bounds import SIGMAS
from ren.schemes.ckks.noise.decryption_budget import SharingTerms, ledger_of
from ren.schemes.ckks.noise.estimate import Estimate
from ren.schemes.ckks.noise.readable import is_known
from ren.schemes.ckks.noise.sigmas import power_above, secret_sigma
from ren.schemes.ckks.parameters.checks import SCALE_BITS, positive
from ren.schemes.rlwe.frame import limbs_of
from ren.schemes.rlwe.keys import Secret

_log = logging.getLogger("ren")
_GRID_BITS = 20  # results are rounded to sigma 2^-20: the last bits of a float would tell of both


def hidden(
    x: CiphertextData, slots: NDArray[np.complex128], plan: Any, terms: SharingTerms, secret: Secret
) -> NDArray[np.complex128]:
    """The decrypted slots of `x` with noise that hides the error of the plan, once it is admitted.

    Raises:
        ParameterError: a plan whose error is below that of any ciphertext of these parameters.
        SharingError: more than the budget, other terms than before, or more noise than is accepted.
    """
    norm = error_norm(plan, x.slots)
    least = secret_sigma(x.params, x.level)  # each rescale adds more than an encryption does
    if x.own_scale is None and norm < 0.5 * least * math.sqrt(x.slots):
        raise ParameterError(
            f"decrypt_shared() got a plan whose error is about {norm / math.sqrt(x.slots):.1e}.",
            f"Under these parameters each ciphertext has an error of about {least:.1e} or more.",
            "Run the function on ciphertexts of this context, and pass f(x).estimate.",
        )
    sigma = terms.sigma(norm)
    # An error, since what is shared is spent. It depends on numbers where terms.noise is None: the
    # caller sees them anyway.
    largest = float(np.abs(x.layout.unpacked(slots)).max())
    if sigma >= (terms.noise or largest):
        bits = x.params.scale_bits + terms.lacking_bits(sigma, largest)
        bar = f"{terms.noise:.3g}" if terms.noise else "any of them"
        scale = f"About scale_bits={bits}" if bits in SCALE_BITS else "No scale_bits"
        raise SharingError(
            f"decrypt_shared() would add noise of {sigma:.2g} to numbers up to "
            f"{power_above(largest)}.",
            f"That deviation is not below {bar}; nothing was shared or "
            f"spent. {scale} would do: the noise falls as it rises, but for approximations.",
            f"Let ren.plan(f, ..., shared={terms.queries}) choose the scale. Or take fewer queries "
            f"or statistical_bits, or accept the noise by noise={2 * sigma:.1g}.",
        )
    ledger, digest = ledger_of(secret), digest_of(x)
    spent = ledger.admit(digest, math.prod(slots.shape[:-1]), sigma, terms)
    counted = ", counting on from the bytes that were loaded" if ledger.is_loaded else ""
    _log.info(
        "decrypt_shared: about %.1f bits left after the point; %d of %d ciphertexts shared%s",
        -math.log2(sigma), spent, terms.queries, counted,
    )  # fmt: skip
    return on_grid(slots + ledger.noise(digest, sigma, slots.shape), sigma)


def raise_scale(
    results: Iterable[CiphertextData], terms: SharingTerms, wishes: dict[str, Any]
) -> bool:
    """Raise the scale of `wishes` where noise of shared results is not useful; whether it was.

    A larger scale may take a larger degree, which has more noise. So each scale is planned.

    Raises:
        ParameterError: no scale makes it useful, or the error of a result is unknown.
    """
    bits, most, lacking = wishes["scale_bits"], SCALE_BITS[-1], 0
    for x in results:
        more = most
        if is_known(x.noise) and math.isfinite((told := x.estimate).error_bound):
            more = terms.lacking_bits(terms.sigma(error_norm(told, x.slots)), told.message_bound)
        lacking = max(lacking, more)
    if lacking and bits == most:
        raise ParameterError(
            f"ren.plan() got shared={terms.queries}: no scale makes the noise useful.",
            f"At scale_bits={bits} it is 2^{lacking} above that. It hides errors: those of "
            "approximations stay as they are, and those of what loops carry are unknown.",
            "Choose fewer queries, more precise functions, or a larger noise=.",
        )
    wishes["scale_bits"] = min(bits + lacking, most)
    return lacking > 0


def digest_of(x: CiphertextData) -> bytes:
    """SHA-256 of what is decrypted; what others can change freely does not enter."""
    text = f"{x.key_id} {x.level} ".encode() + x.params.digest
    return hashlib.sha256(text + b"".join(a.tobytes() for a in limbs_of(*x.polys))).digest()


def error_norm(plan: Any, slots: int) -> float:
    """A bound of the norm over `slots` complex slots of the error of a plan.

    The norm of the random part concentrates around sqrt(slots V); it is below
    sqrt(V) (sqrt(slots) + 6.5), as one slot is below 6.5 sqrt(V).
    """
    root = math.sqrt(slots)
    if isinstance(plan, Estimate) and math.isfinite(plan.error_bound):
        decoding = plan.error_bound - plan.offset - SIGMAS * math.sqrt(plan.variance)
        return (plan.offset + max(decoding, 0)) * root + math.sqrt(plan.variance) * (root + SIGMAS)
    if (bound := positive(plan)) is not None:
        return bound * root
    told = str(plan) if isinstance(plan, Estimate) else shown(plan)
    raise ParameterError(
        f"decrypt_shared() got the plan {told}.",
        "It is your own bound of the error: an Estimate, or a number that bounds it in every slot.",
        "Run the function on your own ciphertexts and pass f(x).estimate: nothing is computed.",
    )


def on_grid(z: NDArray[np.complex128], sigma: float) -> NDArray[np.complex128]:
    """Both parts rounded to a multiple of a power of two far below sigma."""
    grid = 2.0 ** (math.floor(math.log2(sigma)) - _GRID_BITS)
    result = np.empty_like(z)
    result.real, result.imag = np.rint(z.real / grid) * grid, np.rint(z.imag / grid) * grid
    return result
