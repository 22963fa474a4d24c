"""CKKS parameters in notebooks: cards with the rows of a report."""

from __future__ import annotations

from typing import Any

from ren.core import html
from ren.schemes.ckks.parameters.table import Report, security_text


def security_marks(bits: int, *tags: str) -> dict[str, Any]:
    """The tags of a card, and the warning of one with parameters that are not secure."""
    if not bits:
        return {"tags": tags, "warning": security_text(bits)}
    return {"tags": (*tags, security_text(bits))}


def parameter_parts(report: Report, *rows: tuple[str, html.Cell]) -> list[html.Markup]:
    """The parts of a card that shows parameters: facts, `rows` before them, levels and keys."""
    r = report
    wishes = f"n = {r.n}, {r.slots} slots, depth {r.depth}, scale 2^{r.scale_bits}"
    levels = [
        (level, moduli, bits, html.meter(float(bits) / r.log_qp), *rest)
        for level, moduli, bits, *rest in r.levels
    ]
    return [
        html.facts([*rows, ("parameters", wishes), *r.facts]),
        html.table([("level", "moduli", "log2 Q", "", "log2 scale", "ciphertext"), *levels], ()),
        html.table([("key", "in memory", "saved"), *r.keys]),
    ]
