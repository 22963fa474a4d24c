"""Table that the demo prints at its end."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np

from ren.schemes.ckks import Parameters

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
        count = len(self.labels)
        error = self.largest_error
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
    columns = [dict(outcome.rows()) for outcome in outcomes]
    body = [(label, *(column[label] for column in columns)) for label in columns[0]]
    return "\n".join([*_aligned(shared), "", *_aligned([head, *body])])


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
