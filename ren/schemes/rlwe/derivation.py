"""Derive the randomness of each key from the secret, so that copies of one owner make equal keys.

A secret is drawn from 32 bytes of the operating system (or of a test's stream). The rest follows:

    master = SHA-256(label, parameters digest, coefficients of the secret).
    Seeds of a key = SHAKE-256(label of the key, master), 32 bytes at a time.

The first seed of a key is public and expands its uniform halves; the others give its noise.

Why this is sound: take both hashes for random oracles. Before an attacker asks for the hash of the
secret itself, all seeds are independent, uniform and unrelated to it. They are exactly as if they
were drawn. Asking for it is finding the secret, which has the 256 bits of entropy of its seed.
Blocks of one stream are independent, so public seeds tell nothing about seeds of noise. A label
names the key. Label, parameters and secret fix what the key encrypts: no two keys share a stream.

The number in the label is that of the derivation. It changes with anything that changes a key. Two
keys with the same uniform halves and different noise tell the difference of their noises.
"""

from __future__ import annotations

import hashlib

from ren.sampling import SeedStream
from ren.schemes.rlwe.keys import Entropy, Secret

# Never changed, or all keys change. The digest of the parameters separates schemes.
_MASTER = b"ren/ckks/keys/1/master/"
_KEY = b"ren/ckks/keys/1/"


def key_entropy(secret: Secret, params: bytes, label: bytes) -> Entropy:
    """The seeds of the key that `label` names, under the parameters of this digest."""
    return SeedStream(master_of(secret, params), _KEY + label)


def master_of(secret: Secret, params: bytes) -> bytes:
    """The seed of all keys of a secret: as secret as that."""
    return hashlib.sha256(_MASTER + params + secret.coefficients.tobytes()).digest()
