"""Ciphertexts, plaintexts and contexts as bytes, and back with every field checked.

The limbs are those of the NTT domain in Montgomery form: the frame's version pins their order.
Uniform halves that were expanded from a seed are stored as that seed. Secrets are written only by
`include_secret=True`. Seeds are expanded last, once all else has passed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ren.core.errors import ParameterError, SerializationError
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
    switch_label,
)
from ren.schemes.ckks.layout import Layout
from ren.schemes.ckks.ledger import Entry, Saved, Terms, ledger_of, resume
from ren.schemes.ckks.noise import LARGEST, WIDTH
from ren.schemes.ckks.parameter_table import header_of
from ren.schemes.ckks.parameters import Parameters, parameters_of
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
    from ren.schemes.ckks.plaintext import Plaintext

CIPHERTEXT, PLAINTEXT, CONTEXT = "ciphertext", "plaintext", "context"
_MAX_BATCH_RANK = 8
_ENTRY = np.dtype([("digest", "V32"), ("sigma", "<f8"), ("count", "<i8")])


def _limbs(*polys: Poly) -> list[NDArray[np.uint32]]:
    """Limb arrays of polynomials in the NTT domain, on the host."""
    realized = realize_polys([p.ntt() for p in polys])
    return [np.asarray(p.limbs) for p in realized]


# ------------------------------------------------------------------- ciphertexts and plaintexts


def ciphertext_limbs(x: Ciphertext) -> list[NDArray[np.uint32]]:
    """The limb arrays of both polynomials, on the host."""
    return _limbs(*x.polys)


def ciphertext_to_bytes(x: Ciphertext) -> bytes:
    """A ciphertext; a fresh one with its second half as a seed."""
    limbs = _limbs(*(x.polys if x.seed is None else x.polys[:1]))
    header = {
        **_slots_header(x, limbs[0]),
        "key_id": x.key_id,
        "seed": x.seed.hex() if x.seed else None,
    }
    return pack(CIPHERTEXT, x.params.digest, header, [*limbs, _noise_array(x, limbs[0])])


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
    ring = params.ring(level)
    batch, layout = _shape(reader, ring, params)
    held = reader.field("seed")
    seed = None if held is None else reader.seed(held)
    first = reader.residues(ring, batch)
    second = reader.residues(ring, batch) if seed is None else None
    noise = _noise(reader, batch, CIPHERTEXT)
    reader.finish()
    if seed is not None:
        c1 = uniform_half(seed, params.digest, ring, batch)
    else:
        assert second is not None  # read above where there is no seed
        c1 = from_residues(second, ring, Domain.NTT)
    return {
        "polys": (from_residues(first, ring, Domain.NTT), c1), "level": level, "layout": layout,
        "key_id": key_id, "params": params, "noise": noise, "seed": seed,
    }  # fmt: skip


def _noise_array(x: Ciphertext | Plaintext, limbs: NDArray) -> NDArray[np.float32]:
    return np.broadcast_to(np.asarray(x.noise, np.float32), (*limbs.shape[:-2], WIDTH))


def _noise(reader: Reader, batch: tuple[int, ...], kind: str) -> NDArray[np.float32]:
    """A noise in range; or one that is not known, NaN throughout."""
    noise = reader.array((*batch, WIDTH), "<f4").astype(np.float32)
    in_range = ((noise >= 0) & (noise <= LARGEST)).all(-1)
    if not np.all(in_range | np.isnan(noise).all(-1)):
        raise damaged(kind, "the noise estimate is out of range")
    return noise


def plaintext_to_bytes(p: Plaintext) -> bytes:
    """A plaintext over the ring of its level and the special primes."""
    limbs = _limbs(p.wide)
    header = {**_slots_header(p, limbs[0]), "bits": p.bits}
    return pack(PLAINTEXT, p.params.digest, header, [*limbs, _noise_array(p, limbs[0])])


def read_plaintext(data: bytes) -> dict[str, Any]:
    """The fields of the plaintext that `plaintext_to_bytes` wrote.

    Raises:
        SerializationError: damaged or foreign bytes.
    """
    reader = unpack(PLAINTEXT, data)
    params = parameters_of(reader)
    level = reader.integer("level", 0, params.depth)
    bits = reader.integer("bits", 0, params.ring(level).q.bit_length())
    ring = gadget_of(params).extended(params.ring(level))
    batch, layout = _shape(reader, ring, params)
    wide = from_residues(reader.residues(ring, batch), ring, Domain.NTT)
    noise = _noise(reader, batch, PLAINTEXT)
    reader.finish()
    return {
        "wide": wide, "level": level, "layout": layout, "params": params, "bits": bits,
        "noise": noise,
    }  # fmt: skip


def _slots_header(x: Ciphertext | Plaintext, limbs: NDArray) -> dict[str, Any]:
    return {
        **header_of(x.params),
        "level": x.level,
        "length": -1 if x.layout.length is None else x.layout.length,
        "is_complex": int(x.layout.is_complex),
        "blocks": x.layout.blocks,
        **({"shape": list(x.layout.shape or ())} if x.layout.has_shape else {}),
        "batch": list(limbs.shape[:-2]),
    }


def _shape(reader: Reader, ring: RingSpec, params: Parameters) -> tuple[tuple[int, ...], Layout]:
    """The batch axes, no larger than the bytes, and the layout of the last of them."""
    batch = tuple(reader.items("batch"))
    largest = len(reader.body) // (4 * ring.limbs * ring.n)
    if len(batch) > _MAX_BATCH_RANK or any(
        type(b) is not int or not 0 < b <= largest for b in batch
    ):
        raise damaged(reader.kind, f"the batch shape is {batch!r}")
    blocks = reader.integer("blocks", 1, batch[-1] if batch else 1)
    length = reader.integer("length", -1, blocks * params.slots)
    if length == 0 or (blocks > 1 and (length < 0 or blocks != batch[-1])):
        raise damaged(reader.kind, f"{length} numbers in {blocks} blocks do not fit the batch axes")
    label = _label(reader, length)
    is_complex = reader.boolean("is_complex")
    return batch, Layout(None if length < 0 else length, is_complex, blocks, label)


def _label(reader: Reader, length: int) -> tuple[int, ...] | None:
    """The shape in which the numbers decrypt, which there are `length` of."""
    if "shape" not in reader.header:
        return None
    sizes = reader.items("shape")
    fits = all(type(s) is int and 0 < s <= length for s in sizes)
    if not (fits and 2 <= len(sizes) <= _MAX_BATCH_RANK and math.prod(sizes) == length):
        raise damaged(reader.kind, f"the shape is {sizes!r:.80}")
    return tuple(sizes)


# ------------------------------------------------------------------- contexts


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
        "secret": int(keys.secret is not None),
        "public": keys.public.seed.hex() if keys.public else None,
        "relinearization": keys.relinearization.seed.hex() if keys.relinearization else None,
        "galois": [[g, key.seed.hex()] for g, key in sorted(keys.galois.items())],
        "switches": [[to, key.seed.hex()] for to, key in sorted(keys.switches.items())],
    }
    arrays: list[NDArray] = []
    if keys.secret is not None:
        header["shared"], entries = _shared_header(ledger_of(keys.key_id).saved)
        arrays = [keys.secret.coefficients, entries]
    if keys.public is not None:
        arrays += _limbs(keys.public.b)
    if keys.relinearization is not None:
        arrays += _limbs(*keys.relinearization.b)
    for held in (keys.galois, keys.switches):
        for _, key in sorted(held.items()):
            arrays += _limbs(*key.b)
    return pack(CONTEXT, ctx.params.digest, header, arrays)


def read_context(data: bytes) -> tuple[Parameters, Keychain]:
    """The parts of the context that `context_to_bytes` wrote.

    Raises:
        SerializationError: damaged or foreign bytes.
    """
    reader = unpack(CONTEXT, data)
    params, key_id = parameters_of(reader), reader.key_id()
    secret = shared = None
    if reader.boolean("secret"):
        secret, shared = _secret(reader, params), _shared(reader)
    public = _public(reader, params, reader.field("public"))
    relinearization = _switching(reader, params, reader.field("relinearization"), RELINEARIZATION)
    galois = _switching_keys(reader, params, "galois", _galois_label)
    switches = _switching_keys(reader, params, "switches", _switch_label)
    reader.finish()
    held: dict[str, Any] = {
        "public": public and public(),
        "relinearization": relinearization and relinearization(),
        "galois": {g: expanded() for g, expanded in galois.items()},
        "switches": {to: expanded() for to, expanded in switches.items()},
    }
    if secret is None or shared is None:
        return params, Keychain(key_id, **held)
    resume(key_id, shared)
    return params, keychain_of_secret(key_id, secret, params, **held)


def _secret(reader: Reader, params: Parameters) -> NDArray[np.int8]:
    coefficients = reader.array((params.n,), "<i1").astype(np.int8)
    if np.any(np.abs(coefficients) > 1):
        raise damaged(CONTEXT, "the secret is not ternary")
    return coefficients


def _shared_header(saved: Saved) -> tuple[dict[str, Any], NDArray]:
    """What was shared of the secret: the header's field, and an array of the entries."""
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


def _public(reader: Reader, params: Parameters, held: Any) -> Callable[[], PublicKey] | None:
    if held is None:
        return None
    ring, seed = public_ring(params), reader.seed(held)
    b = reader.residues(ring)
    return lambda: PublicKey(
        from_residues(b, ring, Domain.NTT), expand_public_half(seed, params.digest, ring), seed
    )


def _switching(
    reader: Reader, params: Parameters, held: Any, label: bytes
) -> Callable[[], SwitchingKey] | None:
    if held is None:
        return None
    gadget, seed = gadget_of(params), reader.seed(held)
    ring, digits = gadget.ring, len(gadget.digits)
    b = [reader.residues(ring) for _ in range(digits)]
    return lambda: SwitchingKey(
        tuple(from_residues(b_j, ring, Domain.NTT) for b_j in b),
        expand_switching_halves(seed, params.digest, label, digits, ring),
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
        expanded = _switching(reader, params, seed, said)
        assert expanded is not None  # the seed is not None
        keys[which] = expanded
    return keys


def _galois_label(g: Any, params: Parameters) -> bytes | None:
    valid = type(g) is int and 1 < g < 2 * params.n and g % 2 == 1
    return galois_label(g) if valid else None


def _switch_label(to: Any, params: Parameters) -> bytes | None:
    valid = isinstance(to, str) and len(to) == 32 and not set(to) - set("0123456789abcdef")
    return switch_label(to) if valid else None
