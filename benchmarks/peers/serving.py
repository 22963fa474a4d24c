"""The process side of a library under test: one JSON object a line in, one out.

It stays warm between requests, so that several libraries can be timed by turns in one run. Only
the standard library is used here, and Python 3.10 suffices: each library has its own environment.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

POLYNOMIALS = {f"polynomial of degree {degree}": degree for degree in (7, 27, 119)}
MATRICES = {f"matrix {size}x{size}": size for size in (16, 128, 1024)}
MIXES = {"mix 16x16": 16}  # a matrix times ciphertexts side by side
HOISTED = 8
MOST_KEY_BYTES = 4 << 30  # of all rotation keys of a row together
MOST_PLAIN_BYTES = 2 << 30  # of its plaintexts; with more a row takes minutes
BATCHES = (1, 4, 16)
OPERATIONS = (
    "NTT",
    "INTT",
    "NTT of 32 limbs",
    "base conversion",
    "add",
    "plaintext product",
    "product",
    "rotation",
    "8 rotations",
    *MATRICES,
    *MIXES,
    *POLYNOMIALS,
    "encode",
    "encode and encrypt",
    "decrypt and decode",
    *(f"{op}, vmap of {batch}" for op in ("product", "rotation") for batch in BATCHES),
)
Call = Callable[[], Any]


class Peer(Protocol):
    """A library: `setup` makes keys, `operation` gives a call to be timed, awaited inside."""

    def versions(self) -> dict[str, str]:
        """Of the library and what it runs on."""
        ...

    def digits(self, n: int, depth: int, scale_bits: int, bound: int) -> Sequence[int]:
        """The dnum worth trying, all inside the bound on log2 Q P."""
        ...

    def setup(self, n: int, depth: int, scale_bits: int, dnum: int) -> dict[str, Any]:
        """Makes keys; logQ, logQP, limbs, dnum and threads."""
        ...

    def operation(self, name: str) -> Call | None:
        """The operation, or None where the library has none such."""
        ...

    def settled(self, call: Call, with_memory: bool) -> dict[str, Any]:
        """Whatever runs in the background is done; more fields for the row."""
        ...


def coefficients(degree: int) -> list[float]:
    """Of the polynomials: no zeros, none of them an integer, bounded on [-1, 1]."""
    return [0.5 * (-1) ** (i // 2) / (i + 1.5) for i in range(degree + 1)]


def values(count: int, phase: float = 0.0) -> list[float]:
    """Numbers in [-1, 1]."""
    return [((0.618033988749895 * i + phase) % 2.0) - 1.0 for i in range(count)]


def matrix(size: int) -> list[list[float]]:
    return [values(size, 0.37 * row) for row in range(size)]


def peak_bytes(call: Call) -> int | None:
    """The most memory that the process held while `call` ran."""
    clear, status = Path("/proc/self/clear_refs"), Path("/proc/self/status")
    try:
        clear.write_text("5", encoding="ascii")  # the high-water mark begins anew
        call()
        lines = status.read_text(encoding="ascii").splitlines()
        return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        return None


class _Server:
    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.call: Call = lambda: None

    def versions(self) -> dict[str, Any]:
        return {"versions": self.peer.versions()}

    def digits(self, n: int, depth: int, scale_bits: int, bound: int) -> dict[str, Any]:
        return {"digits": list(self.peer.digits(n, depth, scale_bits, bound))}

    def setup(self, **wanted: Any) -> dict[str, Any]:
        return self.peer.setup(**wanted)

    def prepare(self, op: str, with_memory: bool = False) -> dict[str, Any]:
        """The times of keys and plaintexts, of a first and of a warm call, and the memory of one.

        {} without such an op.
        """
        self.call = lambda: None  # keys and plaintexts of the row before are freed
        start = time.perf_counter()
        call = self.peer.operation(op)
        prepare_s = time.perf_counter() - start
        if call is None:
            return {}
        self.call = call
        first = self.time(1)["seconds"]
        fields = self.peer.settled(call, with_memory)
        warm = self.time(1)["seconds"]
        return {
            "prepare_s": prepare_s, "compile_s": first, "warm_s": warm,
            "peak_bytes": peak_bytes(call), **fields,
        }  # fmt: skip

    def time(self, count: int) -> dict[str, Any]:
        start = time.perf_counter()
        for _ in range(count):
            self.call()
        return {"seconds": (time.perf_counter() - start) / count}


def serve(peer: Peer) -> None:
    """Answers requests until the input ends. What libraries print goes to the standard error."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    server = _Server(peer)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = getattr(server, request.pop("call"))(**request)
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {str(error).splitlines()[:1]}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
