"""The folder of compiled executables: entries under a key, checked when read, never half written.

An entry is a checksum and bytes of ours; nothing is unpickled. The folder is its user's alone. What
goes wrong costs one warning of the logger "ren" for each folder, and a compile. Entries that are
not read for `ren.config.cache_ttl_s` go.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import math
import os
import stat
import tempfile
import time
from functools import lru_cache
from pathlib import Path

from ren.config import config
from ren.lowering.store import cache_folder

_MAGIC = b"ren executable, format 1\n"
_ENTRY, _HALF = ".executable", ".tmp"
_HALF_S = 3600.0
_SUM = hashlib.sha256().digest_size

_log = logging.getLogger("ren")


class Store:
    """Entries in one folder, which is made if need be.

    Args:
        folder: where they are.
        ttl_s: seconds after which an entry that nobody reads goes.
    """

    def __init__(self, folder: Path, ttl_s: float = math.inf) -> None:
        self._folder = folder
        self._ttl_s = ttl_s
        self._has_warned = False
        self._can_write = True
        self._is_open = self._opened()

    def read(self, key: str) -> bytes | None:
        """The entry of a key; None where there is none that is whole."""
        if not self._is_open:
            return None
        try:
            data = _file_bytes(self._path(key))
        except FileNotFoundError:
            return None
        except OSError as error:
            self.warn(f"an entry cannot be read: {error}")
            return None
        body = data[len(_MAGIC) + _SUM :]
        if data != _MAGIC + hashlib.sha256(body).digest() + body:
            self.warn(f"the entry {key} is damaged")
            return None
        with contextlib.suppress(OSError):
            os.utime(self._path(key))
        return body

    def write(self, key: str, body: bytes) -> None:
        """Makes or replaces an entry: another process sees the old one, or the new one whole."""
        if not (self._is_open and self._can_write):
            return
        made = None
        try:
            number, made = tempfile.mkstemp(dir=self._folder, suffix=_HALF)  # mode 0600
            with os.fdopen(number, "wb") as file:
                file.write(_MAGIC + hashlib.sha256(body).digest() + body)
            os.replace(made, self._path(key))
        except OSError as error:
            self._can_write = False
            self.warn(f"nothing can be written: {error}")
            if made is not None:
                with contextlib.suppress(OSError):
                    os.unlink(made)

    def warn(self, reason: str) -> None:
        """Says once what is wrong with the folder."""
        if not self._has_warned:
            self._has_warned = True
            _log.warning("The cache of executables in %s: %s.", self._folder, reason)

    def _path(self, key: str) -> Path:
        return self._folder / f"{key}{_ENTRY}"

    def _opened(self) -> bool:
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            reason = _distrust(self._folder)
            if reason is None:
                self._sweep()
        except OSError as error:
            reason = str(error)
        if reason is not None:
            self.warn(f"it is not used: {reason}")
        return reason is None

    def _sweep(self) -> None:
        """Removes what has not been used for long, and what killed processes left half written."""
        now = time.time()
        with os.scandir(self._folder) as entries:
            for entry in entries:
                kind = next((k for k in (_ENTRY, _HALF) if entry.name.endswith(k)), None)
                oldest = {_ENTRY: self._ttl_s, _HALF: _HALF_S, None: math.inf}[kind]
                if now - entry.stat(follow_symlinks=False).st_mtime > oldest:
                    with contextlib.suppress(OSError):  # a folder, or gone already
                        os.unlink(entry.path)


def store(name: str = "executables") -> Store | None:
    """A store in the folder that the settings name; None when nothing is to be kept."""
    folder = cache_folder()
    return None if folder is None else _opened(folder / name, config.cache_ttl_s)


# The folder is looked at once, and says once what is wrong with it. Settings rarely change.
@lru_cache(maxsize=8)
def _opened(folder: Path, ttl_s: float) -> Store:
    return Store(folder, ttl_s)


def _distrust(folder: Path) -> str | None:
    """Why others could put executables into a folder, if they could."""
    if not hasattr(os, "getuid"):
        return None
    own, above = folder.stat(), folder.resolve().parent.stat()
    writable = stat.S_IWGRP | stat.S_IWOTH
    if own.st_uid != os.getuid() or above.st_uid not in (os.getuid(), 0):
        return "it, or the folder around it, belongs to another user"
    if own.st_mode & writable or (above.st_mode & writable and not above.st_mode & stat.S_ISVTX):
        return "others may write to it, or to the folder around it (chmod 700 mends it)"
    return None


def first_line(error: Exception) -> str:
    """An error in one line, for a warning."""
    return f"{type(error).__name__}: {error}".partition("\n")[0]


def _file_bytes(path: Path) -> bytes:
    """A regular file, whole: neither what a link points to nor a pipe, which would block."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    number = os.open(path, flags | getattr(os, "O_BINARY", 0))
    with os.fdopen(number, "rb") as file:
        if not stat.S_ISREG(os.fstat(number).st_mode):
            raise OSError(f"{path.name} is no file")
        return file.read()
