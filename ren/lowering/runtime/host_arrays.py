"""Arrays between the host and devices: as they are, as integers of residues, as centred floats.

Each XLA kernel is one executable for each shape, kept like those of other kernels. It runs
concretely, also while JAX is tracing.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from ren.core.spec import ScalarArg
from ren.lowering.backends.native import library
from ren.lowering.backends.xla import jax_runtime as runtime
from ren.lowering.backends.xla.executables import Executables
from ren.lowering.backends.xla.jax_executable import JaxExecutable
from ren.lowering.backends.xla.jax_runtime import check_not_forked, empty, on_host
from ren.lowering.devices.devices import (
    PYTHON,
    concretely,
    default_device,
    is_host,
    mesh_in_use,
    resolve_device,
    wide,
)
from ren.lowering.kernels import integers as kernels
from ren.lowering.kernels.tables import column, residue_form
from ren.lowering.program.instructions import Arrays, Table

Moduli = tuple[int, ...]


def trim() -> None:
    """Give memory that was freed back to the system, where the C library can.

    Large temporary arrays leave much of it: 0.4 GiB behind the keys of a bootstrap.
    """
    try:
        trimmed = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError, TypeError):  # another C library than glibc's
        return
    trimmed(ctypes.c_size_t(0))


_OWN_ERRORS = {"divide": "warn", "over": "warn", "under": "ignore", "invalid": "warn"}
_AS_THEY_ARE = nullcontext()


def own_errors() -> AbstractContextManager[Any]:
    """The settings of NumPy's floating-point errors for Ren's own arithmetic on the host.

    Underflow is ignored there, as NumPy does by default, and what the user lets raise warns.
    """
    if (settings := np.geterr()) == _OWN_ERRORS:
        return _AS_THEY_ARE
    raised = {kind: "warn" for kind, told in settings.items() if told == "raise"}
    return np.errstate(**{**raised, "under": "ignore"})  # type: ignore[arg-type]


def placed(array: np.ndarray, device: Any = None) -> Any:
    """A host array on a device, concretely, also while JAX is tracing; None is JAX's default.

    It is read-only from here on.
    """
    target = None if device is None else resolve_device(device)
    if target == PYTHON:
        array.flags.writeable = False
        return array
    with concretely():
        usual = default_device() if target is None and mesh_in_use().empty else None
        if usual is not None and type(array) is np.ndarray and array.dtype == np.uint32:
            return runtime.put(array, usual)
        return jax.device_put(array, target)


def scalar_limbs(arg: ScalarArg, values: Sequence[Any]) -> np.ndarray:
    """A number among those of a call as a constant in residue form: uint32 [limb, 1]."""
    return column(residue_form(arg.value(values), arg.ring.moduli))


def copy(array: Any, device: Any) -> Any:
    """`array` on another device: a NumPy array for "python", else a JAX array."""
    if device == PYTHON:
        return np.asarray(array)
    return jax.device_put(array, device)


def residues(integers: NDArray[np.int64], moduli: Moduli) -> jax.Array:
    """The residues c 2^32 mod q_i (Montgomery form): uint32 [*batch, limb, n], in [0, q_i).

    Args:
        integers: c, int64 [*batch, n], any values; nothing is written to it afterwards.
        moduli: the moduli q_i < 2^30 of the limbs.
    """
    with concretely():
        with wide():
            given = jax.device_put(integers)
        return _run(_residues(), Table("residues", (moduli,)), given)


def words(integers: NDArray[np.int64]) -> NDArray[np.uint32]:
    """c + 2^63 in words, the low ones first, for a graph `with_words`.

    Args:
        integers: c, int64 [*batch, n], any values.

    Returns:
        uint32 [*batch, 2, n].
    """
    made = empty((*integers.shape[:-1], 2, integers.shape[-1]), np.uint32)
    halves = integers.view(np.uint64)[..., None, :]
    np.copyto(made[..., :1, :], halves, casting="unsafe")  # the low 32 bits
    np.right_shift(halves, np.uint64(32), out=made[..., 1:, :], casting="unsafe")
    made[..., 1, :] ^= np.uint32(1 << 31)
    return made


def _is_near(array: Any) -> bool:
    """Whether an array is in the memory of the host. A GPU sends fewer bytes as floats."""
    return is_host(array) or all(d.platform == "cpu" for d in array.sharding.device_set)


def centered(limbs: Any, moduli: Moduli) -> NDArray[np.float64]:
    """The centred x in (-Q/2, Q/2] of residues, to a relative error of 2^-52.

    The time does not depend on x: all limbs are read, and the same operations run for all values.

    Args:
        limbs: Montgomery residues uint32 [*batch, limb, n], limb i in [0, q_i), concrete.
        moduli: the moduli q_i < 2^30 of the limbs, Q their product.

    Returns:
        float64 [*batch, n]. Values beyond 2^929 come out large and with their sign, but wrong.

    Cost: L^2/2 multiply-adds a coefficient for L limbs.
    """
    check_not_forked()
    native = library.functions() if _is_near(limbs) else None
    with concretely():
        if native is not None:
            residues = np.ascontiguousarray(on_host(limbs))
            return native.floats(residues, kernels.float_tables(moduli))
        return np.asarray(_run(_floats(), Table("floats", (moduli,)), limbs))


@lru_cache(maxsize=1)
def _residues() -> Executables:
    return _executables("residues", lambda *given: (kernels.residues(*given),))


@lru_cache(maxsize=1)
def _floats() -> Executables:
    return _executables("floats", lambda *given: (kernels.floats(*given),))


def _executables(identity: str, kernel: Callable[..., tuple[jax.Array, ...]]) -> Executables:
    def run(tables: tuple[Arrays], array: jax.Array) -> tuple[jax.Array, ...]:
        return kernel(tables[0], array)

    return Executables(jax.jit(run, keep_unused=True), ("integers", identity))


def _run(functions: Executables, table: Table, array: jax.Array) -> Any:
    """The result of a kernel with one table on a concrete array."""
    return JaxExecutable(functions, (table,)).bind([array])([array])[0]
