"""The folder of executables: damage costs a warning, nobody sees half an entry."""

from __future__ import annotations

import os
import random
import stat
import threading

import pytest

from ren import config
from ren.lowering.storage import executable_store as disk
from ren.lowering.storage.executable_store import Store

KEY, BODY = "ab" * 32, bytes(range(256)) * 4


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "made" / "cache"


def entry(folder):
    (found,) = folder.iterdir()
    return found


def test_entries_come_back_whole(folder):
    store = Store(folder)
    assert store.read(KEY) is None
    store.write(KEY, BODY)
    store.write("cd" * 32, b"")
    assert (Store(folder).read(KEY), store.read("cd" * 32)) == (BODY, b"")
    store.write(KEY, b"other")
    assert Store(folder).read(KEY) == b"other"


@pytest.mark.skipif(os.name != "posix", reason="modes of files are those of POSIX")
def test_the_folder_and_its_entries_are_for_their_user_alone(folder):
    Store(folder).write(KEY, BODY)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(entry(folder).stat().st_mode) == 0o600


def damaged(data: bytes, seed: int) -> bytes:
    """`data` cut short, lengthened, or with one bit flipped; what is cut may be all of it."""
    draw = random.Random(seed)
    position = draw.randrange(len(data))
    if seed % 4 == 0:
        return data[:position]
    if seed % 4 == 1:
        return data + bytes([draw.randrange(256)])
    flipped = data[position] ^ 1 << draw.randrange(8)
    return data[:position] + bytes([flipped]) + data[position + 1 :]


@pytest.mark.parametrize("seed", range(200))
def test_a_damaged_entry_is_no_entry_and_costs_one_warning(folder, caplog, seed):
    Store(folder).write(KEY, BODY)
    path = entry(folder)
    path.write_bytes(damaged(path.read_bytes(), seed))
    store = Store(folder)
    assert store.read(KEY) is None and store.read(KEY) is None
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("ren", "WARNING")
    store.write(KEY, BODY)
    assert store.read(KEY) == BODY


def check_unused(store, caplog, word):
    """The store keeps nothing, and has said so once."""
    store.write(KEY, BODY)
    assert store.read(KEY) is None
    (record,) = caplog.records
    assert word in record.getMessage()


def test_a_file_in_place_of_the_folder(tmp_path, caplog):
    (tmp_path / "file").write_text("mine")
    check_unused(Store(tmp_path / "file"), caplog, "not used")
    check_unused_below = Store(tmp_path / "file" / "below")
    assert check_unused_below.read(KEY) is None
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.skipif(os.name != "posix", reason="modes of files are those of POSIX")
@pytest.mark.parametrize("mode", [0o720, 0o702, 0o777])
def test_a_folder_that_others_may_write_to(folder, caplog, mode):
    Store(folder).write(KEY, BODY)
    folder.chmod(mode)
    check_unused(Store(folder), caplog, "others may write")


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="owners of files are those of POSIX")
def test_a_folder_of_another_user(folder, caplog, monkeypatch):
    Store(folder).write(KEY, BODY)
    monkeypatch.setattr(os, "geteuid", lambda: folder.stat().st_uid + 1)
    check_unused(Store(folder), caplog, "another user")


def test_a_full_disk(folder, caplog, monkeypatch):
    store = Store(folder)

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    check_unused(store, caplog, "No space left")
    assert not list(folder.iterdir())


def test_an_entry_that_cannot_be_read(folder, caplog, monkeypatch):
    store = Store(folder)
    store.write(KEY, BODY)

    def refused(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refused)
    assert store.read(KEY) is None and store.read(KEY) is None
    (record,) = caplog.records
    assert "Permission denied" in record.getMessage()


@pytest.mark.skipif(os.name != "posix", reason="pipes and links are those of POSIX")
@pytest.mark.parametrize("kind", ["pipe", "link", "folder"])
def test_what_is_no_file_is_no_entry(folder, caplog, kind):
    store = Store(folder)
    store.write(KEY, BODY)
    path = entry(folder)
    other = path.rename(folder.parent / "other")
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "link":
        path.symlink_to(other)
    else:
        path.mkdir()
    assert store.read(KEY) is None
    assert len(caplog.records) == 1


def test_the_folder_goes_while_it_is_used(folder, caplog):
    store = Store(folder)
    folder.rmdir()
    check_unused(store, caplog, "nothing can be written")


def test_readers_and_writers_at_once_see_whole_entries(folder):
    bodies = [bytes([i]) * 100_000 for i in range(4)]
    seen, stop = set(), threading.Event()
    Store(folder).write(KEY, bodies[0])

    def read():
        store = Store(folder)
        while not stop.is_set():
            seen.add(store.read(KEY))

    def write(body):
        store = Store(folder)
        for _ in range(25):
            store.write(KEY, body)

    reader = threading.Thread(target=read)
    writers = [threading.Thread(target=write, args=(body,)) for body in bodies]
    for thread in (reader, *writers):
        thread.start()
    for thread in writers:
        thread.join()
    stop.set()
    reader.join()
    assert seen <= set(bodies) and seen
    assert len(list(folder.iterdir())) == 1


def test_entries_that_nobody_reads_go(folder):
    store = Store(folder)
    for key in ("read", "left"):
        store.write(key, BODY)
    (folder / "half.tmp").write_bytes(b"")
    (folder / "foreign").write_bytes(b"")
    for path in folder.iterdir():
        os.utime(path, (0, 0))
    assert store.read("read") == BODY
    swept = Store(folder, ttl_s=1000)
    assert (swept.read("read"), swept.read("left")) == (BODY, None)
    assert {path.name for path in folder.iterdir()} == {"read.executable", "foreign"}


@pytest.mark.skipif(os.name != "posix", reason="modes of files are those of POSIX")
def test_a_folder_inside_one_that_others_may_write_to(folder, caplog):
    Store(folder).write(KEY, BODY)
    folder.parent.chmod(0o1777)  # as /tmp: what is inside is safe
    assert Store(folder).read(KEY) == BODY
    folder.parent.chmod(0o777)
    check_unused(Store(folder), caplog, "others may write")


def test_the_settings_choose_the_folder(tmp_path):
    with config.update(cache_dir=tmp_path):
        store = disk.store()
        assert store is not None and store is disk.store()
        store.write(KEY, BODY)
        assert Store(tmp_path / "executables").read(KEY) == BODY
    with config.update(cache_dir="off"):
        assert disk.store() is None
