"""Instructions: what a kernel keeps of each node, by op, and the tables that it reads.

All of a node that shapes code is its structure. Moduli, constants, twiddle factors and permutations
are tables, arguments of the compiled function. So kernels are shared. Backends have a table of what
runs for each instruction: `ren.lowering.backends.{xla,reference,native}.ops`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from functools import lru_cache
from itertools import groupby
from typing import Any

import attrs
import numpy as np

from ren.core.node import Node
from ren.core.ring import Domain, limb_positions, limbs_by_modulus, width
from ren.lowering.kernels import (
    convert,
    division,
    integers,
    mixing,
    ntt,
    substitution,
    tables,
    wide_moduli,
)

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
    "rows": ntt.row_tables,
    "code": lambda words: (np.frombuffer(words, np.uint32),),
    "convert": convert.convert_tables,
    "lift": convert.lift_tables,
    "lift_to_wide": wide_moduli.lift_to_wide_tables,
    "lift_from_wide": wide_moduli.lift_from_wide_tables,
    "divide": division.division_tables,
    "residues": integers.residue_tables,
    "floats": integers.float_tables,
    "coefficient_permutation": substitution.coefficient_permutation,
    "coefficient_index": lambda n, g: substitution.coefficient_permutation(n, g)[:1],
    "sign_mask": lambda n, g: (_mask(substitution.coefficient_permutation(n, g)[1]),),
    "first_mask": lambda n: (_mask(np.arange(n) == 0),),
    "evaluation_permutation": lambda n, g: (substitution.evaluation_permutation(n, g),),
    "shift_start": lambda n, k: (substitution.shift_start(n, k),),
    "shift_index": lambda n, k: (substitution.shift_permutation(n, k)[0],),
    "shift_mask": lambda n, k: (_mask(substitution.shift_permutation(n, k)[1]),),
    "mix": mixing.mix_tables,
    "mix_rows": mixing.row_tables,
    "indices": lambda indices: (np.array(indices, np.int32),),
    "embedding_index": lambda n, m: (substitution.embedding_index(n, m),),
}


@attrs.frozen
class Instr:
    """One step of a program.

    Args:
        op: the name of the op.
        structure: what of its argument shapes the code.
        src: positions of its sources among the instructions.
        tables: positions of its tables among the program's.
        limbs, n: the two last axes of the result.
    """

    op: str
    structure: Hashable
    src: tuple[int, ...]
    tables: tuple[int, ...]
    limbs: int
    n: int


def _no_structure(node: Node) -> Hashable:
    return None


def _no_tables(node: Node) -> tuple[Table, ...]:
    return ()


@attrs.frozen(eq=False)
class Rules:
    """Functions that make the instruction of a node.

    Args:
        structure: what of the node shapes the code.
        tables: what the instruction reads besides its sources.
    """

    structure: Callable[[Node], Hashable] = _no_structure
    tables: Callable[[Node], tuple[Table, ...]] = _no_tables


def _modulus(node: Node) -> tuple[Table, ...]:
    return (Table("modulus", (node.spec.ring.moduli,)),)


def _moduli(node: Node) -> tuple[int, ...]:
    return node.spec.ring.moduli


def _widths(node: Node) -> Hashable:
    """The number of limbs of each modulus where one is wide; None where each has one limb."""
    ring = node.spec.ring
    return tuple(map(width, ring.moduli)) if ring.has_wide else None


def _lift_structure(node: Node) -> Hashable:
    """None between moduli below 2^30; else "from" or "to" a wide one."""
    if node.src[0].spec.ring.has_wide:
        return "from"
    return "to" if node.spec.ring.has_wide else None


def _lift_tables(node: Node) -> tuple[Table, ...]:
    kind = {None: "lift", "from": "lift_from_wide", "to": "lift_to_wide"}[_lift_structure(node)]
    return (Table(kind, (_moduli(node.src[0]), _moduli(node))),)


def _const_tables(node: Node) -> tuple[Table, ...]:
    return (Table("constant", (node.arg.value, _moduli(node))),)


def _runs(positions: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """Positions as maximal contiguous runs (start, length)."""
    keyed = groupby(enumerate(positions), key=lambda pair: pair[1] - pair[0])
    runs = ([p for _, p in group] for _, group in keyed)
    return tuple((run[0], len(run)) for run in runs)


def _view_structure(node: Node) -> Hashable:
    return _runs(limb_positions(_moduli(node), _moduli(node.src[0])))


def _join_structure(node: Node) -> tuple[tuple[int, int, int], ...]:
    """Runs (source, start, length) of the result's limbs."""
    return _joined(_moduli(node), tuple(map(_moduli, node.src)))


@lru_cache(maxsize=1 << 10)
def _joined(
    moduli: tuple[int, ...], parts: tuple[tuple[int, ...], ...]
) -> tuple[tuple[int, int, int], ...]:
    places = {
        m: [(i, at) for at in limbs]
        for i, part in enumerate(parts)
        for m, limbs in limbs_by_modulus(part).items()
    }
    runs: list[tuple[int, int, int]] = []
    for source, start in (place for m in moduli for place in places[m]):
        if runs and runs[-1][0] == source and sum(runs[-1][1:]) == start:
            runs[-1] = (source, runs[-1][1], runs[-1][2] + 1)
        else:
            runs.append((source, start, 1))
    return tuple(runs)


def _ntt_tables(node: Node) -> tuple[Table, ...]:
    return (Table(node.op.name.lower(), (node.spec.ring.n, _moduli(node))),)


def _base_tables(node: Node) -> tuple[Table, ...]:
    return (Table(node.op.name.lower(), (_moduli(node.src[0]), _moduli(node))),)


def _divide_structure(node: Node) -> Hashable:
    a = node.arg
    return tuple(division.form(_moduli(node.src[0]), a.kind, a.count, a.times, a.below, a.by))


def _divide_tables(node: Node) -> tuple[Table, ...]:
    a = node.arg
    rest = (a.kind, a.count, a.times, a.plus, a.below, a.by, a.minus)
    return (Table("divide", (_moduli(node.src[0]), _moduli(node), *rest)),)


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


def _permutation(node: Node) -> tuple[Table, ...]:
    where = "evaluation" if node.spec.domain is Domain.NTT else "coefficient"
    return (Table(f"{where}_permutation", (node.spec.ring.n, node.arg.g)),)


def _embed_structure(node: Node) -> Hashable:
    """The distance of coefficients that are neighbours in the source; None for values."""
    n, m = node.spec.ring.n, node.src[0].spec.ring.n
    return None if node.spec.domain is Domain.NTT else n // m


def _embed_tables(node: Node) -> tuple[Table, ...]:
    n, m = node.spec.ring.n, node.src[0].spec.ring.n
    return (Table("embedding_index", (n, m)),) if node.spec.domain is Domain.NTT else ()


def _shift_tables(node: Node) -> tuple[Table, ...]:
    return (Table("shift_start", (node.spec.ring.n, node.arg.k)), *_modulus(node))


INSTRUCTIONS: dict[str, Rules] = {
    "ADD": Rules(_widths, _modulus),
    "SUB": Rules(_widths, _modulus),
    "MUL": Rules(tables=_modulus),
    "DOT": Rules(tables=_modulus),
    "MAC": Rules(tables=lambda node: (*_modulus(node), Table("indices", (node.arg.indices,)))),
    "NEG": Rules(_widths, _modulus),
    "FILL": Rules(tables=_const_tables),
    "AT_ZERO": Rules(),
    "DELTA": Rules(tables=_const_tables),
    "VIEW": Rules(_view_structure),
    "JOIN": Rules(_join_structure),
    "STACK": Rules(lambda node: node.arg.axis),
    "PART": Rules(lambda node: (node.arg.index, node.arg.axis)),
    "MIX": Rules(
        lambda node: (node.arg.axis, node.arg.weights.rows),
        lambda node: (Table("mix", (node.arg.weights, _moduli(node))), *_modulus(node)),
    ),
    "NTT": Rules(tables=_ntt_tables),
    "INTT": Rules(tables=_ntt_tables),
    "CONVERT": Rules(tables=_base_tables),
    "LIFT": Rules(_lift_structure, _lift_tables),
    "DIVIDE": Rules(_divide_structure, _divide_tables),
    "SHIFT": Rules(_widths, _shift_tables),
    "PERMUTE": Rules(tables=_permutation),
    "FLIP": Rules(_widths, lambda node: (*_permutation(node), *_modulus(node))),
    "EMBED": Rules(_embed_structure, _embed_tables),
    "CONTIGUOUS": Rules(),
    "LOAD": Rules(_load_structure, _load_tables),
    "STORE": Rules(),
    "GIDX": Rules(),
    "INDEX": Rules(),
    "SLOT": Rules(lambda node: node.arg.index),
}


def add_instructions(
    instrs: list[Instr],
    nodes: Iterable[Node],
    position: dict[Node, int],
    tables: dict[Table, int],
) -> None:
    """Append the instructions of nodes, sources first.

    Args:
        instrs: the instructions so far.
        nodes: in topological order; what they read is among them or in `position`.
        position: of each node its instruction; it grows.
        tables: of each table its number; it grows.
    """
    for node in nodes:
        rules, ring = INSTRUCTIONS[node.op.name], node.spec.ring
        needed = tuple(tables.setdefault(t, len(tables)) for t in rules.tables(node))
        src = tuple(position[s] for s in node.src)
        position[node] = len(instrs)
        instrs.append(Instr(node.op.name, rules.structure(node), src, needed, ring.limbs, ring.n))
