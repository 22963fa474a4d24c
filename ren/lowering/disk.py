"""The folder of compiled executables: entries under a key, checked when read, never half written.

An entry is a checksum and bytes of ours; nothing is unpickled. The folder is its user's alone. What
goes wrong costs one warning of the logger "ren" for each folder, and a compile.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import stat
import tempfile
from pathlib import Path

_MAGIC = b"ren executable, format 1\n"
_SUM = hashlib.sha256().digest_size

_log = logging.getLogger("ren")


class Store:
    """Entries in one folder; see `store`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
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
        return body

    def write(self, key: str, body: bytes) -> None:
        """Makes or replaces an entry: another process sees the old one, or the new one whole."""
        if not (self._is_open and self._can_write):
            return
        made = None
        try:
            number, made = tempfile.mkstemp(dir=self._folder, prefix="new-")  # mode 0600
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
        return self._folder / f"{key}.ren"

    def _opened(self) -> bool:
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            found = os.stat(self._folder)
        except OSError as error:
            self.warn(f"it is not used: {error}")
            return False
        if hasattr(os, "getuid") and found.st_uid != os.getuid():
            self.warn("it is not used, as it belongs to another user")
            return False
        if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and os.name == "posix":
            self.warn("it is not used, as others may write to it (chmod 700 mends it)")
            return False
        return True


# The store in use: one for the process, set by the configuration.
_store: Store | None = None


def set_folder(folder: str | os.PathLike[str] | None) -> None:
    """Keeps executables in `folder` from now on, which is made if need be; None keeps none."""
    global _store
    _store = None if folder is None else Store(Path(folder).expanduser())


def store() -> Store | None:
    """The store in use, if one is."""
    return _store


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
