"""A call of a jitted function: its arguments taken apart, keyed, and replaced by stand-ins."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Hashable, Iterator, Sequence
from operator import itemgetter
from typing import Any

import attrs
import jax
import numpy as np

from ren.capture.pytrees import Structure, collect, rebuilder
from ren.core import op as ops
from ren.core.errors import JitError
from ren.lowering.devices.donation import check_not_donated
from ren.poly import Poly, realize_polys
from ren.poly.checks import check_limbs
from ren.poly.symbolic import Aside, Length, SymbolicLength, key_of, symbol_of


@attrs.frozen(eq=False)
class Call:
    """The arguments of one call.

    Attributes:
        given: what is taken apart: `(args, kwargs)`, or without the static arguments.
        static: the values of the static arguments, by name.
        key: the structure of `given` and the key of every static value.
        polys: the polynomials in it.
        values: the other leaves.
    """

    given: Any
    static: dict[str, Any]
    key: Hashable
    polys: list[Poly]
    values: list[Any]

    def structure(self, polys: list[Poly]) -> Structure:
        """The arguments as a `Structure`, which can be rebuilt with other polynomials in it."""
        return Structure(polys, self.key, self.values, rebuilder(self.given))


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
        self._signature = _signature(function, required=bool(static or donated))
        _check_names(self._signature, name, "static_argnames", static)
        _check_names(self._signature, name, "donate_argnames", donated)

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        """One call, its polynomials as they come.

        Raises:
            JitError: it holds no polynomial, or a static argument that cannot be one.
        """
        polys: list[Poly] = []
        values: list[Any] = []
        if self._static:
            given, static = self._divided(args, kwargs)
            fixed = tuple((name, static_key(name, v)) for name, v in static.items())
        else:
            given, static, fixed = (args, kwargs), {}, ()
        key = (collect(given, polys, values), fixed)
        if not polys:
            raise JitError(
                f"The function {self._name} under ren.jit was called without a polynomial.",
                "The polynomials among the arguments are what a plan is replayed with.",
                "Pass a Poly, or something that holds one; drop ren.jit for setup code.",
            )
        return Call(given, static, key, polys, values)

    def function(self, call: Call) -> Callable[[Any], Any]:
        """The function of what is taken apart, with the static arguments of a call."""
        if not self._static:
            return lambda given: self._function(*given[0], **given[1])
        assert self._signature is not None
        names = list(self._signature.parameters)

        def invoke(given: dict[str, Any]) -> Any:
            merged = {**given, **call.static}
            ordered = {name: merged[name] for name in names if name in merged}
            bound = inspect.BoundArguments(self._signature, ordered)  # type: ignore[arg-type]
            return self._function(*bound.args, **bound.kwargs)

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
        names = [self._parameter(name) for name in self.names(call)[0]]
        return tuple(i for i, name in enumerate(names) if name in self._donated)

    def _parameter(self, name: str) -> str:
        """The parameter that takes the argument `name`: itself, or `more` of a `**more`."""
        parameters = {} if self._signature is None else self._signature.parameters
        if name in parameters:
            return name
        rest = (p.name for p in parameters.values() if p.kind is inspect.Parameter.VAR_KEYWORD)
        return next(rest, name)

    def _named(self, call: Call) -> Iterator[tuple[str, Any]]:
        """The arguments with their names, in the order in which they are taken apart."""
        if self._static:
            yield from call.given.items()
            return
        args, kwargs = call.given
        yield from zip(self._positional(len(args)), args, strict=True)
        yield from kwargs.items()

    def _positional(self, count: int) -> list[str]:
        kinds = inspect.Parameter
        names: list[str] = []
        parameters = [] if self._signature is None else list(self._signature.parameters.values())
        for p in parameters:
            if p.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD):
                names.append(p.name)
            elif p.kind is kinds.VAR_POSITIONAL:
                names += [p.name] * (count - len(names))
        names += [f"argument {i}" for i in range(len(names), count)]
        return names[:count]

    def _divided(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """The arguments by name: those that are inputs, and the static ones."""
        assert self._signature is not None
        given = self._signature.bind(*args, **kwargs).arguments
        static = {name: given.pop(name) for name in tuple(given) if name in self._static}
        return given, static


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
        check_not_donated(array, "an argument")
        return (p._type, array.shape, array.dtype, np.ndarray)
    if not isinstance(array, jax.Array):
        check_limbs(array, p.ring)  # raises: JAX put something else in place of the limbs
    if array.is_deleted():
        check_not_donated(array, "an argument")
    return (p._type, array.shape, array.dtype, array.sharding, array.committed)


def value_keys(values: Sequence[Any], by_length: bool = False) -> tuple[Hashable, ...]:
    """The keys of the leaves that are no polynomials: the type of what is symbolic, or the value.

    Args:
        values: the leaves.
        by_length: whether the lengths of what was encrypted count.
    """
    return tuple(_value_key(v, by_length) for v in values)


def _value_key(value: Any, by_length: bool) -> Hashable:
    if isinstance(value, Length):
        return value if by_length or value.count is None else Length
    if isinstance(value, Aside):
        return Aside
    key = key_of(value)
    return _fixed_key(value) if key is None else key


def stand_ins(values: Sequence[Any], names: Sequence[str], by_length: bool = False) -> list[Any]:
    """Stand-ins that the captured function gets for the leaves that are not polynomials.

    Args:
        values: the leaves.
        names: the argument that each is in.
        by_length: whether the lengths of what was encrypted are known.
    """
    return [
        _stand_in(i, value, name, by_length)
        for i, (value, name) in enumerate(zip(values, names, strict=True))
    ]


def _stand_in(position: int, value: Any, name: str, by_length: bool) -> Any:
    if isinstance(value, Length):
        if by_length or value.count is None:
            return value
        read = itemgetter(position)
        return Length(SymbolicLength(value.count, lambda values: read(values).count, name))  # type: ignore[arg-type]
    if isinstance(value, Aside):
        return value.symbol(name, itemgetter(position))
    if key_of(value) is None:
        return value
    return symbol_of(value, name, itemgetter(position))


def realized(polys: list[Poly]) -> list[Poly]:
    """The polynomials, those that are lazy realized as one program."""
    if any(p._node is not None and p._node.op is not ops.BUFFER for p in polys):
        return realize_polys(polys)
    return polys


def static_key(name: str, value: Any) -> Hashable:
    """The key of the value of a static argument.

    Raises:
        JitError: it holds a polynomial, or is not hashable.
    """
    polys: list[Poly] = []
    collect(value, polys, [])
    if polys:
        raise JitError(
            f"The static argument {name!r} holds a polynomial.",
            "Static arguments are part of the key by value; polynomials are inputs.",
            f"Leave {name!r} out of static_argnames.",
        )
    return _fixed_key(value)


def _fixed_key(value: Any) -> Hashable:
    """Key of a fixed value: different for any two values that need programs of their own."""
    if isinstance(value, np.ndarray | jax.Array):
        array = np.ascontiguousarray(value)
        return (array.shape, str(array.dtype), hashlib.sha256(array.tobytes()).digest())
    if isinstance(value, float | complex):
        return (type(value), repr(value))  # 0.0 is not -0.0, and NaN is NaN
    if isinstance(value, tuple | frozenset):
        parts = map(_fixed_key, value)
        return (type(value), frozenset(parts) if isinstance(value, frozenset) else tuple(parts))
    try:
        hash(value)
    except TypeError:
        raise JitError(
            f"A function under ren.jit got an argument of type {type(value).__name__}.",
            "Arguments that hold no polynomial are part of a plan's key and must be hashable.",
            "Pass a tuple or a frozen dataclass, or close over the value.",
        ) from None
    return (type(value), value)


def _signature(function: Callable[..., Any], required: bool) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):  # some built-in functions have none
        if required:
            raise
        return None


def _check_names(
    signature: inspect.Signature | None, name: str, option: str, names: tuple[str, ...]
) -> None:
    parameters = {} if signature is None else signature.parameters
    unknown = [n for n in names if n not in parameters]
    if unknown:
        raise JitError(
            f"ren.jit got {option}={names!r} for {name}{signature}.",
            "Each is the name of a parameter of the function.",
            f"Leave out {', '.join(map(repr, unknown))}.",
        )
