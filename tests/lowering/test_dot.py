"""DOT: sums of products with one reduction for up to 16 of them."""

from __future__ import annotations

import numpy as np
import pytest

from ren import Domain, Poly, RingSpec
from ren.core import make
from ren.core import op as ops
from ren.core.errors import DomainError
from ren.lowering.plan.cost import cost_of
from ren.lowering.runtime.planning import plan_of
from ren.poly.poly import from_node
from tests.rings import primes

N = 16
POOL = primes(N)
RING = RingSpec(N, (POOL[0], POOL[1], POOL[-2], POOL[-1]))


def factors(count: int, kind: str, device=None) -> list[Poly]:
    rng = np.random.default_rng(count)
    made = []
    for _ in range(count):
        columns = [
            np.full(N, q - 1) if kind == "largest" else rng.integers(0, q, N) for q in RING.moduli
        ]
        limbs = np.stack(columns).astype(np.uint32)
        made.append(Poly.from_limbs(limbs, RING, Domain.NTT).to(device or "cpu").realize())
    return made


def dot(src: list[Poly]) -> Poly:
    return from_node(make(ops.DOT, [p.node for p in src]))


def plain(src: list[Poly]) -> list[int]:
    """sum x y over the values of each limb, on Python ints in Montgomery form."""
    total = []
    for i, q in enumerate(RING.moduli):
        inverse = pow(1 << 32, -1, q)
        rows = [[int(v) for v in p.limbs[i]] for p in src]
        pairs = list(zip(rows[::2], rows[1::2], strict=True))
        total.append([sum(x[j] * y[j] for x, y in pairs) * inverse % q for j in range(N)])
    return total


@pytest.mark.parametrize("kind", ["random", "largest"])
@pytest.mark.parametrize("terms", [1, 2, 3, 15, 16, 17, 40])
def test_it_is_the_sum_of_the_products(terms, kind):
    src = factors(2 * terms, kind)
    assert dot(src).limbs.tolist() == plain(src)
    host = [p.to("python") for p in src]
    assert dot(host).limbs.tolist() == plain(src)


def test_batches_broadcast():
    x, y = factors(2, "random")
    batch = Poly.from_limbs(np.stack([x.limbs, y.limbs]), RING, Domain.NTT).to("cpu").realize()
    assert dot([batch, x, y, y]).shape == (2, RING.limbs, N)


def test_sources_are_moved_to_the_ntt_domain():
    x = Poly(range(N), RING)
    assert np.array_equal(dot([x, x]).limbs, (x * x).limbs)


def test_work_is_counted():
    plan = plan_of(make(ops.SINK, [dot(factors(6, "random")).node]))
    assert cost_of(plan).multiply_adds == 3 * RING.limbs * N


def test_an_odd_number_of_factors_is_told():
    with pytest.raises(DomainError, match="3 factors"):
        dot(factors(3, "random"))


def test_sums_of_products_are_fused():
    a, b, c, d, e = factors(5, "random")
    plan = plan_of(make(ops.SINK, [((a * b + c * d) + e).node]))
    (unit,) = plan.units
    assert unit.name == "DOT ADD"
    total = Poly.zeros(RING)
    for k in range(20):
        total = total + a * (b + k)
    plan = plan_of(make(ops.SINK, [total.node]))
    assert sum(i.op == "DOT" for u in plan.units for i in u.kernel.program.instrs) == 2
    expected = sum(np.asarray((a * (b + k)).limbs).astype(np.int64) for k in range(20))
    assert np.array_equal(total.limbs, expected % np.array(RING.moduli)[:, None])


def test_products_that_another_reads_are_not():
    a, b, c, d = factors(4, "random")
    x, y = a * b, c * d
    plan = plan_of(make(ops.SINK, [(x + y).node, x.node, y.node]))
    assert not any(i.op == "DOT" for u in plan.units for i in u.kernel.program.instrs)
