"""`make bench BENCH=models`: neural networks on one encrypted image, preparation and run.

Weights are random, of a fixed seed; activations are squares; parameters have 128 bits. Each row is
a process of its own, run four times: with an empty cache on disk, with what the first has written,
with paired diagonals, and for less memory. That is with pairs, weights as coefficients but for the
layers named, and at most so many rotation keys a map. It encodes the maps, makes the
keys, captures the network, and runs it 9 times on fresh ciphertexts. The result is compared with
the network in the clear. Results of a convolution with stride 2 are multiplexed: four channels in
each grid of the size of its input. Pools are parts of the map after them. TenSEAL runs the dense
networks, 3 times. Orion's library runs what its depth of 5 has room for, 9 times: its log2 QP of
217 at n = 2^13 is over the bound of 214 for 128 bits. Prints a table and appends a JSON line a row
to benchmarks/results/models.jsonl.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import itertools
import json
import math
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import jax
import numpy as np
from numpy.typing import NDArray

import ren
from benchmarks.peers import orion
from benchmarks.record import RESULTS, append, commit, device, stamp
from benchmarks.rows import aligned
from ren.core.errors import MessageBoundWarning
from ren.schemes import ckks
from ren.schemes.ckks.circuits.convolution import matrix_of
from ren.schemes.ckks.circuits.linear import prepared
from ren.schemes.slots.entries import Entries

REPEATS, WARM, PEER_REPEATS = 9, 12, 3
PAUSE_S = 0.02  # between runs: threads that spin for more work go to sleep
IMAGE = 28
BOUND = 32.0  # of the numbers in every layer: `clear` asserts it
PIXELS = IMAGE * IMAGE


@attrs.frozen(eq=False)
class Layer:
    """A matrix, and the slots where its columns and its rows stand, in C order if None."""

    matrix: Entries
    inputs: NDArray[np.intp] | None = None
    outputs: NDArray[np.intp] | None = None

    @property
    def placed(self) -> Entries:
        """The matrix over the slots."""
        m = self.matrix
        rows, height = _placed(m.rows, m.shape[0], self.outputs)
        columns, width = _placed(m.columns, m.shape[1], self.inputs)
        return Entries(m.values, (height, width), (rows, columns))


def _placed(
    index: NDArray[np.intp], count: int, slots: NDArray[np.intp] | None
) -> tuple[NDArray[np.intp], int]:
    return (index, count) if slots is None else (slots[index], int(slots.max()) + 1)


@attrs.frozen
class Network:
    """Layers with squares between them.

    Args:
        layers: drawn from a generator.
        scale_bits: of the parameters.
        aims: milliseconds of a run, seconds of preparation and gigabytes, on 2 idle cores.
        keys: rotation keys of a map, at most, for less memory.
        expanded: the layers whose diagonals are no coefficients then, by number.
        slots: of a ciphertext, which repeat, so that results of folds do; None for all.
        widths: of the dense layers, where all are; TenSEAL runs it then.
    """

    layers: Callable[[np.random.Generator], list[Layer]]
    scale_bits: int
    aims: tuple[float, float, float]
    keys: int
    expanded: tuple[int, ...] = ()
    slots: int | None = None
    widths: tuple[int, ...] | None = None


def dense(rng: np.random.Generator, m: int, k: int, inputs: NDArray | None = None) -> Layer:
    """A dense layer of m numbers from k."""
    return Layer(Entries.of(rng.normal(size=(m, k)) / math.sqrt(k)), inputs)


def multiplexed(channels: int, size: int, gap: int) -> NDArray[np.intp]:
    """The slot of each number of [channels, size, size], gap^2 channels in each grid of IMAGE."""
    c, i, j = np.indices((channels, size, size))
    grid, inside = np.divmod(c, gap * gap)
    row, column = i * gap + inside // gap, j * gap + inside % gap
    return (grid * PIXELS + row * IMAGE + column).ravel()


def convolution(rng: np.random.Generator, outputs: int, channels: int, size: int) -> Entries:
    """Kernels of 5 x 5, stride 2, padding 2, over channels of size x size."""
    kernels = rng.normal(size=(outputs, channels, 5, 5)) / (5 * math.sqrt(channels))
    return matrix_of(kernels, (channels, size, size), 2, 2)[0]


def perceptron(*widths: int) -> Callable[[np.random.Generator], list[Layer]]:
    """Dense layers."""
    return lambda rng: [dense(rng, m, k) for k, m in itertools.pairwise(widths)]


def lola(rng: np.random.Generator) -> list[Layer]:
    """Convolution of 5 maps with stride 2, 100 and 10."""
    held = multiplexed(5, 14, 2)
    first = Layer(convolution(rng, 5, 1, 28), None, held)
    return [first, dense(rng, 100, 5 * 14 * 14, held), dense(rng, 10, 100)]


def lenet(rng: np.random.Generator) -> list[Layer]:
    """Convolutions of 32 and 64 maps with stride 2, 512 and 10."""
    one, two = multiplexed(32, 14, 2), multiplexed(64, 7, 4)
    return [
        Layer(convolution(rng, 32, 1, 28), None, one),
        Layer(convolution(rng, 64, 32, 14), one, two),
        dense(rng, 512, 64 * 7 * 7, two),
        dense(rng, 10, 512),
    ]


def lenet5(rng: np.random.Generator) -> list[Layer]:
    """Convolutions of 6 and 16 maps, each with an average pool after its square, 120, 84 and 10."""
    first = rng.normal(size=(6, 1, 5, 5)) / 5
    second = rng.normal(size=(16, 6, 5, 5)) / (2 * math.sqrt(6))
    pooled = np.kron(second, np.full((2, 2), 0.25))  # of the averages of 2 x 2 pixels
    held = multiplexed(16, 10, 2)
    third = rng.normal(size=(120, 16, 5, 5)) / 40
    last = np.kron(third, np.full((2, 2), 0.25)).reshape(120, -1)
    return [
        Layer(matrix_of(first, (1, 28, 28), 1, 2)[0]),
        Layer(matrix_of(pooled, (6, 28, 28), 2, 0)[0], None, held),
        Layer(Entries.of(last), held),
        dense(rng, 84, 120),
        dense(rng, 10, 84),
    ]


MLP, DEEP = (784, 128, 10), (784, 128, 128, 10)
NETWORKS = {
    "MLP 784-128-10": Network(perceptron(*MLP), 26, (28, 3, 0.3), 10, (0, 1), 1024, MLP),
    "MLP 784-128-128-10": Network(perceptron(*DEEP), 26, (45, 3, 0.3), 10, (0, 1, 2), 1024, DEEP),
    "LoLa": Network(lola, 26, (22, 2, 0.2), 10, (), 2048),
    "LeNet-5": Network(lenet5, 26, (300, 8, 0.6), 20),
    "LeNet": Network(lenet, 26, (400, 8, 0.8), 36, (0, 2, 3)),
}


def clear(layers: list[Layer], image: NDArray) -> NDArray:
    """The network on an image, in float64; the numbers of the last layer."""
    x = image
    for i, layer in enumerate(layers):
        m = layer.placed
        x = x * x if i else x
        x = np.bincount(m.rows, m.values * x[m.columns], m.shape[0])
        assert np.abs(x).max() < BOUND
    return x


def gigabytes() -> float:
    """The most that the process has held in memory until now."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


class Laps:
    """Seconds of each part of the preparation."""

    def __init__(self) -> None:
        self.found: dict[str, float] = {}
        self._start = time.perf_counter()

    def end(self, name: str) -> None:
        """The part that ends now."""
        now = time.perf_counter()
        self.found[name], self._start = round(now - self._start, 3), now


def encoded(
    layer: Layer, ctx: ckks.Context, level: int, is_paired: bool, keys: int | None, is_small: bool
) -> ckks.LinearMap:
    """The map of a layer. Where it `is_small`, all of its diagonals are kept as coefficients.

    Its vector is replicated where slots repeat: those of a result do then, and take no copies.
    """
    encode = functools.partial(
        prepared, layer.placed, ctx, "", level, keys, is_paired=is_paired,
        can_replicate=2 * ctx.slots < ctx.params.n,
    )  # fmt: skip
    if not is_small:
        return encode()
    try:
        return encode(memory=1)
    except ckks.ParameterError as error:  # it tells the least
        found = re.search(r"Pass memory=(\d+)", str(error))
        assert found is not None
        return encode(memory=int(found[1]))


def of_ren(name: str, is_paired: bool = False, is_small: bool = False) -> dict[str, Any]:
    """One row of Ren, in this process."""
    imported = gigabytes()
    warnings.simplefilter("ignore", MessageBoundWarning)  # by the worst image; these keep to BOUND
    network, rng = NETWORKS[name], np.random.default_rng(0)
    layers = network.layers(rng)
    images = rng.random((REPEATS + WARM + 1, PIXELS))
    depth = 2 * len(layers) - 1
    wanted = [clear(layers, image) for image in images[WARM:-1]]
    keys = network.keys if is_small else None
    laps = Laps()
    ctx = ckks.context(depth=depth, scale_bits=network.scale_bits, slots=network.slots)
    laps.end("context")
    maps = [
        encoded(layer, ctx, depth - 2 * i, is_paired, keys, is_small and i not in network.expanded)
        for i, layer in enumerate(layers)
    ]
    del layers
    laps.end("encode")
    steps = {step: m.level for m in reversed(maps) for step in m.rotations}  # of the first map
    ctx.rotation_keys(steps)
    if is_paired:
        ctx.conjugation_key(depth)
    laps.end("keys")

    @ren.jit
    def run(x: Any, maps: Any) -> Any:
        for i, m in enumerate(maps):
            x = m @ (x * x if i else x)
        return x

    first = ctx.encrypt(images[-1]).realize()
    laps.end("encrypt")
    jax.block_until_ready(run(first, maps).realize())
    laps.end("capture and first run")
    error, largest, times = 0.0, 0.0, []
    for i, image in enumerate(images[:-1]):
        if i == WARM:
            run.plans[0].wait()
        x = ctx.encrypt(image).realize()
        time.sleep(PAUSE_S)
        start = time.perf_counter()
        result = run(x, maps).realize()
        jax.block_until_ready(result)
        if i >= WARM:
            times.append(time.perf_counter() - start)
            want = wanted[i - WARM]
            error = max(error, float(np.abs(result.decrypt() - want).max()))
            largest = max(largest, float(np.abs(want).max()))
    return {
        "n": ctx.params.n,
        "depth": depth,
        "scale": network.scale_bits,
        "logQP": round(ctx.params.log_qp, 1),
        "security": ctx.params.security_bits,
        "preparation": laps.found,
        "median": statistics.median(times),
        "spread": [min(times), max(times)],
        "error": error,
        "largest": largest,
        "peak": round(gigabytes(), 3),
        "imported": round(imported, 3),
        "diagonals": [len(m.places) for m in maps],
        "weights": round(sum(p.nbytes for m in maps for p in m.plaintexts) / 2**30, 3),
        "rotations": [m.split.rotations for m in maps],
        "keys": len(steps) + is_paired,
        "key_bytes": sum(map(ctx.params.key_nbytes, [*steps.values(), *[None] * (1 + is_paired)])),
    }


def of_tenseal(name: str) -> dict[str, Any]:
    """One row of TenSEAL, in this process, at the least degree that has room for its moduli."""
    import tenseal

    from benchmarks.peers.seal import chain

    network, rng = NETWORKS[name], np.random.default_rng(0)
    layers = network.layers(rng)
    depth, bits = 2 * len(layers) - 1, network.scale_bits
    images = rng.random((REPEATS + WARM + 1, PIXELS))
    matrices = [np.zeros(layer.matrix.shape) for layer in layers]
    for full, layer in zip(matrices, layers, strict=True):
        full[layer.matrix.rows, layer.matrix.columns] = layer.matrix.values
    weights = [m.T.tolist() for m in matrices]
    moduli = chain(depth, bits)
    n = 1 << 13 if sum(moduli) <= 218 else 1 << 14  # SEAL's table
    laps = Laps()
    ctx = tenseal.context(tenseal.SCHEME_TYPE.CKKS, n, coeff_mod_bit_sizes=moduli)
    ctx.global_scale = 2.0**bits
    ctx.generate_galois_keys()
    laps.end("keys")
    times, error = [], 0.0
    for i, image in enumerate(images[:PEER_REPEATS]):
        x = tenseal.ckks_vector(ctx, image.tolist())
        start = time.perf_counter()
        for j, w in enumerate(weights):
            x = (x.square() if j else x).mm(w)
        times.append(time.perf_counter() - start)
        error = max(error, float(np.abs(np.array(x.decrypt()) - clear(layers, image)).max()))
        if not i:
            laps.found["first run"] = round(times[0], 3)
    return {
        "n": n,
        "depth": depth,
        "scale": bits,
        "median": statistics.median(times),
        "spread": [min(times), max(times)],
        "preparation": laps.found,
        "error": error,
        "peak": round(gigabytes(), 3),
    }


def of_orion(name: str) -> dict[str, Any]:
    """One row of Orion's library, in this process."""
    network, rng = NETWORKS[name], np.random.default_rng(0)
    layers = network.layers(rng)
    images = rng.random((REPEATS + WARM + 1, PIXELS))[WARM : WARM + REPEATS]
    matrices = []
    for layer in layers:
        m = layer.placed
        matrices.append(np.zeros(m.shape))
        matrices[-1][m.rows, m.columns] = m.values
    made = orion.timed(matrices, list(images))
    wanted = [clear(layers, image) for image in images]
    pairs = zip(made["results"], wanted, strict=True)
    return {
        "n": 1 << orion.LOG_N,
        "logQP": orion.FIRST_BITS + orion.DEPTH * orion.SCALE_BITS + sum(orion.SPECIAL_BITS),
        "scale": orion.SCALE_BITS,
        "median": statistics.median(made["seconds"]),
        "spread": [min(made["seconds"]), max(made["seconds"])],
        "preparation": {"keys and diagonals": round(made["prepared"], 3)},
        "error": max(float(np.abs(got - want).max()) for got, want in pairs),
        "diagonals": made["diagonals"],
        "keys": made["keys"],
        "peak": round(gigabytes(), 3),
    }


def in_process(side: str, name: str, cache: str, cores: int) -> dict[str, Any]:
    """A row from a process of its own, on so many cores."""
    call = [sys.executable, "-m", "benchmarks.models", "--child", side, "--only", name]
    environment = {**os.environ, "REN_CACHE_DIR": cache}
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(allowed)[-cores:])  # the child inherits them
    try:
        made = subprocess.run(call, capture_output=True, text=True, check=False, env=environment)
    finally:
        os.sched_setaffinity(0, allowed)
    if made.returncode:
        raise SystemExit(f"{side}, {name}:\n{made.stderr}")
    return json.loads(made.stdout.splitlines()[-1])


def main() -> None:
    """Measures; see the options."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=NETWORKS, default=list(NETWORKS))
    parser.add_argument("--output", type=Path, default=RESULTS / "models.jsonl")
    parser.add_argument("--cores", type=int, default=2, help="that each process may use")
    parser.add_argument("--dry-run", action="store_true", help="write no results")
    parser.add_argument("--child", choices=SIDES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(SIDES[options.child](options.only[0])))
        return
    print(f"{device()}, commit {commit()}, medians of {REPEATS}")
    has_tenseal = importlib.util.find_spec("tenseal") is not None
    if not has_tenseal:
        print("TenSEAL is left out: it is not installed")
    has_orion = orion.bindings() is not None
    if not has_orion:
        print(f"Orion is left out: pip finds no {orion.WHEEL} for this machine")
    lines = [HEAD]
    for name in options.only:
        with tempfile.TemporaryDirectory() as cache:
            cold = in_process("Ren", name, cache, options.cores)
            row = in_process("Ren", name, cache, options.cores)
            for form in ("paired", "small"):
                row[form] = in_process(f"Ren, {form}", name, cache, options.cores)
        row["cold_preparation"] = cold["preparation"]
        if NETWORKS[name].widths and has_tenseal:
            row["tenseal"] = in_process("TenSEAL", name, "off", options.cores)
        if has_orion and row["depth"] <= orion.DEPTH:
            row["orion"] = in_process("Orion", name, "off", options.cores)
        lines.append(shown(name, row))
        print(aligned([HEAD, lines[-1]]), flush=True)
        if not options.dry_run:
            append(options.output, {**stamp(), "commit": commit(), "device": device(),
                                    "cores": options.cores, "network": name, **row})  # fmt: skip
    print(aligned(lines))


SIDES = {
    "Ren": of_ren,
    "Ren, paired": functools.partial(of_ren, is_paired=True),
    "Ren, small": functools.partial(of_ren, is_paired=True, is_small=True),
    "TenSEAL": of_tenseal,
    "Orion": of_orion,
}
HEAD = [
    "", "log n", "ms", "aim", "cold s", "warm s", "aim", "GB", "aim", "diagonals", "weights GB",
    "rotations", "keys", "keys GB", "error", "paired: ms", "GB", "error", "small: ms", "GB",
    "error", "TenSEAL ms", "Orion ms",
]  # fmt: skip


def shown(name: str, row: dict[str, Any]) -> list[str]:
    """The cells of a row."""
    run, prepare, memory = NETWORKS[name].aims
    beside = [row.get(side) for side in ("tenseal", "orion")]
    cold, warm = (sum(row[k].values()) for k in ("cold_preparation", "preparation"))
    return [
        name,
        str(row["n"].bit_length() - 1),
        f"{1e3 * row['median']:.1f}",
        f"{run:g}",
        f"{cold:.1f}",
        f"{warm:.1f}",
        f"{prepare:g}",
        f"{row['peak']:.2f}",
        f"{memory:g}",
        str(sum(row["diagonals"])),
        f"{row['weights']:.3f}",
        str(sum(row["rotations"])),
        str(row["keys"]),
        f"{row['key_bytes'] / 2**30:.3f}",
        f"{row['error'] / row['largest']:.1e}",
        *(cell for form in ("paired", "small") for cell in _form(row[form])),
        *(f"{1e3 * peer['median']:.0f}" if peer else "-" for peer in beside),
    ]


def _form(row: dict[str, Any]) -> list[str]:
    """Milliseconds, gigabytes and the relative error of a form of a row."""
    error = row["error"] / row["largest"]
    return [f"{1e3 * row['median']:.1f}", f"{row['peak']:.2f}", f"{error:.1e}"]


if __name__ == "__main__":
    main()
