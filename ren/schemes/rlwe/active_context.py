"""Context of an operation, active (`with ctx:`) or alive.

Without an active context an operation takes the one that made its data. Data keep that one alive
(`Kept`). Live contexts are held here weakly, by identity: a context without other references is
gone. A server context made from its owner may live beside it under the same `key_id`. That id is a
hash of keys. A context that was read is compared with those that live before it joins them.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol, TypeVar

from ren.core.attributes import Unchanging
from ren.core.errors import ContextError
from ren.core.node import placeholder
from ren.core.ring import RingSpec, intersection
from ren.core.spec import KEY
from ren.lowering.devices.devices import claim_of
from ren.poly import Poly
from ren.poly.key_ids import KeyInput, SymbolicKeyId, symbol_of_key
from ren.poly.poly import from_node
from ren.poly.realization import is_capturing
from ren.poly.symbolic import UnfitPlaces
from ren.schemes.rlwe.keychain import OWNER, Keychain, MissingKey
from ren.schemes.rlwe.keys import SwitchingKey
from ren.schemes.rlwe.keyswitch import Gadget, cut, gadget_of, reaches
from ren.schemes.rlwe.ownership import require_one_owner
from ren.schemes.rlwe.parameters import RlweParameters

P = TypeVar("P", bound=RlweParameters, covariant=True)


class RlweContext(Protocol[P]):
    """Keys of one owner under one set of parameters `P`, with the operations that need them."""

    _keys: Keychain

    @property
    def params(self) -> P:
        """The parameters of the keys."""
        ...

    @property
    def key_id(self) -> str:
        """Public name of the keys: 32 hexadecimal digits."""
        ...

    def relinearization_key(self) -> SwitchingKey:
        """The key from s^2 to s, or MissingKeyError."""
        ...

    def galois_key(self, galois: int, what: str, ring: RingSpec) -> SwitchingKey:
        """The key of X -> X^galois over a ring for the call `what`, or MissingKeyError."""
        ...

    def labelled_key(self, label: str, what: str) -> SwitchingKey:
        """A key over a gadget of the scheme's own for the call `what`, or MissingKeyError."""
        ...

    def decrypt(self, x: Any, dtype: Any = None) -> Any:
        """The message of a ciphertext of the scheme, or MissingKeyError."""
        ...


AnyContext = RlweContext[Any]  # of any scheme: `key_id` tells them apart

# Each context with whether a function that is captured entered it.
_active: ContextVar[tuple[tuple[AnyContext, bool], ...]] = ContextVar("ren_active", default=())
# Declared pieces of state: live contexts by `key_id`, each with its number in the order of their
# making. All is weak: those of one `key_id` live as long as one of them.
_Serials = weakref.WeakKeyDictionary[AnyContext, int]
_live: weakref.WeakKeyDictionary[AnyContext, _Serials] = weakref.WeakKeyDictionary()
_by_id: weakref.WeakValueDictionary[str, _Serials] = weakref.WeakValueDictionary()
# Of ids the latest context with the secret, which none surpasses, once it was looked for.
_owners: weakref.WeakValueDictionary[str, AnyContext] = weakref.WeakValueDictionary()
_recent: weakref.WeakValueDictionary[str, AnyContext] = weakref.WeakValueDictionary()
_serials = itertools.count()
_lock = threading.RLock()  # `register` runs inside `admission` too


def push(context: AnyContext) -> None:
    """Make `context` the active one of this thread or task."""
    _active.set((*_active.get(), (context, is_capturing())))


def pop(context: AnyContext) -> None:
    """End the latest activation of `context`.

    Raises:
        ContextError: it is not active in this thread or task.
    """
    stack = list(_active.get())
    found = [i for i, (active, _) in enumerate(stack) if active is context]
    if not found:
        raise ContextError(
            f"The context {context.key_id[:8]} was left, and is not active in this thread or task.",
            "A context is left once for each time that it is entered, where it was entered.",
            "Write `with ctx:` around the computation.",
        )
    del stack[found[-1]]
    _active.set(tuple(stack))


def active_context(kind: type[P]) -> RlweContext[P] | None:
    """The context of the innermost `with` block of this thread or task, if of these parameters."""
    stack = _active.get()
    return stack[-1][0] if stack and isinstance(stack[-1][0].params, kind) else None


def register(context: AnyContext) -> None:
    """Let ciphertexts with the `key_id` of `context` find it while it lives."""
    with _lock:
        others = _by_id.setdefault(context.key_id, weakref.WeakKeyDictionary())
        others[context] = next(_serials)
        _live[context] = others
        _owners.pop(context.key_id, None)


@contextmanager
def admission(keys: Keychain, what: str) -> Iterator[Keychain]:
    """Compare keys that were read with those alive; no context is made meanwhile elsewhere.

    Returns:
        The keys. Those that a live context of the owner holds too are its objects, so that they are
        in memory once.

    Raises:
        ContextError: a live context has the same `key_id` and a key of one name that differs.
    """
    with _lock:
        for context in list(_by_id.get(keys.key_id, ())):
            require_one_owner(context._keys, keys, context.params, what)
            keys = keys.sharing(context._keys)
        yield keys


def live_context(key_id: str) -> AnyContext | None:
    """The live context of a `key_id`: the most capable one, among those the latest; or None."""
    if (owner := _owners.get(key_id)) is not None:  # as a rule: each result of JAX asks
        return owner
    with _lock:
        contexts = _by_id.get(key_id)
        if contexts is None:
            return None
        if len(references := contexts.keyrefs()) == 1:
            return references[0]()
        found = [(c._keys.rank, serial, c) for c, serial in contexts.items()]
        if not found:
            return None
        rank, _, best = max(found, key=lambda entry: entry[:2])
        if rank == OWNER:
            _owners[key_id] = best
        return best


def passed_over(context: AnyContext) -> list[AnyContext]:
    """The other live contexts of a `key_id`, where none is entered and `context` is taken."""
    if _active.get():
        return []
    with _lock:
        return [c for c in _by_id.get(context.key_id, ()) if c is not context]


def context_for(key_id: str, what: str) -> AnyContext:
    """The context to do `what` with, for data under `key_id`.

    For an argument of a function that is captured, its keys are inputs of the plan. But a context
    that the function itself enters is closed over, with its keys.

    Raises:
        ContextError: when the active context is another one, or none is active or alive.
    """
    stack, symbol = _active.get(), symbol_of_key(key_id)
    if symbol is not None and not (stack and stack[-1][1]):
        return _Captured(symbol, what)
    if stack:
        active, _ = stack[-1]
        if active.key_id == key_id:
            return active
        raise ContextError(
            f"{what} got data of the context {key_id[:8]} while {active.key_id[:8]} is active.",
            "Data and active context must belong together: their keys differ.",
            "Leave the `with` block, or enter the context that made the data.",
        )
    if context := live_context(key_id):
        return context
    raise ContextError(
        f"{what} needs a context with the keys {key_id[:8]}, and none is active or alive.",
        "The context that made the data, or one loaded from its bytes, holds the keys.",
        "Keep it in a variable, or write `with ctx:` around the computation.",
    )


class Kept(Unchanging):
    """A reference that keeps a context alive, and never leaves the process.

    A copy is the same object, and its bytes hold nothing.
    """

    __slots__ = ("context",)

    def __init__(self, context: AnyContext | None) -> None:
        self.context = context

    def __reduce__(self) -> Any:
        return Kept, (None,)


def kept_context(key_id: str) -> Kept | None:
    """The live context of a `key_id`, kept alive; None at a capture, whose plan keeps none."""
    context = None if is_capturing() else live_context(key_id)
    return None if context is None else Kept(context)


def keychain_for(key_id: str) -> Keychain:
    """The keys that `context_for` finds now; it is the same object until a key is added."""
    context = _recent[key_id] = context_for(key_id, "A replay")
    return context._keys


def recent_keychain(key_id: str) -> Keychain:
    """Keys as of `keychain_for`; where that was asked before, maybe not all that are there now."""
    context = None if _active.get() else _recent.get(key_id)
    return keychain_for(key_id) if context is None else context._keys


class _Captured:
    """The context of an id that a captured function takes: its keys are inputs of the plan."""

    def __init__(self, symbol: SymbolicKeyId, what: str) -> None:
        self._context, self._symbol = context_for(symbol.captured, what), symbol
        self.params, self._keys = self._context.params, self._context._keys
        self.key_id: Any = symbol.stand_in
        self._what = what

    def relinearization_key(self) -> SwitchingKey:
        """The key from s^2 to s, or MissingKeyError."""
        what = self._what
        return self._as_input(
            "relinearization",
            self._context.relinearization_key(),
            lambda key_id: context_for(key_id, what).relinearization_key(),
            lambda keys: keys.relinearization,
        )

    def galois_key(self, galois: int, what: str, ring: RingSpec) -> SwitchingKey:
        """The key of X -> X^galois over a ring for the call `what`, or MissingKeyError."""
        key, gadget = self._context.galois_key(galois, what, ring), gadget_of(self.params)
        name, own = f"galois {galois}", key.ring
        if own != gadget.ring:
            name += f" of {own.limbs} limbs"
        return self._as_input(
            name,
            key,
            lambda key_id: context_for(key_id, what).galois_key(galois, what, ring),
            lambda keys: _part(keys.galois[galois], gadget, own),
        )

    def labelled_key(self, label: str, what: str) -> SwitchingKey:
        """A key over a gadget of the scheme's own for the call `what`, or MissingKeyError."""
        return self._as_input(
            f"labelled {label}",
            self._context.labelled_key(label, what),
            lambda key_id: context_for(key_id, what).labelled_key(label, what),
            lambda keys: keys.labelled[label],
        )

    def decrypt(self, x: Any, dtype: Any = None) -> Any:
        """TracedValueError: a ciphertext has no value while a function is captured."""
        known = object.__new__(type(x))
        vars(known).update(vars(x), key_id=self._symbol.captured)
        return self._context.decrypt(known, dtype)

    def _as_input(
        self,
        label: str,
        key: SwitchingKey,
        require: Callable[[str], SwitchingKey],
        find: Callable[[Keychain], Any],
    ) -> SwitchingKey:
        """A key like `key` that is an input of the plan, the same for each use of a `label`."""
        if isinstance(key, MissingKey):  # told at the end of the capture
            return key
        made = self._symbol.keys

        def half(name: str, j: int, p: Poly) -> Poly:
            given = KeyInput(
                self._symbol, recent_keychain, keychain_for, require,
                lambda keys: getattr(find(keys), name)[j],
            )  # fmt: skip
            spec, claim = p.node.spec, claim_of(p.limbs)
            return from_node(placeholder(spec, claim, given, KEY, f"{label} {name}{j}"))

        if label not in made:
            b, a = (
                tuple([half(name, j, p) for j, p in enumerate(getattr(key, name))]) for name in "ba"
            )
            made[label] = SwitchingKey(b, a, b"")
        return made[label]


def _part(key: SwitchingKey, gadget: Gadget, ring: RingSpec) -> SwitchingKey:
    """The part of a key over a ring that a plan takes.

    Raises:
        UnfitPlaces: the key has fewer limbs; for keys like it there is another plan.
    """
    moduli = intersection(gadget.union, ring.moduli)
    if not reaches(key, moduli):
        raise UnfitPlaces(key.ring)
    return cut(key, gadget, moduli)


def same_key(a: str, b: str, what: str) -> None:
    """Raise ContextError when two operands are under different keys."""
    if a != b:
        raise ContextError(
            f"{what} got ciphertexts of two contexts: {a[:8]} and {b[:8]}.",
            "Operands must be encrypted under one key, also where parameters are equal.",
            "Encrypt both with the same context.",
        )


def own_key(context: str, data: str, what: str) -> None:
    """Raise ContextError when a call of a context got a ciphertext under another key."""
    if context != data:
        raise ContextError(
            f"{what} of the context {context[:8]} got a ciphertext of {data[:8]}: two contexts.",
            "A ciphertext is under the key that encrypted it, also where parameters are equal.",
            f"Call {what} of the context that encrypted it; x.decrypt() finds that one.",
        )


def one_owner(context: str, other: str, what: str) -> None:
    """Raise ContextError when a context got keys of another owner."""
    if context != other:
        raise ContextError(
            f"{what} of the context {context[:8]} got keys of {other[:8]}: two contexts.",
            "Keys that compute together are made from one secret key.",
            "Pass a context of the same owner, such as ctx.server() after ctx.rotation_keys(...).",
        )
