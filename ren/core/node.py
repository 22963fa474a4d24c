"""Node: an immutable, hash-consed operation of a polynomial program."""

from __future__ import annotations

import gc
import itertools
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, lru_cache
from hashlib import blake2b
from typing import Any

import attrs

from ren.core import op as ops
from ren.core.op import Kind, Op
from ren.core.ring import Domain, RingSpec
from ren.core.spec import BufferArg, ConstArg, NoArg, PlaceholderArg, ScalarArg, Spec, Work

NO_ARG = NoArg()
_LEAVES = (BufferArg, PlaceholderArg, ScalarArg)

_Key = tuple[Any, ...]
_FIRST_SWEEP = 1 << 12  # entries of the table of nodes
_lock = threading.RLock()
_pauses, _was_on = 0, False  # of the garbage collector, guarded by `_lock`
next_serial = itertools.count(1).__next__  # a number above that of every node made so far

# Set by `ren.core.printer` and `ren.lowering.inspect.svg`, which stand above nodes in the layers.
text_of: Callable[[Node], str] = repr
html_of: Callable[[Node], str] = repr


@attrs.frozen(eq=False, slots=True, weakref_slot=True, repr=False)
class Node:
    """An op applied to sources; equal programs are the same object.

    Attributes:
        op: the row of the op table.
        src: the sources.
        arg: an instance of `op.arg`.
        spec: the type of the value; None for a SINK.
        serial: grows with each node made.
        is_zero: the program alone shows a zero, for any inputs: `p * 0`, `p - p`, and what is made
            of them. False where it does not show.
        value: the BUFFER that holds its value, once `ren.poly.realization` has run it; else None.
    """

    op: Op
    src: tuple[Node, ...]
    arg: Any
    spec: Any  # a Spec; Any spares every reader of a typed node a check for SINK
    serial: int
    is_zero: bool
    value: Node | None = attrs.field(init=False, default=None)
    _digest: bytes | None = attrs.field(init=False, default=None)

    @property
    def label(self) -> bytes:
        """The op with its argument, as bytes; of leaves empty."""
        arg = self.arg
        if arg is NO_ARG:
            return _bare_label(self.op)
        return b"" if isinstance(arg, _LEAVES) else _label(self.op, arg)

    @property
    def digest(self) -> bytes:
        """16 bytes that name the program: equal for structurally equal programs, also when one of
        them is gone.
        """
        if self._digest is None:
            _name(self)
        return self._digest  # type: ignore[return-value]

    @property
    def dtype(self) -> str | None:
        """Element type of the value, "uint32"; None for a SINK, which has no value."""
        return self.spec and self.spec.dtype

    @property
    def work(self) -> Work:
        """The cost of the op on its sources, as the op table counts it."""
        return self.op.work(tuple([s.spec for s in self.src]), self.spec, self.arg)

    def __str__(self) -> str:
        return text_of(self)

    def _repr_html_(self) -> str:
        return html_of(self)

    def __repr__(self) -> str:
        return f"<{self.op.name} #{self.serial}>"


class _Interned:
    """Live nodes by keys. What is dead goes all at once, each time that the table has doubled.

    A `weakref.WeakValueDictionary` runs Python code where a node dies. What the handler of a signal
    raises there, as that of Ctrl-C does, is lost. A key has the hash of an argument in place of it,
    which may be large. Nodes whose hashes meet that of a live one stand apart.
    """

    def __init__(self) -> None:
        self._found: dict[_Key, weakref.ref[Node]] = {}
        self._apart: weakref.WeakValueDictionary[_Key, Node] = weakref.WeakValueDictionary()
        self._most = _FIRST_SWEEP

    def __len__(self) -> int:
        """The number of entries, those of dead nodes included."""
        return len(self._found) + len(self._apart)

    def get(self, key: _Key, arg: Any = NO_ARG) -> Node | None:
        """The live node of a key with an argument; None where there is none."""
        found = self._found.get(key)
        node = None if found is None else found()
        if node is not None and (arg is NO_ARG or node.arg is arg or node.arg == arg):
            return node
        return self._apart.get((*key, arg)) if self._apart else None

    def add(self, key: _Key, node: Node) -> None:
        """Enters a node, which `get` has not found."""
        found = self._found.get(key)
        if found is not None and found() is not None:
            self._apart[*key, node.arg] = node
            return
        self._found[key] = weakref.ref(node)
        if len(self._found) > self._most:
            self._found = {k: ref for k, ref in self._found.items() if ref() is not None}
            self._most = 2 * len(self._found) + _FIRST_SWEEP


# One of Ren's three caches: every live interned node, by op, hash of the argument, and identities
# of its sources. A node keeps its sources alive: while it lives, no other object has their
# identities.
interned = _Interned()


def make(op: Op, src: Iterable[Node] = (), arg: Any = NO_ARG) -> Node:
    """The node `op(*src, arg)`: the live one with that structure, or a new one.

    Raises:
        RenError: from the op's type rule, when the op does not apply to these sources.
    """
    src = tuple(src)
    if isinstance(arg, BufferArg):
        if arg.traced:
            return _new(op, src, arg)
        key, of_key = (op.name, *arg.key), NO_ARG
    else:
        key = (op.name, *map(id, src)) if arg is NO_ARG else (op.name, hash(arg), *map(id, src))
        of_key = arg
    with _lock:
        node = interned.get(key, of_key)
        if node is None:
            node = _new(op, src, arg)
            interned.add(key, node)
        return node


def _new(op: Op, src: tuple[Node, ...], arg: Any) -> Node:
    if op.arity is not None and len(src) != op.arity:
        raise TypeError(f"{op.name} takes {op.arity} sources, got {len(src)}")
    if not isinstance(arg, op.arg):
        raise TypeError(f"{op.name} takes a {op.arg}, got {type(arg).__name__}")
    spec = op.infer(tuple([s.spec for s in src]), arg)
    return Node(op, src, arg, spec, next_serial(), _is_zero(op, src, arg))


def _name(root: Node) -> None:
    """Computes the digests of a program that are not known yet, sources first."""
    stack = [root]
    while stack:
        node = stack[-1]
        pending = [s for s in node.src if s._digest is None]
        if pending:
            stack.extend(pending)
            continue
        stack.pop()
        # A cached label must not keep the array of a buffer alive.
        of_leaf = node.arg.serial if isinstance(node.arg, _LEAVES) else None
        named = node.label if of_leaf is None else b"%s(%d)" % (node.op.name.encode(), of_leaf)
        below = b"".join([s._digest for s in node.src])  # type: ignore[misc]
        digest = blake2b(named + below, digest_size=16).digest()
        object.__setattr__(node, "_digest", digest)


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
    elif op is ops.MIX:
        return src[0].is_zero or not any(arg.weights.data)
    elif op is ops.MAC:
        return src[0].is_zero or all([s.is_zero for s in src[1:]])
    return src[0].is_zero and all([s.is_zero for s in src])  # every op maps zeros to zero


@lru_cache(maxsize=1 << 12)
def _label(op: Op, arg: Any) -> bytes:
    return f"{op.name}({arg!r})".encode()


@cache
def _bare_label(op: Op) -> bytes:
    return f"{op.name}()".encode()


def buffer(array: Any, ring: RingSpec, domain: Domain, *, traced: bool = False) -> Node:
    """The BUFFER node of a limb array `uint32[*batch, limb, n]`; one node for one live array."""
    batch = tuple(array.shape[:-2])
    arg = BufferArg(array, ring, domain, batch, next_serial(), traced)
    return make(ops.BUFFER, (), arg)


def buffer_like(array: Any, spec: Spec) -> Node:
    """The BUFFER node of an array of this type and shape that JAX does not trace."""
    arg = BufferArg(array, spec.ring, spec.domain, spec.batch, next_serial())
    key = (ops.BUFFER.name, *arg.key)
    with _lock:
        node = interned.get(key)
        if node is None:
            node = Node(ops.BUFFER, (), arg, spec, next_serial(), False)
            interned.add(key, node)
        return node


def const(value: int, ring: RingSpec, domain: Domain = Domain.COEFF) -> Node:
    """The constant polynomial `value` mod q; allocates nothing."""
    return make(ops.CONST, (), ConstArg(value % ring.q, ring, domain))


def placeholder(
    spec: Spec, device: Any = None, made: Any = None, how: str = "", label: str = ""
) -> Node:
    """A new input of a captured program; see `PlaceholderArg`."""
    serial, batch = next_serial(), spec.batch
    arg = PlaceholderArg(serial, spec.ring, spec.domain, batch, device, made, how, label)
    return make(ops.PLACEHOLDER, (), arg)


def toposort(*roots: Node, until: Op | None = None) -> list[Node]:
    """Every node under `roots`, once, sources first (depth-first, iterative).

    Args:
        roots: where to begin.
        until: an op whose sources are left out; None for all.
    """
    if len(roots) == 1 and roots[0].op is ops.SINK and until is None:
        (sink,) = roots  # every pass begins with the order that the one before has verified
        below = _orders.get(sink)
        if below is None:
            below = _orders[sink] = _sorted(sink.src, None)
        return [*below, sink]
    return _sorted(roots, until)


# Of each SINK that lives, what is under it in order. It holds only what the SINK holds.
_orders: weakref.WeakKeyDictionary[Node, list[Node]] = weakref.WeakKeyDictionary()


def _sorted(roots: Sequence[Node], until: Op | None) -> list[Node]:
    order: list[Node] = []
    seen: set[Node] = set()
    stack: list[Node | None] = list(reversed(roots))  # below a None stands a node that is expanded
    while stack:
        node = stack.pop()
        if node is None:
            order.append(stack.pop())  # type: ignore[arg-type]
        elif node not in seen:
            seen.add(node)
            if node.src and node.op is not until:
                stack += (node, None)
                stack += [s for s in reversed(node.src) if s not in seen]
            else:
                order.append(node)
    return order


@attrs.frozen(eq=False)
class Structure:
    """A program up to its leaves.

    Attributes:
        roots: its results: those that were asked for, and then those that are kept.
        key: equal for programs that differ in nothing but their leaves.
        leaves: in the order in which they are met, each once.
        known: the nodes of it that a leaf stands for.
        constants: its CONSTs, each by the place of its label in the key.
    """

    roots: tuple[Node, ...]
    key: tuple[Any, ...]
    leaves: tuple[Node, ...]
    known: Mapping[Node, Node]
    constants: Mapping[int, Node]


_DIGITS = (ops.MODUP, ops.DIVIDE)
_PRODUCTS = (ops.MUL, ops.DOT, ops.MAC)
_SAME = (ops.TO_RING, ops.NTT, ops.INTT, ops.PART, ops.VIEW)


def _is_small(factor: Node) -> bool:
    """True when a factor is known to have small coefficients."""
    while factor.op in _SAME:
        factor = factor.src[0]
    return factor.op is ops.BOUNDED or factor.op.kind is Kind.CONSTANT


def _enlarged(node: Node) -> Sequence[Node]:
    """The operands of a node in which a difference by one is a large difference of its value."""
    if node.op in _DIGITS:
        return node.src
    if node.op in _PRODUCTS:
        first, *others = node.src
        sides = [] if all([_is_small(s) for s in others]) else [first]
        return sides if _is_small(first) else [*sides, *others]
    return ()


def structure_of(
    roots: Sequence[Node], known: Mapping[Node, Node], keeps_rounded: bool = False
) -> Structure:
    """The structure of a program.

    Args:
        roots: of the program.
        known: what stands for a node, if anything does; only looked up.
        keeps_rounded: whether results of ModDowns that are cut into digits, or multiplied by large
            polynomials, are roots too. How a ModDown rounds depends on what else a program
            computes. One half of a ciphertext may be computed by another program than the other
            half. Both programs have to cut and to multiply the same values.
    """
    rounded: set[Node] = set()
    kept: dict[Node, None] = {}
    position: dict[Node, int] = {}
    key: list[Any] = []
    leaves: list[Node] = []
    found: dict[Node, Node] = {}
    constants: dict[int, Node] = {}
    opened: set[Node] = set()  # nothing stands for them, and their sources come first
    stack = list(reversed(roots))
    count = 0
    while stack:
        node = stack[-1]
        if node in position:
            stack.pop()
            continue
        src = node.src
        if not src:
            if node.op.kind is Kind.LEAF:
                leaves.append(node)
            elif node.op is ops.CONST:
                constants[len(key)] = node
        elif node not in opened and (stands := known.get(node)) is not None:
            if stands not in position:
                stack.append(stands)
                continue
            position[node], found[node] = position[stands], stands
            stack.pop()
            continue
        else:
            pending = [s for s in src if s not in position]
            if pending:
                opened.add(node)
                stack.extend(reversed(pending))
                continue
        stack.pop()
        if keeps_rounded and rounded:
            kept |= dict.fromkeys([s for s in _enlarged(node) if s in rounded])
            if any([s in rounded and s not in kept for s in src]):
                rounded.add(node)
        if keeps_rounded and node.op is ops.MODDOWN:
            rounded.add(node)
        key.append(node.label if src or node.op.kind is not Kind.LEAF else b"")
        if node.op is ops.COPY:  # shardings over other devices may print alike
            key.append(node.arg)
        key.extend([position[s] for s in src])
        position[node] = count
        count += 1
    if kept:
        asked = set(roots)
        roots = (*roots, *[node for node in kept if node not in asked])
    key.append(None)
    key.extend([position[root] for root in roots])
    return Structure(tuple(roots), tuple(key), tuple(leaves), found, constants)


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pauses Python's cyclic garbage collector; the last thread to leave turns it on again.

    Planning makes up to millions of nodes and tuples that live until it ends. The collector would
    go through all of them again and again, which took a third of the time.
    """
    global _pauses, _was_on
    with _lock:
        if not _pauses:
            _was_on = gc.isenabled()
            gc.disable()
        _pauses += 1
    try:
        yield
    finally:
        with _lock:
            _pauses -= 1
            if not _pauses and _was_on:
                gc.enable()
