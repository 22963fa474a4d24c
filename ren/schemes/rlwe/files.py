"""Bytes to files and back: written whole or not at all."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Any, Self

PathLike = str | os.PathLike[str]
PRIVATE, SHARED = 0o600, 0o666  # what the user's umask leaves of them


def write(path: PathLike, data: bytes, mode: int = SHARED) -> None:
    """Writes `data` to a file that appears, or replaces another, at once.

    Raises:
        OSError: the place cannot be written to; what was there stays.
    """
    target = Path(path)
    beside = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    try:
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, target)
    finally:
        beside.unlink(missing_ok=True)


class Stored:
    """Gives a class with `to_bytes` and `from_bytes` their counterparts for files."""

    __slots__ = ()

    def save(self: Any, path: PathLike) -> None:
        """Writes `to_bytes()` to a file, whole or not at all.

        Raises:
            OSError: the place cannot be written to.
        """
        write(path, self.to_bytes())

    @classmethod
    def load(cls, path: PathLike) -> Self:
        """The object that `save` wrote; the data of others is as safe to load as from bytes.

        Raises:
            SerializationError: a file that is truncated, altered or foreign.
            OSError: no file, or one that cannot be read.
        """
        whole: Any = cls
        return whole.from_bytes(Path(path).read_bytes())
