"""Parameters that keys, key switching and encryption read: the Protocol that each scheme meets."""

from __future__ import annotations

from typing import Protocol


class RlweParameters(Protocol):
    """Moduli, digits and noise of a ring-LWE scheme; a hashable value that never changes.

    Messages, levels and scales belong to the scheme and are not here. Secrets are uniform ternary.
    """

    @property
    def n(self) -> int:
        """Degree of the ring, a power of two."""
        ...

    @property
    def digits(self) -> tuple[tuple[int, ...], ...]:
        """Digits of key switching: disjoint tuples of primes, each = 1 (mod 2n) and below 2^30.

        Joined, in order, they are the basis of the largest ciphertext ring.
        """
        ...

    @property
    def specials(self) -> tuple[int, ...]:
        """Special primes, at least one; each key has limbs for them, and P is their product.

        The first also serves encryption with the public key.
        """
        ...

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise of keys and encryptions, in units of a coefficient."""
        ...

    @property
    def digest(self) -> bytes:
        """SHA-256 of the scheme's name and of all that fixes the meaning of its keys: 32 bytes.

        It separates the streams of keys and seeds of different parameters and schemes.
        """
        ...
