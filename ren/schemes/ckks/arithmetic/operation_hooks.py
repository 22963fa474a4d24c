"""Hooks that run after each operation on ciphertexts: checks of its result, and debugging."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple, TypeVar

import attrs
import jax
import numpy as np
from numpy.typing import NDArray

from ren.core.context_values import Changed, ContextValue
from ren.core.errors import DepthError, PrecisionError, TransparentWarning
from ren.core.user_frame import user_line
from ren.lowering.devices.devices import is_tracer
from ren.poly.key_ids import called
from ren.poly.poly import is_zero_program
from ren.poly.symbolic import Symbolic, derived, is_sampling
from ren.schemes.ckks.arithmetic.number_types import TypeRule, of_operands, with_type
from ren.schemes.ckks.encoding.ciphertext_data import CiphertextData, CiphertextT, with_fields
from ren.schemes.ckks.noise import bounds as noises
from ren.schemes.ckks.noise import range_checks
from ren.schemes.ckks.noise.around import Around, Circuit, around, with_around
from ren.schemes.ckks.noise.range_checks import (
    bound_of,
    collect_bits,
    is_planning,
    limit_of,
    limit_text,
    report,
    warn,
)
from ren.schemes.ckks.noise.sigmas import power_above

F = TypeVar("F", bound=Callable[..., Any])
Shadow = Callable[..., Any]


@attrs.frozen(cache_hash=True)
class Settings:
    """Settings that a program depends on besides its operands: static, a part of its key.

    Attributes:
        manual: whether operators do what they say and no more: see `ckks.manual`.
        intervals: the settings of `ckks.intervals`; None outside of all.
    """

    manual: bool = False
    intervals: Any = None


_AUTOMATIC = Settings()
_settings: ContextVar[Settings] = ContextVar("ren_ckks_settings", default=_AUTOMATIC)
# The same for JAX, of what it traces without a ciphertext among the arguments. It is of one thread.
_settings_in_jax = jax.make_user_context()


def settings() -> Settings:
    """The settings of the current thread or task."""
    return _settings.get()


@contextmanager
def with_settings(**changes: Any) -> Iterator[None]:
    """Change settings for what runs inside."""
    made = attrs.evolve(_settings.get(), **changes)
    with ContextValue(_settings, made), _settings_in_jax(made):
        yield


class Lacking(NamedTuple):
    """The levels that an operation lacks, where ciphertexts are bootstrapped automatically.

    Attributes:
        needed: levels that it takes.
        floor: the level that none of them may pass.
        has_cleared: whether leftovers of operands take one more.
    """

    needed: int
    floor: int
    has_cleared: bool = False


def ciphertexts_in(value: Any) -> Iterator[CiphertextData]:
    """The ciphertexts among arguments, also of lists and tuples there."""
    if isinstance(value, CiphertextData):
        yield value
    elif type(value) in (list, tuple):
        for v in value:
            yield from ciphertexts_in(v)


def with_levels(function: F) -> F:
    """Mark a function that is called again, with operands that are bootstrapped, if levels lack.

    Operations and circuits are. A function that encodes plaintexts for the level of an operand, and
    calls them then, has to be marked itself.
    """

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except DepthError as error:
            x = next(ciphertexts_in(args), None)
            given = None
            if x is not None and isinstance(error.fact, Lacking):
                given = x._with_levels(args, error.fact)
            if given is None:
                raise
        return function(*given, **kwargs)

    return run  # type: ignore[return-value]


def operation(
    name: str, shadow: Shadow, is_checked: bool = True, is_method: bool = False
) -> Callable[[F], F]:
    """Mark a function of ciphertexts as one operation of users' programs.

    Args:
        name: of the operation, in warnings and errors.
        shadow: the same function of slots, complex128 [*batch, slots].
        is_checked: whether its result is checked: its bound, and that it is not transparent.
        is_method: whether its first argument is not an operand.
    """

    def marked(function: F) -> F:
        function = with_levels(function)

        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            result = function(*args, **kwargs)
            operands = (*args[is_method:], *kwargs.values())
            if is_checked and result is not operands[0] and not in_circuit():
                result = _checked(name, operands, result)
            if (observe := around().watcher) is not None:
                observe(name, shadow, operands, result)
            return result

        return run  # type: ignore[return-value]

    return marked


def circuit(name: str, rule: TypeRule | None = None, operands: int = 1) -> Callable[[F], F]:
    """Mark a function `name` that is made of many operations: its result is checked, not theirs.

    Inside, rotations are cyclic over all slots, and numbers are constants of the program.

    Args:
        name: of the circuit, in warnings and errors.
        rule: gives the type of the result's numbers, by that of the operands. Without one the
            function does.
        operands: so many of the first arguments.
    """

    def marked(function: F) -> F:
        names = tuple(inspect.signature(function).parameters)[:operands]
        function = with_levels(function)

        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            if in_circuit():
                return function(*args, **kwargs)
            own = Circuit()
            with with_around(circuit=own), called(name):
                result = function(*map(_in_order, args), **kwargs)
            if not isinstance(result, CiphertextData):
                return result
            if not any(result is a for a in args):
                result = _checked(name, args, result, own.is_reported)
            if rule is None:
                return result
            given = {**kwargs, **dict(zip(names, args, strict=False))}
            return with_type(result, of_operands(rule, *(given[key] for key in names)))

        return run  # type: ignore[return-value]

    return marked


def _in_order(value: Any) -> Any:
    return value._in_order() if isinstance(value, CiphertextData) else value


def in_circuit() -> bool:
    """True inside a function that is marked as a circuit."""
    return around().circuit is not None


def has_cleared() -> bool:
    """True where the circuit that runs has cleared leftovers, by a level of an operand."""
    return (circuit := around().circuit) is not None and bool(circuit.cleared)


def note_cleared(x: CiphertextData) -> None:
    """Keeps for `has_cleared` that leftovers of `x` are cleared."""
    if (circuit := around().circuit) is not None:
        circuit.cleared.append(x)


def numbers_of_user() -> Changed[Around]:
    """In a circuit: numbers in the clear that follow are operands of the user, and not public."""
    return with_around(is_of_user=True)


def is_of_program() -> bool:
    """True where a number in the clear is a constant of a circuit: its modulus is public."""
    return in_circuit() and not around().is_of_user


# ------------------------------------------------------------------- bounds


def _checked(
    name: str, operands: tuple[Any, ...], result: CiphertextT, is_told: bool = False
) -> CiphertextT:
    """`result` with its bound and its last polynomial checked; what is recorded when it is made.

    A bound that is known by then is checked now.
    """
    later = result.later
    if later is not None and later.bound is not None and later.bound <= limit_of(result):
        if is_planning():
            collect_bits(later.bound, result.params, result.level)
        return result
    if later is not None and later.bound is None:

        def checked(made: CiphertextData) -> CiphertextData:
            fields = {name: getattr(made, name) for name in ("polys", "noise", "pending")}
            return _checked(name, operands, with_fields(result, later=None, **fields), is_told)

        return with_fields(result, later=later.map(checked))
    result = _with_checked_bound(name, operands, result, is_told)
    if is_zero_program(result.polys[-1]):
        result = _with_checked_zero(name, operands, result)
    return result


def _with_checked_bound(
    name: str, operands: tuple[Any, ...], result: CiphertextT, is_told: bool = False
) -> CiphertextT:
    """`result`; a tracked bound that leaves the range of its level, and not before, is reported.

    So is noise that becomes unknown, unless that was done (`is_told`). Under `ren.jit` the check is
    a step of the program, which takes the bounds of each replay. Under a JAX transformation nothing
    can be reported: noise beyond the range becomes unknown, and `decrypt` tells.
    """
    bound = bound_of(result)
    params, level, own_scale = result.params, result.level, result.own_scale
    if is_planning() and not (bound is not None and math.isnan(bound)):
        if bound is not None:
            collect_bits(bound, params, level)
        return result
    limit = limit_of(result)
    if isinstance(result.noise, Symbolic):  # a tracer reports nothing
        name, bound = f"{name} ({user_line()})", None
    if bound is not None and bound <= limit:
        return result
    ciphertexts = [o for o in operands if isinstance(o, CiphertextData)]
    before = [(o.noise, limit_of(o)) for o in ciphertexts]

    def told(largest: float) -> None:
        if not math.isnan(largest):
            report(
                f"{name}: the message may reach 2^{math.log2(largest):.2f}, beyond "
                f"{limit_text(params, level, own_scale)}; beyond it a message wraps around.",
                params,
            )
        elif not is_told:
            report(
                f"{name}: bound or error pass 2^60, or left the interval of a function; "
                "from here on they are unknown.",
                params,
                "Pass a larger interval, scale the values down, or state a bound that you know: "
                "ct.within(bound).",
            )

    def step(noise: noises.Noise) -> noises.Noise:
        return range_checks.checked(noise, limit, before, told)

    noise = step(result.noise)
    if bound is not None:
        return result
    pending = result.pending and result.pending.map_noise(step)
    return with_fields(result, noise=noise, pending=pending)


def check_readable(x: CiphertextData, what: str) -> None:
    """Report a ciphertext whose tracked bound leaves the range of its level, before it is read.

    One whose error is unknown is reported too: its reader may not have seen the reason.
    """
    bound = bound_of(x) or 0
    if math.isnan(bound):
        report(
            f"{what}: the error of these numbers is unknown; a bound left the interval of a "
            "function, or 2^60, or the range of a level under JAX, where they were computed. Or "
            "ckks.from_polys() got none.",
            x.params,
            "Pass a larger interval there, or state a bound that you know: ct.within(bound); for "
            "polynomials ckks.from_polys(..., bound=, error=).",
        )
    elif bound > limit_of(x) * range_checks.TOLERANCE:
        report(
            f"{what}: the message may reach 2^{math.log2(bound):.2f}, beyond "
            f"{limit_text(x.params, x.level, x.own_scale)}; what is read may have wrapped around.",
            x.params,
        )


# The tracked bound is proven, and its error is below 6.5 deviations. So a number beyond it shows
# changed limbs, or a false promise of the user. The factor is for promises: such numbers are right.
_BEYOND = 2.0**10


def check_read(x: CiphertextData, slots: NDArray[np.complex128], what: str) -> None:
    """Compare all slots of `x`, and the numbers among them, with the tracked bound.

    Changed limbs decrypt to coefficients that are uniform below the modulus. Their slots have the
    deviation 2 sqrt(slots / 6) times the range of the level. At level 0 that may be less than
    `_BEYOND` times the bound. Leftovers may pass a bound that `within` stated, never the range.

    Raises:
        PrecisionError: numbers far beyond the bound, or slots that look uniform.
    """
    told = x.estimate
    most = told.message_bound + told.error_bound
    if not math.isfinite(most):  # which `check_readable` reported
        return
    largest, anywhere = (float(np.abs(z).max(initial=0)) for z in (x.layout.unpacked(slots), slots))
    # NaN is what coefficients beyond floats decode to.
    if largest <= _BEYOND * most and anywhere <= max(2, math.sqrt(x.slots / 6)) * limit_of(x):
        return
    raise PrecisionError(
        f"{what} read numbers up to {power_above(anywhere)}; by the tracked bound they "
        f"are at most {most:.4g}.",
        "The limbs were changed outside of Ren's operations, as by arithmetic on leaves in "
        "jax.tree.map, or are damaged, or under another key. Or a bound that you stated is false.",
        "Compute with ciphertexts, x - 0.1 * g, and state bounds that hold: x.within(bound).",
    )


# ------------------------------------------------------------------- transparent results


def is_transparent(x: CiphertextData) -> bool:
    """Whether the program, as far as it has not run, shows that all polynomials but c0 are zero."""
    return all(is_zero_program(p) for p in x.polys[1:])


def _with_checked_zero(name: str, operands: tuple[Any, ...], result: CiphertextT) -> CiphertextT:
    """`result`; one that is transparent, where no operand was, warns: at each replay of a jit."""
    given = (o for o in operands if isinstance(o, CiphertextData))
    if not is_transparent(result) or any(map(is_transparent, given)):
        return result
    noise = told_transparent(name, result.noise)
    return result if noise is result.noise else with_fields(result, noise=noise)


def told_if_zero(
    noise: Any,
    factor: Any,
    scale: float,
    name: str,
    check: Callable[[Any], None] | None = None,
) -> Any:
    """Noise of a product with a number or an array that is known at each call: a zero warns there.

    A factor that is not a symbol is known now, and shows in the program. It is encoded at `scale`.
    `check` is called with the factor of each call first.
    """
    if not isinstance(factor, Symbolic) or in_circuit() or is_tracer(noise):
        return noise
    return derived(functools.partial(_told_if_zero, scale, name, check), noise, factor)


def _told_if_zero(
    scale: float, name: str, check: Callable[[Any], None] | None, noise: Any, factor: Any
) -> Any:
    if check is not None and not is_sampling():
        check(factor)
    # No coefficient is above scale * max |factor|.
    is_zero = not factor if isinstance(factor, int) else np.max(np.abs(factor)) <= 0.5 / scale
    return _told_transparent(name, noise) if is_zero else noise


def told_transparent(name: str, noise: Any) -> Any:
    """Noise of a result that is transparent, or is in part: it warns, at each replay of a jit."""
    told = functools.partial(_told_transparent, name)
    return noise if is_planning() else derived(told, noise)


def _told_transparent(name: str, noise: Any) -> Any:
    if not is_sampling():
        warn(
            f"{name}: the result is transparent. Its second polynomial c1 is zero, so that "
            "everyone can read it without a key. Add ctx.encrypt(0.0) to it, and it is like any "
            "other ciphertext. A server, which does not encrypt, adds a zero that the owner or "
            "ctx.public() encrypted.",
            TransparentWarning,
        )
    return noise
