"""Table that the demo prints at its end."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import attrs
import numpy as np

from ren.core.text_table import columns
from ren.schemes.ckks import Parameters

try:
    import resource
except ImportError:  # not on Windows
    resource = None

MIB = 1 << 20


@attrs.frozen(eq=False)
class Outcome:
    """One model on the test images: scores [count, 10] in the clear and as decrypted, and times."""

    name: str
    labels: np.ndarray
    clear: np.ndarray
    encrypted: np.ndarray
    first_s: float
    replay_s: float
    scorer_bytes: int

    @property
    def differing(self) -> int:
        """On how many images the encrypted computation predicts another class."""
        return int(np.sum(self.clear.argmax(axis=1) != self.encrypted.argmax(axis=1)))

    @property
    def largest_error(self) -> float:
        """The largest difference of a score."""
        return float(np.abs(self.clear - self.encrypted).max())

    def accuracy(self, scores: np.ndarray) -> float:
        """The share of images whose class has the highest score."""
        return float(np.mean(scores.argmax(axis=1) == self.labels))

    def rows(self) -> list[tuple[str, str]]:
        """Rows of the table for this model."""
        count, error = len(self.labels), self.largest_error
        return [
            ("accuracy in the clear", f"{self.accuracy(self.clear):.2%}"),
            ("accuracy encrypted", f"{self.accuracy(self.encrypted):.2%}"),
            ("predictions that differ", f"{self.differing} of {count}"),
            ("largest score error", f"{error:.1e} (2^{np.log2(max(error, 1e-300)):.1f})"),
            ("first call", f"{self.first_s:.2f} s"),
            ("replay", f"{self.replay_s * 1e3:.0f} ms"),
            ("an image", f"{self.replay_s / count * 1e3:.2f} ms"),
        ]


def parameter_rows(params: Parameters, server_bytes: int) -> list[tuple[str, str]]:
    """Rows of the table for the parameters."""
    return [
        ("ring degree n", f"{params.n}"),
        ("depth", f"{params.depth}"),
        ("scale", f"2^{params.scale_bits}"),
        ("log2 QP", f"{params.log_qp:.1f}"),
        ("security", f"{params.security_bits} bits"),
        ("server's keys", f"{server_bytes / MIB:.1f} MiB"),
    ]


def table(parameters: Sequence[tuple[str, str]], outcomes: Sequence[Outcome], owner: int) -> str:
    """The table: what holds for all, then one column for each model."""
    shared = [*parameters, ("peak memory, owner", f"{owner / MIB:.0f} MiB")]
    scorer = max(outcome.scorer_bytes for outcome in outcomes)
    shared.append(("peak memory, scorer", f"{scorer / MIB:.0f} MiB"))
    head = ("", *(outcome.name for outcome in outcomes))
    models = [dict(outcome.rows()) for outcome in outcomes]
    body = [(label, *(model[label] for model in models)) for label in models[0]]
    return f"{columns(shared, (0, 1))}\n\n{columns([head, *body], range(len(head)))}"


def peak_bytes() -> int:
    """The peak resident size of this process in bytes; 0 where the system does not say."""
    if resource is None:
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # Linux counts in KiB
