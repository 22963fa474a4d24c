"""A driver program that calls the native kernels, built with any compiler flags; see driver.cc."""

from __future__ import annotations

import hashlib
import os
import struct
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import attrs
import jax
import numpy as np
import pytest

from ren.lowering.backends.native import build

DEBUG = ("-DREN_DEBUG",)
ADDRESS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g1")
THREAD = ("-fsanitize=thread", "-g1")
LIMIT_S = 300
HANDED_OVER = (  # each call is, as large ones are
    "kSome = size_t(1) << 18, kMuch = size_t(1) << 20",
    "kSome = 0, kMuch = 0",
)
_DRIVER = Path(__file__).with_name("driver.cc")
_KEPT = Path(__file__).parents[3] / ".pytest_cache" / "native"
_FLAGS = ("-std=c++17", "-march=native", "-pthread", "-w")


@attrs.frozen
class Mutant:
    """The last argument of a call, cut to `size` words, with some words replaced."""

    size: int
    edits: tuple[tuple[int, int], ...]


@attrs.frozen(eq=False)
class Recorded:
    """A call of bytecode, with the results that it has to give."""

    args: tuple[np.ndarray, ...]
    results: tuple[np.ndarray, ...]
    mutants: tuple[Mutant, ...] = ()

    def to_bytes(self) -> bytes:
        parts: list[bytes] = []
        for arrays in (self.args, self.results):
            parts.append(_words(len(arrays)))
            for array in arrays:
                head = _words(array.ndim, *array.shape)
                parts.append(head + np.ascontiguousarray(array, np.uint32).tobytes())
        parts.append(_words(len(self.mutants)))
        for mutant in self.mutants:
            edits = [word for edit in mutant.edits for word in edit]
            parts.append(_words(mutant.size, len(mutant.edits), *edits))
        return b"".join(parts)


def _words(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}Q", *values)


def driver(*flags: str, replaced: Sequence[tuple[str, str]] = ()) -> Path:
    """The driver, built with some flags, once for each state of the sources.

    Args:
        flags: of the compiler, after those for language, processor and threads.
        replaced: texts of the sources and what stands in their places: defects on purpose.
    """
    try:
        compiler = build.compiler()
    except build.BuildError as error:
        pytest.skip(str(error))
    sources = build.sources() | {_DRIVER.name: _DRIVER.read_bytes()}
    for before, after in replaced:
        old, new = before.encode(), after.encode()
        assert any(old in text for text in sources.values())
        sources = {name: text.replace(old, new) for name, text in sources.items()}
    command = (*compiler.command, *_FLAGS, *flags, f"-I{jax.ffi.include_dir()}")
    key = hashlib.sha256(repr((command, compiler.version, build.processor(), sources)).encode())
    made = _KEPT / key.hexdigest()[:32]
    if not made.exists():
        _KEPT.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=_KEPT) as folder:
            for name, text in sources.items():
                (Path(folder) / name).write_bytes(text)
            main, program = Path(folder) / _DRIVER.name, Path(folder) / "program"
            subprocess.run([*command, str(main), "-o", str(program)], check=True, timeout=LIMIT_S)
            os.replace(program, made)
    return made


def outcomes(
    program: Path, calls: Sequence[Recorded], folder: Path, threads: int = 1, callers: int = 1
) -> list[str]:
    """The lines that the driver prints: of the hash functions, of each call and each mutant.

    Raises:
        AssertionError: the driver crashed, a sanitizer reported something, or lines are missing.
    """
    file = folder / "calls"
    file.write_bytes(_words(len(calls)) + b"".join(call.to_bytes() for call in calls))
    options = {"ASAN_OPTIONS": "allocator_may_return_null=1", "TSAN_OPTIONS": "halt_on_error=1"}
    run = subprocess.run(
        [program, file, str(threads), str(callers)],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        env={**os.environ, **options, "LD_PRELOAD": ""},
        check=False,
    )
    lines = run.stdout.splitlines()
    assert run.returncode == 0, f"after {len(lines)} lines: {run.stderr[:6000]}"
    assert len(lines) == 1 + len(calls) + sum(len(call.mutants) for call in calls)
    assert not run.stderr, run.stderr[:6000]
    return lines
