"""Serves Ren itself, in the manner of the libraries beside it."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

import ren
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
from benchmarks.record import cores, stamp
from ren.config import config
from ren.core.numtheory import ntt_primes_below
from ren.jit import Jitted
from ren.poly import Poly
from ren.ring import Domain, RingSpec
from ren.schemes import ckks
from ren.schemes.ckks import Ciphertext, Context, Parameters

LIMBS = 32  # of the transform that is compared between machines
WARM_CALLS, WARM_S = 40, 20  # at most, in which the tiers are timed against each other
NEAR = 1.4  # a dnum is worth trying whose key switch takes at most so many times the fewest limbs


class RenPeer:
    """Each operation is a function under `ren.jit`, replayed; batches are under `jax.vmap`."""

    def __init__(self) -> None:
        self.jitted: Jitted | None = None

    def versions(self) -> dict[str, str]:
        return {k: v for k, v in stamp().items() if k != "date"}

    def digits(self, n: int, depth: int, scale_bits: int, bound: int) -> Sequence[int]:
        found: dict[int, int] = {}  # cost by dnum
        for dnum in (None, 1, 2, 3, 4, 5, 6, 8):
            try:
                p = Parameters.for_depth(depth, scale_bits, n=n, dnum=dnum)
            except ckks.ParameterError:
                continue
            if p.log_qp <= bound:
                found[p.dnum] = (p.dnum + 2) * len(p.union + p.specials)
        return sorted(d for d, cost in found.items() if cost <= NEAR * min(found.values()))

    def setup(self, n: int, depth: int, scale_bits: int, dnum: int) -> dict[str, Any]:
        self.params = p = Parameters.for_depth(depth, scale_bits, n=n, dnum=dnum)
        self.ctx = ckks.context(params=p)
        self.ctx.rotation_keys(1)
        self.x, self.y = np.array(values(p.slots)), np.array(values(p.slots, 0.5))
        self.a, self.b = self.ctx.encrypt(self.x), self.ctx.encrypt(self.y)
        return {
            "logQ": round(p.ring(depth).log2_q, 1), "logQP": round(p.log_qp, 1),
            "limbs": p.ring(depth).limbs, "dnum": p.dnum, "threads": cores(),
            "native": getattr(config, "native", None), **_accelerator(),
        }  # fmt: skip

    def operation(self, name: str) -> Call | None:
        self.jitted = None
        if name in POLYNOMIALS:
            return self._polynomial(coefficients(POLYNOMIALS[name]))
        if name in MATRICES:
            return self._matrix(np.array(matrix(MATRICES[name])))
        if name in MIXES:
            return self._mix(np.array(matrix(MIXES[name])))
        if ", vmap of " in name:
            op, _, batch = name.partition(", vmap of ")
            return self._batch(op, int(batch))
        return self._transform(name) or self._on_ciphertexts(name) or self._on_host(name)

    def settled(self, call: Call, with_memory: bool) -> dict[str, Any]:
        if self.jitted is None:
            return {}
        start = time.perf_counter()
        for _ in range(WARM_CALLS):
            if time.perf_counter() - start > WARM_S:
                break
            call()
            if self.jitted.plans[0].telemetry.state == "compiling":
                self.jitted.plans[0].wait()
        self.jitted.plans[0].wait()
        if not with_memory:
            return {}
        from benchmarks.kernel_memory import largest_ratio  # an older Ren may lack its modules

        return {"memory_ratio": largest_ratio(self.jitted.plans[0].plan)}

    def _replays(self, function: Any, *args: Any) -> Call:
        self.jitted = jitted = ren.jit(function)
        return lambda: jax.block_until_ready(jitted(*args))

    def _transform(self, name: str) -> Call | None:
        """Of both polynomials of a ciphertext at the top level."""
        p = self.params
        ring = p.ring(p.depth)
        if name == "NTT of 32 limbs":
            primes = ntt_primes_below(p.n, 1 << 30)
            wide = RingSpec(p.n, tuple(next(primes) for _ in range(LIMBS)))
            return self._replays(Poly.ntt, _random(wide, ()))
        if name == "NTT":
            return self._replays(Poly.ntt, _random(ring, (2,)))
        if name == "INTT":
            return self._replays(Poly.intt, _random(ring, (2,), Domain.NTT))
        if name != "base conversion":
            return None
        digit = max((tuple(q for q in d if q in ring.moduli) for d in p.digits), key=len)
        wide = ring.with_moduli((*ring.moduli, *p.specials))
        return self._replays(lambda x: x.mod_up(digit, wide), _random(ring, ()))

    def _on_ciphertexts(self, name: str) -> Call | None:
        a, b, ctx = self.a, self.b, self.ctx
        if name == "add":
            return self._replays(lambda x, y: x + y, a, b)
        if name == "plaintext product":
            return self._replays(lambda x, p: x * p, a, ctx.encode(self.y))
        if name == "product":
            return self._replays(lambda x, y: x * y, a, b)
        if name == "rotation":
            return self._replays(lambda x: x.rotate(1), a)
        steps = range(1, HOISTED + 1)
        if name == "8 rotations" and self._make_keys(steps):
            return self._replays(lambda x: [x.rotate(i) for i in steps], a)
        return None

    def _on_host(self, name: str) -> Call | None:
        ctx = self.ctx
        found: dict[str, Call] = {
            "encode": lambda: jax.block_until_ready(ctx.encode(self.x)),
            "encode and encrypt": lambda: jax.block_until_ready(ctx.encrypt(self.x)),
            "decrypt and decode": lambda: ctx.decrypt(self.a),
        }
        return found.get(name)

    def _make_keys(self, steps: Sequence[int]) -> bool:
        if self.params.key_nbytes() * len(steps) > MOST_KEY_BYTES:
            return False
        self.ctx.rotation_keys(steps)
        return True

    def _matrix(self, numbers: np.ndarray) -> Call | None:
        p = self.params
        if len(numbers) * 4 * len(p.union + p.specials) * p.n > MOST_PLAIN_BYTES:
            return None
        encoded = ckks.linear(numbers, self.ctx)
        if not self._make_keys(encoded.rotations):
            return None
        v = self.ctx.encrypt(self.x[: len(numbers)])
        return self._replays(lambda m, x: m @ x, encoded, v)

    def _mix(self, numbers: np.ndarray) -> Call:
        vectors = ckks.stack([self.a] * len(numbers))
        return self._replays(lambda x: ckks.mix(numbers, x), vectors)

    def _polynomial(self, numbers: Sequence[float]) -> Call | None:
        if self.params.depth < math.ceil(math.log2(len(numbers))):
            return None
        return self._replays(lambda x: ckks.poly(x, numbers), self.a)

    def _batch(self, op: str, batch: int) -> Call | None:
        """`op` under jax.vmap, the keys an argument."""
        if batch * self.params.ciphertext_nbytes() > 1 << 28:
            return None
        xs = ckks.stack([self.a] * batch)
        server = self.ctx.server(rotations=[1])

        def one(keys: Context, x: Ciphertext) -> Ciphertext:
            with keys:
                return x.rotate(1) if op == "rotation" else (x * x).rescale()

        mapped = jax.jit(jax.vmap(one, in_axes=(None, 0)))
        return lambda: jax.block_until_ready(mapped(server, xs))


def _accelerator() -> dict[str, str]:
    """The device, where JAX's is no CPU; then it is no property of the machine alone."""
    device = jax.devices()[0]
    return {} if device.platform == "cpu" else {"device": device.device_kind}


def _random(ring: RingSpec, batch: tuple[int, ...], domain: Domain = Domain.COEFF) -> Poly:
    draw = np.random.default_rng(1)
    rows = [draw.integers(0, q, (*batch, 1, ring.n)) for q in ring.moduli]
    limbs = np.concatenate(rows, axis=-2).astype(np.uint32)
    return Poly.from_limbs(jax.device_put(limbs), ring, domain)


if __name__ == "__main__":
    serve(RenPeer())
