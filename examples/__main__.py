"""`python -m examples`: starts a server, runs a client against it, and stops the server."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def running_server() -> Iterator[int]:
    """A server in a process of its own; gives its port."""
    command = [sys.executable, "-m", "examples.server", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line:
                raise RuntimeError("The server ended before it listened; its error stands above.")
            yield int(line.split()[-1])
        finally:
            process.terminate()


def main(*arguments: str) -> int:
    """Both; returns the client's exit status."""
    with running_server() as port:
        command = [sys.executable, "-m", "examples.client", "--port", str(port), *arguments]
        return subprocess.run(command).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
