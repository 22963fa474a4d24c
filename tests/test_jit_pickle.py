"""Functions under `ren.jit` travel to other processes: by name, or whole with cloudpickle."""

from __future__ import annotations

import copy
import multiprocessing
import operator
import pickle
import subprocess
import sys
from pathlib import Path

import cloudpickle
import jax
import pytest
from jax.sharding import NamedSharding, PartitionSpec

import ren
from ren import Poly, RingSpec
from ren.jit import Jitted
from tests.rings import primes

RING = RingSpec(16, primes(16)[-2:])
X = Poly([1, 1], RING)


@ren.jit
def squared(x: Poly) -> Poly:
    return x * x


@ren.jit(static_argnames="k", donate_argnames=("x",), max_plans=3, tier="units", device="cpu")
def rotated(x: Poly, k: int) -> Poly:
    return x.rotate(k)


def plain(x: Poly) -> Poly:
    return x + x


class Model:
    @ren.jit
    def __call__(self, x: Poly) -> Poly:
        return x * 3


by_call = ren.jit(max_plans=2)(plain)


def coefficients(p: Poly) -> list[int]:
    return p.intt().tolist()[:3]


def in_worker(data: bytes) -> list[int]:
    return coefficients(pickle.loads(data)(X))


@pytest.mark.parametrize("dumps", [pickle.dumps, cloudpickle.dumps], ids=["pickle", "cloudpickle"])
def test_a_decorated_function_comes_back_as_itself_in_its_process(dumps):
    squared(X)
    again = pickle.loads(dumps(squared))
    assert again is squared and again.plans
    assert repr(squared) == "<ren.jit of squared: 1 plan>"
    assert pickle.loads(dumps(Model.__call__)) is Model.__call__


def test_options_travel():
    made = pickle.loads(pickle.dumps(by_call))
    assert isinstance(made, Jitted) and made is not by_call
    assert made.cache_info().max_plans == 2
    assert coefficients(made(X)) == [2, 2, 0]
    local = cloudpickle.loads(cloudpickle.dumps(ren.jit(static_argnames="k", device="cpu")(
        lambda x, k: x * k
    )))  # fmt: skip
    assert coefficients(local(X, k=5)) == [5, 5, 0]
    assert [local(X, k=k) is not None for k in (1, 2)] and local.cache_info().misses == 3


@pytest.mark.parametrize("dumps", [pickle.dumps, cloudpickle.dumps])
def test_a_sharding_stays_in_its_process(dumps):
    mesh = jax.make_mesh((1,), ("rows",))
    f = ren.jit(device=NamedSharding(mesh, PartitionSpec("rows")))(operator.neg)
    with pytest.raises(ren.errors.DeviceError, match="names devices of this process"):
        dumps(f)


def test_plans_stay_behind():
    function = ren.jit(lambda x: x * 7)
    function(X)
    again = cloudpickle.loads(cloudpickle.dumps(function))
    assert function.cache_info().plans == 1 and again.cache_info().plans == 0
    assert coefficients(again(X)) == [7, 7, 0]


@pytest.mark.long
def test_a_function_of_a_module_runs_in_a_spawned_process():
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(in_worker, (pickle.dumps(squared),)) == [1, 2, 1]
        assert pool.apply(in_worker, (pickle.dumps(by_call),)) == [2, 2, 0]


@pytest.mark.long
def test_a_function_of_a_notebook_runs_in_another_process(tmp_path: Path):
    """What `__main__` defines goes whole: the other process has another `__main__`."""
    source = """
import sys, cloudpickle, ren
factor = 5
@ren.jit
def scaled(x):
    return x * factor
sys.stdout.buffer.write(cloudpickle.dumps(scaled))
"""
    made = subprocess.run([sys.executable, "-c", source], capture_output=True, check=True).stdout
    function = cloudpickle.loads(made)
    assert "of scaled:" in repr(function) and coefficients(function(X)) == [5, 5, 0]


@pytest.mark.long
def test_a_script_sends_its_functions_by_name(tmp_path: Path):
    script = tmp_path / "script.py"
    script.write_text("""
import pickle, ren
@ren.jit
def scaled(x):
    return x * 5
if __name__ == "__main__":
    data = pickle.dumps(scaled)
    assert pickle.loads(data) is scaled
    assert b"scaled" in data
    print("sent")
""")
    made = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    assert made.stdout == "sent\n"


def test_a_plan_stays_in_its_process():
    squared(X)
    plan = squared.plans[-1]
    for dumps in (pickle.dumps, cloudpickle.dumps):
        with pytest.raises(ren.errors.JitError, match="Pickle the function"):
            dumps(plan)
    assert copy.copy(plan) is copy.deepcopy(plan) is plan


def test_a_polynomial_of_the_python_device_comes_back_to_it():
    p = X.to("python").realize()
    again = pickle.loads(pickle.dumps(p))
    assert again.device == "python" and (p + again).tolist() == [2 * v for v in p.tolist()]
    assert pickle.loads(pickle.dumps(X)).device == X.device
