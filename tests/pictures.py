"""The pictures of the pages, drawn by Ren: `python -m tests.pictures` writes them to docs/."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import ren
from benchmarks.record import RESULTS
from benchmarks.table import newest
from ren import Poly
from ren.lowering.inspect.plan_diagram import plan_diagram
from ren.lowering.inspect.svg import svg
from ren.schemes import ckks
from tests.charts import curves_chart, times_chart

DOCS = Path(__file__).resolve().parents[1] / "docs"


def picture(function: Any, *args: Any) -> str:
    """The plan of a function as SVG."""
    jitted = ren.jit(tier="units")(function)
    jitted(*args)
    return svg(plan_diagram(jitted.plans[0].plan)) + "\n"


def times() -> str:
    """The newest recorded medians of each operation, degree and library."""
    rows = newest(RESULTS / "bench.jsonl")
    return times_chart({(row["op"], row["n"], row["side"]): row["median"] for row in rows})


def smoothing() -> str:
    """A signal, the ciphertext that a server smooths, and the decrypted result."""
    t = np.arange(192) / 192
    signal = np.sin(2 * np.pi * t) + np.random.default_rng(7).normal(0, 0.25, t.size)
    kernel = np.hanning(17) / np.hanning(17).sum()
    context = ckks.testing.context(b"a picture", depth=1, n=2**11)
    encrypted = context.encrypt(signal)
    modulus = encrypted.ring.moduli[0]
    residues = [c % modulus for c in encrypted.polys[0].tolist()[: t.size]]
    smooth = ckks.conv1d(encrypted, kernel, padding="same").decrypt()
    return curves_chart(
        "Smoothing a signal that the server does not see: ckks.conv1d(x, kernel)",
        [
            ("the owner's signal", [signal], "b"),
            ("what the server holds", [residues], "c"),
            ("decrypted by the owner", [signal, smooth], "a"),
        ],
    )


def pictures() -> dict[str, str]:
    """What each file shows."""
    context = ckks.context(depth=1)
    encrypted = context.encrypt([1.0, 2.0])
    x, y = (Poly(coeffs, encrypted.ring) for coeffs in ([1, 2], [3, 4]))
    return {
        "plan.svg": picture(lambda x, y: (x * y).rotate(1) + x, x, y),
        "rotation.svg": picture(lambda x: x.rotate(1), encrypted),
        "smoothing.svg": smoothing(),
        "times.svg": times(),
    }


def main() -> None:
    """Writes them all."""
    for name, text in pictures().items():
        (DOCS / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
