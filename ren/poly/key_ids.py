"""Names of keys among the arguments of a captured function, and the inputs of plans that are keys.

Values under keys, such as ciphertexts, name these by an id. One plan serves all ids. Each call
reads the keys from the keychain that the id names then, and the plan holds none. A function that
needs the id itself has a plan for each. So have those that mix an argument with what they close
over.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import Context, ContextVar
from typing import Any, NamedTuple, NoReturn, Protocol

import attrs

from ren.core.context_values import Changed, ContextValue
from ren.core.errors import RenError
from ren.core.spec import PlaceholderArg
from ren.lowering.devices.devices import PYTHON, is_host
from ren.lowering.devices.trace_inputs import trace_inputs
from ren.lowering.plan.plan import Plan
from ren.poly.realization import is_capturing, symbolic_value
from ren.poly.symbolic import Needed, Symbolic, Unfit, UnfitPlaces, Values


class KeyId(NamedTuple):
    """The id of the keys that a value is under, at its position among the leaves of a structure.

    Attributes:
        value: a str. While capturing it is a `SymbolicKeyId`, or a `NamedKeyId` where ids are part
            of the key of the plan.
        held: of a keychain itself the keychain, for what is not in the program: None at a capture.
    """

    value: Any
    held: Any = None

    def symbol(self, is_named: bool, name: str, read: Callable[[Values], KeyId]) -> SymbolicKeyId:
        """The symbol of this id, for all leaves of the call that hold it."""
        return SymbolicKeyId(self.value, is_named, name, lambda values: read(values).value)

    @property
    def known(self) -> Any:
        """The symbol while capturing, else the id."""
        symbol = symbol_of_key(self.value)
        return self.value if symbol is None else symbol


class KeyIdNeeded(Needed):
    """A function that is captured needs the id of keys. Never seen outside."""

    leaf = KeyId


class SymbolicKeyId(Symbolic):
    """The id of keys, known at each call.

    Args:
        key_id: of the call that is captured; it serves to find keys like those of later calls.
        is_named: whether the plan is for this id alone.
        name: the argument that the id comes from.
        read: the id of a call.

    Attributes:
        keys: what was made of the keys of this id in the program, by label.
    """

    __slots__ = ("_known", "is_named", "keys")

    def __init__(
        self, key_id: str, is_named: bool, name: str, read: Callable[[Values], str]
    ) -> None:
        super().__init__("", read, name)
        self._known, self.is_named = key_id, is_named
        self.keys: dict[Any, Any] = {}

    @property
    def captured(self) -> str:
        """The id of the call that is captured."""
        return self._known

    @property
    def stand_in(self) -> SymbolicKeyId | NamedKeyId:
        """Stand-in for the id in the captured function."""
        return NamedKeyId(self) if self.is_named else self

    def _refuse(self) -> NoReturn:
        raise KeyIdNeeded if is_capturing() else symbolic_value()

    __add__ = __radd__ = __mul__ = __rmul__ = __len__ = __iter__ = __getitem__ = Symbolic._refused
    __str__ = __format__ = Symbolic._refused

    def __hash__(self) -> int:
        """The hash of the symbol in captures that JAX traces, whose types hold it."""
        return self._refuse() if trace_inputs.get() is None else id(self)

    def __eq__(self, other: object) -> bool:
        """Compare ids: two symbols differ in all calls or in none; a str needs the id."""
        if isinstance(other, SymbolicKeyId):
            return self is other
        return self._refuse() if isinstance(other, str) else NotImplemented

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __repr__(self) -> str:  # of a str it has the value, which a program may go by
        return self._refuse() if is_capturing() else f"<key_id of the argument {self.name!r}>"


class NamedKeyId(str):
    """An id in the capture of a plan for this id alone: its keys are inputs all the same."""

    symbol: SymbolicKeyId

    def __new__(cls, symbol: SymbolicKeyId) -> NamedKeyId:
        """The id of the call that is captured, with its symbol."""
        made = super().__new__(cls, symbol.captured)
        made.symbol = symbol
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return str, (str(self),)


def symbol_of_key(key_id: Any) -> SymbolicKeyId | None:
    """The symbol behind an id; None outside of captures."""
    return key_id if isinstance(key_id, SymbolicKeyId) else getattr(key_id, "symbol", None)


# ------------------------------------------------------------------- keys that are missing


class Holder(Protocol):
    """A holder of keys, which tells those that it lacks."""

    def missing(self, keys: dict[Any, str]) -> RenError:
        """The error for keys that are missing, each with the first call that needs it."""
        ...


@attrs.frozen(slots=False)
class Call:
    """The call of the user that runs.

    Attributes:
        name: of what was called, in errors; None outside of calls that are named.
        missing: the keys that it lacks so far, by their holder; None where the first one raises.
    """

    name: str | None = None
    missing: dict[Holder, dict[Any, str]] | None = None


_call = ContextVar("ren_call", default=Call())  # noqa: B039 - it is frozen


@contextmanager
def called(name: str | None = None) -> Iterator[None]:
    """Let a program go on without the keys that it lacks; one error at the end tells them all.

    Args:
        name: of what the user called, in errors. Calls inside of it keep its name.
    """
    call = _call.get()
    missing = {} if call.missing is None else call.missing
    try:
        with Changed(_call, name=call.name or name, missing=missing):
            yield
    except RenError:
        if call.missing is not None or not missing:
            raise
    if call.missing is None:
        for holder, keys in missing.items():
            raise holder.missing(keys)


def run_later(context: Context, function: Callable[[], Any]) -> Any:
    """Run what was recorded in a context, named as there; keys that it lacks are of this call."""
    call = _call.get()

    def run() -> Any:
        name = _call.get().name
        with ContextValue(_call, call), called(name):
            return function()

    return context.copy().run(run)


def call_name(otherwise: str) -> str:
    """The name of the call that runs."""
    return _call.get().name or otherwise


def note_missing(holder: Holder, key: Any, what: str) -> None:
    """Note that the call `what` needs a key; outside of `called` raise its error."""
    missing = _call.get().missing
    if missing is None:
        raise holder.missing({key: what})
    missing.setdefault(holder, {}).setdefault(key, what)


# ------------------------------------------------------------------- inputs that are keys


@attrs.frozen(eq=False)
class KeyInput:
    """A polynomial of a key, as what makes an input of a plan: see `PlaceholderArg`.

    Attributes:
        symbol: the id of the keys.
        recent: from an id to a keychain of its owner: that of `chain`, or one that was it before.
        chain: from an id to the keychain that is used for it now. It is immutable.
        require: makes sure, for an id, that this keychain has the key.
        read: from the keychain to the polynomial.
    """

    symbol: SymbolicKeyId
    recent: Callable[[str], Any]
    chain: Callable[[str], Any]
    require: Callable[[str], Any]
    read: Callable[[Any], Any]

    @property
    def sample(self) -> Any:
        """The limb array for the call that is captured."""
        return self.read(self.chain(self.symbol.captured)).limbs


def key_input_of(arg: Any) -> KeyInput | None:
    """The key that an input of a program is, or None."""
    made = arg.made if isinstance(arg, PlaceholderArg) else None
    return made if isinstance(made, KeyInput) else None


class Keys:
    """The inputs of a plan that are keys under one id: their arrays, by keychain.

    Arrays are kept as long as their keychain lives, so that nothing keeps those of others alive.

    Args:
        inputs: of one id, in order.
        moved: from an array of a key to where the plan runs.
    """

    def __init__(self, inputs: Sequence[KeyInput], moved: Callable[[Any], Any]) -> None:
        self._inputs, self._moved = tuple(inputs), moved
        first = inputs[0]
        self._symbol, self._recent, self._chain = first.symbol, first.recent, first.chain
        self._arrays: weakref.WeakKeyDictionary[Any, tuple[Any, ...]] = weakref.WeakKeyDictionary()
        chain, arrays = self._read(self._symbol.captured)
        self._places, self._arrays[chain] = tuple(map(_place, arrays)), arrays

    def __call__(self, values: Values) -> tuple[Any, ...]:
        """The arrays for a call.

        Raises:
            UnfitPlaces: keys on another device, or with fewer limbs.
            Unfit: no context for the id, or a key that it lacks.
        """
        key_id = self._symbol.value(values)
        try:
            arrays = self._arrays.get(self._recent(key_id))
            return self._checked(key_id) if arrays is None else arrays
        except RenError:
            raise Unfit from None  # a capture for this call raises it in the user's line

    def _checked(self, key_id: str) -> tuple[Any, ...]:
        chain, arrays = self._read(key_id)
        if (places := tuple(map(_place, arrays))) != self._places:
            raise UnfitPlaces(places)
        self._arrays[chain] = arrays
        return arrays

    def _read(self, key_id: str) -> tuple[Any, tuple[Any, ...]]:
        with Changed(_call, missing=None):  # a key that is missing raises here
            for require in {given.require: None for given in self._inputs}:
                require(key_id)  # once for the polynomials of one key
        chain = self._chain(key_id)
        return chain, tuple([self._moved(given.read(chain).limbs) for given in self._inputs])

    def __iter__(self) -> Iterator[KeyInput]:
        return iter(self._inputs)

    def __repr__(self) -> str:
        return f"<Keys: {len(self._inputs)} arrays of {len(self._arrays)} keychains>"


def keys_of(plan: Plan, moved: Callable[[Any], Any]) -> tuple[Keys, ...]:
    """The keys that a plan reads, for each id; `moved` as in `Keys`."""
    by_id: dict[int, list[KeyInput]] = {}
    for source in plan.inputs:
        if (key := key_input_of(source.arg)) is not None:
            by_id.setdefault(id(key.symbol), []).append(key)
    return tuple([Keys(inputs, moved) for inputs in by_id.values()])


def _place(array: Any) -> Any:
    return PYTHON if is_host(array) else array.sharding
