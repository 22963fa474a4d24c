"""Contexts as bytes: parameters, keychain and, with the secret, the ledger of shared decryptions.

Secrets are written and read only by `include_secret=True`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ren.core.errors import ParameterError, SerializationError
from ren.schemes.ckks.noise.decryption_budget import (
    LedgerEntry,
    SavedLedger,
    SharingTerms,
    ledger_name,
    ledger_of,
)
from ren.schemes.ckks.parameters.frame import FRAME
from ren.schemes.ckks.parameters.parameters import Parameters, header_of, parameters_of
from ren.schemes.rlwe.frame import Reader, damaged
from ren.schemes.rlwe.keychain import Keychain
from ren.schemes.rlwe.keychain_serialization import (
    keychain_arrays,
    keychain_header,
    read_identity,
    read_keychain,
    read_secret,
)

CONTEXT = "context"
_ENTRY = np.dtype([("digest", "V32"), ("sigma", "<f8"), ("count", "<i8")])


def context_to_bytes(params: Parameters, keys: Keychain, include_secret: bool) -> bytes:
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
    header = {**header_of(params), **keychain_header(keys)}
    arrays: list[NDArray] = []
    if keys.secret is not None:
        header["shared"], entries = _shared_header(ledger_of(ledger_name(keys.secret)).saved)
        arrays = [keys.secret.coefficients, entries]
    return FRAME.pack(CONTEXT, params.digest, header, [*arrays, *keychain_arrays(keys)])


def read_context(
    data: bytes, include_secret: bool
) -> tuple[Parameters, Keychain, SavedLedger | None]:
    """The parts of the context that `context_to_bytes` wrote; of an owner also its ledger.

    Nothing is registered or resumed here.

    Raises:
        SerializationError: damaged or foreign bytes; keys that are not those of the `key_id`; a
            secret where `include_secret` is False.
    """
    reader = FRAME.unpack(CONTEXT, data)
    params, identity = parameters_of(reader), read_identity(reader)
    secret = shared = None
    if reader.boolean("secret"):
        if not include_secret:
            raise _secret_is_held()
        secret, shared = read_secret(reader, params), _shared(reader)
    return params, read_keychain(reader, params, identity, secret), shared


def _secret_is_held() -> SerializationError:
    return SerializationError(
        "These bytes hold a secret key, and from_bytes or load was called without include_secret.",
        "A context of them would decrypt under that key, whoever made it.",
        "Pass include_secret=True if they are your own backup; if others sent them, drop them.",
    )


def _shared_header(saved: SavedLedger) -> tuple[dict[str, Any], NDArray]:
    """The ledger of shared decryptions: the header's field, and an array of the entries."""
    rows = [(e.digest, e.sigma, e.count) for e in saved.entries]
    terms = saved.terms and [saved.terms.statistical_bits, saved.terms.queries]
    return {"key": saved.key.hex(), "terms": terms, "entries": len(rows)}, np.array(rows, _ENTRY)


def _shared(reader: Reader) -> SavedLedger:
    held = reader.header.get("shared")
    if not isinstance(held, dict) or type(count := held.get("entries")) is not int or count < 0:
        raise damaged(CONTEXT, "what was shared of the secret is missing")
    rows = reader.array((count,), _ENTRY)
    try:
        terms = held.get("terms") and SharingTerms(*held["terms"])
    except (TypeError, ParameterError):
        raise damaged(CONTEXT, "the terms of what was shared cannot be read") from None
    # Copies that counted apart may together be beyond the budget: it is spent, and they are read.
    shared, sigmas, digests = rows["count"], rows["sigma"], rows["digest"].tolist()
    in_range = (shared > 0) & (sigmas > 0) & (sigmas < 1)
    if not in_range.all() or len({*digests}) < count or (count and not terms):
        raise damaged(CONTEXT, "what was shared is out of range")
    entries = tuple(map(LedgerEntry, digests, sigmas.tolist(), shared.tolist()))
    return SavedLedger(reader.seed(held.get("key")), terms or None, entries)
