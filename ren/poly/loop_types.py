"""Loops and branches of JAX whose types do not agree, in words of polynomials.

JAX takes carries and results apart again where it tells of a difference, and only there. So the
classes of Ren can raise their own error, also where no function of Ren is called.
"""

from __future__ import annotations

import re
from types import FrameType

from ren.core.errors import LoopError
from ren.core.user_frame import user_line
from ren.poly.realization import capture_state, with_capture

# Modules of JAX that take trees apart for others.
FLATTENING = ("jax._src.tree_util", "jax._src.flattree", "jax._src.api_util")
_COMPARING = ("jax._src.lax.control_flow.loops", "jax._src.lax.control_flow.conditionals",
              "jax._src.lax.control_flow.common")  # fmt: skip
_CHECKS = ("_check_carry_type", "_check_branch_outputs", "_check_tree_and_avals")
_INNER = ("<listcomp>", "<genexpr>")  # frames of their own before Python 3.12

# What JAX says of two types of one leaf: carries of loops, and results of branches.
_LEAF = re.compile(r"(?:carry component |The output at path |_fun output at )((?:<.*?>|\S)+)")
_INSIDE = re.compile(r"(\[<flat|\.polys|\.limbs|\.noise).*")  # of a value of Ren
_TYPES = re.compile(r"pytree metadata (\(.*?\)) but .*?pytree metadata (\(.*?\)), so", re.DOTALL)
_SHAPES = re.compile(r"has type (\w+\[.*?\]).*? has type (\w+\[.*?\])", re.DOTALL)
_DIFFERENT = "they differ"


def mismatch(error: TypeError, line: str) -> LoopError | None:
    """The error of JAX about types that do not agree, in words of polynomials; None for others.

    `line` is the user's, `file:line`. The fact of the error is a word for the difference.
    """
    text = str(error)
    if _DIFFERENT not in text:
        return None
    leaf = _LEAF.search(text)
    is_branch = "branch" in text.partition("\n")[0]
    path = _INSIDE.sub("", leaf[1]) if leaf else ""
    named = f" in {path}" if path else ""
    what = (
        "branches of JAX whose results differ" if is_branch else "a loop of JAX whose carry changes"
    )
    change, in_loops, in_branches = _change(text, leaf is None or path == leaf[1])
    return LoopError(
        f"{line} runs {what}{named}: {change}.",
        "A body or a branch is compiled once, for one type: ring, domain, level, layout and batch.",
        in_branches if is_branch else in_loops,
        change.partition(" ")[0],
    )


def refuse_mismatch(frame: FrameType | None) -> None:
    """Raise where JAX tells of types that do not agree.

    To be called where JAX takes a value apart.

    Args:
        frame: the first caller outside of the modules `FLATTENING`.

    Raises:
        LoopError: the carry of a loop changes its type, or branches differ.
    """
    while frame is not None and frame.f_code.co_name in _INNER:
        frame = frame.f_back
    if frame is None or frame.f_code.co_name not in _CHECKS:
        return
    if frame.f_globals.get("__name__") not in _COMPARING or capture_state().is_comparing:
        return
    code, given = frame.f_code, frame.f_locals
    try:
        with with_capture(is_comparing=True):  # the same check once more, for its text
            frame.f_globals[code.co_name](*[given[n] for n in code.co_varnames[: code.co_argcount]])
    except TypeError as error:
        told = mismatch(error, user_line())
    except Exception:  # the check is another one in this version of JAX, which tells by itself
        return
    else:
        return
    if told is not None:
        raise told


def _change(text: str, is_array: bool) -> tuple[str, str, str]:
    """The difference of two types, or arrays of the user; what to do in loops, and in branches."""
    if types := _TYPES.search(text):
        for pattern, name, *remedies in _KINDS:
            one, other = (re.search(pattern, t) for t in types.groups())
            if one and other and one[1] != other[1]:
                return f"{name} {one[1]} and {other[1]}", remedies[0], remedies[-1]
    if shapes := _SHAPES.search(text):
        change = f"arrays {shapes[1]} and {shapes[2]}"
        in_loops, in_branches = _ARRAYS if is_array and "uint32" not in change else _BATCH
        return change, in_loops, in_branches
    if "numbers of children do not match" in text:
        return "a constant polynomial, which has no array, and another", _CONSTANT, _CONSTANT
    return " ".join(text.split()).rstrip("."), _ONE_TYPE, _ONE_TYPE


_ONE_TYPE = "Make both of one type."
_CONSTANT = "Write Poly.const(c, ring).contiguous(), which has one."
_BATCH = "Give the carry its batch axes before the loop.", "Give both results the same batch axes."
_ARRAYS = (
    "An array keeps its shape and its type in a loop: array.astype(dtype) at the end of the body.",
    "Give both results arrays of one shape and one type.",
)
# Pattern of a difference, name, what to do in loops, and in branches.
_KINDS = (
    (
        r"Domain\.(\w+)", "domain",
        "Write x.ntt() or x.intt() at the end of the body, and give the loop that domain.",
        "Write x.ntt() or x.intt() in one of them.",
    ),
    (
        r"^\((\d+), Layout", "level",
        "Write x.drop_to(level) before the loop where the body adds what is lower. A product of "
        "the carry takes a level at each step: end the body with x.bootstrap(), and drop the carry "
        "to the level that this gives before the loop. Or write a loop of Python: it is unrolled.",
        "Write x.drop_to(level) in the branch whose result is higher.",
    ),
    (
        r"(RingSpec\(.*?\)\)?)", "ring",
        "Write x.to_ring(ring) or x.rescale(ring) before the loop, and not in the body.",
        "Write x.to_ring(ring) or x.rescale(ring) in one of them.",
    ),
    (
        r"tail=(\w+)", "slots beyond the length that are",
        "Clear what the body adds, by x.mask(), or add something like it to the carry before the "
        "loop. Where it rotates the carry itself, write a loop of Python.",
        "Clear them in each branch, by x.mask().",
    ),
    (
        r"'(bool|u?int\d+|float\d+|complex\d+)'", "type of the numbers",
        "State it at the end of the body, ckks.typed(x, dtype), or behind the loop alone.",
        "State one in each, ckks.typed(x, dtype).",
    ),
    (
        r"\), (?:None|Fraction\(.*?\)), (Span\(.*?\)|None),", "interval of the numbers",
        "State one at the end of each, x.within(low, high), or forget it: x.within(None).",
    ),
    (
        r"Layout\((.*?)\)", "layout", "Reshape and pack before the loop, and not in the body.",
        "Reshape and pack the result of both, behind them.",
    ),
)  # fmt: skip
