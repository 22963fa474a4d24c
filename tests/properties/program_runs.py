"""Runs of programs on ciphertexts beside their NumPy twins, eagerly and transformed."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import attrs
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

import ren
from ren.core import errors
from ren.schemes import ckks
from tests.properties.clear_ciphertext import ClearCiphertext, RefusedError, UndefinedError
from tests.properties.clear_functions import CKKS
from tests.properties.judged import Finding, is_expected, is_of_accuracy, is_vague, judged
from tests.properties.program_model import Program, Setting, Step, draw

_SHARED = {"__name__": "program", "np": np, "jnp": jnp, "draw": draw}
_VALUES = ("equal", "vague", "warned")
_REFUSALS = (ValueError, TypeError, IndexError, UndefinedError)


@lru_cache(maxsize=64)
def context_of(setting: Setting) -> ckks.Context:
    """The context of a setting, with the keys that programs before have made."""
    return ckks.context(setting.depth, n=setting.n, slots=setting.slots, security=None)


# ------------------------------------------------------------------- in the clear


class _ClearContext:
    """What programs call of a context, for twins."""

    def encode(self, values: Any, level: int | None = None) -> NDArray:
        """The values themselves."""
        return np.asarray(values)


def _value(text: str, names: Mapping[str, Any]) -> Any:
    return eval(compile(text, "<program>", "eval"), {**_SHARED, **names})


def clear_value(text: str, names: Mapping[str, Any]) -> ClearCiphertext | Exception:
    """The twin of an operation; the exception where NumPy, or the contract, refuses."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            made = _value(text, {"ckks": CKKS, "ctx": _ClearContext(), **names})
        except _REFUSALS as error:
            return error
    return made if isinstance(made, ClearCiphertext) else RefusedError(type(made).__name__)


def input_values(text: str, is_second: bool = False) -> NDArray:
    """The values of an input; the second ones are those backwards, of a scalar its half."""
    z = np.asarray(_value(text, {}))
    if not is_second:
        return z
    return z[..., ::-1].copy() if z.ndim else z * 0.5


def clear_inputs(program: Program, is_second: bool = False) -> dict[str, ClearCiphertext]:
    """The twins of the inputs."""
    setting, made = program.setting, {}
    for item in program.inputs:
        z = input_values(item.values, is_second)
        level = setting.depth if item.level is None else item.level
        made[item.name] = ClearCiphertext(z, min(z.ndim, 1), setting.slots, level)
    return made


def clear_results(program: Program, is_second: bool = False) -> dict[str, Any]:
    """The twins of inputs and steps, or exceptions; steps that read one of these have none."""
    made: dict[str, Any] = dict(clear_inputs(program, is_second))
    for step in program.steps:
        if all(isinstance(made.get(name), ClearCiphertext) for name in step.reads):
            made[step.name] = clear_value(step.text, made)
    return made


# ------------------------------------------------------------------- encrypted


@attrs.define
class Outcome:
    """What became of a program.

    Attributes:
        steps: by name: equal, vague (the bound of the error is above all numbers), warned,
            refused (by NumPy too), or the error that Ren raised.
        findings: what is wrong, in the order of the program.
        kept: the steps that have results on both sides.
    """

    steps: dict[str, str] = attrs.field(factory=dict)
    findings: list[Finding] = attrs.field(factory=list)
    kept: list[Step] = attrs.field(factory=list)

    @property
    def raised(self) -> dict[str, str]:
        """The errors of Ren where NumPy has a result, by name."""
        return {k: s for k, s in self.steps.items() if s not in (*_VALUES, "refused")}


@contextmanager
def _caught() -> Iterator[list[warnings.WarningMessage]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield caught


def run(program: Program) -> Outcome:
    """Runs a program eagerly, then in its mode, and judges every result."""
    outcome, twins = Outcome(), clear_results(program)
    values, warned = _eager_values(program, twins, outcome)
    kinds = {i.name: "input" for i in program.inputs} | {s.name: s.kind for s in program.steps}
    for name in reversed(values):  # the last one first: those before it may still be lazy
        outcome.steps[name] = "warned" if name in warned else "equal"
        if name not in warned and is_vague(values[name], twins[name]):
            outcome.steps[name] = "vague"
        found = judged(name, kinds[name], values[name], twins[name], name in warned)
        outcome.findings += [found] if found else []
    outcome.findings.sort(key=lambda f: list(kinds).index(f.name))
    is_whole = all(item.name in values for item in program.inputs) and not outcome.findings
    if program.mode in ("jit", "vmap") and is_whole:
        _run_transformed(program, outcome)
        _raise_transformed(program, outcome)
    return outcome


def _eager_values(
    program: Program, twins: Mapping[str, Any], outcome: Outcome
) -> tuple[dict[str, Any], set[str]]:
    """The ciphertexts that have twins, and the names of those on whose way Ren warned."""
    ctx = context_of(program.setting)
    values: dict[str, Any] = {}
    warned: set[str] = set()
    for item in program.inputs:
        with _caught() as caught:
            try:
                given = input_values(item.values)
                values[item.name] = ctx.encrypt(given, level=item.level, pack="rows")
            except ren.RenError as error:
                outcome.steps[item.name] = type(error).__name__
        if is_of_accuracy(caught):
            warned.add(item.name)
    for step in program.steps:
        if step.name not in twins or any(name not in values for name in step.reads):
            continue
        with _caught() as caught:
            made = _made(program, step, values, twins[step.name], outcome)
        foreign = [w for w in caught if not hasattr(errors, w.category.__name__)]
        if foreign:
            text = f"{foreign[0].category.__name__}: {foreign[0].message}"
            outcome.findings.append(Finding(step.name, step.kind, "foreign warning", text))
        if made is None:
            continue
        if is_of_accuracy(caught) or warned.intersection(step.reads):
            warned.add(step.name)
        values[step.name] = made
        outcome.kept.append(step)
    return values, warned


def _made(
    program: Program, step: Step, values: Mapping[str, Any], twin: Any, outcome: Outcome
) -> Any:
    """The result of a step that has a twin; None where it raised, or NumPy refuses."""
    names = {"ckks": ckks, "ctx": context_of(program.setting)}
    try:
        made = _value(step.text, {**names, **values})
        if program.mode != "lazy" and isinstance(made, ckks.Ciphertext):
            made = made.realize()
    except Exception as error:
        is_refused = isinstance(twin, Exception)
        outcome.steps[step.name] = "refused" if is_refused else type(error).__name__
        if not is_expected(error, twin, names["ctx"].params):
            what, text = f"raises {type(error).__name__}", f"{error!s:.200}"
            outcome.findings.append(Finding(step.name, step.kind, what, text))
        return None
    if isinstance(twin, Exception):
        text = f"NumPy: {twin}"
        outcome.findings.append(Finding(step.name, step.kind, "not refused", text))
        return None
    return made


# ------------------------------------------------------------------- transformed


def _function(program: Program, steps: Sequence[Step]) -> Callable[..., tuple[Any, ...]]:
    names = {"ckks": ckks, "ctx": context_of(program.setting)}

    def function(*given: Any) -> tuple[Any, ...]:
        values = {item.name: x for item, x in zip(program.inputs, given, strict=True)}
        for step in steps:
            values[step.name] = _value(step.text, {**names, **values})
        return tuple(values[step.name] for step in steps)

    return function


def _run_transformed(program: Program, outcome: Outcome) -> None:
    """The steps that have results, under jit twice with new inputs, or under vmap on both.

    Bounds are unknown inside of vmap, so that warnings of the eager run count there. A replay
    under jit does not warn where the capture did.
    """
    if not outcome.kept:
        return
    first, second = (_encrypted(program, is_second) for is_second in (False, True))
    twins = clear_results(program), clear_results(program, True)
    f = _function(program, outcome.kept)
    if program.mode == "jit":
        f = ren.jit(f)
        warned = any(outcome.steps[item.name] == "warned" for item in program.inputs)
        runs = [(first, twins[0]), (second, twins[1])]
    else:
        f, warned = jax.vmap(f), "warned" in outcome.steps.values()
        both = [ckks.stack([x, y]) for x, y in zip(first, second, strict=True)]
        runs = [(both, {name: _beside(twins[0][name], twins[1].get(name)) for name in twins[0]})]
    for given, expected in runs:
        with _caught() as caught:
            try:
                results = f(*given)
            except ren.errors.TracedValueError:
                return
            except Exception as error:
                what = f"raises {type(error).__name__}"
                last = outcome.kept[-1]
                text = f"{error!s:.300}"
                found = Finding(last.name, last.kind, what, text, program.mode)
                outcome.findings.append(found)
                return
        warned = warned or is_of_accuracy(caught)
        for step, made in zip(outcome.kept, results, strict=True):
            twin = expected.get(step.name)
            if isinstance(twin, ClearCiphertext):
                found = judged(step.name, step.kind, made, twin, warned)
                if found is not None:
                    outcome.findings.append(attrs.evolve(found, mode=program.mode))


def _raise_transformed(program: Program, outcome: Outcome) -> None:
    """The first step that raised eagerly must raise under a transformation too."""
    fates = outcome.steps
    step = next((s for s in program.steps if fates.get(s.name, "equal") not in _VALUES), None)
    if step is None:
        return
    f = _function(program, [*outcome.kept, step])
    given = _encrypted(program, False)
    with _caught():
        try:
            if program.mode == "jit":
                ren.jit(f)(*given)
            else:
                jax.vmap(f)(*(ckks.stack([x, x]) for x in given))
        except ren.RenError:
            return
        except Exception as error:
            what, text = f"raises {type(error).__name__}", f"{error!s:.300}"
        else:
            what, text = "does not raise", fates[step.name]
    outcome.findings.append(Finding(step.name, step.kind, what, text, program.mode))


def _encrypted(program: Program, is_second: bool) -> list[ckks.Ciphertext]:
    ctx = context_of(program.setting)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [
            ctx.encrypt(input_values(i.values, is_second), level=i.level, pack="rows")
            for i in program.inputs
        ]


def _beside(a: Any, b: Any) -> ClearCiphertext | None:
    """Two twins as a batch."""
    if not (isinstance(a, ClearCiphertext) and isinstance(b, ClearCiphertext)):
        return None
    if a.shape != b.shape or a.inner != b.inner or a.values.dtype != b.values.dtype:
        return None
    made = a.made(np.stack([a.values, b.values]), np.stack([a.drift, b.drift]))
    made.is_inner = a.is_inner or b.is_inner
    return made
