"""`ct.bootstrap()` and `ckks.bootstrap`: the same numbers, at a level where programs go on."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

from ren.capture.loop_reports import stand_in
from ren.core.errors import DepthError, OperandError, ParameterError, kind_of
from ren.core.ring import Domain
from ren.core.spec import Spec
from ren.core.user_frame import user_line
from ren.lowering.devices.devices import trace_state
from ren.lowering.devices.trace_inputs import trace_inputs
from ren.poly.key_ids import call_name, called
from ren.poly.realization import capture_serial, note
from ren.schemes.ckks.arithmetic.argument_checks import as_integer, check_ciphertext
from ren.schemes.ckks.arithmetic.automatic import masked
from ren.schemes.ckks.arithmetic.evolve import (
    drop_to,
    dropped,
    evolve,
    fills_slots,
    kept_to,
    settle,
    with_noise,
)
from ren.schemes.ckks.arithmetic.manual import check_automatic, is_manual, normal
from ren.schemes.ckks.arithmetic.operation_hooks import (
    Lacking,
    ciphertexts_in,
    circuit,
    operation,
)
from ren.schemes.ckks.arithmetic.rotation import has_to_be_cleared
from ren.schemes.ckks.bootstrapping import pipeline
from ren.schemes.ckks.bootstrapping.diagonals import turn_of
from ren.schemes.ckks.bootstrapping.noise import noise_after
from ren.schemes.ckks.encoding.ciphertext_data import CiphertextData, CiphertextT
from ren.schemes.ckks.noise import bounds as noises
from ren.schemes.ckks.noise.around import around, with_around
from ren.schemes.ckks.parameters.bootstrapping.above import runs_for
from ren.schemes.ckks.parameters.bootstrapping.chain import Chain, chain_of
from ren.schemes.ckks.parameters.bootstrapping.precision import magnified
from ren.schemes.ckks.parameters.checks import as_python_int, as_real, check_real
from ren.schemes.rlwe.active_context import context_for, same_key
from ren.schemes.rlwe.keychain import unknown
from ren.schemes.rlwe.keys import SwitchingKey

NAME = "bootstrap()"
_MORE = "for more, use ckks.context(bootstrapping=True, precision=40, scale_bits=60)."


def bootstrap_one(
    ct: CiphertextT, level: int | None = None, precision: float | None = None
) -> CiphertextT:
    """See `Ciphertext.bootstrap`."""
    with called(NAME):
        ct = _prepared(ct, NAME)
        chain = _chain(ct, level, precision)
        return _cleared(ct, _checked(ct, chain))


def bootstrap(
    ciphertexts: Sequence[CiphertextT], level: int | None = None, precision: float | None = None
) -> Any:
    """Bootstraps several ciphertexts; two real ones share one run.

    Args:
        ciphertexts: under one key, of parameters with bootstrapping, each at its floor or higher.
        level: of the results; the highest one when None.
        precision: bits that are right; those of the parameters when None.

    Returns:
        A list of ciphertexts in the same order, each as `ct.bootstrap(level, precision)`.

    Raises:
        ContextError: ciphertexts of several keys.
        OperandError, ParameterError, DepthError: as `ct.bootstrap`.

    Cost: for two of real numbers that of one of complex numbers.
    """
    if isinstance(ciphertexts, CiphertextData) or not isinstance(ciphertexts, Sequence):
        raise OperandError(
            f"ckks.bootstrap() got {kind_of(ciphertexts)}.",
            "It takes a list of ciphertexts; two of real numbers share one run.",
            "Write ckks.bootstrap([x, y]), or x.bootstrap() for one.",
        )
    name = "ckks.bootstrap()"
    with called(name):
        given = [_prepared(x, name) for x in ciphertexts]
        for x in given[1:]:
            same_key(given[0].key_id, x.key_id, name)
        chains = [_chain(x, level, precision) for x in given]
        made: dict[int, Any] = {}
        alone: list[int] = []
        for i, x in enumerate(given):
            partner = next((j for j in alone if _can_share(given[j], x)), None)
            if x.layout.is_complex or partner is None:
                alone.append(i)
                continue
            alone.remove(partner)
            made[partner], made[i] = _shared(given[partner], x, chains[i])
        made |= {i: _checked(given[i], chains[i]) for i in alone}
        return [_cleared(x, made[i]) for i, x in enumerate(given)]


# ------------------------------------------------------------------- bootstrapping="auto"

# Declared piece of state: of live ciphertexts those that they were bootstrapped to. The capture and
# the trace go with it, outside of which these have no value.
_Made = tuple[Any, CiphertextData]
_fresh: weakref.WeakKeyDictionary[CiphertextData, _Made] = weakref.WeakKeyDictionary()
_log = logging.getLogger("ren")


def with_levels(args: tuple[Any, ...], lacked: Lacking) -> tuple[Any, ...] | None:
    """Arguments of which each ciphertext has the levels that are lacked; None if none is new."""
    low = [x for x in ciphertexts_in(args) if _lacks(x, lacked)]
    if not low:
        return None
    _refresh([x for x in dict.fromkeys(low) if _fresh_of(x) is x])
    # Leftovers were cleared at the top. Without them a second bootstrap gives that level too.
    least = lacked.floor + lacked.needed
    _refresh([x for x in dict.fromkeys(low) if _fresh_of(x).level < least and _was_cleared(x)])
    return _replaced(args, set(low))


def _refresh(ciphertexts: Sequence[CiphertextData]) -> None:
    """Bootstraps ciphertexts, or what they were bootstrapped to."""
    here = capture_serial(), trace_state()
    given = [_fresh_of(x) for x in ciphertexts]
    for x in given:
        _log.info("%s: bootstrapped at level %d", user_line(), x.level)
    with with_around(is_asked=False):
        made = bootstrap(given)
    for x, y in zip(ciphertexts, made, strict=True):
        _fresh[x] = here, y


def _was_cleared(x: CiphertextData) -> bool:
    return _has_unknown_tail(x) and _fresh_of(x).level < chain_of(x.params).result


def _lacks(x: CiphertextData, lacked: Lacking) -> bool:
    """True for a ciphertext that lacks levels, and would not after a bootstrap."""
    if is_manual() or not x.is_normal:
        return False
    least = lacked.floor + lacked.needed
    own = least + (lacked.has_cleared and has_to_be_cleared(x))
    return x.level < own and least <= chain_of(x.params).result


def _replaced(value: Any, low: set[Any]) -> Any:
    if type(value) in (list, tuple):
        return type(value)(_replaced(v, low) for v in value)
    return _fresh_of(value) if isinstance(value, CiphertextData) and value in low else value


def _fresh_of(x: Any) -> Any:
    """The ciphertext that another one was bootstrapped to here, if it was; else that one itself."""
    found = _fresh.get(x)
    is_here = found is not None and found[0] == (capture_serial(), trace_state())
    return found[1] if found is not None and is_here else x


def fresh(x: CiphertextT) -> CiphertextT:
    """The ciphertext that another one was bootstrapped to, if it was: same numbers, more levels."""
    above = x.params.above
    return x if above is None or not above.is_automatic or is_manual() else _fresh_of(x)


# ------------------------------------------------------------------- one run


def _can_share(x: CiphertextData, y: CiphertextData) -> bool:
    """True where two ciphertexts can be the real and the imaginary part of one.

    Leftovers that may be large would leave an error in the other part.
    """
    is_real = not (x.layout.is_complex or y.layout.is_complex)
    is_known = not (_has_unknown_tail(x) or _has_unknown_tail(y))
    return is_real and is_known and [p.shape for p in x.polys] == [p.shape for p in y.polys]


def _prepared(ct: CiphertextT, what: str) -> CiphertextT:
    """At the floor, in normal form. From above what stands beyond the length is cleared before."""
    check_ciphertext(ct, what)
    check_automatic("A bootstrap")
    chain = chain_of(ct.params)
    ct = normal(ct)
    floor = chain.above.floor
    if ct.level < floor:
        raise DepthError(
            f"{what} was asked of a ciphertext at level {ct.level}.",
            f"It begins at level {floor}, which it takes for SlotToCoeff.",
            f"Bootstrap before level {floor}: where x.level is {floor} or more.",
        )
    if ct.level > floor and not fills_slots(ct):
        # Zeros beyond the length have noise, which a program may have enlarged.
        ct = masked(drop_to(ct, floor + 1))
    return settle(drop_to(ct, floor))


def _has_unknown_tail(ct: CiphertextData) -> bool:
    return not (ct.layout.tail.is_bounded or fills_slots(ct))


def _cleared(ct: CiphertextT, made: CiphertextT) -> CiphertextT:
    """The result of a bootstrap of `ct`, at the floor, without leftovers that no bound covers.

    Slots are coefficients before the raise. So a number beyond the bound ends as another one in its
    own slot alone. That is at most as large as the sine, and is cleared at the top.
    """
    if not _has_unknown_tail(ct):
        return made
    above = made.params.above
    assert above is not None, "bootstraps were made for these parameters"
    largest = above.sine.gain * above.bound
    reaching = with_noise(made, lambda noise: noises.reaching(noise, largest))
    return kept_to(masked(reaching), made)


def _keys(ct: CiphertextData) -> Callable[[str], SwitchingKey]:
    context = context_for(ct.key_id, call_name(NAME))
    return lambda label: context.labelled_key(label, call_name(NAME))


MARK = "ren_planned_bootstrap_"  # the name of a scope of JAX, before the number


def _chain(ct: CiphertextData, level: Any, precision: Any) -> Chain:
    """The chain of a bootstrap whose result is at a level; its runs end higher."""
    highest = chain_of(ct.params)
    if precision is not None:
        precision, most = as_real(as_python_int(precision)), highest.above.precision
        check_real("precision", precision, 8, most, f"These parameters have {most:g} bits: {_MORE}")
        highest = chain_of(ct.params, None, runs_for(precision))
    if level is None:
        return highest
    level = as_integer(level, NAME)
    ct.params.ring(level)  # raises where there is no such level
    is_cleared = _has_unknown_tail(ct)
    most = highest.result - is_cleared
    if level > most:
        joins = "what joins its parts takes the levels above"
        clears = "leftovers beyond the length are cleared by the level above"
        raise ParameterError(
            f"{NAME} got level={level}.",
            f"It ends at level {most}: {clears if is_cleared else joins}.",
            f"Leave level out, or ask for {most} or less.",
        )
    end = level + is_cleared
    return chain_of(ct.params, end + highest.user - highest.result, highest.runs)


@operation(NAME, lambda x, chain: x)
def _refreshed(ct: CiphertextT, chain: Chain) -> CiphertextT:
    is_complex = ct.layout.is_complex
    if (noted := around().bootstraps) is not None:
        noted.append((is_complex, chain.runs))
        return _made(ct, _unknown(ct, chain, len(noted) - 1), chain, is_complex)
    _note(ct, chain)
    polys = pipeline.refreshed(chain, _pair(ct), _keys(ct), is_complex)
    if chain.runs > 1:
        polys = _corrected(ct, polys, chain, is_complex)
    return _made(ct, polys, chain, is_complex)


def _note(ct: CiphertextData, chain: Chain) -> None:
    note(f"{NAME} of level {ct.level} to level {chain.result}: {user_line()}")


def _corrected(
    ct: CiphertextData, polys: pipeline.Pair, chain: Chain, is_complex: bool
) -> pipeline.Pair:
    """The result of a second run: y + B(2^k (x - y)) / 2^k, for y of the first, one level lower.

    The error of the first run is small, so that 2^k times it is within the bound. Both terms are
    brought to the scale of the next level by an integer and a rescale.
    """
    factor = 1 << magnified(chain, is_complex)
    params, top, floor = chain.params, chain.end, chain.above.floor
    low, _ = dropped(_at_top(ct, polys, chain), polys, floor)
    error = tuple((x - y) * factor for x, y in zip(ct.polys, low, strict=True))
    more = pipeline.refreshed(chain, (error[0], error[1]), _keys(ct), is_complex)
    ratio = Fraction(params.ring(top).q, params.ring(top - 1).q)
    times = params.scale(top - 1) * ratio / params.scale(top)
    whole, part = round(times), round(times / factor)
    total = (y * whole + e * part for y, e in zip(polys, more, strict=True))
    b, a = (p.rescale(params.ring(top - 1)) for p in total)
    return b, a


def _at_top(ct: CiphertextT, polys: pipeline.Pair, chain: Chain) -> CiphertextT:
    return evolve(ct, polys, ct.noise, chain.end)


_checked = circuit(NAME)(_refreshed)  # one report of a bound, not one of the result too


@circuit(NAME)
def _shared(x: CiphertextT, y: CiphertextT, chain: Chain) -> tuple[CiphertextT, CiphertextT]:
    """Two ciphertexts of real numbers, in one run."""
    if chain.runs > 1:
        return _checked(x, chain), _checked(y, chain)
    if (noted := around().bootstraps) is not None:
        noted.append((True, 1))
        first = _unknown(x, chain, len(noted) - 1)
        return _part(x, first, chain), _part(y, _unknown(y, chain), chain)
    _note(x, chain)
    turn = turn_of(chain.rings[chain.above.floor])
    (a0, a1), (b0, b1) = _pair(x), _pair(y)
    parts = pipeline.refreshed_parts(chain, (a0 + b0 * turn, a1 + b1 * turn), _keys(x))
    return tuple(_part(z, part, chain) for z, part in zip((x, y), parts, strict=True))  # type: ignore


@operation(NAME, lambda x, *_: x)
def _part(ct: CiphertextT, polys: pipeline.Pair, chain: Chain) -> CiphertextT:
    return _made(ct, polys, chain, False)


def _unknown(ct: CiphertextData, chain: Chain, number: int | None = None) -> pipeline.Pair:
    """Placeholders for what a bootstrap gives: a plan counts it, and records nothing of it.

    In a loop of JAX they are arrays that depend on the ciphertext. So its program is a part of the
    trace. The first carries the number of the bootstrap among those of the plan: see `MARK`.
    """
    ring = chain.rings[chain.result]
    if trace_inputs.get() is None:
        b, a = (unknown(Spec(ring, Domain.NTT, p.shape[:-2])) for p in ct.polys)
        return b, a
    scope = "" if number is None else f"{MARK}{number}"
    b, a = (stand_in(p, ring, Domain.NTT, scope) for p in ct.polys)
    return b, a


def _pair(ct: CiphertextData) -> pipeline.Pair:
    b, a = ct.polys
    return b, a


def _made(ct: CiphertextT, polys: pipeline.Pair, chain: Chain, is_complex: bool) -> CiphertextT:
    made = evolve(ct, polys, ct.noise, chain.result, span=ct.span, dtype=ct.stated_dtype)
    rule = partial(noise_after, chain=chain, is_complex=is_complex, is_asked=around().is_asked)
    return with_noise(made, rule)
