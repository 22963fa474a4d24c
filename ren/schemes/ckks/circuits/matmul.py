"""`ckks.matmul`: products of two encrypted square matrices.

With indices mod d, A B = sum_k phi^k(sigma(A)) psi^k(tau(B)), slot by slot, where

    sigma(A)_ij = A_i,i+j      tau(B)_ij = B_i+j,j      phi(A)_ij = A_i,j+1      psi(B)_ij = B_i+1,j

In row-major slots sigma and tau are matrices of 2 d - 1 diagonals. Each phi^k is two rotations and
two masks, each psi^k one rotation, cyclic over d d slots. Where there are more slots, two copies of
tau(B) stand one behind the other. One level for sigma and tau, one for the masks, one for the
product, which is relinearized once.

Reference: Jiang, Kim, Lauter and Song, "Secure outsourced matrix computation and application to
neural networks", 2018 (eprint 2018/1041), 3 and 4.
"""

from __future__ import annotations

import itertools
import math
from functools import lru_cache, reduce
from operator import add

import attrs
import numpy as np

from ren.core.errors import ParameterError
from ren.schemes.ckks.arithmetic.argument_checks import check_ciphertext
from ren.schemes.ckks.arithmetic.evolve import evolve_layout, kept_to, need_level
from ren.schemes.ckks.arithmetic.number_types import arithmetic
from ren.schemes.ckks.arithmetic.operation_hooks import circuit
from ren.schemes.ckks.arithmetic.rotation import rotate, spliced
from ren.schemes.ckks.arithmetic.shapes import batch_axes, refuse_columns, reshape_text
from ren.schemes.ckks.circuits.linear import placed
from ren.schemes.ckks.encoding.ciphertext_data import CiphertextData, CiphertextT, known_length
from ren.schemes.ckks.encoding.layout import ZEROS
from ren.schemes.rlwe.active_context import same_key
from ren.schemes.slots.diagonals import Split, fewest, square
from ren.schemes.slots.entries import Entries

_CAPS = (None, 8, 5, 4, 3, 2)  # budgets that are tried for sigma, and for tau


@attrs.frozen
class Ladder:
    """Ladder of rotations of one ciphertext by the multiples of `unit` from `low` to `high`.

    Args:
        radix: each has a key of its own where it is 0. Else the multiples of radix unit are reached
            one after another from the lowest. From each the others are reached by radix - 1 keys.
    """

    unit: int
    low: int
    high: int
    radix: int = 0

    @property
    def hops(self) -> dict[int, int]:
        """For each step, ascending, by how much it lies above the one that it is reached from."""
        width, made = self.unit * self.radix, dict[int, int]()
        for step in range(self.low, self.high + 1, self.unit):
            is_first = not width or step in (self.low, 0)  # reached from what is rotated
            made[step] = step if is_first else (step - self.low) % width or width
        return made

    @property
    def keys(self) -> frozenset[int]:
        """The steps that rotation keys are needed for."""
        return frozenset(self.hops.values()) - {0}

    @property
    def rotations(self) -> int:
        """Number of rotations."""
        return sum(hop != 0 for hop in self.hops.values())

    def climb(self, x: CiphertextT) -> dict[int, CiphertextT]:
        """The rotations of `x` by each step, ascending."""
        made: dict[int, CiphertextT] = {}
        for step, hop in self.hops.items():
            made[step] = rotate(made.get(step - hop, x), hop)
        return made


@attrs.frozen
class Route:
    """The rotations of one product: of sigma and tau, of phi^k and psi^k, and of the copy."""

    sigma: Split
    tau: Split
    phi: Ladder
    psi: Ladder
    copy: int
    slots: int

    @property
    def keys(self) -> frozenset[int]:
        """The steps that rotation keys are needed for, from 1 to `slots` - 1."""
        parts = (self.sigma, self.tau, self.phi, self.psi)
        steps = {self.copy}.union(*(part.keys for part in parts))
        return frozenset(step % self.slots for step in steps) - {0}

    @property
    def rotations(self) -> int:
        """Number of rotations."""
        parts = (self.sigma, self.tau, self.phi, self.psi)
        return sum(part.rotations for part in parts) + (self.copy != 0)


@lru_cache(maxsize=64)
def route(d: int, slots: int, keys: int | None) -> Route:
    """The route with the fewest rotations, among those of at most `keys` rotation keys."""
    is_sparing, full, doubled = keys is not None, d * d == slots, 2 * d * d <= slots
    radices = [0, *(1 << i for i in range(d.bit_length()))] if is_sparing and d > 1 else [0]
    phis = [Ladder(1, 1 - d, d - 1, radix) for radix in radices]
    low = 0 if full or doubled else d - d * d
    psis = [Ladder(d, low, d * d - d, radix) for radix in radices]
    copy = 0 if full or not doubled else -d * d
    sigmas, taus = (_splits(m, slots, is_sparing) for m in _skews(d))
    parts = itertools.product(sigmas, taus, phis, psis)
    routes = [Route(*four, copy, slots) for four in parts]
    return fewest(routes, keys, f"Encrypted matrices of {d} x {d} were")


def _splits(m: Entries, slots: int, is_sparing: bool) -> list[Split]:
    """The split of sigma or tau with the fewest rotations, and those with fewer and fewer keys."""
    placement, splits = square(m, slots), []
    for cap in _CAPS if is_sparing else (None,):
        try:
            splits.append(placement.split(cap))
        except ParameterError:
            break
    return splits


def _skews(d: int) -> tuple[Entries, Entries]:
    """sigma and tau: A_i,i+j and B_i+j,j at slot i d + j."""
    place, ones, shape = np.arange(d * d), np.ones(d * d), (d * d, d * d)
    i, j = np.divmod(place, d)
    sigma, tau = i * d + (i + j) % d, (i + j) % d * d + j
    return Entries(ones, shape, (place, sigma)), Entries(ones, shape, (place, tau))


@circuit("matmul()", arithmetic, 2)
def matmul(a: CiphertextT, b: CiphertextT, *, keys: int | None = None) -> CiphertextT:
    """A B for two encrypted square matrices, d x d in C order.

    Args:
        a, b: d d numbers each, at most the slots: vectors, or matrices by `ct.reshape(d, d)`.
            Leading axes are batch axes. Cut larger matrices into square blocks, and pad others.
        keys: the most rotation keys that it may need; None for the fewest rotations, about 3 d
            of as many keys. With few keys steps are reached one after another.

    Returns:
        Three levels lower; it decrypts to [d, d]. `ren.plan` tells the rotations needed.

    Raises:
        ParameterError: no square matrices of one size, more numbers than slots, or too few keys.
        DepthError: fewer than three levels are left.

    Reference: Jiang, Kim, Lauter and Song, 2018 (eprint 2018/1041).

    Cost: about 3 d + 8 sqrt(d) rotations, d products, one relinearization.

    Example:
        >>> from ren.schemes import ckks
        >>> ctx = ckks.context(depth=3, slots=4)
        >>> a, b = ctx.encrypt([1.0, 2.0, 3.0, 4.0]), ctx.encrypt([0.0, 1.0, 1.0, 0.0])
        >>> ckks.matmul(a, b).decrypt().round(3)
        array([[2., 1.],
               [4., 3.]])
    """
    for x in (a, b):
        check_ciphertext(x, "matmul()")
        refuse_columns(x, "matmul()")
        if batch_axes(x) and x.layout.shape is None:
            raise ParameterError(
                f"matmul() got a batch of vectors of shape {x.shape}.",
                "It takes matrices, of which each holds all its numbers in one ciphertext.",
                "Encrypt the matrix with pack='flat', the default. Of vectors that are matrices in "
                f"C order make it {reshape_text(x, 'd, d')}.",
            )
    d = _size(a, b)
    same_key(a.key_id, b.key_id, "matmul()")
    for x in (a, b):
        need_level(x, 3, "A product of encrypted matrices")
    way = route(d, a.slots, keys)
    sigma, tau = _skews(d)
    left = _shifted(_mapped(a, sigma, way.sigma), way.phi, d, 1)
    right = _mapped(b, tau, way.tau)
    if way.copy:
        right = kept_to(right + rotate(right, way.copy), right)
    if way.psi.low < 0:
        rights = _shifted(right, way.psi, d, d)
    else:
        rights = dict(enumerate(way.psi.climb(right).values()))
    result = reduce(add, (left[k] * rights[k] for k in range(d)))
    return evolve_layout(result, length=d * d, shape=(d, d), tail=ZEROS)


def _mapped(x: CiphertextT, m: Entries, steps: Split) -> CiphertextT:
    return placed(square(m, x.slots), steps, x.params, x.level) @ x


def _shifted(x: CiphertextT, ladder: Ladder, d: int, unit: int) -> dict[int, CiphertextT]:
    """phi^k (unit 1) or psi^k (unit d): cyclic over the rows or columns, what wraps is masked."""
    rotated = ladder.climb(x)
    place = np.arange(d * d) // unit % d
    pairs = {k: (rotated[k * unit], rotated[(k - d) * unit]) for k in range(1, d)}
    return {0: x} | {k: spliced(x, place < d - k, *pair) for k, pair in pairs.items()}


def _size(a: CiphertextData, b: CiphertextData) -> int:
    """d, of two matrices d x d."""
    lengths = [known_length(x) or 1 for x in (a, b)]
    d = math.isqrt(lengths[0])
    shapes = [x.layout.shape or (d, d) for x in (a, b)]
    if lengths != [d * d] * 2 or shapes != [(d, d)] * 2 or d * d > a.slots:
        sizes = " and ".join(str(x.layout.shape or known_length(x)) for x in (a, b))
        raise ParameterError(
            f"Encrypted matrices of {sizes} numbers were to be multiplied, in {a.slots} slots.",
            "Both are square, of one size, and each fits into the slots.",
            "Pad them with zeros to squares, or cut them into square blocks.",
        )
    return d
