"""Store executables on disk: entries under a key, checked when read, never half written.

An entry is a checksum and bytes that Ren wrote; nothing is unpickled. The checksum covers the key,
so that an entry under the name of another is damaged. The folder is private (`private_folder`).
A failure costs a compile, and one warning of the logger "ren" for each folder. Entries that are
not read for `ren.config.cache_ttl_s` are deleted.
"""

from __future__ import annotations

import hashlib
import logging
import math
from functools import lru_cache
from pathlib import Path

from ren.config import config
from ren.lowering.storage.private_folder import (
    TEMPORARY,
    TEMPORARY_S,
    ForeignEntryError,
    PrivateFolder,
)
from ren.lowering.storage.profile_store import cache_folder

_MAGIC = b"ren executable, format 2\n"
_ENTRY = ".executable"
_SUM = hashlib.sha256().digest_size

_log = logging.getLogger("ren")


class Store:
    """Entries in one folder, which is made if need be.

    Args:
        folder: where they are.
        ttl_s: seconds without a read after which an entry is deleted.

    Attributes:
        problem: what is wrong with the folder, once that has shown.
    """

    def __init__(self, folder: Path, ttl_s: float = math.inf) -> None:
        self._path = folder
        self._ttl_s = ttl_s
        self.problem: str | None = None
        self._can_write = True
        self._folder = self._opened()

    def read(self, key: str) -> bytes | None:
        """Return the bytes under a key; None if there are none, or they are damaged or foreign."""
        if self._folder is None:
            return None
        name = f"{key}{_ENTRY}"
        try:
            data = self._folder.read(name)
        except FileNotFoundError:
            return None
        except ForeignEntryError as error:
            self.warn(f"a foreign entry is ignored: {error}")
            return None
        except OSError as error:
            self.warn(f"an entry cannot be read: {error}")
            return None
        body = data[len(_MAGIC) + _SUM :]
        if data != _framed(key, body):
            self.warn(f"the entry {key} is damaged")
            return None
        self._folder.touch(name)
        return body

    def write(self, key: str, body: bytes) -> None:
        """Make or replace an entry; other processes read the old one or all of the new one."""
        if self._folder is None or not self._can_write:
            return
        try:
            self._folder.write(f"{key}{_ENTRY}", _framed(key, body))
        except OSError as error:
            self._can_write = False
            self.warn(f"nothing can be written: {error}")

    def warn(self, reason: str) -> None:
        """Says once what is wrong with the folder."""
        if self.problem is None:
            self.problem = reason
            _log.warning("The cache of executables in %s: %s.", self._path, reason)

    def _opened(self) -> PrivateFolder | None:
        try:
            folder = PrivateFolder(self._path)
            foreign = folder.sweep({_ENTRY: self._ttl_s, TEMPORARY: TEMPORARY_S})
        except (OSError, ValueError) as error:
            self.warn(f"it is not used: {error}")
            return None
        if foreign is not None:
            self.warn(f"a foreign entry is ignored: {foreign}")
        return folder


def _framed(key: str, body: bytes) -> bytes:
    """Return the bytes of an entry's file."""
    return _MAGIC + hashlib.sha256(f"{key}\n".encode() + body).digest() + body


def store(name: str = "executables") -> Store | None:
    """A store in the folder that the settings name; None when nothing is to be kept."""
    folder = cache_folder()
    return None if folder is None else _opened(folder / name, config.cache_ttl_s)


# The folder is looked at once, and says once what is wrong with it. Settings rarely change.
@lru_cache(maxsize=8)
def _opened(folder: Path, ttl_s: float) -> Store:
    return Store(folder, ttl_s)


def first_line(error: Exception) -> str:
    """An error in one line, for a warning."""
    return f"{type(error).__name__}: {error}".partition("\n")[0]
