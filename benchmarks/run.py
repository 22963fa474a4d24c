"""`make bench`: medians of polynomial and CKKS operations, TenSEAL's product beside Ren's.

Each figure is the median of `REPEATS` replays of a jitted function, after its first call, on
JAX's default device; TenSEAL (SEAL) runs on one core.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

import ren
from ren.core.numtheory import ntt_primes_below
from ren.poly import Poly
from ren.ring import RingSpec
from ren.schemes import ckks

REPEATS = 20
DEPTH = 4
Row = tuple[str, float]


def median(run: Callable[[], Any]) -> float:
    """The median time of `run` in milliseconds; its first call is not counted."""
    jax.block_until_ready(run())
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        jax.block_until_ready(run())
        times.append(time.perf_counter() - start)
    return 1e3 * statistics.median(times)


def polynomial_rows(n: int, limbs: int) -> Iterator[Row]:
    """Transforms and products in one ring."""
    primes = ntt_primes_below(n, 1 << 30)
    ring = RingSpec(n, tuple(next(primes) for _ in range(limbs)))
    x, y = (Poly.uniform(ring).realize() for _ in range(2))
    label = f"n = {n}, {limbs} limbs"
    transform, product = ren.jit(lambda p: p.ntt()), ren.jit(lambda p, r: p * r)
    divide = ren.jit(lambda p: p.rescale(ring.moduli[:-1]))
    yield f"ntt                     {label}", median(lambda: transform(x))
    yield f"product                 {label}", median(lambda: product(x, y))
    yield f"rescale by one limb     {label}", median(lambda: divide(x))


def ckks_rows(context: ckks.Context) -> Iterator[Row]:
    """Operations on full ciphertexts at the top level."""
    values = np.linspace(-1, 1, context.slots)
    x, y = context.encrypt(values), context.encrypt(values[::-1])
    context.rotation_keys(1)
    label = f"n = {context.params.n}, depth {context.params.depth}"
    product, rotation = ren.jit(lambda a, b: a * b), ren.jit(lambda a: a.rotate(1))
    yield f"ciphertext product      {label}", median(lambda: product(x, y))
    yield f"rotation                {label}", median(lambda: rotation(x))
    yield f"encryption              {label}", median(lambda: context.encrypt(values))


def tenseal_rows() -> Iterator[Row]:
    """The same product in TenSEAL, or one line that says how to have it."""
    try:
        import tenseal
    except ImportError:
        yield "TenSEAL is not installed: pip install '.[bench]'", float("nan")
        return
    bits = [60, *[40] * DEPTH, 60]
    context = tenseal.context(
        tenseal.SCHEME_TYPE.CKKS, 16384, coeff_mod_bit_sizes=bits, n_threads=1
    )
    context.global_scale = 2**40
    values = np.linspace(-1, 1, 8192)
    x, y = tenseal.ckks_vector(context, values), tenseal.ckks_vector(context, values[::-1])
    yield f"TenSEAL product, 1 core n = 16384, depth {DEPTH}", median(lambda: x * y)


def main() -> None:
    """Prints one line for each operation."""
    print(f"{jax.devices()[0].device_kind}, medians of {REPEATS}, in ms")
    rows = [*polynomial_rows(1 << 13, 6), *polynomial_rows(1 << 14, 13)]
    rows += [*ckks_rows(ckks.context(depth=DEPTH)), *tenseal_rows()]
    for label, milliseconds in rows:
        print(f"{label:<52} {milliseconds:10.3f}")


if __name__ == "__main__":
    main()
