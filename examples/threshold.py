"""INSECURE toy: three parties decrypt together what none of them can read alone.

Each has a secret s_i; the secret of the ciphertexts is their sum, which none of them has. It is a
protocol of polynomials: `ckks` encodes, computes in between and decodes. Parties are honest here,
and send what they should. There is no key for products of two ciphertexts: sums and products with
numbers in the clear need none.

A share c1 s_i tells of s_i, and the error of a result of all of them. So each party adds fresh
uniform noise, 2^30 times the error: of one decryption a coefficient tells 2^-30 or so.

Reference: Asharov et al., "Multiparty computation with low communication, computation and
interaction via threshold FHE", 2012.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import reduce

import numpy as np

from ren import Poly
from ren.schemes import ckks

PARAMS = ckks.Parameters.for_depth(1, scale_bits=60)
TOP = PARAMS.ring(PARAMS.depth)
SMUDGING = 1 << 42  # 2^30 times the coefficients of errors, which stay below 2^12


class Party:
    """One of the parties: its secret, and its part of the public key for the common `a`."""

    def __init__(self, a: Poly) -> None:
        self._secret = Poly.ternary(TOP).ntt().realize()
        self.b = Poly.gaussian(TOP) - a * self._secret

    def share(self, x: ckks.Ciphertext) -> Poly:
        """Part of this party in the decryption of `x`, which it has not seen before."""
        noise = Poly.uniform_on_interval(-SMUDGING, SMUDGING + 1, x.ring)
        return x.polys[1] * self._secret.to_ring(x.ring) + noise


def encrypt(ctx: ckks.Context, a: Poly, b: Poly, values: np.ndarray) -> ckks.Ciphertext:
    """Real numbers up to 1 under the key of all parties."""
    v, message = Poly.ternary(TOP), ctx.encode(values).poly
    c0, c1 = b * v + Poly.gaussian(TOP) + message, a * v + Poly.gaussian(TOP)
    return ckks.from_polys(ctx, c0, c1, length=len(values), bound=1.0, error=2.0**-40)


def decrypt(ctx: ckks.Context, x: ckks.Ciphertext, shares: Sequence[Poly]) -> np.ndarray:
    """The numbers of `x`, from a share of each party."""
    return ctx.decode(reduce(operator.add, shares, x.polys[0]), x.level, len(x))


def main() -> None:
    """Three parties learn the mean of their numbers, and nothing else."""
    print(f"INSECURE toy of threshold decryption, {PARAMS!r}")
    ctx = ckks.context(params=PARAMS).public()  # its own key is not used
    a, numbers = Poly.uniform(TOP).ntt(), np.arange(15).reshape(3, 5) / 15
    parties = [Party(a) for _ in numbers]
    b = reduce(operator.add, [party.b for party in parties])
    given = [encrypt(ctx, a, b, row) for row in numbers]
    mean = reduce(operator.add, given) * (1 / 3)
    got = decrypt(ctx, mean, [party.share(mean) for party in parties])
    print(f"mean {got.round(2)}, error {np.abs(got - numbers.mean(axis=0)).max():.0e}")


if __name__ == "__main__":
    main()
