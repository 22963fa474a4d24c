"""`ren.plan`: what a function of ciphertexts needs, from shapes alone, before there is any key.

The function is recorded on placeholders. The ciphertexts are at the top level of trial parameters.
The context has placeholder keys, and notes the keys that are used. The least depth is the first at
which nothing runs out of levels.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Iterator
from typing import Any

from ren.capture.capture import record
from ren.capture.pytrees import take_apart
from ren.core.errors import DepthError, ParameterError
from ren.core.node import placeholder
from ren.core.ring import Domain
from ren.core.spec import Spec
from ren.lowering.inspect.memory_report import memory_of
from ren.lowering.plan.cost import cost_of
from ren.lowering.plan.plan import Plan
from ren.lowering.plan.time_model import plan_seconds
from ren.lowering.runtime.planning import plan_of
from ren.poly import Poly
from ren.schemes.ckks.analysis.requirements import Requirements, VectorSpec
from ren.schemes.ckks.arithmetic.argument_checks import check_function
from ren.schemes.ckks.ciphertext import Ciphertext
from ren.schemes.ckks.context import Context
from ren.schemes.ckks.encoding.layout import LEFTOVERS, ZEROS, Layout
from ren.schemes.ckks.noise import bounds as noises
from ren.schemes.ckks.noise.reports import collecting_bits
from ren.schemes.ckks.parameters.checks import DEPTHS, INTEGER_BITS
from ren.schemes.ckks.parameters.parameters import Parameters
from ren.schemes.rlwe.gadget import gadget_of
from ren.schemes.rlwe.galois import conjugation_element, galois_element
from ren.schemes.rlwe.identity import IDENTITY_BYTES, Identity
from ren.schemes.rlwe.keychain import Keychain
from ren.schemes.rlwe.keys import SwitchingKey

_LARGEST_DEGREE = 1 << 17


def plan(
    function: Callable[..., Any],
    *args: Any,
    scale_bits: int = 40,
    security: int | None = 128,
    n: int | None = None,
    integer_bits: int | None = None,
    slots: int | None = None,
) -> Requirements:
    """Find what `function(*args)` needs, from the shapes of its arguments; nothing is computed.

    Args:
        function: of ciphertexts, as for `ren.jit`; a jitted one is looked into.
        args: `ckks.spec(shape)` for what will be encrypted; anything else is passed on.
        scale_bits, security, n: as for `ckks.context`.
        integer_bits: None for what the tracked bounds at level 0 need, of inputs that keep to the
            bounds of their specs.
        slots: as for `ckks.context`. Vectors that fill them leave nothing to be cleared beyond.

    Returns:
        Depth, parameters, rotations, bytes and counts; `ckks.context(plan)` makes the context.

    Raises:
        ParameterError: no argument is a spec.
        InsecureParametersError: no parameters are secure at the depth that it takes.

    Example:
        >>> import ren
        >>> from ren.schemes import ckks
        >>> plan = ren.plan(lambda x: (x * x + x.rotate(1)) * 0.5, ckks.spec(100))
        >>> plan.depth, plan.rotations, plan.params.n
        (2, (1,), 8192)
    """
    check_function(function, "ren.plan()")
    specs = list(_specs(args))
    if not specs:
        raise ParameterError(
            "ren.plan() got no ckks.spec among the arguments.",
            "A spec stands for an argument that will be encrypted.",
            "Write for example ren.plan(f, ckks.spec(1000)).",
        )
    longest = max((s.shape[-1] for s in specs if s.shape), default=1)
    wishes = {"scale_bits": scale_bits, "security": security, "integer_bits": integer_bits}
    wishes["slots"] = slots
    for depth in DEPTHS:
        params = _parameters(depth, n, longest, wishes)
        try:
            made, keys, bits = _recorded(function, args, params)
            if integer_bits is None and bits > params.integer_bits:
                params = _parameters(depth, n, longest, {**wishes, "integer_bits": bits})
                made, keys, _ = _recorded(function, args, params)
        except DepthError:
            continue
        return _requirements(params, made, keys)
    raise AssertionError("for_depth raises before the depths run out")


def _parameters(depth: int, n: int | None, longest: int, wishes: dict[str, Any]) -> Parameters:
    """The parameters of a depth; a free degree is raised until one ciphertext holds a vector."""
    params = Parameters.for_depth(depth, n=n, **wishes)
    needed = 2 << (longest - 1).bit_length()  # beyond every degree, vectors are cut into blocks
    if n is None and params.n < needed <= _LARGEST_DEGREE:
        return Parameters.for_depth(depth, n=needed, **wishes)
    return params


# ------------------------------------------------------------------- one trial


class _NotedKeys(dict[int, SwitchingKey]):
    """Galois keys that are placeholders, each made when it is asked for."""

    def __init__(self, params: Parameters) -> None:
        super().__init__()
        self._params = params

    def get(self, galois: int, default: Any = None) -> SwitchingKey:
        if galois not in self:
            self[galois] = _key(self._params)
        return self[galois]


def _key(params: Parameters) -> SwitchingKey:
    gadget = gadget_of(params)
    halves = [tuple(_poly(Spec(gadget.ring, Domain.NTT)) for _ in gadget.digits) for _ in range(2)]
    return SwitchingKey(halves[0], halves[1], b"")


def _poly(spec: Spec) -> Poly:
    return Poly.from_node(placeholder(spec))


def _recorded(
    function: Callable[..., Any], args: tuple[Any, ...], params: Parameters
) -> tuple[Plan, Keychain, int]:
    """The plan of a function under trial parameters, its keys and its integer bits."""
    identity = Identity.frombytes(params.digest, secrets.token_bytes(IDENTITY_BYTES))
    keys = Keychain(identity, relinearization=_key(params), galois=_NotedKeys(params))
    trial = Context(params, keys)
    given = _with_ciphertexts(args, params, keys.key_id)
    arguments = take_apart(given)
    name = getattr(function, "__qualname__", repr(function))
    with trial, collecting_bits() as bits:
        made = record(lambda given: function(*given), name, arguments, arguments.others)
    needed = min(math.ceil(max(bits, default=0) + 0.01), INTEGER_BITS[-1])
    return plan_of(made.sink), keys, needed


def _specs(value: Any) -> Iterator[VectorSpec]:
    if isinstance(value, VectorSpec):
        yield value
    elif isinstance(value, tuple | list):
        for part in value:
            yield from _specs(part)
    elif isinstance(value, dict):
        yield from _specs(list(value.values()))


def _with_ciphertexts(value: Any, params: Parameters, key_id: str) -> Any:
    """`value` with a ciphertext of placeholders in the place of each spec."""
    if isinstance(value, VectorSpec):
        return _ciphertext(value, params, key_id)
    if isinstance(value, tuple | list):
        return type(value)([_with_ciphertexts(part, params, key_id) for part in value])
    if isinstance(value, dict):
        return {k: _with_ciphertexts(part, params, key_id) for k, part in value.items()}
    return value


def _ciphertext(spec: VectorSpec, params: Parameters, key_id: str) -> Ciphertext:
    length = spec.shape[-1] if spec.shape else None
    blocks = 1 if length is None else -(-length // params.slots)
    batch = spec.shape[:-1] + ((blocks,) if blocks > 1 else ())
    level = params.depth
    polys = tuple(_poly(Spec(params.ring(level), Domain.NTT, batch)) for _ in range(2))
    layout = Layout(length, spec.is_complex, blocks, tail=LEFTOVERS if length is None else ZEROS)
    told = float(noises.public_bound(spec.bound, 1.0))  # by an encryption that states no bound
    noise = noises.reaching(noises.ZERO, told)
    return Ciphertext(polys, level, layout, key_id, params, noises.broadcast(noise, batch))


# ------------------------------------------------------------------- what it needs


def _requirements(params: Parameters, made: Plan, keys: Keychain) -> Requirements:
    conjugation = conjugation_element(params.n)
    half = params.slots // 2
    steps = {galois_element(k % params.slots, params.n): k for k in range(-half + 1, half + 1)}
    read = {id(given.arg) for given in made.inputs}
    needs_products = _is_read(keys.require_relinearization(), read)
    held = memory_of(made)
    return Requirements(
        params=params,
        rotations=tuple(sorted(steps[g] for g in keys.galois if g != conjugation)),
        needs_conjugation=conjugation in keys.galois,
        needs_products=needs_products,
        peak_bytes=held.peak_bytes + held.input_bytes,
        limb_ntts=cost_of(made).limb_ntts,
        seconds=plan_seconds(made),
    )


def _is_read(key: SwitchingKey, read: set[int]) -> bool:
    return any(id(p.node.arg) in read for p in (*key.b, *key.a))
