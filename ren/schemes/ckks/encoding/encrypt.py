"""Fresh ciphertexts: what encryption makes of values, with the key that is held."""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any

from numpy.typing import NDArray

from ren.poly import Poly
from ren.poly.capturing import is_capturing
from ren.poly.symbolic import as_symbol
from ren.sampling import fresh_seed
from ren.schemes.ckks.encoding import encoder, plaintext
from ren.schemes.ckks.encoding.layout import Layout
from ren.schemes.ckks.parameters.parameters import Parameters
from ren.schemes.rlwe import encryption
from ren.schemes.rlwe.keychain import Keychain
from ren.schemes.rlwe.keys import Entropy

# Declared state: counts the encryptions of this process. Places of noise follow from it, and from
# nothing that is encrypted.
serials = itertools.count()


def encrypted(
    values: Any, level: int, keys: Keychain, params: Parameters, entropy: Entropy = fresh_seed
) -> tuple[tuple[Poly, Poly], bytes | None, Layout, Any]:
    """Both polynomials, the seed of the second if it has one, the layout, and the slots.

    They are computed at once. In a function that is being captured, and for coefficients beyond 64
    bits, they are programs.
    """
    if is_capturing() or as_symbol(values) is not None:
        p = plaintext.encode(values, params, level)
        symbol = as_symbol(values)
        slots = (
            _slots(values, params) if symbol is None else symbol.map(partial(_slots, params=params))
        )
        return *encryption.encrypt(p.poly, keys, params, entropy), p.layout, slots
    encoded, ring = plaintext.encoded(values, params, level), params.ring(level)
    integers = encoder.as_integers(encoded.coefficients)
    if integers is None:
        message = plaintext.poly_of(encoded.coefficients, ring).ntt()
        return *encryption.encrypt(message, keys, params, entropy), encoded.layout, encoded.values
    result = encryption.encrypt_at_once(integers, ring, keys, params, entropy)
    return *result, encoded.layout, encoded.values


def _slots(values: Any, params: Parameters) -> NDArray:
    return plaintext.as_slots(values, params.slots)[0]
