"""The models of time: each count costs, and memory costs where a native call reads it."""

from __future__ import annotations

import pytest

import ren
from ren import Domain, RingSpec, self_test
from ren import __main__ as command
from ren.config import config
from ren.lowering.inspect.explain import explain
from ren.lowering.plan import cost
from ren.lowering.plan.cost import (
    NATIVE_BYTES_PER_SECOND,
    NATIVE_SECONDS_PER_BUTTERFLY,
    NATIVE_SECONDS_PER_CALL,
    NATIVE_SECONDS_PER_MULTIPLY_ADD,
    Cost,
    estimated_seconds,
    native_seconds,
    unit_costs,
)
from ren.lowering.plan.plan import Plan
from ren.lowering.storage import executable_store as disk
from ren.schemes import ckks
from tests.lowering.plans import RING, plan, poly

WHOLE = 4 * RING.limbs * RING.n
LIMB = WHOLE // RING.limbs


def test_the_model_grows_with_each_count():
    base = estimated_seconds(Cost(1, 1, 1, 1, 1), 1 << 14)
    assert estimated_seconds(Cost(1, 2, 1, 1, 1), 1 << 14) > base
    assert estimated_seconds(Cost(1, 1, 10**6, 1, 1), 1 << 14) > base
    assert estimated_seconds(Cost(1, 1, 1, 10**6, 1), 1 << 14) > base
    # 16 limbs of 2^14 take about a millisecond on the machine of the model.
    assert 0.5e-3 < estimated_seconds(Cost(1, 16), 1 << 14) < 2e-3


def moved(p: Plan, multiply_adds: int = 0, limb_ntts: int = 0) -> float:
    """The bytes that the estimate of a native call has to and from memory."""
    butterflies = limb_ntts * RING.n // 2 * (RING.n.bit_length() - 1)
    work = butterflies * NATIVE_SECONDS_PER_BUTTERFLY
    work += multiply_adds * NATIVE_SECONDS_PER_MULTIPLY_ADD
    return (native_seconds(p) - NATIVE_SECONDS_PER_CALL - work) * NATIVE_BYTES_PER_SECOND


def test_what_stays_in_the_cache_is_not_moved():
    p = plan((poly(1) + poly(2)).ntt() - 1)
    assert len(p.units) > 1
    assert moved(p, limb_ntts=RING.limbs) == pytest.approx(2 * WHOLE + 2 * WHOLE)


def test_an_input_is_read_once_and_only_its_limbs():
    part = RingSpec(RING.n, RING.moduli[1:3])
    x = poly(1, domain=Domain.NTT)
    once = plan(x.to_ring(part) + 1)
    assert moved(once) == pytest.approx(2 * LIMB + 2 * 2 * LIMB)
    both = plan(x.intt(), x + 1)
    assert moved(both, limb_ntts=RING.limbs) == pytest.approx(WHOLE + 2 * 2 * WHOLE)


def test_conversions_are_written_and_read_by_other_phases():
    base = RingSpec(RING.n, RING.moduli[:2])
    p = plan(poly(1, base).mod_up(base.moduli, RING).ntt())
    plain = plan(poly(1).ntt())
    assert native_seconds(p) > native_seconds(plain)


def test_rotations_that_share_digits_take_less_than_as_many_alone():
    ctx = ckks.context(depth=2)
    ctx.rotation_keys(range(1, 5))
    x = ctx.encrypt([1.0])
    one = ren.jit(lambda x: x.rotate(1))
    four = ren.jit(lambda x: [x.rotate(i) for i in range(1, 5)])
    one(x), four(x)
    alone, together = one.plans[0].plan, four.plans[0].plan
    by_units = lambda plan: sum(estimated_seconds(*unit) for unit in unit_costs(plan))  # noqa: E731
    for seconds in (native_seconds, by_units):
        assert 4 * seconds(alone) > seconds(together) > seconds(alone)


# ------------------------------------------------------------------- calibration


@pytest.fixture
def folder(tmp_path):
    with config.update(cache_dir=str(tmp_path / "kept")):
        yield tmp_path / "kept" / "calibration"
    cost.rates_of.cache_clear()


def chain_plan():
    return ren.plan(lambda x: x * x, ckks.spec(10))


@pytest.mark.once  # native code is what is measured
def test_a_calibration_is_kept_and_scales_all_estimates(folder):
    jitted = ren.jit(lambda x: x * x)
    jitted(ckks.context(depth=1).encrypt([1.0]))
    p, params = jitted.plans[0].plan, ckks.Parameters.for_bootstrapping(3, n=1 << 12, security=None)
    seconds = native_seconds(p), chain_plan().seconds, params.bootstrapping.seconds
    assert all("on two cores with AVX-512" in str(x) for x in (chain_plan(), params.bootstrapping))
    assert "on two cores with AVX-512 (python -m ren calibrates)" in explain(p)
    cost.keep_rates(2.5)
    cost.rates_of.cache_clear()  # as in another process
    assert cost.rates().factor == 2.5
    again = native_seconds(p), chain_plan().seconds, params.bootstrapping.seconds
    assert again == pytest.approx([2.5 * s for s in seconds])
    for shown in (chain_plan(), params.bootstrapping, explain(p)):
        assert "on this machine" in str(shown) and "AVX-512" not in str(shown)


@pytest.mark.parametrize("body", [b"fast", b"nan", b"0.0", b"1e9", None])
def test_a_damaged_calibration_is_ignored_with_one_warning(folder, body, caplog):
    cost.keep_rates(2.5)
    (entry,) = folder.iterdir()
    if body is None:
        entry.write_bytes(entry.read_bytes()[:-1] + b"6")
    else:
        disk.store("calibration").write(cost.machine_name(), body)
    cost.rates_of.cache_clear()
    assert [cost.rates().factor for _ in range(3)] == [1.0] * 3
    cost.rates_of.cache_clear()
    assert cost.rates() is cost.MODEL
    assert len([r for r in caplog.records if r.levelname == "WARNING"]) == 1


def test_nothing_is_kept_where_the_cache_is_off(tmp_path):
    with config.update(cache_dir="off"):
        cost.keep_rates(2.5)
        assert cost.rates() is cost.MODEL


@pytest.mark.once  # native code is what is measured
def test_the_command_calibrates(folder, monkeypatch):
    monkeypatch.setattr(command, "measured_factor", lambda: 1.75)
    told = dict(command.about())["estimates"]
    assert told == "on this machine, 1.75 times those on two cores with AVX-512"
    assert cost.rates().factor == 1.75


@pytest.mark.long
def test_what_is_measured_is_a_time_of_this_machine():
    assert 0.01 < self_test.measured_factor() < 1000
