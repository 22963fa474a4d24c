"""Plots of CKKS parameters: the moduli of every level and of the keys, and the scales."""

from __future__ import annotations

import math
from typing import Any

import attrs

from ren.lowering.inspect import plots as plotting

_HEIGHT = 0.78  # of a row; rows are one apart
_LABELLED_ROWS = 24  # beyond so many, every few rows have a label

Moduli = tuple[int, ...]


@attrs.frozen
class ModulusChain:
    """The rows of a plot: moduli and scales, the lowest level first, and the bound on both.

    Attributes:
        title: what stands above the plot.
        is_insecure: whether the title warns.
        terminals, mains, specials: the moduli of the parameters, by kind.
        levels: the moduli of each level.
        scales: log2 of the scale of each level.
        log_qp: log2 of the union of bases times P, in bits.
        bound: the largest secure `log_qp`, in bits, and the security that it stands for.
    """

    title: str
    is_insecure: bool
    terminals: Moduli
    mains: Moduli
    specials: Moduli
    levels: tuple[Moduli, ...]
    scales: tuple[float, ...]
    log_qp: float
    bound: tuple[float, int]


def plot(chain: ModulusChain, ax: Any = None) -> Any:
    """Draws `chain` on `ax`, or on a new figure; returns the Axes."""
    rows = [_ordered(chain, moduli) for moduli in chain.levels]
    rows.append((*_ordered(chain, chain.terminals + chain.mains), *chain.specials))
    ax = plotting.axes(ax, "params.plot()", height=min(1.6 + 0.28 * len(rows), 9.0))
    colours = _colours(chain)
    by_colour: dict[tuple[str, str], list[plotting.Rectangle]] = {}
    for height, moduli in enumerate(rows):
        left = 0.0
        for q in moduli:
            width = math.log2(q)
            box = (left, height - _HEIGHT / 2, width, _HEIGHT)
            by_colour.setdefault(colours[q], []).append(box)
            left += width
    for (label, colour), boxes in by_colour.items():
        edge = plotting.page_colour(ax)
        plotting.boxes(ax, boxes, facecolor=colour, edgecolor=edge, linewidth=0.8, label=label)
    levels = range(len(chain.levels))
    ax.plot(chain.scales, levels, "o-", color=plotting.RED, ms=4, lw=1, label="scale")
    bound, target = chain.bound
    ax.axvline(bound, color=plotting.GREY, ls="--", lw=1, label=f"{target}-bit bound for keys")
    _labels(ax, chain)
    return ax


def _ordered(chain: ModulusChain, moduli: Moduli) -> Moduli:
    """The main moduli first, so that a modulus keeps its place from level to level."""
    mains = tuple(q for q in moduli if q in chain.mains)
    return mains + tuple(q for q in reversed(moduli) if q not in chain.mains)


def _colours(chain: ModulusChain) -> dict[int, tuple[str, str]]:
    """The label and colour of each modulus."""
    return {
        **dict.fromkeys(chain.mains, ("main moduli", plotting.BLUE)),
        **dict.fromkeys(chain.terminals, ("terminal moduli", plotting.SKY)),
        **dict.fromkeys(chain.specials, ("special moduli", plotting.ORANGE)),
    }


def _labels(ax: Any, chain: ModulusChain) -> None:
    depth = len(chain.levels) - 1
    levels = range(0, depth + 1, math.ceil((depth + 2) / _LABELLED_ROWS))
    names = [*(f"level {level}" for level in levels), "keys"]
    ax.set_yticks([*levels, depth + 1], names)
    ax.set_ylim(-0.6, depth + 1.6)
    ax.set_xlim(0, 1.03 * max(chain.bound[0], chain.log_qp))
    ax.set_xlabel("bits: log2 of the moduli, one box each")
    colour = plotting.RED if chain.is_insecure else None
    ax.set_title(chain.title, loc="left", **({"color": colour} if colour else {}))
    ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
