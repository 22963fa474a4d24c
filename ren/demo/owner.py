"""The owner of the images: holds the secret key, encrypts, asks the scorer, decrypts."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from ren.demo import packing, wire
from ren.demo.model import CLASSES, Digits, Model
from ren.demo.report import Outcome
from ren.demo.scorer import model_to_bytes
from ren.schemes import ckks
from ren.schemes.ckks import Ciphertext

Ask = Callable[[list[bytes]], list[bytes]]


@contextmanager
def scorer_process() -> Iterator[Ask]:
    """A second process that is given only bytes; `ask` sends a message and waits for the answer."""
    with subprocess.Popen(
        [sys.executable, "-m", "ren.demo.scorer"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        source, sink = process.stdout, process.stdin

        def ask(message: list[bytes]) -> list[bytes]:
            try:
                wire.send(sink, message)
                answer = wire.receive(source)
            except (BrokenPipeError, EOFError):
                answer = None
            if answer is None:
                raise RuntimeError("The scorer ended without an answer; its error stands above.")
            return answer

        yield ask


def server_bytes(context: ckks.Context) -> bytes:
    """Bytes for the scorer: evaluation keys, with the one rotation that `packing` needs."""
    context.rotation_keys(packing.segment_length(context.slots))
    return context.server().to_bytes()


def classify(context: ckks.Context, model: Model, digits: Digits, ask: Ask) -> Outcome:
    """The test images through one model: encrypted, scored by `ask`, decrypted, compared.

    Args:
        context: a CKKS context that holds the secret key.
        model: with one layer, or two and a square between them.
        digits: the test images.
        ask: the scorer.
    """
    slots = context.slots
    size, weights = packing.segment_length(slots), model_to_bytes(model)
    level = 2 * len(model.layers) - 1  # a layer takes one level, the square between two another
    answers, reports = [], []
    for start in range(0, len(digits.test_images), size):
        images = digits.test_images[start : start + size]
        pixels = [context.encrypt(v, level=level) for v in packing.pack(images, slots)]
        report, scores = ask([weights, *(c.to_bytes() for c in pixels)])
        vector = context.decrypt(Ciphertext.from_bytes(scores))
        answers.append(packing.unpack(vector, len(images), CLASSES))
        reports.append(json.loads(report))
    return Outcome(
        model.name,
        digits.test_labels,
        model.scores(digits.test_images),
        np.concatenate(answers),
        reports[0]["first_s"],
        sum(report["replay_s"] for report in reports),
        max(report["peak_bytes"] for report in reports),
    )
