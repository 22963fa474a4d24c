"""Private folders: directories on disk in which no other user can place or change an entry.

Ren loads machine code from such folders, so it checks each level of the path and each entry.

- The folder belongs to this user, and no one else may write to it. Ren makes each missing level
  with mode 0700, whatever the umask.
- Each folder above belongs to this user or to root. Other users may write to it only if it is
  sticky, like /tmp. A link on the way belongs to this user or to root.
- A group may write to a folder above that belongs to this user. Under umask 002 users make such
  folders, among them `~/.cache`. To refuse those, as sshd does, would leave these users without a
  cache. A member of the group can rename Ren's folder there and put another in its place. The owner
  of that one, or of its entries, gives it away: this user owns both, or Ren ignores them. Where
  other programs use the folder by its path, as compilers do, no group may write above it.
- An entry is a regular file of this user, under one name, which no one else may write to. Ren
  deletes any other entry: it may date from a time when the folder was open to others.

A path may lead elsewhere between a check and a use. Ren therefore holds the folder by a descriptor
and opens entries relative to it without following links. It checks what it has opened. On systems
without such calls (Windows) it uses paths, and no group may write above the folder. Where files
have no POSIX owners and modes, it relies on the access rights of the user's profile.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

TEMPORARY = ".tmp"
TEMPORARY_S = 3600.0  # a process that was killed left a temporary file of this age

_MOST_LINKS = 40
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_HAS_DESCRIPTORS = (
    {os.open, os.stat, os.mkdir, os.readlink, os.rename, os.unlink, os.utime} <= os.supports_dir_fd
    and os.scandir in os.supports_fd
    and hasattr(os, "O_DIRECTORY")
    and hasattr(os, "O_NOFOLLOW")
)
_FILE = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_FOLDER = getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
# Linux opens a folder that may be passed through but not listed with O_PATH alone.
_LEVEL = _FOLDER | getattr(os, "O_PATH", os.O_RDONLY)


class ForeignEntryError(OSError):
    """An entry that another user may have written; Ren has deleted it."""


class PrivateFolder:
    """A folder of this user alone, held open until `close`.

    Args:
        path: where it is.
        is_made: whether to make the levels that are missing.
        by_path: whether other programs use the folder by its path.

    Raises:
        FileNotFoundError: the folder is missing, and `is_made` is False.
        OSError: the folder cannot be made or opened, or other users can change it.
        ValueError: the path contains a zero byte.
    """

    def __init__(self, path: Path, is_made: bool = True, by_path: bool = False) -> None:
        self._descriptor: int | None = None
        self.path = path
        if _HAS_DESCRIPTORS:
            self._descriptor = _walked(path, is_made, by_path)
        else:
            _walked_by_path(path, is_made)

    def read(self, name: str, most: int = -1) -> bytes:
        """Read an entry.

        Args:
            name: the file name of the entry.
            most: the number of bytes after which to stop; -1 for all.

        Raises:
            FileNotFoundError: the entry is missing.
            ForeignEntryError: another user may have written it; it is deleted.
            OSError: the entry cannot be read.
        """
        with os.fdopen(self._opened(name, os.O_RDONLY), "rb") as file:
            return file.read(most)

    def lock_file(self, name: str) -> int:
        """Open, or make, an entry for locks.

        Returns:
            A descriptor, which the caller closes.

        Raises:
            ForeignEntryError: another user may have made it; it is deleted.
            OSError: the entry cannot be opened.
        """
        return self._opened(name, os.O_RDWR | os.O_CREAT)

    def write(self, name: str, data: bytes, is_synced: bool = False) -> None:
        """Make or replace an entry; readers see the old bytes or all of the new ones.

        Args:
            name: the file name of the entry.
            data: its bytes.
            is_synced: whether the bytes reach the disk before the entry gets its name.

        Raises:
            OSError: the entry cannot be written.
        """
        made = f"{name}.{secrets.token_hex(8)}{TEMPORARY}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE
        descriptor = os.open(self._at(made), flags, 0o600, dir_fd=self._descriptor)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                if is_synced:
                    file.flush()
                    os.fsync(file.fileno())
            held = self._descriptor
            os.replace(self._at(made), self._at(name), src_dir_fd=held, dst_dir_fd=held)
        except BaseException:
            self._remove(made)
            raise

    def touch(self, name: str) -> None:
        """Set the time of an entry to now; an entry that is missing is ignored."""
        with suppress(OSError):
            os.utime(self._at(name), dir_fd=self._descriptor)

    def sweep(self, oldest_s: Mapping[str, float]) -> str | None:
        """Delete entries that are too old, and entries that another user may have written.

        Args:
            oldest_s: the greatest age in seconds, by the suffix of names; other names stay.

        Returns:
            Why one of the entries was foreign; None if none was.

        Raises:
            OSError: the folder cannot be listed.
        """
        now, foreign = time.time(), None
        held = self.path if self._descriptor is None else self._descriptor
        with os.scandir(held) as entries:
            for entry in entries:
                oldest = next((s for end, s in oldest_s.items() if entry.name.endswith(end)), None)
                if oldest is None:
                    continue
                with suppress(OSError):  # another process has deleted it
                    found = entry.stat(follow_symlinks=False)
                    reason = _foreign(found)
                    foreign = foreign or (reason and f"{entry.name} {reason}")
                    if reason is not None or now - found.st_mtime > oldest:
                        self._remove(entry.name)
        return foreign

    def close(self) -> None:
        """Give the descriptor back."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def __enter__(self) -> PrivateFolder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        with suppress(Exception):
            self.close()

    def _at(self, name: str) -> str:
        return name if self._descriptor is not None else str(self.path / name)

    def _remove(self, name: str) -> None:
        with suppress(OSError):  # a folder, or gone already
            os.unlink(self._at(name), dir_fd=self._descriptor)

    def _opened(self, name: str, flags: int) -> int:
        at, held = self._at(name), self._descriptor
        try:
            descriptor = os.open(at, flags | _FILE, 0o600, dir_fd=held)
        except FileNotFoundError:
            raise
        except OSError:  # a link, a socket, or a file that only its owner may read
            reason = _foreign(os.stat(at, dir_fd=held, follow_symlinks=False))
            if reason is None:
                raise
        else:
            try:
                reason = _foreign(os.fstat(descriptor))
            except BaseException:
                os.close(descriptor)
                raise
            if reason is None:
                return descriptor
            os.close(descriptor)
        self._remove(name)
        raise ForeignEntryError(f"{name} {reason}")


@contextmanager
def scratch() -> Iterator[Path]:
    """Make a private folder for temporary files; it is deleted on leaving.

    Raises:
        OSError: other users can replace the folder for temporary files.
    """
    with tempfile.TemporaryDirectory(prefix="ren-") as made:  # mode 0700
        try:
            PrivateFolder(Path(made), is_made=False, by_path=True).close()
        except PermissionError as error:
            raise PermissionError(f"{error}; TMPDIR can name another folder") from None
        yield Path(made)


def _has_owners() -> bool:
    return hasattr(os, "geteuid")


def _foreign(found: os.stat_result) -> str | None:
    """Return why an entry may be another user's work; None if this user alone made it."""
    if stat.S_ISLNK(found.st_mode):
        return "is a link"
    if not stat.S_ISREG(found.st_mode):
        return "is not a file"
    if not _has_owners():
        return None
    if found.st_uid != os.geteuid():
        return "belongs to another user"
    if found.st_mode & _OTHERS_WRITE:
        return "can be written by other users"
    # A name for a file of this user that another user chose. A file without a name was replaced.
    return "has another name elsewhere" if found.st_nlink > 1 else None


def _require_trust(found: os.stat_result, at: str, is_kept: bool, by_path: bool) -> None:
    """Check a folder: the private folder itself (`is_kept`), or a folder or link above it."""
    if not _has_owners():
        return
    user = os.geteuid()
    if found.st_uid != user and (is_kept or found.st_uid != 0):
        raise PermissionError(f"{at} belongs to another user")
    if stat.S_ISLNK(found.st_mode) or (not is_kept and found.st_mode & stat.S_ISVTX):
        return
    is_group_trusted = found.st_uid == user and not is_kept and not by_path
    if found.st_mode & (stat.S_IWOTH if is_group_trusted else _OTHERS_WRITE):
        raise PermissionError(f"others may write to {at} (chmod go-w mends it)")


def _walked(path: Path, is_made: bool, by_path: bool) -> int:
    """Open a folder level by level from the root; links are resolved here, one by one."""
    root, *names = (path if path.is_absolute() else _here() / path).parts
    left, links, at = names[::-1], 0, root
    held = os.open(root, _LEVEL)
    try:
        while True:
            _require_trust(os.fstat(held), at, not left, by_path)
            if not left:
                return os.open(".", os.O_RDONLY | _FOLDER, dir_fd=held)
            name = left.pop()
            found = _level(name, held, is_made)
            if not stat.S_ISLNK(found.st_mode):
                at, above = os.path.join(at, name), held
                held = os.open(name, _LEVEL, dir_fd=above)
                os.close(above)
                continue
            links += 1
            if links > _MOST_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
            _require_trust(found, os.path.join(at, name), False, by_path)
            target = Path(os.readlink(name, dir_fd=held))
            if target.is_absolute():
                at, above = root, held
                held = os.open(root, _LEVEL)
                os.close(above)
            left += [part for part in target.parts if part != target.root][::-1]
    finally:
        os.close(held)


def _here() -> Path:
    """The current folder, from which a path leads that is not absolute."""
    try:
        return Path(os.getcwd())
    except FileNotFoundError:
        reason = "the current folder was deleted, and the path is not absolute"
        raise FileNotFoundError(errno.ENOENT, reason) from None


def _level(name: str, above: int, is_made: bool) -> os.stat_result:
    """Return what a name in a folder stands for, which is made if it is missing."""
    try:
        return os.stat(name, dir_fd=above, follow_symlinks=False)
    except FileNotFoundError:
        if not is_made:
            raise
    with suppress(FileExistsError):  # another process was faster
        os.mkdir(name, 0o700, dir_fd=above)
    return os.stat(name, dir_fd=above, follow_symlinks=False)


def _walked_by_path(path: Path, is_made: bool) -> None:
    """Make a folder level by level and check each, on systems without descriptors of folders."""
    whole = path.absolute()
    for level in (*reversed(whole.parents), whole):
        if is_made and not level.exists():
            with suppress(FileExistsError):
                level.mkdir(0o700)
        found = level.stat()
        if not stat.S_ISDIR(found.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(level))
        _require_trust(found, str(level), level == whole, by_path=True)
