"""Cost and effect of bootstrapping under some parameters: `ctx.params.bootstrapping`."""

from __future__ import annotations

import math
from typing import Any

import attrs

from ren.core.listed import Listed
from ren.core.text_table import duration, size
from ren.lowering.plan.cost import rates
from ren.schemes.ckks.parameters.bootstrapping.above import WEIGHT
from ren.schemes.ckks.parameters.bootstrapping.chain import Chain, chain_of
from ren.schemes.ckks.parameters.bootstrapping.cost import seconds_of, work_of
from ren.schemes.ckks.parameters.bootstrapping.labels import (
    diagonals_nbytes,
    keys_nbytes,
    labels,
)
from ren.schemes.ckks.parameters.bootstrapping.precision import error_after
from ren.schemes.ckks.parameters.bootstrapping.sine import failure_log2


@attrs.frozen(repr=False)
class Bootstrapping(metaclass=Listed):
    """Cost and effect of a bootstrap; `params` are `ckks.Parameters`, whose module imports this.

    Attributes:
        params: the parameters.
    """

    __internal__ = ("chain",)

    params: Any

    @property
    def chain(self) -> Chain:
        """Rings, gadgets and scales by level."""
        return chain_of(self.params)

    @property
    def levels(self) -> int:
        """Levels between two bootstraps."""
        return self.chain.result - self.floor

    @property
    def floor(self) -> int:
        """The level that a bootstrap takes; a ciphertext at a higher one is brought to it."""
        return self.chain.above.floor

    @property
    def bound(self) -> float:
        """The largest real part and imaginary part of messages."""
        return self.chain.above.bound

    @property
    def precision_bits(self) -> float:
        """-log2 of the bound of the error in a slot, of complex messages, relative to `bound`."""
        return error_after(self.chain, True).bits

    @property
    def failure_log2(self) -> float:
        """log2 of the probability that one bootstrap destroys its ciphertext."""
        above = self.chain.above
        one = failure_log2(WEIGHT, above.overflow, above.ratio_bits, 2 * self.params.slots)
        return one + math.log2(above.runs)

    @property
    def sparse_weight(self) -> int:
        """Nonzero coefficients of the sparse secret."""
        return WEIGHT

    @property
    def keys(self) -> int:
        """Number of keys."""
        return len(labels(self.chain))

    @property
    def key_nbytes(self) -> int:
        """Bytes of all its keys in memory; saved, about half."""
        return keys_nbytes(self.chain)

    @property
    def plaintext_nbytes(self) -> int:
        """Bytes of the encoded diagonals, which one process holds once."""
        return diagonals_nbytes(self.chain)

    @property
    def limb_ntts(self) -> int:
        """Transforms of one limb each in a bootstrap of complex numbers, to within a tenth."""
        return work_of(self.chain).limb_ntts * self.chain.runs

    @property
    def seconds(self) -> float:
        """An estimate of its time, to compare parameters by; see `ckks.plan(...).seconds`."""
        return seconds_of(self.chain) * self.chain.runs

    def rows(self) -> list[tuple[str, str]]:
        """Facts for tables of parameters."""
        moduli = self.chain.above.moduli
        sparse = self.chain.sparse.ring.log2_q
        return [
            (
                "bootstrapping",
                f"level {self.floor} -> {self.floor + self.levels}, {self.levels} levels; "
                f"|x| <= {self.bound:g}; at least {self.precision_bits:.1f} bits right; "
                f"fails with 2^{self.failure_log2:.1f}",
            ),
            (
                "levels above",
                f"{len(self.chain.above.primes)}, {len(moduli)} moduli; sparse secret of weight "
                f"{self.sparse_weight} over {sparse:.1f} bits",
            ),
            (
                "bootstrapping keys",
                f"{self.keys}, {size(self.key_nbytes)} in memory; "
                f"diagonals {size(self.plaintext_nbytes)}; "
                f"estimated {duration(self.seconds)} {rates().machine}",
            ),
        ]

    def __repr__(self) -> str:
        return (
            f"<Bootstrapping level {self.floor} -> {self.floor + self.levels}, "
            f"{self.precision_bits:.1f} bits, keys of {size(self.key_nbytes)}>"
        )

    def __str__(self) -> str:
        return "\n".join(f"{name}: {what}" for name, what in self.rows())
