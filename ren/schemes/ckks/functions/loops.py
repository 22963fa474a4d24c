"""`ckks.while_loop`: a loop whose condition is encrypted, as a fixed number of masked steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import jax

from ren.core.errors import OperandError, ParameterError, kind_of
from ren.schemes.ckks.arithmetic.argument_checks import (
    as_integer,
    check_ciphertext,
    check_function,
)
from ren.schemes.ckks.encoding.ciphertext_data import CiphertextData
from ren.schemes.ckks.functions.logic import check_truth, where

State = TypeVar("State")


def while_loop(
    cond: Callable[[State], Any], body: Callable[[State], State], x: State, max_steps: int
) -> State:
    """The state after `body` ran in each slot for as long as its condition holds there.

    No loop can end by an encrypted condition. So there are `max_steps` steps x = where(cond(x),
    body(x), x). A slot where the condition is 0 stays as it is. A step takes the
    levels of cond and body, whichever are more, and one. `ckks.plan` finds the depth of all steps
    before anything runs.

    Where the condition holds after `max_steps` steps too, the loop is not at its end:
    `cond(result)` is 1 in such slots. The tracked bound of a step is the larger one of its two
    branches. State a tighter one in the body, or in the interval of the condition.

    Args:
        cond: from the state to encrypted truth, as `lambda x: x < 10`. It is 1 in slots that go on.
        body: from the state to the next one, of the same structure.
        x: the state: a ciphertext, or a pytree of them.
        max_steps: a number from 1 on; a program has so many copies of cond and body.

    Raises:
        OperandError: no ciphertext in the state, or a condition that is not encrypted truth.
        ParameterError: another structure, or no step.
        DepthError: too few levels.

    Example:
        >>> import numpy as np
        >>> from ren.schemes import ckks
        >>> def doubled(x):
        ...     return ckks.while_loop(
        ...         lambda v: ckks.math.less(v, 1, (0, 4), gap=0.5, precision=6),
        ...         lambda v: (v * 2).within(0, 2.5), x, max_steps=2)
        >>> ckks.plan(doubled, ckks.spec(3, bound=2)).depth
        14
    """
    check_function(cond, "ckks.while_loop()")
    check_function(body, "ckks.while_loop()")
    steps = as_integer(max_steps, "ckks.while_loop()")
    if steps < 1:
        raise ParameterError(
            f"ckks.while_loop() got max_steps={steps}.",
            "It is the number of steps that are computed, one at least.",
            "Pass the most steps that a slot can take.",
        )
    check_ciphertext(next(iter(_leaves(x)[0]), None), "ckks.while_loop()", *_leaves(x)[0])
    for _ in range(steps):
        x = _step(cond(x), body(x), x)
    return x


def _step(going_on: Any, after: State, before: State) -> State:
    if not isinstance(going_on, CiphertextData):
        raise OperandError(
            f"The condition of ckks.while_loop() gave {kind_of(going_on)}.",
            "It gives encrypted truth, as x < 10 of a ciphertext x does.",
            "Write a Python loop for a condition in the clear.",
        )
    check_truth(going_on)
    (new, made), (old, given) = _leaves(after), _leaves(before)
    if made != given:
        raise ParameterError(
            f"The body of ckks.while_loop() gave {made}, and got {given}.",
            "A step keeps the structure of the state.",
            "Return as many ciphertexts, in the same containers.",
        )
    chosen = [a if a is b else where(going_on, a, b) for a, b in zip(new, old, strict=True)]
    return jax.tree.unflatten(given, chosen)


def _leaves(state: Any) -> tuple[list[Any], Any]:
    return jax.tree.flatten(state, is_leaf=lambda v: isinstance(v, CiphertextData))
