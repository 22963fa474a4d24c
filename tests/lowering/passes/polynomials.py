"""What every op that a program can be written with means, on big integers.

A value is an object array `[*batch, n]` of coefficients in [0, q), whatever the domain of the node.
Only `tests.oracle` computes here; of ren the nodes are read, nothing is called.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ren.core import Node, toposort
from tests import oracle

Rows = list[list[int]]  # the coefficients of one batch element of each source


def _sources(node: Node) -> list[tuple[int, ...]]:
    return [s.spec.ring.moduli for s in node.src]


def _same(node: Node, q: int, rows: Rows) -> list[int]:
    return rows[0]


def _dot(node: Node, q: int, rows: Rows) -> list[int]:
    products = [oracle.mul(a, b, q) for a, b in zip(rows[::2], rows[1::2], strict=True)]
    return oracle.reduce([sum(column) for column in zip(*products, strict=True)], q)


def _join(node: Node, q: int, rows: Rows) -> list[int]:
    """The polynomial with the residues of each part: Chinese remainders."""
    total = [0] * len(rows[0])
    for part, row in zip(_sources(node), rows, strict=True):
        rest = q // math.prod(part)
        unit = rest * pow(rest, -1, math.prod(part))
        total = [t + x * unit for t, x in zip(total, row, strict=True)]
    return oracle.reduce(total, q)


MEANINGS: dict[str, Callable[[Node, int, Rows], list[int]]] = {
    "CONST": lambda node, q, rows: oracle.constant(node.arg.value, node.spec.ring.n, q),
    "SCALAR": lambda node, q, rows: oracle.constant(node.arg.value(()), node.spec.ring.n, q),
    "ADD": lambda node, q, rows: oracle.add(*rows, q),
    "SUB": lambda node, q, rows: oracle.sub(*rows, q),
    "MUL": lambda node, q, rows: oracle.mul(*rows, q),
    "DOT": _dot,
    "MAC": lambda node, q, rows: _dot(node, q, rows),
    "NEG": lambda node, q, rows: oracle.neg(*rows, q),
    "NTT": _same,
    "INTT": _same,
    "COPY": _same,
    "CONTIGUOUS": _same,
    "BOUNDED": _same,
    "VIEW": lambda node, q, rows: oracle.reduce(rows[0], q),
    "JOIN": _join,
    "TO_RING": lambda node, q, rows: oracle.to_ring(rows[0], math.prod(_sources(node)[0]), q),
    "LIFT": lambda node, q, rows: oracle.to_ring(rows[0], math.prod(_sources(node)[0]), q),
    "CONVERT": lambda node, q, rows: oracle.mod_up(
        rows[0], _sources(node)[0], node.arg.ring.moduli
    ),
    "MODUP": lambda node, q, rows: oracle.mod_up(rows[0], node.arg.digit, node.arg.ring.moduli),
    "MODDOWN": lambda node, q, rows: oracle.mod_down(
        rows[0], _sources(node)[0], node.arg.ring.moduli
    ),
    "RESCALE": lambda node, q, rows: oracle.rescale(
        rows[0], _sources(node)[0], node.arg.ring.moduli
    ),
    "ROTATE": lambda node, q, rows: oracle.rotate(rows[0], node.arg.k, q),
    "AUTOMORPHISM": lambda node, q, rows: oracle.automorphism(rows[0], node.arg.g, q),
    "SHIFT": lambda node, q, rows: oracle.shift(rows[0], node.arg.k, q),
    "EMBED": lambda node, q, rows: oracle.embed(rows[0], node.spec.ring.n),
}


def _divide(node: Node, x: np.ndarray) -> np.ndarray:
    arg, have, q = node.arg, math.prod(_sources(node)[0]), math.prod(node.spec.ring.moduli)

    def integer(c: int) -> int:
        return arg.times * c + arg.plus + (arg.below if c > have // 2 else 0)

    y = np.asarray(np.frompyfunc(integer, 1, 1)(x))
    if arg.kind == "digits":
        found = np.stack([y // arg.by**i % arg.by for i in range(arg.count)])
    else:
        found = y // arg.by if arg.kind == "quotient" else y % arg.by
    return (found - arg.minus) % q


def _mix(node: Node, x: np.ndarray) -> np.ndarray:
    w, axis, q = node.arg.weights, node.arg.axis - 1, math.prod(node.spec.ring.moduli)
    words = (w.data[i : i + w.size] for i in range(0, len(w.data), w.size))
    values = [int.from_bytes(word, "little", signed=True) for word in words]
    weights = np.array(values, object).reshape(w.rows, w.columns)
    return np.moveaxis(np.tensordot(weights, np.moveaxis(x, axis, 0), 1) % q, 0, axis)


# What changes the batch axes.
OF_BATCHES: dict[str, Callable[..., np.ndarray]] = {
    "STACK": lambda node, *sources: np.stack(
        np.broadcast_arrays(*sources), axis=-2 if node.arg.axis else 0
    ),
    "DIVIDE": _divide,
    "MIX": _mix,
    "PART": lambda node, x: x[..., node.arg.index, :] if node.arg.axis else x[node.arg.index],
}


def meaning(node: Node, *sources: np.ndarray) -> np.ndarray:
    """The value of `node` from those of its sources."""
    if node.op.name in OF_BATCHES:
        return OF_BATCHES[node.op.name](node, *sources)
    assert node.op.name in MEANINGS, f"say in {__name__}.MEANINGS what {node.op.name} means"
    if node.op.name == "MAC":  # as a sum of products of parts
        w, *terms = sources
        sources = tuple(s for i, x in zip(node.arg.indices, terms, strict=True) for s in (w[i], x))
    batch, q = node.spec.batch, math.prod(node.spec.ring.moduli)
    wide = [np.broadcast_to(s, (*batch, s.shape[-1])) for s in sources]
    out = np.empty((*node.spec.batch, node.spec.ring.n), object)
    for index in np.ndindex(*batch):
        out[index] = MEANINGS[node.op.name](node, q, [list(s[index]) for s in wide])
    return out


def polynomials(sink: Node, known: dict[Node, np.ndarray]) -> list[np.ndarray]:
    """The coefficients of each root of a program as it was written.

    Args:
        sink: the program, before its transforms are inserted.
        known: the values of its inputs; what is computed is added.
    """
    for node in toposort(sink)[:-1]:
        if node not in known:
            known[node] = meaning(node, *(known[s] for s in node.src))
    return [known[root] for root in sink.src]
