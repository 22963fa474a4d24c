"""The two bodies of every op that runs: its jax.numpy emitter and its NumPy reference.

An emitter sees only the structure of its op and its tables, never moduli or values, so that kernels
are shared. A reference sees the whole node and computes with plain remainders; it is what emitters
are tested against, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from itertools import groupby
from typing import Any

import attrs
import jax.numpy as jnp
import numpy as np

from ren.core import op as ops
from ren.core.node import Node
from ren.core.ring import Domain, limb_positions
from ren.lowering import exact
from ren.lowering.kernels import automorphism, convert, modular, ntt, tables

Arrays = tuple[Any, ...]


@attrs.frozen(cache_hash=True)
class Table:
    """The name of a tuple of constant arrays: which builder, with which arguments."""

    kind: str
    args: tuple[Hashable, ...]

    def build(self) -> tuple[np.ndarray, ...]:
        """The arrays, on the host."""
        return _BUILDERS[self.kind](*self.args)


def _constant_table(value: int, moduli: tuple[int, ...]) -> tuple[np.ndarray, ...]:
    return (tables.montgomery_constant(value, moduli),)


_BUILDERS: dict[str, Callable[..., tuple[np.ndarray, ...]]] = {
    "modulus": tables.modulus,
    "constant": _constant_table,
    "ntt": ntt.ntt_tables,
    "intt": ntt.intt_tables,
    "convert": convert.convert_tables,
    "lift": convert.lift_tables,
    "coefficient_permutation": automorphism.coefficient_permutation,
    "evaluation_permutation": lambda n, g: (automorphism.evaluation_permutation(n, g),),
}


def _no_structure(node: Node) -> Hashable:
    return None


def _no_tables(node: Node) -> tuple[Table, ...]:
    return ()


@attrs.frozen(eq=False)
class Body:
    """How one op runs.

    Args:
        emit: `(instr, tables, *src) -> array`, jax.numpy under 64-bit types.
        reference: `(node, *src) -> array`, NumPy.
        structure: what of the node shapes the emitted code.
        tables: what the emitter reads besides its sources.
    """

    emit: Callable[..., Any]
    reference: Callable[..., Any]
    structure: Callable[[Node], Hashable] = _no_structure
    tables: Callable[[Node], tuple[Table, ...]] = _no_tables


def _modulus(node: Node) -> tuple[Table, ...]:
    return (Table("modulus", (node.spec.ring.moduli,)),)


def _moduli(node: Node) -> tuple[int, ...]:
    return node.spec.ring.moduli


# ------------------------------------------------------------------- elementwise


def _emit_neg(instr: Any, t: list[Arrays], a: Any) -> Any:
    return modular.neg(a, t[0][0])


def _emit_mul(instr: Any, t: list[Arrays], a: Any, b: Any) -> Any:
    return modular.mont_mul(a, b, *t[0])


# ------------------------------------------------------------------- constants


def _const_structure(node: Node) -> Hashable:
    """A factor is the same number everywhere; an addend in coefficients is at X^0 alone."""
    return node.spec.domain


def _const_tables(node: Node) -> tuple[Table, ...]:
    return (Table("constant", (node.arg.value, _moduli(node))),)


def _emit_const(instr: Any, t: list[Arrays]) -> Any:
    """`uint32[limb, 1]` of equal values; users and `_emit_store` spread it as they need it."""
    return t[0][0]


def _spread(value: Any, domain: Domain, n: int) -> Any:
    """A constant over all n positions of a domain."""
    if domain is Domain.NTT:
        return jnp.broadcast_to(value, (*value.shape[:-1], n))
    return jnp.where(jnp.arange(n) == 0, value, jnp.uint32(0))


def _reference_const(node: Node) -> np.ndarray:
    ring = node.spec.ring
    out = np.zeros((ring.limbs, ring.n), np.uint32)
    where = slice(None) if node.spec.domain is Domain.NTT else slice(0, 1)
    out[:, where] = np.array([[(node.arg.value << 32) % m] for m in ring.moduli], np.uint32)
    return out


# ------------------------------------------------------------------- limbs


def _runs(positions: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """Positions as maximal contiguous runs (start, length)."""
    keyed = groupby(enumerate(positions), key=lambda pair: pair[1] - pair[0])
    runs = ([p for _, p in group] for _, group in keyed)
    return tuple((run[0], len(run)) for run in runs)


def _view_structure(node: Node) -> Hashable:
    return _runs(limb_positions(_moduli(node), _moduli(node.src[0])))


def _emit_view(instr: Any, t: list[Arrays], x: Any) -> Any:
    parts = [x[..., start : start + length, :] for start, length in instr.structure]
    return parts[0] if len(parts) == 1 else jnp.concatenate(parts, axis=-2)


def _reference_view(node: Node, x: np.ndarray) -> np.ndarray:
    return x[..., list(limb_positions(_moduli(node), _moduli(node.src[0]))), :]


def _join_structure(node: Node) -> Hashable:
    """Runs (source, start, length) of the result's limbs, and how constant sources spread."""
    return _join_runs(node), _addends(node)


def _join_runs(node: Node) -> tuple[tuple[int, int, int], ...]:
    parts = [m for s in node.src for m in _moduli(s)]
    owner = [i for i, s in enumerate(node.src) for _ in _moduli(s)]
    first = np.cumsum([0, *(len(_moduli(s)) for s in node.src)])
    runs: list[tuple[int, int, int]] = []
    for p in limb_positions(_moduli(node), parts):
        source, start = owner[p], int(p - first[owner[p]])
        if runs and runs[-1][0] == source and sum(runs[-1][1:]) == start:
            runs[-1] = (source, runs[-1][1], runs[-1][2] + 1)
        else:
            runs.append((source, start, 1))
    return tuple(runs)


def _emit_join(instr: Any, t: list[Arrays], *src: Any) -> Any:
    runs, addends = instr.structure
    batch = jnp.broadcast_shapes(*(s.shape[:-2] for s in src))
    full = _whole(src, addends, instr.n)
    full = [jnp.broadcast_to(s, (*batch, s.shape[-2], instr.n)) for s in full]
    parts = [full[i][..., start : start + length, :] for i, start, length in runs]
    return jnp.concatenate(parts, axis=-2)


def _reference_join(node: Node, *src: np.ndarray) -> np.ndarray:
    batch = np.broadcast_shapes(*(s.shape[:-2] for s in src))
    whole = [np.broadcast_to(s, (*batch, *s.shape[-2:])) for s in src]
    order = limb_positions(_moduli(node), [m for s in node.src for m in _moduli(s)])
    return np.concatenate(whole, axis=-2)[..., list(order), :]


# ------------------------------------------------------------------- transforms


def _ntt_tables(node: Node) -> tuple[Table, ...]:
    return (Table(node.op.name.lower(), (node.spec.ring.n, _moduli(node))),)


def _emit_ntt(instr: Any, t: list[Arrays], x: Any) -> Any:
    return ntt.ntt(x, *t[0])


def _emit_intt(instr: Any, t: list[Arrays], x: Any) -> Any:
    return ntt.intt(x, *t[0])


def _base_tables(node: Node) -> tuple[Table, ...]:
    return (Table(node.op.name.lower(), (_moduli(node.src[0]), _moduli(node))),)


def _emit_convert(instr: Any, t: list[Arrays], x: Any) -> Any:
    return convert.convert(x, *t[0])


def _emit_lift(instr: Any, t: list[Arrays], x: Any) -> Any:
    return convert.lift(x, *t[0])


def _automorphism_tables(node: Node) -> tuple[Table, ...]:
    n = node.spec.ring.n
    if node.spec.domain is Domain.NTT:
        return (Table("evaluation_permutation", (n, node.arg.g)),)
    return (Table("coefficient_permutation", (n, node.arg.g)), *_modulus(node))


def _emit_automorphism(instr: Any, t: list[Arrays], x: Any) -> Any:
    if instr.structure is Domain.NTT:
        return automorphism.permute_evaluations(x, t[0][0])
    return automorphism.permute_coefficients(x, t[1][0], *t[0])


def _reference_automorphism(node: Node, x: np.ndarray) -> np.ndarray:
    if node.spec.domain is Domain.NTT:
        return exact.permute_evaluations(x, node.arg.g)
    return exact.permute_coefficients(x, node.arg.g, _moduli(node))


# ------------------------------------------------------------------- stores


def _store_structure(node: Node) -> Hashable:
    """What is stored is a whole array: a constant is spread in its domain first."""
    x = node.src[0]
    while x.op is ops.CONTIGUOUS:
        x = x.src[0]
    return x.spec.domain if x.op is ops.CONST else None


def _emit_store(instr: Any, t: list[Arrays], x: Any) -> Any:
    return x if instr.structure is None else _spread(x, instr.structure, instr.n)


def _emit_identity(instr: Any, t: list[Arrays], x: Any) -> Any:
    return x


def _reference_identity(node: Node, x: np.ndarray) -> np.ndarray:
    return x


def _addends(node: Node) -> tuple[Domain, tuple[bool, ...]]:
    """The domain, and which sources are constants: those stand at X^0 alone in coefficients."""
    return node.spec.domain, tuple(s.op is ops.CONST for s in node.src)


def _whole(src: Arrays, addends: tuple[Domain, tuple[bool, ...]], n: int) -> list[Any]:
    """Sources of a sum; in the NTT domain `[limb, 1]` broadcasts by itself."""
    domain, is_const = addends
    spread = [c and domain is Domain.COEFF for c in is_const]
    return [_spread(s, domain, n) if c else s for s, c in zip(src, spread, strict=True)]


def _emit_add(instr: Any, t: list[Arrays], *src: Any) -> Any:
    a, b = _whole(src, instr.structure, instr.n)
    return modular.add(a, b, t[0][0])


def _emit_sub(instr: Any, t: list[Arrays], *src: Any) -> Any:
    a, b = _whole(src, instr.structure, instr.n)
    return modular.sub(a, b, t[0][0])


def _mul(node: Node, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """A constant factor multiplies every position, in either domain."""
    pair = [x[..., :1] if s.op is ops.CONST else x for s, x in zip(node.src, (a, b), strict=True)]
    return exact.mul(pair[0], pair[1], _moduli(node))


BODIES: dict[str, Body] = {
    "ADD": Body(
        _emit_add,
        lambda node, a, b: exact.add(a, b, _moduli(node)),
        _addends,
        _modulus,
    ),
    "SUB": Body(
        _emit_sub,
        lambda node, a, b: exact.sub(a, b, _moduli(node)),
        _addends,
        _modulus,
    ),
    "MUL": Body(_emit_mul, _mul, tables=_modulus),
    "NEG": Body(_emit_neg, lambda node, a: exact.neg(a, _moduli(node)), tables=_modulus),
    "CONST": Body(_emit_const, _reference_const, _const_structure, _const_tables),
    "VIEW": Body(_emit_view, _reference_view, _view_structure),
    "JOIN": Body(_emit_join, _reference_join, _join_structure),
    "NTT": Body(_emit_ntt, lambda node, x: exact.ntt(x, _moduli(node)), tables=_ntt_tables),
    "INTT": Body(_emit_intt, lambda node, x: exact.intt(x, _moduli(node)), tables=_ntt_tables),
    "CONVERT": Body(
        _emit_convert,
        lambda node, x: exact.convert(x, _moduli(node.src[0]), _moduli(node)),
        tables=_base_tables,
    ),
    "LIFT": Body(
        _emit_lift,
        lambda node, x: exact.lift(x, _moduli(node.src[0]), _moduli(node)),
        tables=_base_tables,
    ),
    "AUTOMORPHISM": Body(
        _emit_automorphism, _reference_automorphism, _const_structure, _automorphism_tables
    ),
    "CONTIGUOUS": Body(_emit_identity, _reference_identity),
    "STORE": Body(_emit_store, _reference_identity, _store_structure),
    # A slot's body is the kernel's argument; emit and reference are never called for it.
    "SLOT": Body(_emit_identity, _reference_identity, lambda node: node.arg.index),
}
