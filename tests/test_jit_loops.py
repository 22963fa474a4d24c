"""Loops of jax.lax inside ren.jit: polynomials against big integers and the unrolled loop."""

from __future__ import annotations

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import ren
from ren import Poly, RingSpec
from ren.core.errors import DonatedBufferError
from tests import oracle

RING = RingSpec(n=8, moduli=(17, 97))
Q = 17 * 97
RNG = np.random.default_rng(0)
X, A, B = (Poly(RNG.integers(0, Q, 8), RING).ntt().realize() for _ in range(3))
ROWS = Poly(RNG.integers(0, Q, (3, 8)), RING).ntt().realize()


ENTRIES = jnp.array([3, -5, 2**31 - 1, -(2**31)])


def same(got, want) -> bool:
    """Equal structure and leaves, bit for bit."""
    got, want = jax.tree.flatten(got), jax.tree.flatten(want)
    pairs = zip(got[0], want[0], strict=True)
    return got[1] == want[1] and all(np.array_equal(g, w) for g, w in pairs)


def affine(x: Poly, a: Poly, b: Poly, steps: int) -> Poly:
    return lax.fori_loop(0, steps, lambda i, x: x * a + b, x)


def unrolled(x: Poly, a: Poly, b: Poly, steps: int) -> Poly:
    for _ in range(steps):
        x = x * a + b
    return x


def test_a_loop_is_the_unrolled_loop() -> None:
    jitted = ren.jit(affine)
    x, a, b = (p.tolist() for p in (X, A, B))
    for steps in range(5):
        got = jitted(X, A, B, steps)
        assert got.tolist() == x
        assert same(got, unrolled(X, A, B, steps).realize())
        x = oracle.add(oracle.mul(x, a, Q), b, Q)
    assert same(jitted(B, X, A, 2), unrolled(B, X, A, 2))
    assert jitted.cache_info()[:3] == (5, 1, 1)


@pytest.mark.long
@pytest.mark.parametrize("native", ["auto", False])
def test_native_bodies(native) -> None:
    """A transform of degree 4096 is native code, also in a loop."""
    ring = RingSpec(n=4096, moduli=(40961, 65537))
    x, a = (Poly.uniform(ring, seed=seed) for seed in (b"x", b"a"))
    body = lambda x: (x * a).intt() + 1  # noqa: E731
    with ren.config.update(native=native):
        got = ren.jit(lambda x: lax.fori_loop(0, 3, lambda i, x: body(x), x))(x)
        assert ren.equal(got, body(body(body(x))))


LOOPS = {
    "static": lambda x, k: affine(x, A, B, 3),
    "from": lambda x, k: lax.fori_loop(1, k + 1, lambda i, x: x * A + B, x),
    "numbers": lambda x, k: lax.fori_loop(0, 3, lambda i, x: x * k + 10**20 * k, x),
    "scan": lambda x, k: lax.scan(lambda c, y: (c * y, c + y), x, ROWS),
    "scan of an array": lambda x, k: lax.scan(lambda c, i: (c * A, i * 2), x, k * np.arange(3)),
    "while": lambda x, k: lax.while_loop(
        lambda c: c[0] < k, lambda c: (c[0] + 1, c[1] * A), (0, x)
    ),
    "while of a carry": lambda x, k: lax.while_loop(
        lambda c: c[0] < c[1], lambda c: (c[0] + 1, c[1], c[2] * A), (0, k, x)
    ),
    "switch": lambda x, k: lax.switch(k, [lambda p: p, lambda p: p + A, lambda p: p * A], x),
    "map": lambda x, k: lax.map(lambda y: y * x - k, ROWS),
    "nested": lambda x, k: lax.fori_loop(
        0, 3, lambda i, x: lax.fori_loop(0, k, lambda j, y: y * A + x, x) + B, x
    ),
    "branch in a loop": lambda x, k: lax.fori_loop(
        0, 3, lambda i, x: lax.cond(i % 2 == 0, lambda p: p * A, lambda p: p - x, x), x
    ),
    "two loops": lambda x, k: affine(affine(x, A, B, k).rotate(1) * 2, B, A, 2),
    "a result beside": lambda x, k: (affine(x, A, B, 2), k * 2, {"k": k}),
    "coefficients": lambda x, k: affine(x, A, B, 2) * Poly(k * np.arange(8), RING),
    "jit inside": lambda x, k: ren.jit(affine)(x, A, B, k),
    "counter": lambda x, k: lax.fori_loop(-1, 3, lambda i, c: (c * i - i).intt() * A - c * k, x),
    "coefficients and a counter": lambda x, k: lax.fori_loop(
        1, 4, lambda i, c: i - c * A.intt() + i * i, x.intt() * A
    ),
    "entries": lambda x, k: lax.fori_loop(0, 3, lambda i, c: c * ENTRIES[i] - ENTRIES[i], x),
    "scan of integers": lambda x, k: lax.scan(lambda c, w: (c * w + k, c - w), x, ENTRIES),
    "conditions": lambda x, k: lax.cond(
        (k > 1) & (np.int64(3) >= k) | (k == 7), lambda p: p * A, lambda p: p - B, x
    ),
    "other conditions": lambda x, k: lax.cond(
        (k != 2) | (k < 0), lambda p: lax.cond(k <= 0, lambda: p * A, lambda: p), lambda p: p - B, x
    ),
    "jax.numpy": lambda x, k: x * jnp.where(k > 1, 3, k - 5) + jnp.sum(jnp.arange(4) * k),
    "lax": lambda x, k: x * lax.select(jnp.asarray(k) > 1, 3, 4),
    "vmap": lambda x, k: jax.vmap(lambda row: row * x + k)(ROWS),
    "vmap of numbers": lambda x, k: jax.vmap(lambda w: x * w + k)(ENTRIES),
    "vmap of loops": lambda x, k: jax.vmap(lambda row: affine(row, x, B, k))(ROWS),
    "jax.jit inside": lambda x, k: jax.jit(lambda p: p * A + 1)(x) * k,
    "jax.checkpoint": lambda x, k: jax.checkpoint(lambda p: p * A + 1)(x) * k,
    "vmap in a body": lambda x, k: lax.fori_loop(
        0, 2, lambda i, c: jax.vmap(lambda p: p * A)(c), ROWS
    ) + x,
}  # fmt: skip


@pytest.mark.parametrize("loop", LOOPS.values(), ids=list(LOOPS))
def test_loops_are_as_without_jit(loop) -> None:
    jitted = ren.jit(loop)
    for k in (2, 0):
        assert same(jitted(X, k), loop(X, k)), k
    assert same(ren.djit(loop)(X, 2), loop(X, 2))
    assert jitted.cache_info().misses == 1


def test_loops_leak_no_tracer() -> None:
    """Under JAX's own check, against Python's integers."""

    def nested(x: Poly) -> Poly:
        square = (x * x).realize()
        inner = lambda c: lax.fori_loop(0, 2, lambda j, d: d * square + x, c)  # noqa: E731
        return lax.fori_loop(0, 2, lambda i, c: inner(c * x), x)

    want = x = X.tolist()
    square = oracle.mul(x, x, Q)
    for _ in range(2):
        want = oracle.mul(want, x, Q)
        for _ in range(2):
            want = oracle.add(oracle.mul(want, square, Q), x, Q)
    with jax.checking_leaks():
        assert ren.jit(nested)(X).tolist() == want
        rows = ren.jit(lambda rows: lax.map(lambda row: row * row, rows))(ROWS)
    assert rows.tolist() == [oracle.mul(row, row, Q) for row in ROWS.tolist()]


@pytest.mark.long
def test_integers_of_every_type_are_exact() -> None:
    """Against Python's integers; a loop of JAX without ren.jit traces them too."""
    dtypes = (np.int8, np.uint8, np.int32, np.uint32, np.int64, np.uint64, np.bool)
    with jax.enable_x64(True):
        jitted = jax.jit(lambda p, c: (p * c - c) + c * p)
        for dtype in dtypes:
            ends = (0, 1) if dtype is np.bool else (np.iinfo(dtype).min, np.iinfo(dtype).max)
            for c in ends:
                for p in (X, X.intt().realize()):
                    assert ren.equal(jitted(p, jnp.array(c, dtype)), p * (2 * c) - c)


@pytest.mark.long
def test_integers_that_jax_traces_in_general_rings() -> None:
    """Moduli without transforms, also wide ones: against the unrolled loop."""
    body = lambda i, c: c * (i * 2**28 + 1) - 7 * i  # noqa: E731
    for moduli in ((3329,), (2**61 - 1,), (17, 2**61 - 1, 3329)):
        p = Poly(RNG.integers(-1000, 1000, 256), RingSpec(n=256, moduli=moduli)).realize()
        want = p
        for i in range(-2, 3):
            want = body(i, want)
        assert ren.equal(ren.jit(lambda p: lax.fori_loop(-2, 3, body, p))(p), want)
        with jax.enable_x64(True):
            jitted = jax.jit(lambda p, c: p * c + c)
            for c in (np.uint64(2**64 - 1), np.int64(-(2**63)), np.int64(2**63 - 1)):
                assert ren.equal(jitted(p, jnp.asarray(c)), p * int(c) + int(c))


def test_an_array_of_the_arguments_is_indexed_by_the_counter() -> None:
    jitted = ren.jit(lambda x, w: lax.fori_loop(0, 3, lambda i, c: c * w[i, 1] + w[i][0], x))
    for w in (np.arange(6).reshape(3, 2) - 3, np.array([[5, 1], [0, -7], [2, 2]])):
        want = X
        for a, b in w.tolist():
            want = want * b + a
        assert ren.equal(jitted(X, w), want)
    assert jitted.cache_info().misses == 1


def test_both_branches_of_a_flag_that_is_an_argument() -> None:
    jitted = ren.jit(lambda x, flag: lax.cond(flag, lambda: x * A, lambda: x + B))
    assert same(jitted(X, True), X * A)
    assert same(jitted(X, False), X + B)
    assert jitted.cache_info().misses == 1


def test_loops_under_transformations_and_batches() -> None:
    jitted = ren.jit(affine)
    want = unrolled(ROWS, A, B, 2)
    assert ren.equal(jitted(ROWS, A, B, 2), want)
    assert ren.equal(jax.vmap(lambda x: jitted(x, A, B, 2))(ROWS), want)
    assert ren.equal(jax.jit(lambda x: jitted(x, A, B, 2))(ROWS), want)
    with ren.config.update(jit=False):
        assert ren.equal(jitted(ROWS, A, B, 2), want)


def test_draws_before_a_loop_are_fresh_at_each_replay() -> None:
    @ren.jit
    def noisy(x: Poly) -> tuple[Poly, Poly]:
        e = Poly.uniform(RING)
        return lax.fori_loop(0, 2, lambda i, x: x + e, x), e

    (first, e), (second, f) = noisy(X), noisy(X)
    assert not ren.equal(e, f)
    assert ren.equal(first, X + e + e) and ren.equal(second, X + f + f)
    assert noisy.cache_info().misses == 1


def test_a_body_that_jax_remembers_reads_the_arguments_of_each_call() -> None:
    """The traces of one body by several captures have nothing in common."""
    held = {}

    def body(c, _):
        return c * held["a"], None

    def scanned(x: Poly, a: Poly) -> Poly:
        held["a"] = a
        return lax.scan(body, x, None, length=2)[0]

    jitted = ren.jit(scanned)
    for a in (A, B):
        jitted.clear()
        assert ren.equal(jitted(X, a), X * a * a)
        assert ren.equal(jitted(X, X), X * X * X)


def test_options() -> None:
    want = unrolled(X, A * A, B, 2)
    function = lambda x: lax.fori_loop(0, 2, lambda i, x: x * (A * A) + B, x)  # noqa: E731
    for options in ({"prune": True}, {"tier": "graph"}, {"tier": "units"}, {"device": "cpu"}):
        assert ren.equal(ren.jit(**options)(function)(X), want)
    static = ren.jit(static_argnames="steps")(affine)
    assert ren.equal(static(X, A, B, steps=2), unrolled(X, A, B, 2))
    given = jax.tree.map(jnp.copy, X)
    donating = ren.jit(donate_argnames="x")(function)
    assert ren.equal(donating(given), want)
    with pytest.raises(DonatedBufferError):
        given.tolist()


def test_a_lazy_polynomial_that_is_closed_over_is_computed_once() -> None:
    lazy = A * B + 1
    jitted = ren.jit(lambda x: lax.fori_loop(0, 2, lambda i, x: x * lazy, x))
    assert ren.equal(jitted(X), X * lazy * lazy)
    steps = jitted.plans[0].explain().splitlines()
    assert [line.split(":")[-1].split()[0] for line in steps if "program" in line] == ["MUL"]


def test_reports(capsys) -> None:
    jitted = ren.jit(show_graph=True)(affine)
    jitted(X, A, B, 3)
    plan = jitted.plans[0]
    assert "MUL ADD" in capsys.readouterr().out
    assert "loop, as many steps as the call says\n  program 0: MUL ADD" in plan.explain()
    assert "one executable of XLA" in plan.explain()
    assert plan.memory.output_bytes == 64 and plan.memory.input_bytes >= 3 * 64
    assert "program 0" in plan.to_mermaid() and "program 0" in plan.to_dot()
    assert "program 0" in plan._repr_html_() and "steps with loops" in repr(plan)
    assert plan.telemetry.tier == "graph" and plan.wait()
    fixed = ren.jit(lambda x: affine(x, A, B, 10))
    fixed(X)
    assert fixed.plans[0].cost.multiply_adds == 10 * plan.cost.multiply_adds > 0
    assert "loop, 10 steps" in ren.xpr(lambda x: affine(x, A, B, 10), X)
    assert "length=3" in ren.stages(affine, X, A, B, 3)["jaxpr"]
    with ren.trace() as trace:
        jitted(X, A, B, 3)
    assert [record.name for record in trace.records] == ["loops of affine"]
    with pytest.raises(ren.RenError, match=r"Read plan\.memory"):
        plan.plot_memory()


def test_trees_around_a_loop() -> None:
    """Polynomials are stacked by jax.tree.map, and numbers stay exact under it."""

    def f(x: Poly, factors: list[Poly], numbers: dict) -> tuple[Poly, dict]:
        rows = jax.tree.map(lambda *limbs: jnp.stack(limbs), *factors)
        x = lax.scan(lambda c, y: (c * y, None), x, rows)[0]
        doubled = jax.tree.map(lambda v: v * 2, numbers)
        return x * doubled["k"], doubled

    jitted = ren.jit(f)
    for k in (10**30, 3):
        got, numbers = jitted(X, [A, B], {"k": k, "scale": 0.1})
        assert ren.equal(got, X * A * B * (2 * k))
        assert numbers == {"k": 2 * k, "scale": 0.2}
    assert jitted.cache_info().misses == 1


def test_a_function_with_loops_is_pickled() -> None:
    jitted = pickle.loads(pickle.dumps(JITTED))
    assert ren.equal(jitted(X, A, B, 2), unrolled(X, A, B, 2))


JITTED = ren.jit(affine)

CHANGES = {
    "domain": (lambda i, x: x.ntt() * 1, "domain COEFF and NTT", r"x\.ntt\(\)"),
    "ring": (lambda i, x: x.to_ring(RingSpec(n=8, moduli=(17,))), "ring RingSpec", "to_ring"),
    "batch": (lambda i, x: x * ROWS.intt().ntt().intt(), "uint32", "batch axes"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=list(CHANGES))
def test_a_carry_that_changes_its_type(change) -> None:
    body, what, remedy = change
    start = X.intt() if what.startswith("domain") else X
    with pytest.raises(ren.errors.LoopError, match=what) as raised:
        ren.jit(lambda x: lax.fori_loop(0, 2, body, x))(start)
    assert "test_jit_loops.py" in raised.value.given
    assert raised.match(remedy)


ONES = np.ones(2, np.float32)


def test_what_raises() -> None:
    zero = ren.jit(lambda x: lax.fori_loop(0, 2, lambda i, c: c + x, Poly.zeros(RING).ntt()))
    with pytest.raises(ren.errors.LoopError, match=r"contiguous\(\)"):
        zero(X)
    with pytest.raises(ren.errors.LoopError, match="results differ: domain NTT and COEFF") as told:
        ren.jit(lambda x: lax.cond(True, lambda p: p, lambda p: p.intt(), x))(X)
    assert told.value.do == "Write x.ntt() or x.intt() in one of them."
    with pytest.raises(ren.errors.LoopError, match=r"(?s)c\[1\]: arrays .*astype") as told:
        ren.jit(lambda x: lax.scan(lambda c, _: ((c[0], c[1] > 0), None), (x, ONES), None, 2)[0])(X)
    assert "batch axes" not in told.value.do
    with pytest.raises(ren.errors.LoopError, match=r"(?s)results differ: arrays .*one shape and"):
        ren.jit(lambda x: lax.cond(True, lambda p: (p, ONES), lambda p: (p, ONES[:1]), x))(X)
    with pytest.raises(ren.errors.LoopError, match="JAX counts with int32"):
        ren.jit(affine)(X, A, B, 10**20)
    with pytest.raises(ren.errors.RandomnessError, match="Draw outside"):
        ren.jit(lambda x: lax.fori_loop(0, 2, lambda i, c: c + Poly.uniform(RING), x))(X)
    with pytest.raises(ren.errors.JitError, match="tier='eager'"):
        ren.jit(tier="eager")(affine)(X, A, B, 2)
    with pytest.raises(ren.errors.DeviceError, match=r"x\.to\('cpu'\)"):
        ren.jit(device="python")(affine)(X, A, B, 2)
    with pytest.raises(ren.errors.JitError, match="returned no polynomial"):
        ren.jit(only)(X)


def only(x: Poly) -> int:
    """No polynomial, after a loop."""
    affine(x, A, B, 2)
    return 3


def test_settings_of_jax() -> None:
    with jax.disable_jit():
        assert ren.equal(ren.jit(affine)(X, A, B, 2), unrolled(X, A, B, 2))
    with jax.enable_x64(True):
        assert ren.equal(ren.jit(affine)(X, A, B, 2), unrolled(X, A, B, 2))


@pytest.mark.parametrize("moduli", [(17, 97), (2**61 - 1,)], ids=["primes with roots", "general"])
def test_a_body_may_scale_coefficients_by_its_index(moduli) -> None:
    p = Poly(range(8), RingSpec(8, moduli))
    made = ren.jit(lambda p: lax.fori_loop(1, 6, lambda i, carry: carry * i, p))(p)
    assert made.domain is p.domain
    assert made.tolist() == [120 * c % p.ring.q for c in range(8)]


READERS = {
    "steps of a scan": lambda x, w: lax.scan(lambda c, k: (c * k, None), x, w)[0],
    "an index": lambda x, w: lax.fori_loop(0, 2, lambda i, c: c * w[i], x),
    "a function of JAX": lambda x, w: x * jnp.prod(w),
    "a jitted function of JAX": lambda x, w: jax.jit(lambda x, w: x * w[0] * w[1])(x, w),
}
WIDE = [[2**33 + 5, -3], [7, -(2**31) - 1], [2**62, 1]]


@pytest.mark.parametrize("numbers", WIDE)
@pytest.mark.parametrize("name", READERS)
def test_numbers_that_jax_does_not_hold_raise(name: str, numbers: list[int]) -> None:
    """JAX would take their low 32 bits. With its mode of 64 bits they are exact, by a plan anew."""
    function, w = ren.jit(READERS[name]), np.array(numbers)
    function(X, np.array([2, 3]))
    with pytest.raises(ren.errors.LoopError, match=f"'w' is, or holds, {numbers[0]}|-2147483649"):
        function(X, w)
    if abs(numbers[0] * numbers[1]) < 2**63:
        with jax.enable_x64(True):
            want = (X * numbers[0] * numbers[1]).tolist()
            assert function(X, w).tolist() == want
    assert function(X, np.array([5, -3])).tolist() == (X * -15).tolist()
    assert function.cache_info().plans == 1 + (abs(numbers[0] * numbers[1]) < 2**63)


@pytest.mark.parametrize("k", [np.int64(2**32 + 3), -(2**70), np.uint32(2**32 - 1)])
def test_a_number_of_steps_that_jax_does_not_hold(k) -> None:
    count = ren.jit(lambda x, n: lax.fori_loop(0, n, lambda i, c: c + 1, x))
    if k == 2**32 - 1:  # a type that JAX has: the value is exact
        assert (
            ren.jit(lambda x, k: jax.jit(lambda x, k: x * k)(x, k))(X, k).tolist()
            == (X * int(k)).tolist()
        )
    else:
        with pytest.raises(ren.errors.LoopError, match="JAX counts with int32"):
            count(X, k)
