"""Parameters for bootstrapping: levels of the sine and of CoeffToSlot above a user's chain.

Scales of the sine follow from its noise. Noise that comes in at a level counts g times in the
message, see `sine.amplifications`. A level at scale S_i adds sigma g_i / S_i. The levels cost
sum b_i bits, b_i = 2 S_i - S_(i+1) as logarithms. So S_0 counts twice and the others once. The
cheapest scales have noise in proportion to the square roots of these counts. Two primes
under 2^30 bear 59.9 bits; where b_i would be more, S_i is less. The last scale is fixed: with it
the message has the canonical scale of the user's highest level.

The error of the sine is the same for the same message. In a row of bootstraps it adds up, while
random noise grows with the square root of their number. Each bit by which messages are smaller
divides this error by four. So they are up to two bits smaller than one bootstrap asks for, where
that costs little.

CoeffToSlot divides by the scales of its diagonals. These and S_0 are what the raised ciphertext,
with scale L q_0, is brought to.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from itertools import combinations, pairwise

import attrs
import numpy as np

from ren.core.errors import InsecureParametersError, ParameterError
from ren.core.numtheory import ntt_primes_from
from ren.core.ring import MODULUS_BOUND
from ren.schemes.ckks.parameters.bootstrapping.above import WEIGHT, Above, runs_for
from ren.schemes.ckks.parameters.bootstrapping.sine import Sine, amplifications, sine_for
from ren.schemes.ckks.parameters.planner import Plan, Request, narrowest_plan, partition
from ren.schemes.ckks.parameters.primes import nearest_primes
from ren.schemes.rlwe.security import max_log_qp

_DOWN, _UP = 2, 3  # the most matrices of SlotToCoeff, of CoeffToSlot
_DOWN_STAGES, _UP_STAGES = 8, 5  # of the transform in one matrix, where slots are few
_STAGE_BITS = 6.75  # by which the noise of each level of the sine stays below the precision
_DIAGONAL_BITS = 12.25  # by which the rounding of diagonals does, before their sums
_LOWEST_BITS = 7.5  # by which the noise at level 0 does
_LEAST_BITS, _MOST_BITS = 46.0, 59.9  # of two primes; there are few smaller ones
_GAP = 4  # bits: digits are smaller than P by so much, or each rotation costs as many bits
_SPARE_SCALE = 18.0  # bits of the scale that noise at the user's levels takes
_NEAR = 48  # primes nearest to a width that are tried
_DIGITS = range(1, 7)
_FLATTER = (2, 1)  # bits by which messages may be smaller than one bootstrap asks for
_SHARE = 0.07  # of the levels, and of the time for each, that this may cost


@attrs.frozen
class Wish:
    """Wish for parameters; `levels` between bootstraps, None for the least time a level."""

    levels: int | None
    n: int
    scale_bits: int
    integer_bits: int
    security: int | None
    precision: float
    failure: float
    bound: float
    slots: int
    extra: int = 0  # levels that a bootstrap takes at its end

    @property
    def floor(self) -> int:
        """The matrices of SlotToCoeff."""
        return _DOWN if self.copies == 1 else min(_DOWN, -(-self.stages // _DOWN_STAGES))

    @property
    def matrices(self) -> int:
        """The matrices of CoeffToSlot."""
        return _UP if self.copies == 1 else min(_UP, -(-self.stages // _UP_STAGES))

    @property
    def stages(self) -> int:
        """Those of the transform between slots and coefficients: log2 of the slots."""
        return self.slots.bit_length() - 1

    @property
    def copies(self) -> int:
        """Number of times that a message stands in the slots."""
        return self.n // (2 * self.slots)


@lru_cache(maxsize=64)
def plan_bootstrapping(wish: Wish) -> tuple[tuple[Plan, Above, int], ...]:
    """Chains of a user's levels, what bootstrapping adds to each, and the integer bits.

    The first has the flattest sine; the last the steepest one, with the least noise.

    Raises:
        ParameterError, InsecureParametersError: what cannot be had, and what can.
    """
    runs = runs_for(wish.precision)
    given, wish = wish, attrs.evolve(wish, precision=wish.precision / runs + runs - 1)
    sine = _sine(wish, runs)
    if given.precision + _SPARE_SCALE > wish.scale_bits:
        raise ParameterError(
            f"Bootstrapping with precision={given.precision:g} was asked for at scale "
            f"2^{wish.scale_bits}.",
            f"Rounding leaves about scale_bits - {_SPARE_SCALE:g} bits.",
            f"Use scale_bits={54 if given.precision <= 36 else 60}, or a smaller precision.",
        )
    wish = attrs.evolve(wish, extra=runs - 1 + (wish.copies > 1))
    steepest = _planned(wish, sine)
    found = [*_flatter(wish, runs, *steepest), (steepest, sine)]
    return tuple(
        (plan, attrs.evolve(above, precision=given.precision), _least_integer_bits(wish, sine))
        for (plan, above), sine in found
    )


def _sine(wish: Wish, runs: int, more: int = 0) -> Sine:
    return sine_for(wish.precision, wish.failure / runs, WEIGHT, 2 * wish.slots, more)


def _flatter(
    wish: Wish, runs: int, plan: Plan, above: Above
) -> Iterator[tuple[tuple[Plan, Above], Sine]]:
    """Plans for smaller messages with nearly the same time a level, flattest first."""
    most = len(plan.path) - 1 - wish.floor - wish.extra
    limit = (1 + _SHARE) * _cost(plan, above) / most
    for more in _FLATTER:
        try:
            sine = _sine(wish, runs, more)
        except ParameterError:  # the polynomial is not right enough
            continue
        least = most if wish.levels else math.ceil((1 - _SHARE) * most)
        for levels in range(most, least - 1, -1):
            found = _best(wish, sine, levels)
            if found is not None and _cost(*found) / levels <= limit:
                yield found, sine
                break


def _planned(wish: Wish, sine: Sine) -> tuple[Plan, Above]:
    if wish.levels is not None:
        found = _best(wish, sine, wish.levels)
        if found is None:
            raise _unreachable(wish, sine)
        return found
    options = [(most, _best(wish, sine, most)) for most in _deepest(wish, sine)]
    able = [(found[0], most, found) for most, found in options if found is not None]
    if not able:
        raise _unreachable(wish, sine)
    return min(able, key=lambda option: _cost(*option[2]) / option[1])[2]


def _rounding(n: int) -> float:
    """log2 of the deviation in a coefficient of a rounding r0 + r1 s, for the dense secret."""
    return math.log2((1 + 2 * n / 3) / 12) / 2


def _sine_bits(wish: Wish, sine: Sine) -> list[float]:
    """log2 of the scales S_0 .. S_depth; the last for the nominal scale of the user's top."""
    unit = _rounding(wish.n) + math.log2(wish.n) / 2 + wish.precision + _STAGE_BITS
    gains = amplifications(sine, WEIGHT)
    bits = [math.log2(g) + unit for g in gains]
    bits[0] -= 0.5
    bits.append(wish.scale_bits + math.log2(sine.gain * wish.bound))
    for i in reversed(range(len(gains))):
        low, high = ((edge + bits[i + 1]) / 2 for edge in (_LEAST_BITS, _MOST_BITS))
        bits[i] = min(max(bits[i], low), high)
    return bits


def _level_bits(wish: Wish, sine: Sine, lowest: float) -> list[float]:
    """The bits of the levels above the user's, lowest first, for q_0 of `lowest` bits."""
    bits = _sine_bits(wish, sine)
    drops = [2 * a - b for a, b in pairwise(bits)]
    diagonals = (math.log2(wish.n) - math.log2(12)) / 2 + sine.ratio_bits
    diagonals += wish.precision + _DIAGONAL_BITS
    divided = math.log2(sine.reach * wish.copies) + lowest - bits[0]
    each = max(diagonals + divided / wish.matrices, _LEAST_BITS)
    return [*reversed(drops), *[each] * wish.matrices]


def _limit(wish: Wish) -> float:
    """The bits that all moduli may have; without security those of the degree 2^16, for studies."""
    if wish.security is None:
        return max_log_qp(max(wish.n, 1 << 16), 128)
    return max_log_qp(wish.n, wish.security)


def _least_integer_bits(wish: Wish, sine: Sine) -> int:
    """The integer bits with which level 0 has room for sums of the raised ciphertext."""
    least = sine.ratio_bits + wish.precision + _LOWEST_BITS + _rounding(wish.n)
    return max(wish.integer_bits, math.ceil(least + math.log2(wish.bound)) - wish.scale_bits)


def _deepest(wish: Wish, sine: Sine) -> Iterator[int]:
    """Levels between bootstraps that may just fit, for each number of digits."""
    limit, integers = _limit(wish), _least_integer_bits(wish, sine)
    lowest = wish.scale_bits + integers
    above = sum(_level_bits(wish, sine, lowest))
    seen = set()
    for digits in _DIGITS:
        room = (limit - _GAP) / (1 + 1 / digits) - above - lowest
        most = int(room // wish.scale_bits) - wish.floor - wish.extra
        for levels in (most, most - 1):
            if levels > 0 and levels not in seen:
                seen.add(levels)
                yield levels


def _cost(plan: Plan, above: Above) -> int:
    """The limb-NTTs of one key switch over all moduli."""
    limbs = len(plan.terminals + plan.mains + plan.specials + above.moduli)
    return (len(above.digits) + 2) * limbs


def _best(wish: Wish, sine: Sine, levels: int) -> tuple[Plan, Above] | None:
    """The plan for these levels with the cheapest key switch; None where nothing fits."""
    limit, integers = _limit(wish), _least_integer_bits(wish, sine)
    request = Request(levels + wish.floor + wish.extra, wish.scale_bits, integers, None, limit)
    above = sum(_level_bits(wish, sine, wish.scale_bits + integers))
    whole = wish.scale_bits * (levels + wish.floor + wish.extra + 1) + integers + above
    best: tuple[Plan, Above] | None = None
    for digits in _DIGITS:
        least = int(whole / digits / 30)
        for specials in range(max(least - 1, 1), least + 3):
            if whole + 29.5 * specials > limit + 60:
                break
            plan = narrowest_plan(wish.n, specials, attrs.evolve(request, limit=limit - above + 4))
            found = None if plan is None else _completed(wish, sine, plan, digits, limit)
            if found is not None and (best is None or _cost(*found) < _cost(*best)):
                best = found
    return best


def _completed(
    wish: Wish, sine: Sine, plan: Plan, digits: int, limit: float
) -> tuple[Plan, Above] | None:
    """The plan with the levels above it, and with a guard prime where its digits need one."""
    terminals, mains = plan.path[0]
    lowest = math.prod((*plan.terminals[len(plan.terminals) - terminals :], *plan.mains[:mains]))
    used = {*plan.terminals, *plan.mains, *plan.specials}
    levels = []
    for bits in _level_bits(wish, sine, math.log2(lowest)):
        level = _nearest_product(plan.n, bits, used)
        if level is None:
            return None
        levels.append(level)
        used |= set(level)
    union = plan.terminals + plan.mains
    moduli = (*union, *(q for level in levels for q in level))
    for guard in _guards(plan.n, used):
        specials = plan.specials + guard
        room = math.prod(specials) >> _GAP
        if math.log2(math.prod(moduli) * math.prod(specials)) > limit or max(moduli) > room:
            continue
        cut = partition(moduli, room)
        if len(cut) > digits:
            continue
        above = Above(
            floor=wish.floor,
            primes=tuple(levels),
            digits=cut,
            overflow=sine.overflow,
            ratio_bits=sine.ratio_bits,
            first_bits=round(_sine_bits(wish, sine)[0], 6),
            precision=wish.precision,
            bound=wish.bound,
        )
        return attrs.evolve(plan, specials=specials, digits=partition(union, room)), above
    return None


def _guards(n: int, used: set[int]) -> Iterator[tuple[int, ...]]:
    """No guard prime, then one of each width, smallest first."""
    yield ()
    for bits in range(17, 30):
        primes = ntt_primes_from(n, 1 << bits, MODULUS_BOUND)
        guard = next((p for p in primes if p not in used), None)
        if guard is not None and guard < 1 << (bits + 1):
            yield (guard,)


def _nearest_product(n: int, bits: float, used: set[int]) -> tuple[int, ...] | None:
    """Unused primes, two as a rule, whose product has about this many bits."""
    count = max(1, math.ceil(bits / (_MOST_BITS / 2) - 1e-9))
    near = nearest_primes(n, bits / count, _NEAR + len(used), MODULUS_BOUND)
    free = [p for p in near if p not in used][:_NEAR]
    if count > 2:  # the others make up for what the first are off by
        first = tuple(free[: count - 2])
        rest = _nearest_product(n, bits - math.log2(math.prod(first)), used | set(first))
        return None if rest is None else first + rest
    if len(free) < count:
        return None
    choices = _choices(len(free), count)
    # In doubles first, which leaves few for whole numbers: there are a thousand pairs.
    far = np.abs(np.log2(free)[choices].sum(axis=1) - bits)
    nearest = choices[far <= far.min() + 1e-9].tolist()
    options = [tuple(free[i] for i in choice) for choice in nearest]
    return min(options, key=lambda c: abs(math.log2(math.prod(c)) - bits))


@lru_cache(maxsize=64)
def _choices(primes: int, count: int) -> np.ndarray:
    """All ways to choose `count` of so many primes, [choice, count]."""
    return np.array(list(combinations(range(primes), count)))


def _unreachable(wish: Wish, sine: Sine) -> ParameterError:
    deepest = next((d for d in _deepest(wish, sine) if _best(wish, sine, d)), None)
    most = max((d for d in _deepest(wish, sine) if _best(wish, sine, d)), default=None)
    wanted = "any levels" if wish.levels is None else f"depth={wish.levels}"
    room = (
        "No level fits there"
        if deepest is None
        else f"Up to {most} levels between bootstraps fit there"
    )
    error = ParameterError if wish.security is None else InsecureParametersError
    return error(
        f"Bootstrapping with {wanted} at scale 2^{wish.scale_bits}, precision="
        f"{wish.precision:g} and n={wish.n} was asked for.",
        f"{room}.",
        "Ask for fewer levels, a smaller scale_bits= or precision=, or a larger n."
        if wish.security is not None
        else "Ask for fewer levels.",
    )
