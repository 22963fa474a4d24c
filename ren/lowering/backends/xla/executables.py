"""The executables of a function: one for each shape and device, read from disk or compiled.

Their folder is Ren's own, beside JAX's persistent cache and independent of it. JAX reads its cache
only after it has traced and lowered the program. For the first call of the demo's scorer (56
kernels) in a second process that was 1.6 of 2.8 s. The first process took 7.8 s. With this folder,
whose keys are made of the structure of kernels, the second took 1.2 s.
"""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import attrs
import jax
import jax.monitoring

from ren.lowering.backends.xla import jax_runtime as runtime
from ren.lowering.backends.xla.jax_runtime import Executable
from ren.lowering.devices.shardings import layout_of
from ren.lowering.devices.tracing import wide
from ren.lowering.storage import executable_store as disk

_LONGEST = 256


class Executables:
    """The executables of one function, by the shapes of its arguments and the device.

    Args:
        function: `jax.jit` of it; it is lowered under 64-bit types and keeps unused arguments.
        identity: what it computes, as a value that `canonical` can print.
    """

    def __init__(self, function: Any, identity: Hashable) -> None:
        self.function = function
        self._identity = identity
        self._made: dict[Hashable, Executable] = {}

    def on(self, arguments: tuple[Any, ...], flat: Sequence[Any], place: Any) -> Executable | None:
        """The executable for arrays like `flat`, the leaves of `arguments`.

        Args:
            place: a `SingleDeviceSharding`, where all of them are.

        Returns:
            None where this JAX has no such executables, or the arrays have a layout of their own.
        """
        if any(layout_of(a) is None for a in flat):
            runtime.give_up(AttributeError("arrays do not tell their layout"))
        key = _key_of(flat, place)
        found = self._made.get(key) or self._loaded(flat, place)
        if found is None:
            if not runtime.is_supported():
                return None
            found = self._compiled(self._lowered(arguments, place), flat, place)
            if found is None:
                return None
        found = self._made.setdefault(key, found)
        if any(layout_of(a) != wanted for a, wanted in zip(flat, found.layouts, strict=True)):
            return None
        return found

    def ahead(
        self, arguments: tuple[Any, ...], flat: Sequence[Any], place: Any
    ) -> Callable[[], None] | None:
        """The rest of the work for arrays like `flat`, of which only the types are looked at.

        They are lowered here; what is returned compiles, in any thread. None where the executable
        is there already, in memory or on disk.
        """
        key = _key_of(flat, place)
        found = self._made.get(key) or self._loaded(flat, place)
        if found is not None:
            self._made.setdefault(key, found)
            return None
        lowered = self._lowered(arguments, place)

        def work() -> None:
            if not runtime.is_supported():
                lowered.compile()  # JAX's own dispatch finds it
                return
            made = self._compiled(lowered, flat, place)
            if made is not None:
                self._made.setdefault(key, made)

        return work

    def _loaded(self, flat: Sequence[Any], place: Any) -> Executable | None:
        store, key = self._entry(flat, place)
        body = None if store is None or key is None else store.read(key)
        if store is None or body is None:
            return None
        try:
            made = runtime.from_bytes(body, place)
        except Exception as error:  # whatever the runtime says of bytes that it cannot use
            store.warn(f"an executable cannot be loaded: {disk.first_line(error)}")
            return None
        jax.monitoring.record_event(runtime.CACHE_HIT)
        return made

    def _lowered(self, arguments: tuple[Any, ...], place: Any) -> Any:
        like = jax.tree.map(
            lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=place), arguments
        )
        with wide():
            return self.function.lower(*like)

    def _compiled(self, lowered: Any, flat: Sequence[Any], place: Any) -> Executable | None:
        store, key = self._entry(flat, place)
        results = [(tuple(r.shape), str(r.dtype)) for r in jax.tree.leaves(lowered.out_info)]
        try:
            if store is None or key is None:
                return runtime.executable(runtime.compiled(lowered, place), results, place)
            loaded = runtime.compiled_afresh(lowered, place)
            made = runtime.executable(loaded, results, place)
        except runtime.CHANGED as error:
            runtime.give_up(error)
            return None
        try:
            store.write(key, runtime.to_bytes(loaded, results))
        except Exception as error:  # not every runtime serializes
            store.warn(f"an executable cannot be kept: {disk.first_line(error)}")
        return made

    def _entry(self, flat: Sequence[Any], place: Any) -> tuple[disk.Store | None, str | None]:
        """The store in use and the key there; None for what there is not."""
        store = disk.store()
        if store is None or not runtime.is_supported():
            return None, None
        (device,) = place.device_set
        return store, self._key(store, flat, device)

    def _key(self, store: disk.Store, flat: Sequence[Any], device: Any) -> str | None:
        """SHA-256 of all that decides what the compiler makes; None where that is unknown."""
        try:
            around = runtime.environment(device)
            shapes = tuple((tuple(a.shape), str(a.dtype)) for a in flat)
            named = canonical((around, shapes, self._identity))
            return hashlib.sha256(named.encode()).hexdigest()
        except Exception as error:
            store.warn(f"a key cannot be made: {disk.first_line(error)}")
            return None


def _key_of(flat: Sequence[Any], place: Any) -> Hashable:
    return (place, *[tuple(a.shape) for a in flat])


def canonical(value: Any) -> str:
    """A print that is the same in every process, of numbers, names, tuples and attrs classes.

    Long prints of attrs classes are their SHA-256, made once for equal ones: a graph calls few
    programs many times.

    Raises:
        TypeError: the value is or holds something else.
    """
    return _canonical(value, {})


def _canonical(value: Any, known: dict[Any, str]) -> str:
    if value is None or type(value) in (bool, int, str):
        return repr(value)
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, tuple):
        return f"({','.join([_canonical(v, known) for v in value])})"
    if not attrs.has(type(value)):
        raise TypeError(f"{type(value).__name__} has no canonical print")
    found = known.get(value)
    if found is None:
        parts = tuple(getattr(value, a.name) for a in attrs.fields(type(value)) if a.init)
        found = f"{type(value).__name__}{_canonical(parts, known)}"
        if len(found) > _LONGEST:
            found = f"#{hashlib.sha256(found.encode()).hexdigest()}"
        known[value] = found
    return found
