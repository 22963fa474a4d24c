"""The reference backend: segments interpreted with NumPy, exact and independent of XLA."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np

from ren.lowering.backends.base import Call, Unsupported
from ren.lowering.backends.reference.interpret import interpret
from ren.lowering.devices.devices import is_host
from ren.lowering.program.steps import Segment, ViewUnit


@attrs.frozen(eq=False)
class Interpreted:
    """A segment of which each unit is interpreted; it takes JAX arrays too, and gives NumPy's."""

    segment: Segment
    backend: str = "reference"

    def bind(self, args: Sequence[Any]) -> Call:
        """The interpreter: nothing depends on shapes."""
        return self.traced

    def traced(self, args: Sequence[Any]) -> list[np.ndarray]:
        """The outputs, NumPy arrays `uint32[*batch, limb, n]`, from concrete arrays."""
        values = dict(zip(self.segment.ins, map(np.asarray, args), strict=True))
        for unit in self.segment.units:
            src = tuple(values[v] for v in unit.ins)
            if isinstance(unit, ViewUnit):
                made = (src[0][..., unit.start : unit.start + unit.length, :],)
            else:
                made = tuple(map(np.ascontiguousarray, interpret(unit.kernel, src)))
            values.update(zip(unit.outs, made, strict=True))
        return [values[v] for v in self.segment.outs]


class ReferenceBackend:
    """Runs what reads NumPy arrays: the "python" device."""

    name = "reference"

    def compile(self, segment: Segment, args: Sequence[Any]) -> Interpreted | Unsupported:
        """The interpreted segment; see `ren.lowering.backends.base.Backend`."""
        if args and all(map(is_host, args)):
            return Interpreted(segment)
        return Unsupported("its inputs are JAX arrays, not NumPy's")


REFERENCE = ReferenceBackend()
