"""Messages between client and server: a kind, a length and a body, over a stream.

The head of a message is one byte for the kind and eight for the length, big-endian. What the body
means is not known here. A reader refuses a length beyond its limit before it reads on.
"""

from __future__ import annotations

import enum
import struct
from io import BufferedIOBase

MAX_BYTES = 1 << 26  # 64 MiB; the keys of this example take 1.5 MiB
_HEAD = struct.Struct(">cQ")


class MessageError(Exception):
    """A message that is damaged, cut off or too long; after it a stream is of no more use."""


class Kind(enum.Enum):
    """What a body is. A server answers `KEYS` by `READY`, `SAMPLES` by `SCORES`, or by `ERROR`."""

    KEYS = b"K"
    SAMPLES = b"S"
    READY = b"O"
    SCORES = b"R"
    ERROR = b"E"


def send(stream: BufferedIOBase, kind: Kind, body: bytes = b"") -> None:
    """Writes one message.

    Raises:
        MessageError: a body that the other side would refuse.
    """
    _check(len(body), MAX_BYTES)
    stream.write(_HEAD.pack(kind.value, len(body)) + body)
    stream.flush()


def receive(stream: BufferedIOBase, limit: int = MAX_BYTES) -> tuple[Kind, bytes] | None:
    """Reads one message; None where the stream ends before it.

    Raises:
        MessageError: a kind that there is not, a length beyond `limit`, or an end inside.
    """
    head = stream.read(_HEAD.size)
    if not head:
        return None
    if len(head) < _HEAD.size:
        raise MessageError(f"The stream ended inside a message's head, after {len(head)} bytes.")
    letter, length = _HEAD.unpack(head)
    if letter not in {kind.value for kind in Kind}:
        raise MessageError(f"A message began with {letter!r}, which is no kind of message.")
    _check(length, limit)
    body = stream.read(length)
    if len(body) < length:
        raise MessageError(f"A message of {length} bytes ended after {len(body)}.")
    return Kind(letter), body


def _check(length: int, limit: int) -> None:
    if length > limit:
        raise MessageError(f"A message has {length} bytes; at most {limit} are taken.")
