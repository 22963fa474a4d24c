"""Jitted functions that stay functions of their own inside a larger XLA program.

Transforms of many limbs are such calls, each for a chunk of few limbs, which stays in the caches.
XLA:CPU compiles the function once. Its tables come in chunks too, as a slice of an array is a copy.
On other platforms all limbs are one chunk.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ren.lowering.kernels import tables

try:
    from jax.experimental.xla_metadata import set_xla_metadata
except ImportError:  # experimental: another JAX may not have it
    set_xla_metadata = None

Arrays = tuple[np.ndarray, ...]

# The residues of a chunk, and the fewest that are cut; measured with 2 MiB of L2 a core
# (docs/notes/transforms.md).
CHUNK, LEAST = 1 << 17, 1 << 19


def is_apart() -> bool:
    """Whether jitted functions called under `apart()` are not inlined.

    XLA:CPU otherwise fuses across them, undoes the budget of kernels and computes values anew in
    each that reads them. Measured at n = 2^14, kernels inlined -> apart, units beside them: a
    rotation 10.8 -> 4.8 ms (5.2), a product 6.9 -> 4.8 (6.5), 120 kernels of n = 2^10 1.2 -> 0.26
    (0.3), each the least of 25. Nothing was measured on other platforms.
    """
    return set_xla_metadata is not None and jax.default_backend() == "cpu"


def apart() -> AbstractContextManager[Any]:
    """Calls of jitted functions inside stay calls in XLA's program, where `is_apart()`."""
    if set_xla_metadata is None or not is_apart():
        return nullcontext()
    return set_xla_metadata(inlineable="false")


def chunk_limbs(n: int, limbs: int) -> int:
    """Number of limbs in a chunk."""
    if not is_apart() or n * limbs < LEAST:
        return limbs
    count = -(-limbs // max(1, CHUNK // n))
    return -(-limbs // count)


def cut(n: int, whole: Arrays) -> Arrays:
    """Tables with one row a limb, `(a, b, c)`, as those of the chunks: a, b, c, a, b, c, .."""
    limbs = len(whole[0])
    size = chunk_limbs(n, limbs)
    if size == limbs:
        return whole
    starts = range(0, limbs, size)
    return tuple(tables.frozen(np.array(a[i : i + size])) for i in starts for a in whole)


def in_chunks(transform: Callable[..., Any], x: jax.Array, given: tuple[jax.Array, ...]) -> Any:
    """`transform(x, a, b, c)` of the chunks, for tables `given` as `cut` makes them.

    Args:
        transform: of `[*batch, limb, n]`, limb by limb.
        x: uint32[*batch, L, n].
    """
    if len(given) == 3:
        return transform(x, *given)
    function, out, start = jax.jit(transform), [], 0
    for own in zip(given[::3], given[1::3], given[2::3], strict=True):
        stop = start + own[0].shape[0]
        with apart():
            out.append(function(x[..., start:stop, :], *own))
        start = stop
    return jnp.concatenate(out, axis=-2)
