"""Mutants of serialized objects with a valid checksum.

The mutants name no header field, so that new fields are mutated too. `FRAME.unpack` reads the
header, a JSON text; the frame precedes it, and the arrays follow it.
"""

from __future__ import annotations

import hashlib
import json
import random
import struct
from collections.abc import Callable, Iterator
from typing import Any

import attrs

from ren.schemes.ckks.parameters.parameters import FRAME

CHECKSUM = 32
Path = tuple[Any, ...]

# Values of every type: near 0, huge, not finite, nested, empty, long, and text that is not Unicode.
WRONG: tuple[Any, ...] = (
    0, 1, -1, 2, 1 << 31, 1 << 32, 1 << 40, 1 << 63, 10**400, -(10**400), 1.0, 1.5, -0.0, 1e308,
    float("nan"), float("inf"), float("-inf"), True, False, None, "", "0", "x" * 999, "00" * 16,
    "00" * 32, "zz" * 32, "\ud800", "\0", "128-bit security", [], [[]], [0], [1, 1], [1 << 40] * 3,
    [5] * 9999, [None], [[1, 2], [3, 4]], [["00" * 16, "00" * 32]] * 3, {}, {"n": 1}, {"": {}},
)  # fmt: skip
# Header texts that no writer makes.
TEXTS = (
    b"", b"{", b"{}", b"[]", b"null", b"1", b'"text"', b"NaN", b"[" * 100_000, b'{"a":' * 100_000,
    b"9" * 5000, b'{"n":' + b"9" * 5000 + b"}", b"\xff\xfe{}", b"\xef\xbb\xbf{}", b"{}\0", b"{} {}",
)  # fmt: skip


@attrs.frozen
class Blob:
    """Serialized bytes, their header and where it stands; no header where `kind` is empty."""

    kind: str
    data: bytes
    header: dict[str, Any]
    start: int
    end: int

    @property
    def body(self) -> bytes:
        """The arrays."""
        return self.data[self.end : -CHECKSUM]

    def with_text(self, text: bytes) -> bytes:
        """The same with another header text."""
        head = self.data[: self.start - 4] + struct.pack("<I", len(text))
        return sealed(head + text + self.body)

    def with_header(self, header: object) -> bytes:
        """The same with another header."""
        return self.with_text(json.dumps(header).encode())

    def with_body(self, body: bytes) -> bytes:
        """The same with other arrays."""
        return sealed(self.data[: self.end] + body)


def blob(kind: str, data: bytes) -> Blob:
    """Bytes of a framed kind with their header."""
    header = FRAME.unpack(kind, data).header
    text = json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
    start = data.index(text)
    assert struct.unpack_from("<I", data, start - 4) == (len(text),)
    return Blob(kind, data, header, start, start + len(text))


def unframed(data: bytes, head: int) -> Blob:
    """Bytes that begin with `head` bytes of numbers, not with a frame."""
    return Blob("", data, {}, head, head)


def sealed(body: bytes) -> bytes:
    """The bytes with their checksum."""
    return body + hashlib.sha256(body).digest()


def paths(value: object, ahead: Path = ()) -> Iterator[Path]:
    """Where each value in a header stands, containers too."""
    if ahead:
        yield ahead
    if isinstance(value, dict):
        for name in value:
            yield from paths(value[name], (*ahead, name))
    if isinstance(value, list):
        for i, item in enumerate(value):
            yield from paths(item, (*ahead, i))


def at(value: Any, path: Path) -> Any:
    """The value that stands at a path."""
    for step in path:
        value = value[step]
    return value


def edited(header: Any, path: Path, edit: Callable[[Any, Any], None]) -> Any:
    """A copy of a header after `edit(container, key)` of what stands at a path."""
    copy = json.loads(json.dumps(header))
    edit(at(copy, path[:-1]), path[-1])
    return copy


def mutant(draw: random.Random, own: Blob, others: list[Blob]) -> bytes:
    """One mutant of `own`; parts of `others` serve as foreign ones."""
    kinds = [_flipped, _flipped, _moved] if not own.kind else _FRAMED
    return draw.choice(kinds)(draw, own, others)


def _flipped(draw: random.Random, own: Blob, others: list[Blob]) -> bytes:
    """Bits flipped, or a word replaced, in what stands before the arrays or in them."""
    changed = bytearray(own.data[:-CHECKSUM])
    low, high = draw.choice(((0, own.end), (0, len(changed)), (own.end, len(changed))))
    for _ in range(draw.choice((1, 1, 1, 2, 8))):
        if low < high:
            changed[draw.randrange(low, high)] ^= 1 << draw.randrange(8)
    if draw.random() < 0.3:
        place = draw.randrange(len(changed) - 4)
        value = draw.choice((0, 1, 0xFFFFFFFF, 1 << 31, 1 << 30, draw.getrandbits(32)))
        changed[place : place + 4] = struct.pack("<I", value)
    return sealed(bytes(changed))


def _moved(draw: random.Random, own: Blob, others: list[Blob]) -> bytes:
    """Arrays that are cut, extended, swapped, shifted or foreign."""
    body = own.body
    a, b = sorted(draw.randrange(len(body) + 1) for _ in range(2))
    size = draw.choice((1, 4, 64, 256, max(1, len(body) // 2)))
    left, right = (i // size * size for i in (a, b))
    swapped = bytearray(body)
    if right + size <= len(body):
        swapped[left : left + size] = body[right : right + size]
        swapped[right : right + size] = body[left : left + size]
    return own.with_body(
        draw.choice(
            (
                body[:a], body[a:], body[:a] + body[b:], body + bytes(b - a), bytes(swapped),
                body + body, body[a:] + body[:a], b"\xff" * len(body), bytes(len(body)),
                body[:a] + draw.choice(others).body[: len(body) - a], b"",
            )
        )
    )  # fmt: skip


def _replaced(draw: random.Random, own: Blob, others: list[Blob]) -> bytes:
    """A value of the header that is another: of another type, size or field, or a near one."""
    every = list(paths(own.header))
    path = draw.choice(every)
    old = at(own.header, path)
    near = [old + 1, old - 1, -old, 2 * old, float(old), str(old)] if type(old) is int else [[old]]
    foreign = at(own.header, draw.choice(every))
    new = draw.choice((draw.choice(WRONG), draw.choice(WRONG), draw.choice(near), foreign))

    def replace(container: Any, key: Any) -> None:
        container[key] = new

    return own.with_header(edited(own.header, path, replace))


def _restructured(draw: random.Random, own: Blob, others: list[Blob]) -> bytes:
    """Fields and items that are missing, added, doubled or in another order."""
    path = draw.choice(list(paths(own.header)))

    def remove(container: Any, key: Any) -> None:
        del container[key]

    def add(container: Any, key: Any) -> None:
        wrong = draw.choice(WRONG)
        container.insert(key, wrong) if isinstance(container, list) else container.update(x=wrong)

    def double(container: Any, key: Any) -> None:
        if isinstance(container, list):
            container.insert(key, container[key])
        else:
            container[key] = [container[key], container[key]]

    def shuffle(container: Any, key: Any) -> None:
        if isinstance(container, list):
            draw.shuffle(container)
        else:
            other = draw.choice(sorted(container))
            container[key], container[other] = container[other], container[key]

    edit = draw.choice((remove, add, double, shuffle))
    return own.with_header(edited(own.header, path, edit))


def _respelt(draw: random.Random, own: Blob, others: list[Blob]) -> bytes:
    """Another text for a header: a key twice, no JSON, cut, or too deep."""
    text = own.data[own.start : own.end]
    name = draw.choice(sorted(own.header))
    twice = json.dumps({name: draw.choice(WRONG)}).encode()
    cut = draw.randrange(len(text))
    made = draw.choice(
        (
            twice[:-1] + b"," + text[1:], text[:-1] + b"," + twice[1:], text[:cut], text[cut:],
            text + b" ", b" " * 9 + text, text[:cut] + b"\0" + text[cut:], text.upper(),
            text.replace(b":", b": "), draw.choice(TEXTS), draw.randbytes(99),
        )
    )  # fmt: skip
    return own.with_text(made)


def _reframed(draw: random.Random, own: Blob, others: list[Blob]) -> bytes:
    """The frame, header or arrays of another object."""
    other = draw.choice(others)
    head, text, body = (
        draw.choice((own, other)).data[: own.start - 4],
        draw.choice((own, other)).header,
        draw.choice((own, other)).body,
    )
    size = draw.choice((None, None, None, 0, 1, (1 << 32) - 1, len(body)))
    spelt = json.dumps(text, sort_keys=True, separators=(",", ":")).encode()
    length = struct.pack("<I", len(spelt) if size is None else size)
    return sealed(head + length + spelt + body)


_FRAMED = (
    _flipped, _flipped, _moved, _moved, _replaced, _replaced, _replaced, _replaced, _restructured,
    _restructured, _respelt, _reframed,
)  # fmt: skip
