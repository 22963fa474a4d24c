"""Plots: the one place that loads matplotlib, which is optional, and what all plots share."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from ren.core.errors import MissingPackageError

# Tones that can be read on white and on black, told apart also without seeing colours.
BLUE, SKY, ORANGE, GREEN, GREY, RED = (
    "#3b78c4", "#8ab6e8", "#e0912f", "#3f9d6a", "#9099a6", "#d1453b",
)  # fmt: skip

Rectangle = tuple[float, float, float, float]  # left, bottom, width, height


def axes(ax: Any, what: str, width: float = 7.0, height: float = 3.5) -> Any:
    """`ax`, or for None the axes of a new figure of that size in inches; nothing is shown.

    Raises:
        MissingPackageError: matplotlib is not installed; `what` is the call that draws.
    """
    if ax is not None:
        return ax
    pyplot = _matplotlib("pyplot", what)
    return pyplot.figure(figsize=(width, height), layout="constrained").add_subplot()


def boxes(ax: Any, rectangles: Sequence[Rectangle], **style: Any) -> Any:
    """Adds rectangles to `ax` as one collection, which it returns; thousands cost little."""
    corners = [((x, y), (x + w, y), (x + w, y + h), (x, y + h)) for x, y, w, h in rectangles]
    collection = _matplotlib("collections", "A plot").PolyCollection(corners, **style)
    ax.add_collection(collection, autolim=True)
    ax.autoscale_view()
    return collection


def _matplotlib(module: str, what: str) -> Any:
    try:
        return import_module(f"matplotlib.{module}")
    except ImportError as error:
        raise MissingPackageError(
            f"{what} draws with matplotlib, which cannot be imported here ({error}).",
            "It is optional: everything but plots works without it.",
            "Run: pip install 'ren[notebooks]'",
        ) from None
