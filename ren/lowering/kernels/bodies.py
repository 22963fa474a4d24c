"""The two bodies of every op that runs: its jax.numpy emitter and its NumPy reference.

An emitter sees only the structure of its op and its tables, never moduli or values. So kernels are
shared. A reference sees the whole node and computes with plain remainders. Tests compare emitters
with it, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import reduce
from itertools import groupby
from typing import Any

import attrs
import jax.numpy as jnp
import numpy as np

from ren.core.node import Node
from ren.core.ring import Domain, limb_positions
from ren.lowering.kernels import automorphism, convert, integers, modular, ntt, tables
from ren.lowering.kernels import reference_ops as exact
from ren.lowering.kernels.limb_groups import Parts, limbs

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


def _mask(where: np.ndarray) -> np.ndarray:
    """uint32, all ones where true."""
    return np.where(where, np.uint32(0xFFFFFFFF), np.uint32(0))


_BUILDERS: dict[str, Callable[..., tuple[np.ndarray, ...]]] = {
    "modulus": tables.modulus,
    "constant": _constant_table,
    "ntt": ntt.ntt_tables,
    "intt": ntt.intt_tables,
    "merged": ntt.merged_tables,
    "rows": ntt.row_tables,
    "code": lambda words: (np.frombuffer(words, np.uint32),),
    "convert": convert.convert_tables,
    "lift": convert.lift_tables,
    "residues": integers.residue_tables,
    "floats": integers.float_tables,
    "coefficient_permutation": automorphism.coefficient_permutation,
    "coefficient_index": lambda n, g: automorphism.coefficient_permutation(n, g)[:1],
    "sign_mask": lambda n, g: (_mask(automorphism.coefficient_permutation(n, g)[1]),),
    "first_mask": lambda n: (_mask(np.arange(n) == 0),),
    "evaluation_permutation": lambda n, g: (automorphism.evaluation_permutation(n, g),),
}


def _no_structure(node: Node) -> Hashable:
    return None


def _no_tables(node: Node) -> tuple[Table, ...]:
    return ()


@attrs.frozen(eq=False)
class Body:
    """Implementation of one op.

    Args:
        emit: `(instr, tables, *src) -> array` or `Parts`, jax.numpy under 64-bit types.
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


def _emit_add(instr: Any, t: list[Arrays], a: Any, b: Any) -> Any:
    return modular.add(a, b, t[0][0])


def _emit_sub(instr: Any, t: list[Arrays], a: Any, b: Any) -> Any:
    return modular.sub(a, b, t[0][0])


def _emit_neg(instr: Any, t: list[Arrays], a: Any) -> Any:
    return modular.neg(a, t[0][0])


def _emit_mul(instr: Any, t: list[Arrays], a: Any, b: Any) -> Any:
    return modular.mont_mul(a, b, *t[0])


def _emit_dot(instr: Any, t: list[Arrays], *src: Any) -> Any:
    """Products are summed in 64 bits and reduced once for up to 16 of them."""
    return modular.mul_sum(list(zip(src[::2], src[1::2], strict=True)), *t[0])


def _reference_dot(node: Node, *src: np.ndarray) -> np.ndarray:
    products = [exact.mul(a, b, _moduli(node)) for a, b in zip(src[::2], src[1::2], strict=True)]
    return reduce(lambda a, b: exact.add(a, b, _moduli(node)), products)


# ------------------------------------------------------------------- constants


def _const_tables(node: Node) -> tuple[Table, ...]:
    return (Table("constant", (node.arg.value, _moduli(node))),)


def _emit_fill(instr: Any, t: list[Arrays]) -> Any:
    """`uint32[limb, 1]` of equal values, which broadcasts by itself."""
    return t[0][0]


def _emit_delta(instr: Any, t: list[Arrays]) -> Any:
    return jnp.where(jnp.arange(instr.n) == 0, t[0][0], jnp.uint32(0))


def _emit_at_zero(instr: Any, t: list[Arrays], x: Any) -> Any:
    return jnp.where(jnp.arange(instr.n) == 0, x, jnp.uint32(0))


def _reference_at_zero(node: Node, x: np.ndarray) -> np.ndarray:
    out = np.zeros(node.spec.shape, np.uint32)
    out[..., :1] = x[..., :1]
    return out


def _montgomery_column(node: Node) -> np.ndarray:
    return np.array([[(node.arg.value << 32) % m] for m in _moduli(node)], np.uint32)


def _reference_fill(node: Node) -> np.ndarray:
    return np.broadcast_to(_montgomery_column(node), node.spec.shape)


def _reference_delta(node: Node) -> np.ndarray:
    out = np.zeros(node.spec.shape, np.uint32)
    out[..., :1] = _montgomery_column(node)
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


def _join_structure(node: Node) -> tuple[tuple[int, int, int], ...]:
    """Runs (source, start, length) of the result's limbs."""
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


def _full(instr: Any, src: Arrays) -> list[Any]:
    """Sources with all batch axes, and a residue for each position."""
    batch = jnp.broadcast_shapes(*(s.shape[:-2] for s in src))
    return [jnp.broadcast_to(s, (*batch, s.shape[-2], instr.n)) for s in src]


def _emit_join(instr: Any, t: list[Arrays], *src: Any) -> Any:
    runs = instr.structure
    return Parts(tuple(limbs(src[i], start, start + length) for i, start, length in runs))


def _reference_join(node: Node, *src: np.ndarray) -> np.ndarray:
    whole = _whole(src)
    order = limb_positions(_moduli(node), [m for s in node.src for m in _moduli(s)])
    return np.concatenate(whole, axis=-2)[..., list(order), :]


def _whole(src: tuple[np.ndarray, ...]) -> list[np.ndarray]:
    batch = np.broadcast_shapes(*(s.shape[:-2] for s in src))
    return [np.broadcast_to(s, (*batch, *s.shape[-2:])) for s in src]


# ------------------------------------------------------------------- batch axes


def _emit_stack(instr: Any, t: list[Arrays], *src: Any) -> Any:
    return jnp.stack(_full(instr, src), axis=-3 if instr.structure else 0)


def _reference_stack(node: Node, *src: np.ndarray) -> np.ndarray:
    return np.stack(_whole(src), axis=-3 if node.arg.axis else 0)


def _emit_part(instr: Any, t: list[Arrays], x: Any) -> Any:
    index, axis = instr.structure
    return x[..., index, :, :] if axis else x[index]


def _reference_part(node: Node, x: np.ndarray) -> np.ndarray:
    return np.take(x, node.arg.index, axis=-3 if node.arg.axis else 0)


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


# ------------------------------------------------------------------- loads and stores


def _load_structure(node: Node) -> Hashable:
    """Runs of limbs, or None for all of them in order; and whether positions are permuted."""
    array, index = node.src
    limbs, galois = index.arg.limbs, index.arg.galois
    whole = limbs == tuple(range(array.spec.ring.limbs))
    return (None if whole else _runs(limbs), galois != 1)


def _load_tables(node: Node) -> tuple[Table, ...]:
    galois, n = node.src[1].arg.galois, node.spec.ring.n
    if galois == 1:
        return ()
    if node.spec.domain is Domain.NTT:
        return (Table("evaluation_permutation", (n, galois)),)
    return (Table("coefficient_permutation", (n, galois)),)


def _emit_load(instr: Any, t: list[Arrays], array: Any, index: None) -> Any:
    runs, is_permuted = instr.structure
    if runs is not None:
        parts = [array[..., start : start + length, :] for start, length in runs]
        array = parts[0] if len(parts) == 1 else jnp.concatenate(parts, axis=-2)
    return automorphism.permute_evaluations(array, t[0][0]) if is_permuted else array


def _reference_load(node: Node, array: np.ndarray, index: None) -> np.ndarray:
    where = node.src[1].arg
    x = array[..., list(where.limbs), :]
    return x if where.galois == 1 else _moved(node, x, where.galois)


def _emit_permute(instr: Any, t: list[Arrays], x: Any) -> Any:
    return automorphism.permute_evaluations(x, t[0][0])


def _permutation(node: Node) -> tuple[Table, ...]:
    where = "evaluation" if node.spec.domain is Domain.NTT else "coefficient"
    return (Table(f"{where}_permutation", (node.spec.ring.n, node.arg.g)),)


def _moved(node: Node, x: np.ndarray, g: int) -> np.ndarray:
    """The permutation of X -> X^g alone, without the signs."""
    if node.spec.domain is Domain.NTT:
        return exact.permute_evaluations(x, g)
    n, out = x.shape[-1], np.empty_like(x)
    out[..., np.arange(n) * g % n] = x
    return out


def _emit_flip(instr: Any, t: list[Arrays], x: Any) -> Any:
    return jnp.where(t[0][1], modular.neg(x, t[1][0]), x)


def _reference_flip(node: Node, x: np.ndarray) -> np.ndarray:
    """Coefficient i of x, at i g mod n, gets the sign of X^(i g) in Z[X]/(X^n + 1)."""
    n, g = x.shape[-1], node.arg.g
    source = np.arange(n) * g
    negative = np.empty(n, bool)
    negative[source % n] = source // n % 2 == 1
    return np.where(negative, exact.neg(x, _moduli(node)), x)


def _emit_store(instr: Any, t: list[Arrays], place: None, x: Any) -> Any:
    return jnp.broadcast_to(x, (*x.shape[:-2], instr.limbs, instr.n))


def _reference_store(node: Node, place: None, x: np.ndarray) -> np.ndarray:
    return np.broadcast_to(x, node.spec.shape)


def _emit_identity(instr: Any, t: list[Arrays], x: Any) -> Any:
    return x


def _nothing(*_: Any) -> None:
    """Emit nothing: indices are part of their load, slots are arguments."""


BODIES: dict[str, Body] = {
    "ADD": Body(_emit_add, lambda node, a, b: exact.add(a, b, _moduli(node)), tables=_modulus),
    "SUB": Body(_emit_sub, lambda node, a, b: exact.sub(a, b, _moduli(node)), tables=_modulus),
    "MUL": Body(_emit_mul, lambda node, a, b: exact.mul(a, b, _moduli(node)), tables=_modulus),
    "DOT": Body(_emit_dot, _reference_dot, tables=_modulus),
    "NEG": Body(_emit_neg, lambda node, a: exact.neg(a, _moduli(node)), tables=_modulus),
    "FILL": Body(_emit_fill, _reference_fill, tables=_const_tables),
    "AT_ZERO": Body(_emit_at_zero, _reference_at_zero),
    "DELTA": Body(_emit_delta, _reference_delta, tables=_const_tables),
    "VIEW": Body(_emit_view, _reference_view, _view_structure),
    "JOIN": Body(_emit_join, _reference_join, _join_structure),
    "STACK": Body(_emit_stack, _reference_stack, lambda node: node.arg.axis),
    "PART": Body(_emit_part, _reference_part, lambda node: (node.arg.index, node.arg.axis)),
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
    "PERMUTE": Body(
        _emit_permute, lambda node, x: _moved(node, x, node.arg.g), tables=_permutation
    ),
    "FLIP": Body(
        _emit_flip, _reference_flip, tables=lambda node: (*_permutation(node), *_modulus(node))
    ),
    "CONTIGUOUS": Body(_emit_identity, lambda node, x: x),
    "LOAD": Body(_emit_load, _reference_load, _load_structure, _load_tables),
    "STORE": Body(_emit_store, _reference_store),
    "GIDX": Body(_nothing, _nothing),
    "INDEX": Body(_nothing, _nothing),
    "SLOT": Body(_nothing, _nothing, lambda node: node.arg.index),
}
