"""Random polynomials: the constructors of Poly that draw."""

from __future__ import annotations

from typing import Any, Self

from ren.core.ring import RingSpec
from ren.poly import distributions as draws
from ren.poly.checks import as_int, check_ring
from ren.poly.operators import Arithmetic

Batch = tuple[int, ...]


class RandomConstructors(Arithmetic):
    """Uniform, ternary and Gaussian polynomials, in coefficients.

    All take a seed, a device and a batch shape; see `uniform`.
    """

    __slots__ = ()

    @classmethod
    def uniform(
        cls, ring: RingSpec, *, seed: bytes | None = None, device: Any = None, batch: Batch = ()
    ) -> Self:
        """Coefficients uniform on [0, q).

        Args:
            ring: of the polynomial.
            seed: None for fresh operating-system entropy, drawn anew at each replay of a captured
                function. Bytes are expanded with SHAKE-256, to the same polynomial everywhere.
            device: as for `Poly`.
            batch: leading axes of independent polynomials.

        Raises:
            RandomnessError: without a seed inside a JAX transformation.
        """
        check_ring(ring)
        return cls.from_node(draws.draw(draws.Uniform(ring), seed, device, batch))

    @classmethod
    def uniform_on_interval(
        cls,
        low: int,
        high: int,
        ring: RingSpec,
        *,
        seed: bytes | None = None,
        device: Any = None,
        batch: Batch = (),
    ) -> Self:
        """Coefficients uniform on [low, high), reduced mod q; any integers low < high.

        The other arguments are as for `uniform`.
        """
        check_ring(ring)
        distribution = draws.Interval(ring, as_int(low), as_int(high))
        return cls.from_node(draws.draw(distribution, seed, device, batch))

    @classmethod
    def ternary(
        cls, ring: RingSpec, *, seed: bytes | None = None, device: Any = None, batch: Batch = ()
    ) -> Self:
        """Coefficients uniform on {-1, 0, 1}; the arguments are as for `uniform`."""
        check_ring(ring)
        return cls.from_node(draws.draw(draws.Ternary(ring), seed, device, batch))

    @classmethod
    def sparse_ternary(
        cls,
        ring: RingSpec,
        hamming_weight: int,
        *,
        seed: bytes | None = None,
        device: Any = None,
        batch: Batch = (),
    ) -> Self:
        """Exactly `hamming_weight` coefficients uniform on {-1, 1}, the others zero.

        The other arguments are as for `uniform`.
        """
        check_ring(ring)
        distribution = draws.SparseTernary(ring, as_int(hamming_weight))
        return cls.from_node(draws.draw(distribution, seed, device, batch))

    @classmethod
    def gaussian(
        cls,
        ring: RingSpec,
        sigma: float = 3.2,
        *,
        seed: bytes | None = None,
        device: Any = None,
        batch: Batch = (),
    ) -> Self:
        """Coefficients from the discrete Gaussian of parameter `sigma` around 0.

        The other arguments are as for `uniform`.

        Raises:
            RandomnessError: sigma is not in (0, 2^14]; else as for `uniform`.
        """
        check_ring(ring)
        return cls.from_node(draws.draw(draws.Gaussian(ring, sigma), seed, device, batch))
