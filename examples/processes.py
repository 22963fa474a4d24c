"""`python -m examples.processes`: one batch of ciphertexts over two processes that JAX connects.

The owner makes the keys, encrypts, and hands over bytes: the evaluation keys and the ciphertexts.
Each process runs the same program on its half of the batch. Nothing is sent between them until the
result is gathered. Between computers each is started by hand, with the address of the first.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import ren
from ren.schemes import ckks

COUNT, BATCH = 2, 4
KEYS, GIVEN, MADE = "keys.bin", "given.bin", "made.bin"


@ren.jit
def smoothed(x: ckks.Ciphertext) -> ckks.Ciphertext:
    """The square of the mean of neighbors."""
    mean = (x + x.rotate(1)) * 0.5
    return mean * mean


def work(address: str, number: int, folder: Path) -> None:
    """What each process does."""
    jax.distributed.initialize(address, num_processes=COUNT, process_id=number)
    ctx = ckks.load_server((folder / KEYS).read_bytes())  # held while the keys are needed
    x = ckks.Ciphertext.from_bytes((folder / GIVEN).read_bytes())
    mesh = Mesh(np.array(jax.devices()), ("batch",))
    divided = jax.device_put(x, NamedSharding(mesh, PartitionSpec("batch")))
    result = smoothed(divided)
    own = jax.tree.map(lambda leaf: leaf.addressable_data(0), result)  # the rows of this process
    whole = multihost_utils.process_allgather(result, tiled=True)
    print(
        f"process {number} of {COUNT}, {ctx.slots} slots: {own.shape[0]} rows of {whole.shape[0]}"
    )
    if number == 0:
        (folder / MADE).write_bytes(whole.to_bytes())


def main() -> int:
    """Starts the processes and reads their result; returns 0 if it has the bits of one process."""
    ctx = ckks.context(depth=2)
    rows = np.linspace(-1, 1, BATCH * ctx.slots).reshape(BATCH, ctx.slots)
    x = ckks.stack([ctx.encrypt(row) for row in rows])
    expected = smoothed(x)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / KEYS).write_bytes(ctx.server().to_bytes())
        (folder / GIVEN).write_bytes(x.to_bytes())
        command = [sys.executable, "-m", "examples.processes", f"127.0.0.1:{free_port()}"]
        processes = [subprocess.Popen([*command, str(i), name]) for i in range(COUNT)]
        statuses = [process.wait() for process in processes]
        if any(statuses):
            print(f"A process failed: exit statuses {statuses}.", file=sys.stderr)
            return 1
        made = ckks.Ciphertext.from_bytes((folder / MADE).read_bytes())
    is_same = all(ren.equal(a, b) for a, b in zip(made.polys, expected.polys, strict=True))
    mean = (rows + np.roll(rows, -1, axis=1)) / 2
    error = np.abs(made.decrypt() - mean**2).max()
    print(f"the bits of one process: {is_same}; largest error 2^{np.log2(error):.0f}")
    return 0 if is_same else 1


def free_port() -> int:
    """A port of this computer that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


if __name__ == "__main__":
    if len(sys.argv) > 1:
        work(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
    else:
        sys.exit(main())
