"""Messages between the owner of the images and the scorer: lists of byte strings, nothing else.

A message is the count of its parts and, for each, its length and its bytes. Numbers are eight
bytes, little-endian. An end of the stream between two messages ends the conversation.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Mapping, Sequence
from typing import IO

import numpy as np

_NUMBER = struct.Struct("<Q")
_MAX_PARTS, _MAX_BYTES = 1 << 12, 1 << 32  # more is a damaged stream, not a message


def send(stream: IO[bytes], parts: Sequence[bytes]) -> None:
    """Writes one message."""
    stream.write(_NUMBER.pack(len(parts)))
    for part in parts:
        stream.write(_NUMBER.pack(len(part)))
        stream.write(part)
    stream.flush()


def receive(stream: IO[bytes]) -> list[bytes] | None:
    """Reads one message; None at the end of the stream. Raises EOFError inside a message."""
    head = stream.read(_NUMBER.size)
    if not head:
        return None
    parts = range(_bounded(head, _MAX_PARTS))
    return [_exactly(stream, _bounded(stream.read(_NUMBER.size), _MAX_BYTES)) for _ in parts]


def pack_arrays(arrays: Mapping[str, np.ndarray]) -> bytes:
    """Named arrays as an npz file."""
    out = io.BytesIO()
    np.savez(out, allow_pickle=False, **arrays)  # pyright: ignore[reportArgumentType]
    return out.getvalue()


def unpack_arrays(data: bytes) -> dict[str, np.ndarray]:
    """The arrays of `pack_arrays`; pickled objects are refused."""
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        return dict(arrays)


def _bounded(data: bytes, bound: int) -> int:
    if len(data) != _NUMBER.size:
        raise EOFError("The stream ended inside a message.")
    (number,) = _NUMBER.unpack(data)
    if number > bound:
        raise ValueError(f"A message claims {number} where at most {bound} is possible.")
    return number


def _exactly(stream: IO[bytes], length: int) -> bytes:
    data = stream.read(length)
    if len(data) != length:
        raise EOFError("The stream ended inside a message.")
    return data
