"""Keychains as fields and arrays of a frame, and back with every key checked.

Keys are stored as the seed of their uniform halves and the limbs of their halves b. Seeds are
expanded once all else has passed; then an owner's keys are checked against its secret.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ren.core.ring import Domain
from ren.schemes.rlwe.frame import Reader, damaged, limbs_of
from ren.schemes.rlwe.gadget import gadget_of
from ren.schemes.rlwe.identity import (
    IDENTITY_BYTES,
    Identity,
    public_hash,
    relinearization_hash,
)
from ren.schemes.rlwe.keychain import (
    RELINEARIZATION,
    Keychain,
    galois_label,
    keychain_of_secret,
    switch_label,
)
from ren.schemes.rlwe.keys import (
    PublicKey,
    SwitchingKey,
    expand_public_half,
    expand_switching_halves,
    from_residues,
)
from ren.schemes.rlwe.ownership import foreign_key
from ren.schemes.rlwe.parameters import RlweParameters

_NOT_ITS_KEYS = "the keys are not those of its key_id"


def keychain_header(keys: Keychain) -> dict[str, Any]:
    """Header fields of a keychain: its identity, and the seeds of the keys that it holds."""
    return {
        "key_id": keys.key_id,
        "identity": keys.identity.tobytes().hex(),
        "secret": int(keys.secret is not None),
        "public": keys.public.seed.hex() if keys.public else None,
        "relinearization": keys.relinearization.seed.hex() if keys.relinearization else None,
        "galois": [[g, key.seed.hex()] for g, key in sorted(keys.galois.items())],
        "switches": [[to, key.seed.hex()] for to, key in sorted(keys.switches.items())],
    }


def keychain_arrays(keys: Keychain) -> list[NDArray]:
    """Halves b of all keys, in the order of `read_keychain`; the secret is not among them."""
    arrays: list[NDArray] = []
    if keys.public is not None:
        arrays += limbs_of(keys.public.b)
    if keys.relinearization is not None:
        arrays += limbs_of(*keys.relinearization.b)
    for held in (keys.galois, keys.switches):
        for _, key in sorted(held.items()):
            arrays += limbs_of(*key.b)
    return arrays


def read_keychain(
    reader: Reader, params: RlweParameters, identity: Identity, secret: NDArray[np.int8] | None
) -> Keychain:
    """The keychain that `keychain_header` and `keychain_arrays` wrote; the frame ends with it.

    Galois and switching keys without a secret are not checked against the identity: see
    `active_context.admission`.

    Args:
        identity: as `read_identity` gives it.
        secret: as `read_secret` gives it, None where the frame holds none.

    Raises:
        SerializationError: damaged bytes, or keys that are not those of the `key_id`.
    """
    public = _public(reader, params, reader.field("public"), identity)
    relinearization = _relinearization(reader, params, identity)
    galois = _switching_keys(reader, params, "galois", _galois_label)
    switches = _switching_keys(reader, params, "switches", _switch_label)
    reader.finish()
    if secret is not None and (public is None or relinearization is None):
        raise damaged(reader.kind, "the keys that its key_id is made of are missing")
    held: dict[str, Any] = {
        "public": public and public(),
        "relinearization": relinearization and relinearization(),
        "galois": {g: expanded() for g, expanded in galois.items()},
        "switches": {to: expanded() for to, expanded in switches.items()},
    }
    if secret is None:
        return Keychain(identity, **held)
    keys = keychain_of_secret(identity, secret, params, **held)
    if label := foreign_key(keys.require_secret(), keys, params):
        raise damaged(reader.kind, f"{_NOT_ITS_KEYS}: the key {label} is not of its secret")
    return keys


def read_identity(reader: Reader) -> Identity:
    """The hashes of the owner's keys, whose hash the `key_id` is."""
    identity = Identity.frombytes(reader.digest, reader.hexadecimal("identity", IDENTITY_BYTES))
    if reader.key_id() != identity.key_id:
        raise damaged(reader.kind, _NOT_ITS_KEYS)
    return identity


def read_secret(reader: Reader, params: RlweParameters) -> NDArray[np.int8]:
    """The ternary coefficients int8 [n] of a secret: the next array."""
    coefficients = reader.array((params.n,), "<i1").astype(np.int8)
    if np.any(np.abs(coefficients) > 1):
        raise damaged(reader.kind, "the secret is not ternary")
    return coefficients


def _public(
    reader: Reader, params: RlweParameters, held: Any, identity: Identity
) -> Callable[[], PublicKey] | None:
    if held is None:
        return None
    ring, seed = gadget_of(params).public_ring, reader.seed(held)
    b = reader.residues(ring)
    if public_hash(seed, b) != identity.public:
        raise damaged(reader.kind, _NOT_ITS_KEYS)
    return lambda: PublicKey(
        from_residues(b, ring, Domain.NTT), expand_public_half(seed, params.digest, ring), seed
    )


def _relinearization(
    reader: Reader, params: RlweParameters, identity: Identity
) -> Callable[[], SwitchingKey] | None:
    held = reader.field("relinearization")
    if held is None:
        return None
    seed, b = _switching(reader, params, held)
    if relinearization_hash(seed, b) != identity.relinearization:
        raise damaged(reader.kind, _NOT_ITS_KEYS)
    return lambda: _expanded(seed, b, params, RELINEARIZATION)


def _switching(
    reader: Reader, params: RlweParameters, held: Any
) -> tuple[bytes, list[NDArray[np.uint32]]]:
    gadget, seed = gadget_of(params), reader.seed(held)
    return seed, [reader.residues(gadget.ring) for _ in gadget.digits]


def _expanded(
    seed: bytes, b: list[NDArray[np.uint32]], params: RlweParameters, label: bytes
) -> SwitchingKey:
    ring = gadget_of(params).ring
    return SwitchingKey(
        tuple(from_residues(b_j, ring, Domain.NTT) for b_j in b),
        expand_switching_halves(seed, params.digest, label, len(b), ring),
        seed,
    )


def _switching_keys(
    reader: Reader,
    params: RlweParameters,
    name: str,
    label: Callable[[Any, RlweParameters], bytes | None],
) -> dict[Any, Callable[[], SwitchingKey]]:
    keys: dict[Any, Callable[[], SwitchingKey]] = {}
    for item in reader.items(name):
        if not isinstance(item, list) or len(item) != 2 or item[1] is None:
            raise damaged(reader.kind, f"the list of {name} keys cannot be read")
        which, seed = item
        said = label(which, params)
        if said is None or which in keys:
            raise damaged(reader.kind, f"{which!r:.80} names no key of its own among {name}")
        keys[which] = partial(_expanded, *_switching(reader, params, seed), params, said)
    return keys


def _galois_label(g: Any, params: RlweParameters) -> bytes | None:
    valid = type(g) is int and 1 < g < 2 * params.n and g % 2 == 1
    return galois_label(g) if valid else None


def _switch_label(to: Any, params: RlweParameters) -> bytes | None:
    valid = isinstance(to, str) and len(to) == 32 and not set(to) - set("0123456789abcdef")
    return switch_label(to) if valid else None
