"""Polynomials as bytes: a versioned header, plain residues of the coefficients, a checksum."""

from __future__ import annotations

import hashlib
import math
import struct

import numpy as np
from numpy.typing import NDArray

from ren.core.errors import RingError, SerializationError
from ren.core.ring import MAX_DEGREE, Domain, RingSpec

_MAGIC, _VERSION = b"REN.POLY", 1
_HEADER = struct.Struct("<8sHBBIII")  # magic, version, domain, is constant, n, limbs, batch rank
_CHECKSUM = 32
_MAX_LIMBS, _MAX_RANK = 1024, 32
_DOMAINS = (Domain.COEFF, Domain.NTT)


def encode(ring: RingSpec, domain: Domain, residues: NDArray[np.uint32]) -> bytes:
    """The bytes of a polynomial: header, batch shape, moduli, residues, SHA-256.

    Args:
        ring, domain: of the polynomial.
        residues: plain residues of its coefficients, `uint32[*batch, limb, n]`, in [0, q_i); for
            one that `const` made `uint32[limb, 1]`.
    """
    *batch, _, n = residues.shape
    domain_code, is_constant = _DOMAINS.index(domain), n == 1
    body = _HEADER.pack(
        _MAGIC, _VERSION, domain_code, is_constant, ring.n, ring.limbs, len(batch)
    )  # fmt: skip
    for values, dtype in ((batch, "<u8"), (ring.moduli, "<u4"), (residues, "<u4")):
        body += np.ascontiguousarray(values, dtype).tobytes()
    return body + hashlib.sha256(body).digest()


def decode(data: bytes) -> tuple[RingSpec, Domain, NDArray[np.uint32]]:
    """Ring, domain and residues of the bytes that `encode` wrote; every field is checked.

    Raises:
        SerializationError: the bytes are truncated, altered, foreign or of another version.
    """
    body = _checked_body(data)
    _, _, domain, is_constant, n, limbs, rank = _HEADER.unpack_from(body)
    if domain > 1 or is_constant > 1 or n > MAX_DEGREE or limbs > _MAX_LIMBS or rank > _MAX_RANK:
        raise _damaged("a header field is out of range")
    at = _HEADER.size
    batch = tuple(_take(body, at, rank, "<u8").tolist())
    at += 8 * rank
    ring = _ring(n, _take(body, at, limbs, "<u4"))
    at += 4 * limbs
    if (is_constant and batch) or math.prod(max(b, 1) for b in batch) > len(body):
        raise _damaged("the batch axes do not fit the bytes")  # also beside an axis of length 0
    shape = (*batch, limbs, 1 if is_constant else n)
    if len(body) - at != 4 * math.prod(shape):
        raise _damaged("the number of residues does not fit the header")
    residues = _take(body, at, math.prod(shape), "<u4").reshape(shape).astype(np.uint32)
    if np.any(residues >= np.array(ring.moduli, np.uint32)[:, None]):
        raise _damaged("a residue is not below its modulus")
    return ring, _DOMAINS[domain], residues


def _checked_body(data: bytes) -> bytes:
    if not isinstance(data, bytes | bytearray | memoryview):
        raise _damaged(f"{type(data).__name__} was given")
    data = bytes(data)
    if len(data) < _HEADER.size + _CHECKSUM or data[:8] != _MAGIC:
        raise _damaged("they do not begin as a polynomial's do")
    version = _HEADER.unpack_from(data)[1]
    if version != _VERSION:
        raise _damaged(f"they are of version {version}, this library reads version {_VERSION}")
    body = data[:-_CHECKSUM]
    if hashlib.sha256(body).digest() != data[-_CHECKSUM:]:
        raise _damaged("the checksum does not match")
    return body


def _take(body: bytes, at: int, count: int, dtype: str) -> NDArray:
    if at + count * np.dtype(dtype).itemsize > len(body):
        raise _damaged("they end too early")
    return np.frombuffer(body, dtype, count, at)


def _ring(n: int, moduli: NDArray) -> RingSpec:
    try:
        return RingSpec(n, moduli.tolist())
    except RingError as error:
        raise _damaged(f"the ring is not valid ({error.given})") from None


def _damaged(why: str) -> SerializationError:
    return SerializationError(
        f"These bytes are not a polynomial: {why}.",
        "Poly.from_bytes reads what poly.to_bytes() wrote, whole and unchanged.",
        "Write them again from the original polynomial.",
    )
