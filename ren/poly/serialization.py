"""Polynomials as bytes: a versioned header, plain residues of the coefficients, a checksum."""

from __future__ import annotations

import hashlib
import math
import struct

import numpy as np
from numpy.typing import NDArray

from ren.core.errors import RingError, SerializationError
from ren.core.ring import MAX_DEGREE, Domain, RingSpec
from ren.poly.integers import of_moduli

_MAGIC, _VERSION, _WIDE_VERSION = b"REN.POLY", 1, 2  # of wide moduli, which take 8 bytes each
_HEADER = struct.Struct("<8sHBBIII")  # magic, version, domain, is constant, n, limbs, batch rank
_CHECKSUM = 32
_MAX_LIMBS, _MAX_RANK = 1024, 32
_DOMAINS = (Domain.COEFF, Domain.NTT)


def encode(ring: RingSpec, domain: Domain, residues: NDArray[np.uint32]) -> bytes:
    """The bytes of a polynomial: header, batch shape, moduli, residues, SHA-256.

    Args:
        ring, domain: of the polynomial.
        residues: plain residues of its coefficients, `uint32[*batch, limb, n]`, in [0, q_i), of
            wide moduli their words; for one that `const` made `uint32[limb, 1]`.
    """
    *batch, _, n = residues.shape
    domain_code, is_constant = _DOMAINS.index(domain), n == 1
    version, of_modulus = (_WIDE_VERSION, "<u8") if ring.has_wide else (_VERSION, "<u4")
    body = _HEADER.pack(
        _MAGIC, version, domain_code, is_constant, ring.n, len(ring.moduli), len(batch)
    )  # fmt: skip
    for values, dtype in ((batch, "<u8"), (ring.moduli, of_modulus), (residues, "<u4")):
        body += np.ascontiguousarray(values, dtype).tobytes()
    return body + hashlib.sha256(body).digest()


def decode(data: bytes) -> tuple[RingSpec, Domain, NDArray[np.uint32]]:
    """Ring, domain and residues of the bytes that `encode` wrote; every field is checked.

    Raises:
        SerializationError: the bytes are truncated, altered, foreign or of another version.
    """
    body = _checked_body(data)
    _, version, domain, is_constant, n, moduli, rank = _HEADER.unpack_from(body)
    if domain > 1 or is_constant > 1 or n > MAX_DEGREE or moduli > _MAX_LIMBS or rank > _MAX_RANK:
        raise _damaged("a header field is out of range")
    at = _HEADER.size
    batch = tuple(_take(body, at, rank, "<u8").tolist())
    at += 8 * rank
    size = 8 if version == _WIDE_VERSION else 4
    ring = _ring(n, _take(body, at, moduli, f"<u{size}"))
    at += size * moduli
    if ring.has_wide is not (version == _WIDE_VERSION):
        raise _damaged("the version is not that of the moduli")
    if ring.is_general and domain:
        raise _damaged("the ring has no NTT domain")
    if (is_constant and batch) or math.prod(max(b, 1) for b in batch) > len(body):
        raise _damaged("the batch axes do not fit the bytes")  # also beside an axis of length 0
    shape = (*batch, ring.limbs, 1 if is_constant else n)
    if len(body) - at != 4 * math.prod(shape):
        raise _damaged("the number of residues does not fit the header")
    residues = _take(body, at, math.prod(shape), "<u4").reshape(shape).astype(np.uint32)
    if np.any(of_moduli(residues, ring.moduli) >= np.array(ring.moduli, np.uint64)[:, None]):
        raise _damaged("a residue is not below its modulus")
    return ring, _DOMAINS[domain], residues


def _checked_body(data: bytes) -> bytes:
    if not isinstance(data, bytes | bytearray | memoryview):
        raise _damaged(f"{type(data).__name__} was given")
    data = bytes(data)
    if len(data) < _HEADER.size + _CHECKSUM or data[:8] != _MAGIC:
        raise _damaged("they do not begin as a polynomial's do")
    version = _HEADER.unpack_from(data)[1]
    if version not in (_VERSION, _WIDE_VERSION):
        raise _damaged(
            f"they are of version {version}, this library reads versions "
            f"{_VERSION} and {_WIDE_VERSION}"
        )
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
