"""`ct.bootstrap()` and `ckks.bootstrap`: the same numbers, at a level where programs go on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ren.core.errors import DepthError, OperandError
from ren.schemes.ckks.arithmetic.argument_checks import check_ciphertext
from ren.schemes.ckks.arithmetic.evolve import drop_to, evolve, settle, with_noise
from ren.schemes.ckks.arithmetic.manual import normal
from ren.schemes.ckks.arithmetic.operation_hooks import circuit, operation
from ren.schemes.ckks.bootstrapping import pipeline
from ren.schemes.ckks.bootstrapping.diagonals import turn_of
from ren.schemes.ckks.bootstrapping.noise import noise_after
from ren.schemes.ckks.encoding.ciphertext_data import CiphertextData, CiphertextT
from ren.schemes.ckks.functions.arguments import check_automatic, with_safe_tail
from ren.schemes.ckks.parameters.bootstrapping.chain import Chain, chain_of
from ren.schemes.rlwe.active_context import call_name, called, context_for, same_key
from ren.schemes.rlwe.keys import SwitchingKey

_NAME = "bootstrap()"


def bootstrap_one(ct: CiphertextT, level: int | None = None) -> CiphertextT:
    """See `Ciphertext.bootstrap`."""
    with called(_NAME):
        return _to_level(_checked(_prepared(ct, _NAME)), level)


def bootstrap(ciphertexts: Sequence[CiphertextT], level: int | None = None) -> Any:
    """Bootstraps several ciphertexts; two real ones share one run.

    Args:
        ciphertexts: under one key, of parameters with bootstrapping, each at its floor or higher.
        level: of the results; the highest one when None.

    Returns:
        A list of ciphertexts in the same order, each as `ct.bootstrap(level)`.

    Raises:
        ContextError: ciphertexts of several keys.
        OperandError, ParameterError, DepthError: as `ct.bootstrap`.

    Cost: for two of real numbers that of one of complex numbers.
    """
    if isinstance(ciphertexts, CiphertextData) or not isinstance(ciphertexts, Sequence):
        raise OperandError(
            f"ckks.bootstrap() got a {type(ciphertexts).__name__}.",
            "It takes a list of ciphertexts; two of real numbers share one run.",
            "Write ckks.bootstrap([x, y]), or x.bootstrap() for one.",
        )
    name = "ckks.bootstrap()"
    with called(name):
        given = [_prepared(x, name) for x in ciphertexts]
        for x in given[1:]:
            same_key(given[0].key_id, x.key_id, name)
        made: dict[int, Any] = {}
        alone: list[int] = []
        for i, x in enumerate(given):
            partner = next((j for j in alone if _can_share(given[j], x)), None)
            if x.layout.is_complex or partner is None:
                alone.append(i)
                continue
            alone.remove(partner)
            made[partner], made[i] = _shared(given[partner], x)
        made |= {i: _checked(given[i]) for i in alone}
        return [_to_level(made[i], level) for i in range(len(given))]


def _can_share(x: CiphertextData, y: CiphertextData) -> bool:
    """Whether two ciphertexts are the real and the imaginary part of one."""
    is_real = not (x.layout.is_complex or y.layout.is_complex)
    return is_real and [p.shape for p in x.polys] == [p.shape for p in y.polys]


def _prepared(ct: CiphertextT, what: str) -> CiphertextT:
    """At the floor, in normal form, every slot within the bound."""
    check_ciphertext(ct, what)
    check_automatic("A bootstrap")
    chain = chain_of(ct.params)
    ct = normal(ct)
    floor, bound = chain.above.floor, chain.above.bound
    if ct.level < floor:
        raise DepthError(
            f"{what} was asked of a ciphertext at level {ct.level}.",
            f"It begins at level {floor}, which it takes for SlotToCoeff.",
            f"Bootstrap before level {floor}: where x.level is {floor} or more.",
        )
    if ct.level > floor:
        ct = with_safe_tail(ct, (-bound, bound), what)
    elif _has_unknown_tail(ct):
        raise DepthError(
            f"{what} was asked of {ct.layout.length} numbers at level {floor}, with leftovers in "
            "the other slots.",
            f"What stands in any slot has to keep to {bound:g}; clearing it takes a level.",
            f"Bootstrap one level earlier, at level {floor + 1}, or call x.mask() before.",
        )
    return settle(drop_to(ct, floor))


def _has_unknown_tail(ct: CiphertextData) -> bool:
    tail = ct.layout.tail
    return ct.layout.length is not None and tail.has_leftovers and not tail.is_bounded


def _keys(ct: CiphertextData) -> Callable[[str], SwitchingKey]:
    context = context_for(ct.key_id, call_name(_NAME))
    return lambda label: context.labelled_key(label, call_name(_NAME))


@operation(_NAME, lambda x: x)
def _refreshed(ct: CiphertextT) -> CiphertextT:
    chain, is_complex = chain_of(ct.params), ct.layout.is_complex
    polys = pipeline.refreshed(chain, _pair(ct), _keys(ct), is_complex)
    return _made(ct, polys, chain, is_complex)


_checked = circuit(_NAME)(_refreshed)  # one report of a bound, not one of the result too


@circuit(_NAME)
def _shared(x: CiphertextT, y: CiphertextT) -> tuple[CiphertextT, CiphertextT]:
    """Two ciphertexts of real numbers, in one run."""
    chain = chain_of(x.params)
    turn = turn_of(chain.rings[chain.above.floor])
    (a0, a1), (b0, b1) = _pair(x), _pair(y)
    parts = pipeline.refreshed_parts(chain, (a0 + b0 * turn, a1 + b1 * turn), _keys(x), True)
    return tuple(_part(z, part) for z, part in zip((x, y), parts, strict=True))  # type: ignore


@operation(_NAME, lambda x, polys: x)
def _part(ct: CiphertextT, polys: pipeline.Pair) -> CiphertextT:
    return _made(ct, polys, chain_of(ct.params), False)


def _pair(ct: CiphertextData) -> pipeline.Pair:
    b, a = ct.polys
    return b, a


def _made(ct: CiphertextT, polys: pipeline.Pair, chain: Chain, is_complex: bool) -> CiphertextT:
    made = evolve(ct, polys, ct.noise, chain.user, span=ct.span, dtype=ct.stated_dtype)
    return with_noise(made, lambda noise: noise_after(noise, chain, is_complex))


def _to_level(ct: CiphertextT, level: int | None) -> CiphertextT:
    return ct if level is None else drop_to(ct, level)
