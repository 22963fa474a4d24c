"""Contexts as bytes, and back with every key checked against the `key_id` and the secret.

Keys are stored as the seed of their uniform halves and the limbs of their halves b. Secrets are
written and read only by `include_secret=True`. Seeds are expanded once all else has passed; then an
owner's keys are checked against its secret.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ren.core.errors import ParameterError, SerializationError
from ren.core.ring import Domain
from ren.schemes.ckks.encoding.serialization import limbs_of
from ren.schemes.ckks.noise.decryption_budget import Entry, Saved, Terms, ledger_name, ledger_of
from ren.schemes.ckks.parameters.parameters import Parameters, header_of, parameters_of
from ren.schemes.rlwe.frame import Reader, damaged, pack, unpack
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

if TYPE_CHECKING:
    from ren.schemes.ckks.context import Context

CONTEXT = "context"
_NOT_ITS_KEYS = "the keys are not those of its key_id"
_ENTRY = np.dtype([("digest", "V32"), ("sigma", "<f8"), ("count", "<i8")])


def context_to_bytes(ctx: Context, keys: Keychain, include_secret: bool) -> bytes:
    """A context with all keys that it holds; with the secret only where that is said aloud.

    Raises:
        SerializationError: it holds the secret key and `include_secret` is False.
    """
    if keys.secret is not None and not include_secret:
        raise SerializationError(
            "The bytes of a context that holds the secret key were asked for.",
            "Whoever reads the secret key decrypts everything.",
            "Send ctx.server() or ctx.public(); for your own backup use include_secret=True.",
        )
    header: dict[str, Any] = {
        **header_of(ctx.params),
        "key_id": keys.key_id,
        "identity": keys.identity.tobytes().hex(),
        "secret": int(keys.secret is not None),
        "public": keys.public.seed.hex() if keys.public else None,
        "relinearization": keys.relinearization.seed.hex() if keys.relinearization else None,
        "galois": [[g, key.seed.hex()] for g, key in sorted(keys.galois.items())],
        "switches": [[to, key.seed.hex()] for to, key in sorted(keys.switches.items())],
    }
    arrays: list[NDArray] = []
    if keys.secret is not None:
        header["shared"], entries = _shared_header(ledger_of(ledger_name(keys.secret)).saved)
        arrays = [keys.secret.coefficients, entries]
    if keys.public is not None:
        arrays += limbs_of(keys.public.b)
    if keys.relinearization is not None:
        arrays += limbs_of(*keys.relinearization.b)
    for held in (keys.galois, keys.switches):
        for _, key in sorted(held.items()):
            arrays += limbs_of(*key.b)
    return pack(CONTEXT, ctx.params.digest, header, arrays)


def read_context(data: bytes, include_secret: bool) -> tuple[Parameters, Keychain, Saved | None]:
    """The parts of the context that `context_to_bytes` wrote; of an owner also its ledger.

    Nothing is registered or resumed here. Galois and switching keys of a context without a secret
    are not checked against the identity: see `active.admission`.

    Raises:
        SerializationError: damaged or foreign bytes; keys that are not those of the `key_id`; a
            secret where `include_secret` is False.
    """
    reader = unpack(CONTEXT, data)
    params, identity = parameters_of(reader), _identity(reader)
    secret = shared = None
    if reader.boolean("secret"):
        if not include_secret:
            raise _secret_is_held()
        secret, shared = _secret(reader, params), _shared(reader)
    public = _public(reader, params, reader.field("public"), identity)
    relinearization = _relinearization(reader, params, identity)
    galois = _switching_keys(reader, params, "galois", _galois_label)
    switches = _switching_keys(reader, params, "switches", _switch_label)
    reader.finish()
    if secret is not None and (public is None or relinearization is None):
        raise damaged(CONTEXT, "the keys that its key_id is made of are missing")
    held: dict[str, Any] = {
        "public": public and public(),
        "relinearization": relinearization and relinearization(),
        "galois": {g: expanded() for g, expanded in galois.items()},
        "switches": {to: expanded() for to, expanded in switches.items()},
    }
    if secret is None:
        return params, Keychain(identity, **held), None
    keys = keychain_of_secret(identity, secret, params, **held)
    if label := foreign_key(keys.require_secret(), keys, params):
        raise damaged(CONTEXT, f"{_NOT_ITS_KEYS}: the key {label} is not of its secret")
    return params, keys, shared


def _identity(reader: Reader) -> Identity:
    """The hashes of the owner's keys, whose hash the `key_id` is."""
    identity = Identity.frombytes(reader.digest, reader.hexadecimal("identity", IDENTITY_BYTES))
    if reader.key_id() != identity.key_id:
        raise damaged(CONTEXT, _NOT_ITS_KEYS)
    return identity


def _secret_is_held() -> SerializationError:
    return SerializationError(
        "These bytes hold a secret key, and from_bytes or load was called without include_secret.",
        "A context of them would decrypt under that key, whoever made it.",
        "Pass include_secret=True if they are your own backup; if others sent them, drop them.",
    )


def _secret(reader: Reader, params: Parameters) -> NDArray[np.int8]:
    coefficients = reader.array((params.n,), "<i1").astype(np.int8)
    if np.any(np.abs(coefficients) > 1):
        raise damaged(CONTEXT, "the secret is not ternary")
    return coefficients


def _shared_header(saved: Saved) -> tuple[dict[str, Any], NDArray]:
    """The ledger of shared decryptions: the header's field, and an array of the entries."""
    rows = [(e.digest, e.sigma, e.count) for e in saved.entries]
    terms = saved.terms and [saved.terms.statistical_bits, saved.terms.queries]
    return {"key": saved.key.hex(), "terms": terms, "entries": len(rows)}, np.array(rows, _ENTRY)


def _shared(reader: Reader) -> Saved:
    held = reader.header.get("shared")
    if not isinstance(held, dict) or type(count := held.get("entries")) is not int or count < 0:
        raise damaged(CONTEXT, "what was shared of the secret is missing")
    rows = reader.array((count,), _ENTRY)
    try:
        terms = held.get("terms") and Terms(*held["terms"])
    except (TypeError, ParameterError):
        raise damaged(CONTEXT, "the terms of what was shared cannot be read") from None
    # Copies that counted apart may together be beyond the budget: it is spent, and they are read.
    shared, sigmas, digests = rows["count"], rows["sigma"], rows["digest"].tolist()
    in_range = (shared > 0) & (sigmas > 0) & (sigmas < 1)
    if not in_range.all() or len({*digests}) < count or (count and not terms):
        raise damaged(CONTEXT, "what was shared is out of range")
    entries = tuple(map(Entry, digests, sigmas.tolist(), shared.tolist()))
    return Saved(reader.seed(held.get("key")), terms or None, entries)


def _public(
    reader: Reader, params: Parameters, held: Any, identity: Identity
) -> Callable[[], PublicKey] | None:
    if held is None:
        return None
    ring, seed = gadget_of(params).public_ring, reader.seed(held)
    b = reader.residues(ring)
    if public_hash(seed, b) != identity.public:
        raise damaged(CONTEXT, _NOT_ITS_KEYS)
    return lambda: PublicKey(
        from_residues(b, ring, Domain.NTT), expand_public_half(seed, params.digest, ring), seed
    )


def _relinearization(
    reader: Reader, params: Parameters, identity: Identity
) -> Callable[[], SwitchingKey] | None:
    held = reader.field("relinearization")
    if held is None:
        return None
    seed, b = _switching(reader, params, held)
    if relinearization_hash(seed, b) != identity.relinearization:
        raise damaged(CONTEXT, _NOT_ITS_KEYS)
    return lambda: _expanded(seed, b, params, RELINEARIZATION)


def _switching(
    reader: Reader, params: Parameters, held: Any
) -> tuple[bytes, list[NDArray[np.uint32]]]:
    gadget, seed = gadget_of(params), reader.seed(held)
    return seed, [reader.residues(gadget.ring) for _ in gadget.digits]


def _expanded(
    seed: bytes, b: list[NDArray[np.uint32]], params: Parameters, label: bytes
) -> SwitchingKey:
    ring = gadget_of(params).ring
    return SwitchingKey(
        tuple(from_residues(b_j, ring, Domain.NTT) for b_j in b),
        expand_switching_halves(seed, params.digest, label, len(b), ring),
        seed,
    )


def _switching_keys(
    reader: Reader, params: Parameters, name: str, label: Callable[[Any, Parameters], bytes | None]
) -> dict[Any, Callable[[], SwitchingKey]]:
    keys: dict[Any, Callable[[], SwitchingKey]] = {}
    for item in reader.items(name):
        if not isinstance(item, list) or len(item) != 2 or item[1] is None:
            raise damaged(CONTEXT, f"the list of {name} keys cannot be read")
        which, seed = item
        said = label(which, params)
        if said is None or which in keys:
            raise damaged(CONTEXT, f"{which!r:.80} names no key of its own among {name}")
        keys[which] = partial(_expanded, *_switching(reader, params, seed), params, said)
    return keys


def _galois_label(g: Any, params: Parameters) -> bytes | None:
    valid = type(g) is int and 1 < g < 2 * params.n and g % 2 == 1
    return galois_label(g) if valid else None


def _switch_label(to: Any, params: Parameters) -> bytes | None:
    valid = isinstance(to, str) and len(to) == 32 and not set(to) - set("0123456789abcdef")
    return switch_label(to) if valid else None
