"""ren.plan: from shapes alone to depth, parameters, keys and costs, and to a context for them."""

from __future__ import annotations

import numpy as np
import pytest

import ren
from ren.schemes import ckks
from tests.schemes.ckks.keys import keys_of

BAR = 2.0**-18
SMALL = {"n": 1 << 10, "security": None}


def step(x, y, w):
    return (x * y + x.rotate(-3) * w) * 0.5 + y.conj()


def test_a_plan_makes_a_context_that_suffices_and_no_more():
    rng = np.random.default_rng(0)
    a, w = rng.uniform(-1, 1, (2, 512))
    b = rng.uniform(-1, 1, 512) * 1j
    plan = ren.plan(step, ckks.spec(512), ckks.spec(512, complex), w, **SMALL)
    assert (plan.depth, plan.rotations, plan.needs_conjugation) == (2, (-3,), True)
    assert plan.keys == 3 and plan.key_bytes == 3 * plan.params.key_nbytes()
    ctx = ckks.context(plan)
    server = ctx.server()
    assert ctx.params == plan.params and len(keys_of(server).galois) == 2
    assert keys_of(server).nbytes == plan.key_bytes
    x, y = ctx.encrypt(a), ctx.encrypt(b)
    jitted = ren.jit(step)
    with server:
        got = jitted(x, y, w)
    want = (a * b + np.roll(a, 3) * w) * 0.5 + b.conj()
    assert got.level == 0 and np.abs(ctx.decrypt(got) - want).max() < BAR
    replay = jitted.plans[0]
    assert replay.cost.limb_ntts == plan.limb_ntts > 0
    assert plan.seconds > 0 and plan.peak_bytes > plan.key_bytes
    with pytest.raises(ckks.DepthError):
        step(x.drop_to(1), y, w)
    text = str(plan)
    for part in (
        "depth",
        "rotations: -3",
        "conjugation",
        "relinearization",
        "INSECURE",
        "limb-NTTs",
    ):
        assert part in text


@pytest.mark.parametrize(
    ("function", "depth", "keys"),
    [
        (lambda x: x + 1, 0, 0), (lambda x: 3 * x.rotate(1), 0, 1), (lambda x: x**8, 3, 1),
        (lambda x: (x * 0.5).compress(), 1, 0), (lambda x: x.drop_to(2), 2, 0),
        (lambda x: [x * x, {"y": x.rotate(1) + x.rotate(2)}], 1, 3), (lambda x: x.roll(1), 1, 2),
        (ren.jit(lambda x: x * x), 1, 1),
    ],
)  # fmt: skip
def test_depths_and_keys(function, depth, keys):
    plan = ren.plan(function, ckks.spec(9), **SMALL)
    assert (plan.depth, plan.keys) == (depth, keys)


def test_degrees_are_secure_and_hold_the_vectors():
    for length, n in ((100, 1 << 12), (2048, 1 << 12), (2049, 1 << 13), (5000, 1 << 14)):
        plan = ren.plan(lambda x: x.rotate(1), ckks.spec(length))
        assert plan.params.n == n and plan.params.security_bits >= 128
    plan = ren.plan(lambda x: x + x, ckks.spec(1300), **SMALL)
    assert plan.params.n == 1 << 10  # three blocks
    with pytest.raises(ckks.ParameterError, match="3 blocks"):
        ren.plan(lambda x: x.rotate(1), ckks.spec(1300), **SMALL)


def test_batches_scalars_and_containers():
    plan = ren.plan(
        lambda pair, named: pair[0] * named["k"] + pair[1],
        [ckks.spec((4, 100)), ckks.spec(())],
        {"k": ckks.spec(100)},
        **SMALL,
    )
    one = ren.plan(lambda x, y, z: x * y + z, *[ckks.spec(100)] * 3, **SMALL)
    assert plan.depth == one.depth == 1 and plan.limb_ntts > one.limb_ntts


def test_what_cannot_be_planned():
    with pytest.raises(ckks.ParameterError, match=r"no ckks\.spec"):
        ren.plan(lambda x: x, 1.0)
    for shape in (0, (3, 0), -1, "x", (2.5,), None):
        with pytest.raises(ckks.ParameterError, match="got the shape"):
            ckks.spec(shape)
    with pytest.raises(ckks.InsecureParametersError):
        ren.plan(lambda x: x**8, ckks.spec(10), n=1 << 12)
