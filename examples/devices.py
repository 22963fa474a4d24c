"""`python -m examples.devices`: one batch of ciphertexts over all devices of a process.

A computer has one CPU device; XLA_FLAGS=--xla_force_host_platform_device_count=4 makes four of it.
"""

from __future__ import annotations

import sys
import time

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import ren
from ren.schemes import ckks

BATCH = 8


@ren.jit
def smoothed(x: ckks.Ciphertext) -> ckks.Ciphertext:
    """The square of the mean of neighbors."""
    mean = (x + x.rotate(1)) * 0.5
    return mean * mean


def main() -> int:
    """Runs it on one device and on all; returns 0 if the bits are equal."""
    ctx = ckks.context(depth=2)
    rows = np.linspace(-1, 1, BATCH * ctx.slots).reshape(BATCH, ctx.slots)
    x = ckks.stack([ctx.encrypt(row) for row in rows])
    mesh = Mesh(np.array(jax.devices()), ("batch",))
    divided = jax.device_put(x, NamedSharding(mesh, PartitionSpec("batch")))
    results, seconds = [], []
    for given in (x, divided):
        jax.block_until_ready(smoothed(given))
        start = time.perf_counter()
        results.append(jax.block_until_ready(smoothed(given)))
        seconds.append(time.perf_counter() - start)
    on_one, on_all = results
    is_same = all(
        ren.equal(a, b) for a, b in zip(on_one.polys, gathered(on_all).polys, strict=True)
    )
    print(f"one device: {1e3 * seconds[0]:.1f} ms; {mesh.size}: {1e3 * seconds[1]:.1f} ms")
    print(f"the same bits: {is_same}")
    return 0 if is_same else 1


def gathered(x: ckks.Ciphertext) -> ckks.Ciphertext:
    """The ciphertext on the first device."""
    return jax.device_put(x, jax.devices()[0])


if __name__ == "__main__":
    sys.exit(main())
