"""What other users can do to Ren's cache: they cannot have it read what they wrote."""

from __future__ import annotations

import logging
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from ren.lowering.storage import profile_file as store_file
from ren.lowering.storage.executable_store import Store
from ren.lowering.storage.profile_file import FILE_NAME
from ren.lowering.storage.telemetry import Entry
from tests.lowering.test_private_folder import FOREIGN, OTHER, needs_root
from tests.lowering.test_store import ROOT, make

pytestmark = pytest.mark.skipif(os.name != "posix", reason="owners and modes are those of POSIX")
KEY, BODY, PLANTED = "ab" * 32, b"own", b"planted"
ENTRY = f"{KEY}.executable"


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "ren"


def plant(folder: Path, away: Path) -> None:
    """Put an entry into a folder as an attacker would: whole, and by the rules of Ren."""
    Store(away).write(KEY, PLANTED)
    made = (away / ENTRY).rename(folder / ENTRY)
    if os.geteuid() == 0:
        os.chown(made, OTHER, -1)
    else:
        made.chmod(0o666)


def warned(caplog) -> str:
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("ren", "WARNING")
    return record.getMessage()


@pytest.mark.parametrize("change", FOREIGN)
def test_disk_foreign_entry_is_ignored_and_deleted(folder, caplog, change):
    store = Store(folder)
    store.write(KEY, BODY)
    change(folder / ENTRY)
    assert store.read(KEY) is None and store.read(KEY) is None
    assert "foreign" in warned(caplog)
    assert not list(folder.iterdir())
    store.write(KEY, BODY)
    assert Store(folder).read(KEY) == BODY


@pytest.mark.parametrize("is_open", [True, False], ids=["in a process", "before it"])
def test_disk_entry_planted_while_the_folder_was_open_is_not_loaded(
    folder, tmp_path, caplog, is_open
):
    early = Store(folder)
    folder.chmod(0o777)
    plant(folder, tmp_path / "away")
    folder.chmod(0o700)
    store = early if is_open else Store(folder)
    assert store.read(KEY) is None
    assert "foreign" in warned(caplog)
    assert not list(folder.iterdir())
    store.write(KEY, BODY)
    assert (store.read(KEY), Store(folder).read(KEY)) == (BODY, BODY)


def test_disk_entry_under_another_key_is_damaged(folder, caplog):
    """Who may rename entries may not choose which of them a program runs."""
    store = Store(folder)
    store.write("cd" * 32, BODY)
    (folder / f"{'cd' * 32}.executable").rename(folder / ENTRY)
    assert store.read(KEY) is None
    assert "damaged" in warned(caplog)


def test_disk_folder_replaced_while_it_is_used_is_not_read(folder, tmp_path, caplog):
    store = Store(folder)
    folder.rename(tmp_path / "moved")
    Store(folder).write(KEY, PLANTED)
    assert store.read(KEY) is None
    store.write(KEY, BODY)
    assert store.read(KEY) == BODY
    assert Store(folder).read(KEY) == PLANTED
    assert not caplog.records


@needs_root
def test_disk_folder_replaced_by_a_member_of_the_group_is_not_read(folder, tmp_path, caplog):
    tmp_path.chmod(0o770)
    Store(folder).write(KEY, BODY)
    folder.rename(tmp_path / "moved")
    Store(folder).write(KEY, PLANTED)
    os.chown(folder, OTHER, -1)
    store = Store(folder)
    assert store.read(KEY) is None
    assert "another user" in warned(caplog)
    store.write(KEY, BODY)
    assert len(list(folder.iterdir())) == 1, "nothing is changed in folders of others"


@pytest.mark.parametrize("above", [0o777, 0o707])
def test_disk_folder_far_below_one_that_is_open_to_all_is_not_read(tmp_path, caplog, above):
    folder = tmp_path / "a" / "b" / "c"
    Store(folder).write(KEY, BODY)
    (tmp_path / "a").chmod(above)
    assert Store(folder).read(KEY) is None
    assert "others may write" in warned(caplog)


@pytest.mark.parametrize("change", FOREIGN)
def test_telemetry_of_others_is_ignored_and_replaced(folder, caplog, change):
    caplog.set_level(logging.WARNING, "ren")
    digest, learnt = "0" * 64, Entry("graph", (), 5, 1e9)
    make(folder).remember(digest, learnt)
    change(folder / FILE_NAME)
    store = make(folder)
    assert store.known(digest) is None and store.known("1" * 64) is None
    assert not os.path.lexists(folder / FILE_NAME)
    store.flush()
    warned(caplog)
    assert store_file.read(folder) == {}
    assert stat.S_ISREG((folder / FILE_NAME).lstat().st_mode)


UMASK = """
import os
os.umask(0o002)
from ren.lowering.storage import executable_store as disk, profile_store as store
from ren.lowering.backends.native import build, library, self_check
from ren.lowering.storage.telemetry import Entry

def built(compiler):
    print("built")
    return b"library"

build.compiler = lambda: build.Compiler(("c++",), "1")
build.library = built
library._register = lambda body, name: print("loaded", body.decode())
self_check.check = self_check.check_functions = lambda checked: None
library.outcome()
executables, learnt = disk.store(), store.default_store()
print(executables.read("a"), learnt.known("a" * 64) is not None)
executables.write("a", b"kept")
learnt.remember("a" * 64, Entry("graph", (), 5, 0.0))
learnt.flush()
"""


def run_twice(variables: dict[str, str]) -> list[str]:
    """Return what each of two processes under umask 002 prints; neither may warn."""
    command = [sys.executable, "-W", "error", "-c", UMASK]
    env = {k: v for k, v in os.environ.items() if not k.startswith(("REN_", "JAX_", "XDG_"))}
    env |= {"PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu", **variables}
    done = [subprocess.run(command, env=env, capture_output=True, text=True) for _ in range(2)]
    assert [(d.stderr, d.returncode) for d in done] == [("", 0)] * 2
    return [d.stdout for d in done]


@pytest.mark.long
@pytest.mark.parametrize("place", ["default, new", "default, made before", "chosen, made before"])
def test_cache_under_umask_002_is_kept(tmp_path, place):
    """A second process builds nothing, below folders that are missing or that the user made."""
    home, is_new = tmp_path / "home", place.endswith("new")
    folder = home / ".cache" / "ren" if place.startswith("default") else home / "chosen"
    before = os.umask(0o002)
    (home if is_new else folder).mkdir(parents=True)
    os.umask(before)
    chosen = {} if place.startswith("default") else {"REN_CACHE_DIR": str(folder)}
    first, second = run_twice({"HOME": str(home), **chosen})
    assert first.split() == ["built", "loaded", "library", "None", "False"]
    assert second.split() == ["loaded", "library", "b'kept'", "True"]
    modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in (folder, *folder.iterdir())}
    own = dict.fromkeys(["executables", "native", "telemetry"], 0o700)
    assert modes == {folder.name: 0o700 if is_new else 0o775, **own}
