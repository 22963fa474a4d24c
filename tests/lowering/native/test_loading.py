"""Loading a library: from a file that nothing can change, and from a private one elsewhere."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from ren.lowering.backends.native import build, loading


@pytest.fixture(scope="module")
def bodies(tmp_path_factory) -> list[bytes]:
    """Two libraries, whose function `value` returns 0 and 1."""
    try:
        compiler = build.compiler()
    except build.BuildError as error:
        pytest.skip(str(error))
    folder, made = tmp_path_factory.mktemp("libraries"), []
    for i in range(2):
        source, library = folder / f"{i}.cc", folder / f"{i}.so"
        source.write_text(f'extern "C" int value() {{ return {i}; }}\n')
        command = [*compiler.command, "-shared", "-fPIC", str(source), "-o", str(library)]
        subprocess.run(command, check=True)
        made.append(library.read_bytes())
    return made


@pytest.fixture(params=["in memory", "in a folder"])
def way(request, monkeypatch):
    """Run a test with files in memory, and as on systems without them."""
    if request.param == "in a folder":
        monkeypatch.setattr(loading, "_sealed", lambda body: None)
    elif not hasattr(os, "memfd_create") or not os.path.exists("/proc/self/fd"):
        pytest.skip("files in memory are those of Linux")
    return request.param


def test_loading_tells_libraries_apart(bodies, way):
    libraries = [loading.loaded(body) for body in (*bodies, *bodies)]
    assert [library.value() for library in libraries] == [0, 1, 0, 1]


def test_loading_leaves_no_temporary_file(bodies, way, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert loading.loaded(bodies[1]).value() == 1
    assert not list(tmp_path.iterdir())


def test_loading_needs_no_temporary_folder_that_is_safe(bodies, way, tmp_path, monkeypatch):
    """Where other users can replace the folder, a library is loaded from memory or not at all."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    tmp_path.chmod(0o777)
    if way == "in memory":
        assert loading.loaded(bodies[1]).value() == 1
    else:
        with pytest.raises(PermissionError, match="others may write"):
            loading.loaded(bodies[1])


def test_loading_refuses_bytes_that_are_no_library(way):
    before = len(os.listdir("/dev/fd"))
    with pytest.raises(OSError):
        loading.loaded(b"no library")
    assert len(os.listdir("/dev/fd")) == before


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="files in memory are those of Linux")
def test_loading_seals_the_file(bodies):
    descriptor = loading._sealed(bodies[0])
    assert descriptor is not None
    try:
        path = Path(f"/proc/self/fd/{descriptor}")
        assert path.read_bytes() == bodies[0]
        with pytest.raises(PermissionError):
            os.write(descriptor, b"planted")
        with pytest.raises(PermissionError):
            os.truncate(descriptor, 10)
        with pytest.raises(PermissionError):
            path.write_bytes(b"planted")
    finally:
        os.close(descriptor)


def test_loading_without_memory_files_uses_a_folder(bodies, monkeypatch):
    def refuse(*_):
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(os, "memfd_create", refuse, raising=False)
    assert loading.loaded(bodies[1]).value() == 1


def test_build_where_others_can_replace_its_files_is_refused(bodies, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    tmp_path.chmod(0o777)
    with pytest.raises(PermissionError, match="others may write"):
        build.library(build.compiler())
    assert not list(tmp_path.iterdir())
