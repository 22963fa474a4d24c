"""Donation: buffers that a caller gave away, and that are never read again.

It is Ren's own state: every handle on a donated buffer raises, whether XLA used the buffer or not.
A JAX array carries the state itself, since deleting it deletes every array on its buffer. NumPy
arrays, of the python device, are remembered here.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from ren.core.errors import DonatedBufferError
from ren.core.user_frame import user_line
from ren.lowering.devices.devices import is_host, is_tracer, is_tracing

# Memory of donated NumPy arrays, (address, bytes) -> the array that owns it. All of it, or whole
# views of it, count as donated. Weak: an entry goes with its memory.
_given: weakref.WeakValueDictionary[tuple[int, int], np.ndarray] = weakref.WeakValueDictionary()


def is_donated(array: Any) -> bool:
    """True for a limb array whose buffer was given away; False for other values."""
    if isinstance(array, np.ndarray):
        return bool(_given) and _given.get(_extent(array)) is _owner(array)
    # Whatever else JAX stores as a leaf (a shape, a sentinel, a tracer) has no buffer.
    is_array = isinstance(array, jax.Array) and not isinstance(array, jax.core.Tracer)
    return is_array and array.is_deleted()


def check_not_donated(*arrays: Any, what: str = "a polynomial") -> None:
    """Raises DonatedBufferError when one of `arrays`, the buffer of `what`, was given away."""
    if any(map(is_donated, arrays)):
        raise DonatedBufferError(
            f"{user_line()} reads {what} whose buffer was donated.",
            "A function under ren.jit with donate_argnames may reuse the buffers of those "
            "arguments for its results.",
            "Use the result of that call, leave the argument out of donate_argnames, or keep a "
            "copy before it: jax.tree.map(jnp.copy, x).",
        )


def mark(arrays: Iterable[Any], results: Sequence[Any] = ()) -> tuple[Any, ...]:
    """Gives the buffers of `arrays` up, for good.

    Args:
        arrays: the donated arrays of a call that has been dispatched; XLA may have taken some.
        results: what the call made.

    Returns:
        The results. One that stands in a buffer given up is copied out of it, as an argument that
        was handed through.
    """
    left = [a for a in arrays if not is_donated(a)]
    kept = tuple(copied(r) if any(is_shared(r, a) for a in left) else r for r in results)
    for array in left:
        if is_host(array):
            _given[_extent(array)] = _owner(array)
        else:
            array.delete()
    return kept


def may_donate(inputs: Sequence[Any], positions: Iterable[int]) -> bool:
    """Whether XLA may take the buffers of the inputs at `positions` in a call with these inputs.

    Args:
        inputs: all arrays of the call, also those that the plan holds.
        positions: the inputs that the caller gives away.

    False when one of them is a tracer or while JAX is tracing. False on the python device, over
    several devices, gone already, or in the same buffer as another input. A JAX array over a user's
    NumPy memory is no danger: XLA copies what it does not own. Nor are polynomials that were
    realized to such a buffer: the realization map forgets donated ones.
    """
    given = set(positions)
    if is_tracing():
        return False
    taken: set[int] = set()
    for i in given:
        found = _addresses(inputs[i])
        if len(found) != 1 or not taken.isdisjoint(found):
            return False
        taken.update(found)
    rest = (array for i, array in enumerate(inputs) if i not in given)
    return all(taken.isdisjoint(_addresses(array)) for array in rest)


def is_shared(one: Any, other: Any) -> bool:
    """True when two arrays of one kind stand in one buffer, or when JAX cannot tell."""
    if one is other:
        return True
    if is_host(one) or is_host(other):
        return is_host(one) and is_host(other) and _extent(one) == _extent(other)
    first, second = _addresses(one), _addresses(other)
    return not (first and second) or not set(first).isdisjoint(second)


def _addresses(array: Any) -> tuple[int, ...]:
    """Addresses of the buffers of a JAX array; none where JAX cannot tell any."""
    if is_host(array) or is_tracer(array) or array.is_deleted():
        return ()
    try:
        return (array.unsafe_buffer_pointer(),)
    except RuntimeError:  # over several devices, or not told on this platform
        pass
    try:
        return tuple(s.data.unsafe_buffer_pointer() for s in array.addressable_shards)
    except RuntimeError:
        return ()


def _extent(array: np.ndarray) -> tuple[int, int]:
    return array.__array_interface__["data"][0], array.nbytes


def _owner(array: np.ndarray) -> np.ndarray:
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def copied(array: Any) -> Any:
    """The same values in a buffer of their own."""
    return array.copy() if is_host(array) else jnp.copy(array)
