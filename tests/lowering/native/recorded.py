"""Calls of the native kernels as the tests make them, recorded with their results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import ren
from ren import Domain, Poly, RingSpec
from ren.lowering.backends.base import Unsupported
from ren.lowering.backends.native import bytecode as code
from ren.lowering.backends.native import library
from ren.lowering.backends.native.backend import NativeBackend
from ren.lowering.backends.native.bytecode import NativeProgram, emit_native, native_program
from ren.lowering.backends.native.ffi_call import FfiCall
from ren.lowering.plan.plan import Plan
from ren.lowering.program.graph import Graph
from ren.lowering.program.steps import Segment
from ren.lowering.runtime.runner import graph_runner
from ren.poly.batching import stacked, unstacked
from ren.schemes.rlwe.keys import make_secret, make_switching_key
from ren.schemes.rlwe.keyswitch import Gadget, key_switch
from tests.lowering.kernels.residues import all_residues, basis
from tests.lowering.native.batched import batched_inputs, batched_program
from tests.lowering.native.calls import one_op, ring
from tests.lowering.native.driver import Recorded
from tests.lowering.plans import arrays, plan, poly
from tests.lowering.test_memory import program_polys
from tests.programs import generate
from tests.rings import primes

KEPT = (2**30 - 35, 2**61 - 1)  # moduli of coefficients of 4 and of 8 bytes


def recorded(graph: Graph, tables: tuple, inputs: Sequence[Any]) -> Recorded:
    """The native call of a graph, with the results of the usual library."""
    found = native_program(graph, tables, [tuple(x.shape) for x in inputs])
    assert isinstance(found, NativeProgram)
    made: list[tuple] = []
    name = library.outcome().name

    class Recorder(FfiCall):
        def __call__(self, *given: Any) -> tuple[Any, ...]:
            made.append(tuple(map(np.asarray, given)))
            return super().__call__(*given)

    built = tuple(tuple(map(jnp.asarray, table.build())) for table in found.tables)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(code, "FfiCall", Recorder)
        results = emit_native(found.form, name, built, *inputs)
    return Recorded(made[0], tuple(map(np.asarray, results)))


def of_plan(p: Plan) -> Recorded:
    """The native call of a plan."""
    (step,) = graph_runner(p).steps
    assert isinstance(step, Segment)
    inputs = arrays(p)
    return recorded(step.graph, step.tables, [inputs[v] for v in step.ins])


def of_run(run: Callable[[], object]) -> list[Recorded]:
    """The native calls that a function makes."""
    found: list[Recorded] = []
    usual = NativeBackend.compile

    def recording(self: NativeBackend, segment: Segment, args: Sequence[Any]) -> Any:
        made = usual(self, segment, args)
        if not isinstance(made, Unsupported):
            found.append(recorded(segment.graph, segment.tables, args))
        return made

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(NativeBackend, "compile", recording)
        run()
    return found


def of_op(name: str, n: int, k: int, m: int = 0) -> Recorded:
    """The call of a single op, on extreme and random residues."""
    moduli = basis(n, k + m)
    return recorded(*one_op(name, n, moduli[:k], moduli[k:]), [all_residues(moduli[:k], n)])


def of_key_switch(n: int) -> Recorded:
    """A key switch with three digits and two special primes."""
    *moduli, s0, s1 = primes(n)[-7:]
    gadget = Gadget(n, (tuple(moduli[:2]), tuple(moduli[2:4]), tuple(moduli[4:])), (s0, s1))
    secret = make_secret(gadget.ring)
    key = make_switching_key(
        secret.poly, secret.poly.rotate(1), gadget.factors, bytes(32), b"", 3.2
    )
    c = poly(0, RingSpec(n, tuple(moduli)), Domain.NTT)
    return of_plan(plan(*key_switch(c, key, gadget)))


def of_product(n: int, batch: tuple[int, ...] = ()) -> Recorded:
    """A product that is rescaled, beside elementwise steps, over batches."""
    r = ring(n, 4)
    x, y, z = poly(0, r, batch=batch), poly(1, r), poly(2, r, batch=batch)
    return of_plan(plan((x * y + z).rescale(r.moduli[:2]), (x - y).ntt(), -(z * 5 - 7)))


def of_automorphisms(n: int) -> Recorded:
    """Coefficients that move and change their sign, and slots that rotate."""
    x, y = poly(0, ring(n, 2)), poly(1, ring(n, 2), Domain.NTT)
    return of_plan(plan(x.automorphism(3), x.automorphism(-1) * 2 + 1, y.rotate(1) + y))


def of_embeddings(n: int) -> Recorded:
    """Values of small rings that repeat in blocks: one residue, and whole vectors."""
    r = ring(n, 2)
    x, *small = (
        poly(0, r, Domain.NTT),
        *(poly(m, RingSpec(m, r.moduli), Domain.NTT) for m in (4, n // 2)),
    )
    a, b = (p.embed(r) for p in small)
    return of_plan(plan(x * a + b * x, (a - b).intt()))


def of_general(n: int) -> Recorded:
    """Steps on moduli of two limbs, beside one of one limb, and lifts from and to them."""
    r = RingSpec(n, (3329, 2**61 - 1, 2**30 + 3))
    x, y = Poly.uniform(r, seed=b"x"), Poly.uniform(r, seed=b"y")
    return of_plan(plan(x * y - x, y.automorphism(3) + 5, -x))


def of_mix(n: int) -> Recorded:
    """Matrices of integers times a batch axis: one sum for each prime, and more terms than that."""
    x, wide = (poly(i, ring(n, 3), Domain.NTT, (k, 2)) for i, k in enumerate((3, 19)))
    few, many = (np.arange(-4, 4 * k - 4).reshape(4, k) * 0x3FFFFFFF for k in (3, 19))
    return of_plan(plan(x.mix(few, 0) * wide.mix(many, 0), wide.mix(many, 0).intt()))


def of_kept(n: int, modulus: int) -> Recorded:
    """Weights that are kept as coefficients, of 4 or 8 bytes, and transformed for a product."""
    r, kept = ring(n, 3), RingSpec(n, modulus)
    weights = [Poly.uniform(kept, seed=bytes([i])) for i in range(3)]
    x = poly(0, r, Domain.NTT, (3,))
    return of_plan(plan((stacked(weights).realize().to_ring(r).ntt() * x).intt(), x + 1))


def of_stacked(n: int) -> Recorded:
    """Batch axes that are taken apart."""
    r = ring(n, 3)
    x, y = poly(0, r, batch=(4,)), poly(1, r)
    each = unstacked(x.ntt() - y.ntt())
    return of_plan(plan(stacked([each[0] * each[1], each[2] + 1]), each[3] * y, stacked([x, y])))


def of_numbers(n: int) -> Recorded:
    """Numbers among the inputs, one for each limb."""
    x = poly(0, ring(n, 2), Domain.NTT)

    @ren.jit(tier="graph")
    def f(x: Any, k: Any, m: Any) -> Any:
        return (x * k + m).intt()

    (made,) = of_run(lambda: f(x, 3, -5))
    return made


def of_programs(seeds: Sequence[int]) -> Iterator[Recorded]:
    """Random programs, with and without batches."""
    for seed in seeds:
        n = (4, 16, 1024, 2048)[seed % 4]
        yield from _native(plan(*program_polys(generate(seed, n, 1 + seed % 4, 4 + 2 * seed))))
        yield from _native(plan(*batched_program(seed, 4 + seed, batched_inputs(seed, n))))


def _native(p: Plan) -> Iterator[Recorded]:
    if p.inputs and any(unit.name for unit in p.units):
        yield of_plan(p)


def small_plans() -> list[Recorded]:
    """One plan of each kind of step, small enough for thousands of runs."""
    made = [of_product(1024, (2,)), of_product(64), of_key_switch(256), of_automorphisms(1024)]
    made += [of_automorphisms(8), of_stacked(1024), of_general(64), of_embeddings(4096)]
    return [*made, of_numbers(1024), of_mix(64), *(of_kept(64, m) for m in KEPT)]


def all_calls() -> list[Recorded]:
    """Every op that native code is made for; plans of every kind, degree and batch."""
    kernels = chain(
        (of_op(op, 1 << k, 3) for op in ("NTT", "INTT") for k in range(2, 15)),
        (of_op(op, 64, k, m) for op in ("CONVERT", "LIFT") for k, m in ((1, 1), (5, 3), (17, 2))),
        (of_op(op, 4096, 3, 4) for op in ("CONVERT", "LIFT")),
    )
    plans = [
        *(of_mix(n) for n in (4, 4096)),
        *(of_kept(4096, m) for m in KEPT),
        of_product(4096),
        of_product(4096, (3,)),
        of_product(2048, (2, 4)),
        of_key_switch(4096),
    ]
    return [*kernels, *plans, *small_plans(), *of_programs(range(8))]
