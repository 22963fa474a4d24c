"""Tasks that wait: the order of phases holds, and key products of a limb are kept by nobody."""

from __future__ import annotations

from itertools import islice

import pytest

import ren
from ren import Domain, RingSpec
from ren.core.numtheory import ntt_primes_below
from ren.lowering.backends.native.limb_program import Rows, axes_of, rows_of
from ren.lowering.backends.native.phases import (
    KEPT,
    LEAVES,
    ROW_BITS,
    PlacedConversion,
    _levels,
    delayed,
    scheduled,
    with_own_outputs,
    with_split_sums,
)
from ren.lowering.program.steps import Segment
from ren.lowering.runtime.runner import graph_runner
from ren.schemes.rlwe.keys import make_secret, make_switching_key
from ren.schemes.rlwe.keyswitch import Gadget, key_switch
from tests.lowering.plans import arrays, plan, poly
from tests.lowering.test_memory import program_polys
from tests.programs import generate

N, DIGITS = 64, 4


def all_rows(*polys) -> Rows:
    p = plan(*polys)
    (step,) = graph_runner(p).steps
    assert isinstance(step, Segment)
    inputs, outputs = axes_of(step.graph, ((),) * step.graph.inputs)
    given = arrays(p)
    limbs = [given[v].shape[-2] for v in step.ins]
    made = rows_of(step.graph, step.tables, tuple(zip(inputs, limbs, strict=True)), outputs)
    return with_own_outputs(with_split_sums(made))


def switched(keys: int) -> Rows:
    """One polynomial under some keys; one prime is special."""
    *moduli, special = islice(ntt_primes_below(N, 1 << 30), DIGITS + 1)
    gadget = Gadget(N, tuple((q,) for q in moduli), (special,))
    secret = make_secret(gadget.ring).poly
    c = poly(0, RingSpec(N, tuple(moduli)), Domain.NTT)
    made = []
    for k in range(keys):
        label = str(k).encode()
        key = make_switching_key(secret, secret, gadget.factors, bytes(32), label, 3.2)
        made += key_switch(c, ren.realize(key), gadget)
    return all_rows(*made)


@pytest.mark.parametrize("threads", [1, 2, 3, 64])
@pytest.mark.parametrize("seed", range(8))
def test_rows_come_after_what_they_read(seed, threads, monkeypatch):
    monkeypatch.setattr("ren.lowering.backends.native.phases.threads", lambda: threads)
    polys = program_polys(generate(seed, N, 1 + seed % 4, 8 + seed))
    rows = all_rows(*polys) if seed else switched(2)
    levels, converted = _levels(rows)
    found, phases = delayed(rows, levels, converted)
    for row, early, late in zip(rows.rows, levels, found, strict=True):
        if row.step == "converted":
            assert late == phases[row.given[0]] >= early and late % 2 == 1
        else:
            assert late == early if row.step in LEAVES else (late >= early and late % 2 == 0)
        assert all(found[s] <= late for s in row.src)
    for conversion, level in zip(rows.conversions, phases, strict=True):
        assert all(found[s] < level for s in conversion.src)


@pytest.mark.parametrize(("threads", "early"), [(1, 1), (2, 2), (3, 3), (64, DIGITS + 1)])
def test_products_with_keys_wait_for_the_division(threads, early, monkeypatch):
    monkeypatch.setattr("ren.lowering.backends.native.phases.threads", lambda: threads)
    rows = switched(4)
    schedule = scheduled(rows, range(1000), range(1000, 1000 + len(rows.outputs)))
    phases = [phase for phase in schedule.phases if not isinstance(phase[0], PlacedConversion)]
    sums = [[s for s in task if s.row.step == "dot" and len(s.src) > 2] for task in phases[-2]]
    assert len(sums) == early  # the special limb is one
    kept = {s.to for task in sums for s in task if s.to >> ROW_BITS == KEPT}
    assert len(kept) == 2 * 4 * (early - 1)
