"""Programs that differ in constants: planned once for all, with these as inputs.

The first program of a structure is planned as it is. A second one may have other numbers of the
same lengths in the same places. These become inputs of a plan for all. Such SCALARs are treated as
constants are, so that residues are the same, bit for bit. How ModDowns round depends on the lengths
of factors. Constants that passes would put together stay as they are.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

from ren.core import op as ops
from ren.core.node import Node, Structure, make, next_serial
from ren.core.numtheory import centered, length
from ren.core.op import Kind
from ren.core.spec import ScalarArg
from ren.lowering.backends.xla.jax_runtime import guarded
from ren.lowering.devices.devices import Place, common_place, is_tracing
from ren.lowering.runtime.host_arrays import placed, scalar_limbs
from ren.lowering.runtime.planning import (
    MOST_PLANNED,
    Planned,
    key_of,
    known_program,
    planned_anew,
    planned_as,
)

_LEAST = 2  # passes have rules of their own for the smallest integers
_LINEAR = (ops.ADD, ops.SUB, ops.MUL)


class _Family:
    """Programs that differ in constants.

    Attributes:
        first: the constants of the first of them.
        opened: the places where others had other ones, and the plan whose inputs these are. It is
            set at once: threads may plan the same.
    """

    def __init__(self, first: Sequence[int]) -> None:
        self.first = first
        self.opened: tuple[frozenset[int], Planned] | None = None

    def program_of(self, structure: Structure, constants: Sequence[Node]) -> Planned | None:
        """The plan for other constants; None for those of the first, or where there is none."""
        pairs = enumerate(zip(constants, self.first, strict=True))
        differing = frozenset(i for i, (node, value) in pairs if node.arg.value != value)
        if not differing:
            return None
        if (opened := self.opened) is not None:
            if differing <= opened[0]:
                return opened[1]
            differing |= opened[0]
        if not _stand_alone(structure, {constants[i] for i in differing}):
            return None
        scalars = {constants[i]: _scalar(constants[i], i) for i in differing}
        program = planned_anew(structure, scalars)
        self.opened = differing, program
        return program


# Families by structure up to constants: the one used longest ago goes.
_families: OrderedDict[Any, _Family] = OrderedDict()
_lock = threading.Lock()


def bound(structure: Structure) -> tuple[Planned, list[Any]]:
    """The plan of a program, and the arrays of its inputs.

    Raises:
        DeviceError: operands on two devices.
    """
    arrays = [leaf.arg.array for leaf in structure.leaves]
    key = key_of(structure)
    program = known_program(key)
    if program is None and structure.constants and not (is_tracing() or guarded()):
        place = common_place(arrays)
        if place is not None and (opened := _opened(structure, key, place)) is not None:
            program, inputs = opened
            return program, [arrays[i] if isinstance(i, int) else inputs(i) for i in program.order]
    if program is None:
        program = planned_as(key, structure)
    return program, [arrays[i] for i in program.order]


def _opened(
    structure: Structure, key: tuple[Any, ...], place: Place
) -> tuple[Planned, Callable[[ScalarArg], Any]] | None:
    """A plan with constants as inputs, and what makes their arrays; None for the first program."""
    large = {at: node for at, node in structure.constants.items() if _is_large(node)}
    if not large:
        return None
    constants = list(large.values())
    program = _family_of(key, large).program_of(structure, constants)
    if program is None:
        return None
    values = list(map(_value, constants))

    def array(arg: ScalarArg) -> Any:
        limbs = scalar_limbs(arg, values)
        return jax.device_put(limbs, place.sharding) if place.is_committed else placed(limbs)

    return program, array


def _family_of(key: tuple[Any, ...], large: Mapping[int, Node]) -> _Family:
    structure, *others = key
    loose = list(structure)
    for at, node in large.items():
        loose[at] = (ops.CONST.name, node.arg.ring, node.arg.domain, length(_value(node)))
    name = (tuple(loose), *others)
    with _lock:
        family = _families.get(name)
        if family is None:
            family = _families[name] = _Family([node.arg.value for node in large.values()])
            while len(_families) > MOST_PLANNED:
                _families.popitem(last=False)
        else:
            _families.move_to_end(name)
    return family


def _is_constant(root: Node, structure: Structure) -> bool:
    """True where a result reads no array. Plans have no numbers as results."""
    stack, seen = [root], {root}
    while stack:
        node = stack.pop()
        if node.op.kind is Kind.LEAF or node in structure.known:
            return False
        new = [s for s in node.src if s not in seen]
        seen.update(new)
        stack.extend(new)
    return True


def _value(constant: Node) -> int:
    return centered(constant.arg.value, constant.arg.ring.q)


def _is_large(node: Node) -> bool:
    return abs(_value(node)) > _LEAST


def _stand_alone(structure: Structure, constants: set[Node]) -> bool:
    """True where each of the constants is a term or a factor of what is none, and of no product.

    Each result has to read an array, too.
    """
    if any([_is_constant(root, structure) for root in structure.roots]):
        return False
    stack, seen = list(structure.roots), set(structure.roots)
    while stack:
        node = stack.pop()
        if node in structure.known:
            continue
        read = constants.intersection(node.src)
        if read and (node.op not in _LINEAR or all([s.spec.is_constant for s in node.src])):
            return False
        if node.op is ops.MUL and any([s.spec.is_constant for s in node.src]):
            inner = [t for s in node.src if s.op is ops.MUL for t in s.src]
            if any([t in constants or (read and t.spec.is_constant) for t in inner]):
                return False
        new = [s for s in node.src if s not in seen]
        seen.update(new)
        stack.extend(new)
    return True


def _scalar(constant: Node, index: int) -> Node:
    """An input in place of a constant: the number at `index` of those of a call."""
    ring, domain = constant.arg.ring, constant.arg.domain
    bits = length(_value(constant))
    arg = ScalarArg(next_serial(), ring, domain, lambda values: values[index], bits=bits)
    return make(ops.SCALAR, (), arg)


def forget() -> None:
    """Plans every program anew."""
    with _lock:
        _families.clear()
