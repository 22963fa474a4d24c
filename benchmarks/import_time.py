"""`python -m benchmarks.import_time`: what `import ren` takes beyond JAX's own import.

Fresh processes, which find the bytecode of everything: one after the other they import JAX, then
ren, then its CKKS. Prints the medians of `--runs` of them and their spread, and appends a JSON line
to benchmarks/results/import_time.jsonl; exits with 1 where `import ren` takes over the limit.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

from benchmarks.record import stamp

RESULTS = Path(__file__).parent / "results" / "import_time.jsonl"
LIMIT_S = 0.4
STEPS = {"jax": "import jax", "ren": "import ren", "ckks": "from ren.schemes import ckks"}
TIMED = "import json, time\ntimes = [time.perf_counter()]\n" + "".join(
    f"{code}\ntimes.append(time.perf_counter())\n" for code in STEPS.values()
)
PRINTED = "print(json.dumps([b - a for a, b in zip(times, times[1:])]))"


def measure() -> list[float]:
    """The seconds that each import takes in a process of its own."""
    command = [sys.executable, "-c", TIMED + PRINTED]
    made = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(made.stdout)


def main() -> None:
    """Measures; exits with 1 where the limit is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=9)
    runs = parser.parse_args().runs
    measure()  # writes bytecode
    found = dict(zip(STEPS, zip(*(measure() for _ in range(runs)), strict=True), strict=True))
    row = {**stamp(), "cores": os.cpu_count(), "runs": runs}
    for name, times in found.items():
        row[f"{name}_s"] = round(statistics.median(times), 3)
        row[f"{name}_s_spread"] = [round(min(times), 3), round(max(times), 3)]
        low, high = row[f"{name}_s_spread"]
        print(f"{STEPS[name]:<30} {row[f'{name}_s']:.3f} s ({low:.3f} to {high:.3f})")
    with RESULTS.open("a") as file:
        file.write(json.dumps(row) + "\n")
    raise SystemExit(int(row["ren_s"] > LIMIT_S))


if __name__ == "__main__":
    main()
