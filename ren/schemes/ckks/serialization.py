"""Ciphertexts and contexts as bytes, and back with every field checked.

The limbs are those of the NTT domain in Montgomery form: the frame's version pins their order.
Uniform halves that were expanded from a seed are stored as that seed. Secrets are written only by
`include_secret=True`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ren.core.errors import SerializationError
from ren.core.ring import Domain, RingSpec
from ren.poly import Poly, realize_polys
from ren.schemes.ckks.active import live_context
from ren.schemes.ckks.encryption import uniform_half
from ren.schemes.ckks.gadget import gadget_of, public_ring
from ren.schemes.ckks.keychain import (
    RELINEARIZATION,
    Keychain,
    galois_label,
    keychain_of_secret,
)
from ren.schemes.ckks.parameters import Parameters, parameters_of
from ren.schemes.ckks.plaintext import Layout
from ren.schemes.ckks.wire import Reader, damaged, pack, unpack
from ren.schemes.rlwe.keys import (
    PublicKey,
    SwitchingKey,
    expand_public_half,
    expand_switching_halves,
    from_residues,
)

if TYPE_CHECKING:
    from ren.schemes.ckks.ciphertext import Ciphertext
    from ren.schemes.ckks.context import Context

CIPHERTEXT, CONTEXT = "ciphertext", "context"
_MAX_BATCH_RANK = 8


def _limbs(*polys: Poly) -> list[NDArray[np.uint32]]:
    """Limb arrays of polynomials in the NTT domain, on the host."""
    realized = realize_polys([p.ntt() for p in polys])
    return [np.asarray(p.limbs) for p in realized]


# ------------------------------------------------------------------- ciphertexts


def ciphertext_to_bytes(x: Ciphertext) -> bytes:
    """A ciphertext; a fresh one with its second half as a seed."""
    limbs = _limbs(*(x.polys if x.seed is None else x.polys[:1]))
    header = {
        "params": x.params.to_dict(),
        "key_id": x.key_id,
        "level": x.level,
        "length": -1 if x.layout.length is None else x.layout.length,
        "is_complex": int(x.layout.is_complex),
        "batch": list(limbs[0].shape[:-2]),
        "seed": x.seed.hex() if x.seed else None,
    }
    return pack(CIPHERTEXT, x.params.digest, header, limbs)


def read_ciphertext(data: bytes) -> dict[str, Any]:
    """The fields of the ciphertext that `ciphertext_to_bytes` wrote.

    Raises:
        SerializationError: damaged or foreign bytes, or another set of parameters than that of the
            live context with the same `key_id`.
    """
    reader = unpack(CIPHERTEXT, data)
    params, key_id = parameters_of(reader), reader.key_id()
    owner = live_context(key_id)
    if owner is not None:
        if not owner.params.compatible(params):
            raise damaged(CIPHERTEXT, "the context of its key has other parameters")
        params = owner.params
    level = reader.integer("level", 0, params.depth)
    length = reader.integer("length", -1, params.slots)
    layout = Layout(None if length < 0 else length, reader.boolean("is_complex"))
    polys, seed = _ciphertext_polys(reader, params.ring(level), params.digest)
    reader.finish()
    return {
        "polys": polys, "level": level, "layout": layout,
        "key_id": key_id, "params": params, "seed": seed,
    }  # fmt: skip


def _ciphertext_polys(
    reader: Reader, ring: RingSpec, digest: bytes
) -> tuple[tuple[Poly, Poly], bytes | None]:
    batch = tuple(reader.items("batch"))
    largest = len(reader.body) // (4 * ring.limbs * ring.n)
    if len(batch) > _MAX_BATCH_RANK or any(
        type(b) is not int or not 0 < b <= largest for b in batch
    ):
        raise damaged(CIPHERTEXT, f"the batch shape is {batch!r}")
    c0 = from_residues(reader.residues(ring, batch), ring, Domain.NTT)
    if reader.header.get("seed") is None:
        return (c0, from_residues(reader.residues(ring, batch), ring, Domain.NTT)), None
    seed = reader.seed(reader.header["seed"])
    return (c0, uniform_half(seed, digest, ring, batch)), seed


# ------------------------------------------------------------------- contexts


def context_to_bytes(ctx: Context, keys: Keychain, include_secret: bool) -> bytes:
    """A context with all keys that it holds; with the secret only where that is said aloud.

    Raises:
        SerializationError: it holds the secret key and `include_secret` is False.
    """
    if keys.secret is not None and not include_secret:
        raise SerializationError(
            "to_bytes() was asked of a context that holds the secret key.",
            "Whoever reads the secret key decrypts everything.",
            "Send ctx.server() or ctx.public(); for your own backup use include_secret=True.",
        )
    header: dict[str, Any] = {
        "params": ctx.params.to_dict(),
        "key_id": keys.key_id,
        "secret": int(keys.secret is not None),
        "public": keys.public.seed.hex() if keys.public else None,
        "relinearization": keys.relinearization.seed.hex() if keys.relinearization else None,
        "galois": [[g, key.seed.hex()] for g, key in sorted(keys.galois.items())],
    }
    arrays = [keys.secret.coefficients] if keys.secret is not None else []
    if keys.public is not None:
        arrays += _limbs(keys.public.b)
    if keys.relinearization is not None:
        arrays += _limbs(*keys.relinearization.b)
    for _, key in sorted(keys.galois.items()):
        arrays += _limbs(*key.b)
    return pack(CONTEXT, ctx.params.digest, header, arrays)


def read_context(data: bytes) -> tuple[Parameters, Keychain]:
    """The parts of the context that `context_to_bytes` wrote.

    Raises:
        SerializationError: damaged or foreign bytes.
    """
    reader = unpack(CONTEXT, data)
    params, key_id = parameters_of(reader), reader.key_id()
    secret = _secret(reader, params) if reader.boolean("secret") else None
    held: dict[str, Any] = {}
    if reader.header.get("public") is not None:
        held["public"] = _public(reader, params, reader.seed(reader.header["public"]))
    if reader.header.get("relinearization") is not None:
        seed = reader.seed(reader.header["relinearization"])
        held["relinearization"] = _switching(reader, params, seed, RELINEARIZATION)
    held["galois"] = _galois(reader, params)
    reader.finish()
    if secret is None:
        return params, Keychain(key_id, **held)
    return params, keychain_of_secret(key_id, secret, params, **held)


def _secret(reader: Reader, params: Parameters) -> NDArray[np.int8]:
    coefficients = reader.array((params.n,), "<i1").astype(np.int8)
    if np.any(np.abs(coefficients) > 1):
        raise damaged(CONTEXT, "the secret is not ternary")
    return coefficients


def _public(reader: Reader, params: Parameters, seed: bytes) -> PublicKey:
    ring = public_ring(params)
    b = from_residues(reader.residues(ring), ring, Domain.NTT)
    return PublicKey(b, expand_public_half(seed, params.digest, ring), seed)


def _switching(reader: Reader, params: Parameters, seed: bytes, label: bytes) -> SwitchingKey:
    gadget = gadget_of(params)
    ring, digits = gadget.ring, len(gadget.digits)
    b = tuple(from_residues(reader.residues(ring), ring, Domain.NTT) for _ in range(digits))
    return SwitchingKey(b, expand_switching_halves(seed, params.digest, label, digits, ring), seed)


def _galois(reader: Reader, params: Parameters) -> dict[int, SwitchingKey]:
    keys: dict[int, SwitchingKey] = {}
    for item in reader.items("galois"):
        if not isinstance(item, list) or len(item) != 2:
            raise damaged(CONTEXT, "the list of galois keys cannot be read")
        g, seed = item
        valid = type(g) is int and 1 < g < 2 * params.n and g % 2 == 1 and g not in keys
        if not valid:
            raise damaged(CONTEXT, f"{g!r} is not a galois element of its own")
        keys[g] = _switching(reader, params, reader.seed(seed), galois_label(g))
    return keys
