"""References: each instruction in NumPy, exact, computed with plain remainders.

A reference sees the whole node. It decides what an op computes; other backends are tested against
it, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from ren.core.node import Node
from ren.core.ring import Domain, limb_positions
from ren.lowering.backends.reference import arithmetic as exact
from ren.lowering.kernels import mixing


def _moduli(node: Node) -> tuple[int, ...]:
    return node.spec.ring.moduli


# ------------------------------------------------------------------- elementwise


def _dot(node: Node, *src: np.ndarray) -> np.ndarray:
    products = [exact.mul(a, b, _moduli(node)) for a, b in zip(src[::2], src[1::2], strict=True)]
    return reduce(lambda a, b: exact.add(a, b, _moduli(node)), products)


# ------------------------------------------------------------------- constants


def _column(node: Node) -> np.ndarray:
    return exact.constant(node.arg.value, _moduli(node))


def _fill(node: Node) -> np.ndarray:
    return np.broadcast_to(_column(node), node.spec.shape)


def _delta(node: Node) -> np.ndarray:
    out = np.zeros(node.spec.shape, np.uint32)
    out[..., :1] = _column(node)
    return out


def _at_zero(node: Node, x: np.ndarray) -> np.ndarray:
    out = np.zeros(node.spec.shape, np.uint32)
    out[..., :1] = x[..., :1]
    return out


# ------------------------------------------------------------------- limbs


def _view(node: Node, x: np.ndarray) -> np.ndarray:
    return x[..., list(limb_positions(_moduli(node), _moduli(node.src[0]))), :]


def _join(node: Node, *src: np.ndarray) -> np.ndarray:
    whole = _whole(src)
    order = limb_positions(_moduli(node), [m for s in node.src for m in _moduli(s)])
    return np.concatenate(whole, axis=-2)[..., list(order), :]


def _whole(src: tuple[np.ndarray, ...]) -> list[np.ndarray]:
    batch = np.broadcast_shapes(*(s.shape[:-2] for s in src))
    return [np.broadcast_to(s, (*batch, *s.shape[-2:])) for s in src]


# ------------------------------------------------------------------- batch axes


def _stack(node: Node, *src: np.ndarray) -> np.ndarray:
    return np.stack(_whole(src), axis=-3 if node.arg.axis else 0)


def _part(node: Node, x: np.ndarray) -> np.ndarray:
    return np.take(x, node.arg.index, axis=-3 if node.arg.axis else 0)


def _mix(node: Node, x: np.ndarray) -> np.ndarray:
    """A product of matrices of Python's integers; Montgomery forms stay so."""
    w = np.array(mixing.entries(node.arg.weights).tolist(), object)
    return exact.mix(np.moveaxis(x, node.arg.axis - 2, 0), w, _moduli(node), node.arg.axis)


# ------------------------------------------------------------------- integers


def _divide(node: Node, x: np.ndarray) -> np.ndarray:
    """With Python's integers."""
    arg, source = node.arg, node.src[0].spec.ring
    c = exact.integers(x, source.moduli)
    is_above = (c > source.q // 2).astype(object)
    y = arg.times * c + arg.plus + is_above * arg.below
    if arg.kind == "digits":
        found = np.stack([y // arg.by**i % arg.by for i in range(arg.count)])
    else:
        found = y // arg.by if arg.kind == "quotient" else y % arg.by
    return exact.of_integers(found - arg.minus, _moduli(node))


def _shift(node: Node, x: np.ndarray) -> np.ndarray:
    """X^k p: coefficient j is that of j - k, negated when it passes X^n."""
    source, moduli = np.arange(node.spec.ring.n) - node.arg.k, _moduli(node)
    turns, place = np.divmod(source, node.spec.ring.n)
    return np.where(turns % 2 == 1, exact.neg(x[..., place], moduli), x[..., place])


# ------------------------------------------------------------------- degrees


def _embed(node: Node, x: np.ndarray) -> np.ndarray:
    """p(X^k): its value at psi^e is that of p at (psi^k)^e."""
    n = node.spec.ring.n
    if node.spec.domain is Domain.NTT:
        return exact.embed_evaluations(x, n)
    out = np.zeros((*x.shape[:-1], n), np.uint32)
    out[..., :: n // x.shape[-1]] = x
    return out


# ------------------------------------------------------------------- loads and stores


def _load(node: Node, array: np.ndarray, index: None) -> np.ndarray:
    where = node.src[1].arg
    x = array[..., list(where.limbs), :]
    return x if where.galois == 1 else _moved(node, x, where.galois)


def _moved(node: Node, x: np.ndarray, g: int) -> np.ndarray:
    """The permutation of X -> X^g alone, without the signs."""
    if node.spec.domain is Domain.NTT:
        return exact.permute_evaluations(x, g)
    n, out = x.shape[-1], np.empty_like(x)
    out[..., np.arange(n) * g % n] = x
    return out


def _flip(node: Node, x: np.ndarray) -> np.ndarray:
    """Coefficient i of x, at i g mod n, gets the sign of X^(i g) in Z[X]/(X^n + 1)."""
    n, g = x.shape[-1], node.arg.g
    source = np.arange(n) * g
    negative = np.empty(n, bool)
    negative[source % n] = source // n % 2 == 1
    return np.where(negative, exact.neg(x, _moduli(node)), x)


def _store(node: Node, place: None, x: np.ndarray) -> np.ndarray:
    return np.broadcast_to(x, node.spec.shape)


def _nothing(*_: Any) -> None:
    """Emit nothing: indices are part of their load, slots are arguments."""


# `(node, *src) -> array` for each instruction. A SLOT is an argument.
REFERENCE: dict[str, Callable[..., Any]] = {
    "ADD": lambda node, a, b: exact.add(a, b, _moduli(node)),
    "SUB": lambda node, a, b: exact.sub(a, b, _moduli(node)),
    "MUL": lambda node, a, b: exact.mul(a, b, _moduli(node)),
    "DOT": _dot,
    "MAC": lambda node, w, *x: _dot(
        node, *(s for i, term in zip(node.arg.indices, x, strict=True) for s in (w[i], term))
    ),
    "NEG": lambda node, a: exact.neg(a, _moduli(node)),
    "FILL": _fill,
    "AT_ZERO": _at_zero,
    "DELTA": _delta,
    "VIEW": _view,
    "JOIN": _join,
    "STACK": _stack,
    "PART": _part,
    "MIX": _mix,
    "SHIFT": _shift,
    "NTT": lambda node, x: exact.ntt(x, _moduli(node)),
    "INTT": lambda node, x: exact.intt(x, _moduli(node)),
    "CONVERT": lambda node, x: exact.convert(x, _moduli(node.src[0]), _moduli(node)),
    "LIFT": lambda node, x: exact.lift(x, _moduli(node.src[0]), _moduli(node)),
    "DIVIDE": _divide,
    "PERMUTE": lambda node, x: _moved(node, x, node.arg.g),
    "FLIP": _flip,
    "EMBED": _embed,
    "CONTIGUOUS": lambda node, x: x,
    "LOAD": _load,
    "STORE": _store,
    "GIDX": _nothing,
    "INDEX": _nothing,
}
