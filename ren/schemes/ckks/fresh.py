"""Fresh ciphertexts: what encryption makes of values, with the key that is held."""

from __future__ import annotations

from typing import Any

from ren.capturing import is_capturing
from ren.poly import Poly
from ren.sampling import fresh_seed
from ren.schemes.ckks import encoder, encryption, plaintext
from ren.schemes.ckks.keychain import Keychain
from ren.schemes.ckks.parameters import Parameters
from ren.schemes.ckks.plaintext import Encoded, Plaintext
from ren.schemes.rlwe.keys import Entropy
from ren.symbolic import as_symbol

Polys = tuple[tuple[Poly, Poly], bytes | None]


def encrypted(
    values: Any, level: int, keys: Keychain, params: Parameters, entropy: Entropy = fresh_seed
) -> tuple[tuple[Poly, Poly], bytes | None, Plaintext | Encoded]:
    """Both polynomials, the seed of the second if it has one, and what was encoded.

    They are computed at once. In a function that is being captured, and for coefficients beyond 64
    bits, they are programs.
    """
    if is_capturing() or as_symbol(values) is not None:
        p = plaintext.encode(values, params, level)
        return *_of_poly(p.poly, keys, params, entropy), p
    given, ring = plaintext.encoded(values, params, level), params.ring(level)
    integers = encoder.as_integers(given.coefficients)
    if integers is None:
        message = plaintext.poly_of(given.coefficients, ring).ntt()
        return *_of_poly(message, keys, params, entropy), given
    if keys.secret is not None:
        made = encryption.encrypt_integers(integers, ring, keys.secret, params, entropy)
        return *made, given
    public = keys.require_public()
    polys = encryption.encrypt_integers_with_public_key(integers, ring, public, params, entropy)
    return polys, None, given


def _of_poly(message: Poly, keys: Keychain, params: Parameters, entropy: Entropy) -> Polys:
    if keys.secret is not None:
        return encryption.encrypt_with_secret(message, keys.secret, params, entropy)
    public = keys.require_public()
    return encryption.encrypt_with_public_key(message, public, params, entropy), None
