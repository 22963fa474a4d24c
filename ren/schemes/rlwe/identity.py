"""Bind a `key_id` to the keys that it names: hashes of the public and the relinearization key.

Both keys depend on the secret, so only the owner can make them. A context that claims a `key_id`
shows the two hashes. Each of the two keys that it holds has to match its own. So another secret,
public key or relinearization key never stands under a `key_id` that exists.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from ren.schemes.rlwe.keys import PublicKey, SwitchingKey

KEY_ID_BYTES = 16
_HASH_BYTES = 32
IDENTITY_BYTES = 2 * _HASH_BYTES
# Never changed, or all key_ids change. The digest of the parameters in a key_id separates schemes.
_KEY_ID = b"ren/ckks/key_id/1/"
PUBLIC, RELINEARIZATION = b"public", b"relinearization"


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
        hashed = hashlib.sha256(_KEY_ID + b"identity/" + self.params + self.tobytes()).digest()
        return hashed[:KEY_ID_BYTES].hex()

    def tobytes(self) -> bytes:
        """Both hashes: 64 bytes."""
        return self.public + self.relinearization

    @classmethod
    def frombytes(cls, params: bytes, hashes: bytes) -> Identity:
        """The identity of `tobytes`, under the parameters of this digest."""
        return cls(params, hashes[:_HASH_BYTES], hashes[_HASH_BYTES:])


@attrs.frozen
class SymbolicIdentity:
    """Identity of keys that are arguments of a captured function: a `key_id` alone."""

    key_id: Any


def identity_of(params: bytes, public: PublicKey, relinearization: SwitchingKey) -> Identity:
    """The identity of keys that are computed, under the parameters of this digest."""
    b, b_j = ([np.asarray(p.limbs) for p in key.halves] for key in (public, relinearization))
    return Identity(
        params,
        key_hash(PUBLIC, public.seed, b),
        key_hash(RELINEARIZATION, relinearization.seed, b_j),
    )


def key_hash(label: bytes, seed: bytes, b: Sequence[NDArray[np.uint32]]) -> bytes:
    """SHA-256 of a key: the seed of its halves a, and each b uint32 [limb, n] as bytes store it.

    The digest of the parameters, which the `key_id` covers, fixes the count and all sizes.
    """
    hashed = hashlib.sha256(_KEY_ID + label + b"/" + seed)
    for half in b:
        hashed.update(np.ascontiguousarray(half, "<u4").data)
    return hashed.digest()
