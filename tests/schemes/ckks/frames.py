"""Forged bytes: frames with other headers and bodies, under a right checksum."""

from __future__ import annotations

import hashlib
import json
import struct
from typing import Any

from ren.schemes import ckks
from ren.schemes.ckks.encoding.serialization import context_to_bytes
from ren.schemes.rlwe.keychain import Keychain

HEAD = struct.Struct("<8sH16s32sI")


def sealed(body: bytes) -> bytes:
    return body + hashlib.sha256(body).digest()


def header_of(data: bytes) -> dict[str, Any]:
    return json.loads(data[HEAD.size : HEAD.size + HEAD.unpack_from(data)[4]])


def with_header(data: bytes, **changes: Any) -> bytes:
    """`data` with header fields replaced and a right checksum: what a forger would send."""
    return _with(data, header_of(data) | changes)


def without(data: bytes, name: str) -> bytes:
    """`data` without a header field, as bytes of before it was written."""
    return _with(data, {key: value for key, value in header_of(data).items() if key != name})


def _with(data: bytes, header: dict[str, Any]) -> bytes:
    magic, version, kind, digest, size = HEAD.unpack_from(data)
    text = json.dumps(header).encode()
    head = HEAD.pack(magic, version, kind, digest, len(text))
    return sealed(head + text + data[HEAD.size + size : -32])


def context_bytes(params: ckks.Parameters, keys: Keychain) -> bytes:
    """The bytes of a context with these keys, of which none lives in this process."""
    return context_to_bytes(params, keys, include_secret=True)
