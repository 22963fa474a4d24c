"""The caller's side: a library under test in its own process, and which are there."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


class PeerError(RuntimeError):
    """A library refused a request, or its process ended."""


class Process:
    """A library under test.

    Args:
        side: what the rows call it.
        python: the interpreter of its environment.
        module: that serves it.
        environment: variables set for it; those of JAX and Ren are otherwise cleared.
        cores: how many cores it may use; None for all.
        root: the folder that it imports from, and runs in.
    """

    def __init__(
        self,
        side: str,
        python: str,
        module: str,
        environment: dict[str, str] | None = None,
        cores: int | None = None,
        root: Path = ROOT,
    ) -> None:
        self.side = side
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "REN_"))}
        command = [python, "-m", module]
        self._process = subprocess.Popen(
            [*on_cores(cores), *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            cwd=root, env={**clean, "PYTHONPATH": _path(root), **(environment or {})},
        )  # fmt: skip
        try:
            self.versions: dict[str, str] = self.ask("versions")["versions"]
        except PeerError:
            self.close()
            raise

    def ask(self, call: str, **arguments: Any) -> dict[str, Any]:
        """The answer to one request.

        Raises:
            PeerError: it refused, or has ended.
        """
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps({"call": call, **arguments}) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise PeerError(f"{self.side} has ended") from None
        line = self._process.stdout.readline()
        if not line:
            raise PeerError(f"{self.side} has ended during {call}")
        answer = json.loads(line)
        if "error" in answer:
            raise PeerError(f"{self.side}, {call}: {answer['error']}")
        return answer

    def close(self) -> None:
        """Ends the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


def built_openfhe(prefix: Path) -> dict[str, str]:
    """The variables with which a process imports the OpenFHE that is installed in a prefix.

    Its Python module is in the prefix itself, where `cmake --install` puts it, or in its packages.

    Raises:
        PeerError: there is none.
    """
    prefix = prefix.resolve()
    folders = [prefix, *prefix.glob("lib*/python3*/*-packages")]
    names = ("openfhe*.so", "openfhe/openfhe*.so")
    found = [folder for folder in folders if any(any(folder.glob(name)) for name in names)]
    if not found:
        raise PeerError(f"{prefix} has no Python module of OpenFHE, openfhe*.so")
    libraries = [prefix / "lib", prefix / "lib64", os.environ.get("LD_LIBRARY_PATH")]
    return {
        "PYTHONPATH": os.pathsep.join(map(str, (ROOT, *found))),
        "LD_LIBRARY_PATH": os.pathsep.join(str(folder) for folder in libraries if folder),
        "OPENFHE_PREFIX": str(prefix),
    }


def _path(root: Path) -> str:
    return os.pathsep.join(filter(None, (str(root), os.environ.get("PYTHONPATH"))))


def on_cores(cores: int | None) -> list[str]:
    """What goes before a command so that it uses so many cores; nothing for None."""
    return [] if cores is None else ["taskset", "-c", f"0-{cores - 1}"]


def can_import(python: str, module: str, environment: dict[str, str] | None = None) -> bool:
    """Whether an interpreter is there and imports the module."""
    variables = {**os.environ, **(environment or {})}
    try:
        made = subprocess.run(
            [python, "-c", f"import {module}"], capture_output=True, env=variables
        )
    except OSError:
        return False
    return made.returncode == 0


def started(side: str, python: str, module: str, needs: str, **options: Any) -> Sequence[Process]:
    """The process, or none, and a line that says why."""
    if not can_import(python, needs, options.get("environment")):
        print(f"{side}: left out, {needs} cannot be imported where it would run")
        return ()
    try:
        return (Process(side, python, module, **options),)
    except PeerError as error:
        print(f"{side}: left out, {error}")
        return ()
