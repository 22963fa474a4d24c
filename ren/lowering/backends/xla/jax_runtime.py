"""JAX's runtime: executables that are called directly and kept as bytes, and forked processes.

It is the one module of private JAX names. A direct call takes half the time of JAX's dispatch. An
executable made from bytes needs no tracing and no lowering. Where a name is missing, all functions
run through `jax.jit`, after one warning of the logger "ren".

A process that was forked after JAX had started has one thread. JAX's threads run what it computes:
without them, a child that waits for a result waits forever. Ren raises an error there before it
gives JAX something to run. Arrays that were computed before the fork can be read, and the NumPy
interpreter runs.
"""

from __future__ import annotations

import ctypes
import gc
import hashlib
import json
import logging
import math
import os
import struct
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from importlib import resources
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import jax
import jax.monitoring
import numpy as np
from numpy.typing import NDArray

from ren.core.errors import ForkError, OutOfMemoryError
from ren.core.user_frame import user_line
from ren.lowering.devices.devices import Place, check_addressable, wide
from ren.lowering.storage import executable_store as disk

_private: Any = None
try:
    from jax._src import cache_key, compiler, core, dtypes, xla_bridge
    from jax._src.interpreters import pxla
    from jax._src.lib import _jax  # pyright: ignore[reportPrivateImportUsage]

    _private = SimpleNamespace(
        cache_key=cache_key,
        compiler=compiler,
        core=core,
        dtypes=dtypes,
        xla_bridge=xla_bridge,
        pxla=pxla,
        lib=_jax,
    )
except ImportError:  # another JAX
    pass

COMPILE = "/jax/core/compile/backend_compile_duration"
CACHE_HIT, CACHE_MISS = (f"/jax/compilation_cache/cache_{what}" for what in ("hits", "misses"))

_log = logging.getLogger("ren")
CPU_INFO = Path("/proc/cpuinfo")  # Linux alone has it
_LENGTH = struct.Struct("<Q")
_ALIGNMENT = 64  # of host memory that XLA:CPU reads where it stands
# XLA:CPU uses half of an AVX-512 register unless told otherwise (docs/performance.md).
_FOR_CPU = {"xla_cpu_prefer_vector_width": 512}
# Above all streams that JAX numbers by threads; the rest of one is its thread and its number.
_STREAMS, _STREAM_BITS = 1 << 62, 8
# What a private name that is gone or means something else raises.
CHANGED = (AttributeError, TypeError, NotImplementedError)
Results = Sequence[tuple[tuple[int, ...], str]]  # the shape and type of each


def on_operand(kind: type, handler: Callable[[Any], Any]) -> None:
    """Let `handler` raise for an instance of `kind` that a primitive of JAX gets as an operand.

    JAX replaces a TypeError by its own. Where the private name is missing, it raises that one.
    """
    dtypes = getattr(_private, "dtypes", None)
    if (register := getattr(dtypes, "register_canonicalize_value_handler", None)) is not None:
        register(kind, handler)


@attrs.frozen(eq=False)
class Executable:
    """A compiled function of arrays on one device.

    Attributes:
        execute: the runtime's executable: a list of arrays -> results.
        uncommitted, committed: what makes JAX arrays of the results.
        layouts: of its parameters.
    """

    execute: Callable[[list[Any]], Any]
    uncommitted: list[Any]
    committed: list[Any]
    layouts: list[Any]

    def bind(self, leading: Sequence[Any], is_committed: bool) -> Callable[[Sequence[Any]], Any]:
        """The function of the arrays that come after `leading`; its results are a list.

        Args:
            leading: the first arguments.
            is_committed: whether JAX may not move the results to other devices.
        """
        execute, first = self.execute, tuple(leading)
        handlers = self.committed if is_committed else self.uncommitted

        def call(arrays: Sequence[Any]) -> Any:
            return execute([*first, *arrays]).consume_with_handlers(handlers)

        return call


_has_given_up = False  # the private names have failed once, and are not tried again


def is_supported() -> bool:
    """False where this JAX has no such executables, as far as was tried."""
    if _private is None and not _has_given_up:
        give_up(ImportError("its modules have moved"))
    return not _has_given_up


def give_up(error: Exception) -> None:
    """Runs everything through `jax.jit` from now on, after one warning."""
    global _has_given_up
    if not _has_given_up:
        _has_given_up = True
        _log.warning(
            "jax %s is unknown to Ren's executables: kernels run through jax.jit, and none is kept "
            "on disk (%s).",
            jax.__version__,
            disk.first_line(error),
        )


def has_streams() -> bool:
    """True where executables that one thread calls can wait in several queues."""
    return hasattr(getattr(_private, "lib", None), "set_execution_stream_id")


def stream() -> int:
    """The queue of what this thread calls now."""
    return _private.lib.get_execution_stream_id()


def numbered_stream(number: int) -> int:
    """A queue of this thread's own."""
    return _STREAMS + (threading.get_native_id() << _STREAM_BITS) + number


def set_stream(number: int) -> None:
    """Has this thread's calls wait in another queue; each waits for its arguments all the same."""
    _private.lib.set_execution_stream_id(number)


def executable(loaded: Any, results: Results, place: Any) -> Executable:
    """A loaded executable with results of these types, on the device of `place`."""
    avals = [_private.core.ShapedArray(shape, np.dtype(dtype)) for shape, dtype in results]
    handler = _private.pxla.global_aval_to_result_handler
    free, bound = ([handler(aval, place, is_bound) for aval in avals] for is_bound in (False, True))
    _ = _private.lib.ExecuteResults.consume_with_handlers  # used at each call: missed now
    return Executable(loaded.execute_sharded, free, bound, list(loaded.get_parameter_layouts()))


def put(array: np.ndarray, device: Any) -> Any:
    """A host array of 32 bits on a device, which JAX may move: a call without JAX's dispatch.

    A CPU reads it where it stands, if it is aligned: nothing is written to it afterwards.
    """
    if is_supported():
        try:
            aval = _private.core.ShapedArray(array.shape, array.dtype)
            place = _home(device)
            return _private.pxla.batched_device_put(aval, place, [array], [device], committed=False)
        except CHANGED as error:
            give_up(error)
    return jax.device_put(array)


def putter(shape: tuple[int, ...], place: Place) -> Callable[[np.ndarray], Any]:
    """A function that puts arrays uint32 of one shape at a place, as `put` does."""

    def dispatched(array: np.ndarray) -> Any:
        return jax.device_put(array, place.sharding if place.is_committed else None)

    if not is_supported():
        return dispatched
    try:
        aval = _private.core.ShapedArray(shape, np.dtype(np.uint32))
        put_all, sharding = _private.lib.batched_device_put, place.sharding
    except CHANGED as error:
        give_up(error)
        return dispatched
    (device,) = sharding.device_set
    devices, is_bound = [device], place.is_committed

    def direct(array: np.ndarray) -> Any:
        return put_all(aval, sharding, [array], devices, is_bound)

    return direct


def guarded() -> bool:
    """True where `jax.transfer_guard` has a say in what is put on a device."""
    return jax.config.jax_transfer_guard_host_to_device is not None  # pyright: ignore[reportAttributeAccessIssue]


def empty(shape: tuple[int, ...], dtype: Any) -> NDArray:
    """`numpy.empty` in memory that `put` and `jax.device_put` to a CPU share and do not copy.

    Nothing is written to it once it was put.
    """
    return empty_at(shape, dtype)[0]


def empty_at(shape: tuple[int, ...], dtype: Any) -> tuple[NDArray, int]:
    """The same, and its address."""
    size = math.prod(shape) * np.dtype(dtype).itemsize + _ALIGNMENT
    try:
        memory = np.empty(size, np.uint8)
    except MemoryError:
        memory = _empty_after_all(size)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    start = -address % _ALIGNMENT
    return np.ndarray(shape, dtype, memory, start), address + start


def _empty_after_all(size: int) -> NDArray:
    """So many bytes, once JAX has let go of arrays that are deleted: it does so when it collects.

    Raises:
        OutOfMemoryError: there are not so many then, either.
    """
    gc.collect()
    try:
        return np.empty(size, np.uint8)
    except MemoryError as error:
        raise OutOfMemoryError(
            f"{user_line()} needs {size} bytes for a result, and the system gives no more.",
            "What is no longer used was collected before.",
            "Drop results that are not needed: del x.",
        ) from error


@cache
def _home(device: Any) -> Any:
    """The sharding that JAX gives to arrays on its default device, which this one is."""
    return jax.device_put(np.zeros(1, np.uint32)).sharding


def compiled(lowered: Any, place: Any) -> Any:
    """The loaded executable of a `jax.stages.Lowered`, from JAX's own cache if it is there."""
    (device,) = place.device_set
    with wide():
        return lowered.compile(_chosen(device.platform)).runtime_executable()


def compiled_afresh(lowered: Any, place: Any) -> Any:
    """The same, never from JAX's cache: what came from bytes once does not serialize on XLA:CPU.

    It counts as a compile and as a cache miss with JAX's monitoring, as if JAX had made it.
    """
    (device,) = place.device_set
    start = time.perf_counter()
    made = device.client.compile_and_load(
        lowered.compiler_ir(),
        executable_devices=_private.lib.DeviceList((device,)),
        compile_options=_options(device),
    )
    jax.monitoring.record_event_duration_secs(COMPILE, time.perf_counter() - start)
    jax.monitoring.record_event(CACHE_MISS)
    return made


def to_bytes(loaded: Any, results: Results) -> bytes:
    """Serialize an executable for `from_bytes`."""
    head = json.dumps(results).encode()
    return _LENGTH.pack(len(head)) + head + loaded.serialize()


def from_bytes(body: bytes, place: Any) -> Executable:
    """An executable as it was kept; anything may be raised where the bytes are of another kind."""
    (length,) = _LENGTH.unpack_from(body)
    start = _LENGTH.size + length
    results = [(tuple(shape), dtype) for shape, dtype in json.loads(body[_LENGTH.size : start])]
    (device,) = place.device_set
    devices = _private.lib.DeviceList((device,))
    loaded = device.client.deserialize_executable(body[start:], devices, _options(device))
    return executable(loaded, results, place)


def _options(device: Any) -> Any:
    return _private.compiler.get_compile_options(
        num_replicas=1,
        num_partitions=1,
        device_assignment=[[device.id]],
        env_options_overrides=_chosen(device.platform),
        backend=device.client,
    )


def compiler_options() -> dict[str, Any] | None:
    """The compiler's options on JAX's default platform, where they are not its own."""
    return _chosen(jax.default_backend())


def _chosen(platform: str) -> dict[str, Any] | None:
    """The compiler's options for a platform, where they are not its own."""
    return dict(_FOR_CPU) if platform == "cpu" else None


@cache
def environment(device: Any) -> tuple[str, ...]:
    """Key of an executable besides its program: versions, flags, the processor."""
    made = hashlib.sha256()
    _private.cache_key._hash_platform(made, device.client)
    _private.cache_key._hash_xla_flags(made, _private.cache_key.get_flag_prefixes())
    _private.cache_key._hash_serialized_compile_options(made, _options(device))
    _private.cache_key._hash_accelerator_config(made, np.array([device]))
    versions = [version(name) for name in ("jax", "jaxlib")]
    kind = (device.platform, device.device_kind, str(device.id), device.client.platform_version)
    return (*versions, *kind, processor(), source_digest(), made.hexdigest())


def processor() -> str:
    """The features of the processor, which XLA compiles for, as far as the system tells them."""
    try:
        lines = CPU_INFO.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    names = ("model name", "flags", "Features", "CPU part")
    return "\n".join(sorted({line for line in lines if line.startswith(names)}))


@cache
def source_digest() -> str:
    """A digest of the code that writes programs: a change of it changes what they compute."""
    made = hashlib.sha256()
    folders = [resources.files("ren.core"), resources.files("ren.lowering")]
    while folders:
        for entry in sorted(folders.pop().iterdir(), key=lambda entry: entry.name):
            if entry.is_dir() and entry.name != "__pycache__":
                folders.append(entry)
            elif entry.name.endswith(".py"):
                made.update(entry.name.encode() + b"\0" + entry.read_bytes() + b"\0")
    return made.hexdigest()


# ------------------------------------------------------------------- forks

_is_forked = False


def has_started() -> bool:
    """True where JAX has its backends, and their threads, in this process.

    It takes no lock. A forked child calls it, where a thread that does not exist may hold a lock.
    """
    bridge = getattr(_private, "xla_bridge", None)
    return bool(getattr(bridge, "_backends", None))


def _note_fork() -> None:
    """Runs in each forked child; a child of a child stays one."""
    global _is_forked
    _is_forked = _is_forked or has_started()


if hasattr(os, "register_at_fork"):  # not on Windows, where no process forks
    os.register_at_fork(after_in_child=_note_fork)


def is_forked() -> bool:
    """True in a process that was forked after JAX had started."""
    return _is_forked


def check_not_forked() -> None:
    """Comes before everything that JAX runs.

    Raises:
        ForkError: this process was forked after JAX had started.
    """
    if _is_forked:
        raise ForkError(
            f"{user_line()} computes in a process that was forked after JAX had started.",
            "JAX's threads do not exist in this process, and what waits for them would hang.",
            'Start processes with multiprocessing.get_context("spawn") or "forkserver", or fork '
            "before the first use of JAX.",
        )


def check_inputs(arrays: Iterable[Any]) -> None:
    """Comes before a program on some arrays, of which those of NumPy need no threads.

    Raises:
        ForkError: this process was forked after JAX had started, and an array is JAX's.
    """
    if _is_forked and any(isinstance(a, jax.Array) for a in arrays):
        check_not_forked()


def on_host(array: Any) -> np.ndarray:
    """An array as NumPy's, once it is computed.

    Raises:
        ForkError: this process was forked while JAX still computed the array.
        DeviceError: other processes hold a part of it alone.
    """
    check_addressable(array)
    is_ready = getattr(array, "is_ready", None)  # of a JAX array
    if is_ready is not None and _is_forked and not is_ready():
        check_not_forked()
    return np.asarray(array)
