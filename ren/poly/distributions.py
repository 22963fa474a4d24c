"""Random polynomials: distributions, and where their bytes come from.

Without a seed a polynomial is drawn from fresh operating-system entropy and is never merged with
another. Under `ren.jit` it becomes an input that is drawn anew at every replay. Under a JAX
transformation it raises, as one traced draw would be reused for every run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

import attrs
import numpy as np

from ren import sampling
from ren.core.errors import RandomnessError
from ren.core.node import Node, buffer, placeholder
from ren.core.ring import Domain, RingSpec
from ren.core.spec import Spec
from ren.core.user_frame import user_line
from ren.lowering.devices.tracing import is_tracing
from ren.lowering.runtime.planning import placed
from ren.poly.capturing import is_capturing
from ren.poly.integers import as_coefficients, montgomery, to_limbs
from ren.sampling import Xof


class Distribution(Protocol):
    """A distribution over a ring; `sample` reads a byte stream and nothing else."""

    @property
    def ring(self) -> RingSpec:
        """The ring of what is drawn."""
        ...

    def sample(self, xof: Xof) -> np.ndarray:
        """A limb array `uint32[limb, n]`, Montgomery residues."""
        ...


@attrs.frozen
class Uniform:
    """Uniform on the whole ring."""

    ring: RingSpec

    def sample(self, xof: Xof) -> np.ndarray:
        residues = sampling.uniform_residues(xof, self.ring.n, self.ring.moduli)
        return montgomery(residues, self.ring.moduli)


@attrs.frozen
class Interval:
    """Coefficients uniform on [low, high)."""

    ring: RingSpec
    low: int
    high: int

    def sample(self, xof: Xof) -> np.ndarray:
        values = sampling.uniform_integers(xof, self.low, self.high, self.ring.n)
        return _limbs(values, self.ring)


@attrs.frozen
class Ternary:
    """Coefficients uniform on {-1, 0, 1}."""

    ring: RingSpec

    def sample(self, xof: Xof) -> np.ndarray:
        return _limbs(sampling.ternary(xof, self.ring.n), self.ring)


@attrs.frozen
class SparseTernary:
    """`weight` coefficients uniform on {-1, 1}, the others zero."""

    ring: RingSpec
    weight: int

    def sample(self, xof: Xof) -> np.ndarray:
        return _limbs(sampling.sparse_ternary(xof, self.ring.n, self.weight), self.ring)


@attrs.frozen
class Gaussian:
    """The discrete Gaussian of parameter `sigma` around 0."""

    ring: RingSpec
    sigma: float

    def sample(self, xof: Xof) -> np.ndarray:
        return _limbs(sampling.gaussian(xof, self.ring.n, self.sigma), self.ring)


def _limbs(values: Any, ring: RingSpec) -> np.ndarray:
    wide = values if values.dtype == object else values.astype(np.int64)
    return to_limbs(as_coefficients(wide, ring.n), ring.moduli)


def draw(
    distribution: Distribution, seed: bytes | None, device: Any, batch: tuple[int, ...] = ()
) -> Node:
    """The node of a random polynomial in coefficients.

    Args:
        distribution: what to draw.
        seed: None for fresh entropy; bytes are expanded with SHAKE-256, the same everywhere.
        device: where the limbs go.
        batch: leading axes of independent draws.

    Raises:
        RandomnessError: no seed under a JAX transformation; a seed that is not bytes.
    """
    domain = b"ren/poly/" + type(distribution).__name__.lower().encode()
    if seed is not None:
        return _drawn(distribution, Xof(seed, domain), device, batch)
    if is_tracing():
        raise RandomnessError(
            f"{user_line()} draws a random polynomial inside a JAX transformation.",
            "A draw made while tracing would be the same at every run and for every batch entry.",
            "Draw outside and pass the polynomial in, or give a bytes seed.",
        )
    if is_capturing():
        return _drawn_at_replay(distribution, domain, device, batch)
    return _drawn(distribution, Xof(sampling.fresh_seed(), domain), device, batch)


def _sampled(distribution: Distribution, xof: Xof, batch: tuple[int, ...]) -> np.ndarray:
    if not batch:
        return distribution.sample(xof)
    limbs = [distribution.sample(xof) for _ in range(math.prod(batch))]
    return np.stack(limbs).reshape(*batch, *limbs[0].shape)


def _drawn(distribution: Distribution, xof: Xof, device: Any, batch: tuple[int, ...]) -> Node:
    limbs = placed(_sampled(distribution, xof, batch), device)
    return buffer(limbs, distribution.ring, Domain.COEFF)


def _drawn_at_replay(
    distribution: Distribution, domain: bytes, device: Any, batch: tuple[int, ...]
) -> Node:
    distribution.sample(Xof(b"check", domain))  # a bad distribution raises at the user's line

    def fresh(values: Sequence[Any]) -> Any:
        xof = Xof(sampling.fresh_seed(), domain)
        return placed(_sampled(distribution, xof, batch), device)

    claim = device if device == "python" else None
    return placeholder(Spec(distribution.ring, Domain.COEFF, batch), claim, fresh, "DRAW")
