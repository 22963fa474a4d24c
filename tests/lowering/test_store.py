"""The store: entries, expiry, batches, and a folder that processes share."""

from __future__ import annotations

import json
import logging
import os
import secrets
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import attrs
import pytest

from ren.config import config
from ren.lowering.storage import profile_file as store_file
from ren.lowering.storage import profile_store as stores
from ren.lowering.storage.profile_file import FILE_NAME, LOCK_NAME
from ren.lowering.storage.profile_store import Store
from ren.lowering.storage.telemetry import Entry

ROOT = Path(__file__).resolve().parents[2]


class Clock:
    """A clock that stands until it is set."""

    def __init__(self, now: float = 1e9) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def make(folder, clock=None, **options) -> Store:
    limits = {"ttl_s": 1000, "max_entries": 100, "refresh_s": 100, "flush_min": 1, "flush_max": 50}
    return Store(folder, **{**limits, **options}, clock=clock or Clock())


def name(i: int) -> str:
    return f"{i:064x}"


def entry(tier: str = "graph", runs: int = 3) -> Entry:
    samples = (("units", runs, 1.5e6, 2.5e9), ("graph", 9, 1e6, 0.0))
    return Entry(tier, samples, 123_456_789, 1e9)


@pytest.fixture(autouse=True)
def quiet(caplog):
    """What a test does not take out of the log must not be there."""
    caplog.set_level(logging.DEBUG, "ren")
    yield
    assert not caplog.records


# ------------------------------------------------------------------- entries


def test_a_later_process_knows_what_was_learnt(tmp_path):
    folder = tmp_path / "a" / "b"
    store = make(folder)
    assert store.known(name(1)) is None
    store.remember(name(1), entry())
    assert store.known(name(1)) == entry()
    assert make(folder).known(name(1)) == entry()
    assert make(folder).known(name(2)) is None


def test_the_file_is_its_users_alone(tmp_path):
    make(tmp_path / "cache").remember(name(1), entry())
    modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in (tmp_path / "cache").iterdir()}
    assert modes == {FILE_NAME: 0o600, LOCK_NAME: 0o600}
    assert stat.S_IMODE((tmp_path / "cache").stat().st_mode) == 0o700


def test_the_file_is_a_header_and_json(tmp_path):
    make(tmp_path).remember(name(7), entry())
    header, _, body = (tmp_path / FILE_NAME).read_bytes().partition(b"\n")
    assert header.split()[:2] == [b"ren-plans", b"1"]
    held = json.loads(body)
    assert list(held) == [name(7)]
    assert set(held[name(7)]) == {f.name for f in attrs.fields(Entry)}


def test_entries_expire(tmp_path):
    clock = Clock()
    store = make(tmp_path, clock)
    store.remember(name(1), entry())
    clock.now += 999
    store.remember(name(2), entry())
    assert store.known(name(1)) and make(tmp_path, clock).known(name(1))
    clock.now += 1
    assert store.known(name(1)) is None
    late = make(tmp_path, clock)
    assert late.known(name(1)) is None and late.known(name(2))
    late.remember(name(3), entry())
    assert set(store_file.read(tmp_path)) == {name(2), name(3)}


def test_a_clock_that_was_set_back_keeps_nothing_for_ever(tmp_path):
    clock = Clock()
    make(tmp_path, clock).remember(name(1), entry())
    clock.now -= 500_000
    store = make(tmp_path, clock)
    assert store.known(name(1)).updated_s == clock.now
    clock.now += 1000
    assert store.known(name(1)) is None


def test_the_least_recently_updated_go(tmp_path):
    clock = Clock()
    store = make(tmp_path, clock, max_entries=3)
    for i in (0, 1, 2, 0, 3):
        clock.now += 1
        store.remember(name(i), entry(runs=i, tier=f"tier {clock.now}"))
    for held in (store, make(tmp_path, clock, max_entries=3)):
        assert [held.known(name(i)) is None for i in range(4)] == [False, True, False, False]


def test_an_unchanged_entry_is_written_again_only_after_a_while(tmp_path):
    clock, path = Clock(), tmp_path / FILE_NAME
    store = make(tmp_path, clock, flush_max=1)
    store.remember(name(1), entry())
    first = path.stat().st_ino
    clock.now += 99
    store.remember(name(1), entry(runs=1000))  # says the same
    store.flush()
    assert path.stat().st_ino == first
    store.remember(name(1), entry(tier="units"))
    assert store_file.read(tmp_path)[name(1)].tier == "units"
    clock.now += 100
    store.remember(name(1), entry(tier="units", runs=1000))
    assert store_file.read(tmp_path)[name(1)].samples[0][1] == 1000
    assert store_file.read(tmp_path)[name(1)].updated_s == clock.now


def test_new_entries_are_written_together(tmp_path):
    store = make(tmp_path, flush_min=3)
    for i in range(2):
        store.remember(name(i), entry())
    assert not (tmp_path / FILE_NAME).exists()
    assert store.known(name(1)) == entry()
    store.remember(name(2), entry())
    assert len(store_file.read(tmp_path)) == 3
    store.remember(name(3), entry())
    assert len(store_file.read(tmp_path)) == 3
    store.flush()
    assert len(store_file.read(tmp_path)) == 4


def test_updates_are_written_together(tmp_path):
    store = make(tmp_path, flush_min=5, flush_max=8)
    for i in range(5):
        store.remember(name(i), entry())
    for i in range(7):
        store.remember(name(i % 5), entry(tier=f"tier {i}"))
    assert {e.tier for e in store_file.read(tmp_path).values()} == {"graph"}
    store.remember(name(5), entry())  # the sixth that is pending: five were changed twice
    store.remember(name(6), entry())
    assert len(store_file.read(tmp_path)) == 5
    store.remember(name(7), entry())
    assert len(store_file.read(tmp_path)) == 8
    assert store_file.read(tmp_path)[name(1)].tier == "tier 6"


def test_without_a_folder_all_stays_in_memory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = make(None)
    store.remember(name(1), entry())
    store.flush()
    assert store.known(name(1)) == entry()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "bad",
    [
        entry(tier=""),
        attrs.evolve(entry(), tier=3),
        attrs.evolve(entry(), compile_ns=-1),
        attrs.evolve(entry(), compile_ns=1.5),
        attrs.evolve(entry(), samples=(("units", 1, float("nan"), 0.0),)),
        attrs.evolve(entry(), samples=(("units", 1, 1.0, -1.0),)),
        attrs.evolve(entry(), samples=(("units", 1, 10**400, 1.0),)),
        attrs.evolve(entry(), samples=(("units", 1),)),
        attrs.evolve(entry(), samples=None),
    ],
    ids=repr,
)
def test_a_bad_entry_is_not_kept(tmp_path, caplog, bad):
    store = make(tmp_path)
    for _ in range(2):
        store.remember(name(1), bad)
    assert store.known(name(1)) is None
    store.remember("no digest", entry())
    store.remember(name(2), entry())
    assert make(tmp_path).known(name(2)) == entry()
    assert_one_warning(caplog)


# ------------------------------------------------------------------- many writers


def test_writers_keep_each_others_entries(tmp_path):
    clock = Clock()
    one, two = make(tmp_path, clock), make(tmp_path, clock)
    assert one.known(name(1)) is two.known(name(1)) is None
    one.remember(name(1), entry())
    clock.now += 1
    two.remember(name(2), entry())
    two.remember(name(1), entry(tier="units"))
    two.flush()
    one.remember(name(3), entry())
    assert one.known(name(2)) == attrs.evolve(entry(), updated_s=clock.now)
    assert one.known(name(1)).tier == "units"
    assert set(store_file.read(tmp_path)) == {name(1), name(2), name(3)}


def test_threads_share_a_store(tmp_path):
    store = make(tmp_path, max_entries=1000, flush_min=7)

    def learn(first: int) -> None:
        for i in range(first, first + 50):
            store.remember(name(i), entry())
            assert store.known(name(i))

    threads = [threading.Thread(target=learn, args=(50 * i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    store.flush()
    assert len(store_file.read(tmp_path)) == 200


TWO_AT_ONCE = """
import sys
from pathlib import Path
from ren.lowering.storage.profile_store import Store
from ren.lowering.storage.telemetry import Entry

folder, first = Path(sys.argv[1]), int(sys.argv[2])
store = Store(folder / "cache", 1e6, 10_000, 0.0, 1, 1)
(folder / f"ready{first}").touch()
while len(list(folder.glob("ready*"))) < 2:
    pass
for i in range(first, first + 60):
    store.remember(f"{i:064x}", Entry("graph", (("graph", i, 1.0, 0.0),), i, 0.0))
"""


@pytest.mark.long
def test_two_processes_at_once(tmp_path):
    command = [sys.executable, "-W", "error", "-c", TWO_AT_ONCE, str(tmp_path)]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    running = [
        subprocess.Popen([*command, str(first)], env=env, stderr=subprocess.PIPE, text=True)
        for first in (0, 1000)
    ]
    while any(p.poll() is None for p in running):
        if (tmp_path / "cache").exists():
            store_file.read(tmp_path / "cache")  # whole, or not there yet
        time.sleep(0.002)
    for p in running:
        assert (p.communicate()[1], p.returncode) == ("", 0)
    held = store_file.read(tmp_path / "cache")
    assert {e.compile_ns for e in held.values()} == {*range(60), *range(1000, 1060)}
    assert sorted(p.name for p in (tmp_path / "cache").iterdir()) == [FILE_NAME, LOCK_NAME]


def test_a_writer_that_hangs_holds_up_nobody_for_long(tmp_path, monkeypatch):
    monkeypatch.setattr(store_file, "LOCK_SECONDS", 0.02)
    with store_file.locked(tmp_path):
        make(tmp_path).remember(name(1), entry())
    assert make(tmp_path).known(name(1)) == entry()


def test_a_system_without_locks_will_do(tmp_path, monkeypatch):
    class NoLocks:
        LOCK_EX = LOCK_NB = 0

        def flock(self, *_):
            raise OSError("no locks available")

    for instead in (None, NoLocks()):
        monkeypatch.setattr(store_file, "fcntl", instead)
        make(tmp_path).remember(name(1), entry())
        assert make(tmp_path).known(name(1)) == entry()


def test_what_a_killed_writer_left_is_removed(tmp_path):
    old, young = tmp_path / f"{FILE_NAME}old.tmp", tmp_path / f"{FILE_NAME}young.tmp"
    for path in (old, young):
        path.touch(mode=0o600)
    os.utime(old, (1, 1))
    make(tmp_path).remember(name(1), entry())
    assert (old.exists(), young.exists()) == (False, True)


AT_EXIT = """
import threading
from ren.lowering.storage.profile_store import default_store
from ren.lowering.storage.telemetry import Entry
main = threading.main_thread()

def late():
    main.join()
    default_store().remember("b" * 64, Entry("units", (), 6, 0.0))

default_store().remember("a" * 64, Entry("graph", (), 5, 0.0))
threading.Thread(target=late).start()
raise RuntimeError("the end")
"""


@pytest.mark.long
def test_the_default_store_is_flushed_at_exit(tmp_path):
    """After the last thread, and whatever the main one ended with."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "REN_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run([sys.executable, "-c", AT_EXIT], env=env, capture_output=True)
    assert done.returncode == 1 and done.stderr.endswith(b"RuntimeError: the end\n")
    held = store_file.read(tmp_path / "cache" / stores.FOLDER)
    assert [(key[0], e.tier) for key, e in sorted(held.items())] == [("a", "graph"), ("b", "units")]
    assert all(abs(e.updated_s - time.time()) < 600 for e in held.values())


# ------------------------------------------------------------------- what goes wrong


def assert_one_warning(caplog) -> None:
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("ren", "WARNING")
    assert "\n" not in record.getMessage()
    caplog.clear()


def assert_harmless(folder, caplog, is_mended: bool = True) -> None:
    """A store there warns once, and else works as one in an empty folder, or without one."""
    store = make(folder, flush_min=3)
    assert store.known(name(1)) is None
    for i in range(3):
        store.remember(name(i), entry(tier="units"))
        assert store.known(name(i)) == entry(tier="units")
    assert_one_warning(caplog)
    if is_mended:
        assert make(folder).known(name(1)) == entry(tier="units")


def whole_file(folder: Path) -> bytes:
    store = make(folder, flush_min=100)
    for i in range(3):
        store.remember(name(i), entry())
    store.flush()
    return (folder / FILE_NAME).read_bytes()


def test_a_damaged_file_is_replaced_also_when_nothing_is_new(tmp_path, caplog):
    (tmp_path / FILE_NAME).write_bytes(b"ren-plans")
    store = make(tmp_path)
    assert store.known(name(1)) is None
    store.flush()
    assert_one_warning(caplog)
    assert store_file.read(tmp_path) == {}


def test_truncated_files(tmp_path, caplog):
    data = whole_file(tmp_path)
    for kept in range(0, len(data), len(data) // 60):
        (tmp_path / FILE_NAME).write_bytes(data[:kept])
        assert_harmless(tmp_path, caplog)


def test_flipped_bits(tmp_path, caplog):
    data = whole_file(tmp_path)
    header = data.index(b"\n") + 1
    places = [*range(0, header, 2), *range(header, len(data), len(data) // 40)]
    assert len(places) > 80
    for i, place in enumerate(places):
        flipped = bytearray(data)
        flipped[place] ^= 1 << i % 8
        (tmp_path / FILE_NAME).write_bytes(flipped)
        assert_harmless(tmp_path, caplog)


def framed(body: bytes, version: str = store_file.__version__, form: int = 1) -> bytes:
    """A file with a right checksum."""
    start = f"ren-plans {form} {version} {len(body)}"
    return f"{start} {store_file._checksum(start, body)}\n".encode() + body


def test_other_files(tmp_path, caplog):
    data = whole_file(tmp_path)
    body = data.partition(b"\n")[2]
    assert framed(body) == data
    others = [
        framed(body, version="0.0.9"),
        framed(body, form=2),
        framed(body).replace(b"ren-plans", b"ren-plots"),
        data + b" ",
        data + data,
        b"\n" + data,
        b"\xff" * 1000,
        b"x" * 100_000,
        b"\x80\x04\x95pickled.",
        b"[]",
    ]
    for other in others:
        (tmp_path / FILE_NAME).write_bytes(other)
        assert_harmless(tmp_path, caplog)


GOOD = {"tier": "graph", "samples": [["units", 3, 1.5, 2.5]], "compile_ns": 1, "updated_s": 1e9}
FIELDS = {
    "tier": [None, 3, "", "t" * 65, ["graph"], {}, True],
    "compile_ns": [None, -1, 1.5, "1", True, 1 << 63, [1], {}],
    "updated_s": [None, -1, "now", True, [], {}, "NAN", "INF", "1e999", 10**400],
    "samples": [
        None, 3, "units", {}, [3], ["units"], [[]], [["units", 3, 1.5]],
        [["units", 3, 1.5, 2.5, 0]],
        [[1, 3, 1.5, 2.5]], [["", 3, 1.5, 2.5]], [["units", -3, 1.5, 2.5]],
        [["units", 3.5, 1.5, 2.5]], [["units", True, 1.5, 2.5]], [["units", 3, -1.5, 2.5]],
        [["units", 3, "1", 2.5]], [["units", 3, 1.5, -2.5]], [["units", 3, 1.5, None]],
        [["units", 3, "NAN", 2.5]], [["units", 3, 1.5, "-INF"]], [["units", 3, 1.5, "1e999"]],
        [["units", 3, 1.5, 2.5]] * 65,
    ],
}  # fmt: skip


def bodies() -> list[str]:
    """JSON that is not what a store writes."""
    made = [{name(1): {**GOOD, field: v}} for field, values in FIELDS.items() for v in values]
    made += [{name(1): {k: v for k, v in GOOD.items() if k != left}} for left in GOOD]
    made += [{name(1): {**GOOD, "more": 1}}, {name(1): None}, {name(1): []}, {name(1): "x"}]
    made += [{key: GOOD} for key in ("", "abc", name(1).upper().replace("0", "F"), name(1) + "0")]
    text = [json.dumps(m) for m in (*made, [], None, 3, "text", [GOOD])]
    text += ["", "{", "nul", "[" * 100_000, '{"a": 1', "\ufeff{}", "9" * 5000, "\0"]
    for quoted, constant in (("INF", "Infinity"), ("NAN", "NaN"), ("1e999", "1e999")):
        text = [t.replace(f'"{quoted}"', constant).replace('"-INF"', "-Infinity") for t in text]
    return text


def test_json_of_the_wrong_types(tmp_path, caplog):
    make(tmp_path).remember(name(5), entry())
    (tmp_path / FILE_NAME).write_bytes(framed(json.dumps({name(1): GOOD}).encode()))
    assert make(tmp_path).known(name(1)).compile_ns == 1
    assert len(bodies()) > 60
    for body in [*(text.encode() for text in bodies()), b"\xff\xfe{}", b'{"\xff": 1}']:
        (tmp_path / FILE_NAME).write_bytes(framed(body))
        assert_harmless(tmp_path, caplog)


def a_huge_file(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(store_file.MAX_BYTES + 1)


THINGS = {
    "huge": a_huge_file,
    "pipe": os.mkfifo,
    "loop": lambda path: path.symlink_to(path),
    "device": lambda path: path.symlink_to("/dev/zero"),
    "link to a folder": lambda path: path.symlink_to("/"),
}


@pytest.mark.parametrize("thing", THINGS)
def test_things_in_place_of_the_file(tmp_path, caplog, thing):
    THINGS[thing](tmp_path / FILE_NAME)
    assert_harmless(tmp_path, caplog)
    assert (tmp_path / FILE_NAME).is_file()


def test_a_folder_in_place_of_the_file(tmp_path, caplog):
    (tmp_path / FILE_NAME / "inside").mkdir(parents=True)
    assert_harmless(tmp_path, caplog, is_mended=False)
    assert sorted(p.name for p in tmp_path.iterdir()) == [FILE_NAME, LOCK_NAME]


def test_a_file_in_place_of_the_folder(tmp_path, caplog):
    (tmp_path / "file").write_bytes(b"mine")
    for folder in (tmp_path / "file", tmp_path / "file" / "cache"):
        assert_harmless(folder, caplog, is_mended=False)
    assert (tmp_path / "file").read_bytes() == b"mine"


def test_a_folder_in_place_of_the_lock(tmp_path, caplog):
    (tmp_path / LOCK_NAME).mkdir()
    assert_harmless(tmp_path, caplog, is_mended=False)


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o720, 0o702, 0o1777])
def test_a_folder_that_others_may_write_to_is_refused(tmp_path, caplog, mode):
    whole_file(tmp_path)
    before = sorted(p.name for p in tmp_path.iterdir())
    tmp_path.chmod(mode)
    assert_harmless(tmp_path, caplog, is_mended=False)
    assert sorted(p.name for p in tmp_path.iterdir()) == before
    tmp_path.chmod(0o755)
    assert make(tmp_path).known(name(1)) == entry()


def test_a_folder_of_another_user_is_refused(tmp_path, caplog, monkeypatch):
    whole_file(tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert_harmless(tmp_path, caplog, is_mended=False)
    monkeypatch.undo()
    assert make(tmp_path).known(name(1)) == entry()


def test_a_folder_that_vanishes_is_made_again(tmp_path):
    folder = tmp_path / "cache"
    store = make(folder)
    store.remember(name(1), entry())
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    store.remember(name(2), entry())
    assert set(store_file.read(folder)) == {name(2)}


SYSTEM_CALLS = {
    "no space: write": (os, "fsync", OSError(28, "No space left on device")),
    "no space: temporary file": (secrets, "token_hex", OSError(28, "No space left")),
    "read-only: rename": (os, "replace", OSError(30, "Read-only file system")),
    "quota: lock": (os, "open", OSError(122, "Disk quota exceeded")),
    "unreadable: folder": (os, "fstat", PermissionError(13, "Permission denied")),
    "unreadable: list": (os, "scandir", PermissionError(13, "Permission denied")),
    "bad name": (os, "open", ValueError("embedded null byte")),
}


@pytest.mark.parametrize("call", SYSTEM_CALLS)
def test_system_calls_that_fail(tmp_path, caplog, monkeypatch, call):
    before = whole_file(tmp_path)
    names = sorted(p.name for p in tmp_path.iterdir())
    module, function, error = SYSTEM_CALLS[call]
    calls = []

    def fail(*_, **__):
        calls.append(1)
        raise error

    store = make(tmp_path, Clock(1e9 + 1))
    with monkeypatch.context() as patch:
        patch.setattr(module, function, fail)
        for i in range(5, 25):
            store.remember(name(i), entry())
            assert store.known(name(i)) is not None
        assert len(calls) <= 2, "once it has failed it is not tried at every plan"
        store.flush()
    assert_one_warning(caplog)
    assert sorted(p.name for p in tmp_path.iterdir()) == names
    assert (tmp_path / FILE_NAME).read_bytes() == before
    store.flush()  # the trouble is over
    assert set(store_file.read(tmp_path)) == {name(i) for i in (0, 1, 2, *range(5, 25))}


def test_store_on_a_read_only_disk_stays_in_memory(tmp_path, caplog, monkeypatch):
    def refuse(*_, **__):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(os, "mkdir", refuse)
    assert_harmless(tmp_path / "cache", caplog, is_mended=False)
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_written_is_bounded_in_memory(tmp_path, caplog, monkeypatch):
    def refuse(*_, **__):
        raise OSError(30, "Read-only file system")

    clock, folder = Clock(), tmp_path / "cache"
    store = make(folder, clock, max_entries=10)
    with monkeypatch.context() as patch:
        patch.setattr(os, "mkdir", refuse)
        for i in range(50):
            clock.now += 1
            store.remember(name(i), entry())
            assert len(store._pending) <= 10 >= len(store._new)
    assert_one_warning(caplog)
    store.flush()
    assert set(store_file.read(folder)) == {name(i) for i in range(40, 50)}


def test_a_file_that_cannot_be_read_is_replaced(tmp_path, caplog, monkeypatch):
    whole_file(tmp_path)
    open_file = os.open

    def refuse(path, *args, **options):
        if Path(path).name == FILE_NAME:
            raise PermissionError(13, "Permission denied")
        return open_file(path, *args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refuse)
        assert_harmless(tmp_path, caplog, is_mended=False)
    assert make(tmp_path).known(name(2)) == entry(tier="units")


def test_more_than_fits_is_not_written(tmp_path, caplog, monkeypatch):
    before = whole_file(tmp_path)
    monkeypatch.setattr(store_file, "MAX_BYTES", len(before) + 10)
    store = make(tmp_path)
    store.remember(name(5), entry())
    assert store.known(name(5)) == entry()
    assert_one_warning(caplog)
    assert (tmp_path / FILE_NAME).read_bytes() == before


def test_the_settings_choose_the_store(tmp_path, monkeypatch):
    with config.update(cache_dir=tmp_path):
        store = stores.default_store()
        assert stores.cache_folder() == tmp_path
        assert stores.default_store() is store
        with config.update(cache_flush_min=1):
            stores.default_store().remember(name(1), entry())
    assert set(store_file.read(tmp_path / stores.FOLDER)) == {name(1)}
    with config.update(cache_dir="off"):
        assert stores.cache_folder() is None
    with config.update(cache_dir=None):
        assert stores.cache_folder() == Path.home() / ".cache" / "ren"
        monkeypatch.setattr(Path, "home", homeless)
        assert stores.cache_folder() is None


def homeless() -> Path:
    raise RuntimeError("Could not determine home directory.")
