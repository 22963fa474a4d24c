"""Transforms of many limbs a few at a time, so that a chunk stays in the caches all through.

Each chunk is a call of one function that XLA:CPU keeps apart and compiles once. Its tables come in
chunks too, as a slice of an array is a copy. On other platforms all limbs are one chunk.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ren.lowering.kernels import tables
from ren.lowering.kernels.keeps_calls import apart, is_apart

Arrays = tuple[np.ndarray, ...]

# The residues of a chunk, and the fewest that are cut. Measured with 2 MiB of L2 a core, forward
# and inverse in ms, whole and in chunks of 2, 4, 8 limbs. 32 limbs of 2^16: 24.0 and 19.6; 17.9
# and 12.8; 16.9 and 16.4; 20.5 and 20.7. 24 limbs of 2^15: 8.0 and 6.6; 6.1 and 5.4; 5.0 and 4.9;
# 6.9 and 5.2. 16 limbs of 2^14 gained nothing.
CHUNK, LEAST = 1 << 17, 1 << 19


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
