"""What goes along with every operation on ciphertexts: the check of its bound, and debugging."""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol

from ren.callers import user_frame
from ren.core.errors import MessageBoundWarning
from ren.schemes.ckks.noise import known

if TYPE_CHECKING:
    from ren.schemes.ckks.ciphertext import Ciphertext

P = ParamSpec("P")
Shadow = Callable[..., Any]


class Watcher(Protocol):
    """What looks at operations while `ckks.debug` runs."""

    def seen(self, name: str, shadow: Shadow, operands: tuple[Any, ...], made: Ciphertext) -> None:
        """`made` is the result of the operation `name`, `shadow` the same on arrays of slots."""
        ...


watcher: ContextVar[Watcher | None] = ContextVar("ren_ckks_watcher", default=None)
_is_unchecked: ContextVar[bool] = ContextVar("ren_ckks_unchecked", default=False)


def operation(
    name: str, shadow: Shadow
) -> Callable[
    [Callable[Concatenate[Ciphertext, P], Ciphertext]],
    Callable[Concatenate[Ciphertext, P], Ciphertext],
]:
    """Marks a function of ciphertexts that users' programs are made of.

    Args:
        name: what it is called in warnings and errors.
        shadow: the same function of slots, complex128 [*batch, slots].
    """

    def marked(
        function: Callable[Concatenate[Ciphertext, P], Ciphertext],
    ) -> Callable[Concatenate[Ciphertext, P], Ciphertext]:
        @functools.wraps(function)
        def run(x: Ciphertext, *args: P.args, **kwargs: P.kwargs) -> Ciphertext:
            made = function(x, *args, **kwargs)
            if made is not x and not _is_unchecked.get():
                _check_bound(name, (x, *args), made)
            if (watching := watcher.get()) is not None:
                watching.seen(name, shadow, (x, *args, *kwargs.values()), made)
            return made

        return run

    return marked


@contextmanager
def unchecked() -> Iterator[None]:
    """Leaves bounds of messages unchecked: for what knows its results' bounds and says them."""
    token = _is_unchecked.set(True)
    try:
        yield
    finally:
        _is_unchecked.reset(token)


def _check_bound(name: str, operands: tuple[Any, ...], made: Ciphertext) -> None:
    """Warns where the tracked bound of a message leaves the range, and those before it did not.

    Under `ren.jit` the bounds are those of the call that is captured, so that a capture warns once;
    under a JAX transformation they are not known.
    """
    limit, bound = 2.0 ** (made.params.integer_bits - 1), _bound(made)
    if bound is None or not bound > limit * (1 + 1e-5):  # NaN where it is not known
        return
    before = [_bound(o) for o in operands if hasattr(o, "noise")]
    if any(b is not None and b > limit * (1 + 1e-5) for b in before):
        return
    warn_of_bound(
        f"{name}: the message may reach 2^{math.log2(bound):.1f}, beyond 2^"
        f"{made.params.integer_bits - 1}, what integer_bits leaves room for; at level 0 it would "
        "wrap around. Where you know better, say so with .within(bound)."
    )


def warn_of_bound(text: str) -> None:
    """A MessageBoundWarning at the user's own line."""
    frame = user_frame()
    if frame is None:
        return
    warnings.warn_explicit(
        text,
        MessageBoundWarning,
        frame.f_code.co_filename,
        frame.f_lineno,
        frame.f_globals.get("__name__"),
        frame.f_globals.setdefault("__warningregistry__", {}),
    )


def _bound(x: Any) -> float | None:
    noise = known(x.noise)
    if noise is None:
        return None
    return float(noise[0] if noise.ndim == 1 else noise[..., 0].max())
