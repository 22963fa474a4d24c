"""The file of a store: a line of header with a checksum, then JSON; read with distrust.

The header names the format, its version and the version of Ren. It has the number of bytes of the
body and the SHA-256 of all the rest. The folder is private (`private_folder`). A reader sees a
whole file or none: writers make a new one beside it and rename it.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import attrs

from ren.core.version import __version__
from ren.lowering.storage.private_folder import TEMPORARY, TEMPORARY_S, PrivateFolder
from ren.lowering.storage.telemetry import Entry

try:
    import fcntl
except ImportError:  # Windows: writers may lose an entry to each other there, and nothing else
    fcntl = None

FILE_NAME, LOCK_NAME = "plans", "plans.lock"
MAX_BYTES = 1 << 26
LOCK_SECONDS = 1.0  # after that a write goes on without the lock: its holder may be stopped

_MAGIC, _FORMAT = "ren-plans", 1
_MAX_HEADER = 256
_MAX_NAME, _MAX_SAMPLES, _MAX_INT = 64, 64, 1 << 63
_DIGEST = re.compile(r"[0-9a-f]{64}")


class DamagedFileError(ValueError):
    """A store's file that is not what a store writes; never seen by users."""


# ------------------------------------------------------------------- bytes


def encode(entries: Mapping[str, Entry]) -> bytes:
    """The bytes of a file with these entries, by digest."""
    held = {digest: attrs.asdict(entry) for digest, entry in entries.items()}
    body = json.dumps(held, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
    start = f"{_MAGIC} {_FORMAT} {__version__} {len(body)}"
    return f"{start} {_checksum(start, body)}\n".encode() + body


def decode(data: bytes) -> dict[str, Entry]:
    """The entries of a file, by digest.

    Raises:
        DamagedFileError: truncated, altered or foreign bytes, or another version.
    """
    header, newline, body = data.partition(b"\n")
    fields = header[:_MAX_HEADER].decode("ascii", "replace").split(" ")
    if not newline or len(fields) != 5 or fields[0] != _MAGIC:
        raise DamagedFileError("it does not begin as such a file")
    start = " ".join(fields[:4])
    if fields[1:3] != [str(_FORMAT), __version__]:
        raise DamagedFileError(f"it is of another version, {fields[1]} of {fields[2]}")
    if fields[3] != str(len(body)) or fields[4] != _checksum(start, body):
        raise DamagedFileError("it is truncated or altered")
    try:
        held = json.loads(body.decode(), parse_constant=_refused)
        return {checked_digest(key): checked(Entry(**value)) for key, value in held.items()}
    except (ValueError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        raise DamagedFileError("its entries are not well formed") from error


def checked(entry: Entry) -> Entry:
    """The entry, in types that its print keeps.

    Raises:
        ValueError: a field of the wrong type, negative, not finite or too large.
    """
    if not isinstance(entry.samples, list | tuple) or len(entry.samples) > _MAX_SAMPLES:
        raise ValueError("samples")
    samples = tuple(
        (_name(tier), _count(runs), _number(mean), _number(variance))
        for tier, runs, mean, variance in entry.samples
    )
    return Entry(_name(entry.tier), samples, _count(entry.compile_ns), _number(entry.updated_s))


def checked_digest(key: str) -> str:
    """The digest of a plan: 64 hex digits.

    Raises:
        ValueError: it is none.
    """
    if not _DIGEST.fullmatch(key):
        raise ValueError("digest")
    return key


def _checksum(start: str, body: bytes) -> str:
    return hashlib.sha256(f"{start}\n".encode() + body).hexdigest()


def _refused(constant: str) -> NoReturn:
    raise ValueError(constant)


def _name(value: Any) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= _MAX_NAME:
        raise ValueError("name")
    return value


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < _MAX_INT:
        raise ValueError("count")
    return value


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("number")
    if not (math.isfinite(value) and value >= 0):
        raise ValueError("number")
    return float(value)


# ------------------------------------------------------------------- disk


def read(path: Path) -> dict[str, Entry]:
    """Return the entries in a folder; none if there is no file.

    Args:
        path: where the folder is; it is not made.

    Raises:
        OSError: other users can change the folder.
        DamagedFileError: the file is unreadable, foreign, or not what `replace` wrote.
    """
    try:
        with PrivateFolder(path, is_made=False) as folder:
            return present(folder)
    except FileNotFoundError:
        return {}


def present(folder: PrivateFolder) -> dict[str, Entry]:
    """Return the entries in an open folder; none if there is no file.

    Raises:
        DamagedFileError: the file is unreadable, foreign, or not what `replace` wrote.
    """
    try:
        data = folder.read(FILE_NAME, MAX_BYTES + 1)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise DamagedFileError(error) from error
    if len(data) > MAX_BYTES:
        raise DamagedFileError("it is too large")
    return decode(data)


def replace(folder: PrivateFolder, entries: Mapping[str, Entry]) -> None:
    """Write the file anew, whole or not at all.

    Raises:
        OSError: it cannot be written.
    """
    data = encode(entries)
    if len(data) > MAX_BYTES:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), FILE_NAME)
    folder.sweep({TEMPORARY: TEMPORARY_S})
    folder.write(FILE_NAME, data, is_synced=True)


@contextmanager
def locked(path: Path) -> Iterator[PrivateFolder]:
    """Open a folder, made if it is missing, and keep other writers out where the system can.

    Raises:
        OSError: the folder cannot be made, or other users can change it.
    """
    with PrivateFolder(path) as folder:
        descriptor = folder.lock_file(LOCK_NAME)
        try:
            _lock(descriptor)
            yield folder
        finally:
            os.close(descriptor)  # gives the lock back


def _lock(descriptor: int) -> None:
    if fcntl is None:
        return
    until = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                return
        except OSError:  # a file system without locks
            return
        time.sleep(0.005)
