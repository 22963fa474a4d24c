"""Numbers and arrays among the arguments of a captured function: known at each call, not before.

`+ - *` between them, with numbers, polynomials and ciphertexts make a program, and `/ // %` between
them and numbers. The host carries out the part between numbers and arrays anew at each call, as
Python and NumPy would. Comparisons, `&` and `|` give symbols too, as conditions of JAX. Every other
use of the value raises, and names `static_argnames`.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, NoReturn, Self

import attrs
import jax
import numpy as np

from ren.core import op as ops
from ren.core.errors import CoefficientTypeError, TracedValueError
from ren.core.node import Node, make, next_serial, placeholder
from ren.core.ring import Domain, RingSpec
from ren.core.spec import ScalarArg, Spec
from ren.core.user_frame import user_line
from ren.lowering.devices.devices import is_spread, is_tracer
from ren.lowering.devices.trace_inputs import trace_inputs
from ren.lowering.runtime.host_arrays import placed
from ren.poly import realization

Values = Sequence[Any]

_NUMBERS = (bool, int, float, complex)
_NUMERIC = "biufc"


class _ForJaxError(TracedValueError, TypeError):
    """A TypeError too: by it the loops of JAX tell bounds that are not Python's integers."""


def key_of(value: Any) -> Hashable | None:
    """The type of a number or a host array, as it stands in a plan's key; None for anything else.

    Two values with one key can stand for each other in a captured program.
    """
    kind = type(value)
    if kind in _NUMBERS:
        return kind
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise CoefficientTypeError(
            f"A captured function got a masked array with {np.ma.count_masked(value)} masked "
            "entries.",
            "A program works on every entry; what stands under the mask would be among them.",
            "Fill them first: values.filled(0.0).",
        )
    if not isinstance(value, np.ndarray | np.generic | jax.Array) or is_tracer(value):
        return None
    return (kind, value.shape, value.dtype) if value.dtype.kind in _NUMERIC else None


def symbol_of(value: Any, name: str, read: Callable[[Values], Any]) -> Symbolic:
    """Symbol of a value with a `key_of`, while a function is captured.

    Args:
        value: the value of this call, of which only the type is looked at.
        name: the argument of the function that it is, or is a part of.
        read: gives the value of a call.
    """
    if type(value) in _NUMBERS:
        return Symbolic(type(value)(), read, name)
    if value.ndim == 0:
        return Symbolic(value.dtype.type(0), lambda values: np.asarray(read(values))[()], name)
    sample = np.broadcast_to(np.zeros((), value.dtype), value.shape)
    return Symbolic(sample, lambda values: np.asarray(read(values)), name)


def sampled(value: np.ndarray | jax.Array, name: str) -> Symbolic:
    """Symbol of an array in what is planned and never run: bounds are those of this array."""
    symbol = symbol_of(value, name, _never)
    symbol.sample, symbol.is_sampled = np.asarray(value)[()], True
    return symbol


def as_symbol(value: Any) -> Symbolic | None:
    """A symbolic value itself, or a list that holds some as a symbolic array; else None.

    Only a function that is being captured sees symbolic values, so that lists cost nothing outside.
    """
    if isinstance(value, Symbolic):
        return value
    if not (realization.is_capturing() and isinstance(value, list | tuple)):
        return None
    parts = [v if (symbol := as_symbol(v)) is None else symbol for v in value]
    found = next((p for p in parts if isinstance(p, Symbolic)), None)
    if found is None:
        return None
    sample = np.array([_sample(p) for p in parts])
    made = Symbolic(sample, _never, found.name)
    return made._becomes(lambda *values: np.array(values), tuple(parts))


def _never(values: Values) -> NoReturn:
    """The reader of a step of a computation, which is never read as it is."""
    raise AssertionError(values)


_Method = Callable[[Any, Any], Any]


def _operator(operation: Callable[[Any, Any], Any]) -> tuple[_Method, _Method]:
    """The methods of an operator: for a symbol on the left, and for one on the right."""
    return lambda x, other: _computed(operation, x, other), lambda x, other: _computed(
        operation, other, x
    )


class Symbolic:
    """A number or an array that is known at each call of a captured function.

    Attributes:
        sample: a value of its type: zero.
        name: the argument that it comes from.
        is_sampled: whether the sample stands for the values, as in a plan: see `sampled`.
    """

    __slots__ = (
        "_encoded", "_given", "_run", "_serial", "arguments", "function", "is_sampled", "name",
        "sample",
    )  # fmt: skip

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """A `TracedSymbol` where JAX traces the capture."""
        is_traced = cls is Symbolic and trace_inputs.get() is not None
        return object.__new__(TracedSymbol if is_traced else cls)  # type: ignore[return-value]

    def __init__(self, sample: Any, read: Callable[[Values], Any], name: str) -> None:
        self.sample, self._given, self.name = sample, read, name
        self._serial = next_serial()
        self._encoded: dict[Hashable, Node] = {}
        self.is_sampled = False
        # Of a step of a longer computation: function(*arguments), some of which are symbolic.
        self.function: Callable[..., Any] | None = None
        self.arguments: tuple[Any, ...] = ()
        self._run: Callable[[Values], list[Any]] | None = None

    def _becomes(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Self:
        """The same as a step: where several symbols read one, it is computed once."""
        self.function, self.arguments = function, arguments
        self.is_sampled = any(isinstance(a, Symbolic) and a.is_sampled for a in arguments)
        return self

    def _read(self, values: Values) -> Any:
        if self.function is None:
            return self._given(values)
        if self._run is None:
            self._run = evaluator([self])
        return self._run(values)[0]

    def value(self, values: Values) -> Any:
        """The value of a call, from the values of its arguments that are no polynomials."""
        return self._read(values)

    @property
    def is_array(self) -> bool:
        """False for a number."""
        return isinstance(self.sample, np.ndarray)

    # ---------------------------------------------------------------- as a part of a program

    def scalar(self, ring: RingSpec, domain: Domain) -> Node:
        """The constant polynomial of an integer.

        Raises:
            CoefficientTypeError: it is no integer.
        """
        if self.is_array or not hasattr(self.sample, "__index__"):
            raise CoefficientTypeError(
                f"{user_line()} combines a polynomial with the argument {self.name!r}, "
                f"a {type(self.sample).__name__}.",
                "A polynomial combines with polynomials of its ring and with integers.",
                "Make a Poly of coefficients: Poly(coefficients, ring).",
            )
        arg = ScalarArg(self._serial, ring, domain, lambda v: operator.index(self._read(v)))
        return make(ops.SCALAR, (), arg)

    def encoded(
        self, key: Hashable, spec: Spec, limbs: Callable[[Any], np.ndarray], device: Any = None
    ) -> Node:
        """An input of the program that is made of the value at each call.

        Args:
            key: equal keys give the same input.
            spec: its type.
            limbs: from the value to the limb array `uint32[*batch, limb, n]`.
            device: where it goes, as for a Poly.
        """
        if key not in self._encoded:

            def made(values: Values) -> Any:
                return placed(limbs(self._read(values)), device)

            claim = device if device == "python" else None
            self._encoded[key] = placeholder(spec, claim, made, "ENCODE")
        return self._encoded[key]

    def map(
        self, function: Callable[[Any], Any], of_ones: Callable[[Any], Any] | None = None
    ) -> Symbolic:
        """function(value), computed on the host at each call.

        The result has the type of function(sample). Samples are zeros; for a function that does
        not take them, `of_ones` takes ones.
        """
        sample = self.sample
        made = function(sample) if of_ones is None else of_ones(sample + 1)
        return Symbolic(made, _never, self.name)._becomes(function, (self,))

    # ---------------------------------------------------------------- arithmetic on the host

    __add__, __radd__ = _operator(operator.add)
    __sub__, __rsub__ = _operator(operator.sub)
    __mul__, __rmul__ = _operator(operator.mul)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *args: Any, **kwargs: Any) -> Any:
        operation = _UFUNCS.get(ufunc)
        if operation is None or method != "__call__" or kwargs:
            self._refuse()
        return _computed(operation, *args)

    def _of_encrypted(self, other: Any, *_: Any) -> Any:
        """An operator of a ciphertext or a plaintext, which compute it or raise their own error."""
        return NotImplemented if hasattr(other, "__ren_parts__") else self._refuse()

    __pow__ = _of_encrypted

    __matmul__, __rmatmul__ = _operator(operator.matmul)
    __truediv__, __rtruediv__ = _operator(operator.truediv)
    __floordiv__, __rfloordiv__ = _operator(operator.floordiv)
    __mod__, __rmod__ = _operator(operator.mod)
    __eq__, __ne__ = _operator(operator.eq)[0], _operator(operator.ne)[0]
    __lt__, __gt__ = _operator(operator.lt)[0], _operator(operator.gt)[0]
    __le__, __ge__ = _operator(operator.le)[0], _operator(operator.ge)[0]
    __and__, __rand__ = _operator(operator.and_)
    __or__, __ror__ = _operator(operator.or_)

    def __neg__(self) -> Symbolic:
        return self.map(operator.neg)

    def __pos__(self) -> Symbolic:
        return self

    # ---------------------------------------------------------------- arrays: what types tell

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array; () for a number."""
        return np.shape(self.sample)

    @property
    def ndim(self) -> int:
        """The number of its axes."""
        return np.ndim(self.sample)

    @property
    def dtype(self) -> np.dtype:
        """The NumPy type of its elements."""
        realization.check_loop()
        return np.asarray(self.sample).dtype

    @property
    def T(self) -> Symbolic:
        """The array with its axes in reverse order."""
        return self.map(np.transpose)

    def __len__(self) -> int:
        return len(self.sample)

    def __getitem__(self, index: Any) -> Symbolic:
        if isinstance(index, Symbolic):
            index._refuse()
        if any(map(is_tracer, index if isinstance(index, tuple) else (index,))):
            realization.check_loop()
            return traced(self)[index]
        return self.map(operator.itemgetter(index))

    def __iter__(self) -> Iterator[Symbolic]:
        return (self[i] for i in range(len(self)))

    # ---------------------------------------------------------------- what is refused

    def _refuse(self) -> NoReturn:
        realization.check_loop()
        asking = sys._getframe(2).f_globals.get("__name__", "")
        raise (_ForJaxError if asking.startswith("jax.") else TracedValueError)(
            f"{user_line()} needs the value of the argument {self.name!r} while the function is "
            "captured.",
            "Under ren.jit numbers and arrays are symbolic: + - * and comparisons use them alone.",
            f"Write @ren.jit(static_argnames={self.name!r}): each value then has its own plan. "
            "Pass a tuple in place of a list.",
        )

    def _refused(self, *_: Any, **__: Any) -> NoReturn:
        self._refuse()

    __index__ = __int__ = __float__ = __complex__ = __bool__ = __array__ = _refused
    __rpow__ = _refused
    __divmod__ = __rdivmod__ = _refused
    __abs__ = __round__ = __trunc__ = __floor__ = __ceil__ = __setitem__ = __delitem__ = _refused
    __hash__ = __contains__ = _refused  # type: ignore[assignment]
    __xor__ = __lshift__ = __rshift__ = __invert__ = _refused
    __rxor__ = __rlshift__ = __rrshift__ = _refused

    def __getattr__(self, name: str) -> NoReturn:  # what its value would have
        if not name.startswith("_") and hasattr(self.sample, name):
            self._refuse()
        if name in ("__jax_array__", "aval"):
            realization.check_loop(is_array=True)
        raise AttributeError(name, name=name, obj=self)

    def __format__(self, spec: str) -> str:
        return self._refuse() if spec else repr(self)

    def __repr__(self) -> str:
        what = f"{self.dtype}{list(self.shape)}" if self.is_array else type(self.sample).__name__
        return f"<{what} from the argument {self.name!r}>"


_UFUNCS = {
    np.add: operator.add, np.subtract: operator.sub, np.multiply: operator.mul,
    np.equal: operator.eq, np.not_equal: operator.ne, np.less: operator.lt,
    np.less_equal: operator.le, np.greater: operator.gt, np.greater_equal: operator.ge,
    np.bitwise_and: operator.and_, np.bitwise_or: operator.or_,
    np.divide: operator.truediv, np.floor_divide: operator.floordiv, np.remainder: operator.mod,
    np.matmul: operator.matmul,
}  # fmt: skip


class TracedSymbol(Symbolic):
    """A symbol in a capture that JAX traces: where JAX takes it, it is an array of JAX.

    Numbers of Python are weakly typed there, as without `ren.jit`.
    """

    __slots__ = ()

    def __jax_array__(self) -> Any:
        return traced(self)

    @property
    def aval(self) -> Any:
        """The type that JAX gives to its value."""
        return self.__jax_array__().aval

    @property
    def dtype(self) -> np.dtype:
        """The type of its elements; that of JAX for a number."""
        return super().dtype if self.is_array else self.aval.dtype

    def _reflected(self, other: Any, *_: Any) -> Any:
        return NotImplemented if is_tracer(other) else self._of_encrypted(other)

    __pow__ = __rpow__ = __lshift__ = __rshift__ = _reflected


class LeafSymbol(TracedSymbol):
    """A symbol as `jax.tree.map` and the like have it for a leaf: still a symbol, and exact."""

    __slots__ = ("whole",)

    def __init__(self, whole: TracedSymbol) -> None:
        super().__init__(whole.sample, whole.value, whole.name)
        self.whole = whole


def traced(value: Any) -> Any:
    """The tracer of a symbol in a capture that JAX traces; anything else as it is."""
    inputs = trace_inputs.get()
    if inputs is None or not isinstance(value, Symbolic):
        return value
    sample = np.asarray(value.sample)
    dtype = jax.dtypes.canonicalize_dtype(sample.dtype)
    return inputs.tracer(value, sample.shape, dtype, type(value.sample) in _NUMBERS)


def _parts(symbol: TracedSymbol) -> tuple[tuple[Any, ...], None]:
    if trace_inputs.get() is None:
        raise realization.symbolic_value()
    return (LeafSymbol(symbol) if realization.is_tree_walk() else traced(symbol),), None


def _whole(_: None, parts: Any) -> Any:
    (part,) = parts
    return part.whole if isinstance(part, LeafSymbol) else part


jax.tree_util.register_pytree_node(TracedSymbol, _parts, _whole)


class Derived(Symbolic):
    """function(*arguments), computed on the host at each call: a step of a longer computation."""

    __slots__ = ()

    def __init__(self, function: Callable[..., Any], arguments: tuple[Any, ...], name: str) -> None:
        with realization.with_capture(is_sampling=True):
            sample = function(*map(_sample, arguments))
        super().__init__(sample, _never, name)
        self._becomes(function, arguments)


def is_sampling() -> bool:
    """True while a step is computed with samples at capture: what it tells belongs to replays."""
    return realization.capture_state().is_sampling


def derived(function: Callable[..., Any], *arguments: Any) -> Any:
    """function(*arguments): now, or where some argument is symbolic at each call.

    The samples are computed with too: for an `Aside` they are the values of the call that is
    captured.
    """
    if trace_inputs.get() is not None and any(map(is_tracer, arguments)):
        arguments = tuple(map(traced, arguments))
    for a in arguments:
        if isinstance(a, Symbolic):
            return Derived(function, arguments, a.name)
    return function(*arguments)


def evaluator(symbols: Sequence[Symbolic]) -> Callable[[Values], list[Any]]:
    """The function from the values of a call to those of the symbols, its steps put in order."""
    places: dict[int, int] = {}  # of symbols among the registers
    registers: list[Any] = []
    reads: list[tuple[int, Callable[[Values], Any]]] = []
    steps: list[tuple[int, Callable[..., Any], tuple[int, ...]]] = []

    def register(value: Any = None) -> int:
        registers.append(value)
        return len(registers) - 1

    stack = list(symbols)
    while stack:
        symbol = stack[-1]
        if id(symbol) in places:
            stack.pop()
        elif symbol.function is None:
            places[id(symbol)] = at = register()
            is_own = type(symbol).value is not Symbolic.value
            reads.append((at, symbol.value if is_own else symbol._given))
        elif todo := [
            a for a in symbol.arguments if isinstance(a, Symbolic) and id(a) not in places
        ]:
            stack += todo
        else:
            arguments = tuple(
                places[id(a)] if isinstance(a, Symbolic) else register(a) for a in symbol.arguments
            )
            places[id(symbol)] = at = register()
            steps.append((at, symbol.function, arguments))
    results = [places[id(symbol)] for symbol in symbols]

    def run(values: Values) -> list[Any]:
        known = registers.copy()
        for at, read in reads:
            known[at] = read(values)
        for at, function, arguments in steps:
            known[at] = function(*[known[i] for i in arguments])
        return [known[i] for i in results]

    return run


class SymbolicLength(Symbolic):
    """The length of what was encrypted, known at each call; a program does not depend on it."""

    __slots__ = ("_equal",)

    def __init__(
        self,
        sample: Any,
        value: Callable[[Values], Any],
        name: str,
        equal: Iterable[int | SymbolicLength] = (),
    ) -> None:
        super().__init__(sample, value, name)
        self._equal = frozenset(equal)

    @property
    def equal(self) -> frozenset[int | SymbolicLength]:
        """The lengths, of the call and known ones, that it is compared with; at least one."""
        return self._equal or frozenset({self})

    def _refuse(self) -> NoReturn:
        raise LengthNeeded if realization.is_capturing() else realization.symbolic_value()

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = Symbolic._refused

    # As static data of a pytree it is compared, and is itself alone.
    __eq__ = object.__eq__  # type: ignore[assignment]
    __ne__ = object.__ne__  # type: ignore[assignment]
    __hash__ = object.__hash__  # type: ignore[assignment]


@attrs.frozen
class Length:
    """Number of encrypted values, at its position among the leaves of a structure.

    Args:
        count: None for a scalar, which fills all slots.
    """

    count: int | None


@attrs.frozen(eq=False)
class Aside:
    """An array that goes beside a program and never into it, among the leaves of a structure.

    Plans are not keyed by it, not even by its type. What becomes of it is computed by the host at
    each call.

    Args:
        value: an array of the host or of a device, a tracer, or while capturing a symbol.
    """

    value: Any

    def symbol(self, name: str, read: Callable[[Values], Aside]) -> Aside:
        """Symbol of the value while a function is captured; its sample is the value itself.

        The sample of a float array that is divided over processes is NaN.
        """
        sample = _readable(self.value)
        if is_spread(sample):
            sample = np.full(sample.shape, np.nan, sample.dtype)

        def known(values: Values) -> Any:  # at each replay
            value = read(values).value
            return value if type(value) is np.ndarray else _readable(value)

        return Aside(Symbolic(sample, known, name))


def _readable(value: Any) -> Any:
    """The array on the host, where this process can read it; else as it is."""
    if type(value) is np.ndarray or is_spread(value):
        return value
    return np.asarray(value)


class Unfit(Exception):
    """The values of a call that a captured program cannot be replayed with; never seen outside."""


class UnfitPlaces(Unfit):
    """Keys on another device, or with fewer limbs, than a captured program has; or another mode.

    Attributes:
        places: of the keys of one id, in order, or the ring of a key; or a mode of JAX.
    """

    def __init__(self, places: Hashable) -> None:
        super().__init__(places)
        self.places = places


class UnfitLength(Unfit):
    """The lengths of a call that differ where the captured program takes one length."""


class Needed(realization.Restart):
    """A function that is captured needs what its plans are not keyed by.

    Attributes:
        leaf: the class of leaves whose values the plans of such a call have in their keys.
    """

    leaf: type


class LengthNeeded(Needed):
    """A function that is captured needs lengths."""

    leaf = Length


def common_length(a: int | None, b: int | None) -> int | None:
    """The one length of two vectors; None where both are scalars.

    Two lengths that differ only by the call are assumed to be equal, as in the captured call. The
    plan checks that at each call.

    Raises:
        LengthNeeded: they differ in the call that is captured.
    """
    if a is None or b is None or a is b:
        return b if a is None else a
    symbols = [x for x in (a, b) if isinstance(x, SymbolicLength)]
    if not symbols:
        return max(a, b)
    if _sample(a) != _sample(b):
        raise LengthNeeded
    equal = frozenset[Any]().union(*(s.equal for s in symbols), {a, b}.difference(symbols))
    for symbol in symbols:  # a sum of many terms has one length
        if symbol.equal == equal:
            return symbol  # type: ignore[return-value]

    def same(values: Values) -> int:
        lengths = {_value(length, values) for length in equal}
        if len(lengths) > 1:
            raise UnfitLength
        return lengths.pop()

    return SymbolicLength(_sample(a), same, symbols[0].name, equal)  # type: ignore[return-value]


def _sample(value: Any) -> Any:
    return value.sample if isinstance(value, Symbolic) else value


def _value(value: Any, values: Values) -> Any:
    return value.value(values) if isinstance(value, Symbolic) else value


_DIVISIONS = (operator.truediv, operator.floordiv, operator.mod, operator.matmul)


def _computed(operation: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
    """The result of an operator; the second sample of a division or a matrix product is 1."""
    if operation not in _DIVISIONS:
        return _combined(operation, a, b)
    if is_tracer(a) or is_tracer(b):
        return NotImplemented
    for value in (a, b):
        if not isinstance(value, Symbolic) and key_of(value) is None:
            symbol = a if isinstance(a, Symbolic) else b
            return symbol._of_encrypted(value)
    return _combined(operation, a, b, _ones(_sample(b)))


def _ones(sample: Any) -> Any:
    """1 in the type of a sample."""
    return type(sample)(1) if type(sample) in _NUMBERS else np.ones_like(sample)


def _combined(operation: Callable[[Any, Any], Any], a: Any, b: Any, of_b: Any = None) -> Any:
    """An operation between two values, one of which is symbolic, at each call.

    The type of the result is that of samples, of which `of_b` replaces the second. Its own sample
    is zero again, and what overflows with samples may not with the values of a call.
    """
    symbol, other = (a, b) if isinstance(a, Symbolic) else (b, a)
    if not isinstance(other, Symbolic) and key_of(other) is None:
        return NotImplemented  # a polynomial or a ciphertext computes it
    made = Symbolic(None, _never, symbol.name)._becomes(operation, (a, b))
    with np.errstate(all="ignore"):
        sample = operation(_sample(a), _sample(b) if of_b is None or made.is_sampled else of_b)
    if made.is_sampled:
        pass
    elif isinstance(sample, np.ndarray):
        sample = np.broadcast_to(np.zeros((), sample.dtype), sample.shape)
    elif type(sample) in _NUMBERS or isinstance(sample, np.generic):
        sample = type(sample)(0)
    made.sample = sample
    return made
