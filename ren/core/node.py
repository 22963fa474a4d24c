"""Node: an immutable, hash-consed operation of a polynomial program."""

from __future__ import annotations

import hashlib
import itertools
import threading
import weakref
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import attrs

from ren.core import op as ops
from ren.core.op import Op
from ren.core.ring import Domain, RingSpec
from ren.core.spec import BufferArg, ConstArg, NoArg, PlaceholderArg, ScalarArg, Spec, Work

NO_ARG = NoArg()

# One of Ren's three caches: every live interned node, by (op, arg, identities of its sources). A
# node keeps its sources alive, so an identity in a live key is never that of another object.
_interned: weakref.WeakValueDictionary[tuple[Any, ...], Node] = weakref.WeakValueDictionary()
_lock = threading.RLock()
_serials = itertools.count(1)


@attrs.frozen(eq=False, slots=True, weakref_slot=True, repr=False)
class Node:
    """An op applied to sources; equal programs are the same object.

    Attributes:
        op: the row of the op table.
        src: the sources.
        arg: an instance of `op.arg`.
        spec: the type of the value; None for a SINK.
        digest: 16 bytes that name the program: equal for structurally equal programs, also when
            one of them is gone.
        serial: grows with each node made.
        is_zero: the program alone shows a zero, for any inputs: `p * 0`, `p - p`, and what is made
            of them. False where it does not show.
    """

    op: Op
    src: tuple[Node, ...]
    arg: Any
    spec: Any  # a Spec; Any spares every reader of a typed node a check for SINK
    digest: bytes
    serial: int
    is_zero: bool

    @property
    def work(self) -> Work:
        """The cost of the op on its sources, as the op table counts it."""
        return self.op.work(tuple([s.spec for s in self.src]), self.spec)

    def __str__(self) -> str:
        return _printer(self)

    def _repr_html_(self) -> str:
        return _picture(self)

    def __repr__(self) -> str:
        return f"<{self.op.name} #{self.serial}>"


def _printer(node: Node) -> str:
    raise RuntimeError("ren.core.printer is not imported")


def _picture(node: Node) -> str:
    raise RuntimeError("ren.lowering.inspect.svg is not imported")


def install_printer(function: Any) -> None:
    """Sets how `str(node)` prints; the printer stands above nodes in the layers."""
    global _printer
    _printer = function


def install_picture(function: Any) -> None:
    """Sets what a notebook shows for a node."""
    global _picture
    _picture = function


def make(op: Op, src: Iterable[Node] = (), arg: Any = NO_ARG) -> Node:
    """The node `op(*src, arg)`: the live one with that structure, or a new one.

    Raises:
        RenError: from the op's type rule, when the op does not apply to these sources.
    """
    src = tuple(src)
    if isinstance(arg, BufferArg) and arg.traced:
        return _new(op, src, arg)
    key = (op.name, arg, *map(id, src))
    with _lock:
        found = _interned.get(key)
        if found is None:
            found = _interned[key] = _new(op, src, arg)
        return found


def _new(op: Op, src: tuple[Node, ...], arg: Any) -> Node:
    if op.arity is not None and len(src) != op.arity:
        raise TypeError(f"{op.name} takes {op.arity} sources, got {len(src)}")
    if not isinstance(arg, op.arg):
        raise TypeError(f"{op.name} takes a {op.arg}, got {type(arg).__name__}")
    spec = op.infer(tuple([s.spec for s in src]), arg)
    digest, is_zero = _digest(op, src, arg), _is_zero(op, src, arg)
    return Node(op, src, arg, spec, digest, next(_serials), is_zero)


def _is_zero(op: Op, src: tuple[Node, ...], arg: Any) -> bool:
    if not src:
        return op is ops.CONST and not arg.value
    if op is ops.MUL:
        return src[0].is_zero or src[1].is_zero
    if op is ops.ADD:
        a, b = src
        if (a.op is ops.NEG and a.src[0] is b) or (b.op is ops.NEG and b.src[0] is a):
            return True
    elif op is ops.SUB and src[0] is src[1]:
        return True
    return src[0].is_zero and all([s.is_zero for s in src])  # every op maps zeros to zero


def _digest(op: Op, src: tuple[Node, ...], arg: Any) -> bytes:
    text = op.name.encode() + b"(" + _token(arg) + b")"
    return hashlib.blake2b(text + b"".join([s.digest for s in src]), digest_size=16).digest()


def _token(arg: Any) -> bytes:
    # A cached token must not keep the array of a buffer alive.
    if isinstance(arg, BufferArg | PlaceholderArg | ScalarArg):
        return b"%d" % arg.serial
    return b"" if arg is NO_ARG else _static_token(arg)


@lru_cache(maxsize=1 << 12)
def _static_token(arg: Any) -> bytes:
    return repr(arg).encode()


def buffer(array: Any, ring: RingSpec, domain: Domain, *, traced: bool = False) -> Node:
    """The BUFFER node of a limb array `uint32[*batch, limb, n]`; one node for one live array."""
    batch = tuple(array.shape[:-2])
    arg = BufferArg(array, ring, domain, batch, next(_serials), traced)
    return make(ops.BUFFER, (), arg)


def const(value: int, ring: RingSpec, domain: Domain = Domain.COEFF) -> Node:
    """The constant polynomial `value` mod q; allocates nothing."""
    return make(ops.CONST, (), ConstArg(value % ring.q, ring, domain))


def placeholder(spec: Spec, device: Any = None, made: Any = None, how: str = "") -> Node:
    """A new input of a captured program; see `PlaceholderArg`."""
    arg = PlaceholderArg(next(_serials), spec.ring, spec.domain, spec.batch, device, made, how)
    return make(ops.PLACEHOLDER, (), arg)


def toposort(*roots: Node, until: Op | None = None) -> list[Node]:
    """Every node under `roots`, once, sources first (depth-first, iterative).

    Args:
        roots: where to begin.
        until: an op whose sources are left out; None for all.
    """
    order: list[Node] = []
    seen: set[Node] = set()
    stack: list[tuple[Node, bool]] = [(root, False) for root in reversed(roots)]
    while stack:
        node, expanded = stack.pop()
        if expanded:
            order.append(node)
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            if node.op is not until:
                stack.extend((s, False) for s in reversed(node.src) if s not in seen)
    return order


def next_serial() -> int:
    """A number above that of every node made so far."""
    return next(_serials)
