"""Plots of CKKS parameters: the moduli of every level and of the keys, and the scales."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ren.lowering.inspect import plots as plotting
from ren.schemes.ckks.parameters.table import security_text
from ren.schemes.rlwe import security as bounds

if TYPE_CHECKING:
    from ren.schemes.ckks.parameters.parameters import Parameters

_HEIGHT = 0.78  # of a row; rows are one apart
_LABELLED_ROWS = 24  # beyond so many, every few rows have a label


def plot(p: Parameters, ax: Any = None) -> Any:
    """See `Parameters.plot`."""
    rows = p.depth + 2
    ax = plotting.axes(ax, "params.plot()", height=min(1.6 + 0.28 * rows, 9.0))
    colours = _colours(p)
    by_colour: dict[tuple[str, str], list[plotting.Rectangle]] = {}
    for height, moduli in [*_levels(p), (p.depth + 1, (*_ordered(p, p.union), *p.specials))]:
        left = 0.0
        for q in moduli:
            width = math.log2(q)
            box = (left, height - _HEIGHT / 2, width, _HEIGHT)
            by_colour.setdefault(colours[q], []).append(box)
            left += width
    for (label, colour), boxes in by_colour.items():
        edge = plotting.page_colour(ax)
        plotting.boxes(ax, boxes, facecolor=colour, edgecolor=edge, linewidth=0.8, label=label)
    scales = [math.log2(s) for s in p.scales]
    ax.plot(scales, range(p.depth + 1), "o-", color=plotting.RED, ms=4, lw=1, label="scale")
    target = p.security_bits or 128
    bound = bounds.max_log_qp(p.n, target)
    ax.axvline(bound, color=plotting.GREY, ls="--", lw=1, label=f"{target}-bit bound for keys")
    _labels(ax, p, rows, max(bound, p.log_qp))
    return ax


def _levels(p: Parameters) -> list[tuple[int, tuple[int, ...]]]:
    return [(level, _ordered(p, p.ring(level).moduli)) for level in range(p.depth + 1)]


def _ordered(p: Parameters, moduli: tuple[int, ...]) -> tuple[int, ...]:
    """The main moduli first, so that a modulus keeps its place from level to level."""
    mains = tuple(q for q in moduli if q in p.mains)
    return mains + tuple(q for q in reversed(moduli) if q not in p.mains)


def _colours(p: Parameters) -> dict[int, tuple[str, str]]:
    """Label and colour of each modulus."""
    return {
        **dict.fromkeys(p.mains, ("main moduli", plotting.BLUE)),
        **dict.fromkeys(p.terminals, ("terminal moduli", plotting.SKY)),
        **dict.fromkeys(p.specials, ("special moduli", plotting.ORANGE)),
    }


def _labels(ax: Any, p: Parameters, rows: int, widest: float) -> None:
    step = math.ceil(rows / _LABELLED_ROWS)
    levels = range(0, p.depth + 1, step)
    names = [*(f"level {level}" for level in levels), "keys"]
    ax.set_yticks([*levels, p.depth + 1], names)
    ax.set_ylim(-0.6, rows - 0.4)
    ax.set_xlim(0, 1.03 * widest)
    ax.set_xlabel("bits: log2 of the moduli, one box each")
    colour = plotting.RED if p.is_insecure else None
    title = f"n = {p.n}, depth {p.depth}, log2 QP = {p.log_qp:.1f}: {security_text(p)}"
    ax.set_title(title, loc="left", **({"color": colour} if colour else {}))
    ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
