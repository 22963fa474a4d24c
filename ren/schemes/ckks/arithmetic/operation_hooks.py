"""Hooks that run after each operation on ciphertexts: checks of its result, and debugging."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

import attrs
import numpy as np

from ren.core.errors import TransparentWarning
from ren.core.user_frame import user_line
from ren.poly.poly import is_zero_program
from ren.poly.symbolic import Symbolic, derived, is_sampling
from ren.schemes.ckks.encoding.ciphertext_data import CiphertextData, CiphertextT
from ren.schemes.ckks.noise import bounds as noises
from ren.schemes.ckks.noise import range_checks
from ren.schemes.ckks.noise.reports import (
    bound_of,
    collect_bits,
    is_planning,
    largest_message,
    limit_text,
    report,
    report_count,
    warn,
)
from ren.schemes.ckks.parameters.parameters import Parameters
from ren.schemes.rlwe.user_call import called

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])
Shadow = Callable[..., Any]


class Watcher(Protocol):
    """Observes operations while `ckks.debug` runs."""

    def seen(self, name: str, shadow: Shadow, operands: tuple[Any, ...], result: Any) -> None:
        """`result` is the result of the operation `name`, `shadow` the same on arrays of slots."""
        ...


watcher: ContextVar[Watcher | None] = ContextVar("ren_ckks_watcher", default=None)
_in_circuit: ContextVar[bool] = ContextVar("ren_ckks_circuit", default=False)


def operation(
    name: str, shadow: Shadow, is_checked: bool = True
) -> Callable[
    [Callable[Concatenate[CiphertextT, P], CiphertextT]],
    Callable[Concatenate[CiphertextT, P], CiphertextT],
]:
    """Mark a function of ciphertexts as one operation of users' programs.

    Args:
        name: of the operation, in warnings and errors.
        shadow: the same function of slots, complex128 [*batch, slots].
        is_checked: whether its result is checked: its bound, and that it is not transparent.
    """

    def marked(
        function: Callable[Concatenate[CiphertextT, P], CiphertextT],
    ) -> Callable[Concatenate[CiphertextT, P], CiphertextT]:
        @functools.wraps(function)
        def run(x: CiphertextT, *args: P.args, **kwargs: P.kwargs) -> CiphertextT:
            result = function(x, *args, **kwargs)
            return _seen(name, shadow, (x, *args, *kwargs.values()), result, is_checked)

        return run

    return marked


def primitive(name: str, shadow: Shadow) -> Callable[[F], F]:
    """Mark a method of `Primitives` as an `operation` of its other arguments."""

    def marked(method: F) -> F:
        @functools.wraps(method)
        def run(self: Any, *operands: Any) -> Any:
            return _seen(name, shadow, operands, method(self, *operands))

        return run  # type: ignore[return-value]

    return marked


def _seen(
    name: str,
    shadow: Shadow,
    operands: tuple[Any, ...],
    result: CiphertextT,
    is_checked: bool = True,
) -> CiphertextT:
    """The result of an operation, after the checks and the observer."""
    if is_checked and result is not operands[0] and not _in_circuit.get():
        result = _with_checked_bound(name, operands, result)
        if is_zero_program(result.polys[-1]):
            result = _with_checked_zero(name, operands, result)
    if (watching := watcher.get()) is not None:
        watching.seen(name, shadow, operands, result)
    return result


def circuit(name: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Mark a function that is made of many operations: its result is checked, not theirs.

    Inside, rotations are cyclic over all slots, and numbers are constants of the program.

    Args:
        name: of the function, in warnings and errors.
    """

    def marked(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def run(*args: P.args, **kwargs: P.kwargs) -> R:
            if _in_circuit.get():
                return function(*args, **kwargs)
            before = report_count()
            with within_circuit(), called(name):
                result = function(*args, **kwargs)
            if hasattr(result, "polys") and not any(result is a for a in args):
                is_told = report_count() != before
                checked = _with_checked_bound(name, args, result, is_told)  # type: ignore[arg-type]
                return _with_checked_zero(name, args, checked)  # type: ignore[return-value]
            return result

        return run

    return marked


@contextmanager
def within_circuit() -> Iterator[None]:
    """Leave results of single operations unchecked, as inside of a `circuit`."""
    token = _in_circuit.set(True)
    try:
        yield
    finally:
        _in_circuit.reset(token)


def in_circuit() -> bool:
    """True inside a function that is marked as a circuit."""
    return _in_circuit.get()


# ------------------------------------------------------------------- bounds


def _with_checked_bound(
    name: str, operands: tuple[Any, ...], result: CiphertextT, is_told: bool = False
) -> CiphertextT:
    """`result`; a tracked bound that leaves the range of its level, and not before, is reported.

    So is noise that becomes unknown, unless that was done (`is_told`). Under `ren.jit` the check is
    a step of the program, which takes the bounds of each replay. Under a JAX transformation nothing
    can be reported: noise beyond the range becomes unknown, and `decrypt` tells.
    """
    bound = bound_of(result)
    if is_planning() and not (bound is not None and math.isnan(bound)):
        if bound is not None:
            collect_bits(bound, result.params, result.level)
        return result
    limit = largest_message(result.params, result.level)
    ciphertexts = [o for o in operands if hasattr(o, "polys")]
    if bound is not None and not isinstance(result.noise, Symbolic):
        if not bound <= limit:
            before = [(o.noise, largest_message(o.params, o.level)) for o in ciphertexts]
            range_checks.checked(
                result.noise, limit, before, _Told(name, result.params, result.level, is_told)
            )
        return result
    before = [(o.noise, largest_message(o.params, o.level)) for o in ciphertexts]
    if isinstance(result.noise, Symbolic):  # a tracer reports nothing
        name = f"{name} ({user_line()})"
    told = _Told(name, result.params, result.level, is_told)

    def step(noise: noises.Noise) -> noises.Noise:
        return range_checks.checked(noise, limit, before, told)

    pending = result.pending and result.pending.map_noise(step)
    return dataclasses.replace(result, noise=step(result.noise), pending=pending)


@attrs.frozen
class _Told:
    """Report that the bound of a result is beyond what its level holds, or unknown."""

    name: str
    params: Parameters
    level: int
    is_told: bool

    def __call__(self, bound: float) -> None:
        if not math.isnan(bound):
            report(
                f"{self.name}: the message may reach 2^{math.log2(bound):.2f}, beyond "
                f"{limit_text(self.params, self.level)}; beyond it a message wraps around.",
                self.params,
            )
        elif not self.is_told:
            report(
                f"{self.name}: bound or error pass 2^60, or left the interval of a function; "
                "from here on they are unknown.",
                self.params,
            )


def check_readable(x: CiphertextData, what: str) -> None:
    """Report a ciphertext whose tracked bound leaves the range of its level, before it is read.

    One whose error is unknown is reported too: its reader may not have seen the reason.
    """
    if math.isnan(bound_of(x) or 0):
        report(
            f"{what}: the error of these numbers is unknown; a bound left the interval of a "
            "function, or 2^60, or the range of a level under JAX, where they were computed.",
            x.params,
            "Pass a larger interval there, or state a bound that you know: ct.within(bound).",
        )
    elif is_beyond(x):
        report(
            f"{what}: the message may reach 2^{math.log2(bound_of(x) or 1):.2f}, beyond "
            f"{limit_text(x.params, x.level)}; what is read may have wrapped around.",
            x.params,
        )


def is_beyond(x: Any) -> bool:
    """Whether the tracked bound of a ciphertext leaves the range of its level."""
    bound = bound_of(x)
    return bound is not None and bound > largest_message(x.params, x.level) * range_checks.TOLERANCE


# ------------------------------------------------------------------- transparent results


def is_transparent(x: CiphertextData) -> bool:
    """Whether the program alone shows that all polynomials but c0 are zero.

    What has run is a buffer, and shows nothing.
    """
    return all(is_zero_program(p) for p in x.polys[1:])


def _with_checked_zero(name: str, operands: tuple[Any, ...], result: CiphertextT) -> CiphertextT:
    """`result`; one that is transparent, where none of its operands was, warns.

    Under `ren.jit` that is a step of the program, at each replay.
    """
    if not is_transparent(result) or is_planning():
        return result
    if any(is_transparent(o) for o in operands if hasattr(o, "polys")):
        return result
    noise = derived(functools.partial(_told_transparent, name), result.noise)
    return result if noise is result.noise else dataclasses.replace(result, noise=noise)


def told_if_zero(noise: Any, factor: Any, scale: float, name: str) -> Any:
    """Noise of a product with a number or an array that is known at each call: a zero warns there.

    Args:
        noise: of the product.
        factor: a symbol; anything else is known now, and shows in the program.
        scale: at which it is encoded.
        name: of the operation.
    """
    if not isinstance(factor, Symbolic) or in_circuit():
        return noise
    return derived(functools.partial(_told_if_zero, scale, name), noise, factor)


def _told_if_zero(scale: float, name: str, noise: Any, factor: Any) -> Any:
    # No coefficient is above scale * max |factor|.
    is_zero = not factor if isinstance(factor, int) else np.max(np.abs(factor)) * scale <= 0.5
    return _told_transparent(name, noise) if is_zero else noise


def _told_transparent(name: str, noise: Any) -> Any:
    if not is_sampling():
        _warn_transparent(name)
    return noise


def _warn_transparent(name: str) -> None:
    warn(
        f"{name}: the result is transparent. Its second polynomial c1 is zero, so that everyone "
        "can read it without a key. Add ctx.encrypt(0.0) to it, and it is like any other "
        "ciphertext.",
        TransparentWarning,
    )
