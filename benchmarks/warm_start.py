"""`python -m benchmarks.warm_start`: the demo's scorer in a first and in a second process.

The square model's scores under `ren.jit`, in processes that are given the same bytes: the first
with an empty cache folder, the second with what the first has kept. `result_s` is the time from
the imports to the first scores, native code and keys included, `first_s` that of the first call.
Prints the medians of `--runs` such pairs and what JAX's monitoring counts in each; appends a JSON
line to benchmarks/results/warm_start.jsonl. Exits with 1 where the second process takes over 30 %
of the first to its scores, or compiles anything.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import jax.monitoring
import numpy as np

from benchmarks.record import stamp
from ren.config import config
from ren.demo import packing, scorer, wire
from ren.demo.model import CLASSES, HIDDEN, PIXELS, Layer, Model
from ren.demo.owner import server_bytes
from ren.schemes import ckks
from ren.schemes.ckks import Ciphertext

RESULTS = Path(__file__).parent / "results" / "warm_start.jsonl"
LIMIT = 0.3
LEVEL = 3
MISSES, HITS = (f"/jax/compilation_cache/cache_{what}" for what in ("misses", "hits"))
COMPILES = "/jax/core/compile/backend_compile_duration"


def prepare(path: Path) -> None:
    """Keys, a model with random weights and encrypted images, as the owner would send them."""
    context, rng = ckks.context(depth=LEVEL), np.random.default_rng(1)

    def layer(outputs: int, inputs: int) -> Layer:
        return Layer(rng.normal(size=(outputs, inputs)) / 8, rng.normal(size=outputs) / 8)

    model = Model("square", (layer(HIDDEN, PIXELS), layer(CLASSES, HIDDEN)))
    images = rng.uniform(size=(packing.segment_length(context.slots), PIXELS))
    pixels = [context.encrypt(v, level=LEVEL) for v in packing.pack(images, context.slots)]
    with path.open("wb") as file:
        wire.send(file, [server_bytes(context)])
        wire.send(file, [scorer.model_to_bytes(model), *(c.to_bytes() for c in pixels)])


def measure(path: Path, folder: Path) -> dict[str, float]:
    """The first call and a replay in this process, which has compiled nothing yet."""
    events: collections.Counter[str] = collections.Counter()
    jax.monitoring.register_event_listener(lambda name, **_: events.update([name]))
    jax.monitoring.register_event_duration_secs_listener(
        lambda name, _, **__: events.update([name])
    )
    config.update(cache_dir=folder)
    start = time.perf_counter()
    with path.open("rb") as file:
        keys, message = wire.receive(file), wire.receive(file)
    assert keys is not None and message is not None
    context = ckks.Context.from_bytes(keys[0])
    model, pixels = message[0], tuple(Ciphertext.from_bytes(data) for data in message[1:])
    with context:
        report, _ = scorer.score(context, scorer.model_from_bytes(model), pixels)
    replayed_s = report["replay_s"]  # after the first scores
    return {
        "result_s": time.perf_counter() - start - replayed_s,
        "first_s": report["first_s"],
        "replay_s": report["replay_s"],
        "compiles": events[COMPILES],
        "misses": events[MISSES],
        "hits": events[HITS],
    }


def in_a_process(path: Path, folder: Path) -> dict[str, float]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "REN_"))}
    command = [sys.executable, "-m", "benchmarks.warm_start", "--inside", str(path), str(folder)]
    made = subprocess.run(command, env=clean, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(made.stdout.splitlines()[-1])


def main() -> None:
    """Measures pairs of fresh processes; exits with 1 where a limit is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--inside", nargs=2, type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        print(json.dumps(measure(*options.inside)))
        return
    pairs = []
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "messages"
        prepare(path)
        for run in range(options.runs):
            folder = Path(name) / f"cache{run}"
            pairs.append((in_a_process(path, folder), in_a_process(path, folder)))
        kept = sum(file.stat().st_size for file in (folder / "executables").iterdir())
    row = {**stamp(), "cores": os.cpu_count(), "runs": options.runs, "kept_bytes": kept}
    for i, label in enumerate(("cold", "warm")):
        for key in ("result_s", "first_s", "replay_s"):
            times = [pair[i][key] for pair in pairs]
            row[f"{label}_{key}"] = round(statistics.median(times), 3)
            row[f"{label}_{key}_spread"] = [round(min(times), 3), round(max(times), 3)]
        for key in ("compiles", "misses", "hits"):
            row[f"{label}_{key}"] = max(pair[i][key] for pair in pairs)
    row["ratio"] = round(row["warm_result_s"] / row["cold_result_s"], 3)
    with RESULTS.open("a") as file:
        file.write(json.dumps(row) + "\n")
    for name, value in row.items():
        print(f"{name:<24} {value}")
    raise SystemExit(int(row["ratio"] > LIMIT or row["warm_compiles"] + row["warm_misses"] > 0))


if __name__ == "__main__":
    main()
