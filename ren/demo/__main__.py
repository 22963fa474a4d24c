"""`python -m ren.demo`: train, encrypt, score in a second process, decrypt, compare.

Exits with 1 when any encrypted prediction differs from the one in the clear.
"""

from __future__ import annotations

import sys
import time

from ren.demo.model import load, train_linear, train_square
from ren.demo.owner import classify, scorer_process, server_bytes
from ren.demo.report import parameter_rows, peak_bytes, table
from ren.progress import Progress
from ren.schemes import ckks

DEPTH = 3  # a layer, the square, a layer


def main(test_count: int = 360) -> int:
    """Runs both models on the test images and prints the table; returns the exit status."""
    start = time.perf_counter()
    with Progress(6, "training in the clear", delay_s=0) as progress:
        digits = load(test_count)
        models = train_linear(digits), train_square(digits)
        progress.step("making keys")
        context = ckks.context(depth=DEPTH, bound=1.0)
        server = server_bytes(context)
        progress.step("starting the scorer")
        with scorer_process() as ask:
            ask([server])
            outcomes = []
            for model in models:
                progress.step(f"scoring encrypted images: {model.name}")
                outcomes.append(classify(context, model, digits, ask))
        progress.step("done")
        progress.step()
    print(table(parameter_rows(context.params, len(server)), outcomes, peak_bytes()))
    print(f"\n{len(digits.test_labels)} images, {time.perf_counter() - start:.0f} s in all")
    return 1 if any(outcome.differing for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
