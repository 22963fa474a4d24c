"""Axes that JAX maps over and scans along: of a polynomial those of its batch, and no others.

JAX sees the array of limbs alone. Of as many vectors as limbs it would take one axis for the
other. The result would be wrong, without an error.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import FrameType
from typing import Any

import jax
import numpy as np

from ren.core.errors import ParameterError
from ren.core.user_frame import user_line

# Functions of JAX that take values apart.
_ARGUMENTS, _RESULTS, _LOOP = "vmap_f", "flatten_fun_for_vmap", "scan"


def is_mapping(frame: FrameType, polys: Iterable[Any]) -> bool:
    """True for a frame of `jax.vmap` or `jax.lax.scan`, at its arguments or results.

    JAX takes trees of axes apart there too: polynomials that hold axes and no arrays.
    """
    is_named = frame.f_code.co_name in (_ARGUMENTS, _RESULTS, _LOOP)
    if not is_named or not frame.f_globals.get("__name__", "").startswith("jax."):
        return False
    leaves = [getattr(p, "_leaf", p) if getattr(p, "_node", None) is None else p for p in polys]
    return all([hasattr(leaf, "shape") for leaf in leaves])


def refuse_axes(
    value: Any, frame: FrameType, batch: int, what: str, several: str, is_poly: bool = True
) -> None:
    """Raise where JAX maps a value, or scans over it, along an axis that is not one of its batch.

    To be called where JAX takes the value apart.

    Args:
        value: the polynomial, or what holds some.
        frame: that of a function of JAX which takes it apart: see `is_mapping`.
        batch: how many batch axes the value has; its limbs and coefficients follow.
        what: the value in words.
        several: the code of a batch of them.
        is_poly: whether it is one polynomial, of which every batch axis may be mapped. Of others it
            is the first alone: their leaves have different axes behind it.

    Raises:
        ParameterError: another axis.
    """
    if frame.f_code.co_name == _LOOP:
        return _refuse_loop(value, frame, batch, what, several)
    is_result = frame.f_code.co_name == _RESULTS
    tree = frame.f_locals.get("ans" if is_result else "args")
    outer: FrameType | None = frame
    while outer is not None and outer.f_code.co_name != _ARGUMENTS:
        outer = outer.f_back if outer.f_globals.get("__name__", "").startswith("jax.") else None
    if outer is None:
        return
    option = "out_axes" if is_result else "in_axes"
    axes = outer.f_locals.get(option)
    count = batch + is_result  # a result gets the mapped axis
    allowed = {*range(count), *range(-count - 2, -2)} if is_poly else {*range(min(count, 1))}
    for axis in [axes] if isinstance(axes, int) else _axes_of(value, tree, axes):
        if axis is not None and (isinstance(axis, list) or axis not in allowed):
            raise ParameterError(
                f"{user_line()} calls jax.vmap with {option}={axes!r:.40} on {what}.",
                "It maps over batch axes, which come first; of ciphertexts and plaintexts over the "
                "first alone. Limbs and coefficients follow.",
                f"Write 0, or leave {option} out. None keeps what has no batch axis whole."
                if count
                else f"Pass a batch, {several}, or in_axes=None for what stays whole.",
            )


def refuse_collective(frame: FrameType | None, what: str) -> None:
    """Raise where JAX sums or compares over mapped axes or devices: it would do so limb by limb."""
    name = ""
    while frame is not None and frame.f_globals.get("__name__") == "jax._src.lax.parallel":
        name, frame = frame.f_code.co_name, frame.f_back
    if name in _REDUCING:
        raise ParameterError(
            f"{user_line()} calls jax.lax.{name} on {what}.",
            "It computes on the arrays of residues, and knows nothing of their moduli.",
            "Write jax.lax.all_gather(x, axis), and add its batch up: x.sum(axis=0) of numbers.",
        )


def refuse_ravel(frame: FrameType | None, what: str, kind: type | None = None) -> None:
    """Raise where JAX makes one array of residues and floats, which rounds the residues.

    Objects of a `kind` have residues alone. Beside floats they are refused too.
    """
    if frame is None or frame.f_globals.get("__name__") != "jax._src.flatten_util":
        return
    if kind is not None:
        tree = frame.f_locals.get("pytree")
        leaves = jax.tree.leaves(tree, is_leaf=lambda v: isinstance(v, kind))
        others = [getattr(v, "dtype", None) or np.asarray(v).dtype for v in leaves
                  if not isinstance(v, kind)]  # fmt: skip
        if all(dtype.kind in "iub" for dtype in others):
            return
    raise ParameterError(
        f"{user_line()} calls ravel_pytree on {what}.",
        "One array would hold residues and other numbers, as floats: it rounds the residues.",
        "Write x.to_bytes(), or ravel polynomials alone, such as x.polys: they stay integers.",
    )


_REDUCING = ("psum", "pmax", "pmin", "pmean", "psum_scatter", "pargmax", "pargmin")


def _refuse_loop(value: Any, frame: FrameType, batch: int, what: str, several: str) -> None:
    if batch or not any(jax.tree.leaves(_marked(value, frame.f_locals.get("xs")))):
        return
    raise ParameterError(
        f"{user_line()} lets jax.lax.scan or jax.lax.map go along {what} without a batch axis.",
        "They go along the first axis of a batch, one of it a step.",
        f"Pass a batch, {several}; what stays the same at each step is closed over.",
    )


def _axes_of(value: Any, tree: Any, axes: Any) -> list[Any]:
    """The axes at the places of a value in a tree; the tree of axes may end earlier, or later."""
    marked = _marked(value, tree)
    try:
        each = jax.tree.broadcast(
            axes, marked, is_leaf=lambda node: node is None or type(node) is type(value)
        )
    except ValueError:  # JAX tells that they do not fit
        return []
    held = jax.tree.structure(marked).flatten_up_to(each)
    places = zip(jax.tree.leaves(marked), held, strict=True)
    inside = [jax.tree.leaves(axes, is_leaf=_is_none) for is_here, axes in places if is_here]
    # Several axes of one value are a list, which is not an axis.
    return [axis for axes in inside for axis in (set(axes) if len(set(axes)) < 2 else [axes])]


def _marked(value: Any, tree: Any) -> Any:
    """The tree with True where a value is, which it does not take apart, and else False."""
    return jax.tree.map(
        lambda node: node is value, tree, is_leaf=lambda node: node is value or node is None
    )


def _is_none(node: Any) -> bool:
    return node is None
