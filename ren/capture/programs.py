"""Programs that Ren itself runs again and again: planned once, then replayed.

The counterpart of `ren.jit` for Ren's own programs, without keys to compare, tiers or reports.
Encoding and encryption take less time than planning their programs would.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from ren.config import config
from ren.core import op as ops
from ren.core.node import make, placeholder
from ren.core.ring import Domain, RingSpec
from ren.core.spec import Spec
from ren.lowering.backends.xla.jax_runtime import check_inputs
from ren.lowering.devices.devices import concretely
from ren.lowering.plan.plan import Source
from ren.lowering.runtime import host_arrays
from ren.lowering.runtime.planning import native_runner, plan_from, source_of
from ren.lowering.runtime.runner import Runner, unit_runner
from ren.poly import Poly
from ren.poly.poly import from_array, from_node, spec_of

# Called with what is static and with polynomials; equal functions are one function.
Function = Callable[..., Sequence[Poly]]


@attrs.frozen(eq=False)
class Integers:
    """The polynomial over `ring` with the coefficients int64 [*batch, n], any values."""

    values: NDArray[np.int64]
    ring: RingSpec

    @property
    def spec(self) -> Spec:
        """Its type as a polynomial."""
        return Spec(self.ring, Domain.COEFF, self.values.shape[:-1])


def replayed(function: Function, static: Hashable, *given: Poly | Integers) -> list[Poly]:
    """function(static, *given), computed at once and concretely, also while JAX is tracing.

    Args:
        function: of the top level of a module; it makes a program and reads nothing else.
        static: its first argument, compared by value.
        given: the others, of which it sees polynomials; they are realized. All that their types
            leave open, they may differ in.
    """
    specs = tuple([g.spec if isinstance(g, Integers) else spec_of(g) for g in given])
    wide = tuple([i for i, g in enumerate(given) if isinstance(g, Integers)])
    check_inputs(g.limbs for g in given if isinstance(g, Poly))
    runner, types = planned(function, static, specs, wide)
    with concretely():
        made = runner([g if isinstance(g, Integers) else g.limbs for g in given])
    return [from_array(array, *kind) for array, kind in zip(made, types, strict=True)]


class _Program:
    """A plan as native calls, if it was that the first time; else its units.

    `order` has which of the things that are given are inputs of `source`. `rings` has the rings of
    those that come as integers.
    """

    def __init__(self, source: Source, order: list[int], rings: dict[int, RingSpec]) -> None:
        self._source, self._order, self._rings = source, order, rings
        # The setting of native code, the runner that it chose, and what makes an array of an input.
        # They are one tuple, as threads may run this while the setting changes.
        self._chosen: tuple[Any, Runner, Callable[[Any], Any]] | None = None

    @property
    def is_native(self) -> bool:
        """True where it runs as native calls; False before the first call."""
        return self._chosen is not None and self._chosen[1].is_native

    def __call__(self, given: Sequence[Any]) -> tuple[Any, ...]:
        chosen, setting = self._chosen, config.native
        if chosen is None or chosen[0] is not setting:
            words = [_words(given[i]) for i in self._order]
            native = native_runner(self._source, self._source.inputs, words, self._rings)
            if native is None:
                chosen = (setting, unit_runner(plan_from(self._source)), _residues)
            else:
                chosen = (setting, native, _words)
            self._chosen = chosen
        _, run, made = chosen
        return run([made(given[i]) for i in self._order])


def _words(given: Any) -> Any:
    if not isinstance(given, Integers):
        return given
    return host_arrays.placed(host_arrays.words(given.values))


def _residues(given: Any) -> Any:
    is_wide = isinstance(given, Integers)
    return host_arrays.residues(given.values, given.ring.moduli) if is_wide else given


@lru_cache(maxsize=256)
def planned(
    function: Function, static: Any, specs: tuple[Spec, ...], wide: tuple[int, ...]
) -> tuple[_Program, list[tuple[RingSpec, Domain]]]:
    """Runner of a planned function, which takes integers at the positions `wide`; result types."""
    inputs = [placeholder(spec) for spec in specs]
    made = function(static, *map(from_node, inputs))
    source = source_of(make(ops.SINK, [p.node for p in made]))
    args = [node.arg for node in inputs]
    order = [args.index(given.arg) for given in source.inputs]
    rings = {at: specs[i].ring for at, i in enumerate(order) if i in wide}
    return _Program(source, order, rings), [(p.ring, p.domain) for p in made]
