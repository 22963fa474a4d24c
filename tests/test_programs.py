"""Programs that Ren itself runs: planned once, and equal to what is planned anew."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import ren
from ren import Poly, RingSpec
from ren.capture import programs
from ren.capture.programs import Integers, replayed
from ren.core.errors import TracedValueError
from ren.core.ring import Domain
from ren.core.spec import Spec
from ren.lowering.backends.native import build
from ren.lowering.backends.xla.emit import emit_graph
from ren.lowering.program.graph import with_words
from ren.lowering.runtime import host_arrays
from ren.lowering.runtime.planning import native_runner
from tests.lowering.native.calls import one_op
from tests.rings import primes

RING = RingSpec(16, primes(16)[-3:])
LARGE = RingSpec(4096, primes(4096)[-2:])


def random_poly(seed: int, batch: tuple[int, ...] = ()) -> Poly:
    return Poly(np.random.default_rng(seed).integers(0, 2**40, (*batch, 16)), RING)


def mixed(factor: int, x: Poly, unused: Poly, y: Poly) -> tuple[Poly, Poly]:
    return (x.ntt() * y.ntt() * factor).intt(), y - x


def counted(calls: list[int], x: Poly) -> tuple[Poly]:
    calls_of[calls] += 1
    return (x * x,)


calls_of = {"first": 0}


@pytest.mark.parametrize("batch", [(), (2,)])
def test_a_replay_computes_what_the_function_says(batch):
    x, unused, y = (random_poly(seed, batch) for seed in range(3))
    for factor in (1, 3):
        for pair in ((x, y), (y, x)):
            product, difference = replayed(mixed, factor, pair[0], unused, pair[1])
            expected = mixed(factor, pair[0], unused, pair[1])
            assert ren.equal(product, expected[0]) and product.domain is expected[0].domain
            assert ren.equal(difference, expected[1])


def test_it_is_planned_once_for_polynomials_of_one_type():
    for seed in range(3):
        x = random_poly(seed)
        (square,) = replayed(counted, "first", x)
        assert ren.equal(square, x * x)
    assert calls_of["first"] == 1
    replayed(counted, "first", random_poly(0, (2,)))
    replayed(counted, "first", random_poly(0).ntt())
    assert calls_of["first"] == 3


def test_arguments_are_realized_and_results_concrete_in_a_trace():
    seen = []

    def traced(x):
        seen.extend(replayed(mixed, 5, random_poly(1) + 1, random_poly(2), random_poly(3)))
        return x

    jax.jit(traced)(1)
    expected = mixed(5, random_poly(1) + 1, random_poly(2), random_poly(3))
    assert all(ren.equal(a, b) for a, b in zip(seen, expected, strict=True))


def test_arguments_of_a_capture_have_no_values():
    with pytest.raises(TracedValueError):
        ren.jit(lambda x: replayed(mixed, 7, x, x, x)[0])(random_poly(1))


ENDS = (0, 1, -1, 2**31, -(2**31), 2**32 - 1, 2**62, -(2**62), 2**63 - 1, -(2**63))


def transformed(factor: int, x: Poly, y: Poly, z: Poly) -> tuple[Poly, Poly]:
    return (x.ntt() * y + z.ntt()) * factor, z.ntt() - x.ntt()


@pytest.mark.once
@pytest.mark.parametrize("native", [False, "auto"])
@pytest.mark.parametrize(("n", "batch"), [(16, ()), (16, (3, 1)), (4096, ()), (4096, (2,))])
def test_integers_are_polynomials(n, batch, native):
    ring = RingSpec(n, (*primes(n)[:1], *primes(n)[-2:]))
    rng = np.random.default_rng(n)
    values = [rng.integers(-(2**63), 2**63, (*batch, n)) for _ in range(3)]
    for v in values:
        v[..., : len(ENDS)] = rng.permutation(ENDS)
    x, y, z = (Poly(v, ring) for v in values)
    with ren.config.update(native=native):
        programs.planned.cache_clear()
        for _ in range(2):
            given = Integers(values[0], ring), y.ntt(), Integers(values[2], ring)
            made = replayed(transformed, 3, *given)
            expected = transformed(3, x, y, z)
            assert all(ren.equal(a, b) for a, b in zip(made, expected, strict=True))
    programs.planned.cache_clear()


def test_words_are_residues_on_every_backend():
    ring, values = RingSpec(16, primes(16)[-3:]), np.array([*ENDS, *range(6)])
    graph, tables = with_words(*one_op("NTT", 16, ring.moduli), {0: ring})
    with jax.enable_x64(True):
        built = tuple(table.build() for table in tables)
        (made,) = jax.jit(lambda x: emit_graph(graph, built, x))(host_arrays.words(values))
    assert ren.equal(Poly.from_limbs(made, ring, Domain.NTT), Poly(values, ring))


@pytest.mark.once
def test_a_setting_that_changes_while_a_thread_chooses(monkeypatch):
    """No call runs natively while native code is off, whatever another thread is doing."""
    given = Poly(np.arange(4096), LARGE)
    runner, _ = programs.planned(transformed, 11, (Spec(LARGE, Domain.COEFF),) * 3, ())
    runner([given.limbs] * 3)
    inner: list[bool] = []

    def choosing(*args: object) -> object:
        if not inner:  # another thread calls meanwhile
            inner.append(True)
            runner([given.limbs] * 3)
            inner[0] = runner.is_native
        return native_runner(*args)

    monkeypatch.setattr(programs, "native_runner", choosing)
    with ren.config.update(native=False):
        runner([given.limbs] * 3)
    assert inner == [False] and not runner.is_native


def test_integers_of_other_positions_have_plans_of_their_own():
    ring, values = LARGE, np.arange(4096) - 7
    x = Poly(values, ring)
    for wide in ({0}, {2}, {0, 2}, set()):
        given = [Integers(values, ring) if i in wide else x for i in range(3)]
        made = replayed(transformed, 5, given[0], x.ntt(), given[2])
        expected = transformed(5, x, x.ntt(), x)
        assert all(ren.equal(a, b) for a, b in zip(made, expected, strict=True))


def test_integers_are_one_call_of_native_code_where_there_is_one():
    values = np.arange(4096) - 7
    programs.planned.cache_clear()
    try:
        build.compiler()
    except build.BuildError as error:
        pytest.skip(str(error))
    given = Integers(values, LARGE), Poly(values, LARGE).ntt(), Poly(values, LARGE)
    with ren.config.update(native=True):
        replayed(transformed, 9, *given)
    specs = (given[0].spec, Spec(LARGE, Domain.NTT), Spec(LARGE, Domain.COEFF))
    runner, _ = programs.planned(transformed, 9, specs, (0,))
    assert runner.is_native
    programs.planned.cache_clear()
