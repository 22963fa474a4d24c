"""Encryption with the secret or the public key, and decryption, as programs over polynomials."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ren.capture.placement import moved
from ren.capture.programs import Integers, replayed
from ren.core.errors import DomainError, TracedValueError
from ren.core.ring import RingSpec
from ren.lowering.devices.devices import is_host, is_tracer
from ren.lowering.runtime.host_arrays import centered
from ren.poly import Poly
from ren.poly.poly import realize_polys
from ren.poly.realization import check_addressable, has_placeholder, is_capturing
from ren.sampling import fresh_seed
from ren.schemes.rlwe.keychain import Keychain
from ren.schemes.rlwe.keys import (
    Entropy,
    PublicKey,
    Secret,
    expand_uniform,
    noise,
    noise_draws,
    small_ternary,
    ternary_draws,
)
from ren.schemes.rlwe.parameters import RlweParameters

_UNIFORM_HALF = b"ren/ckks/ciphertext/"  # never changed; the digest behind it separates schemes


def encrypt(
    message: Poly | Integers, keys: Keychain, params: RlweParameters, entropy: Entropy = fresh_seed
) -> tuple[tuple[Poly, Poly], bytes | None]:
    """Encrypt m with the secret where it is held, else with the public key.

    Args:
        message: m over the ring of its level, [*batch, limb, n]: encryption is a program. Of its
            coefficients encryption is computed when this returns.

    Returns:
        (c0, c1) with c0 + c1 s = m + noise, and the seed that c1 is expanded from, if it has one.
    """
    if keys.secret is not None:
        return encrypt_with_secret(message, keys.secret, params, entropy)
    return encrypt_with_public_key(message, keys.require_public(), params, entropy), None


def encrypt_with_secret(
    message: Poly | Integers, secret: Secret, params: RlweParameters, entropy: Entropy = fresh_seed
) -> tuple[tuple[Poly, Poly], bytes | None]:
    """(m + e - a s, a) with a expanded from the seed that is returned too; see `encrypt`.

    In a function that is being captured all of it is drawn anew at every replay. There is no seed.

    Noise: sigma 3.2 in each coefficient, sqrt(n) more in a CKKS slot: about 2^8.2 at n = 2^14.
    """
    ring, batch = message.ring, _batch_of(message)
    seed = None if is_capturing() else entropy()
    if seed is None:
        c1 = Poly.uniform(ring, batch=batch).ntt()
    else:
        c1 = uniform_half(seed, params.digest, ring, batch)
    if isinstance(message, Integers):  # noise is added before the transform
        drawn = message.values + noise_draws((*batch, ring.n), params.sigma, entropy)
        (c0,) = replayed(_with_secret, None, Integers(drawn, ring), c1, secret.poly)
    else:
        noisy = message.ntt() + noise(ring, params.sigma, entropy, batch).ntt()
        (c0,) = _with_secret(None, noisy, c1, secret.poly)
    return (c0, c1), seed


def _batch_of(message: Poly | Integers) -> tuple[int, ...]:
    return message.values.shape[:-1] if isinstance(message, Integers) else message.shape[:-2]


def _with_secret(_: None, noisy: Poly, c1: Poly, s: Poly) -> tuple[Poly]:
    return (noisy.ntt() - c1 * s.to_ring(c1.ring),)


def uniform_half(seed: bytes, digest: bytes, ring: RingSpec, batch: tuple[int, ...]) -> Poly:
    """The second polynomial of a ciphertext made with the secret key."""
    return expand_uniform(seed, _UNIFORM_HALF + digest, ring, batch)


def encrypt_with_public_key(
    message: Poly | Integers, key: PublicKey, params: RlweParameters, entropy: Entropy = fresh_seed
) -> tuple[Poly, Poly]:
    """m + round((b v + e0, a v + e1) / p), made over Q p for one special prime p; see `encrypt`.

    Dividing by p leaves the rounding error alone, about 2^11.4 in a CKKS slot at n = 2^14.
    """
    ring, batch, sigma = message.ring, _batch_of(message), params.sigma
    wide = ring.with_moduli((*ring.moduli, params.specials[0]))
    if isinstance(message, Integers):
        shape = (*batch, ring.n)
        v = Integers(ternary_draws(shape, entropy).astype(np.int64), wide)
        e0, e1 = (Integers(noise_draws(shape, sigma, entropy), wide) for _ in range(2))
        c0, c1 = replayed(_with_public_key, ring, message, v, e0, e1, key.b, key.a)
    else:
        v = small_ternary(wide, entropy, batch)
        e0, e1 = (noise(wide, sigma, entropy, batch) for _ in range(2))
        c0, c1 = _with_public_key(ring, message, v, e0, e1, key.b, key.a)
    return c0, c1


def _with_public_key(
    ring: RingSpec, message: Poly, v: Poly, e0: Poly, e1: Poly, b: Poly, a: Poly
) -> tuple[Poly, Poly]:
    v = v.ntt()
    c0, c1 = ((half.to_ring(v.ring) * v + e.ntt()).rescale(ring) for half, e in ((b, e0), (a, e1)))
    return message.ntt() + c0, c1


def decrypt_coefficients(polys: tuple[Poly, ...], secret: Secret) -> NDArray[np.float64]:
    """The centred coefficients of c0 + c1 s + ..: float64 [*batch, n]; see `decrypt`.

    Raises:
        DeviceError: other processes hold a part of the ciphertext alone.
    """
    check_addressable(*(p.node for p in polys))
    message = decrypt(polys, secret)
    return centered(message.limbs, message.ring.moduli)


def decrypt(polys: tuple[Poly, ...], secret: Secret) -> Poly:
    """c0 + c1 s + .. in the coefficient domain, computed at once, with the ciphertext itself.

    The time does not depend on the message: it takes one path for a ring, a batch and a device.

    Raises:
        TracedValueError: inside a captured or traced function, where there are no values.
    """
    nodes = [p.node for p in polys]
    polys = () if has_placeholder(*nodes) else tuple(realize_polys(polys))
    if not polys or any(is_tracer(p.limbs) for p in polys):
        raise TracedValueError(
            "decrypt() was called inside a function that is being captured or traced.",
            "There, ciphertexts are symbols without values.",
            "Return the ciphertext from the function and decrypt it outside.",
        )
    check_residues(polys)
    if any(is_host(p.limbs) for p in polys):  # of the python device: the secret is not there
        polys = tuple(moved(polys, secret.poly.device))
    (message,) = replayed(_messages, None, *polys, secret.poly)
    return message


def check_residues(polys: tuple[Poly, ...]) -> None:
    """Raises DomainError where arrays of realized polynomials are no residues.

    Sums of two residues, as `jax.tree.map` makes of leaves, are below twice the modulus. So far
    kernels reduce them.
    """
    for p in polys:
        largest = np.asarray(p.limbs).max(axis=-1)
        if (largest >= 2 * np.array(p.ring.moduli, np.uint32)).any():
            raise DomainError(
                "decrypt() got residues that are not below their moduli.",
                "Functions of jax.tree.map get them as arrays, and compute without the moduli.",
                "Compute with the ciphertexts themselves: x - y, 3 * x, batch.sum(axis=0).",
            )


def _messages(_: None, *given: Poly) -> tuple[Poly]:
    *polys, s = given
    s, message = s.to_ring(polys[0].ring), polys[-1]
    for c in reversed(polys[:-1]):
        message = c + message * s
    return (message.intt(),)
