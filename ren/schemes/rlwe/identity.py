"""Bind a `key_id` to the keys that it names: hashes of the public and the relinearization key.

Both keys depend on the secret, so only the owner can make them. A context that claims a `key_id`
shows the two hashes. Each of the two keys that it holds has to match its own. So another secret,
public key or relinearization key never stands under a `key_id` that exists.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property

import attrs
import numpy as np
from numpy.typing import NDArray

from ren.schemes.rlwe.keys import PublicKey, SwitchingKey

KEY_ID_BYTES = 16
_HASH_BYTES = 32
IDENTITY_BYTES = 2 * _HASH_BYTES
# Never changed, or all key_ids change. The digest of the parameters in a key_id separates schemes.
_KEY_ID, _PUBLIC, _RELINEARIZATION = (
    b"ren/ckks/key_id/1/" + kind for kind in (b"identity/", b"public/", b"relinearization/")
)


@attrs.frozen
class Identity:
    """Public name of one owner's keys under one set of parameters; hashable, a pytree's static.

    Args:
        params: the digest of the parameters, 32 bytes.
        public: SHA-256 of the public key, its seed and b.
        relinearization: SHA-256 of the relinearization key, its seed and b_j.
    """

    params: bytes
    public: bytes
    relinearization: bytes

    @cached_property
    def key_id(self) -> str:
        """32 hexadecimal digits: another owner's keys with the same ones cost 2^128 hashes."""
        hashed = hashlib.sha256(_KEY_ID + self.params + self.tobytes()).digest()
        return hashed[:KEY_ID_BYTES].hex()

    def tobytes(self) -> bytes:
        """Both hashes: 64 bytes."""
        return self.public + self.relinearization

    @classmethod
    def frombytes(cls, params: bytes, hashes: bytes) -> Identity:
        """The identity of `tobytes`, under the parameters of this digest."""
        return cls(params, hashes[:_HASH_BYTES], hashes[_HASH_BYTES:])


def identity_of(params: bytes, public: PublicKey, relinearization: SwitchingKey) -> Identity:
    """The identity of keys that are computed, under the parameters of this digest."""
    halves = [np.asarray(b_j.limbs) for b_j in relinearization.b]
    return Identity(
        params,
        public_hash(public.seed, np.asarray(public.b.limbs)),
        relinearization_hash(relinearization.seed, halves),
    )


def public_hash(seed: bytes, b: NDArray[np.uint32]) -> bytes:
    """SHA-256 of a public key: the seed of a, and b uint32 [limb, n] as bytes store it."""
    return _hash(_PUBLIC, seed, [b])


def relinearization_hash(seed: bytes, b: Sequence[NDArray[np.uint32]]) -> bytes:
    """SHA-256 of a relinearization key: the seed of all a_j, and each b_j uint32 [limb, n]."""
    return _hash(_RELINEARIZATION, seed, b)


def _hash(label: bytes, seed: bytes, halves: Sequence[NDArray[np.uint32]]) -> bytes:
    """The digest of the parameters, which the `key_id` covers, fixes the count and all sizes."""
    made = hashlib.sha256(label + seed)
    for half in halves:
        made.update(np.ascontiguousarray(half, "<u4").data)
    return made.digest()
