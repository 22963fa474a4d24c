"""What random programs are drawn from: names in scope, numbers, arrays and shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import attrs
import numpy as np

from tests.properties.clear_ciphertext import ClearCiphertext

T = TypeVar("T")
Shape = tuple[int, ...]
_LITERAL = 6  # arrays of up to so many numbers are written out


@attrs.frozen
class Draw:
    """What expressions are drawn from.

    Args:
        rng: the source of randomness.
        scope: the names that there are, and their twins.
        depth: the top level.
        has_pad: whether there is `ckks.pad`.
    """

    rng: np.random.Generator
    scope: dict[str, ClearCiphertext]
    depth: int
    has_pad: bool = False

    def integer(self, low: int, high: int) -> int:
        """From low to high, both included."""
        return int(self.rng.integers(low, high + 1))

    def chance(self, p: float) -> bool:
        """True with probability p."""
        return bool(self.rng.random() < p)

    def pick(self, options: Sequence[T]) -> T:
        """One of several."""
        return options[self.integer(0, len(options) - 1)]

    def name(self, **wanted: int) -> str | None:
        """A name, rather a late one; with `inner`, of a twin with so many axes a row."""
        names = [k for k, x in self.scope.items() if x.inner == wanted.get("inner", x.inner)]
        if not names:
            return None
        back = min(int(self.rng.exponential(1.5)), len(names) - 1)
        return names[len(names) - 1 - back]

    def number(self) -> str:
        """A scalar of any type; few values, so that programs share constants."""
        v = self.pick(["0.5", "-1.25", "0.3", "1.0", "0.0", "100.0"])
        k = self.pick(["2", "-1", "3", "0", "7"])
        return self.pick([
            v, v, v, k, k, k, f"np.float64({v})", f"np.float32({v})", f"np.int64({k})",
            f"np.int8({k})", f"np.array({v})", f"np.array({k})", "True", "np.True_", "1j",
            "(0.5 - 0.25j)", f"np.complex128({v} + 1j)", f"jnp.asarray({v})", f"jnp.asarray({k})",
        ])  # fmt: skip

    def values(self, shape: Shape) -> str:
        """The source of an array of a shape; mostly real, and within [-2, 2]."""
        kind = self.pick(["real"] * 8 + ["complex", "integer", "large", "huge", "bit", "float32"])
        high = {"large": 400.0, "huge": 4000.0}.get(kind, 2.0)
        if int(np.prod(shape)) > _LITERAL:
            text = f"draw({self.integer(0, 9)}, {', '.join(map(str, shape))}"
            text += ")" if high == 2 else f", high={high:g})"
            return {
                "complex": f"({text} + 1j * {text}[..., ::-1])",
                "integer": f"np.rint({text}).astype(int)",
                "bit": f"(({text} > 0) * 1.0)",
                "float32": f"{text}.astype(np.float32)",
            }.get(kind, text)
        z = self.rng.uniform(-high, high, shape).round(2)
        if kind == "complex":
            z = z + 1j * self.rng.uniform(-2, 2, shape).round(2)
        if kind == "integer":
            z = np.rint(z).astype(int)
        if kind == "bit":
            z = (z > 0) * 1.0
        written = str(z.tolist())
        if z.ndim and self.chance(0.15):
            return written
        if self.chance(0.06):
            return f"jnp.asarray({written})"
        return f"np.array({written})" + (".astype(np.float32)" if kind == "float32" else "")

    def partner(self, x: ClearCiphertext) -> Shape:
        """A shape to meet `x` with: mostly one that broadcasts."""
        shape, row = x.shape, x.row
        options = [shape, shape, row, row, shape[-1:], (1,), (1,) * len(shape)]
        options += [(self.integer(2, 3), *row), (*shape[:-1], 1), (1, *row), (*row, 1)]
        if self.chance(0.12) and shape:
            last = shape[-1]
            options = [(last + 1,), (max(last - 1, 1),), (2 * last,), (*shape[:-1], last + 2)]
        return self.pick(options)

    def clear(self, x: ClearCiphertext) -> str:
        """A number, an array or a plaintext to meet `x` with."""
        if self.chance(0.35):
            return self.number()
        text = self.values(self.partner(x))
        if self.chance(0.25):
            level = f", level={self.integer(0, self.depth)}" if self.chance(0.3) else ""
            return f"ctx.encode({text}{level})"
        return text
