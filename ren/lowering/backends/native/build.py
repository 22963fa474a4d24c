"""The library of native kernels: which compiler builds it, how, and under which name it is kept."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Sequence
from importlib import resources
from importlib.metadata import version

import attrs
import jax

from ren.config import CXX, NATIVE_FLAGS
from ren.lowering.backends.xla.jax_runtime import processor
from ren.lowering.storage.private_folder import scratch

# C++ compilers by their usual names; the first that is there is used, unless CXX names another.
COMPILERS = ("c++", "g++", "clang++")
FLAGS = (
    *("-std=c++17", "-O2", "-march=native"),
    *("-fvisibility=hidden", "-shared", "-fPIC", "-pthread", "-w"),
)
LIMIT_S = 120.0  # it takes 2 s on an idle machine, and several times as long on a busy one
FLAGGED_LIMIT_S = 300.0  # with flags of the environment: sanitizers double the compile time
PART, SUFFIXES = ".cc", (".cc", ".h")


class BuildError(Exception):
    """Why there is no library; Ren then runs without it."""


@attrs.frozen
class Compiler:
    """A C++ compiler: the command that starts it, and what it says of its version."""

    command: tuple[str, ...]
    version: str


def sources() -> dict[str, bytes]:
    """The texts by name: the parts that are compiled, and the headers that they include."""
    here = resources.files("ren.lowering.backends.native") / "src"
    names = (path.name for path in here.iterdir())
    return {name: (here / name).read_bytes() for name in sorted(names) if name.endswith(SUFFIXES)}


def compiler() -> Compiler:
    """The C++ compiler that the environment variable CXX names, else the system's.

    Raises:
        BuildError: there is none, or it does not run.
    """
    name, *arguments = shlex.split(CXX) or [""]
    path = next(filter(None, map(shutil.which, (name,) if name else COMPILERS)), None)
    if path is None:
        looked_for = f"{name}, as CXX says" if name else ", ".join(COMPILERS)
        raise BuildError(f"no C++ compiler ({looked_for}) is on PATH")
    command = (path, *arguments)
    return Compiler(command, _run([[*command, "--version"]])[0])


def flags() -> tuple[str, ...]:
    """The compiler flags: `FLAGS`, then those of the environment variable REN_NATIVE_FLAGS.

    The library's key covers them, so that a sanitized library is never loaded in place of another.
    For example REN_NATIVE_FLAGS="-DREN_DEBUG" builds kernels that check their bytecode, and
    "-fsanitize=address,undefined -fno-sanitize-recover=all" builds kernels with sanitizers.
    """
    return (*FLAGS, *shlex.split(NATIVE_FLAGS))


def key(built_by: Compiler) -> str:
    """SHA-256, in hex, of all that decides what the library is."""
    made = hashlib.sha256()
    for name, text in sources().items():
        made.update(hashlib.sha256(name.encode()).digest() + hashlib.sha256(text).digest())
    for part in (*built_by.command, built_by.version, *flags(), processor(), version("jaxlib")):
        made.update(hashlib.sha256(part.encode()).digest())
    return made.hexdigest()


def library(built_by: Compiler) -> bytes:
    """Compile the shared library, in a private folder that is deleted afterwards.

    Its parts are compiled at the same time, which takes two thirds of the time of one text.

    Raises:
        BuildError: the compiler failed, or took longer than `LIMIT_S` for a part; with flags of the
            environment, longer than `FLAGGED_LIMIT_S`.
        OSError: other users can replace the folder for temporary files.
    """
    limit_s = FLAGGED_LIMIT_S if NATIVE_FLAGS else LIMIT_S
    with scratch() as folder:
        for name, text in sources().items():
            (folder / name).write_bytes(text)
        made = folder / "kernels.so"
        command = [*built_by.command, *flags(), f"-I{jax.ffi.include_dir()}"]
        parts = {path: path.with_suffix(".o") for path in sorted(folder.glob(f"*{PART}"))}
        calls = [[*command, "-c", str(path), "-o", str(to)] for path, to in parts.items()]
        _run(calls, limit_s)
        _run([[*command, *map(str, parts.values()), "-o", str(made)]], limit_s)
        return made.read_bytes()


def _run(commands: Sequence[Sequence[str]], limit_s: float | None = None) -> list[str]:
    """The outputs of commands that run at the same time; all end at the limit, or if one fails."""
    started: list[subprocess.Popen[str]] = []
    try:
        started.extend(map(_started, commands))
        return [_output(process, LIMIT_S if limit_s is None else limit_s) for process in started]
    finally:
        for process in started:
            if process.poll() is None:
                with contextlib.suppress(OSError):
                    os.killpg(process.pid, signal.SIGKILL)
            with process:  # waits, and closes its pipe
                pass


def _started(command: Sequence[str]) -> subprocess.Popen[str]:
    try:
        return subprocess.Popen(
            command, text=True, errors="replace", start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
    except OSError as error:
        raise BuildError(f"{command[0]} does not run: {error}") from error


def _output(process: subprocess.Popen[str], limit_s: float) -> str:
    try:
        output = process.communicate(timeout=limit_s)[0]
    except subprocess.TimeoutExpired:
        raise BuildError(f"the compiler took more than {limit_s:.0f} s") from None
    if process.returncode != 0:
        raise BuildError(f"{process.args[0]} failed: {_telling(output)}")  # type: ignore[index]
    return output


def _telling(output: str) -> str:
    lines = output.strip().splitlines() or ["it says nothing"]
    return next((line for line in lines if "error" in line), lines[0])[:200]
