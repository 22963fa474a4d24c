"""What the property tests share: a drawn ring with operands, and how a result is compared.

Each property runs over all shapes and once more over those with n >= 256 and 2 to 8 limbs, so that
hypothesis' liking for small values leaves none of them out: 100 and 20 examples in `make test`, 500
and 60 in `make slow`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ren.poly import Poly
from ren.ring import RingSpec
from tests.rings import LARGE_SHAPES, SHAPES, integers, moduli, operands

EXAMPLES = settings.default.max_examples  # type: ignore[union-attr]
LARGE_EXAMPLES = 60 if EXAMPLES >= 500 else 10
all_examples, large_examples = (
    settings(max_examples=EXAMPLES),
    settings(max_examples=LARGE_EXAMPLES),
)


@attrs.frozen
class Case:
    """A ring, some operands for it as plain lists, and a constant."""

    ring: RingSpec
    operands: tuple[list[int], ...]
    constant: int

    @property
    def q(self) -> int:
        return self.ring.q

    def polys(self, device: str | None = None) -> tuple[Poly, ...]:
        """The operands as polynomials, on the default device or on the one named."""
        return tuple(Poly(a, self.ring, device=device) for a in self.operands)

    def reduced(self) -> tuple[list[int], ...]:
        """The operands in [0, q), as the oracle takes them."""
        return tuple([x % self.q for x in a] for a in self.operands)


@st.composite
def cases(draw: st.DrawFn, shapes: Sequence[tuple[int, int]], count: int) -> Case:
    """A ring of one of `shapes` and `count` operands."""
    n, limbs = draw(st.sampled_from(shapes))
    ring = RingSpec(n, draw(moduli(n, limbs)))
    drawn = tuple(draw(operands(n, ring.q)) for _ in range(count))
    return Case(ring, drawn, draw(integers(ring.q)))


def over_all(count: int) -> Callable:
    """Runs a test on 500 cases of every shape."""
    return lambda test: all_examples(given(case=cases(SHAPES, count))(test))


def over_large(count: int) -> Callable:
    """Runs a test on 60 cases with n >= 256 and 2 to 8 limbs."""
    return lambda test: large_examples(given(case=cases(LARGE_SHAPES, count))(test))


def assert_equals(poly: Poly, ring: RingSpec, expected: list[int]) -> None:
    """The ring and every coefficient."""
    assert poly.ring == ring
    assert poly.tolist() == expected


def assert_same_limbs(compiled: Poly, interpreted: Poly) -> None:
    """Bit for bit: the residues as stored, not only the values that they stand for."""
    assert compiled.domain == interpreted.domain
    left, right = np.asarray(compiled.limbs), np.asarray(interpreted.limbs)
    assert left.dtype == right.dtype == np.uint32
    np.testing.assert_array_equal(left, right)
