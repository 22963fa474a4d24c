"""The moduli planner: which primes, levels, special primes and digits reach a depth most cheaply.

The top basis is laid out as [T_(K-1) .. T_0 | q_0 .. q_(M-1)]: few *terminal* primes of one width,
many *main* primes just under 2^30. A level is a pair (t, m), the slice [K - t, K + m), so that one
key over the union of the levels serves them all. Terminals come and go, which lets any scale be
reached from primes under 2^30 (BitPacker, ASPLOS 2025; Cheddar, arXiv 2407.13055).

Levels are found by walking up from Q_0. With e_i = log2(s_i) - scale_bits, the canonical scales s_i
= sqrt(s_(i-1) Q_i / Q_(i-1)) give e_i = (e_(i-1) + log2(Q_i / Q_(i-1)) - scale_bits) / 2. A step is
allowed while |e_i| <= 0.2. All walks over one choice of mains run as one array program. Floats only
choose: digits, bounds and scales are computed again from exact integers.

A key switch adds noise in proportion to sqrt(sum_j (D_j / P)^2). Many digits as large as P would
make rotations 2 bits worse than with one of them. Then a small *guard* prime joins the special
ones, or narrower mains are taken, where that costs little.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache
from itertools import product

import attrs
import numpy as np

from ren.core.errors import InsecureParametersError, ParameterError
from ren.schemes.ckks.parameters.primes import (
    MAIN_LAYOUTS,
    MANY_DIGITS,
    MAX_MAIN_BITS,
    MAX_TERMINALS,
    VERY_MANY_DIGITS,
    Primes,
    guard_prime,
    largest_primes,
    primes_for,
)
from ren.schemes.rlwe.security import MAX_LOG_QP, max_log_qp

MAX_DRIFT = 0.2  # bits that a scale may lie away from 2^scale_bits
QUIET = 3.0  # sum_j (D_j / P)^2 of a quiet plan: at most 0.8 bits above one digit as large as P
QUIET_COST = 1.15  # what one may cost, over the cheapest plan
_NOMINAL_BITS = 20  # of a terminal, where widening the union by one is weighed against a main
_LEAST_SPECIAL_BITS = 29.4  # special primes are larger than this, up to n = 2^17
_PROBES = (1, 2, 3, 4, 5, 6, 8, 10, 12)
WORTH_TRYING = 0.9  # the least part of a cost for which other primes are tried
_EPSILON = 1e-9  # bits; far over float error, far under the gap between two products of primes


@attrs.frozen
class Plan:
    """A chain of moduli: the layout, the path of (t, m) through it, and the gadget's digits."""

    n: int
    terminals: tuple[int, ...]
    mains: tuple[int, ...]
    specials: tuple[int, ...]
    path: tuple[tuple[int, int], ...]
    digits: tuple[tuple[int, ...], ...]

    @property
    def cost(self) -> int:
        """The limb-NTTs of one key switch over the union."""
        return (len(self.digits) + 2) * len(self.terminals + self.mains + self.specials)

    @property
    def key_limbs(self) -> int:
        """The limbs of one half of a key."""
        return len(self.digits) * len(self.terminals + self.mains + self.specials)

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Limbs at level 0 and of the union, and the limb-NTTs of a key switch."""
        return sum(self.path[0]), len(self.terminals + self.mains), self.cost

    @property
    def noise(self) -> float:
        """sum_j (D_j / P)^2."""
        product = math.prod(self.specials)
        return sum((math.prod(digit) / product) ** 2 for digit in self.digits)


@attrs.frozen
class Request:
    """Request for a plan: `limit` bounds log2(union P) in bits, `dnum` is the number of digits. A
    chain of fewer limbs has a digit for each. `cost` bounds the limb-NTTs of a key switch and
    `noise` sum_j (D_j / P)^2."""

    depth: int
    scale_bits: int
    integer_bits: int
    dnum: int | None
    limit: float
    cost: float = math.inf
    noise: float = math.inf

    @property
    def guards(self) -> tuple[bool, ...]:
        """Whether to add a guard prime to the special ones: what to try."""
        return (False,) if self.noise == math.inf else (False, True)

    def digits_of(self, fewest: np.ndarray, limbs: np.ndarray) -> np.ndarray:
        """The digits of chains of so many limbs, from the fewest that their primes allow."""
        return np.maximum(fewest, np.minimum(self.dnum or 0, limbs))

    @property
    def q_bits(self) -> float:
        """A lower bound on log2 of the top modulus, since no scale drifts by over 0.2 bits."""
        return self.integer_bits + (self.depth + 1) * (self.scale_bits - MAX_DRIFT)


@attrs.frozen(eq=False)
class _Walks:
    """Walks up from level 0 that are still alive, one a row."""

    sets: np.ndarray  # [walk] which terminal set
    path: np.ndarray  # [walk, level, 2] the pairs (t, m)
    most: np.ndarray  # [walk, 2] the largest t and m so far: the union
    log_q: np.ndarray  # [walk] log2 Q of the last level
    drift: np.ndarray  # [walk] e of the last level

    def keep(self, rows: np.ndarray) -> _Walks:
        arrays = (self.sets, self.path, self.most, self.log_q, self.drift)
        return _Walks(*(a[rows] for a in arrays))


_Cost = tuple[float, ...]


def partition(moduli: Sequence[int], bound: int) -> tuple[tuple[int, ...], ...]:
    """The fewest contiguous digits D_j of `moduli` with D_j <= `bound`, filled from the left."""
    digits: list[tuple[int, ...]] = []
    product = bound + 1
    for q in moduli:
        product *= q
        if product > bound:
            digits.append(())
            product = q
        digits[-1] += (q,)
    return tuple(digits)


def _cut(digits: tuple[tuple[int, ...], ...], count: int) -> tuple[tuple[int, ...], ...]:
    """The digits cut in two, the largest first, until they are `count` or have one modulus each."""
    while len(digits) < count and max(map(len, digits)) > 1:
        at = max(range(len(digits)), key=lambda j: (len(digits[j]) > 1, math.prod(digits[j])))
        half = -(-len(digits[at]) // 2)
        digits = (*digits[:at], digits[at][:half], digits[at][half:], *digits[at + 1 :])
    return digits


@lru_cache(maxsize=256)
def plan_for_depth(
    depth: int,
    scale_bits: int,
    security: int | None,
    degrees: tuple[int, ...],
    integer_bits: int,
    dnum: int | None,
) -> Plan:
    """The plan of least n among `degrees`, then of least cost, whose levels fit the bound.

    The arguments are those of `Parameters.for_depth`, already checked; `degrees` ascend. Errors
    name a depth that does fit the bound, and the n that this one takes.
    """
    request = Request(depth, scale_bits, integer_bits, dnum, math.inf)
    for n in degrees:
        if plan := plan_moduli(n, _bounded(request, n, security)):
            return plan
    raise _unreachable(degrees, security, request)


INTEGER_BITS = 10  # unless more cost nothing


def plan_with_sums(
    depth: int,
    scale_bits: int,
    security: int | None,
    degrees: tuple[int, ...],
    dnum: int | None,
    slots: int | None,
) -> tuple[int, Plan]:
    """The integer bits and the plan that leave room for sums over all slots, where that is free.

    Measured at 128 bits, depth 1 to 25 and scales 2^30 to 2^50. In 39 of 45 plans log2(slots) + 2
    integer bits take the same degree, limbs and limb-NTTs as 10. In the others (scale 2^40 at depth
    2, 5, 6, 8, 20; scale 2^30 at depth 25) they take a limb more, and 10 stay. They also stay where
    the special primes would have less room, and key switches half a bit more noise.
    """
    usual = plan_for_depth(depth, scale_bits, security, degrees, INTEGER_BITS, dnum)
    wide = (slots or usual.n // 2).bit_length() + 1
    for bits in (wide, wide - 1):
        if bits <= INTEGER_BITS:
            break
        request = _bounded(Request(depth, scale_bits, bits, dnum, math.inf), usual.n, security)
        plan = plan_moduli(usual.n, request)
        is_small = plan and all(a <= b for a, b in zip(plan.sizes, usual.sizes, strict=True))
        if plan and is_small and plan.noise <= 2 * max(usual.noise, QUIET):
            return bits, plan
    return INTEGER_BITS, usual


@lru_cache(maxsize=256)
def plan_moduli(n: int, request: Request) -> Plan | None:
    """The cheapest plan at degree `n` that meets `request`, or a quiet one that costs little more.

    The cost is the limb-NTTs of one key switch over the union, (dnum + 2)(L + k) for L limbs and k
    special primes. Then come the polynomials' limbs in a key, dnum (L + k), then log2 of the union.
    None where no primes meet the request.
    """
    plan = cheapest_plan(n, request)
    if plan is None or plan.noise <= QUIET:
        return plan
    quiet = attrs.evolve(request, cost=QUIET_COST * plan.cost, noise=QUIET)
    return cheapest_plan(n, quiet) or plan


@lru_cache(maxsize=256)
def first_plan(n: int, request: Request) -> Plan | None:
    """The plan of the first layout of mains that has one, or None where no layout has."""
    if request.q_bits + _LEAST_SPECIAL_BITS > request.limit:
        return None
    plans = (_plan_on(n, layout, request) for layout in MAIN_LAYOUTS)
    return next((plan for plan in plans if plan), None)


@lru_cache(maxsize=256)
def cheapest_plan(n: int, request: Request) -> Plan | None:
    """The cheapest plan at degree `n` that meets `request`, as loud as it may be, or None."""
    best = first_plan(n, request)
    for layout in _other_layouts(best, request) if best else ():
        assert best is not None
        found = _plan_on(n, layout, attrs.evolve(request, cost=best.cost))
        best = min(best, found or best, key=lambda plan: (plan.cost, plan.key_limbs))
    return best


def _other_layouts(found: Plan, request: Request) -> Sequence[str | float]:
    """Layouts of mains by which a plan may be cheaper than the first that was found.

    Primes of the width of the scale take fewest bits where that is below 30: one is a level. Where
    digits are many, some bits less make room for special primes. At scale 2^26 and depth 9 a key
    switch then takes 64 limb-NTTs in place of 75, at scale 2^33 and depth 7 80 in place of 272.
    Tried are those that were cheapest at scales 2^26 to 2^50 and depths to 25, and seven more where
    digits are over four. They take up to half a second. Of 100 plans at these scales, 3 have
    another `dnum` with smaller keys. So no plan asks for the rotations of a program.
    """
    widths = [float(request.scale_bits)] if request.scale_bits <= MAX_MAIN_BITS else []
    if len(found.digits) > 2 and _least_cost(request) <= WORTH_TRYING * found.cost:
        return [*widths, *(VERY_MANY_DIGITS if len(found.digits) > 4 else MANY_DIGITS)]
    return widths


def _least_cost(request: Request) -> float:
    """At least the cost of any plan: all primes of 30 bits, and as many digits as then fit.

    Asked digits count as they are, where a plan has so many limbs.
    """
    limbs, asked = math.ceil(request.q_bits / 30), request.dnum or 0
    most = min(limbs, (request.limit - request.q_bits) / _LEAST_SPECIAL_BITS)  # special primes
    counts = range(1, int(most) + 1)
    return min(
        (
            (max(math.ceil(request.q_bits / (30 * k)), min(asked, limbs)) + 2) * (limbs + k)
            for k in counts
        ),
        default=math.inf,
    )


@lru_cache(maxsize=256)
def narrowest_plan(n: int, specials: int, request: Request) -> Plan | None:
    """The plan with this number of large special primes whose union is narrowest, or None.

    Its digits are as few as these special primes allow; costs and noise are not compared.
    """
    if request.q_bits + specials * _LEAST_SPECIAL_BITS > request.limit:
        return None
    for layout in MAIN_LAYOUTS:
        primes = primes_for(n, specials, layout, request.q_bits)
        walks = _walk(primes, request)
        for row in np.argsort(primes.bits(walks.sets, walks.most).round(6), kind="stable"):
            if plan := _plan(primes, walks, row):
                return plan
    return None


def reachable_depth(n: int, request: Request) -> int:
    """A depth up to `request.depth` that fits at degree `n` where one more does not, or -1."""
    most = int(min(request.depth, request.limit // request.scale_bits))

    def is_beyond(depth: int) -> bool:
        return first_plan(n, attrs.evolve(request, depth=depth)) is None

    return bisect_left(range(most + 1), True, key=is_beyond) - 1


def _bounded(request: Request, n: int, security: int | None) -> Request:
    return attrs.evolve(request, limit=max_log_qp(n, security))


def _unreachable(
    degrees: tuple[int, ...], security: int | None, request: Request
) -> ParameterError:
    n = degrees[-1]
    here = _bounded(request, n, security)
    reach = reachable_depth(n, here)
    wish = f"depth {request.depth} at scale 2^{request.scale_bits}"
    wish += f" with dnum={request.dnum}" if request.dnum else ""
    room = f"depth {reach} fits there" if reach >= 0 else "no depth fits there"
    # Where one depth more has room in the bound, and no plan without it, primes are the limit.
    free = attrs.evolve(_bounded(request, n, None), depth=min(reach + 1, request.depth))
    if security is None or (reach >= 0 and first_plan(n, free) is None):
        return ParameterError(
            f"No primes under 2^30 give {wish} at n={n}.",
            f"{room.capitalize()}.",
            "Ask for less depth or another scale_bits.",
        )
    larger = (d for d in sorted(MAX_LOG_QP) if d > n)
    wider = next((d for d in larger if first_plan(d, _bounded(request, d, security))), None)
    return InsecureParametersError(
        f"The request is {wish} with {security}-bit security at n={n}.",
        f"The bound there is log2(Q P) <= {here.limit:.0f}: {room}.",
        f"{f'Use n={wider}' if wider else 'Ask for less depth'}, another scale_bits, "
        f"or security=None for insecure experiments.",
    )


def _plan_on(n: int, layout: str | float, request: Request) -> Plan | None:
    best: tuple[_Cost, Plan] | None = None
    for floor, k, guard in _special_counts(n, layout, request):
        if floor[0] > request.cost or (best and floor > best[0][:2]):
            break
        found = _best_walk(primes_for(n, k, layout, request.q_bits, guard), request)
        if found and (best is None or found[0] < best[0]):
            best = found
    return best[1] if best else None


def _special_counts(n: int, layout: str | float, request: Request) -> list[tuple[_Cost, int, bool]]:
    """The numbers k of large special primes worth a walk, with a guard prime or without. Each has a
    floor on its cost, cheapest first.

    The floors come from the walks for k = 1, or where there are none for the next k with some.
    Another k only shifts the mains a little, which at n = 2^17 is enough to end all walks.
    """
    free, bits, limbs = attrs.evolve(request, dnum=None), np.zeros(0), np.zeros(0, int)
    for k in _PROBES:
        probe = primes_for(n, k, layout, request.q_bits)
        walks = _walk(probe, free)
        bits, limbs = probe.bits(walks.sets, walks.most), walks.most.sum(1)
        if len(limbs) or max(probe.mains) < largest_primes(n, _PROBES[-1])[-1]:
            break  # or the mains are those of each k, which has less room
    floors = []
    for k, guard in product(range(1, limbs.max(initial=0) + 1), request.guards):
        extra = math.log2(guard_prime(n)) if guard else 0.0
        digits = np.ceil(bits / (30 * k + extra))
        # 1 bit: the mains' shift
        fits = bits + _LEAST_SPECIAL_BITS * k + extra <= request.limit + 1
        fits &= digits <= (request.dnum or np.inf)
        if fits.any():
            total, count = limbs + k + guard, request.digits_of(digits, limbs)
            cost = np.stack([(count + 2) * total, count * total])[:, fits]
            floors.append((_smallest(cost), k, guard))
    return sorted(floors)


def _smallest(cost: np.ndarray) -> _Cost:
    """The lexicographically least column of `cost`."""
    return tuple(cost[:, np.lexsort(cost[::-1])[0]].tolist())


def _walk(primes: Primes, request: Request) -> _Walks:
    """Every walk that climbs `request.depth` levels and whose union stays inside the bound."""
    room = request.limit - primes.special_bits
    if request.dnum:
        room = min(room, request.dnum * primes.special_bits)
    walks = _starts(primes, request.scale_bits + request.integer_bits)
    for left in range(request.depth, 0, -1):
        # The sum of the drifts that are left, and those at both ends, are in the last modulus.
        top = walks.log_q + left * (request.scale_bits - MAX_DRIFT) - 3 * MAX_DRIFT
        walks = walks.keep(np.maximum(primes.bits(walks.sets, walks.most), top) <= room)
        if not len(walks.sets):
            break
        walks = _climb(primes, walks, request.scale_bits)
    return walks.keep(primes.bits(walks.sets, walks.most) <= room)


def _starts(primes: Primes, least: int) -> _Walks:
    """For each terminal set and each t_0, the least m_0 with log2 Q_0 >= `least`."""
    sets, t = np.nonzero(~np.isnan(primes.terminal_bits))
    m = np.searchsorted(primes.main_bits, least - primes.terminal_bits[sets, t])
    enough = m < len(primes.main_bits)
    sets, pairs = sets[enough], np.stack([t, m], axis=1)[enough]
    return _Walks(sets, pairs[:, None], pairs, primes.bits(sets, pairs), np.zeros(len(sets)))


def _climb(primes: Primes, walks: _Walks, scale_bits: int) -> _Walks:
    """One level up: of the pairs with |e| <= 0.2, that which widens the union least.

    Ties go to fewer limbs, then to less drift: terminals that a walk already has are free.
    """
    t = np.arange(MAX_TERMINALS + 1)
    bits = primes.terminal_bits[walks.sets]  # [walk, t]
    aim = (walks.log_q + scale_bits - walks.drift)[:, None]  # log2 Q that would make e zero
    middles = (primes.main_bits[1:] + primes.main_bits[:-1]) / 2
    m = np.searchsorted(middles, aim - bits)  # [walk, t] the count of mains nearest to the aim
    log_q = bits + primes.main_bits[m]
    drift = (log_q - aim) / 2
    most_t, most_m = np.maximum(t, walks.most[:, :1]), np.maximum(m, walks.most[:, 1:])
    rank = _NOMINAL_BITS * most_t + 30 * most_m + (t + m) / 128 + np.abs(drift) / 1024
    rank = np.where(np.abs(drift) <= MAX_DRIFT, rank, np.inf)  # NaN drift is not <= either
    pick = np.argmin(rank, axis=1)
    row = np.flatnonzero(np.isfinite(rank.min(axis=1)))
    at = row, pick[row]
    pair = np.stack([pick[row], m[at]], axis=1)
    path = np.concatenate([walks.path[row], pair[:, None]], axis=1)
    return _Walks(walks.sets[row], path, np.maximum(walks.most[row], pair), log_q[at], drift[at])


def _best_walk(primes: Primes, request: Request) -> tuple[_Cost, Plan] | None:
    walks = _walk(primes, request)
    fewest, noise = _count_digits(primes, walks)
    digits = request.digits_of(fewest, walks.most.sum(1))
    limbs = walks.most.sum(1) + len(primes.specials)
    # Rounded, so that the last digit of a platform's log2 never decides between two plans.
    union_bits = primes.bits(walks.sets, walks.most).round(6)
    cost = np.stack([(digits + 2) * limbs, digits * limbs, union_bits])
    meets = (cost[0] <= request.cost) & (noise <= request.noise)
    meets &= fewest <= (request.dnum or np.inf)
    for row in np.lexsort(cost[::-1]):
        if meets[row] and (plan := _plan(primes, walks, row, request.dnum or 0)):
            return tuple(cost[:, row].tolist()), plan
    return None


def _count_digits(primes: Primes, walks: _Walks) -> tuple[np.ndarray, np.ndarray]:
    """Number of digits `partition` makes of each walk's union, and their noise, [walk] each."""
    steps, mains = np.diff(primes.terminal_bits[walks.sets], axis=1), np.diff(primes.main_bits)
    most_t, most_m = walks.most.T
    columns = [np.where(j < most_t, steps[:, j], 0) for j in reversed(range(MAX_TERMINALS))]
    columns += [np.where(j < most_m, mains[j], 0) for j in range(most_m.max(initial=0))]
    digits, filled = np.zeros(len(steps), int), np.full(len(steps), np.inf)
    noise = np.zeros(len(steps))
    for bits in columns:
        filled = filled + bits
        opens = (bits > 0) & (filled > primes.special_bits + _EPSILON)
        digits += opens
        full = opens & (digits > 1)
        noise += np.where(full, 4.0 ** (np.where(full, filled - bits, 0) - primes.special_bits), 0)
        filled = np.where(opens, bits, filled)
    return digits, noise + 4.0 ** (filled - primes.special_bits)


def _plan(primes: Primes, walks: _Walks, row: int, dnum: int = 0) -> Plan | None:
    """The plan of one walk in exact integers; None where a prime would serve twice."""
    t, m = walks.most[row].tolist()
    terminals = primes.sets[walks.sets[row]][:t][::-1]
    mains = primes.mains[:m]
    moduli = terminals + mains + primes.specials  # narrow mains may reach down to the guard prime
    if len(set(moduli)) < len(moduli):
        return None
    path = tuple((a, b) for a, b in walks.path[row].tolist())
    digits = _cut(partition(terminals + mains, math.prod(primes.specials)), dnum)
    return Plan(primes.n, terminals, mains, primes.specials, path, digits)
