"""Graphs interpreted at every stage of the pipeline, from the user's program to its kernels.

Values are limb arrays `uint32[*batch, limb, n]`, Montgomery residues in the domain of their node.
Ops that have a NumPy reference run through it; the others mean what `polynomials` says, or move
arrays and are spelled out here. The two representations meet in `limbs_of` and `coefficients_of`,
which evaluate at the roots by the definition.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

from ren.core import Domain, Node, RingSpec, toposort
from ren.core import op as ops
from ren.core.numtheory import primitive_root_of_unity
from ren.core.op import Kind
from ren.lowering.backends.reference.ops import REFERENCE
from ren.lowering.kernels.order import evaluation_exponents
from tests.lowering.passes.polynomials import meaning

Values = dict[Node, Any]
_POLYNOMIAL = ("CONST", "AUTOMORPHISM")  # beside the ring ops


@cache
def _points(n: int, q: int) -> np.ndarray:
    """The matrix psi^(e[j] i) of the transform, object[n, n]."""
    psi = primitive_root_of_unity(n, q)
    exponents = [int(e) for e in evaluation_exponents(n)]
    return np.array([[pow(psi, e * i, q) for i in range(n)] for e in exponents], object)


@cache
def _inverse_points(n: int, q: int) -> np.ndarray:
    """Its inverse: psi^(-e[j] i) / n, since the odd powers of psi are the roots of X^n + 1."""
    psi, over_n = pow(primitive_root_of_unity(n, q), -1, q), pow(n, -1, q)
    exponents = [int(e) for e in evaluation_exponents(n)]
    rows = [[pow(psi, e * i, q) * over_n % q for e in exponents] for i in range(n)]
    return np.array(rows, object)


def limbs_of(coefficients: np.ndarray, ring: RingSpec, domain: Domain) -> np.ndarray:
    """`uint32[*batch, limb, n]` of coefficients `[*batch, n]`."""
    limbs = []
    for q in ring.moduli:
        x = coefficients % q
        if domain is Domain.NTT:
            x = x @ _points(ring.n, q).T % q
        limbs.append((x << 32) % q)
    return np.stack(limbs, axis=-2).astype(np.uint32)


def coefficients_of(limbs: np.ndarray, ring: RingSpec, domain: Domain) -> np.ndarray:
    """Coefficients `[*batch, n]` in [0, q) of `uint32[*batch, limb, n]`."""
    total: Any = 0
    for i, q in enumerate(ring.moduli):
        x = limbs[..., i, :].astype(object) * pow(1 << 32, -1, q) % q
        if domain is Domain.NTT:
            x = x @ _inverse_points(ring.n, q).T % q
        rest = math.prod(ring.moduli) // q
        total = total + x * (rest * pow(rest, -1, q))
    return total % math.prod(ring.moduli)


def interpret(sink: Node, known: Values) -> list[np.ndarray]:
    """The limb arrays of the roots of a graph at any stage.

    Args:
        sink: the graph.
        known: the arrays of its inputs; what is computed is added, so that the next stage computes
            only what is new in it.
    """
    for node in toposort(sink)[:-1]:
        if node not in known:
            known[node] = _value(node, [known[s] for s in node.src])
    return [known[root] for root in sink.src]


def _value(node: Node, src: list[Any]) -> Any:
    name = node.op.name
    if node.op not in (ops.MUL, ops.AT_ZERO, ops.LOAD, ops.KERNEL):
        src = [_dense(x, s) for x, s in zip(src, node.src, strict=True)]
    if name in _MOVES:
        return _MOVES[name](node, *src)
    if node.op.kind is Kind.RING or name in _POLYNOMIAL:
        read = zip(src, node.src, strict=True)
        values = [coefficients_of(x, s.spec.ring, s.spec.domain) for x, s in read]
        return limbs_of(meaning(node, *values), node.spec.ring, node.spec.domain)
    if node.op is ops.MUL and any(s.op in (ops.CONST, ops.SCALAR) for s in node.src):
        return _multiplied(node, src)
    if node.op.kind in (Kind.ELEMENTWISE, Kind.TRANSFORM, Kind.VIEW):
        want = node.op.wants or node.spec.domain
        if node.op is ops.MUL and any(s.op is ops.FILL or s.spec.is_scalar for s in node.src):
            want = node.spec.domain
        src = [_in_domain(x, s, want) for x, s in zip(src, node.src, strict=True)]
    assert name in REFERENCE, f"say in {__name__} how {name} is interpreted"
    return REFERENCE[name](node, *src)


def _multiplied(node: Node, src: list[np.ndarray]) -> np.ndarray:
    """A constant times a polynomial, which stays in its domain; or times a constant."""
    at = 0 if node.src[0].op in (ops.CONST, ops.SCALAR) else 1
    factor, other = node.src[at], node.src[1 - at]
    x = _in_domain(_dense(src[1 - at], other), other, node.spec.domain)
    value = factor.arg.value(()) if factor.op is ops.SCALAR else factor.arg.value
    q = np.array(node.spec.ring.moduli, object)[:, None]
    return (x.astype(object) * (value % q) % q).astype(np.uint32)


def _scalar(node: Node) -> np.ndarray:
    """One Montgomery residue a limb."""
    value = node.arg.value(())
    return np.array([[(value << 32) % q] for q in node.spec.ring.moduli], np.uint32)


def _dense(x: Any, node: Node) -> Any:
    """A constant that comes with each run as a polynomial, where it is no factor."""
    if node.op is not ops.SCALAR:
        return x
    everywhere = node.spec.domain is Domain.NTT
    one = np.array([everywhere or i == 0 for i in range(node.spec.ring.n)], np.uint32)
    return x * one


def _in_domain(x: np.ndarray, source: Node, want: Domain) -> np.ndarray:
    """Before transforms are inserted, sources may be in another domain than the one wanted."""
    ring, domain = source.spec.ring, source.spec.domain
    if domain is want:
        return x
    return limbs_of(coefficients_of(x, ring, domain), ring, want)


def _kernel(node: Node, *arrays: np.ndarray) -> dict[int, np.ndarray]:
    """What a kernel stores, by the index of the buffer that it fills."""
    body = node.arg.body
    slots: Values = {}
    for inner in toposort(body):
        if inner.op is ops.SLOT:
            slots[inner] = arrays[inner.arg.index] if inner.arg.index >= 0 else None
    stored = interpret(body, slots)
    return dict(zip(node.arg.places, stored, strict=True))


def _after(node: Node, place: None, done: Any) -> np.ndarray:
    return done[node.src[0].arg.index] if isinstance(done, dict) else done


def _buffer_view(node: Node, x: np.ndarray) -> np.ndarray:
    return x[..., node.arg.start : node.arg.start + node.arg.length, :]


_MOVES: dict[str, Any] = {
    "SCALAR": _scalar,
    "COPY": lambda node, x: x,
    "BUFFERIZE": lambda node, x: x,
    "RESERVED": lambda node: None,
    "AFTER": _after,
    "BUFFER_VIEW": _buffer_view,
    "KERNEL": _kernel,
}
