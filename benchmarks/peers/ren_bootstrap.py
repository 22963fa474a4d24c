"""Serves the bootstraps of Ren: of complex numbers, of real ones, of two real ciphertexts."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import jax
import numpy as np

from benchmarks.peers.serving import Call, serve, values
from ren.schemes import ckks


class RenPeer:
    """The default parameters of `ckks.context(bootstrapping=True)`, with all slots or with few."""

    def versions(self) -> dict[str, str]:
        return {"jax": version("jax")}

    def digits(self, n: int, depth: int, scale_bits: int, bound: int) -> Sequence[int]:
        return []

    def setup(self, slots: int | None = None) -> dict[str, Any]:
        start = time.perf_counter()
        self.ctx = ckks.context(bootstrapping=True, slots=slots)
        self.ctx.bootstrapping_keys()
        keys_s = time.perf_counter() - start
        params, found = self.ctx.params, self.ctx.params.bootstrapping
        assert found is not None, "it was asked for"
        self.real = np.array(values(params.slots))
        self.clear = (self.real + 1j * np.array(values(params.slots, 0.5))) / math.sqrt(2)
        level = found.floor
        self.x = self.ctx.encrypt(self.clear, level=level, bound=1.0)
        self.a = self.ctx.encrypt(self.real, level=level, bound=1.0)
        self.b = self.ctx.encrypt(-self.real, level=level, bound=1.0)
        return {
            "levels": found.levels,
            "slots": params.slots,
            "logQP": round(params.log_qp, 1),
            "keys_s": keys_s,
            "key_bytes": found.key_nbytes,
            "threads": len(os.sched_getaffinity(0)),
        }

    def operation(self, name: str) -> Call | None:
        calls = {
            "bootstrap": (lambda: [self.x.bootstrap()], [self.clear]),
            "bootstrap of real numbers": (lambda: [self.a.bootstrap()], [self.real]),
            "bootstrap of two of real numbers": (
                lambda: ckks.bootstrap([self.a, self.b]),
                [self.real, -self.real],
            ),
        }
        if name not in calls:
            return None
        run, self.want = calls[name]

        def call() -> None:
            self.made = run()
            jax.block_until_ready([p.limbs for y in self.made for p in y.polys])

        return call

    def settled(self, call: Call, with_memory: bool) -> dict[str, Any]:
        pairs = zip(self.made, self.want, strict=True)
        errors = np.concatenate([self.ctx.decrypt(y) - want for y, want in pairs])
        return {
            "worst_bits": round(-math.log2(np.abs(errors).max()), 2),
            "rms_bits": round(-math.log2(np.sqrt(np.mean(np.abs(errors) ** 2))), 2),
        }


if __name__ == "__main__":
    serve(RenPeer())
