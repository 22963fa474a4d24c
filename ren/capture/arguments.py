"""A call of a jitted function: its arguments taken apart, keyed, and replaced by stand-ins."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Iterator, Sequence
from operator import itemgetter
from types import FunctionType
from typing import Any

import attrs
import jax
import numpy as np

from ren.capture.fixed_keys import content_key, fixed_key, held_by
from ren.capture.pytrees import Structure, collect, rebuilder
from ren.core import op as ops
from ren.core.errors import JitError
from ren.lowering.devices.donation import check_not_donated
from ren.poly import Poly
from ren.poly.checks import check_limbs
from ren.poly.key_ids import KeyId, SymbolicKeyId
from ren.poly.poly import realize_polys
from ren.poly.symbolic import Aside, Length, SymbolicLength, key_of, symbol_of


@attrs.frozen(eq=False)
class Call:
    """The arguments of one call.

    Attributes:
        given: what is taken apart: `(args, kwargs)`, or without the static arguments.
        static: the values of the static arguments, by name.
        named: the arguments that are passed by their names.
        key: the structure of `given` and the key of every static value.
        polys: the polynomials in it.
        values: the other leaves.
    """

    given: Any
    static: dict[str, Any]
    named: frozenset[str]
    key: Hashable
    polys: list[Poly]
    values: list[Any]

    def structure(self, polys: list[Poly]) -> Structure:
        """The arguments as a `Structure`, which can be rebuilt with other polynomials in it."""
        return Structure(polys, self.key, self.values, rebuilder(self.given))


_VAR_POSITIONAL, _VAR_KEYWORD = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class Signature:
    """Parameters of one function, and the split of its calls into leaves.

    Args:
        function: the function.
        name: what it is called in errors.
        static, donated: names of its parameters.

    Raises:
        JitError: a name that the function does not have.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        name: str,
        static: tuple[str, ...] = (),
        donated: tuple[str, ...] = (),
    ) -> None:
        self._function, self._name = function, name
        self._static, self._donated = frozenset(static), frozenset(donated)
        try:
            self._signature = inspect.signature(function)
        except (TypeError, ValueError):  # some built-in functions have none
            if static or donated:
                raise
            self._signature = inspect.Signature()
        self._parameters = self._signature.parameters
        for option, names in (("static_argnames", static), ("donate_argnames", donated)):
            if unknown := [n for n in names if n not in self._parameters]:
                raise JitError(
                    f"ren.jit got {option}={names!r} for {name}{self._signature}.",
                    "Each is the name of a parameter of the function. A wrapper has those of the "
                    "function in it where it is made with functools.wraps.",
                    f"Leave out {', '.join(map(repr, unknown))}.",
                )

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        """One call, its polynomials as they come.

        Raises:
            JitError: it holds no polynomial, or a static argument that cannot be one.
        """
        given, static = (args, kwargs), {}
        if self._static:
            given = self._signature.bind_partial(*args, **kwargs).arguments
            static = {name: given.pop(name) for name in tuple(given) if name in self._static}
        fixed = tuple([(name, _static_key(name, value)) for name, value in static.items()])
        polys: list[Poly] = []
        values: list[Any] = []
        try:
            key = (collect(given, polys, values), fixed)
        except RecursionError:
            raise JitError(
                f"An argument of {self._name} under ren.jit holds itself, or is nested too deeply.",
                "Arguments are taken apart down to their polynomials and numbers.",
                "Pass a container without itself in it.",
            ) from None
        if not polys:
            raise JitError(
                f"The function {self._name} under ren.jit was called without a polynomial.",
                "The polynomials among the arguments are what a plan is replayed with.",
                "Pass a Poly, or something that holds one; drop ren.jit for setup code.",
            )
        return Call(given, static, frozenset(kwargs), key, polys, values)

    def bound(self) -> tuple[Hashable, ...]:
        """The keys of what the function is bound to, each by all that it holds now."""
        f = self._function
        if isinstance(f, FunctionType) and not (
            f.__closure__ or f.__defaults__ or f.__kwdefaults__ or f.__dict__
        ):
            return ()  # as a rule
        return tuple(map(content_key, held_by(f)))

    def function(self, call: Call) -> Callable[[Any], Any]:
        """The function of what is taken apart, with the static arguments of a call."""
        if not self._static:
            return lambda given: self._function(*given[0], **given[1])

        def invoke(given: dict[str, Any]) -> Any:
            merged = {**given, **call.static}
            named = {name: merged[name] for name in call.named if name in merged}
            ordered = {n: merged[n] for n in self._parameters if n in merged and n not in named}
            bound = inspect.BoundArguments(self._signature, ordered)  # type: ignore[arg-type]
            return self._function(*bound.args, **bound.kwargs, **named)

        return invoke

    def names(self, call: Call) -> tuple[list[str], list[str]]:
        """For each polynomial and each other leaf of a call the argument that holds it."""
        polys: list[Poly] = []
        values: list[Any] = []
        poly_names: list[str] = []
        value_names: list[str] = []
        for name, value in self._named(call):
            collect(value, polys, values)
            poly_names += [name] * (len(polys) - len(poly_names))
            value_names += [name] * (len(values) - len(value_names))
        return poly_names, value_names

    def donated(self, call: Call) -> tuple[int, ...]:
        """The positions of the polynomials whose buffers the call gives away."""
        if not self._donated:
            return ()
        names = self.names(call)[0]
        names = [n if n in self._parameters else self._rest(_VAR_KEYWORD, n) for n in names]
        return tuple(i for i, name in enumerate(names) if name in self._donated)

    def _named(self, call: Call) -> Iterator[tuple[str, Any]]:
        """The arguments with their names, in the order in which they are taken apart."""
        if self._static:
            yield from call.given.items()
            return
        args, kwargs = call.given
        names = [p.name for p in self._parameters.values() if p.kind in _POSITIONAL]
        for i, value in enumerate(args):
            yield (
                names[i] if i < len(names) else self._rest(_VAR_POSITIONAL, f"argument {i}"),
                value,
            )
        yield from kwargs.items()

    def _rest(self, kind: Any, otherwise: str) -> str:
        """The name of the parameter `*rest` or `**rest`, if there is one."""
        return next((p.name for p in self._parameters.values() if p.kind is kind), otherwise)


def poly_key(p: Poly) -> Hashable:
    """The type of a polynomial as a plan's key has it; of a constant also its value."""
    node = p._node
    if node is None:
        array = p._leaf
    elif p.is_constant:
        return (p.ring, p.domain, node.arg.value)
    else:
        array = node.arg.array
    if isinstance(array, np.ndarray):
        check_not_donated(array, what="an argument")
        return (p._type, array.shape, array.dtype, np.ndarray)
    if not isinstance(array, jax.Array):
        check_limbs(array, p.ring)  # raises: JAX put something else in place of the limbs
    if array.is_deleted():
        check_not_donated(array, what="an argument")
    return (p._type, array.shape, array.dtype, array.sharding, array.committed)


def value_keys(
    values: Sequence[Any], needed: frozenset[type] = frozenset()
) -> tuple[Hashable, ...]:
    """The keys of the leaves that are no polynomials: the type of what is symbolic, or the value.

    Of the ids of keys it matters which are equal. Leaves of the classes in `needed` count by value:
    `Length`, the length of what was encrypted, or `KeyId`.
    """
    ids: dict[str, int] = {}
    keys: list[Hashable] = []
    for value in values:  # at each replay
        kind = type(value)
        if kind is Aside or value is None:
            key = kind
        elif kind is Length:
            key = value if value.count is None or Length in needed else Length
        elif kind is KeyId:
            named = KeyId in needed
            key = KeyId(value.value) if named else (KeyId, ids.setdefault(value.value, len(ids)))
        elif (key := key_of(value)) is None:
            key = fixed_key(value)
        keys.append(key)
    return tuple(keys)


def stand_ins(values: Sequence[Any], names: Sequence[str], needed: frozenset[type]) -> list[Any]:
    """Stand-ins that the captured function gets for the leaves that are not polynomials.

    `names` has the argument that each is in; `needed` has the classes of those that are known.
    """
    made = with_key_symbols(values, names, KeyId in needed)
    for i, (value, name) in enumerate(zip(values, names, strict=True)):
        read = itemgetter(i)
        if isinstance(value, Aside):
            made[i] = value.symbol(name, read)
        elif key_of(value) is not None:
            made[i] = symbol_of(value, name, read)
        elif isinstance(value, Length) and value.count is not None and Length not in needed:
            count = lambda values, read=read: read(values).count  # noqa: E731
            made[i] = Length(SymbolicLength(value.count, count, name))  # type: ignore[arg-type]
    return made


def with_key_symbols(
    values: Sequence[Any], names: Sequence[str], is_named: bool = True
) -> list[Any]:
    """The leaves with stand-ins for ids of keys, one for each id: see `KeyId.symbol`."""
    symbols: dict[str, SymbolicKeyId] = {}
    made = list(values)
    for i, (value, name) in enumerate(zip(values, names, strict=True)):
        if isinstance(value, KeyId):
            if value.value not in symbols:
                symbols[value.value] = value.symbol(is_named, name, itemgetter(i))
            made[i] = KeyId(symbols[value.value].stand_in)
    return made


def realized(polys: list[Poly]) -> list[Poly]:
    """The polynomials, those that are lazy realized as one program."""
    if any(p._node is not None and p._node.op is not ops.BUFFER for p in polys):
        return realize_polys(polys)
    return polys


def _static_key(name: str, value: Any) -> Hashable:
    """The key of the value of a static argument, which holds no polynomial and is hashable."""
    polys: list[Poly] = []
    collect(value, polys, [])
    if polys:
        raise JitError(
            f"The static argument {name!r} holds a polynomial.",
            "Static arguments are part of the key by value; polynomials are inputs.",
            f"Leave {name!r} out of static_argnames.",
        )
    return fixed_key(value)
