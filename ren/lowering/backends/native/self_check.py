"""The self-check: a library that was just built has to compute what the reference computes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import jax
import numpy as np

from ren.core import op as ops
from ren.core.node import Node, make
from ren.core.ring import Domain, RingSpec, width
from ren.core.spec import MixArg, RingArg, SlotArg, Spec, StoreArg
from ren.lowering.backends.base import Unsupported
from ren.lowering.backends.native.build import BuildError
from ren.lowering.backends.native.bytecode import NativeProgram, emit_native, native_program
from ren.lowering.backends.native.hashing import BLOCK, Functions
from ren.lowering.backends.native.host_call import host_call
from ren.lowering.backends.reference.ops import REFERENCE
from ren.lowering.devices.devices import concretely, wide, without_mesh
from ren.lowering.kernels.integers import float_tables
from ren.lowering.kernels.mixing import matrix_of
from ren.lowering.program.graph import Call, Graph, Kernel, kernel_of

# Degrees below and above the length of vectors; small primes and those just below 2^30.
_RINGS = (
    RingSpec(16, (97, 193, 1073741441, 1073740609)),
    RingSpec(4096, (40961, 1073692673, 1073668097)),
)
_WIDE = (2**30 + 3, 2**61 - 1)  # the least modulus of two limbs, and the largest prime


def check(library: str) -> None:
    """Runs a library that is registered through XLA, on arrays of a few residues.

    That is the way of arrays and threads: the same bytecode as of the host, which runs each op.

    Raises:
        BuildError: it does not compute what it should.
    """
    some = [node for node in _examples() if node.op in (ops.DOT, ops.NTT)]
    _check_ops(some, lambda found, arrays: _through_xla(library, found, arrays))


def _check_ops(
    examples: Iterable[Node], run: Callable[[NativeProgram, list[np.ndarray]], Any]
) -> None:
    """Compares ops by `run` with the reference, on arrays of a few residues."""
    kernels = [_kernel(node) for node in examples]
    inputs = [[_residues(s.spec, i) for i, s in enumerate(_node(k).src)] for k in kernels]
    with (
        concretely(),
        without_mesh(),
        wide(),
        jax.transfer_guard("allow"),
        jax.default_device(jax.local_devices(backend="cpu")[0]),
    ):
        for kernel, arrays in zip(kernels, inputs, strict=True):
            node = _node(kernel)
            want = REFERENCE[node.op.name](node, *arrays)
            if not np.array_equal(run(_program(kernel, arrays), arrays), want):
                n = node.spec.ring.n
                raise BuildError(f"the self-check of {node.op.name} at n = {n} failed")


def check_functions(functions: Functions) -> None:
    """Runs what the host calls of a library, each op among it.

    Raises:
        BuildError: a function does not compute what it should.
    """
    for prefix in (b"", bytes(range(125)), bytes(range(1, 142))):
        streams = [hashlib.shake_256(prefix + i.to_bytes(8, "little")) for i in range(255, 266)]
        want = b"".join(stream.digest(2 * BLOCK) for stream in streams)
        if bytes(functions.squeezed(prefix, 255, len(streams), 2)) != want:
            raise BuildError(f"the self-check of SHAKE-256 after {len(prefix)} bytes failed")
    words = np.frombuffer(want, "<u4")
    for q in (97, 1073741441):
        largest, out = (1 << 32) // q * q - 1, np.empty(len(words), np.uint32)
        above = functions.uniform(words, q, largest, out)
        is_right = np.array_equal(above, np.flatnonzero(words > largest))
        if not is_right or not np.array_equal(out, words % np.uint32(q)):
            raise BuildError(f"the self-check of residues modulo {q} failed")
    for ring in _RINGS:
        _check_floats(functions, ring)
    _check_ops(_examples(), lambda found, arrays: _in_this_thread(functions, found, arrays))


def _check_floats(functions: Functions, ring: RingSpec) -> None:
    """Compares the floats of a few integers of all sizes with these integers."""
    moduli, half, n = ring.moduli, ring.q // 2, ring.n
    ends = [0, 1, -1, half, -half]
    values = ends + [(-1) ** i * (half >> (i % half.bit_length())) for i in range(n - len(ends))]
    limbs = np.array([[(v << 32) % q for v in values] for q in moduli], np.uint32)
    for found in functions.floats(np.stack([limbs, limbs]), float_tables(moduli)).tolist():
        if any(abs(int(x) - v) << 52 > abs(v) for x, v in zip(found, values, strict=True)):
            raise BuildError(f"the self-check of floats at n = {n} failed")


def _program(kernel: Kernel, inputs: list[np.ndarray]) -> NativeProgram:
    """A kernel as a plan of its own."""
    count, tables = len(inputs), tuple(range(len(kernel.tables)))
    graph = Graph(count, (Call(kernel.program, tables, tuple(range(count))),), (count,))
    found = native_program(graph, kernel.tables, [a.shape for a in inputs])
    if isinstance(found, Unsupported):
        raise BuildError(f"{_node(kernel).op.name} has no bytecode: {found.reason}")
    return found


def _through_xla(library: str, found: NativeProgram, inputs: list[np.ndarray]) -> Any:
    arrays = tuple(t.build() for t in found.tables)
    (made,) = jax.jit(partial(emit_native, found.form, library))(arrays, *inputs)
    return made


def _in_this_thread(functions: Functions, found: NativeProgram, inputs: list[np.ndarray]) -> Any:
    arrays = [jax.device_put(a) for a in inputs]
    call = host_call(functions.run, found, arrays)
    return None if call is None else call(arrays)[0]


def _examples() -> Iterator[Node]:
    for ring in _RINGS:
        pair = [_slot(ring, Domain.NTT, i) for i in range(4)]
        yield make(ops.DOT, pair)
        yield make(ops.SUB, pair[:2])
        yield make(ops.NTT, (_slot(ring, Domain.COEFF),))
        weights = np.arange(-5, 5).reshape(5, 2) * 0x3FFFFFFF
        yield make(ops.MIX, pair[:1], MixArg(matrix_of(weights), -1))
        yield make(ops.INTT, (_slot(ring, Domain.NTT),))
        source = _slot(ring.with_moduli(ring.moduli[1:]), Domain.COEFF)
        for op in (ops.CONVERT, ops.LIFT):
            yield make(op, (source,), RingArg(ring.with_moduli(ring.moduli[:1])))
        for m in _WIDE:
            of_two = ring.with_moduli((m,))
            a, b = (_slot(of_two, Domain.COEFF, i) for i in (0, 1))
            yield make(ops.LIFT, (source,), RingArg(of_two))
            yield make(ops.LIFT, (a,), RingArg(source.spec.ring))
            yield make(ops.ADD, (a, b))
            yield make(ops.SUB, (a, b))
            yield make(ops.NEG, (a,))


def _slot(ring: RingSpec, domain: Domain, index: int = 0) -> Node:
    return make(ops.SLOT, (), SlotArg(index, Spec(ring, domain, (2,))))


def _kernel(node: Node) -> Kernel:
    place = make(ops.SLOT, (), SlotArg(-1, node.spec))
    return kernel_of(make(ops.SINK, (make(ops.STORE, (place, node), StoreArg()),)))


def _node(kernel: Kernel) -> Node:
    return kernel.body.src[0].src[1]


def _residues(spec: Spec, seed: int) -> np.ndarray:
    """Residues of all sizes, and the extreme ones."""
    moduli = ((min(m, 1 << 32), m >> 32 or 1)[: width(m)] for m in spec.ring.moduli)
    q = np.array([bound for bounds in moduli for bound in bounds], np.uint64)[:, None]
    places = np.arange(np.prod(spec.shape), dtype=np.uint64).reshape(spec.shape) + np.uint64(seed)
    some = (places * places * np.uint64(2654435761) + np.uint64(40503)) % q
    some[0, :, ::3] = (q - np.uint64(1)) % q
    some[..., 1::7] = 0
    return some.astype(np.uint32)
