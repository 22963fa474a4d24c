"""Keychains as fields and arrays of a frame, and back with every key checked.

Keys are stored as the seed of their uniform halves and the limbs of their halves b. Seeds are
expanded once all else has passed; then an owner's keys are checked against its secret.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ren.core.ring import Domain, RingSpec, intersection
from ren.schemes.rlwe.frame import Reader, damaged, limbs_of
from ren.schemes.rlwe.identity import (
    IDENTITY_BYTES,
    PUBLIC,
    RELINEARIZATION,
    Identity,
    key_hash,
)
from ren.schemes.rlwe.keychain import Keychain, galois_label, labelled_label, switch_label
from ren.schemes.rlwe.keys import (
    PublicKey,
    SwitchingKey,
    expand_public_half,
    expand_switching_halves,
    from_residues,
    secret_from,
)
from ren.schemes.rlwe.keyswitch import Gadget, gadget_of
from ren.schemes.rlwe.ownership import foreign_key
from ren.schemes.rlwe.parameters import RlweParameters

_NOT_ITS_KEYS = "the keys are not those of its key_id"
Stored = tuple[bytes, list[NDArray[np.uint32]]]  # a key: the seed of its halves a, its halves b


def keychain_header(keys: Keychain, params: RlweParameters) -> dict[str, Any]:
    """Header fields of a keychain: its identity, and the seeds of the keys that it holds.

    A galois key that is a part of one has the moduli of its digits beside its seed.
    """
    gadget = gadget_of(params)

    def part(key: SwitchingKey) -> list[list[int]]:
        is_whole = key.ring == gadget.ring
        return [] if is_whole else [list(intersection(gadget.union, key.ring.moduli))]

    return {
        "key_id": keys.key_id,
        "identity": keys.identity.tobytes().hex(),
        "secret": int(keys.secret is not None),
        "public": keys.public.seed.hex() if keys.public else None,
        "relinearization": keys.relinearization.seed.hex() if keys.relinearization else None,
        "galois": [[g, key.seed.hex(), *part(key)] for g, key in sorted(keys.galois.items())],
        "switches": [[to, key.seed.hex()] for to, key in sorted(keys.switches.items())],
        **({"labelled": _labelled_header(keys)} if _saves_labelled(keys) else {}),
    }


def _saves_labelled(keys: Keychain) -> bool:
    """Whether labelled keys are among what is saved: an owner makes equal ones again."""
    return bool(keys.labelled) and keys.secret is None


def _labelled_header(keys: Keychain) -> list[list[str]]:
    return [[label, key.seed.hex()] for label, key in sorted(keys.labelled.items())]


def keychain_arrays(keys: Keychain) -> list[NDArray]:
    """Halves b of all keys, in the order of `read_keychain`; the secret is not among them."""
    kinds: list[dict[Any, SwitchingKey]] = [keys.galois, keys.switches]
    kinds += [keys.labelled] if _saves_labelled(keys) else []
    named = [key for held in kinds for _, key in sorted(held.items())]
    held = [key for key in (keys.public, keys.relinearization, *named) if key is not None]
    return [limbs for key in held for limbs in limbs_of(*key.halves)]


def read_keychain(
    reader: Reader,
    params: RlweParameters,
    identity: Identity,
    secret: NDArray[np.int8] | None,
    gadget_of_label: Callable[[str], Gadget | None] = lambda label: None,
) -> Keychain:
    """The keychain that `keychain_header` and `keychain_arrays` wrote; the frame ends with it.

    `gadget_of_label` has the gadget of a labelled key; None where the scheme has no such key.

    `identity` and `secret` come from `read_identity` and `read_secret`. Galois and switching keys
    without a secret are not checked against the identity: see `active_context.admission`.

    Raises:
        SerializationError: damaged bytes, or keys that are not those of the `key_id`.
    """
    gadget, stored = gadget_of(params), dict[bytes, Stored]()
    for label, ring, count, digest in (
        (PUBLIC, gadget.public_ring, 1, identity.public),
        (RELINEARIZATION, gadget.ring, len(gadget.digits), identity.relinearization),
    ):
        if (seed := reader.field(label.decode())) is not None:
            stored[label] = _stored(reader, seed, ring, count)
            if key_hash(label, *stored[label]) != digest:
                raise damaged(reader.kind, _NOT_ITS_KEYS)

    def labelled(label: Any, _: RlweParameters) -> bytes | None:
        is_known = isinstance(label, str) and gadget_of_label(label) is not None
        return labelled_label(label) if is_known else None

    labels: dict[str, dict[Any, bytes]] = {"galois": {}, "switches": {}, "labelled": {}}
    gadgets, parts = dict[bytes, Gadget](), dict[bytes, Gadget]()
    readers = (("galois", _galois_label), ("switches", _switch_label), ("labelled", labelled))
    for name, label_of in readers:
        for item in reader.items(name) if name in reader.header or name != "labelled" else ():
            count = len(item) if isinstance(item, list) else 0
            if not 2 <= count <= 2 + (name == "galois") or item[1] is None:
                raise damaged(reader.kind, f"the list of {name} keys cannot be read")
            which, seed, *moduli = item
            if (label := label_of(which, params)) is None or label in stored:
                raise damaged(reader.kind, f"{which!r:.80} names no key of its own among {name}")
            labels[name][which] = label
            own = gadget_of_label(which) if name == "labelled" else None
            gadgets[label] = own or gadget
            if moduli:
                parts[label] = _part_of(gadget, moduli[0], reader)
            cut_to = parts.get(label, gadgets[label])
            stored[label] = _stored(reader, seed, cut_to.ring, len(cut_to.digits))
    reader.finish()
    if secret is not None and not {PUBLIC, RELINEARIZATION} <= stored.keys():
        raise damaged(reader.kind, "the keys that its key_id is made of are missing")

    public = _public_key(*stored.pop(PUBLIC), params) if PUBLIC in stored else None
    keys = {
        label: _switching_key(label, *halves, params, gadgets.get(label, gadget), parts.get(label))
        for label, halves in stored.items()
    }
    held = Keychain(
        identity,
        None if secret is None else secret_from(secret, gadget.ring),
        public,
        keys.get(RELINEARIZATION),
        **{name: {which: keys[label] for which, label in labels[name].items()} for name in labels},
    )
    if held.secret is not None and (label := foreign_key(held.secret, held, params)):
        raise damaged(reader.kind, f"{_NOT_ITS_KEYS}: the key {label} is not of its secret")
    return held


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


def _part_of(gadget: Gadget, moduli: Any, reader: Reader) -> Gadget:
    """The gadget of a key for some moduli of the union, in its order."""
    is_list = isinstance(moduli, list) and bool(moduli) and all(type(m) is int for m in moduli)
    if not is_list or intersection(gadget.union, tuple(moduli)) != tuple(moduli):
        raise damaged(reader.kind, f"the moduli {moduli!r:.80} of a key are not of its parameters")
    return gadget.cut(moduli)


def _stored(reader: Reader, seed: Any, ring: RingSpec, count: int) -> Stored:
    return reader.seed(seed), [reader.residues(ring) for _ in range(count)]


def _public_key(seed: bytes, b: list[NDArray[np.uint32]], params: RlweParameters) -> PublicKey:
    ring = gadget_of(params).public_ring
    a = expand_public_half(seed, params.digest, ring)
    return PublicKey(from_residues(b[0], ring, Domain.NTT), a, seed)


def _switching_key(
    label: bytes,
    seed: bytes,
    b: list[NDArray[np.uint32]],
    params: RlweParameters,
    gadget: Gadget,
    part: Gadget | None,
) -> SwitchingKey:
    """The key over `gadget`, or the part of it over `part`."""
    digits, ring = gadget.part((part or gadget).union)
    halves = tuple(from_residues(b_j, ring, Domain.NTT) for b_j in b)
    a = expand_switching_halves(seed, params.digest, label, digits, gadget.ring, ring)
    return SwitchingKey(halves, a, seed)


def _galois_label(g: Any, params: RlweParameters) -> bytes | None:
    valid = type(g) is int and 1 < g < 2 * params.n and g % 2 == 1
    return galois_label(g) if valid else None


def _switch_label(to: Any, params: RlweParameters) -> bytes | None:
    valid = isinstance(to, str) and len(to) == 32 and not set(to) - set("0123456789abcdef")
    return switch_label(to) if valid else None
