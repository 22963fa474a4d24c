"""`python -m examples.workers`: many ciphertexts over the workers of a Dask cluster.

`pip install 'ren[dask]'`. The keys are scattered once to each worker; the ciphertexts travel as
their bytes. A context that holds the secret key refuses to travel.
"""

from __future__ import annotations

import pickle
import sys
from typing import Any

import numpy as np

import ren
from ren.core.errors import SerializationError
from ren.schemes import ckks

WORKERS, COUNT = 2, 6


def smoothed(keys: ckks.Context, x: ckks.Ciphertext) -> ckks.Ciphertext:
    """The square of the mean of neighbors, on a worker, which holds the keys."""
    with keys:
        return _smoothed(x)


@ren.jit
def _smoothed(x: ckks.Ciphertext) -> ckks.Ciphertext:
    mean = (x + x.rotate(1)) * 0.5
    return mean * mean


def main() -> int:
    """Runs it on two workers; returns 0 if the bits are those of this process."""
    from distributed import Client, LocalCluster

    ctx = ckks.context(depth=2)
    rows = np.linspace(-1, 1, COUNT * ctx.slots).reshape(COUNT, ctx.slots)
    given = [ctx.encrypt(row) for row in rows]
    expected = [_smoothed(x) for x in given]
    try:
        pickle.dumps(ctx)
    except SerializationError as error:
        print(f"the owner stays here: {type(error).__name__}")
    cluster = LocalCluster(
        n_workers=WORKERS, threads_per_worker=1, host="127.0.0.1", dashboard_address=""
    )
    with cluster, Client(cluster) as client:
        keys = client.scatter(ctx.server(), broadcast=True)
        made: Any = client.gather(client.map(smoothed, [keys] * COUNT, given))
    is_same = all(
        ren.equal(a, b)
        for x, y in zip(made, expected, strict=True)
        for a, b in zip(x.polys, y.polys, strict=True)
    )
    print(f"{COUNT} ciphertexts on {WORKERS} workers; the bits of one process: {is_same}")
    return 0 if is_same else 1


if __name__ == "__main__":
    sys.exit(main())
