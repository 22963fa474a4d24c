"""Display of CKKS parameters: text, cards in notebooks, and plots.

`p` is a `Parameters`, whose module imports this one: hence `Any`.
"""

from __future__ import annotations

import math
from typing import Any

from ren.core import html
from ren.lowering.inspect import plots as plotting
from ren.schemes.rlwe import security

_HEIGHT = 0.78  # of a row of a plot; rows are one apart
_LABELLED_ROWS = 24  # beyond so many, every few rows have a label


def security_text(bits: int) -> str:
    """The security in words: INSECURE for 0 bits."""
    return f"{bits}-bit security" if bits else "INSECURE"


def security_marks(bits: int, *tags: str) -> dict[str, Any]:
    """The tags of a card, and the warning of one with parameters that are not secure."""
    if not bits:
        return {"tags": tags, "warning": security_text(bits)}
    return {"tags": (*tags, security_text(bits))}


def parameter_text(p: Any, has_secret: bool = True) -> str:
    """Lines of text: the levels, facts, and sizes of keys, the secret key only if it is held."""
    title = f"CKKS parameters: {security_text(p.security_bits)}, n = {p.n}, {p.slots} slots, "
    lines = [f"{title}depth {p.depth}", "level  moduli   log2 Q  log2 scale  ciphertext"]
    lines += ["{:>5}{:>8}{:>9}{:>12}{:>12}".format(*row) for row in _levels(p)]
    lines += [f"{name}: {what}" for name, what in _facts(p)]
    lines.append("key                            in memory       saved")
    lines += ["{:<26}{:>14}{:>12}".format(*row) for row in _keys(p, has_secret)]
    return "\n".join(lines)


def parameter_parts(
    p: Any, *rows: tuple[str, html.Cell], has_secret: bool = True
) -> list[html.Markup]:
    """The parts of a card that shows parameters: facts, `rows` before them, levels and keys.

    The secret key is among these only if it is held.
    """
    wishes = f"n = {p.n}, {p.slots} slots, depth {p.depth}, scale 2^{p.scale_bits}"
    levels = [
        (level, moduli, bits, html.meter(float(bits) / p.log_qp), *rest)
        for level, moduli, bits, *rest in _levels(p)
    ]
    return [
        html.facts([*rows, ("parameters", wishes), *_facts(p)]),
        html.table([("level", "moduli", "log2 Q", "", "log2 scale", "ciphertext"), *levels], ()),
        html.table([("key", "in memory", "saved"), *_keys(p, has_secret)]),
    ]


def _levels(p: Any) -> list[tuple[str, ...]]:
    """Each level, the highest first: moduli, log2 Q, log2 scale, the size of a ciphertext."""
    rows = [(i, p.ring(i), math.log2(p.scale(i))) for i in range(p.depth, -1, -1)]
    return [
        (str(i), str(q.limbs), f"{q.log2_q:.1f}", f"{scale:.3f}", _size(p.ciphertext_nbytes(i)))
        for i, q, scale in rows
    ]


def _facts(p: Any) -> list[tuple[str, str]]:
    bound, target = _bound(p)
    margin = f"the {target}-bit bound is {bound:.0f}, margin {bound - p.log_qp:.1f}"
    widest, special_bits = max(map(len, p.digits)), math.log2(p.special_product)
    return [
        ("union of bases", f"{len(p.union)} moduli, {p.log_q:.1f} bits"),
        ("special primes", f"{len(p.specials)}, {special_bits:.1f} bits"),
        ("union times P", f"{p.log_qp:.1f} bits; {margin}"),
        (
            "noise",
            f"sigma {p.sigma}; keys: {p.secret}; |message| < 2^{p.integer_bits - 1}",
        ),
        ("keys", f"{p.dnum} digit{'s' * (p.dnum > 1)} of up to {widest} moduli"),
        *(p.bootstrapping.rows() if p.bootstrapping else ()),
    ]


def _bound(p: Any) -> tuple[float, int]:
    """The largest `log_qp` for the security reached (128 for none), and that security."""
    target = p.security_bits or 128
    return security.max_log_qp(p.n, target), target


def _keys(p: Any, has_secret: bool) -> list[tuple[str, str, str]]:
    """Each kind of key, its bytes, and those saved: uniform halves as seeds of 32 bytes."""
    union, switching = len(p.union), p.key_nbytes()
    public = 2 * (union + 1) * p.n * 4
    rows = [
        ("relinearization", switching, switching // 2 + 32),
        ("each rotation, conjugation", switching, switching // 2 + 32),
        ("public", public, public // 2 + 32),
    ]
    if has_secret:
        rows.append(("secret", (4 * (union + len(p.specials)) + 1) * p.n, p.n))
    return [(name, _size(held), _size(kept)) for name, held, kept in rows]


def _size(count: int) -> str:
    return f"{count / 2**20:.2f} MiB" if count >= 2**20 else f"{count / 2**10:.1f} KiB"


def plot(p: Any, ax: Any = None) -> Any:
    """Draw the modulus chain on `ax`, or on a new figure; return the Axes."""
    union, levels = p.terminals + p.mains, range(p.depth + 1)
    rows = [_ordered(p, p.ring(i).moduli) for i in levels] + [_ordered(p, union) + p.specials]
    ax = plotting.axes(ax, "params.plot()", height=min(1.6 + 0.28 * len(rows), 9.0))
    colours = {
        **dict.fromkeys(p.mains, ("main moduli", plotting.BLUE)),
        **dict.fromkeys(p.terminals, ("terminal moduli", plotting.SKY)),
        **dict.fromkeys(p.specials, ("special moduli", plotting.ORANGE)),
    }
    by_colour: dict[tuple[str, str], list[plotting.Rectangle]] = {}
    for height, moduli in enumerate(rows):
        left = 0.0
        for q in moduli:
            width = math.log2(q)
            box = (left, height - _HEIGHT / 2, width, _HEIGHT)
            by_colour.setdefault(colours[q], []).append(box)
            left += width
    for (label, colour), boxes in by_colour.items():
        edge = ax.get_facecolor()
        plotting.boxes(ax, boxes, facecolor=colour, edgecolor=edge, linewidth=0.8, label=label)
    scales = [math.log2(scale) for scale in p.scales]
    ax.plot(scales, levels, "o-", color=plotting.RED, ms=4, lw=1, label="scale")
    bound, target = _bound(p)
    ax.axvline(bound, color=plotting.GREY, ls="--", lw=1, label=f"{target}-bit bound for keys")
    _label(ax, p, bound)
    return ax


def _ordered(p: Any, moduli: tuple[int, ...]) -> tuple[int, ...]:
    """The main moduli first, so that a modulus keeps its place from level to level."""
    mains = tuple(q for q in moduli if q in p.mains)
    return mains + tuple(q for q in reversed(moduli) if q not in p.mains)


def _label(ax: Any, p: Any, bound: float) -> None:
    levels = range(0, p.depth + 1, math.ceil((p.depth + 2) / _LABELLED_ROWS))
    ax.set_yticks([*levels, p.depth + 1], [*(f"level {level}" for level in levels), "keys"])
    ax.set_ylim(-0.6, p.depth + 1.6)
    ax.set_xlim(0, 1.03 * max(bound, p.log_qp))
    ax.set_xlabel("bits: log2 of the moduli, one box each")
    colour = {"color": plotting.RED} if p.is_insecure else {}
    wishes = f"n = {p.n}, depth {p.depth}, log2 QP = {p.log_qp:.1f}"
    ax.set_title(f"{wishes}: {security_text(p.security_bits)}", loc="left", **colour)
    ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
