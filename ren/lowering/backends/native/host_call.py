"""Small programs, called without XLA and its threads.

A call through XLA wakes a thread and waits for it: 0.1 to 0.2 ms, and more where the threads sleep.
That is longer than a sum of two ciphertexts at n = 2^14 takes. Such a call runs at once, on one
core. For large arrays that is another core than this one, which waits (`src/helper.h`). Its results
are JAX arrays over memory of NumPy, as those of `jax.device_put` are.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from ren.core.errors import NativeError
from ren.lowering.backends.base import Call
from ren.lowering.backends.native.bytecode import NativeProgram, call_of
from ren.lowering.backends.native.limb_program import Shape
from ren.lowering.backends.xla.jax_executable import tables_at
from ren.lowering.backends.xla.jax_runtime import check_not_forked, empty_at, guarded, putter
from ren.lowering.devices.devices import DELETED, Place, common_place


def host_call(run: Any, program: NativeProgram, args: Sequence[Any]) -> Call | None:
    """A program as a function of concrete arrays like `args`.

    Args:
        run: the function `ren_run` of the library.
        program: what it runs.
        args: arrays of JAX.

    Returns:
        None where the arrays are not on one CPU, or do not lie in memory row by row.
    """
    check_not_forked()
    place = common_place(args)
    if place is None or not all(view.c_contiguous for view in _views(args)):
        return None
    tables = [array for table in tables_at(program.tables, place) for array in table]
    call, read = call_of(program.form, "", [a.shape for a in args], len(tables))
    shapes = [*read, *(a.shape for a in tables)]
    if call.loops(read) != program.form.loops([a.shape for a in args]):
        return None
    return HostCall(run, program.form.inputs, tables, shapes, call.shapes(shapes), place)


class HostCall:
    """A call with all that is the same each time: tables, shapes, and where results are put."""

    def __init__(
        self,
        run: Any,
        reads: Sequence[int],
        tables: Sequence[jax.Array],
        shapes: Sequence[Shape],
        results: Sequence[Shape],
        place: Place,
    ) -> None:
        self._run, self._reads, self._results = run, tuple(reads), tuple(results)
        self._tables = _views(tables)  # held: their addresses are kept
        self._addresses = [table.unsafe_buffer_pointer() for table in tables]
        every = [*shapes, *results]
        self._counts = len(shapes), len(results)
        self._pointers = ctypes.c_void_p * len(every)
        self._ranks = (ctypes.c_int64 * len(every))(*map(len, every))
        lengths = list(itertools.chain.from_iterable(every))
        self._lengths = (ctypes.c_int64 * len(lengths))(*lengths)
        self._put = [putter(shape, place) for shape in results]

    def __call__(self, arrays: Sequence[Any]) -> list[Any]:
        given = [arrays[i] for i in self._reads]
        held = _views(given)
        made = [empty_at(shape, np.uint32) for shape in self._results]
        addresses = [array.unsafe_buffer_pointer() for array in given]
        addresses += self._addresses
        addresses += [address for _, address in made]
        why = self._run(*self._counts, self._pointers(*addresses), self._ranks, self._lengths)
        del held
        if why is not None:
            raise NativeError(
                f"A native call failed: {why.decode()}",
                "It ran without XLA.",
                "Compare with a run without native code, ren.config.native = False (REN_NATIVE=0).",
            )
        results = zip(self._put, made, strict=True)
        if not guarded():
            return [put(array) for put, (array, _) in results]
        with jax.transfer_guard_host_to_device("allow"):  # nothing is transferred
            return [put(array) for put, (array, _) in results]


def _views(arrays: Sequence[Any]) -> list[memoryview]:
    """The memory of arrays. A view waits for its array, and keeps it while it is donated elsewhere.

    Raises:
        RuntimeError: an array was deleted or donated, as JAX says it.
    """
    try:
        return [memoryview(array) for array in arrays]
    except BufferError as error:
        raise RuntimeError(DELETED) from error
