"""Display of CKKS parameters: as text, in notebooks, drawn."""

from __future__ import annotations

from typing import Any

from ren.core import html
from ren.schemes.ckks.parameters.plot import plot
from ren.schemes.ckks.parameters.table import (
    fact_rows,
    key_rows,
    level_rows,
    security_text,
    table,
)


class Displayed:
    """Gives `Parameters` the ways to be looked at that are no part of its value."""

    __slots__ = ()

    def __str__(self: Any) -> str:
        return "\n".join(table(self))

    def _repr_html_(self: Any) -> str:
        return html.card("CKKS parameters", *parameter_parts(self), **security_marks(self))

    def plot(self: Any, ax: Any = None) -> Any:
        """Draws the modulus chain: the moduli of each level and of the keys, and the scales.

        A row is a level, a box a modulus, as long as it has bits. The red line is log2 of the
        canonical scale of each level. The dashed line is the bound on the moduli of the keys.

        Args:
            ax: matplotlib Axes to draw on; None makes a figure.

        Returns:
            The Axes; nothing is shown or saved.

        Raises:
            MissingPackageError: matplotlib is not installed.
        """
        return plot(self, ax)


def security_marks(p: Any, *tags: str) -> dict[str, Any]:
    """The tags of a card, and the warning of one with parameters that are not secure."""
    if p.is_insecure:
        return {"tags": tags, "warning": security_text(p)}
    return {"tags": (*tags, security_text(p))}


def parameter_parts(p: Any, *rows: tuple[str, html.Cell]) -> list[html.Markup]:
    """Parts of a card that shows parameters: facts, `rows` before them, then levels and keys."""
    wishes = f"n = {p.n}, {p.slots} slots, depth {p.depth}, scale 2^{p.scale_bits}"
    levels = [
        (level, moduli, bits, html.meter(float(bits) / p.log_qp), *rest)
        for level, moduli, bits, *rest in level_rows(p)
    ]
    return [
        html.facts([*rows, ("parameters", wishes), *fact_rows(p)]),
        html.table([("level", "moduli", "log2 Q", "", "log2 scale", "ciphertext"), *levels], ()),
        html.table([("key", "in memory", "saved"), *key_rows(p)]),
    ]
