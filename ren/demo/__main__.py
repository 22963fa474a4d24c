"""`python -m ren.demo`: train, encrypt, score in a second process, decrypt, compare.

Exits with 1 when any encrypted prediction differs from the one in the clear.
"""

from __future__ import annotations

import sys
import time

from tqdm import tqdm

from ren.demo.memory import peak_bytes
from ren.demo.model import load, train_linear, train_square
from ren.demo.owner import classify, scorer_process
from ren.demo.report import table
from ren.schemes import ckks

DEPTH = 3  # a layer, the square, a layer


def main() -> int:
    """Runs both models on the 360 test images and prints the table."""
    start = time.perf_counter()
    with tqdm(total=6, desc="training in the clear", unit="step", file=sys.stderr) as bar:

        def tick(done: str) -> None:
            bar.set_description(done)
            bar.update()

        digits = load()
        models = train_linear(digits), train_square(digits)
        tick("two models trained")
        context = ckks.context(depth=DEPTH)
        server = server_bytes(context)
        tick("keys made")
        with scorer_process() as ask:
            ask([server])
            tick("scorer started")
            outcomes = [classify(context, model, digits, ask, tick) for model in models]
        tick("decrypted and compared")
    print(table(parameters(context, server), outcomes, peak_bytes()))
    print(f"\n{len(digits.test_labels)} images, {time.perf_counter() - start:.0f} s in all")
    return 1 if any(outcome.differing for outcome in outcomes) else 0
