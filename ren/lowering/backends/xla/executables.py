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

from ren.config import config
from ren.core.user_frame import is_of_user
from ren.lowering.backends.base import Call
from ren.lowering.backends.xla import jax_runtime as runtime
from ren.lowering.backends.xla.jax_runtime import Executable
from ren.lowering.devices.devices import Place, layout_of, wide
from ren.lowering.program.instructions import Arrays
from ren.lowering.storage import executable_store as disk

_LONGEST = 256
_Entry = tuple[disk.Store, str]  # a store and a key there


class Executables:
    """The executables of one function, by the shapes of its arguments and the device.

    Args:
        function: `jax.jit` of `(tables, *arrays) -> results`; it is lowered under 64-bit types and
            keeps unused arguments.
        identity: what it computes, as a value that `canonical` can print.
    """

    def __init__(self, function: Any, identity: Hashable) -> None:
        self.function = function
        self._identity = identity
        self._known: dict[Hashable, Executable] = {}

    def on(self, tables: tuple[Arrays, ...], arrays: Sequence[Any], place: Place) -> Call | None:
        """The function of arrays like `arrays`, by its executable.

        Args:
            tables: its first argument, on the device of `place`.
            arrays: its other arguments, all at `place`.
            place: results are bound to it where it is committed.

        Returns:
            None where this JAX has no such executables, or the arrays have a layout of their own.
        """
        constants, sharding = [a for table in tables for a in table], place.sharding
        layouts = [layout_of(a) for a in (*constants, *arrays)]
        if any(layout is None for layout in layouts):
            runtime.give_up(AttributeError("arrays do not tell their layout"))
        found, key, entry = self._found([*constants, *arrays], sharding)
        if found is None and runtime.is_supported():
            found = self._compiled(self._typed(tables, arrays, sharding), key, entry, sharding)
        if found is None or layouts != found.layouts:
            return None
        return found.bind(constants, place.is_committed)

    def ahead(
        self, tables: tuple[Arrays, ...], types: Sequence[Any], sharding: Any
    ) -> Callable[[], Any] | None:
        """The rest of the work for arrays of some types.

        They are lowered here; what is returned compiles, in any thread. None where the executable
        is there already, in memory or on disk.
        """
        flat = [*[a for table in tables for a in table], *types]
        found, key, entry = self._found(flat, sharding)
        if found is not None:
            return None
        lowered = self._typed(tables, types, sharding)

        def work() -> None:
            if runtime.is_supported():
                self._compiled(lowered, key, entry, sharding)
            else:
                lowered.compile()  # JAX's own dispatch finds it

        return work

    def lowered(self, tables: tuple[Any, ...], types: Sequence[Any]) -> Any:
        """The function lowered for tables and arrays of some types."""
        with wide():
            return self.function.lower(tables, *types)

    def _typed(self, tables: tuple[Arrays, ...], arrays: Sequence[Any], sharding: Any) -> Any:
        like = jax.tree.map(
            lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=sharding), (tables, *arrays)
        )
        return self.lowered(like[0], like[1:])

    def _found(
        self, flat: Sequence[Any], sharding: Any
    ) -> tuple[Executable | None, Hashable, _Entry | None]:
        """The executable in memory or on disk, its key in memory, and its entry on disk."""
        key = (sharding, *[tuple(a.shape) for a in flat])
        found, entry = self._known.get(key), None
        if found is None:
            entry = self._entry(flat, sharding)
            found = None if entry is None else self._loaded(*entry, sharding)
            if found is not None:
                found = self._known.setdefault(key, found)
        return found, key, entry

    def _loaded(self, store: disk.Store, key: str, sharding: Any) -> Executable | None:
        body = store.read(key)
        if body is None:
            return None
        try:
            made = runtime.from_bytes(body, sharding)
        except Exception as error:  # whatever the runtime says of bytes that it cannot use
            if is_of_user(error):
                raise
            store.warn(f"an executable cannot be loaded: {disk.first_line(error)}")
            return None
        jax.monitoring.record_event(runtime.CACHE_HIT)
        return made

    def _compiled(
        self, lowered: Any, key: Hashable, entry: _Entry | None, sharding: Any
    ) -> Executable | None:
        results = [(tuple(r.shape), str(r.dtype)) for r in jax.tree.leaves(lowered.out_info)]
        compiled = runtime.compiled if entry is None else runtime.compiled_afresh
        try:
            loaded = compiled(lowered, sharding)
            made = runtime.executable(loaded, results, sharding)
        except runtime.CHANGED as error:
            runtime.give_up(error)
            return None
        if entry is not None:
            store, name = entry
            try:
                store.write(name, runtime.to_bytes(loaded, results))
            except Exception as error:  # not every runtime serializes
                if is_of_user(error):
                    raise
                store.warn(f"an executable cannot be kept: {disk.first_line(error)}")
        return self._known.setdefault(key, made)

    def _entry(self, flat: Sequence[Any], sharding: Any) -> _Entry | None:
        """The store in use, and SHA-256 of all that decides what the compiler makes.

        None where nothing is kept, or where that is unknown.
        """
        if config.cache_dir == "off" or not runtime.is_supported():
            return None
        store = disk.store()
        if store is None:
            return None
        (device,) = sharding.device_set
        try:
            around = runtime.environment(device)
            shapes = tuple((tuple(a.shape), str(a.dtype)) for a in flat)
            named = canonical((around, shapes, self._identity))
            return store, hashlib.sha256(named.encode()).hexdigest()
        except Exception as error:
            if is_of_user(error):
                raise
            store.warn(f"a key cannot be made: {disk.first_line(error)}")
            return None


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
