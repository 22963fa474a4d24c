"""Ciphertexts, plaintexts and contexts as bytes, and back with every field checked.

The limbs are those of the NTT domain in Montgomery form: the frame's version pins their order.
Uniform halves that were expanded from a seed are stored as that seed. Seeds are expanded last, once
all else has passed. A `key_id` says which context to use; whose data it is, it does not prove.

A context is its parameters, its keychain and, with the secret, the ledger of shared decryptions.
Secrets are written and read only by `include_secret=True`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ren.core.errors import ParameterError, SerializationError
from ren.core.ring import Domain, RingSpec
from ren.poly import Poly
from ren.schemes.ckks.encoding.ciphertext_data import DTYPES, CiphertextData, Implied, NumberType
from ren.schemes.ckks.encoding.layout import MOST_SLOTS, Layout, Tail
from ren.schemes.ckks.noise import decryption_budget as budget
from ren.schemes.ckks.noise.bounds import LARGEST, WIDTH
from ren.schemes.ckks.noise.readable import Noise
from ren.schemes.ckks.noise.spans import Span
from ren.schemes.ckks.parameters.bootstrapping.labels import known_gadget
from ren.schemes.ckks.parameters.parameters import FRAME, Parameters, header_of, parameters_of
from ren.schemes.rlwe import keychain_serialization as keychains
from ren.schemes.rlwe.active_context import live_context
from ren.schemes.rlwe.encryption import uniform_half
from ren.schemes.rlwe.frame import Reader, damaged, limbs_of
from ren.schemes.rlwe.keychain import Keychain
from ren.schemes.rlwe.keys import from_residues
from ren.schemes.rlwe.keyswitch import gadget_of

CIPHERTEXT, PLAINTEXT, CONTEXT = "ciphertext", "plaintext", "context"
_ENTRY = np.dtype([("digest", "V32"), ("sigma", "<f8"), ("count", "<i8")])  # of a ledger
_MAX_BATCH_RANK = 8


def ciphertext_to_bytes(x: CiphertextData) -> bytes:
    """A ciphertext; a fresh one with its second half as a seed."""
    limbs = limbs_of(*(x.polys if x.seed is None else x.polys[:1]))
    header = {
        **_slots_header(x.params, x.level, x.layout, limbs[0]),
        "key_id": x.key_id,
        "seed": x.seed.hex() if x.seed else None,
        **({"span": [x.span.low, x.span.high]} if x.span and x.span.is_public else {}),
        **({"dtype": x.static_dtype.name} if x.static_dtype else {}),
        **({"array": x.dtype.name} if isinstance(x.stated_dtype, Implied) else {}),
    }
    return FRAME.pack(CIPHERTEXT, x.params.digest, header, [*limbs, noise_array(x.noise, limbs[0])])


def read_ciphertext(data: bytes) -> dict[str, Any]:
    """The fields of the ciphertext that `ciphertext_to_bytes` wrote.

    A live context with its `key_id` has to have its parameters.
    """
    reader = FRAME.unpack(CIPHERTEXT, data)
    params, key_id = parameters_of(reader), reader.key_id()
    owner = live_context(key_id)
    if owner is not None:
        if not owner.params.compatible(params) or owner.params.slots != params.slots:
            raise damaged(CIPHERTEXT, "the context of its key has other parameters")
        params = owner.params
    level = reader.integer("level", 0, params.depth)
    ring = params.ring(level)
    batch, layout = _shape(reader, ring, params)
    held = reader.field("seed")
    seed = None if held is None else reader.seed(held)
    first = reader.residues(ring, batch)
    second = reader.residues(ring, batch) if seed is None else None
    noise = read_noise(reader, batch)
    reader.finish()
    if second is not None:
        c1 = from_residues(second, ring, Domain.NTT)
    else:
        assert seed is not None  # the second half is read where there is none
        c1 = uniform_half(seed, params.digest, ring, batch)
    return {
        "polys": (from_residues(first, ring, Domain.NTT), c1), "level": level, "layout": layout,
        "key_id": key_id, "params": params, "noise": noise, "seed": seed,
        "span": _span(reader, layout), "stated_dtype": _dtype(reader, layout),
    }  # fmt: skip


def noise_array(noise: Noise, limbs: NDArray) -> NDArray[np.float32]:
    """The noise of each polynomial of a batch, float32 [*batch, WIDTH]."""
    return np.broadcast_to(np.asarray(noise, np.float32), (*limbs.shape[:-2], WIDTH))


def read_noise(reader: Reader, batch: tuple[int, ...]) -> NDArray[np.float32]:
    """A noise in range; or one that is not known, NaN throughout."""
    noise = reader.array((*batch, WIDTH), "<f4").astype(np.float32)
    in_range = ((noise >= 0) & (noise <= LARGEST)).all(-1)
    if not np.all(in_range | np.isnan(noise).all(-1)):
        raise damaged(reader.kind, "the noise estimate is out of range")
    return noise


def plaintext_to_bytes(
    wide: Poly, level: int, layout: Layout, params: Parameters, bits: int, noise: Noise
) -> bytes:
    """The fields of a plaintext; `wide` is over the ring of its level and the special primes."""
    limbs = limbs_of(wide)
    header = {**_slots_header(params, level, layout, limbs[0]), "bits": bits}
    return FRAME.pack(PLAINTEXT, params.digest, header, [*limbs, noise_array(noise, limbs[0])])


def read_plaintext(data: bytes) -> dict[str, Any]:
    """The fields of the plaintext that `plaintext_to_bytes` wrote."""
    reader = FRAME.unpack(PLAINTEXT, data)
    params = parameters_of(reader)
    level = reader.integer("level", 0, params.depth)
    bits = reader.integer("bits", 0, params.ring(level).q.bit_length())
    ring = gadget_of(params).extended(params.ring(level))
    batch, layout = _shape(reader, ring, params)
    residues = reader.residues(ring, batch)
    wide = from_residues(residues, ring, Domain.NTT)
    noise = read_noise(reader, batch)
    reader.finish()
    return {
        "wide": wide, "level": level, "layout": layout, "params": params, "bits": bits,
        "noise": noise, "is_zero": not residues.any(),
    }  # fmt: skip


def _slots_header(params: Parameters, level: int, layout: Layout, limbs: NDArray) -> dict[str, Any]:
    tail = layout.tail.settled
    return {
        **header_of(params),
        "level": level,
        "length": -1 if layout.length is None else layout.length,
        "is_complex": int(layout.is_complex),
        "blocks": layout.blocks,
        **({"shape": list(layout.shape or ())} if layout.has_shape else {}),
        **({"columns": 1} if layout.columns and limbs.ndim - 2 > (layout.blocks > 1) else {}),
        "tail": [tail.before, tail.after, int(tail.is_bounded)],
        "batch": list(limbs.shape[:-2]),
    }


def _span(reader: Reader, layout: Layout) -> Span | None:
    """The interval of the numbers, if it was stated."""
    if "span" not in reader.header:
        return None
    held = reader.items("span")
    is_whole = len(held) == 2 and all(type(v) is float and abs(v) < LARGEST for v in held)
    if layout.is_complex or not is_whole or held[0] > held[1]:
        raise damaged(reader.kind, f"the interval of the numbers is {held!r:.80}")
    return Span(*held)


def _dtype(reader: Reader, layout: Layout) -> NumberType | None:
    """The type of the numbers, if it was stated, or of the array that they are from."""
    name = "array" if "dtype" not in reader.header else "dtype"
    if (held := reader.header.get(name)) is None:
        return None
    if held not in DTYPES or (layout.is_complex and not held.startswith("complex")):
        raise damaged(reader.kind, f"the type of the numbers is {held!r:.80}")
    made = np.dtype(held)
    return made if name == "dtype" else Implied.of(made)


def _tail(reader: Reader) -> Tail:
    """Counts of slots around the numbers that may hold leftovers, and whether the bound holds."""
    held = reader.items("tail")
    is_whole = len(held) == 3 and all(type(v) is int and 0 <= v <= MOST_SLOTS for v in held)
    if not is_whole or held[2] > 1:
        raise damaged(reader.kind, f"the tail is {held!r:.80}")
    return Tail(held[0], held[1], 0, bool(held[2]))


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
    label = read_label(reader, length)
    is_complex = reader.boolean("is_complex")
    columns = "columns" in reader.header and reader.boolean("columns")
    if columns and (length < 0 or label is not None or len(batch) <= (blocks > 1)):
        raise damaged(reader.kind, "columns of a table need a batch axis and a length")
    size, tail = None if length < 0 else length, _tail(reader)
    return batch, Layout(size, is_complex, blocks, label, tail, columns)


def read_label(reader: Reader, length: int) -> tuple[int, ...] | None:
    """The shape in which the numbers decrypt, which there are `length` of."""
    if "shape" not in reader.header:
        return None
    sizes = reader.items("shape")
    fits = all(type(s) is int and 0 < s <= length for s in sizes)
    if not (fits and 2 <= len(sizes) <= _MAX_BATCH_RANK and math.prod(sizes) == length):
        raise damaged(reader.kind, f"the shape is {sizes!r:.80}")
    return tuple(sizes)


# ------------------------------------------------------------------- contexts


HOLDS_SECRET = "These bytes hold a secret key, and they were read without include_secret."


def context_to_bytes(params: Parameters, keys: Keychain, include_secret: bool) -> bytes:
    """A context with all keys that it holds; with the secret only where that is said aloud."""
    return b"".join(context_parts(params, keys, include_secret))


def context_parts(
    params: Parameters, keys: Keychain, include_secret: bool
) -> Iterator[bytes | memoryview]:
    """The same part by part: keys of several GiB are in memory once."""
    if not _is_included(include_secret) and keys.secret is not None:
        raise SerializationError(
            "The bytes of a context that holds the secret key were asked for.",
            "Whoever reads the secret key decrypts everything.",
            "Send ctx.server() or ctx.public(); for your own backup use include_secret=True.",
        )
    header = {**header_of(params), **keychains.keychain_header(keys, params)}
    arrays: list[NDArray] = []
    if keys.secret is not None:
        header["shared"], entries = _shared_header(budget.ledger_of(keys.secret).saved)
        arrays = [keys.secret.coefficients, entries]
    return FRAME.parts(CONTEXT, params.digest, header, [*arrays, *keychains.keychain_arrays(keys)])


def read_context(
    data: bytes, include_secret: bool
) -> tuple[Parameters, Keychain, budget.SavedLedger | None]:
    """The parts of the context that `context_to_bytes` wrote; of an owner also its ledger.

    Nothing is registered or resumed here. Errors are those of `Context.from_bytes`.
    """
    is_included, reader = _is_included(include_secret), FRAME.unpack(CONTEXT, data)
    params, identity = parameters_of(reader), keychains.read_identity(reader)
    secret = shared = None
    if reader.boolean("secret"):
        if not is_included:
            raise SerializationError(
                HOLDS_SECRET,
                "A context of them would decrypt under that key, whoever made it.",
                "Pass include_secret=True if they are your own backup; if others sent them, drop "
                "them.",
            )
        secret, shared = keychains.read_secret(reader, params), _shared(reader)
    gadget_of_label = functools.partial(known_gadget, params=params)
    keys = keychains.read_keychain(reader, params, identity, secret, gadget_of_label)
    return params, keys, shared


def _is_included(include_secret: Any) -> bool:
    """The option as a truth; ParameterError for another type, such as "False", which is true."""
    if isinstance(include_secret, bool | np.bool):
        return bool(include_secret)
    raise ParameterError(
        f"include_secret={include_secret!r:.40} was given.",
        "It is True where bytes may hold the secret key, else False.",
        "Pass include_secret=True for your own backup, or leave it out.",
    )


def _shared_header(saved: budget.SavedLedger) -> tuple[dict[str, Any], NDArray]:
    """The ledger of shared decryptions: the header's field, and an array of the entries."""
    rows = [(e.digest, e.sigma, e.count) for e in saved.entries]
    terms = saved.terms and [saved.terms.statistical_bits, saved.terms.queries]
    return {"key": saved.key.hex(), "terms": terms, "entries": len(rows)}, np.array(rows, _ENTRY)


def _shared(reader: Reader) -> budget.SavedLedger:
    held = reader.header.get("shared")
    if not isinstance(held, dict) or type(count := held.get("entries")) is not int or count < 0:
        raise damaged(CONTEXT, "what was shared of the secret is missing")
    rows = reader.array((count,), _ENTRY)
    try:
        terms = held.get("terms") and budget.SharingTerms(*held["terms"])
    except (TypeError, ParameterError):
        raise damaged(CONTEXT, "the terms of what was shared cannot be read") from None
    # Copies that counted apart may together be beyond the budget: it is spent, and they are read.
    shared, sigmas, digests = rows["count"], rows["sigma"], rows["digest"].tolist()
    in_range = (shared > 0) & (sigmas > 0) & (sigmas < 1)
    if not in_range.all() or len({*digests}) < count or (count and not terms):
        raise damaged(CONTEXT, "what was shared is out of range")
    entries = tuple(map(budget.LedgerEntry, digests, sigmas.tolist(), shared.tolist()))
    return budget.SavedLedger(reader.seed(held.get("key")), terms or None, entries)
