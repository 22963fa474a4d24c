"""Budget of `decrypt_shared` for one secret: results shared so far, and their noise.

A process has one ledger for each secret, whichever contexts hold it. It is saved with the secret,
so that the budget continues and one ciphertext always gives one result. Its name is a hash of the
secret (`ledger_name`), never the `key_id`, which is public. Copies of the saved bytes, children of
a fork and other processes count separately. Share in one place, and save the context afterwards.
"""

from __future__ import annotations

import hashlib
import math
import struct
import threading

import attrs
import numpy as np
from numpy.typing import NDArray

from ren.core.errors import ParameterError, SharingError, shown
from ren.sampling import Xof, fresh_seed
from ren.schemes.ckks.parameters.checks import as_python_int, positive
from ren.schemes.rlwe.keys import Secret

_DOMAIN = b"ren/ckks/shared/"
_LEDGER = b"ren/ckks/ledger/1/"
MOST_QUERIES = 1 << 53
BITS = range(10, 129)
USEFUL = 2.0**-10


@attrs.frozen
class SharingTerms:
    """Terms on which decryptions under one secret are shared, fixed by the first of them.

    Args:
        statistical_bits: -log2 of the advantage that is left to an attack.
        queries: how many ciphertexts are decrypted in all.
        noise: the standard deviation of the noise that is accepted, of one call; None where what is
            decrypted decides.
    """

    statistical_bits: int = attrs.field(converter=as_python_int)
    queries: int = attrs.field(converter=as_python_int)
    noise: float | None = attrs.field(default=None, kw_only=True, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        is_count = type(self.queries) is int and 0 < self.queries <= MOST_QUERIES
        is_accepted = self.noise is None or positive(self.noise) is not None
        if self.statistical_bits not in BITS or not is_count or not is_accepted:
            raise ParameterError(
                f"Shared decryptions got statistical_bits={shown(self.statistical_bits)}, "
                f"queries={shown(self.queries)}, noise={shown(self.noise)}.",
                f"The bits are an integer from {BITS[0]} to {BITS[-1]}, queries one from 1 on, up "
                "to 2^53. The noise is a number above 0, or None.",
                "Write for example decrypt_shared(x, plan, queries=10).",
            )

    def sigma(self, norm: float) -> float:
        """Standard deviation of the noise that hides errors of that norm over the slots."""
        return math.sqrt(12 * self.queries) * 2.0 ** (self.statistical_bits / 2) * norm

    def lacking_bits(self, sigma: float, largest: float) -> int:
        """Bits that the scale lacks for useful noise: the noise falls as the scale rises.

        Useful is noise up to `noise`, or that leaves three digits of numbers up to `largest`.
        """
        return math.ceil(math.log2(sigma / max(self.noise or USEFUL * largest, 1e-300)))


@attrs.frozen
class LedgerEntry:
    """A shared decryption: the digest of what was decrypted, sigma, the count of ciphertexts."""

    digest: bytes
    sigma: float
    count: int


@attrs.frozen
class SavedLedger:
    """A ledger as it is saved: the key of the noise, the terms, and the decryptions shared."""

    key: bytes
    terms: SharingTerms | None = None
    entries: tuple[LedgerEntry, ...] = ()


class Ledger:
    """Ledger of one secret: the key of the noise, and the decryptions shared so far."""

    def __init__(self, saved: SavedLedger | None = None) -> None:
        saved = saved or SavedLedger(fresh_seed())
        self._key, self._terms = saved.key, saved.terms
        self._entries = {entry.digest: entry for entry in saved.entries}
        self.is_loaded = bool(saved.entries)
        self._lock = threading.Lock()

    @property
    def saved(self) -> SavedLedger:
        """The ledger as it is now."""
        with self._lock:
            return SavedLedger(self._key, self._terms, tuple(self._entries.values()))

    def merge(self, saved: SavedLedger) -> None:
        """Add the entries of another copy of the ledger."""
        with self._lock:
            self._terms = self._terms or saved.terms
            self._entries = {e.digest: e for e in saved.entries} | self._entries

    def admit(self, digest: bytes, count: int, sigma: float, terms: SharingTerms) -> int:
        """Enter the decryption of `count` ciphertexts; return how many that makes in all.

        Raises:
            SharingError: over the budget, or on other terms than before.
        """
        with self._lock:
            if self._terms not in (None, terms):
                raise SharingError(
                    f"decrypt_shared() was called with {terms}.",
                    f"What was shared so far under this key was on {self._terms}, and noise for "
                    "other terms does not hide both.",
                    "Keep to them, or encrypt under a new context.",
                )
            entry = self._entries.get(digest)
            spent = sum(entry.count for entry in self._entries.values())
            if entry is None:
                if spent + count > terms.queries:
                    raise SharingError(
                        f"decrypt_shared() was asked of {count} more ciphertexts after "
                        f"{spent} of {terms.queries}.",
                        "More would tell others about the secret key.",
                        "Encrypt under a new context, with the number of queries that you need.",
                    )
                self._terms = terms
                self._entries[digest] = LedgerEntry(digest, sigma, count)
                return spent + count
            if entry.sigma != sigma:
                raise SharingError(
                    "decrypt_shared() was called again for one ciphertext, with another plan.",
                    "Two noises on one error show more of it than one.",
                    "Pass the same plan, or use the first result.",
                )
            return spent

    def noise(self, digest: bytes, sigma: float, shape: tuple[int, ...]) -> NDArray[np.complex128]:
        """Complex normal draws of deviation `sigma` in each part, by the method of Box and Muller.

        One digest and sigma always give the same draws. Draws for two sigmas, as separate copies
        of a ledger may need them, are independent. Scaled copies of one draw would reveal the
        message.
        """
        xof = Xof(self._key, _DOMAIN + digest + struct.pack("<d", sigma))
        words = np.frombuffer(xof.read(16 * math.prod(shape)), "<u8").reshape(2, *shape)
        unit = ((words >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
        return sigma * (np.sqrt(-2 * np.log(unit[0])) * np.exp(2j * np.pi * unit[1]))


# Declared state: the ledger of each secret of which this process shared, saved or loaded one.
_ledgers: dict[bytes, Ledger] = {}
_lock = threading.Lock()


def ledger_name(secret: Secret) -> bytes:
    """Name of the ledger of a secret in this process; never stored."""
    return hashlib.sha256(_LEDGER + secret.coefficients.tobytes()).digest()


def ledger_of(secret: Secret, saved: SavedLedger | None = None) -> Ledger:
    """The ledger of a secret in this process; `saved` is continued, or added to the live one."""
    name = ledger_name(secret)
    with _lock:
        if name not in _ledgers:
            _ledgers[name] = Ledger(saved)
        elif saved is not None:
            _ledgers[name].merge(saved)
        return _ledgers[name]
