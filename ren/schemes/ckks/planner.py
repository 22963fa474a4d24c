"""The moduli planner: which primes, levels, special primes and digits reach a depth most cheaply.

The top basis is laid out as [T_(K-1) .. T_0 | q_0 .. q_(M-1)]: few *terminal* primes of one width,
many *main* primes just under 2^30. A level is a pair (t, m), the slice [K - t, K + m), so that one
key over the union of the levels serves them all. Terminals come and go, which lets any scale be
reached from primes under 2^30 (BitPacker, ASPLOS 2025; Cheddar, arXiv 2407.13055).

Levels are found by walking up from Q_0: with e_i = log2(s_i) - scale_bits, the canonical scales
s_i = sqrt(s_(i-1) Q_i / Q_(i-1)) give e_i = (e_(i-1) + log2(Q_i / Q_(i-1)) - scale_bits) / 2, and a
step is allowed while |e_i| <= 0.2. All walks of one number of special primes run as one array
program; floats only choose, and whatever they choose is checked again in exact integers.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache
from itertools import islice, zip_longest

import attrs
import numpy as np

from ren.core.errors import InsecureParametersError, ParameterError
from ren.core.numtheory import ntt_primes_below, ntt_primes_from
from ren.core.ring import MAX_DEGREE, MODULUS_BOUND
from ren.schemes.rlwe.security import MAX_LOG_QP, max_log_qp

MAX_DRIFT = 0.2  # bits that a scale may lie away from 2^scale_bits
MAX_TERMINALS = 8
TERMINAL_WIDTHS = tuple(19 + 0.25 * i for i in range(43))  # 19 to 29.5 bits
INSECURE_MIN_DEGREE = 1 << 10  # what security=None starts from when n is free
_Cost = tuple[float, ...]
_LAYOUTS = ('largest','balanced', *(29.75-.25*i for i in range(44)))
_NOMINAL_BITS = 20  # of a terminal, when widening the union by one is weighed against a main
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


@attrs.frozen
class Request:
    """What a plan has to meet: `limit` bounds log2(union P) in bits, `dnum` the digits."""

    depth: int
    scale_bits: int
    integer_bits: int
    dnum: int | None
    limit: float

    @property
    def q_bits(self) -> float:
        """A lower bound on log2 of the top modulus, since no scale drifts by over 0.2 bits."""
        return self.integer_bits + (self.depth + 1) * (self.scale_bits - MAX_DRIFT)


@attrs.frozen(eq=False)
class _Walks:
    """Walks up from level 0 that are still alive, one a row."""

    sets: np.ndarray  # [walk] which terminal set
    path: np.ndarray  # [walk, level + 1, 2] the pairs (t, m)
    most: np.ndarray  # [walk, 2] the largest t and m so far: the union
    log_q: np.ndarray  # [walk] log2 Q_level
    drift: np.ndarray  # [walk] e_level
    worst: np.ndarray  # [walk] the largest |e_i| so far

    def keep(self, rows: np.ndarray) -> _Walks:
        arrays = (self.sets, self.path, self.most, self.log_q, self.drift, self.worst)
        return _Walks(*(a[rows] for a in arrays))


@attrs.frozen(eq=False)
class _Field:
    """The ground walked on: primes and the logarithms of their running products."""

    n: int
    sets: tuple[tuple[int, ...], ...]  # terminals T_0, T_1, .., nearest to their width first
    terminal_bits: np.ndarray  # [set, 9] log2(T_0 .. T_(t-1)); NaN where there are fewer
    specials: tuple[int, ...]
    mains: tuple[int, ...]
    main_bits: np.ndarray  # [m] log2(q_0 .. q_(m-1))
    special_bits: float

    def union_bits(self, sets: np.ndarray, most: np.ndarray) -> np.ndarray:
        return self.terminal_bits[sets, most[:, 0]] + self.main_bits[most[:, 1]]


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


@lru_cache(maxsize=256)
def plan_moduli(n: int, request: Request) -> Plan | None:
    """The cheapest plan at degree `n` that meets `request`, or None.

    The cost is the limb-NTTs of one key switch at the top level, (dnum + 2)(L + k) for L limbs and
    k special primes, then key bytes, then the drift of the scales, then log2(union P).
    """
    plans = (_plan_on(n, layout, request) for layout in _LAYOUTS)
    return next((plan for plan in plans if plan), None)


def _plan_on(n: int, layout: str | float, request: Request) -> Plan | None:
    best: tuple[tuple[float, ...], Plan] | None = None
    for floor, k in _special_counts(n, layout, request):
        if best and floor > best[0][:2]:
            break
        found = _best_walk(_field(n, k, layout, request), request)
        if found and (best is None or found[0] < best[0]):
            best = found
    return best[1] if best else None


def reachable_depth(n: int, request: Request) -> int:
    """The largest depth up to `request.depth` that fits at degree `n`, or -1."""
    depths = range(request.depth + 1)
    return bisect_left(depths, True, key=lambda d: not _fits(n, attrs.evolve(request, depth=d))) - 1


def _fits(n: int, request: Request) -> bool:
    return plan_moduli(n, request) is not None


@lru_cache(maxsize=256)
def plan_for_depth(
    depth: int,
    scale_bits: int,
    security: int | None,
    n: int | None,
    slots: int | None,
    integer_bits: int,
    dnum: int | None,
) -> Plan:
    """The plan of least n, then least cost, whose `depth` levels fit the security bound.

    Args: as in `Parameters.for_depth`, already checked.

    Raises:
        InsecureParametersError: the depth does not fit the bound; names the depth that does, and
            the n that this one takes.
        ParameterError: no primes under 2^30 reach the depth at this scale.
    """
    degrees = _degrees(security, n, slots)
    for degree in degrees:
        request = Request(depth, scale_bits, integer_bits, dnum, max_log_qp(degree, security))
        if plan := plan_moduli(degree, request):
            return plan
    raise _cannot(degrees[-1], security, n, Request(depth, scale_bits, integer_bits, dnum, 0))


def _degrees(security: int | None, n: int | None, slots: int | None) -> tuple[int, ...]:
    if n is not None:
        return (n,)
    least = 2 * (slots or 1)
    if security is None:
        return tuple(
            d for d in sorted(MAX_LOG_QP) if d >= max(least, INSECURE_MIN_DEGREE)
        ) or (MAX_DEGREE,)
    return tuple(d for d in sorted(MAX_LOG_QP) if d >= least)


def _cannot(degree: int, security: int | None, n: int | None, request: Request) -> ParameterError:
    def bound(d: int) -> Request:
        return attrs.evolve(request, limit=max_log_qp(d, security))

    here = bound(degree)
    reach = reachable_depth(degree, here)
    wish = f"depth {request.depth} at scale 2^{request.scale_bits}"
    if request.dnum:
        wish += f" with dnum={request.dnum}"
    needed = f"depth {reach} is the most that fits there" if reach >= 0 else "no depth fits there"
    if math.isinf(here.limit):
        return ParameterError(
            f"No primes under 2^30 give {wish} at n={degree}.",
            f"{needed.capitalize()}.",
            "Ask for less depth, another scale_bits or more digits.",
        )
    larger = next((d for d in sorted(MAX_LOG_QP) if d > degree and _fits(d, bound(d))), 0)
    remedy = f"Use n={larger}, or" if larger and n is not None else "Ask for less depth, or"
    return InsecureParametersError(
        f"The request is {wish} with {security}-bit security at n={degree}.",
        f"The bound is log2(Q P) <= {here.limit:.0f} there: {needed}.",
        f"{remedy} lower scale_bits, or security=None for insecure experiments.",
    )


def _special_counts(n: int, layout: str | float, request: Request) -> list[tuple[_Cost, int]]:
    """The numbers k of special primes worth a walk, each with a floor on its cost, cheapest first.

    The floors come from the walks for k = 1: other k only shift the mains a little.
    """
    probe = _field(n, 1, layout, request)
    walks = _walk(probe, attrs.evolve(request, dnum=None))
    bits, limbs = probe.union_bits(walks.sets, walks.most), walks.most.sum(1)
    floors = []
    for k in range(1, limbs.max(initial=0) + 1):
        digits = np.ceil(bits / (30 * k))
        fits = (bits + 29.4 * k <= request.limit + 1) & (digits <= (request.dnum or np.inf))
        if fits.any():
            cost = np.stack([(digits + 2) * (limbs + k), digits * (limbs + k)])[:, fits]
            floors.append((tuple(cost[:, np.lexsort(cost[::-1])[0]].tolist()), k))
    return sorted(floors)


def _mains(n: int, layout: float | str, skip: int, count: int) -> tuple[int, ...]:
    """`count` main primes in the order of their limbs; the `skip` largest are the specials."""
    if isinstance(layout, str):
        largest = _largest_primes(n, skip + count)[skip:]
        if layout == "largest":
            return largest
        half = -(-count // 2)
        return tuple(p for pair in zip_longest(largest[:half], largest[:half-1:-1]) for p in pair if p)
    return _nearest_primes(n, layout, count, _largest_primes(n, skip)[-1])


@lru_cache(maxsize=64)
def _largest_primes(n: int, count: int) -> tuple[int, ...]:
    return tuple(islice(ntt_primes_below(n, MODULUS_BOUND), count))


@lru_cache(maxsize=256)
def _nearest_primes(n: int, width: float, count: int, stop: int = MODULUS_BOUND) -> tuple[int, ...]:
    """The `count` primes below `stop` nearest to 2^`width`, in bits; nearest first."""
    centre = round(2**width)
    near = list(islice(ntt_primes_below(n, centre), count))
    near += islice(ntt_primes_from(n, centre, stop), count)
    return tuple(sorted(near, key=lambda p: abs(math.log2(p) - width))[:count])


@lru_cache(maxsize=16)
def _terminal_sets(n: int) -> tuple[tuple[tuple[int, ...], ...], np.ndarray]:
    """For each width and K, the K primes nearest to 2^width (in bits), and their running logarithms."""
    sets: dict[tuple[int, ...], None] = {(): None}
    for width in TERMINAL_WIDTHS:
        near = _nearest_primes(n, width, MAX_TERMINALS)
        sets |= {near[:count]: None for count in range(1, MAX_TERMINALS + 1)}
    bits = np.full((len(sets), MAX_TERMINALS + 1), np.nan)
    for row, primes in zip(bits, sets, strict=True):
        row[0] = 0.0
        row[1 : len(primes) + 1] = np.cumsum(np.log2(primes))
    return tuple(sets), bits


def _field(n: int, k: int, layout: float | str, request: Request) -> _Field:
    sets, terminal_bits = _terminal_sets(n)
    count = math.ceil(request.q_bits / (29 if isinstance(layout, str) else layout - .1)) + MAX_TERMINALS
    count = (count+31)//32*32
    if layout=='balanced': count=math.ceil(request.q_bits/29.8)+1
    specials, mains = _largest_primes(n, k), _mains(n, layout, k, count)
    main_bits = np.concatenate([[0.0], np.cumsum(np.log2(mains))])
    return _Field(n, sets, terminal_bits, specials, mains, main_bits, float(np.log2(specials).sum()))


def _walk(field: _Field, request: Request) -> _Walks:
    """Every walk that climbs `request.depth` levels and whose union stays inside the bound."""
    room = request.limit - field.special_bits
    if request.dnum:
        room = min(room, request.dnum * field.special_bits)
    walks = _starts(field, request.scale_bits + request.integer_bits)
    walks = walks.keep(field.union_bits(walks.sets, walks.most) <= room)
    for _ in range(request.depth):
        walks = _climb(field, walks, request.scale_bits)
        walks = walks.keep(field.union_bits(walks.sets, walks.most) <= room)
    return walks


def _starts(field: _Field, least: int) -> _Walks:
    """For each terminal set and each t_0, the least m_0 with log2 Q_0 >= `least`."""
    sets, t = np.nonzero(~np.isnan(field.terminal_bits))
    m = np.searchsorted(field.main_bits, least - field.terminal_bits[sets, t])
    enough = m < len(field.main_bits)
    sets, t, m = sets[enough], t[enough], m[enough]
    pairs = np.stack([t, m], axis=1)
    zero = np.zeros(len(sets))
    log_q = field.union_bits(sets, pairs)
    return _Walks(sets, pairs[:, None], pairs, log_q, zero, zero)


def _climb(field: _Field, walks: _Walks, scale_bits: int) -> _Walks:
    """One level up: of the pairs with |e| <= 0.2, that which widens the union least.

    Ties go to fewer limbs, then to less drift: terminals that a walk already has are free.
    """
    t = np.arange(MAX_TERMINALS + 1)
    bits = field.terminal_bits[walks.sets]  # [walk, t]
    aim = (walks.log_q + scale_bits - walks.drift)[:, None]  # log2 Q that would make e zero
    middles = (field.main_bits[1:] + field.main_bits[:-1]) / 2
    m = np.searchsorted(middles, aim - bits)  # [walk, t] the count of mains nearest to the aim
    log_q = bits + field.main_bits[m]
    drift = (log_q - aim) / 2
    most_t, most_m = np.maximum(t, walks.most[:, :1]), np.maximum(m, walks.most[:, 1:])
    rank = _NOMINAL_BITS * most_t + 30 * most_m + (t + m) / 128 + np.abs(drift) / 1024
    rank = np.where(np.abs(drift) <= MAX_DRIFT, rank, np.inf)  # NaN drift is not <= either
    pick = np.argmin(rank, axis=1)
    row = np.flatnonzero(np.isfinite(rank.min(axis=1)))
    at = row, pick[row]
    pair = np.stack([t[pick[row]], m[at]], axis=1)
    return _Walks(
        walks.sets[row],
        np.concatenate([walks.path[row], pair[:, None]], axis=1),
        np.maximum(walks.most[row], pair),
        log_q[at],
        drift[at],
        np.maximum(walks.worst[row], np.abs(drift[at])),
    )


def _best_walk(field: _Field, request: Request) -> tuple[tuple[float, ...], Plan] | None:
    walks = _walk(field, request)
    k, digits = len(field.specials), _count_digits(field, walks)
    key_limbs = walks.most.sum(1) + k
    union_bits = field.union_bits(walks.sets, walks.most)
    # Rounded, so that the last digit of a platform's log2 never decides between two plans.
    cost = np.stack([(digits + 2) * key_limbs, digits * key_limbs, union_bits.round(6)])
    for row in np.lexsort(cost[::-1]):
        if digits[row] <= (request.dnum or digits[row]) and (plan := _as_plan(field, walks, row)):
            return tuple(cost[:, row].tolist()), plan
    return None


def _count_digits(field: _Field, walks: _Walks) -> np.ndarray:
    """How many digits `partition` makes of each walk's union, [walk]."""
    steps = np.diff(field.terminal_bits[walks.sets], axis=1)
    mains = np.diff(field.main_bits)
    digits, filled = np.zeros(len(steps), int), np.full(len(steps), np.inf)
    columns = [np.where(j < walks.most[:, 0], steps[:, j], 0) for j in range(MAX_TERMINALS)]
    columns.reverse()
    columns += [np.where(j < walks.most[:, 1], mains[j], 0) for j in range(walks.most[:, 1].max(initial=0))]
    for bits in columns:
        filled = filled + bits
        opens = (bits > 0) & (filled > field.special_bits + _EPSILON)
        digits += opens
        filled = np.where(opens, bits, filled)
    return digits


def _as_plan(field: _Field, walks: _Walks, row: int) -> Plan | None:
    """The plan of one walk in exact integers; None where its terminals reach into its mains."""
    t, m = walks.most[row].tolist()
    chosen = field.sets[walks.sets[row]]
    terminals, mains = chosen[:t][::-1], field.mains[:m]
    if not set(terminals).isdisjoint(mains + field.specials):
        return None
    path = tuple((a, b) for a, b in walks.path[row].tolist())
    digits = partition(terminals + mains, math.prod(field.specials))
    return Plan(field.n, terminals, mains, field.specials, path, digits)
