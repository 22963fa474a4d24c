"""Encryption with the secret or the public key, and decryption, as programs over polynomials."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ren.capturing import is_capturing
from ren.core.errors import TracedValueError
from ren.core.ring import RingSpec
from ren.lowering.devices import is_tracer
from ren.poly import Poly
from ren.realization import has_placeholder
from ren.residues import plain
from ren.sampling import fresh_seed
from ren.schemes.ckks.encoder import centered_floats
from ren.schemes.ckks.parameters import Parameters
from ren.schemes.rlwe.keys import (
    Entropy,
    PublicKey,
    Secret,
    expand_uniform,
    noise,
    small_ternary,
)

_UNIFORM_HALF = b"ren/ckks/ciphertext/"


def encrypt_with_secret(
    message: Poly, secret: Secret, params: Parameters, entropy: Entropy = fresh_seed
) -> tuple[tuple[Poly, Poly], bytes | None]:
    """(m + e - a s, a) with a expanded from the seed that is returned too.

    In a function that is being captured all of it is drawn anew at every replay, and there is no
    seed.

    Args:
        message: m over the ring of its level, [*batch, limb, n].
        secret: over the key ring, of which that ring is a part.
        params: their digest separates the seeds of different ones.

    Noise: sigma 3.2 in each coefficient, sqrt(n) more in a slot: about 2^8.2 at n = 2^14.
    """
    ring, batch = message.ring, message.shape[:-2]
    seed = None if is_capturing() else entropy()
    if seed is None:
        c1 = Poly.uniform(ring, batch=batch).ntt()
    else:
        c1 = uniform_half(seed, params.digest, ring, batch)
    c0 = message + noise(ring, params.sigma, entropy, batch).ntt() - c1 * secret.poly.to_ring(ring)
    return (c0, c1), seed


def uniform_half(seed: bytes, digest: bytes, ring: RingSpec, batch: tuple[int, ...]) -> Poly:
    """The second polynomial of a ciphertext made with the secret key."""
    return expand_uniform(seed, _UNIFORM_HALF + digest, ring, batch)


def encrypt_with_public_key(
    message: Poly, key: PublicKey, params: Parameters, entropy: Entropy = fresh_seed
) -> tuple[Poly, Poly]:
    """m + round((b v + e0, a v + e1) / p), made over Q p for one special prime p.

    Dividing by p leaves the rounding error alone, about 2^11.4 in a slot at n = 2^14.
    """
    ring, batch = message.ring, message.shape[:-2]
    wide = ring.with_moduli((*ring.moduli, params.specials[0]))
    v = small_ternary(wide, entropy, batch).ntt()
    c0, c1 = (
        (half.to_ring(wide) * v + noise(wide, params.sigma, entropy, batch).ntt()).rescale(ring)
        for half in (key.b, key.a)
    )
    return message + c0, c1


def decrypt_coefficients(polys: tuple[Poly, ...], secret: Secret) -> NDArray[np.float64]:
    """The centred coefficients of c0 + c1 s + ..: float64 [*batch, n].

    Raises:
        TracedValueError: inside a captured or traced function, where there are no values.
    """
    ring = polys[0].ring
    s, message = secret.poly.to_ring(ring), polys[-1]
    for c in reversed(polys[:-1]):
        message = c + message * s
    message = message.intt()
    if has_placeholder(message.node):
        _refuse()
    limbs = message.limbs
    if is_tracer(limbs):
        _refuse()
    return centered_floats(plain(np.asarray(limbs), ring.moduli), ring.moduli)


def _refuse() -> None:
    raise TracedValueError(
        "decrypt() was called inside a function that is being captured or traced.",
        "There, ciphertexts are symbols without values.",
        "Return the ciphertext from the function and decrypt it outside.",
    )
