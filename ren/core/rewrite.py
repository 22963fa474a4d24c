"""The rewrite drivers, all iterative.

`rewrite` applies a table of rules to a fixpoint, from the leaves up. Its rules see a node whose
sources are done. `rewrite_down` works from the root. Its rules see a node as it was, and facts that
a whole-graph analysis found about it. `rebuild` is one sweep from the leaves up. Its rule sees a
node as it was, and what became of the nodes below it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import attrs

from ren.core import op as ops
from ren.core.errors import VerificationError
from ren.core.node import Node, const, make, toposort
from ren.core.ring import Domain

Rule = Callable[[Node], Node | None]
Table = Mapping[str, Sequence[Rule]]
EdgeRule = Callable[[Node, Node], Node]
EdgeTable = Mapping[str, EdgeRule]
_C = TypeVar("_C")
ContextRule = Callable[[Node, _C], Node | None]
ContextTable = Mapping[str, Sequence[ContextRule[_C]]]
SweepRule = Callable[[Node, Mapping[Node, Node]], Node | None]


def rewrite(
    root: Node,
    table: Table,
    known: Mapping[Node, Node] | None = None,
    edges: EdgeTable | None = None,
) -> Node:
    """`root` with every rule of `table` applied until none fires.

    Args:
        root: any node.
        table: op name -> rules; a rule returns the replacement of a node, or None.
        known: nodes whose replacement is already decided; only looked up, never copied.
        edges: op name -> rule `(reader, source)`: what a reader takes for a source that is done.

    A replacement has the ring and batch of what it replaces. Where its domain differs, the driver
    converts, so that no rule can change the type of a program.
    """
    if not (table or known or edges):
        return root
    done: dict[Node, Node] = {}
    known = known or None  # so that few nodes ask for the length of a map
    if known is None:
        for node in toposort(root):  # most stay as they are
            if node not in done:
                rules = table.get(node.op.name)
                is_same = all([done[s] is s for s in node.src])
                if not is_same or edges or (rules and _first(rules, node) is not None):
                    _rewrite(node, table, known, edges, done)
                else:
                    done[node] = node
    else:
        _rewrite(root, table, known, edges, done)
    return done[root]


def _rewrite(
    root: Node,
    table: Table,
    known: Mapping[Node, Node] | None,
    edges: EdgeTable | None,
    done: dict[Node, Node],
) -> None:
    """Adds what becomes of `root`, and of all below it, to `done`."""
    stack = [root]
    while stack:
        node = stack[-1]
        if node in done:
            stack.pop()
            continue
        if known is not None and (decided := known.get(node)) is not None:
            done[node] = decided
            continue
        pending = [s for s in node.src if s not in done]
        if pending:
            pending.reverse()
            stack += pending
            continue
        src = tuple([done[s] for s in node.src])
        if edges and (edge := edges.get(node.op.name)) is not None:
            src = tuple([edge(node, s) for s in src])
        new = node if src == node.src else make(node.op, src, node.arg)
        target = new if new is node else _in_its_domain(new, node)
        if target is new:
            rules = table.get(new.op.name)
            target = _first(rules, new) if rules else None
            if target is None:
                done[node] = done[new] = new
                stack.pop()
                continue
        # What replaces the node is rewritten in its turn, before the node counts as done.
        if target in done:
            done[node] = done[target]
            stack.pop()
        else:
            stack.append(target)


def rewrite_down(root: Node, table: ContextTable[_C], context: _C) -> Node:
    """`root` with every rule of `table` applied before the sources of a node are visited.

    Args:
        root: any node.
        table: op name -> rules `(node, context)`; each returns the replacement of a node, or None.
        context: what the rules read: a frozen value, found in the graph of `root`.

    A replacement is offered to the rules in its turn, then its sources are. So its sources may be
    nodes of the graph as it was. It has the type of what it replaces.
    """
    done: dict[Node, Node] = {}
    chosen: dict[Node, Node] = {}  # what stands for a node until its sources are done
    stack = [root]
    while stack:
        node = stack[-1]
        if node in done:
            stack.pop()
            continue
        target = chosen.get(node)
        if target is None:
            rules = table.get(node.op.name, ())
            target = chosen[node] = _first(rules, node, context) or node
        if target is not node:
            if target in done:
                done[node] = done[target]
            else:
                stack.append(target)
            continue
        pending = [s for s in node.src if s not in done]
        if pending:
            stack.extend(reversed(pending))
        else:
            done[node] = with_sources(node, tuple([done[s] for s in node.src]))
            stack.pop()
    return done[root]


def rebuild(order: Iterable[Node], rule: SweepRule) -> dict[Node, Node]:
    """Every node of a topological order, replaced or rebuilt on its rebuilt sources, once.

    Args:
        order: nodes, sources first.
        rule: `(node, new)`: the replacement of a node, or None; `new` holds those before it.
    """
    new: dict[Node, Node] = {}
    for node in order:
        replaced = rule(node, new)
        if replaced is None:
            replaced = with_sources(node, tuple([new[s] for s in node.src]))
        new[node] = replaced
    return new


def readers(order: Iterable[Node]) -> dict[Node, list[Node]]:
    """The readers of each node of a graph that has any, one for each time that they read it."""
    found: dict[Node, list[Node]] = {}
    for node in order:
        for s in node.src:
            found.setdefault(s, []).append(node)
    return found


def _first(rules: Sequence[Callable[..., Node | None]], node: Node, *context: Any) -> Node | None:
    """The replacement by the first rule that has one."""
    for rule in rules:
        replaced = rule(node, *context)
        if replaced is not None and replaced is not node:
            return conform(replaced, node)
    return None


def with_sources(node: Node, src: tuple[Node, ...]) -> Node:
    """The node with other sources; itself where they are the same."""
    return node if src == node.src else make(node.op, src, node.arg)


def _in_its_domain(new: Node, old: Node) -> Node:
    """`new`, a factor of which became a constant, as it was: in the domain of `old`.

    Its sources are transformed, not the product: others may read them transformed too.
    """
    if new is old or conform(new, old) is new:
        return new
    return conform(make(new.op, [to_domain(s, old.spec.domain) for s in new.src], new.arg), old)


def conform(new: Node, old: Node) -> Node:
    """`new` in the domain of `old`; both have one ring and batch shape."""
    if new.spec is old.spec or new.spec == old.spec:
        return new
    if new.spec.ring != old.spec.ring or new.spec.batch != old.spec.batch:
        raise VerificationError(
            f"A rewrite of {old!r} changed its type from {old.spec} to {new.spec}."
        )
    return to_domain(new, old.spec.domain)


def to_domain(node: Node, domain: Domain) -> Node:
    """`node` in `domain`: itself, a constant read in that domain, or a transform."""
    if node.spec.domain is domain:
        return node
    if node.op is ops.SCALAR:
        return make(ops.SCALAR, (), attrs.evolve(node.arg, domain=domain))
    if node.op is ops.CONST:
        return const(node.arg.value, node.arg.ring, domain)
    return make(ops.NTT if domain is Domain.NTT else ops.INTT, (node,))
