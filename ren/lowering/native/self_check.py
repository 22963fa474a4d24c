"""The self-check: a library that was just built has to compute what the reference computes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import jax
import numpy as np

from ren.core import op as ops
from ren.core.args import RingArg, SlotArg, Spec, StoreArg
from ren.core.node import Node, make
from ren.core.ring import Domain, RingSpec
from ren.lowering.bodies import BODIES
from ren.lowering.native.build import BuildError
from ren.lowering.native.overrides import OVERRIDES, PLATFORM, tables_for
from ren.lowering.program import Kernel, kernel_of
from ren.lowering.tracing import concretely

# Degrees below and above the length of vectors; small primes and those just below 2^30.
_RINGS = (
    RingSpec(16, (97, 193, 1073741441, 1073740609)),
    RingSpec(4096, (40961, 1073692673, 1073668097)),
)


def check(library: str) -> None:
    """Runs each kernel of a library that is registered, on arrays of a few residues.

    Raises:
        BuildError: a kernel does not compute what it should.
    """
    kernels = [_kernel(node) for node in _examples()]
    inputs = [[_residues(s.spec, i) for i, s in enumerate(_node(k).src)] for k in kernels]
    with (
        concretely(),
        jax.enable_x64(True),
        jax.default_device(jax.local_devices(backend="cpu")[0]),
    ):
        tables = [[t.build() for t in tables_for(k.tables, library)] for k in kernels]
        made = jax.jit(partial(_emitted, library, kernels))(tables, inputs)
        got = [np.asarray(array) for array in made]
    for kernel, arrays, array in zip(kernels, inputs, got, strict=True):
        node = _node(kernel)
        if not np.array_equal(array, BODIES[node.op.name].reference(node, *arrays)):
            raise BuildError(f"the self-check of {node.op.name} at n = {node.spec.ring.n} failed")


def _examples() -> Iterator[Node]:
    for ring in _RINGS:
        yield make(ops.NTT, (_slot(ring, Domain.COEFF),))
        yield make(ops.INTT, (_slot(ring, Domain.NTT),))
        for op in (ops.CONVERT, ops.LIFT):
            source = _slot(ring.with_moduli(ring.moduli[1:]), Domain.COEFF)
            yield make(op, (source,), RingArg(ring.with_moduli(ring.moduli[:1])))


def _slot(ring: RingSpec, domain: Domain, index: int = 0) -> Node:
    return make(ops.SLOT, (), SlotArg(index, Spec(ring, domain, (2,))))


def _kernel(node: Node) -> Kernel:
    place = make(ops.SLOT, (), SlotArg(-1, node.spec))
    return kernel_of(make(ops.SINK, (make(ops.STORE, (place, node), StoreArg()),)))


def _node(kernel: Kernel) -> Node:
    return kernel.body.src[0].src[1]


def _residues(spec: Spec, seed: int) -> np.ndarray:
    """Residues of all sizes, and the extreme ones."""
    q = np.array(spec.ring.moduli, np.uint64)[:, None]
    places = np.arange(np.prod(spec.shape), dtype=np.uint64).reshape(spec.shape) + np.uint64(seed)
    some = (places * places * np.uint64(2654435761) + np.uint64(40503)) % q
    some[0, :, ::3] = (q - np.uint64(1)) % q
    some[..., 1::7] = 0
    return some.astype(np.uint32)


def _emitted(library: str, kernels: list[Kernel], tables: Any, inputs: Any) -> list[Any]:
    made = []
    for kernel, given, arrays in zip(kernels, tables, inputs, strict=True):
        op = _node(kernel).op.name
        (instr,) = (i for i in kernel.program.instrs if i.op == op)
        override = OVERRIDES[op, PLATFORM]
        read = [given[i] for i in instr.tables]
        made.append(override.emit(override.call(library), instr, read, *arrays))
    return made
