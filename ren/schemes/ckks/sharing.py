"""Decryptions that others may see: noise that hides the error, and a budget.

The error of a CKKS decryption depends on the secret key, so whoever sees enough of them learns it
(IND-CPA-D). Gaussian noise of sigma = sqrt(12 queries) 2^(bits/2) |e|_2 in every real coordinate
hides errors of norm |e|_2 over the slots so well that `queries` decryptions together give no attack
an advantage beyond 2^-bits or so. It is keyed by the ciphertext: a second decryption of the same
one repeats it, else averaging would remove it.

References: Li and Micciancio, "On the security of homomorphic encryption on approximate numbers",
2021; Li, Micciancio, Schultz and Sorrell, "Securing approximate homomorphic encryption using
differential privacy", 2022 (the Gaussian mechanism, and its sigma).
"""

from __future__ import annotations

import hashlib
import math
import threading
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
from numpy.typing import NDArray

from ren.core.errors import ParameterError, SharingError
from ren.sampling import Xof, fresh_seed
from ren.schemes.ckks.estimate import Estimate
from ren.schemes.ckks.noise import SIGMAS
from ren.schemes.ckks.serialization import ciphertext_limbs

if TYPE_CHECKING:
    from ren.schemes.ckks.ciphertext import Ciphertext

_DOMAIN = b"ren/ckks/shared/"
_GRID_BITS = 20  # results are rounded to sigma 2^-20: the last bits of a float would tell of both
_BITS = range(10, 129)


@attrs.frozen
class Terms:
    """What decryptions of one context are shared on: fixed by the first of them.

    Args:
        statistical_bits: log2 of the advantage that is left to an attack, negative.
        queries: how many ciphertexts are decrypted in all.
    """

    statistical_bits: int
    queries: int

    def __attrs_post_init__(self) -> None:
        if self.statistical_bits not in _BITS or not (
            isinstance(self.queries, int) and self.queries > 0
        ):
            raise ParameterError(
                f"decrypt_shared() got statistical_bits={self.statistical_bits!r}, "
                f"queries={self.queries!r}.",
                f"The bits are an integer from {_BITS[0]} to {_BITS[-1]}, queries one from 1 on.",
                "Write for example decrypt_shared(x, plan, queries=10).",
            )

    def sigma(self, norm: float) -> float:
        """The noise that hides errors of that norm over the slots."""
        return math.sqrt(12 * self.queries) * 2.0 ** (self.statistical_bits / 2) * norm


class Ledger:
    """What one context has shared: the key of the noise, and what is spent. Lives in memory."""

    def __init__(self) -> None:
        self._key = fresh_seed()
        self._terms: Terms | None = None
        self._sigmas: dict[bytes, float] = {}
        self._spent = 0
        self._lock = threading.Lock()

    def admit(self, digest: bytes, count: int, sigma: float, terms: Terms) -> int:
        """Enters the decryption of `count` ciphertexts; returns how many that makes.

        Raises:
            SharingError: over the budget, or on other terms than before.
        """
        with self._lock:
            if self._terms not in (None, terms):
                raise SharingError(
                    f"decrypt_shared() was called with {terms}.",
                    f"What this context shared so far was on {self._terms}, and noise for other "
                    "terms does not hide both.",
                    "Keep to them, or encrypt under a new context.",
                )
            if self._sigmas.get(digest, sigma) != sigma:
                raise SharingError(
                    "decrypt_shared() was called again for one ciphertext, with another plan.",
                    "Two noises on one error show more of it than one.",
                    "Pass the same plan, or use the first result.",
                )
            if digest not in self._sigmas:
                if self._spent + count > terms.queries:
                    raise SharingError(
                        f"decrypt_shared() was asked of {count} more ciphertexts after "
                        f"{self._spent} of {terms.queries}.",
                        "More would tell others about the secret key.",
                        "Encrypt under a new context, with the number of queries that you need.",
                    )
                self._terms = terms
                self._sigmas[digest] = sigma
                self._spent += count
            return self._spent

    def noise(self, digest: bytes, shape: tuple[int, ...]) -> NDArray[np.complex128]:
        """Complex normal draws, of variance 1 in each part; the same for the same digest."""
        return normal(Xof(self._key, _DOMAIN + digest), shape)


def digest_of(x: Ciphertext) -> bytes:
    """SHA-256 of what is decrypted; what others can change freely does not enter."""
    text = f"{x.key_id} {x.level} ".encode() + x.params.digest
    return hashlib.sha256(text + b"".join(a.tobytes() for a in ciphertext_limbs(x))).digest()


def error_norm(plan: Any, slots: int) -> float:
    """A bound of the norm over `slots` complex slots of the error of a plan.

    The norm of the random part concentrates around sqrt(slots V); it is below
    sqrt(V) (sqrt(slots) + 6.5), as one slot is below 6.5 sqrt(V).

    Raises:
        ParameterError: `plan` is neither an `Estimate` that is known nor a positive number.
    """
    root = math.sqrt(slots)
    if isinstance(plan, Estimate) and not math.isnan(plan.error_bound):
        decoding = plan.error_bound - plan.offset - SIGMAS * math.sqrt(plan.variance)
        return (plan.offset + max(decoding, 0)) * root + math.sqrt(plan.variance) * (root + SIGMAS)
    if isinstance(plan, float | int) and 0 < plan < math.inf:
        return plan * root
    raise ParameterError(
        f"decrypt_shared() got the plan {plan!s:.60}.",
        "It is your own bound of the error: an Estimate, or a number that bounds it in every slot.",
        "Run the function on your own ciphertexts and pass f(x).estimate: nothing is computed.",
    )


def normal(xof: Xof, shape: tuple[int, ...]) -> NDArray[np.complex128]:
    """Complex numbers of independent normal parts, by the method of Box and Muller."""
    words = np.frombuffer(xof.read(16 * math.prod(shape)), "<u8").reshape(2, *shape)
    unit = ((words >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    return np.sqrt(-2 * np.log(unit[0])) * np.exp(2j * np.pi * unit[1])


def on_grid(z: NDArray[np.complex128], sigma: float) -> NDArray[np.complex128]:
    """Both parts rounded to a multiple of a power of two far below sigma."""
    grid = 2.0 ** (math.floor(math.log2(sigma)) - _GRID_BITS)
    made = np.empty_like(z)
    made.real, made.imag = np.rint(z.real / grid) * grid, np.rint(z.imag / grid) * grid
    return made
