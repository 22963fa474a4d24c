"""Table of the ops that have a native kernel, by platform; the emitter consults it alone.

Beside the platform the choice depends on the ops of a program alone. So a library's name says all
that a key of a compiled kernel has to contain.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import lru_cache, partial
from typing import Any

import attrs
import jax

from ren.lowering.kernels.bodies import BODIES, Arrays, Table
from ren.lowering.program.kernel import Program

PLATFORM = "cpu"
PLAN = "ren_plan"  # the handler that runs whole graphs: see `ren.lowering.backends.native.bytecode`
Emit = Callable[..., Any]


@attrs.frozen
class Override:
    """A native kernel that replaces an op's emitter.

    Args:
        handler: its name in the library.
        emit: `(call, instr, tables, *src) -> array`.
        overwrites: whether the result can stand in the buffer of the first source.
    """

    handler: str
    emit: Emit
    overwrites: bool = False

    def call(self, library: str, overwrites: bool = False) -> Call:
        """The call of the kernel in a library, which may overwrite its first source."""
        return Call(target(library, self.handler), overwrites and self.overwrites)


def target(library: str, handler: str) -> str:
    """The name by which a handler of a library is registered: no two libraries share one."""
    return f"{handler}_{library}"


@attrs.frozen
class Call:
    """Calls a handler: `uint32[*batch, limb, n]` and more arrays -> one with so many limbs.

    Under vmap each array gets the leading axes, of length 1 where it does not depend on them.

    Args:
        target: the name by which the handler is registered.
        overwrites: whether the result may stand in the buffer of the first array. XLA copies that
            array before where it is still needed, and a result after into a buffer that was given
            away: with this set for those alone, it copies nothing.
    """

    target: str
    overwrites: bool = False

    def __call__(self, limbs: int, x: Any, *rest: Any) -> Any:
        call = jax.ffi.ffi_call(
            self.target,
            jax.ShapeDtypeStruct((*x.shape[:-2], limbs, x.shape[-1]), x.dtype),
            vmap_method="expand_dims",
            input_output_aliases={0: 0} if self.overwrites else None,
        )
        return call(x, *rest)


def _emit_transform(call: Call, instr: Any, t: list[Arrays], x: Any) -> Any:
    return call(x.shape[-2], x, *t[0])


def _emit_conversion(call: Call, instr: Any, t: list[Arrays], x: Any) -> Any:
    return call(t[0][-1].shape[-2], x, *t[0])


OVERRIDES: dict[tuple[str, str], Override] = {
    ("NTT", PLATFORM): Override("ren_ntt", _emit_transform, overwrites=True),
    ("INTT", PLATFORM): Override("ren_intt", _emit_transform, overwrites=True),
    ("CONVERT", PLATFORM): Override("ren_convert", _emit_conversion),
    ("LIFT", PLATFORM): Override("ren_lift", _emit_conversion),
}
_OPS = frozenset(op for op, _ in OVERRIDES)
_OVERWRITING = frozenset(op for (op, _), override in OVERRIDES.items() if override.overwrites)


# A native kernel reads other tables than XLA's: the kind of one -> the kind and what to add.
_TABLES: dict[str, tuple[str, tuple[Hashable, ...]]] = {
    "ntt": ("merged", (False,)),
    "intt": ("merged", (True,)),
}


def tables_for(tables: tuple[Table, ...], library: str) -> tuple[Table, ...]:
    """Tables that a library's kernels read for those of a kernel; empty for XLA alone."""
    return tuple(map(_table_for, tables)) if library else tables


def _table_for(table: Table) -> Table:
    if table.kind not in _TABLES:
        return table
    kind, more = _TABLES[table.kind]
    return Table(kind, (*table.args, *more))


def emitter(op: str, library: str, overwrites: bool = False) -> Emit:
    """Emitter of an op: `(instr, tables, *src) -> array`.

    Args:
        op: its name.
        library: the name of the library that is loaded; empty for XLA alone.
        overwrites: whether the result may stand in the buffer of the first source, if it can.
    """
    usual = BODIES[op].emit
    if not library or op not in _OPS:
        return usual
    override = OVERRIDES[op, PLATFORM]
    return partial(override.emit, override.call(library, overwrites))


@lru_cache(maxsize=4096)
def has_override(program: Program) -> bool:
    """Whether a native kernel could run some of a program."""
    return any(instr.op in _OPS for instr in program.instrs)


@lru_cache(maxsize=4096)
def overwrites_sources(program: Program) -> bool:
    """Whether a native kernel of a program can put its result in the buffer of its source."""
    return any(instr.op in _OVERWRITING for instr in program.instrs)
