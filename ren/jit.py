"""ren.jit: a function of polynomials is captured once for each argument spec, then replayed."""

from __future__ import annotations

import functools
import hashlib
import inspect
import threading
import types
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from typing import Any, NamedTuple, overload

import numpy as np

from ren.capture import Captured, capture
from ren.capturing import is_capturing
from ren.core.errors import JitError
from ren.lowering.devices import is_host
from ren.lowering.tiers import AUTO, check_tier
from ren.lowering.tracing import is_tracing
from ren.poly import Poly, realize_polys
from ren.structure import Structure, take_apart

DEFAULT_MAX_PLANS = 16

_jitted: weakref.WeakSet[Jitted] = weakref.WeakSet()


class CacheInfo(NamedTuple):
    """How a jitted function's plans were used: calls replayed and captured, plans kept and gone."""

    hits: int
    misses: int
    plans: int
    max_plans: int
    evictions: int


class Jitted:
    """A function under `ren.jit`. Call it like the function; see `jit`."""

    def __init__(
        self,
        function: Callable[..., Any],
        max_plans: int,
        show_graph: bool = False,
        tier: str = AUTO,
        prune: bool = False,
        static_argnames: tuple[str, ...] = (),
    ) -> None:
        if not callable(function):
            raise JitError(
                f"ren.jit got a {type(function).__name__}.",
                "It decorates a function.",
                "Write @ren.jit, or @ren.jit(max_plans=4).",
            )
        functools.update_wrapper(self, function)
        self._function = function
        self._name = getattr(function, "__qualname__", repr(function))
        self._max_plans = max_plans
        self._show_graph = show_graph
        self._tier = tier
        self._prune = prune
        self._static = static_argnames
        self._signature = _checked_signature(function, self._name, static_argnames)
        self._plans: OrderedDict[Hashable, Captured] = OrderedDict()
        self._hits = self._misses = self._evictions = 0
        self._lock = threading.Lock()
        _jitted.add(self)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if is_capturing() or is_tracing():
            return self._function(*args, **kwargs)  # becomes part of the program around it
        self._check_static(args, kwargs)
        arguments, polys = _arguments(self._name, args, kwargs)
        return self._captured(arguments, polys).replay(_arrays(polys))

    def _check_static(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if self._signature is None:
            return
        bound = self._signature.bind(*args, **kwargs).arguments
        for name in self._static:
            if take_apart(bound.get(name)).polys:
                raise JitError(
                    f"The static argument {name!r} of {self._name} holds a polynomial.",
                    "Static arguments are part of the key by value; polynomials are inputs.",
                    f"Leave {name!r} out of static_argnames.",
                )

    def _captured(self, arguments: Structure, polys: list[Poly]) -> Captured:
        key = (
            arguments.key,
            tuple(map(_spec_key, polys)),
            tuple(map(_value_key, arguments.others)),
        )
        with self._lock:
            found = self._plans.get(key)
            if found is not None:
                self._plans.move_to_end(key)
                self._hits += 1
                return found
        made = capture(
            self._function, self._name, arguments, self._show_graph, self._tier, self._prune
        )
        with self._lock:
            self._misses += 1
            self._plans[key] = made
            self._plans.move_to_end(key)
            while len(self._plans) > self._max_plans:
                self._plans.popitem(last=False)
                self._evictions += 1
        return made

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
            self._hits = self._misses = self._evictions = 0

    def __repr__(self) -> str:
        return f"<ren.jit of {self._name}: {len(self._plans)} plans>"


@overload
def jit(function: Callable[..., Any], /) -> Jitted: ...
@overload
def jit(
    *,
    max_plans: int = DEFAULT_MAX_PLANS,
    show_graph: bool = False,
    tier: str = AUTO,
    prune: bool = False,
    static_argnames: str | Iterable[str] = (),
) -> Callable[[Callable[..., Any]], Jitted]: ...
def jit(
    function: Any = None,
    /,
    *,
    max_plans: int = DEFAULT_MAX_PLANS,
    show_graph: bool = False,
    tier: str = AUTO,
    prune: bool = False,
    static_argnames: str | Iterable[str] = (),
) -> Any:
    """Captures a function's program once for each argument spec, and replays it afterwards.

    Args:
        function: takes and returns polynomials, directly or inside containers, pytrees,
            dataclasses and attrs classes.
        max_plans: how many plans are held; the least recently used goes first.
        show_graph: print the program, as text, whenever a plan is captured.
        tier: how plans run: "units", compiled kernels one by one, which compile fast and are shared
            by all plans; "graph", the whole plan as one executable (if that fails, as units, with
            a warning of the logger "ren"); "eager", the NumPy reference, for debugging; "auto"
            begins with units, compiles the graph in the background once that is paid for, times
            both and keeps the faster (`ren.config`, `plans[0].telemetry`). Results are the same, on
            the same devices.
        prune: compute what depends on no argument once, at capture, and hold it in the plan; random
            draws are never pruned. `plan.explain()` marks what was.
        static_argnames: arguments whose values the function looks at. Each value has a plan of its
            own, as now all arguments that are no polynomials do; here a polynomial is refused.

    The key of a plan: the structure of the arguments; of each realized polynomial the ring, domain,
    batch shape, dtype and device; of each constant polynomial ring, domain and value; the values of
    all other arguments. Lazy arguments are realized together first. Closed-over polynomials are
    realized once, at capture, and stay inputs of the plan: rebinding their names later changes
    nothing. A random polynomial drawn inside is drawn anew at every replay. Inside another jitted
    function, or while JAX is tracing, the function is simply inlined.

    Raises:
        JitError: no polynomial among the arguments, or none among the results; a bad option.

    Example:
        >>> import ren
        >>> ring = ren.RingSpec(n=4, moduli=(17,))
        >>> square = ren.jit(lambda x: x * x)
        >>> square(ren.Poly([1, 1, 0, 0], ring)).tolist()
        [1, 2, 1, 0]
    """
    if not isinstance(max_plans, int) or max_plans < 1:
        raise JitError(
            f"ren.jit got max_plans={max_plans!r}.",
            "It is how many captured plans are held: an integer >= 1.",
            f"Leave it out for {DEFAULT_MAX_PLANS}.",
        )
    check_tier(tier)
    static = (static_argnames,) if isinstance(static_argnames, str) else tuple(static_argnames)
    options = (max_plans, show_graph, tier, prune, static)
    if function is None:
        return lambda function: Jitted(function, *options)
    return Jitted(function, *options)


def djit(function: Callable[..., Any]) -> Callable[..., Any]:
    """Captures a function's program anew at each call; compiled kernels are still shared.

    For functions whose program depends on values that `ren.jit` cannot see. Arguments and results
    are as for `ren.jit`.

    Raises:
        JitError: no polynomial among the arguments, or none among the results.
    """
    name = getattr(function, "__qualname__", repr(function))

    @functools.wraps(function)
    def captured_anew(*args: Any, **kwargs: Any) -> Any:
        if is_capturing() or is_tracing():
            return function(*args, **kwargs)
        arguments, polys = _arguments(name, args, kwargs)
        return capture(function, name, arguments).replay(_arrays(polys))

    return captured_anew


def _arguments(name: str, args: Any, kwargs: Any) -> tuple[Structure, list[Poly]]:
    """The arguments taken apart, and their polynomials realized."""
    arguments = take_apart((args, kwargs))
    if not arguments.polys:
        raise JitError(
            f"The function {name} under ren.jit was called without a polynomial.",
            "The polynomials among the arguments are what a plan is replayed with.",
            "Pass a Poly, or something that holds one; drop ren.jit for setup code.",
        )
    return arguments, realize_polys(arguments.polys)


def _arrays(polys: list[Poly]) -> list[Any]:
    return [None if p.is_constant else p.limbs for p in polys]


def _checked_signature(
    function: Callable[..., Any], name: str, static: tuple[str, ...]
) -> inspect.Signature | None:
    """The signature, where static arguments need it."""
    if not static:
        return None
    signature = inspect.signature(function)
    unknown = [s for s in static if s not in signature.parameters]
    if unknown:
        raise JitError(
            f"ren.jit got static_argnames={static!r} for {name}{signature}.",
            "Each is the name of a parameter of the function.",
            f"Leave out {', '.join(map(repr, unknown))}.",
        )
    return signature


def clear_jit() -> None:
    """Drops the plans of every jitted function in the process."""
    for jitted in list(_jitted):
        jitted.clear()


def _spec_key(p: Poly) -> Hashable:
    if p.is_constant:
        return (p.ring, p.domain, p.node.arg.value)
    array = p.node.arg.array
    device = "python" if is_host(array) else (array.sharding, array.committed)
    return (p.node.spec, device)


def _value_key(value: Any) -> Hashable:
    """What tells two values of a non-polynomial argument apart."""
    if hasattr(value, "__array__") and not isinstance(value, np.generic):
        array = np.ascontiguousarray(value)
        return (array.shape, str(array.dtype), hashlib.sha256(array.tobytes()).digest())
    try:
        hash(value)
    except TypeError:
        raise JitError(
            f"A function under ren.jit got an argument of type {type(value).__name__}.",
            "Arguments that hold no polynomial are part of a plan's key and must be hashable.",
            "Pass a tuple or a frozen dataclass, or close over the value.",
        ) from None
    return (type(value), value)
