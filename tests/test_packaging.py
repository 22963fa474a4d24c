"""The wheel and the source distribution: what they hold, and what they say of themselves."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from email import message_from_bytes
from email.message import Message
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[1]
RUNTIME = {"attrs", "jax", "jaxlib", "numpy"}
EXTRAS = {"bench", "cuda", "dask", "demo", "docs", "notebooks", "test"}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both, the wheel made of what the source distribution holds, as pip would."""
    at = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(at), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    return at


@pytest.fixture(scope="module")
def wheel(built: Path) -> zipfile.ZipFile:
    (path,) = built.glob("ren-*-py3-none-any.whl")
    return zipfile.ZipFile(path)


@pytest.fixture(scope="module")
def metadata(wheel: zipfile.ZipFile) -> Message:
    (name,) = (n for n in wheel.namelist() if n.endswith(".dist-info/METADATA"))
    return message_from_bytes(wheel.read(name))


def matrix() -> ModuleType:
    """The program of `make matrix`."""
    spec = spec_from_file_location("matrix", ROOT / ".ci" / "matrix.py")
    assert spec is not None and spec.loader is not None
    spec.loader.exec_module(module := module_from_spec(spec))
    return module


def sources(*folders: str) -> set[str]:
    found = (p for folder in folders for p in (ROOT / folder).rglob("*") if p.is_file())
    return {str(p.relative_to(ROOT)) for p in found if "__pycache__" not in p.parts}


@pytest.mark.long
def test_the_wheel_holds_the_package_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    held = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert held == sources("ren")
    assert {
        "ren/py.typed",
        "ren/lowering/backends/native/src/kernels.cc",
        "ren/lowering/backends/native/src/words.cc",
        "ren/__main__.py",
    } <= held
    assert {Path(name).suffix for name in held} == {".py", ".cc", ".h", ".typed"}
    assert any(name.endswith("licenses/LICENSE") for name in wheel.namelist())


def test_the_source_distribution_holds_what_the_tests_need(built: Path) -> None:
    (path,) = built.glob("ren-*.tar.gz")
    with tarfile.open(path) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    assert sources("ren", "tests", "examples", "docs") <= held
    assert {"README.md", "Makefile", "pyproject.toml", "benchmarks/run.py", ".ci/matrix.py"} <= held
    assert {"CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "NOTATION.md", "LICENSE"} <= held
    kept = ("build/", "dist/", ".venv", ".git/", ".pytest_cache")
    assert not [name for name in held if name.startswith(kept) or "__pycache__" in name]


def needed(metadata: Message, extra: str) -> set[str]:
    """The packages that `pip install ren[extra]` asks for beside the runtime's."""
    lines = metadata.get_all("Requires-Dist", [])
    return {line.split(";")[0] for line in lines if f"extra == '{extra}'" in line}


def test_the_metadata_is_right(metadata: Message) -> None:
    assert (metadata["Name"], metadata["Requires-Python"]) == ("ren", ">=3.11")
    always = [d for d in metadata.get_all("Requires-Dist", []) if "extra ==" not in d]
    assert {d.partition(">=")[0] for d in always} == RUNTIME and len(always) == len(RUNTIME)
    assert set(metadata.get_all("Provides-Extra", [])) == EXTRAS
    supported = [c for c in metadata.get_all("Classifier", []) if "Python :: 3." in c]
    assert [c.rpartition(" ")[2] for c in supported] == list(matrix().PYTHONS)
    assert all(needed(metadata, extra) for extra in EXTRAS)
    assert needed(metadata, "cuda") == {"jax[cuda12]>=0.10"}
    for part in ("demo", "bench", "dask", "notebooks"):
        assert needed(metadata, part) <= needed(metadata, "test")
    assert not [d for d in metadata.get_all("Requires-Dist", []) if d.startswith("ren")]


def test_the_matrix_has_the_oldest_versions_of_the_metadata(metadata: Message) -> None:
    assert f">={matrix().PYTHONS[0]}" == metadata["Requires-Python"]
    lowest = dict(r.split(">=") for r in metadata.get_all("Requires-Dist", []) if ";" not in r)
    for pinned in matrix().JAXES["oldest"]:
        if "==" in pinned:
            name, version = pinned.split("==")
            assert f"{version}.".startswith(f"{lowest[name]}."), pinned
    assert not [name for name in matrix().TESTS if not (ROOT / name).is_file()]
