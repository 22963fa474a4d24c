"""ren.jit: a function of polynomials is captured once for each argument spec, then replayed."""

from __future__ import annotations

import functools
import inspect
import logging
import numbers
import sys
import threading
import time
import types
import warnings
import weakref
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Concatenate, Generic, NamedTuple, ParamSpec, Self, TypeVar, overload

import attrs
import jax

from ren.capture.arguments import Call, Signature, poly_key, realized, stand_ins, value_keys
from ren.capture.capture import Captured, Options, capture
from ren.capture.fixed_keys import is_object_key
from ren.capture.pytrees import Structure, take_apart
from ren.config import config
from ren.core.attributes import lacking
from ren.core.errors import (
    DeviceError,
    FrozenError,
    JitError,
    RecaptureWarning,
    RenError,
    kind_of,
    shown,
)
from ren.core.node import collector_paused
from ren.core.text_table import counted, duration
from ren.core.user_frame import user_line
from ren.lowering.devices.devices import device_name, is_tracing, resolve_device
from ren.lowering.runtime.tiers.tiers import AUTO, UNITS, check_tier
from ren.poly import Poly
from ren.poly.checks import check_options
from ren.poly.key_ids import KeyId
from ren.poly.realization import capture_state, is_capturing, symbolic_value
from ren.poly.symbolic import (
    Length,
    Needed,
    Symbolic,
    Unfit,
    UnfitLength,
    UnfitPlaces,
    key_of,
    sampled,
)

DEFAULT_MAX_PLANS = 16
P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
T = TypeVar("T")
TOLERATED = 8  # captures that differ in a constant alone: so many are no accident any more
_NOTHING: frozenset[type] = frozenset()
_OPTIONS = frozenset({
    "static_argnames", "donate_argnames", "static_argnums", "donate_argnums", "device", "prune",
    "max_plans", "show_graph", "auto_device", "tier",
})  # fmt: skip
_INSTEAD = {  # of what jitted functions of JAX and functools have
    "lower": "ren.stages(f, x) for the program after each pass, f.plans[0].explain() for what runs",
    "trace": "ren.xpr(f, x) for the program; with ren.trace() as t: f(x) records times",
    "cache_clear": "f.clear()",
}
_log = logging.getLogger("ren")

_jitted: weakref.WeakSet[Jitted] = weakref.WeakSet()


class CacheInfo(NamedTuple):
    """Cache counts of a jitted function: calls replayed and captured, plans kept and evicted."""

    hits: int
    misses: int
    plans: int
    max_plans: int
    evictions: int


class Jitted(Generic[P, R]):
    """A function under `ren.jit`. Call it like the function; see `jit`."""

    def __init__(
        self,
        function: Callable[P, R],
        max_plans: int,
        options: Options,
        static_argnames: tuple[str, ...],
        donate_argnames: tuple[str, ...],
    ) -> None:
        _check_function("ren.jit", function)
        functools.update_wrapper(self, function)
        self._function = function
        self._name = getattr(function, "__qualname__", repr(function))
        self._max_plans = max_plans
        self._options = options
        self._names = (static_argnames, donate_argnames)
        self._signature = Signature(function, self._name, *self._names)
        self._plans: OrderedDict[Hashable, Captured] = OrderedDict()
        self._latest: Captured | None = None  # of them
        # Kinds of calls whose program depends on leaves that keys leave out, and these leaves.
        self._needed: dict[Hashable, frozenset[type]] = {}
        # Keys of what captures changed, each with its place from the end, and those of before.
        self._changed: dict[tuple[int, Hashable], Hashable] = {}
        self._alike: Counter[Hashable] = Counter()  # captures, but for constants or lengths
        self._hits = self._misses = self._evictions = 0
        self._lock = threading.Lock()
        self._turns: dict[Hashable, threading.RLock] = {}  # of threads that capture
        _jitted.add(self)

    def __setattr__(self, name: str, value: object) -> None:
        if name in _OPTIONS:
            raise FrozenError(
                f"{user_line()} sets {name} of a jitted function.",
                "Options are chosen where a function is jitted: plans depend on them.",
                f"Write f = ren.jit(function, {name}=...).",
            )
        object.__setattr__(self, name, value)

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        if is_capturing() or is_tracing() or capture_state().is_inlining:
            return self._function(*args, **kwargs)  # becomes part of the program around it
        call = self._signature.call(args, kwargs)
        polys = realized(call.polys)
        replay = self._timed if config.jit_log_ns else Captured.replay
        if not config.jit:
            return replay(self._capture(call, polys, call.values), polys, call.values)
        places: tuple[Hashable, ...] = ()
        while True:
            captured = self._captured(call, polys, places)
            try:
                return replay(captured, polys, call.values)
            except UnfitLength:
                self._need(call, Length)
            except UnfitPlaces as unfit:  # fits where a plan is captured for this call
                places = (*places, unfit.places)
                with self._lock:
                    self._hits -= 1
            except Unfit:
                return replay(self._capture(call, polys, call.values), polys, call.values)

    def _timed(self, plan: Captured, polys: list[Poly], values: list[Any]) -> Any:
        """The result of a replay, which is logged with its time if that is long."""
        start = time.perf_counter_ns()
        result = plan.replay(polys, values)
        if _log.isEnabledFor(logging.INFO):
            made = take_apart(result).polys
            jax.block_until_ready([p.limbs for p in made if not p.is_constant])
            if (took := time.perf_counter_ns() - start) >= config.jit_log_ns:
                _log.info("%s: a call took %s", self._name, duration(took / 1e9))
        return result

    def _prepare(self, /, *args: Any, **kwargs: Any) -> None:
        """Captures the plan of such a call where there is none; nothing runs."""
        call = self._signature.call(args, kwargs)
        self._captured(call, realized(call.polys))

    def _symbolic_call(
        self, args: tuple[Any, ...]
    ) -> tuple[Structure, list[Any], Callable[[Any], Any]]:
        """A call as it will be captured, for a plan: its arrays are symbols."""
        call = self._signature.call(args, {})
        others = [
            sampled(value, name)
            if getattr(value, "ndim", 0) and key_of(value) is not None
            else value
            for value, name in zip(call.values, self._signature.names(call)[1], strict=True)
        ]
        return call.structure(call.polys), others, self._signature.function(call)

    def _captured(
        self, call: Call, polys: list[Poly], places: tuple[Hashable, ...] = ()
    ) -> Captured:
        """The plan of a call: the one that is there, or a new one.

        `places` are those of keys that other plans of such calls were not captured with.
        """
        types = tuple(map(poly_key, polys))
        key = (call.key, types, self._values(call)[0], places)
        if (plan := self._kept(key)) is not None:
            return plan
        with self._alone((call.key, types, places)):
            values, needed = self._values(call)  # another thread captured meanwhile
            key = (call.key, types, values, places)
            if (plan := self._kept(key)) is not None:
                return plan
            names = self._signature.names(call)[1]
            try:
                plan = self._capture(call, polys, stand_ins(call.values, names, needed))
            except Needed as need:
                if need.leaf in needed:  # what a symbol of another capture stands for
                    raise symbolic_value() from None
                self._need(call, need.leaf)
            else:
                self._note_constants(key, call)
                self._note_bound(key, call)
                if Length in needed:
                    self._note_lengths(key)
                self._keep(key, plan)
                return plan
        return self._captured(call, polys, places)

    def _values(self, call: Call) -> tuple[tuple[Hashable, ...], frozenset[type]]:
        """The keys of leaves and of what the function is bound to; the leaves that need a value.

        What a capture changed of it, by a side effect, counts as it was before.
        """
        values, needed, bound = value_keys(call.values), _NOTHING, self._signature.bound()
        if self._needed and (needed := self._needed.get(_kind(call, values), _NOTHING)):
            values = value_keys(call.values, needed)
        if bound:
            values += bound
        if self._changed:
            places = enumerate(values, -len(values))
            values = tuple([self._changed.get(at, at[1]) for at in places])
        return values, needed

    @contextmanager
    def _noting_changes(self, call: Call) -> Iterator[None]:
        """Notes what changed of keys inside, where a function is captured, or fails to be."""

        def keys() -> list[tuple[int, Hashable]]:
            found = value_keys(call.values) + self._signature.bound()
            return list(enumerate(found, -len(found)))

        before = keys()
        try:
            yield
        finally:
            pairs = [(new, old) for new, old in zip(keys(), before, strict=True) if new != old]
            if pairs:
                with self._lock:
                    was = self._changed
                    self._changed = {**was, **{new: was.get(old, old[1]) for new, old in pairs}}

    def _need(self, call: Call, leaf: type) -> None:
        kind = _kind(call, value_keys(call.values))
        with self._lock:
            self._needed[kind] = self._needed.get(kind, _NOTHING) | {leaf}

    def _kept(self, key: Hashable) -> Captured | None:
        with self._lock:
            plan = self._plans.get(key)
            if plan is not None:
                if plan is not self._latest:  # which stands at the end
                    self._plans.move_to_end(key)
                    self._latest = plan
                self._hits += 1
            return plan

    @contextmanager
    def _alone(self, key: Hashable) -> Iterator[None]:
        """Lets one thread at a time capture for a kind of calls: those that wait find its plan."""
        with self._lock:
            turn = self._turns.setdefault(key, threading.RLock())
        try:
            with turn:
                yield
        finally:
            with self._lock:
                self._turns.pop(key, None)

    def _note_constants(self, key: Any, call: Call) -> None:
        """Counts captures that differ in the values of constants alone."""
        if not any(p.is_constant for p in call.polys):
            return
        structure, types, values, _ = key
        alike = tuple(t[:2] if p.is_constant else t for t, p in zip(types, call.polys, strict=True))
        self._note(
            (structure, alike, values),
            TOLERATED,
            "arguments that differ only in the value of a constant polynomial, which is part of a "
            "plan's key.\nPass the number itself, which is symbolic, or "
            "Poly.const(c, ring).contiguous().realize().",
        )

    def _note_bound(self, key: Any, call: Call) -> None:
        """Counts captures that differ in what the function is bound to alone, until plans go."""
        structure, types, values, _ = key
        given = values[: len(call.values)]
        fixed = tuple([v[:2] if is_object_key(v) else v for v in given])
        if (fixed != given or len(values) > len(given)) and not self._evictions:
            self._note(
                (structure, types, fixed, Signature.bound),
                TOLERATED,
                "changes of what it is bound to: a closure, a default, or attributes of an object, "
                "which are part of a plan's key.\nPass what changes as an argument.",
            )

    def _note_lengths(self, key: Any) -> None:
        """Counts captures that differ in lengths alone, until plans begin to go."""
        structure, types, values, _ = key
        self._note(
            (structure, types, tuple([Length if type(v) is Length else v for v in values])),
            self._max_plans + 1,
            "ciphertexts that differ only in the number of their values, which it depends on: "
            f"sums, means and matrices do. It holds {self._max_plans} plans.\nEncrypt arrays of "
            "one length, filled up with zeros, and pass the count as a number: x.sum() / count. Or "
            "raise max_plans.",
        )

    def _note(self, alike: Hashable, tolerated: int, why: str) -> None:
        """Counts a capture among those alike; warns once where they are as many as `tolerated`."""
        with self._lock:
            self._alike[alike] += 1
            count = self._alike[alike]
        if count == tolerated:
            text = f"{self._name} was captured {count} times for {why}"
            warnings.warn(text, RecaptureWarning, stacklevel=5)

    def _keep(self, key: Hashable, plan: Captured) -> None:
        with self._lock:
            self._misses += 1
            self._plans[key] = self._latest = plan
            self._plans.move_to_end(key)
            while len(self._plans) > self._max_plans:
                _, gone = self._plans.popitem(last=False)
                self._evictions += 1
                _log.info("%s: the plan used longest ago goes, %s", self._name, gone)

    def _capture(self, call: Call, polys: list[Poly], others: list[Any]) -> Captured:
        function, donated = self._signature.function(call), self._signature.donated(call)
        structure = call.structure(polys)
        try:
            with collector_paused(), self._noting_changes(call):
                plan = capture(function, self._name, structure, others, self._options, donated)
        except RenError as error:
            _name_symbols(error, others)
            raise
        count = len(plan.plan.inputs), len(plan.outputs)
        _log.info("%s: captured, %d inputs, %d polynomials out", self._name, *count)
        return plan

    def __reduce__(self) -> tuple[Any, ...]:
        """The function and its options; plans are captured anew where it is unpickled."""
        function, name, options = self._function, self._name, self._options
        if isinstance(function, types.FunctionType) and _named(self.__module__, name) is self:
            # Behind its decorated name the function is found as what that name wraps.
            function.__qualname__ = f"{name}.__wrapped__"
        if isinstance(options.device, jax.sharding.Sharding):
            raise DeviceError(
                f"{name}, a function under ren.jit with a sharding as its device, was pickled.",
                "A sharding names devices of this process, which another one does not have.",
                "Pickle ren.jit(f), and say there where calls run: ren.jit(f, device=sharding).",
            )
        if isinstance(options.device, jax.Device):
            options = attrs.evolve(options, device=device_name(options.device))
        return _unpickled, (function, name, self._max_plans, options, *self._names)

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Self: ...
    @overload
    def __get__(
        self: Jitted[Concatenate[Any, Q], T], instance: object, owner: type | None = None
    ) -> Callable[Q, T]: ...
    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    @property
    def plans(self) -> tuple[Captured, ...]:
        """The captured plans, least recently used first."""
        with self._lock:
            return tuple(self._plans.values())

    def cache_info(self) -> CacheInfo:
        """Hits, misses, plans held, the most that may be held, and how many went."""
        with self._lock:
            return CacheInfo(
                self._hits, self._misses, len(self._plans), self._max_plans, self._evictions
            )

    def clear(self) -> None:
        """Drops every plan of this function, and its counters."""
        with self._lock:
            self._plans.clear()
            self._latest = None
            self._needed.clear()
            self._changed.clear()
            self._alike.clear()
            self._hits = self._misses = self._evictions = 0

    clear_cache = clear  # its name on jitted functions of JAX

    def eval_shape(self, /, *args: Any, **kwargs: Any) -> Any:
        """Returns what a call would, with types instead of arrays; nothing is captured or computed.

        Args:
            args, kwargs: of the function. `ren.spec`, `jax.ShapeDtypeStruct` and what
                `jax.eval_shape` returned stand for values.

        Returns:
            The structure of the result, whose leaves are `jax.ShapeDtypeStruct`.
        """
        function: Callable[..., Any] = self._function
        anew = functools.wraps(function)(lambda *args, **kwargs: function(*args, **kwargs))
        return jax.jit(anew, static_argnames=self._names[0]).eval_shape(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<ren.jit of {self._name}: {counted(self._plans, 'plan')}>"


# Type checkers know the attributes.
setattr(Jitted, "__getattr__", lacking(_INSTEAD))  # noqa: B010


def _kind(call: Call, values: Sequence[Hashable]) -> Hashable:
    """The structure of a call, and which of its ids of keys are equal: of a key's `values`."""
    return call.key, tuple([v for v in values if isinstance(v, tuple) and v[0] is KeyId])


def _named(module: str, name: str) -> Any:
    """The object that a module has under a name, dots included; None if there is none."""
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def _unpickled(
    function: Callable[..., Any], name: str, max_plans: int, options: Options, *names: Any
) -> Jitted:
    """The jitted function that this process has under the name, else a new one."""
    here = _named(getattr(function, "__module__", ""), name)
    if isinstance(here, Jitted) and here._function is function:
        return here
    if isinstance(function, types.FunctionType):
        function.__qualname__ = name
    if isinstance(options.device, str):
        options = attrs.evolve(options, device=resolve_device(options.device))
    return Jitted(function, max_plans, options, *names)


@overload
def jit(
    func: Callable[P, R],
    *,
    static_argnames: str | Iterable[str] = (),
    donate_argnames: str | Iterable[str] = (),
    static_argnums: int | Iterable[int] = (),
    donate_argnums: int | Iterable[int] = (),
    device: Any = None,
    prune: bool = False,
    max_plans: int = DEFAULT_MAX_PLANS,
    show_graph: bool = False,
    auto_device: bool = True,
    tier: str = AUTO,
) -> Jitted[P, R]: ...
@overload
def jit(
    *,
    static_argnames: str | Iterable[str] = (),
    donate_argnames: str | Iterable[str] = (),
    static_argnums: int | Iterable[int] = (),
    donate_argnums: int | Iterable[int] = (),
    device: Any = None,
    prune: bool = False,
    max_plans: int = DEFAULT_MAX_PLANS,
    show_graph: bool = False,
    auto_device: bool = True,
    tier: str = AUTO,
) -> Callable[[Callable[P, R]], Jitted[P, R]]: ...
def jit(
    func: Any = None,
    *further: Any,
    static_argnames: str | Iterable[str] = (),
    donate_argnames: str | Iterable[str] = (),
    static_argnums: int | Iterable[int] = (),
    donate_argnums: int | Iterable[int] = (),
    device: Any = None,
    prune: bool = False,
    max_plans: int = DEFAULT_MAX_PLANS,
    show_graph: bool = False,
    auto_device: bool = True,
    tier: str = AUTO,
    **unknown: Any,
) -> Any:
    """Captures a function's program once for each argument spec, and replays it afterwards.

    Args:
        func: takes and returns polynomials, directly or inside containers, pytrees,
            dataclasses and attrs classes.
        max_plans: how many plans are held; the least recently used goes first.
        show_graph: print the program, as text, whenever a plan is captured.
        tier: how plans run, with the same results on the same devices. "units": compiled kernels
            one by one, which compile fast and are shared by all plans. "graph": the whole plan as
            one executable. If that fails it runs as units, with a warning of the logger "ren".
            "eager": the NumPy reference, for debugging. "auto" begins with units and compiles the
            graph in the background once that is paid for. It times both and keeps the faster
            (`ren.config`, `plans[0].telemetry`).
        device: where calls run: "cpu", "gpu:0", "python", a jax.Device or a sharding. Arguments and
            closed-over polynomials are moved there; without it they must be on one device.
        auto_device: move what is on the CPU to the accelerator when there is exactly one.
        donate_argnames: arguments whose buffers results may take over. Reading them afterwards
            raises `DonatedBufferError`, whether a buffer was taken over or not.
        prune: compute what depends on no argument once, at capture, and hold it in the plan. Random
            draws are never pruned. `plan.explain()` marks what was.
        static_argnames: arguments whose values the function reads: flags, steps of a rotation,
            sizes. Each value has a plan of its own.
        static_argnums, donate_argnums: the same by position, from the end if negative.
        further: refused: options are given by their names.
        unknown: any other option is refused; the error names the nearest.

    The key of a plan has the structure of the arguments. Of each realized polynomial it has the
    ring, domain, batch shape, dtype and device. Of each constant polynomial it has ring, domain and
    value; of numbers and arrays type and shape. It has the values of static arguments, and of all
    that is none of these. Lazy arguments are realized together first. Numbers and arrays are
    symbolic. `+ - *` use them, anew at each call, and anything else that needs their value raises.
    Keys of encryption are inputs, read at each call: one plan serves all their owners.
    Closed-over polynomials are realized once, at capture, and stay inputs of the plan: rebinding
    their names later changes nothing. A random polynomial drawn inside is drawn anew at every
    replay. Inside another jitted function, or while JAX is tracing, the function is simply inlined.

    Raises:
        JitError: no polynomial among the arguments, or none among the results; a bad option.
        TracedValueError: the function needs the value of an argument while it is captured.
        DeviceError: polynomials on two devices.
        DonatedBufferError: an argument whose buffer was given away.

    Example:
        >>> import ren
        >>> ring = ren.RingSpec(n=4, moduli=(17,))
        >>> square = ren.jit(lambda x: x * x)
        >>> square(ren.Poly([1, 1, 0, 0], ring)).tolist()
        [1, 2, 1, 0]
    """
    check_options("ren.jit", unknown, jit.__kwdefaults__ or ())
    if further:
        raise JitError(
            f"ren.jit got {len(further) + 1} arguments without names.",
            "It takes a function; options have names.",
            "Write ren.jit(f, max_plans=4); arguments of f go to the call, ren.jit(f)(x, y).",
        )
    if not isinstance(max_plans, numbers.Integral) or max_plans < 1:
        raise JitError(
            f"ren.jit got max_plans={shown(max_plans)}.",
            "It is how many captured plans are held: an integer >= 1.",
            f"Leave it out for {DEFAULT_MAX_PLANS}.",
        )
    if device is not None:
        device = resolve_device(device)
    options = Options(check_tier(tier), prune, show_graph, device, auto_device)
    names = (
        _given("static_argnames", static_argnames, str),
        _given("donate_argnames", donate_argnames, str),
    )
    positions = (
        _given("static_argnums", static_argnums, numbers.Integral),
        _given("donate_argnums", donate_argnums, numbers.Integral),
    )

    def jitted(function: Any) -> Jitted:
        static = _names_at("static_argnums", positions[0], function)
        donated = _names_at("donate_argnums", positions[1], function)
        return Jitted(function, int(max_plans), options, names[0] + static, names[1] + donated)

    return jitted if func is None else jitted(func)


def _given(option: str, given: Any, kind: type) -> tuple[Any, ...]:
    """Tuple of what an option is given, one or several, checked to be of a kind."""
    found = (given,) if isinstance(given, str) or not isinstance(given, Iterable) else tuple(given)
    if all(isinstance(one, kind) and not isinstance(one, bool) for one in found):
        return found
    what, other = ("names", "positions") if kind is str else ("positions", "names")
    one, two = ("'k'", "'m'") if kind is str else (1, 2)
    raise JitError(
        f"ren.jit got {option}={shown(given)}.",
        f"It takes {what} of parameters, not their {other}.",
        f"Write {option}={one}, or {option}=({one}, {two}).",
    )


def _names_at(option: str, positions: tuple[int, ...], function: Any) -> tuple[str, ...]:
    """The names of the parameters of a function at some positions."""
    if not positions or not callable(function):
        return ()
    parameters = inspect.signature(function).parameters.values()
    names = [p.name for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    if wrong := [i for i in positions if not -len(names) <= i < len(names)]:
        raise JitError(
            f"ren.jit got {option}={shown(positions)} for {inspect.signature(function)}.",
            f"Each is the position of a parameter with a name of its own: 0 to {len(names) - 1}.",
            f"Leave out {', '.join(map(shown, wrong))}.",
        )
    return tuple(names[i] for i in positions)


@overload
def djit(
    func: Callable[P, R], *, show_graph: bool = False, auto_device: bool = True
) -> Callable[P, R]: ...
@overload
def djit(
    *, show_graph: bool = False, auto_device: bool = True
) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
def djit(
    func: Any = None,
    *,
    show_graph: bool = False,
    auto_device: bool = True,
    **unknown: Any,
) -> Any:
    """Captures a function's program anew at each call; compiled kernels are still shared.

    For functions whose program depends on values that `ren.jit` cannot see. Numbers and arrays
    among the arguments arrive as they are. Arguments and results are otherwise as for `ren.jit`.

    Args:
        func: takes and returns polynomials.
        show_graph, auto_device, unknown: as for `ren.jit`.

    Raises:
        JitError: no polynomial among the arguments, or none among the results; a bad option.
    """
    check_options("ren.djit", unknown, djit.__kwdefaults__ or ())
    # What runs once is not worth a choice of tiers.
    options = Options(tier=UNITS, show_graph=show_graph, auto_device=auto_device)
    if func is None:
        return functools.partial(_captured_anew, options=options)
    return _captured_anew(func, options)


def _check_function(what: str, function: Any) -> None:
    if not callable(function):
        raise JitError(
            f"{what} got {kind_of(function)}.",
            "It decorates a function.",
            f"Write @{what} above its definition.",
        )
    if inspect.isgeneratorfunction(function) or inspect.iscoroutinefunction(function):
        raise JitError(
            f"{what} got {function.__qualname__}, which is a generator or a coroutine.",
            "What is captured is one call from its arguments to its result.",
            "Return a list of the results instead of yielding them.",
        )


def _captured_anew(function: Callable[..., Any], options: Options) -> Callable[..., Any]:
    _check_function("ren.djit", function)
    name = getattr(function, "__qualname__", repr(function))
    signature = Signature(function, name)

    @functools.wraps(function)
    def captured_anew(*args: Any, **kwargs: Any) -> Any:
        if is_capturing() or is_tracing() or capture_state().is_inlining:
            return function(*args, **kwargs)
        call = signature.call(args, kwargs)
        polys = realized(call.polys)
        made = capture(signature.function(call), name, call.structure(polys), call.values, options)
        return made.replay(polys, call.values)

    return captured_anew


def _name_symbols(error: RenError, others: Sequence[Any]) -> None:
    """Adds to an error that was given an argument's symbol that its value is not known yet."""
    symbols = dict.fromkeys(s.name for s in others if isinstance(s, Symbolic))
    names = [name for name in symbols if f" from the argument {name!r}>" in str(error)]
    if names and "static_argnames" not in str(error):
        given = ", ".join(map(repr, names))
        error.do += (
            f" Under ren.jit the value of {given} is not known here. Write "
            f"@ren.jit(static_argnames={names[0]!r}): each value then has its own plan."
        )
        error.args = (error.given, error.needed, error.do)


def clear_jit() -> None:
    """Drops the plans of every jitted function in the process."""
    for jitted in list(_jitted):
        jitted.clear()
