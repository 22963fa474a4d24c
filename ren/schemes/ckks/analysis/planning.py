"""`ren.plan`: what a function of ciphertexts needs, from shapes alone, before there is any key.

The function is recorded on placeholders. The ciphertexts are at the top level of trial parameters.
The context has placeholder keys, and notes the keys that are used. A first recording far above
level 0 counts the levels downwards. The least depth is the first at which nothing runs out of them.
"""

from __future__ import annotations

import functools
import logging
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any, Literal

import attrs
import jax
import numpy as np

from ren.capture.capture import Recording, record
from ren.capture.loop_reports import times_of
from ren.capture.loops import LoopRecording, record_loops
from ren.capture.pytrees import Structure, take_apart
from ren.capture.xpr import stood_for_shape
from ren.config import config
from ren.core.context_values import Changed
from ren.core.errors import DepthError, LoopError, ParameterError, RenError
from ren.core.node import collector_paused, toposort
from ren.core.ring import Domain
from ren.core.spec import Spec
from ren.jit import Jitted
from ren.lowering.devices.devices import is_tracing
from ren.lowering.inspect.memory_report import peak_bytes
from ren.lowering.plan.cost import graph_seconds, graph_work
from ren.lowering.program.steps import nbytes
from ren.lowering.runtime.host_arrays import placed
from ren.lowering.runtime.planning import plan_of
from ren.poly import Poly
from ren.poly.poly import from_array
from ren.poly.realization import LoopNeeded, is_capturing
from ren.schemes.ckks.analysis.requirements import Requirements
from ren.schemes.ckks.analysis.trial_context import MakePoly, TrialContext
from ren.schemes.ckks.arithmetic.argument_checks import as_bound, check_function
from ren.schemes.ckks.bootstrapping.bootstrap import MARK
from ren.schemes.ckks.ciphertext import Ciphertext
from ren.schemes.ckks.encoding.ciphertext_data import batch_of, is_columns, known_length
from ren.schemes.ckks.encoding.layout import LEFTOVERS, ZEROS, Layout
from ren.schemes.ckks.encoding.packing import Packing
from ren.schemes.ckks.noise import bounds as noises
from ren.schemes.ckks.noise.around import Around, around, with_around
from ren.schemes.ckks.noise.decryption_budget import SharingTerms
from ren.schemes.ckks.noise.sigmas import secret_sigma
from ren.schemes.ckks.noise.spans import Span
from ren.schemes.ckks.parameters import checks
from ren.schemes.ckks.parameters.bootstrapping.cost import seconds_of, work_of
from ren.schemes.ckks.parameters.keywords import INSTEAD
from ren.schemes.ckks.parameters.parameters import Parameters
from ren.schemes.ckks.sharing import raise_scale
from ren.schemes.rlwe.keychain import unknown
from ren.schemes.rlwe.keyswitch import conjugation_element, galois_element

_LARGEST_DEGREE = 1 << 17
_REPEATS = 6  # of one error, at the same place and level, until no larger depth is tried
_DEEP, _DEEP_N = 40, 1 << 13  # where levels are counted: deeper than most, and found at once
_TRIALS = 8  # depths beyond the first at which a loop changes the level of its carry
_log = logging.getLogger("ren")


@attrs.frozen
class VectorSpec:
    """The shape and the kind of values that will be encrypted; see `spec`."""

    shape: tuple[int, ...]
    is_complex: bool
    bound: float = 1.0
    packing: Packing = attrs.field(factory=Packing)
    is_truth: bool = False

    @property
    def vectors(self) -> tuple[int, ...]:
        """The shape of the vectors that are encrypted: [*batch, k], or () of a number."""
        return self.packing.vector_shape(self.shape)

    def __ren_recorded__(
        self, function: Callable[..., Any], args: Any, kwargs: Any
    ) -> Recording | LoopRecording:
        """The program that `ren.xpr` and `ren.stages` show, at the least depth."""
        given = functools.wraps(function)(lambda args, kwargs: function(*args, **kwargs))
        return least_depth(given, (args, kwargs), None, {})[1]


def spec(
    shape: int | tuple[int, ...],
    dtype: Any = float,
    bound: float = 1.0,
    *,
    pack: str | None = None,
) -> VectorSpec:
    """Stands for an encrypted argument of `ren.plan`.

    Args:
        shape: of the array that will be encrypted: a length, of a table, or () for a number.
        dtype: real, complex or bool.
        bound: of the modulus of the values. A plan has integer bits for what follows from it.
        pack: as for `ctx.encrypt`.

    Raises:
        ParameterError: a bound that is not a positive number, a shape that no array of values has,
            another `pack`. A dtype that is not one of numbers.
    """
    try:
        sizes = tuple(operator.index(s) for s in (shape if isinstance(shape, tuple) else (shape,)))
    except TypeError:
        sizes = (0,)
    if any(s < 1 for s in sizes):
        raise ParameterError(
            f"ckks.spec got the shape {shape!r}.",
            "It is the shape of the array that will be encrypted, with no empty axis.",
            "Write for example ckks.spec(1000) or ckks.spec((8, 1000)).",
        )
    try:
        kind = np.dtype(dtype).kind
    except TypeError:
        kind = "O"
    if kind not in "biufc":
        raise ParameterError(
            f"ckks.spec got dtype={dtype!r:.40}.",
            "It is the type of the numbers that will be encrypted: real, complex or bool.",
            "Write for example ckks.spec(1000, complex), or leave it out for real numbers.",
        )
    return VectorSpec(sizes, kind == "c", as_bound(bound), Packing.of(pack), kind == "b")


def plan(
    function: Callable[..., Any],
    *args: Any,
    scale_bits: int = 40,
    security: int | None = 128,
    n: int | None = None,
    integer_bits: int | None = None,
    slots: int | None = None,
    bootstrapping: bool | Literal["auto"] = False,
    shared: int | None = None,
    statistical_bits: int = 30,
    noise: float | None = None,
    **others: Any,
) -> Requirements:
    """Find what `function(*args)` needs, from the shapes of its arguments; nothing is computed.

    Args:
        function: of ciphertexts, as for `ren.jit`; a jitted one is looked into.
        args: `ckks.spec(shape)` for what will be encrypted, or a ciphertext that `jax.eval_shape`
            returned. `jax.ShapeDtypeStruct` stands for an array in the clear, of numbers up to 1.
            Anything else is passed on.
        scale_bits, security, n: as for `ckks.context`.
        integer_bits: None for what the tracked bounds at level 0 need, of inputs that keep to the
            bounds of their specs. Bounds of what a loop of JAX carries are not known here.
        slots: as for `ckks.context`. Vectors that fill them leave nothing to be cleared beyond.
        bootstrapping: True for a function that calls `x.bootstrap()`; found are the fewest levels
            between bootstraps. "auto" bootstraps where levels run out, as `ckks.context` says.
        shared: the `queries` of `ctx.decrypt_shared(result, ...)`. The scale is then the least one,
            from `scale_bits` on, at which its noise is useful.
        statistical_bits: as for `decrypt_shared`.
        noise: the largest standard deviation that is useful; None for 2^-10 of tracked bounds.
        others: raise; `functools.partial` binds arguments of the function by name.

    Returns:
        Depth, parameters, rotations, bytes and counts; `ckks.context(plan)` makes the context. A
        function under `ren.jit` keeps the plan, so that such a call of it replays.

    Raises:
        ParameterError: no argument is a spec; other keyword arguments; no scale suits `shared`.
        InsecureParametersError: no parameters are secure at the depth that it takes.

    Example:
        >>> import ren
        >>> from ren.schemes import ckks
        >>> plan = ren.plan(lambda x: (x * x + x.rotate(1)) * 0.5, ckks.spec(100))
        >>> plan.depth, plan.rotations, plan.params.n
        (2, (1,), 8192)
    """
    check_function(function, "ren.plan()")
    if others:
        own = [INSTEAD[name] for name in others if name in INSTEAD]
        bind = "Bind them first: ren.plan(functools.partial(f, k=5), ckks.spec(1000))."
        raise ParameterError(
            f"ren.plan() got {', '.join(f'{k}={v!r:.40}' for k, v in others.items())}.",
            "Its keyword arguments are wishes for the parameters; the function gets the others.",
            " ".join(own) or bind,
        )
    args = jax.tree.map(_as_spec, args, is_leaf=_is_leaf)
    if not _specs(args):
        raise ParameterError(
            "ren.plan() got no ckks.spec among the arguments.",
            "A spec stands for an argument that will be encrypted.",
            "Write for example ren.plan(f, ckks.spec(1000)).",
        )
    wishes = {
        "scale_bits": scale_bits, "security": security, "slots": slots, "integer_bits": integer_bits
    }  # fmt: skip
    checks.check_bootstrapping(bootstrapping)
    if bootstrapping:
        wishes["bootstrapping"] = bootstrapping
    terms = None if shared is None else SharingTerms(statistical_bits, shared, noise=noise)
    # Bootstraps of the last trial: whether of complex numbers, and how many runs.
    counted: list[tuple[bool, int]] = []
    with collector_paused(), with_around(bootstraps=counted):
        while True:
            trial, program = least_depth(function, args, n, wishes)
            if terms is None or not raise_scale(trial._results, terms, wishes):
                break
        bootstraps = list(counted)
        if not bootstraps:  # what is captured is a part of a program here, and no placeholder
            _prepare(function, args, trial)
        if isinstance(program, LoopRecording):
            times = times_of(program.traced.jaxpr, MARK)
            bootstraps = [bootstraps[i] for i, k in times.items() for _ in range(k)]
        return _requirements(trial, program, bootstraps)


def least_depth(
    function: Callable[..., Any], args: tuple[Any, ...], n: int | None, wishes: dict[str, Any]
) -> tuple[TrialContext, Recording | LoopRecording]:
    """The context of the least depth that suffices, and the program under it.

    A loop of JAX whose carry starts at a level that is named may fit at a larger depth alone. So
    may a map that is encoded at a level.
    """
    depths = checks.DEPTHS[1:]
    if "bootstrapping" not in wishes:
        depths = checks.DEPTHS[_levels_taken(function, args, n, wishes) :]
    misfit: tuple[int, LoopError] | None = None
    last: RenError | None = None
    before, repeats = None, 0
    for depth in depths:
        params = _parameters(depth, n, args, wishes)
        done: list[int] = []
        try:
            with _noting_levels(done):
                program, trial, bits = _recorded(function, args, params)
                if wishes.get("integer_bits") is None and bits > params.integer_bits:
                    params = _parameters(depth, n, args, {**wishes, "integer_bits": bits})
                    program, trial, _ = _recorded(function, args, params)
        except (DepthError, ParameterError) as error:
            if isinstance(error, ParameterError) and error.fact != "level beyond":
                raise  # such a level may be there at a larger depth
            last = error
            # The level at which it fails, and how far it came: both rise with a depth that counts.
            reached = error.given.removesuffix(f" of {params.depth}."), len(done)
            repeats = repeats + 1 if reached == before else 0
            before = reached if isinstance(error, DepthError) else None
            if repeats == _REPEATS:
                raise _held(error) from None
            continue
        except LoopError as error:
            misfit = misfit or (depth, error)
            if error.fact != "level" or depth - misfit[0] >= _TRIALS:
                raise misfit[1] from None
            continue
        return trial, program
    assert last is not None
    raise last  # no depth suffices


def _levels_taken(
    function: Callable[..., Any], args: tuple[Any, ...], n: int | None, wishes: dict[str, Any]
) -> int:
    """The levels from the top to the lowest result, in one deep recording.

    0 where it fails, or where fewer levels do: programs may name them.
    """
    degree = n or max(_DEEP_N, min(_degree_of(args), _LARGEST_DEGREE))
    quick = {**wishes, "integer_bits": wishes.get("integer_bits") or 10}
    levels, taken = [_DEEP], 0
    try:
        params = _parameters(_DEEP, degree, args, {**quick, "security": None})
        with _noting_levels(levels):
            _recorded(function, args, params)
        if taken := _DEEP - min(levels):
            _recorded(function, args, _parameters(taken - 1, n, args, quick))
    except DepthError:
        return taken
    except RenError:  # it is that of the depths
        pass
    return 0


def _noting_levels(done: list[int]) -> Changed[Around]:
    """Adds the level that each operation ends at to `done`; `ckks.debug` sees them too."""
    observe = around().watcher

    def noted(*seen: Any) -> None:
        done.append(seen[-1].level)
        if observe is not None:
            observe(*seen)

    return with_around(watcher=noted)


def _held(error: RenError) -> DepthError:
    """The error of a function that fails at the same place and level at so many depths."""
    return DepthError(
        f"No depth suffices, as it seems. {error.given}",
        f"{error.needed} That level did not rise over {_REPEATS + 1} depths: what is encoded at a "
        "level, drop_to(level) or bootstrap(level=) holds it.",
        "Use a higher level, or leave it out.",
    )


def _specs(args: Any) -> list[VectorSpec]:
    leaves = jax.tree.leaves(args, is_leaf=_is_leaf)
    return [value for value in leaves if isinstance(value, VectorSpec)]


def _degree_of(args: Any) -> int:
    """The least degree at which one ciphertext holds each of the vectors."""
    longest = max((s.vectors[-1] for s in _specs(args) if s.shape), default=1)
    return 2 << (longest - 1).bit_length()


def _as_spec(value: Any) -> Any:
    """The spec of a ciphertext that `jax.eval_shape` returned; anything else as it is."""
    if not isinstance(value, Ciphertext) or not isinstance(value.noise, jax.ShapeDtypeStruct):
        return value
    layout, shape, name = value.layout, value.shape, "columns" if is_columns(value) else "rows"
    if layout.shape is not None and shape == layout.shape:
        name = "flat"
    elif name == "rows" and (length := known_length(value)) is not None:
        batch = batch_of(value)[:-1] if layout.blocks > 1 else batch_of(value)
        shape = (*batch, length)  # whatever shape the numbers of each vector have
    return VectorSpec(shape, layout.is_complex, packing=Packing(name))


def _parameters(depth: int, n: int | None, args: Any, wishes: dict[str, Any]) -> Parameters:
    """The parameters of a depth; a free degree is raised until one ciphertext holds a vector."""
    if bootstrapping := wishes.get("bootstrapping"):
        given = {k: v for k, v in wishes.items() if k != "bootstrapping"}
        levels = None if bootstrapping == "auto" else depth
        return Parameters.for_bootstrapping(levels, n=n, is_automatic=levels is None, **given)
    params = Parameters.for_depth(depth, n=n, **wishes)
    needed = _degree_of(args)  # beyond every degree, vectors are cut into blocks
    if n is None and params.n < needed <= _LARGEST_DEGREE:
        return Parameters.for_depth(depth, n=needed, **wishes)
    return params


# ------------------------------------------------------------------- one trial


def _trial(
    args: tuple[Any, ...], params: Parameters, poly: MakePoly, levels: Mapping[int, int]
) -> tuple[TrialContext, tuple[Any, ...]]:
    """A context under trial parameters, and the arguments; `poly` makes polynomials."""
    trial = TrialContext(params, poly, levels)
    given = jax.tree.map(
        lambda v: _ciphertext(v, params, trial.key_id, poly) if isinstance(v, VectorSpec) else v,
        args, is_leaf=_is_leaf,
    )  # fmt: skip
    return trial, given


def _recorded(
    function: Callable[..., Any], args: tuple[Any, ...], params: Parameters
) -> tuple[Recording | LoopRecording, TrialContext, int]:
    """The program of a function under trial parameters, the context and its integer bits."""
    if (counted := around().bootstraps) is not None:
        counted.clear()
    trial, given = _trial(args, params, unknown, {})
    arguments, others, call = _taken_apart(function, given)
    others = [stood_for_shape(other) for other in others]
    name = getattr(function, "__qualname__", repr(function))
    returned = lambda given: trial.returned(call(given))  # noqa: E731
    bits: list[float] = []
    with trial, with_around(bits=bits):
        try:
            program = record(returned, name, arguments, others)
        except LoopNeeded:
            program = record_loops(returned, name, arguments, others)
    needed = min(math.ceil(max(bits, default=0) + 0.01), checks.INTEGER_BITS[-1])
    return program, trial, needed


def _taken_apart(
    function: Callable[..., Any], given: tuple[Any, ...]
) -> tuple[Structure, list[Any], Callable[[Any], Any]]:
    """The arguments, their leaves that are no polynomials, and the function of the arguments."""
    if (jitted := _jitted(function)) is not None:
        return jitted[0]._symbolic_call((*jitted[1], *given))
    arguments = take_apart(given)
    return arguments, arguments.others, lambda given: function(*given)


def _jitted(function: Callable[..., Any]) -> tuple[Jitted, tuple[Any, ...]] | None:
    """The function under `ren.jit`, and the object that it is a method of, where plans replay."""
    jitted = getattr(function, "__func__", function)
    if not isinstance(jitted, Jitted) or not config.jit or is_capturing() or is_tracing():
        return None
    return jitted, (() if jitted is function else (function.__self__,))  # type: ignore[attr-defined]


def _prepare(function: Callable[..., Any], args: tuple[Any, ...], found: TrialContext) -> None:
    """Captures a jitted function for such ciphertexts, on zeros: later calls find its plan."""
    if (found_jitted := _jitted(function)) is None:
        return
    jitted, bound = found_jitted
    zeros = functools.cache(lambda ring: placed(np.zeros((ring.limbs, ring.n), np.uint32)))

    def zero(spec: Spec) -> Poly:
        array = zeros(spec.ring)
        if spec.batch:
            array = placed(np.zeros(spec.shape, np.uint32))
        return from_array(array, spec.ring, spec.domain)

    trial, given = _trial(args, found.params, zero, found.levels())
    try:
        with trial:
            jitted._prepare(*bound, *given)
    except Exception as error:  # it is that of the call
        _log.info("%r was not captured by ren.plan: %s", jitted, error)


def _is_leaf(value: Any) -> bool:
    """Whether specs are not looked for inside of it: ciphertexts are pytrees too."""
    return not isinstance(value, tuple | list | dict)


def _ciphertext(spec: VectorSpec, params: Parameters, key_id: str, poly: MakePoly) -> Ciphertext:
    shape = spec.vectors
    length = shape[-1] if shape else None
    blocks = 1 if length is None else -(-length // params.slots)
    batch = shape[:-1] + ((blocks,) if blocks > 1 else ())
    level = params.depth
    polys = tuple(poly(Spec(params.ring(level), Domain.NTT, batch)) for _ in range(2))
    layout = Layout(length, spec.is_complex, blocks, tail=LEFTOVERS if length is None else ZEROS)
    layout = spec.packing.labelled(layout, spec.shape)
    told = float(noises.public_bound(spec.bound, 1.0))  # by an encryption that states no bound
    scale, sigma = float(params.scale(level)), secret_sigma(params, level)
    noise = noises.fresh(np.zeros(1), params, scale, sigma, next(noises.serials), told)
    noise, span = noises.broadcast(noise, batch), Span(0.0, 1.0) if spec.is_truth else None
    return Ciphertext(polys, level, layout, key_id, params, noise, span=span)


# ------------------------------------------------------------------- what it needs


def _requirements(
    trial: TrialContext, program: Recording | LoopRecording, bootstraps: list[tuple[bool, int]]
) -> Requirements:
    """The parameters, keys and costs of a program; with loops of JAX, by the programs in them."""
    if isinstance(program, LoopRecording):
        plans, steps = program.programs, program.steps
        runs = [(s.times, plans[s.program].plan) for s in steps if s.program is not None]
        sources = [given.source for given in program.inputs]
        inputs = sum(size for *_, size in program.input_counts())
    else:
        plan = plan_of(program.sink)
        runs, sources = [(1, plan)], [node.arg for node in toposort(program.sink) if not node.src]
        inputs = sum(nbytes(given.spec) for given in plan.inputs)
    peak = inputs - trial.left_out(sources) + max((peak_bytes(p) for _, p in runs), default=0)
    ntts, seconds = 0, 0.0
    for times, plan in runs:
        assert plan.source is not None  # it was made from a program
        ntts += times * graph_work(plan.source.sink).limb_ntts
        seconds += times * graph_seconds(plan.source.sink)
    params, levels, read = trial.params, trial.levels(), {id(source) for source in sources}
    if bootstraps and (above := params.bootstrapping) is not None:
        kinds = [is_complex for is_complex, count in bootstraps for _ in range(count)]
        ntts += sum(work_of(above.chain, c).limb_ntts for c in kinds)
        seconds += sum(seconds_of(above.chain, c) for c in kinds)
        peak += above.key_nbytes + above.plaintext_nbytes
    conjugation, half = conjugation_element(params.n), params.slots // 2
    steps = {galois_element(k % params.slots, params.n): k for k in range(-half + 1, half + 1)}
    rotations = {steps[g]: level for g, level in levels.items() if g != conjugation}
    whole = trial.relinearization_key()
    return Requirements(
        params,
        rotations=tuple(sorted(rotations)),
        levels=tuple(sorted(rotations.items())),
        conjugation_level=levels.get(conjugation),
        needs_conjugation=conjugation in levels,
        needs_products=any(id(p.node.arg) in read for p in (*whole.b, *whole.a)),
        bootstraps=len(bootstraps),
        peak_bytes=peak,
        limb_ntts=ntts,
        seconds=seconds,
    )
