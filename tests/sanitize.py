"""Run the tests of native code under the sanitizers of gcc: `make sanitize`.

The first run builds the library with AddressSanitizer, UndefinedBehaviorSanitizer and the bytecode
checks. LD_PRELOAD loads the runtime of AddressSanitizer ahead of Python, so that it also watches
the arrays of NumPy and XLA. Leak detection is off: Python and XLA free little before they exit.

The second run calls the kernels from a driver without Python and XLA, with mutants of bytecode, and
again under ThreadSanitizer.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from ren.lowering.backends.native import build
from tests.lowering.native.driver import ADDRESS, DEBUG

TESTS = (
    *(
        f"tests/lowering/native/test_{name}.py"
        for name in ("batches", "code", "devices", "hashing")
    ),
    *("tests/lowering/native/test_ops.py", "tests/lowering/test_mix.py", "tests/test_sampling.py"),
    # Weights in 4 and in 8 bytes are lifted to each prime.
    "tests/schemes/ckks/circuits/test_linear.py::test_diagonals_kept_as_coefficients_give_the_same_bits",
)
SKIPPED = "without_native_kernels"  # a test that spends most of its time in XLA's compiler
DRIVEN = ("tests/lowering/native/test_bytecode.py", "tests/lowering/native/test_sanitizers.py")
RUNTIMES = ("libasan.so", "libubsan.so", "libstdc++.so")


def runtimes() -> str:
    """Return the libraries to load ahead of Python, as LD_PRELOAD takes them.

    Raises:
        SystemExit: there is no compiler, or it is not gcc.
    """
    try:
        compiler = build.compiler()
    except build.BuildError as error:
        raise SystemExit(f"No sanitizers: {error}.") from None
    found = []
    for name in RUNTIMES:
        command = [*compiler.command, f"-print-file-name={name}"]
        path = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
        if not Path(path).is_file():
            raise SystemExit(
                f"{compiler.command[0]} has no {name}. Name a gcc: make CXX=g++ sanitize"
            )
        found.append(path)
    return " ".join(found)


def main() -> int:
    """Run the tests; return the exit status of the first run that fails, else 0."""
    with tempfile.TemporaryDirectory(prefix="ren-") as folder:
        watched = {
            "LD_PRELOAD": runtimes(),
            "ASAN_OPTIONS": "detect_leaks=0",
            "UBSAN_OPTIONS": "print_stacktrace=1",
            "REN_NATIVE": "1",
            "REN_NATIVE_FLAGS": " ".join(("-O1", *DEBUG, *ADDRESS)),
            "REN_CACHE_DIR": folder,  # the tests that start processes share the library
        }
        in_process = (*TESTS, "-m", "not slow and not gpu", "-k", f"not {SKIPPED}")
        return _pytest(in_process, watched) or _pytest(DRIVEN, {})


def _pytest(arguments: tuple[str, ...], variables: dict[str, str]) -> int:
    command = [sys.executable, "-m", "pytest", "-q", "--durations=5", *arguments]
    return subprocess.run(command, env={**os.environ, **variables}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
