"""Private folders: which folders and entries are trusted, and what attackers cannot replace."""

from __future__ import annotations

import os
import stat
import tempfile
import threading
from pathlib import Path

import pytest

from ren.lowering.storage import private_folder
from ren.lowering.storage.private_folder import ForeignEntryError, PrivateFolder, scratch

pytestmark = pytest.mark.skipif(os.name != "posix", reason="owners and modes are those of POSIX")
needs_root = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files to other users"
)
OTHER = 12345


@pytest.fixture(params=["descriptors", "paths"])
def way(request, monkeypatch):
    """Run a test with descriptors of folders, and as on systems without them."""
    if request.param == "paths":
        monkeypatch.setattr(private_folder, "_HAS_DESCRIPTORS", False)
    return request.param


@pytest.fixture
def umask():
    """Set the umask for one test."""
    before = os.umask(0o022)
    yield os.umask
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def refused(path: Path, word: str) -> None:
    with pytest.raises(OSError, match=word):
        PrivateFolder(path)


# ------------------------------------------------------------------- folders


@pytest.mark.parametrize("mask", [0o000, 0o002, 0o022, 0o077])
def test_private_folder_makes_every_level_for_its_user_alone(tmp_path, way, umask, mask):
    path = tmp_path / "a" / "b" / "c"
    umask(mask)
    with PrivateFolder(path) as folder:
        folder.write("entry", b"bytes")
    assert [mode(p) for p in (path, path.parent, path.parents[1])] == [0o700] * 3
    assert mode(path / "entry") == 0o600


def test_private_folder_is_not_made_for_reading(tmp_path, way):
    with pytest.raises(FileNotFoundError):
        PrivateFolder(tmp_path / "a" / "b", is_made=False)
    assert not list(tmp_path.iterdir())


def test_private_folder_below_a_folder_of_umask_002_is_used(tmp_path, umask):
    umask(0o002)
    above = tmp_path / "home" / ".cache"
    above.mkdir(parents=True)
    assert mode(above) == 0o775
    for _ in range(2):
        with PrivateFolder(above / "ren") as folder:
            folder.write("entry", b"bytes")
    assert mode(above) == 0o775


def test_private_folder_used_by_path_trusts_no_group(tmp_path, way):
    """Only a descriptor shows whether a member of the group has replaced the folder."""
    PrivateFolder(tmp_path / "ren", by_path=True).close()
    tmp_path.chmod(0o770)
    with pytest.raises(PermissionError, match="others may write"):
        PrivateFolder(tmp_path / "ren", by_path=True)
    if way == "paths":
        refused(tmp_path / "ren", "others may write")


@pytest.mark.parametrize("above", [0o777, 0o757])
def test_private_folder_below_a_folder_open_to_all_is_refused(tmp_path, way, above):
    path = tmp_path / "a" / "b" / "c" / "d"
    PrivateFolder(path).close()
    (tmp_path / "a").chmod(above)
    refused(path, "others may write")
    refused(tmp_path / "a" / "new" / "folder", "others may write")
    assert not (tmp_path / "a" / "new").exists()
    (tmp_path / "a").chmod(above | stat.S_ISVTX)
    PrivateFolder(path).close()


@pytest.mark.parametrize("own", [0o770, 0o720, 0o702, 0o777, 0o1777])
def test_private_folder_open_to_others_is_refused(tmp_path, way, own):
    tmp_path.chmod(own)
    refused(tmp_path, "others may write")


@needs_root
@pytest.mark.parametrize("levels", [0, 1, 2])
def test_private_folder_of_another_user_is_refused(tmp_path, way, levels):
    path = tmp_path / "a" / "b" / "c"
    PrivateFolder(path).close()
    os.chown((path, *path.parents)[levels], OTHER, -1)
    refused(path, "another user")


@needs_root
def test_private_folder_of_root_is_refused_to_its_users(tmp_path, way, monkeypatch):
    """Folders of root are trusted above, but the folder itself is the user's own."""
    path = tmp_path / "a"
    PrivateFolder(path).close()
    monkeypatch.setattr(os, "geteuid", lambda: OTHER)
    refused(path, "a belongs to another user")
    tmp_path.chmod(0o770)  # a group of root's
    refused(path, "others may write")


def test_private_folder_follows_links_of_its_user(tmp_path):
    (tmp_path / "disk" / "large").mkdir(parents=True)
    (tmp_path / "absolute").symlink_to(tmp_path / "disk")
    (tmp_path / "relative").symlink_to("disk/../disk/./large")
    with PrivateFolder(tmp_path / "absolute" / "large" / "ren") as folder:
        folder.write("entry", b"bytes")
    with PrivateFolder(tmp_path / "relative" / "ren") as folder:
        assert folder.read("entry") == b"bytes"
    (tmp_path / "last").symlink_to(tmp_path / "disk" / "large" / "ren")
    with PrivateFolder(tmp_path / "last") as folder:
        assert folder.read("entry") == b"bytes"


@needs_root
@pytest.mark.parametrize("name", ["link", "link/below"])
def test_private_folder_through_a_link_of_another_user_is_refused(tmp_path, name):
    (tmp_path / "own" / "below").mkdir(parents=True, mode=0o700)
    (tmp_path / "own").chmod(0o700)
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o1777)  # as /tmp
    (tmp_path / "shared" / "link").symlink_to(tmp_path / "own")
    PrivateFolder(tmp_path / "shared" / name).close()
    os.lchown(tmp_path / "shared" / "link", OTHER, -1)
    refused(tmp_path / "shared" / name, "link belongs to another user")


def test_private_folder_behind_a_loop_of_links_is_refused(tmp_path):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    refused(tmp_path / "loop" / "ren", "[Ll]evels of symbolic links")


def test_private_folder_in_place_of_a_file_is_refused(tmp_path, way):
    (tmp_path / "file").write_bytes(b"mine")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(NotADirectoryError):
            PrivateFolder(path)


def test_private_folder_at_a_relative_path(tmp_path, way, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with PrivateFolder(Path("a", "b")) as folder:
        folder.write("entry", b"bytes")
    assert (tmp_path / "a" / "b" / "entry").read_bytes() == b"bytes"


def test_private_folder_made_by_many_threads_at_once(tmp_path, way):
    path, start, made = tmp_path / "a" / "b" / "c" / "d", threading.Barrier(8), []

    def make() -> None:
        start.wait()
        made.append(PrivateFolder(path))

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 8


def test_private_folder_swapped_while_open_is_not_read(tmp_path):
    path = tmp_path / "ren"
    folder = PrivateFolder(path)
    folder.write("entry", b"own")
    path.rename(tmp_path / "moved")
    path.mkdir(mode=0o700)
    (path / "entry").write_bytes(b"planted")
    (path / "more").write_bytes(b"planted")
    assert folder.read("entry") == b"own"
    with pytest.raises(FileNotFoundError):
        folder.read("more")
    folder.write("entry", b"newer")
    assert (tmp_path / "moved" / "entry").read_bytes() == b"newer"
    assert (path / "entry").read_bytes() == b"planted"


def test_private_folder_swapped_while_it_is_opened_is_refused(tmp_path, monkeypatch):
    """An attacker puts a link in place of a level after Ren has looked at it."""
    own, planted = tmp_path / "own", tmp_path / "planted"
    for path in (own, planted):
        path.mkdir(mode=0o700)
    open_file = os.open

    def swap(path, flags, *args, **options):
        if path == "own" and not own.is_symlink():
            own.rmdir()
            own.symlink_to(planted)
        return open_file(path, flags, *args, **options)

    monkeypatch.setattr(os, "open", swap)
    with pytest.raises(OSError):
        PrivateFolder(own)
    assert own.is_symlink()


def test_private_folder_gives_its_descriptors_back(tmp_path):
    def count() -> int:
        return len(os.listdir("/dev/fd"))

    before = count()
    for _ in range(3):
        with PrivateFolder(tmp_path / "a" / "b"):
            assert count() == before + 1
        unclosed = PrivateFolder(tmp_path / "a" / "b")
        del unclosed
    (tmp_path / "file").touch()
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    for name in ("file", "open", "open/below"):
        with pytest.raises(OSError):
            PrivateFolder(tmp_path / name)
    assert count() == before


# ------------------------------------------------------------------- entries


def by_others(path: Path) -> None:
    path.chmod(0o620)


def by_all(path: Path) -> None:
    path.chmod(0o602)


def given_away(path: Path) -> None:
    os.chown(path, OTHER, -1)


def linked(path: Path) -> None:
    path.symlink_to(path.rename(path.parents[1] / "elsewhere"))


def dangling(path: Path) -> None:
    path.unlink()
    path.symlink_to("nowhere")


def named_twice(path: Path) -> None:
    path.hardlink_to(path.rename(path.parents[1] / "elsewhere"))


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


FOREIGN = [by_others, by_all, pytest.param(given_away, marks=needs_root)]
FOREIGN += [linked, dangling, named_twice, pipe]


@pytest.mark.parametrize("change", FOREIGN)
def test_private_folder_deletes_a_foreign_entry(tmp_path, way, change):
    folder = PrivateFolder(tmp_path / "ren")
    folder.write("entry", b"bytes")
    change(tmp_path / "ren" / "entry")
    with pytest.raises(ForeignEntryError, match="entry"):
        folder.read("entry")
    assert not os.path.lexists(tmp_path / "ren" / "entry")
    folder.write("entry", b"again")
    assert folder.read("entry") == b"again"


@pytest.mark.parametrize("change", FOREIGN)
def test_private_folder_sweep_deletes_foreign_entries(tmp_path, way, change):
    folder = PrivateFolder(tmp_path / "ren")
    for name in ("one.kept", "two.kept", "three"):
        folder.write(name, b"bytes")
    change(tmp_path / "ren" / "one.kept")
    told = folder.sweep({".kept": 1000.0})
    assert told is not None and told.startswith("one.kept ")
    assert folder.sweep({".kept": 1000.0}) is None
    assert sorted(p.name for p in (tmp_path / "ren").iterdir()) == ["three", "two.kept"]


def test_private_folder_entry_of_another_user_is_deleted(tmp_path, monkeypatch):
    folder = PrivateFolder(tmp_path / "ren")
    folder.write("entry", b"bytes")
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    with pytest.raises(ForeignEntryError, match="another user"):
        folder.read("entry")
    assert not (tmp_path / "ren" / "entry").exists()


def test_private_folder_entry_that_only_another_user_may_read_is_deleted(tmp_path, monkeypatch):
    """Attackers plant such files, and opening them fails."""
    folder = PrivateFolder(tmp_path / "ren")
    folder.write("entry", b"bytes")
    (tmp_path / "ren" / "entry").chmod(0o620)

    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(ForeignEntryError):
        folder.read("entry")
    assert not (tmp_path / "ren" / "entry").exists()


@pytest.mark.parametrize("change", FOREIGN)
def test_private_folder_deletes_a_foreign_lock(tmp_path, change):
    folder = PrivateFolder(tmp_path / "ren")
    os.close(folder.lock_file("lock"))
    assert mode(tmp_path / "ren" / "lock") == 0o600
    change(tmp_path / "ren" / "lock")
    with pytest.raises(ForeignEntryError):
        folder.lock_file("lock")
    os.close(folder.lock_file("lock"))
    assert not (tmp_path / "nowhere").exists() and not (tmp_path / "ren" / "nowhere").exists()


def test_private_folder_write_replaces_a_link_and_not_its_target(tmp_path, way):
    folder = PrivateFolder(tmp_path / "ren")
    (tmp_path / "mine").write_bytes(b"mine")
    (tmp_path / "ren" / "entry").symlink_to(tmp_path / "mine")
    folder.write("entry", b"bytes")
    assert folder.read("entry") == b"bytes"
    assert (tmp_path / "mine").read_bytes() == b"mine"


def test_private_folder_reads_a_file_that_is_replaced_meanwhile(tmp_path, way, monkeypatch):
    """A file that another process has replaced has no name left, and is no foreign one."""
    folder = PrivateFolder(tmp_path / "ren")
    folder.write("entry", b"old")
    open_file = os.open

    def replace(path, flags, *args, **options):
        descriptor = open_file(path, flags, *args, **options)
        monkeypatch.setattr(os, "open", open_file)
        folder.write("entry", b"new")
        return descriptor

    monkeypatch.setattr(os, "open", replace)
    assert folder.read("entry") == b"old"
    assert folder.read("entry") == b"new"


def test_private_folder_without_owners_keeps_entries(tmp_path, monkeypatch):
    """As on Windows, where every file seems to be open to all users."""
    monkeypatch.setattr(private_folder, "_HAS_DESCRIPTORS", False)
    monkeypatch.delattr(os, "geteuid")
    folder = PrivateFolder(tmp_path / "a" / "b")
    folder.write("entry.kept", b"bytes")
    (tmp_path / "a" / "b" / "entry.kept").chmod(0o666)
    folder.touch("entry.kept")
    folder.touch("none")
    assert folder.read("entry.kept", 3) == b"byt"
    assert folder.sweep({".kept": 1000.0}) is None
    assert folder.sweep({".kept": -1.0}) is None
    assert not list((tmp_path / "a" / "b").iterdir())


# ------------------------------------------------------------------- temporary files


def test_scratch_is_private_and_deleted(umask):
    umask(0o000)
    with scratch() as made:
        assert mode(made) == 0o700
        (made / "file").touch()
    assert not made.exists()


@pytest.mark.parametrize("above", [0o777, 0o770])
def test_scratch_where_others_can_replace_it_is_refused(tmp_path, monkeypatch, above):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    tmp_path.chmod(above)
    with pytest.raises(PermissionError, match=r"others may write .* TMPDIR"), scratch():
        pass
    tmp_path.chmod(0o1777)
    with scratch():
        pass
    assert not list(tmp_path.iterdir())


def test_private_folder_where_the_current_folder_is_gone(tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    PrivateFolder(tmp_path / "kept").write("a", b"1")
    assert PrivateFolder(tmp_path / "kept").read("a") == b"1"
    with pytest.raises(FileNotFoundError, match="the current folder was deleted"):
        PrivateFolder(Path("kept"))
