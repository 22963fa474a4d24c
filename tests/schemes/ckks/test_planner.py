"""The moduli planner: the worked examples, the depth table, and the rules of every plan."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from ren.core.errors import InsecureParametersError, ParameterError
from ren.schemes.ckks.parameters.parameters import Parameters
from ren.schemes.ckks.parameters.planner import (
    QUIET,
    QUIET_COST,
    Plan,
    Request,
    cheapest_plan,
    partition,
    plan_moduli,
    reachable_depth,
)

BOUND = {13: 214, 14: 430, 15: 868}  # eprint 2024/463, Table 5.2, 128 bits

# Depth inside the bound for dnum 2, 3, 4 and for any dnum (one special prime reaches furthest).
DEPTHS = {
    (13, 30): (2, 3, 3, 4),
    (13, 35): (1, 1, 1, 2),
    (13, 40): (1, 2, 2, 3),
    (13, 45): (1, 2, 2, 2),
    (13, 50): (1, 1, 1, 2),
    (14, 30): (7, 8, 9, 11),
    (14, 35): (5, 5, 6, 8),
    (14, 40): (5, 6, 7, 8),
    (14, 45): (4, 5, 6, 7),
    (14, 50): (4, 4, 5, 6),
    (15, 30): (17, 19, 21, 26),
    (15, 35): (13, 15, 16, 21),
    (15, 40): (12, 13, 15, 19),
    (15, 45): (11, 12, 13, 17),
    (15, 50): (9, 11, 12, 15),
}


def modulus(plan: Plan, pair: tuple[int, int]) -> int:
    """Q of the level (t, m), written out from the layout."""
    t, m = pair
    chosen = [plan.terminals[-1 - i] for i in range(t)] + [plan.mains[i] for i in range(m)]
    return math.prod(chosen)


def is_prime(q: int) -> bool:
    """Trial division: slow, plain, and enough under 2^30."""
    return q > 1 and all(q % d for d in range(2, math.isqrt(q) + 1))


def drifts(plan: Plan, scale_bits: int) -> list[float]:
    """The e_i of the plan's path, from exact moduli."""
    drift = [0.0]
    for low, high in zip(plan.path, plan.path[1:], strict=False):
        ratio = Fraction(modulus(plan, high), modulus(plan, low))
        step = math.log2(ratio.numerator) - math.log2(ratio.denominator)
        drift.append((drift[-1] + step - scale_bits) / 2)
    return drift


def check_plan(plan: Plan, n: int, request: Request) -> None:
    """Every rule that a plan has to keep, on integers where it can be."""
    union = plan.terminals + plan.mains
    everything = union + plan.specials
    assert plan.n == n and len(set(everything)) == len(everything)
    assert all(q % (2 * n) == 1 and q < 1 << 30 for q in everything)
    assert len(plan.path) == request.depth + 1
    assert max(t for t, _ in plan.path) == len(plan.terminals) <= 8
    assert max(m for _, m in plan.path) == len(plan.mains)
    assert modulus(plan, plan.path[0]) >= 1 << (request.scale_bits + request.integer_bits)
    assert max(map(abs, drifts(plan, request.scale_bits))) <= 0.2 + 1e-6
    product = math.prod(plan.specials)
    assert tuple(q for digit in plan.digits for q in digit) == union
    assert all(digit and math.prod(digit) <= product for digit in plan.digits)
    assert not request.dnum or len(plan.digits) == min(request.dnum, len(union))
    if request.limit < math.inf:
        assert math.prod(everything) <= 1 << int(request.limit)


@pytest.mark.long
def test_first_worked_example():
    request = Request(depth=7, scale_bits=40, integer_bits=10, dnum=4, limit=430)
    plan = plan_moduli(1 << 14, request)
    assert plan is not None
    check_plan(plan, 1 << 14, request)
    assert sorted(plan.terminals) == [786433, 1146881]
    assert (len(plan.specials), len(plan.mains), len(plan.digits)) == (3, 10, 4)
    assert plan.path == ((0, 2), (2, 2), (1, 4), (0, 6), (2, 6), (1, 8), (0, 10), (2, 10))
    union = math.prod(plan.terminals + plan.mains)
    assert round(math.log2(union), 1) == 339.7
    assert round(math.log2(union * math.prod(plan.specials)), 1) == 429.7
    assert round(max(map(abs, drifts(plan, 40))), 3) == 0.148
    assert not plan_moduli(1 << 14, Request(8, 40, 10, 4, 430))


@pytest.mark.parametrize(
    ("depth", "dnum", "log_q", "log_qp"), [(15, 4, 669.4, 849.4), (13, 3, None, 780)]
)
def test_second_worked_example(depth, dnum, log_q, log_qp):
    request = Request(depth, 40, 10, dnum, 868)
    plan = plan_moduli(1 << 15, request)
    assert plan is not None
    check_plan(plan, 1 << 15, request)
    union = math.prod(plan.terminals + plan.mains)
    assert log_q is None or round(math.log2(union), 1) == log_q
    digits = 1 if isinstance(log_qp, float) else 0
    assert round(math.log2(union * math.prod(plan.specials)), digits) == log_qp


@pytest.mark.parametrize(("log_n", "scale_bits"), DEPTHS)
def test_every_entry_of_the_depth_table_is_reached(log_n, scale_bits):
    n, limit = 1 << log_n, BOUND[log_n]
    for dnum, depth in zip((2, 3, 4, None), DEPTHS[log_n, scale_bits], strict=True):
        request = Request(depth, scale_bits, 10, dnum, limit)
        plan = plan_moduli(n, request)
        assert plan is not None, f"depth {depth} with dnum={dnum}"
        check_plan(plan, n, request)


@pytest.mark.slow
@pytest.mark.parametrize(("log_n", "scale_bits"), DEPTHS)
def test_every_entry_of_the_depth_table_is_found(log_n, scale_bits):
    for dnum, depth in zip((2, 3, 4, None), DEPTHS[log_n, scale_bits], strict=True):
        furthest = Request(60, scale_bits, 10, dnum, BOUND[log_n])
        assert reachable_depth(1 << log_n, furthest) >= depth


@pytest.mark.parametrize("log_n", [13, 14])
def test_the_reachable_depth_is_that_of_the_table(log_n):
    furthest = Request(60, 40, 10, None, BOUND[log_n])
    assert reachable_depth(1 << log_n, furthest) >= DEPTHS[log_n, 40][-1]


@pytest.mark.parametrize("scale_bits", range(20, 61))
def test_every_scale_has_some_depth(scale_bits):
    request = Request(5, scale_bits, 10, None, 868)
    plan = plan_moduli(1 << 15, request)
    assert plan is not None
    check_plan(plan, 1 << 15, request)


@pytest.mark.parametrize("n", [4, 1 << 6, 1 << 10, 1 << 16, 1 << 17])
def test_degrees_outside_the_table(n):
    request = Request(6, 40, 10, None, math.inf)
    plan = plan_moduli(n, request)
    assert plan is not None
    check_plan(plan, n, request)


@pytest.mark.parametrize(("n", "depth"), [(1 << 16, 40), (1 << 17, 40)])
def test_long_chains_at_large_degrees(n, depth):
    request = Request(depth, 40, 10, None, {1 << 16: 1747, 1 << 17: 3523}[n])
    plan = plan_moduli(n, request)
    assert plan is not None
    check_plan(plan, n, request)


def test_moduli_are_prime():
    plan = plan_moduli(1 << 14, Request(7, 40, 10, 4, 430))
    assert plan is not None
    assert all(map(is_prime, plan.terminals + plan.mains + plan.specials))


def test_special_primes_are_the_largest():
    plan = plan_moduli(1 << 13, Request(2, 40, 10, None, 214))
    assert plan is not None
    assert min(plan.specials) > max(plan.terminals + plan.mains)


def test_one_special_prime_reaches_depth_3_at_8192():
    plan = plan_moduli(1 << 13, Request(3, 40, 10, None, 214))
    assert plan is not None
    assert len(plan.specials) == 1 and all(len(digit) == 1 for digit in plan.digits)
    assert plan_moduli(1 << 13, Request(3, 40, 10, 4, 214)) is None


@pytest.mark.parametrize(
    ("log_n", "scale_bits", "depth"),
    [(13, 26, 2), (13, 26, 3), (13, 26, 4), (14, 26, 7), (14, 26, 9), (14, 40, 4), (14, 33, 7)]
    + [pytest.param(*case, marks=pytest.mark.long)
       for case in ((15, 26, 17), (15, 26, 20), (15, 40, 11), (16, 50, 17), (16, 50, 24))],
)  # fmt: skip
def test_a_free_dnum_takes_the_cheapest_key_switch_and_the_smallest_keys(log_n, scale_bits, depth):
    def costs(plan: Plan) -> tuple[int, int]:
        limbs = len(plan.terminals + plan.mains + plan.specials)
        return (len(plan.digits) + 2) * limbs, len(plan.digits) * limbs

    n, limit = 1 << log_n, (BOUND | {16: 1747})[log_n]
    free = plan_moduli(n, Request(depth, scale_bits, 10, None, limit))
    given = [plan_moduli(n, Request(depth, scale_bits, 10, d, limit)) for d in (1, 2, 3, 4, 8)]
    assert free is not None and any(given)
    check_plan(free, n, Request(depth, scale_bits, 10, None, limit))
    assert all(costs(free) <= costs(plan) for plan in given if plan)


def test_partition_is_contiguous_and_as_short_as_can_be():
    moduli = (7, 11, 13, 17, 19, 23)
    assert partition(moduli, 23) == ((7,), (11,), (13,), (17,), (19,), (23,))
    assert partition(moduli, 7 * 11 * 13) == ((7, 11, 13), (17, 19), (23,))
    assert partition(moduli, math.prod(moduli)) == (moduli,)


# The deepest chains that SEAL has room for too, with end primes of scale_bits + 10.
DEEP = {
    (13, 30): 4,
    (13, 35): 3,
    (14, 30): 11,
    (14, 35): 9,
    (14, 50): 6,
    (15, 30): 26,
    (15, 35): 21,
    (15, 40): 19,
    (15, 45): 16,
    (15, 50): 14,
    (16, 30): 55,
}


@pytest.mark.parametrize(("log_n", "scale_bits"), DEEP)
def test_many_digits_add_no_more_noise_than_a_few(log_n, scale_bits):
    n, limit = 1 << log_n, (BOUND | {16: 1747})[log_n]
    request = Request(DEEP[log_n, scale_bits], scale_bits, 10, None, limit)
    plan = plan_moduli(n, request)
    assert plan is not None
    check_plan(plan, n, request)
    product = math.prod(plan.specials)
    assert sum(Fraction(math.prod(d), product) ** 2 for d in plan.digits) <= QUIET
    union = plan.terminals + plan.mains
    assert all(min(plan.specials) != q for q in union)


def test_a_guard_prime_costs_little():
    loud = Request(24, 30, 10, None, 868)
    quiet = plan_moduli(1 << 15, loud)
    assert quiet is not None and min(quiet.specials) == 65537
    assert quiet.specials[0] > 1 << 29  # public-key encryption divides by the first
    cheapest = cheapest_plan(1 << 15, loud)
    assert cheapest is not None and cheapest.noise > QUIET >= quiet.noise
    assert cheapest.cost <= quiet.cost <= QUIET_COST * cheapest.cost


@pytest.mark.long
def test_guard_prime_is_no_main():
    """The mains of 2^25 at n = 2^15 reach down to 65537, the guard prime of that degree."""
    params = Parameters.for_depth(20, scale_bits=25, security=192, n=1 << 15)
    assert params.depth == 20 and params.log_qp <= 597
    moduli = params.union + params.specials
    assert len(set(moduli)) == len(moduli)


def test_the_least_degree_is_chosen():
    assert Parameters.for_depth(2).n == 1 << 13
    assert Parameters.for_depth(3).n == 1 << 13
    assert Parameters.for_depth(4).n == 1 << 14
    assert Parameters.for_depth(4, dnum=4).n == 1 << 14
    assert Parameters.for_depth(3, dnum=4).n == 1 << 14
    assert Parameters.for_depth(4, security=256).n == 1 << 15
    assert Parameters.for_depth(2, slots=1 << 14).n == 1 << 15


@pytest.mark.parametrize("dnum", [1, 2, 3, 4, 6, 11])
def test_keys_have_as_many_digits_as_were_asked_for(dnum):
    params = Parameters.for_depth(6, n=1 << 15, dnum=dnum)
    assert params.dnum == len(params.digits) == dnum
    assert tuple(q for digit in params.digits for q in digit) == params.union
    product = math.prod(params.specials)
    assert all(digit and math.prod(digit) <= product for digit in params.digits)


def test_digits_that_are_not_needed_cost_no_special_prime():
    few, many = (Parameters.for_depth(6, n=1 << 15, dnum=d) for d in (4, 5))
    assert many.dnum == 5 and len(many.specials) == len(few.specials)
    assert many.key_nbytes() > few.key_nbytes()


def test_more_digits_than_moduli_are_refused():
    with pytest.raises(
        ParameterError, match=r"Keys of 12 digits.*\n.*have 11\.\n.*dnum=11 or less"
    ):
        Parameters.for_depth(6, n=1 << 15, dnum=12)


def test_a_depth_out_of_reach_names_the_depth_and_the_degree_that_fit():
    with pytest.raises(InsecureParametersError) as error:
        Parameters.for_depth(4, n=1 << 13)
    given, needed, do = str(error.value).splitlines()
    assert "depth 4 at scale 2^40 with 128-bit security at n=8192" in given
    assert "214" in needed and "depth 3 fits there" in needed
    assert "n=16384" in do and "security=None" in do


@pytest.mark.long
def test_a_depth_out_of_reach_at_every_degree():
    for security in (128, None):  # at the largest degree primes end before the bound does
        with pytest.raises(ParameterError, match=r"No primes .*n=131072\.\nDepth 43 fits") as error:
            Parameters.for_depth(44, n=1 << 17, security=security)
        assert not isinstance(error.value, InsecureParametersError)
    with pytest.raises(ParameterError, match=r"No primes .*n=131072\."):
        Parameters.for_depth(200)
    with pytest.raises(InsecureParametersError, match="no depth fits there"):
        Parameters.for_depth(1, n=1 << 10)
    with pytest.raises(InsecureParametersError, match="with dnum=4"):
        Parameters.for_depth(3, n=1 << 13, dnum=4)


@pytest.mark.long
def test_a_scale_that_no_primes_keep_up():
    with pytest.raises(ParameterError, match=r"No primes under 2\^30.*depth 200.*\nDepth \d+ fits"):
        Parameters.for_depth(200, scale_bits=31, security=None, n=1 << 17)


@pytest.mark.long
def test_what_fits_at_the_largest_degree_is_found():
    # Primes lie so far apart there that another count of special primes ends other walks.
    for depth in (24, 25, 26, 30, 36, 40, 43):
        params = Parameters.for_depth(depth, n=1 << 17)
        assert params.depth == depth and params.log_qp <= 3523
