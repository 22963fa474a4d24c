"""`ckks.stack` and `ckks.unstack`: requests side by side along a batch axis, and apart again."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np

from ren.capturing import is_capturing
from ren.core.errors import ParameterError, TracedValueError
from ren.core.ring import Domain
from ren.poly import Poly, realize_polys
from ren.schemes.ckks.active import same_key
from ren.schemes.ckks.ciphertext import Ciphertext


def stack(ciphertexts: Sequence[Ciphertext]) -> Ciphertext:
    """One ciphertext with a new leading batch axis, at the lowest of the levels.

    Operators work on the whole batch at once, and so does `jax.vmap(f)`, with the keys shared.

    Args:
        ciphertexts: under one key, of one length and batch shape: at least one.

    Raises:
        ParameterError: none, or shapes that differ.
        ContextError: two keys.
        TracedValueError: inside a function that `ren.jit` captures.

    Example:
        >>> from ren.schemes import ckks
        >>> ctx = ckks.context(depth=1, n=2**13)
        >>> both = ckks.stack([ctx.encrypt([1.0, 2.0]), ctx.encrypt([3.0, 4.0])])
        >>> (both + 1).decrypt().round(3)
        array([[2., 3.],
               [4., 5.]])
    """
    given = list(ciphertexts)
    _check(given)
    level, first = min(x.level for x in given), given[0]
    dropped = [x.drop_to(level) for x in given]
    layout = first.layout
    for x in given:
        layout = layout.joined(x.layout)
    limbs = _limbs(dropped, "ckks.stack")
    ring = first.params.ring(level)
    c0, c1 = (
        Poly.from_limbs(_stacked([pair[i] for pair in limbs]), ring, Domain.NTT) for i in (0, 1)
    )
    return dataclasses.replace(dropped[0], polys=(c0, c1), layout=layout, seed=None, pending=None)


def unstack(x: Ciphertext) -> list[Ciphertext]:
    """The ciphertexts along the first batch axis: `unstack(stack([a, b]))` is [a, b].

    Raises:
        ParameterError: there is no batch axis.
        TracedValueError: inside a function that `ren.jit` captures.
    """
    batch = x.polys[0].shape[:-2]
    if len(batch) <= (x.layout.blocks > 1):
        raise ParameterError(
            "ckks.unstack got a ciphertext of one vector.",
            "It takes apart the first batch axis, as ckks.stack or an array [batch, k] made it.",
            "Pass a stacked ciphertext.",
        )
    ((first, second),) = _limbs([x], "ckks.unstack")
    ring = x.params.ring(x.level)
    return [
        dataclasses.replace(
            x,
            polys=(
                Poly.from_limbs(first[i], ring, Domain.NTT),
                Poly.from_limbs(second[i], ring, Domain.NTT),
            ),
            seed=None,
            pending=None,
        )
        for i in range(batch[0])
    ]


def _check(given: list[Ciphertext]) -> None:
    if not given or not all(isinstance(x, Ciphertext) for x in given):
        kinds = ", ".join(type(x).__name__ for x in given) or "nothing"
        raise ParameterError(
            f"ckks.stack got {kinds}.",
            "It takes ciphertexts, at least one.",
            "Write ckks.stack([x, y]); arrays are stacked before they are encrypted.",
        )
    first = given[0]
    for x in given[1:]:
        same_key(first.key_id, x.key_id, "ckks.stack")
        ours, theirs = _shape(first), _shape(x)
        if ours != theirs or x.slots != first.slots:
            raise ParameterError(
                f"ckks.stack got vectors of shapes {ours} and {theirs}.",
                "Stacked vectors have one shape, as in numpy.stack.",
                "Pad the shorter ones before they are encrypted.",
            )


def _shape(x: Ciphertext) -> tuple[int | None, ...]:
    """The shape that went in, the length None for a scalar."""
    batch = x.polys[0].shape[:-2]
    if x.layout.blocks > 1:
        batch = batch[:-1]
    return (*batch, x.layout.length)


def _limbs(given: list[Ciphertext], what: str) -> list[tuple]:
    """The limb arrays of both polynomials of each, all run as one program."""
    if is_capturing():
        raise TracedValueError(
            f"{what} was called inside a function that is being captured by ren.jit.",
            "Programs have no operation that changes the batch axes.",
            "Stack and unstack outside, and let the function work on the whole batch.",
        )
    polys = realize_polys([p.ntt() for x in given for p in x.polys])
    return [(polys[i].limbs, polys[i + 1].limbs) for i in range(0, len(polys), 2)]


def _stacked(arrays: list) -> object:
    return np.stack(arrays) if isinstance(arrays[0], np.ndarray) else jnp.stack(arrays)
