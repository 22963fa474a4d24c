"""The store: what was learnt about plans, kept on disk for the processes to come.

Nothing in it is needed. Whatever is wrong with the folder or the file costs one warning.
"""

from __future__ import annotations

import atexit
import logging
import threading
import time
from collections.abc import Callable, Mapping
from functools import lru_cache
from os import PathLike
from pathlib import Path

import attrs

from ren.config import config
from ren.lowering.storage import profile_file as store_file
from ren.lowering.storage.profile_file import DamagedFileError
from ren.lowering.storage.telemetry import Entry

FOLDER = "telemetry"

_log = logging.getLogger("ren")


class Store:
    """Entries by the digest of their plan, in memory and in one file that processes share.

    Args:
        folder: where the file is; it is made when something is first written, for its user alone.
            None keeps all in memory.
        ttl_s: seconds for which an entry holds.
        max_entries: the most that are kept; those that were updated least recently go.
        refresh_s: seconds for which an entry that says the same again is not written again.
        flush_min: as many plans that are new are written together.
        flush_max: as many entries, new or not, are written together.
        clock: seconds since the epoch.
    """

    def __init__(
        self,
        folder: str | PathLike[str] | None,
        ttl_s: float,
        max_entries: int,
        refresh_s: float,
        flush_min: int,
        flush_max: int,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._folder = None if folder is None else Path(folder)
        self._ttl_s, self._max_entries, self._refresh_s = ttl_s, max_entries, refresh_s
        self._flush_min, self._flush_max = flush_min, flush_max
        self._clock = clock
        self._entries: dict[str, Entry] = {}
        self._pending: dict[str, Entry] = {}
        self._new: set[str] = set()
        self._is_read = self._is_damaged = self._has_failed = self._has_warned = False
        self._lock = threading.Lock()  # of what is in memory; never held while writing
        self._writing = threading.Lock()

    def known(self, digest: str) -> Entry | None:
        """Entry of a plan, if there is one that still holds."""
        with self._lock:
            self._read_once()
            entry = self._entries.get(digest)
            return entry if entry is not None and self._holds(entry) else None

    def remember(self, digest: str, entry: Entry) -> None:
        """Keeps what was learnt just now; `entry.updated_s` is set here.

        An entry with the tier that is known, of samples of the same tiers, is taken for unchanged.
        """
        try:
            store_file.checked_digest(digest)
            entry = store_file.checked(attrs.evolve(entry, updated_s=self._clock()))
        except (ValueError, TypeError, ArithmeticError) as error:
            self._warn(f"an entry with a bad field ({error})")
            return
        with self._lock:
            self._read_once()
            known = self._entries.get(digest)
            if known is not None and self._holds(known) and self._is_settled(known, entry):
                return
            if known is None:
                self._new.add(digest)
            self._entries[digest] = self._pending[digest] = entry
            if len(self._entries) > self._max_entries:
                self._entries = self._kept(self._entries)
            if len(self._pending) > self._max_entries:  # nothing can be written
                self._pending = self._kept(self._pending)
                self._new &= self._pending.keys()
            is_due = len(self._new) >= self._flush_min or len(self._pending) >= self._flush_max
            is_due = is_due and not self._has_failed
        if is_due:
            self.flush()

    def flush(self) -> None:
        """Writes what is pending, together with what others have written meanwhile.

        Where that fails, what is pending waits for the next call, at the latest at exit.
        """
        with self._writing:
            with self._lock:
                self._read_once()
                pending, self._pending, self._new = self._pending, {}, set()
                is_due = bool(pending) or self._is_damaged
            if self._folder is None or not is_due:
                return
            try:
                merged = self._written(self._folder, pending)
            except (OSError, ValueError) as error:
                self._warn(error)
                with self._lock:
                    self._has_failed = True
                    self._pending = self._kept(_newest(pending, self._pending))
                return
            with self._lock:
                self._is_damaged = self._has_failed = False
                self._entries = self._kept(_newest(merged, self._entries))

    def _written(self, folder: Path, pending: Mapping[str, Entry]) -> dict[str, Entry]:
        """Writes `pending` into the file, and returns all that is in it then."""
        with store_file.locked(folder) as held:
            try:
                present = store_file.present(held)
            except DamagedFileError as error:  # it is about to be replaced
                self._warn(error)
                present = {}
            merged = self._kept(_newest(present, pending))
            store_file.replace(held, merged)
        return merged

    def _read_once(self) -> None:
        if self._is_read or self._folder is None:
            return
        self._is_read = True
        try:
            self._entries = self._kept(store_file.read(self._folder))
        except (OSError, ValueError) as error:
            self._is_damaged = isinstance(error, DamagedFileError)
            self._warn(error)

    def _holds(self, entry: Entry) -> bool:
        return self._clock() - entry.updated_s < self._ttl_s

    def _is_settled(self, known: Entry, entry: Entry) -> bool:
        """True when `entry` says what is known, and that is not old."""
        if entry.updated_s - known.updated_s >= self._refresh_s or known.tier != entry.tier:
            return False
        return {s[0] for s in known.samples} == {s[0] for s in entry.samples}

    def _kept(self, entries: Mapping[str, Entry]) -> dict[str, Entry]:
        """The entries that still hold, the most recent if they are too many.

        A clock that was set back must not keep an entry for ever: none is of the future.
        """
        now = self._clock()
        held = (
            (digest, entry if entry.updated_s <= now else attrs.evolve(entry, updated_s=now))
            for digest, entry in entries.items()
        )
        live = [pair for pair in held if self._holds(pair[1])]
        live.sort(key=lambda pair: pair[1].updated_s, reverse=True)
        return dict(live[: self._max_entries])

    def _warn(self, reason: object) -> None:
        """Tells the first thing that goes wrong; the rest follows from it, or is as harmless."""
        if not self._has_warned:
            self._has_warned = True
            place = "" if self._folder is None else f" in {self._folder}"
            _log.warning("What ren.jit learnt%s is not used or not kept: %s", place, reason)


def _newest(*entries: Mapping[str, Entry]) -> dict[str, Entry]:
    """All entries; of one plan the latest."""
    found: dict[str, Entry] = {}
    for digest, entry in (pair for held in entries for pair in held.items()):
        known = found.get(digest)
        if known is None or known.updated_s <= entry.updated_s:
            found[digest] = entry
    return found


def default_store() -> Store:
    """The store of this process for the settings in force, flushed at exit.

    Its folder is one that Ren makes, inside that of the settings. Users make theirs under umasks
    that let a group write to it.
    """
    folder = cache_folder()
    return _shared(
        None if folder is None else folder / FOLDER,
        config.cache_ttl_s,
        config.cache_max_entries,
        config.cache_refresh_s,
        config.cache_flush_min,
        config.cache_flush_max,
    )


def cache_folder() -> Path | None:
    """Folder of all that is kept between processes, by the settings; None when nothing is kept."""
    chosen = config.cache_dir
    if chosen == "off":
        return None
    try:
        return Path.home() / ".cache" / "ren" if chosen is None else Path(chosen)
    except RuntimeError:  # a user without a home
        return None


# Settings rarely change, so this holds one store: the one file of Ren's that a process has open.
@lru_cache(maxsize=8)
def _shared(
    folder: Path | None,
    ttl_s: float,
    max_entries: int,
    refresh_s: float,
    flush_min: int,
    flush_max: int,
) -> Store:
    store = Store(folder, ttl_s, max_entries, refresh_s, flush_min, flush_max)
    atexit.register(store.flush)
    return store
