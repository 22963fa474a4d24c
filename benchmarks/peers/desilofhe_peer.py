"""Serves desilofhe 2, where a user has installed it; nothing here installs it."""

# This work uses the DESILO FHE library developed by DESILO Inc. (https://desilo.ai)
#
# That sentence is what its licence asks of public software that uses it. The licence is DESILO's
# own, not an open one: free of charge for non-commercial use alone, commercial use by separate
# agreement, no redistribution. So it is no dependency of Ren, in no extra, and no command
# of the Makefile installs it. Whoever shows figures that come from here repeats the sentence.

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from typing import Any

import desilofhe
import numpy as np

from benchmarks.peers import circuits
from benchmarks.peers.serving import (
    HOISTED,
    MATRICES,
    MIXES,
    MOST_KEY_BYTES,
    MOST_PLAIN_BYTES,
    POLYNOMIALS,
    Call,
    coefficients,
    matrix,
    serve,
    values,
)


class DesilofhePeer:
    """Its depth is all that is chosen: degree, moduli, digits and scale follow from it.

    It tells neither moduli nor digits nor scale, so the rows have none, and nothing here can hold
    it to the bound on log2 Q P.
    """

    def versions(self) -> dict[str, str]:
        return {"desilofhe": version("desilofhe")}

    def digits(self, n: int, depth: int, scale_bits: int, bound: int) -> Sequence[int]:
        return [0]  # its own, whatever is asked

    def setup(self, n: int, depth: int, scale_bits: int, dnum: int) -> dict[str, Any]:
        threads = len(os.sched_getaffinity(0))
        self.engine = e = desilofhe.Engine(max_level=depth, mode="parallel", thread_count=threads)
        if 2 * e.slot_count != n:
            raise ValueError(f"depth {depth} takes n = {2 * e.slot_count}, and not {n}")
        self.depth, self.slots = depth, e.slot_count
        self.secret = e.create_secret_key()
        self.relin = e.create_relinearization_key(self.secret)
        self.turns: dict[int, Any] = {1: e.create_fixed_rotation_key(self.secret, 1)}
        self.x, self.y = np.array(values(self.slots)), np.array(values(self.slots, 0.5))
        self.p = e.encode(self.y)
        # What encryption gives has a rescale pending; without it, as here, an operation does its
        # own work alone, a rotation stays on its level, and `depth` products are left.
        self.a, self.b = (e.rescale(e.encrypt(v, self.secret)) for v in (self.x, self.y))
        unknown = dict.fromkeys(("logQ", "logQP", "limbs", "dnum", "scale"))
        return {**unknown, "threads": threads}

    def operation(self, name: str) -> Call | None:
        e, a, b, p = self.engine, self.a, self.b, self.p
        if name in POLYNOMIALS:
            return self._polynomial(POLYNOMIALS[name])
        if name in MATRICES:
            return self._matrix(MATRICES[name])
        if name in MIXES:
            return self._mix(MIXES[name])
        if name == "8 rotations":
            steps = range(1, HOISTED + 1)
            return self._with_keys(steps, lambda: self._hoisted(a, steps))
        found: dict[str, Call] = {
            "add": lambda: e.add(a, b),
            "plaintext product": lambda: e.rescale(e.multiply(a, p)),
            "product": lambda: e.rescale(e.multiply(a, b, self.relin)),
            "rotation": lambda: self._rotated(a, 1),
            "encode": lambda: e.encode(self.x),
            "encode and encrypt": lambda: e.encrypt(self.x, self.secret),
            "decrypt and decode": lambda: e.decrypt(a, self.secret),
        }
        return found.get(name)

    def settled(self, call: Call, with_memory: bool) -> dict[str, Any]:
        return {}

    def _rotated(self, x: Any, step: int) -> Any:
        """result[i] = x[i + step]."""
        return self.engine.rotate(x, self.turns[step])

    def _hoisted(self, x: Any, steps: Iterable[int]) -> list[Any]:
        return self.engine.rotate_many(x, [self.turns[i] for i in steps])

    def _with_keys(self, steps: Sequence[int], call: Call) -> Call | None:
        """The call, with exactly these keys and the first; None where they are too large."""
        first = self.turns[1]
        if first.nbytes * len(steps) > MOST_KEY_BYTES:
            return None
        made = {i: self.engine.create_fixed_rotation_key(self.secret, i) for i in steps if i != 1}
        self.turns = {1: first} | made
        return call

    def _matrix(self, size: int) -> Call | None:
        e = self.engine
        if size * self._plaintext_nbytes > MOST_PLAIN_BYTES:
            return None
        repeated = np.tile(values(size), self.slots // size)
        v = e.rescale(e.encrypt(repeated, self.secret))
        encoded: list[Any] = []

        def call() -> Any:
            made = circuits.product(
                lambda count: [v, *self._hoisted(v, range(1, count))],
                encoded, e.multiply, e.add, self._rotated,
            )  # fmt: skip
            return e.rescale(made)

        found = self._with_keys(circuits.steps(size), call)
        if found is not None:
            rows = circuits.diagonals(matrix(size), self.slots)
            encoded += (e.encode(np.array(row)) for row in rows)
        return found

    def _mix(self, size: int) -> Call | None:
        e = self.engine
        if size**2 * self._plaintext_nbytes > MOST_PLAIN_BYTES:
            return None
        vectors = [e.rescale(e.encrypt(self.x, self.secret)) for _ in range(size)]
        encoded = [[e.encode(np.full(self.slots, w)) for w in row] for row in matrix(size)]
        return lambda: [e.rescale(y) for y in circuits.mixed(vectors, encoded, e.multiply, e.add)]

    @property
    def _plaintext_nbytes(self) -> int:
        """About: it does not tell its moduli."""
        return 8 * (self.depth + 1) * 2 * self.slots

    def _polynomial(self, degree: int) -> Call | None:
        numbers = coefficients(degree)
        if self.depth < math.ceil(math.log2(degree + 1)) + 1:
            return None
        return lambda: self.engine.evaluate_polynomial(self.a, numbers, self.relin)


if __name__ == "__main__":
    serve(DesilofhePeer())
