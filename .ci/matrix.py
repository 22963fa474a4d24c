"""Ren's wheel under each Python and JAX that it supports and that can be had here: `make matrix`.

For each of PYTHONS that is found, and for the oldest and the newest JAX of the supported range, the
wheel is installed into a new environment in a temporary folder; there its self-test runs, and then
TESTS, from the unpacked source distribution without its `ren/`, so that nothing but the wheel can
be imported. One line is printed for each. What cannot be had is named and left out; the exit status
is 1 where one fails, or where all are left out.

Arguments choose some: `python .ci/matrix.py 3.12 newest`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PYTHONS = ("3.11", "3.12", "3.13")
# What pip is told beside the wheel: the lower bounds of pyproject.toml, or nothing. Of NumPy it is
# the first version that has wheels for the Python, from 2.0 on.
JAXES = {
    "oldest": ("jax==0.10.0", "jaxlib==0.10.0", "attrs==23.2.0", "numpy<2.2"),
    "newest": (),
}
TESTS = (
    "tests/test_import.py", "tests/test_readme.py", "tests/test_poly_jax.py",
    "tests/lowering/test_executables.py", "tests/lowering/native/test_library.py",
)  # fmt: skip
LIMIT = 900  # seconds for any one command


class Failed(Exception):
    """A command that failed, with the end of what it printed."""


def run(*command: str | Path, at: Path, **variables: str) -> str:
    """What a command prints.

    Raises:
        Failed: it ended with an error, or not at all.
    """
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "REN_", "XLA_"))}
    try:
        ran = subprocess.run(
            [str(part) for part in command], cwd=at, env={**kept, **variables}, timeout=LIMIT,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise Failed(f"{command[0]} took more than {LIMIT} s") from None
    if ran.returncode:
        raise Failed(ran.stdout[-4000:])
    return ran.stdout


def candidates(version: str) -> Iterator[str]:
    """Where an interpreter may be: on the path, and among the versions of pyenv."""
    yield f"python{version}"
    roots = (os.environ.get("PYENV_ROOT"), Path.home() / ".pyenv")
    for root in filter(None, roots):
        yield from map(str, sorted(Path(root).glob(f"versions/{version}.*/bin/python")))


def interpreter(version: str) -> str | None:
    """An interpreter of a version, with venv."""
    wanted = tuple(map(int, version.split(".")))
    check = f"import sys, venv, ensurepip; sys.exit(sys.version_info[:2] != {wanted})"
    for candidate in candidates(version):
        found = shutil.which(candidate)
        if found and not subprocess.run([found, "-c", check], capture_output=True).returncode:
            return found
    return None


def installed(base: str, wheel: Path, requirements: tuple[str, ...], at: Path) -> Path | None:
    """The Python of a new environment with the wheel; None where pip does not offer that JAX."""
    run(base, "-m", "venv", at / "venv", at=at)
    python = at / "venv" / "bin" / "python"
    packages = (wheel, "pytest>=8.2", "hypothesis>=6.100", "python-flint>=0.7", *requirements)
    try:
        run(python, "-m", "pip", "install", "-q", "--prefer-binary", *packages, at=at)
    except Failed as failure:
        if "No matching distribution found for jax" in str(failure):
            return None
        raise
    return python


def checked(python: Path, source: Path, at: Path) -> str:
    """The versions that the self-test names; it passes, and so do the tests.

    Raises:
        Failed: something does not.
    """
    settings = {"REN_CACHE_DIR": str(at / "cache"), "JAX_PLATFORMS": "cpu"}
    printed = run(python, "-m", "ren", at=at, **settings)
    about = dict(line.split(None, 1) for line in printed.splitlines() if line.count(" "))
    tests = run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS, at=source)
    where = run(python, "-c", "import ren; print(ren.__file__)", at=source).strip()
    if not where.startswith(str(at)):
        raise Failed(f"the tests saw {where}, which is not the wheel")
    versions = " ".join(f"{name} {about[name]}" for name in ("jax", "jaxlib", "numpy", "attrs"))
    return f"{versions}: self-test passed, {tests.strip().splitlines()[-1].strip('= ')}"


def one(base: str, wheel: Path, source: Path, requirements: tuple[str, ...]) -> tuple[str, bool]:
    """The line of one combination, and whether it failed."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="ren-matrix-") as folder:
        at = Path(folder).resolve()
        try:
            python = installed(base, wheel, requirements, at)
            if python is None:
                return "left out, pip does not offer it", False
            seen = checked(python, source, at)
        except Failed as failure:
            return f"FAILED\n{failure}", True
    return f"passed in {time.monotonic() - start:.0f} s, {seen}", False


def built(at: Path) -> tuple[Path, Path]:
    """The wheel, and the unpacked source distribution without the package."""
    run(sys.executable, "-m", "build", "--outdir", at, ROOT, at=ROOT)
    (wheel,) = at.glob("*.whl")
    (archive,) = at.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        opened.extractall(at, filter="data")
    source = at / archive.name.removesuffix(".tar.gz")
    shutil.rmtree(source / "ren")
    return wheel, source


def main(*chosen: str) -> int:
    """Prints a line for each combination; the exit status."""
    pythons = [v for v in PYTHONS if v in chosen] or PYTHONS
    jaxes = [j for j in JAXES if j in chosen] or JAXES
    failures, seen = 0, 0
    with tempfile.TemporaryDirectory(prefix="ren-matrix-") as folder:
        wheel, source = built(Path(folder).resolve())
        for version in pythons:
            base = interpreter(version)
            for jax in jaxes:
                line, failed = "left out, this Python is not here", False
                if base is not None:
                    line, failed = one(base, wheel, source, JAXES[jax])
                failures, seen = failures + failed, seen + (not line.startswith("left out"))
                print(f"Python {version}, {jax} JAX: {line}", flush=True)
    return int(failures > 0 or not seen)


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
