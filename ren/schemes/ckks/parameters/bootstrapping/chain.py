"""Rings, gadgets and exact scales of a bootstrap, by level: the user's levels and those above.

`params` are `Parameters`, whose module imports this one: hence `Any`.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

import attrs

from ren.core.errors import ParameterError
from ren.core.ring import RingSpec
from ren.schemes.ckks.parameters.bootstrapping.above import Above, is_sparse
from ren.schemes.ckks.parameters.bootstrapping.sine import DOUBLINGS
from ren.schemes.ckks.parameters.planner import partition
from ren.schemes.rlwe.keyswitch import Gadget

_LOW_DIGITS = 2  # of keys for SlotToCoeff
_GAP = 4  # bits by which digits are smaller than P
_ROOT_BITS = 64  # of the fraction of a square root


@attrs.frozen
class Chain:
    """All levels of a bootstrap; made by `chain_of`.

    Levels are numbered through: the user's from 0 to `target`, then those of the sine, then those
    of CoeffToSlot. Scales are exact rationals.

    Args:
        params: with bootstrapping.
        target: the level where it ends. Below the highest one there are fewer limbs at each level.
            Diagonals and keys are those of the whole chain, without the other limbs.
        runs: of the pipeline in a bootstrap.
    """

    params: Any
    target: int
    runs: int

    @property
    def above(self) -> Above:
        """The part of the parameters that is for bootstrapping."""
        return self.params.above

    # ---------------------------------------------------------------- rings

    @property
    def user(self) -> int:
        """The user's level where a bootstrap ends."""
        return self.target

    @property
    def is_sparse(self) -> bool:
        """Whether messages repeat in the slots: then one sine is for both parts of a number."""
        return is_sparse(self.params)

    @property
    def copies(self) -> int:
        """Number of times that a message stands in the slots."""
        return self.params.n // (2 * self.params.slots)

    @property
    def end(self) -> int:
        """The level where one run ends: the parts of a message that repeats take one to join."""
        return self.user - self.is_sparse

    @property
    def result(self) -> int:
        """The level where a bootstrap ends; the sum of two runs takes one."""
        return self.end - (self.runs - 1)

    @property
    def whole(self) -> Chain:
        """The chain that ends at the user's highest level: of all diagonals and keys."""
        return chain_of(self.params)

    @property
    def first(self) -> int:
        """The level where the sine begins."""
        return self.user + self.above.sine.depth

    @property
    def gathered(self) -> int:
        """The level of the sum of conjugates, and of the trace of a message that repeats.

        It is above the last rescale of CoeffToSlot, which divides the noise of these key switches.
        """
        return self.first + 1

    @property
    def top(self) -> int:
        """The highest level of all, to which a ciphertext is raised."""
        return self.user + len(self.above.primes)

    @cached_property
    def rings(self) -> tuple[RingSpec, ...]:
        """The ring of each level."""
        rings = [self.params.ring(level) for level in range(self.user + 1)]
        for moduli in self.above.primes:
            rings.append(RingSpec(self.params.n, (*rings[-1].moduli, *moduli)))
        return tuple(rings)

    # ---------------------------------------------------------------- gadgets

    @cached_property
    def full(self) -> Gadget:
        """The gadget of keys over all moduli."""
        return Gadget(self.params.n, self.above.digits, self.params.specials)

    @cached_property
    def low(self) -> Gadget:
        """The gadget of keys from the floor down: few moduli, and the special primes for these."""
        params, specials = self.params, self.params.specials
        terminals, mains = map(max, zip(*params.path[: self.above.floor + 1], strict=True))
        count = len(params.terminals)
        moduli = params.union[count - terminals : count + mains]  # of all levels up to the floor
        for count in range(1, len(specials) + 1):
            room = math.prod(specials[:count]) >> _GAP
            if max(moduli) <= room and len(cut := partition(moduli, room)) <= _LOW_DIGITS:
                return Gadget(self.params.n, cut, specials[:count])
        return Gadget(self.params.n, partition(moduli, math.prod(specials)), specials)

    @cached_property
    def sparse(self) -> Gadget:
        """The gadget of the key to the sparse secret: q_0 and one special prime, no more."""
        moduli, specials = self.rings[0].moduli, self.params.specials[:1]
        return Gadget(self.params.n, tuple((q,) for q in moduli), specials)

    @cached_property
    def raised(self) -> Gadget:
        """The gadget of what was raised: one digit, for its coefficients are below q_0."""
        return Gadget(self.params.n, (self.rings[self.top].moduli,), self.params.specials)

    # ---------------------------------------------------------------- scales

    @cached_property
    def lowest(self) -> Fraction:
        """The scale after SlotToCoeff: messages up to the bound are 2^-r of q_0."""
        ratio = Fraction(self.above.bound) * (1 << self.above.ratio_bits)
        return self.rings[0].q / ratio

    @cached_property
    def slot_to_coeff(self) -> tuple[Fraction, ...]:
        """The scales of the diagonals of its matrices: the canonical scales, then `lowest`."""
        floor, scale = self.above.floor, self.params.scale
        ends = [*(scale(level) for level in range(floor - 1, 0, -1)), self.lowest]
        starts = [scale(floor), *ends]
        return tuple(
            end * self._ratio(level) / start
            for level, start, end in zip(range(floor, 0, -1), starts, ends, strict=False)
        )

    def _ratio(self, level: int) -> Fraction:
        return Fraction(self.rings[level].q, self.rings[level - 1].q)

    @cached_property
    def coeff_to_slot(self) -> tuple[Fraction, ...]:
        """The scales of the diagonals of its matrices, which lead from L q_0 to the scale of y.

        The trace of a message that repeats has multiplied it by the number of copies.
        """
        matrices = self.top - self.first
        start = self.above.sine.reach * self.rings[0].q * self.copies
        whole = self.scales[self.first] / start * self.rings[self.top].q / self.rings[self.first].q
        each = Fraction(round(2 ** (_log2(whole) / matrices)))
        return (*[each] * (matrices - 1), whole / each ** (matrices - 1))

    @cached_property
    def scales(self) -> dict[int, Fraction]:
        """The scale of the sine at each of its levels, the first and the last with it.

        Down to the polynomial each is the square of the one before, rescaled. The double angles
        come back from the last: with it the message has the canonical scale.
        """
        made = {self.first: Fraction(round(2**self.above.first_bits))}
        last_square = self.user + DOUBLINGS
        for level in range(self.first - 1, last_square - 1, -1):
            made[level] = made[level + 1] ** 2 / self._ratio(level + 1)
        return made

    @cached_property
    def ends(self) -> dict[int, Fraction]:
        """The scales at which the polynomial and each double angle end."""
        gain = Fraction(self.above.sine.gain) * Fraction(self.above.bound)
        made = {self.user: self.params.scale(self.user) * gain}
        for level in range(self.user + 1, self.user + DOUBLINGS + 1):
            made[level] = _root(made[level - 1] * self._ratio(level))
        return made


@lru_cache(maxsize=32)
def chain_of(params: Any, target: int | None = None, runs: int | None = None) -> Chain:
    """The chain of parameters with bootstrapping to a level, the highest one when None; kept.

    A bootstrap has the runs that the parameters were made for, or `runs` of them.

    Raises:
        ParameterError: parameters without, or no such level.
    """
    if params.above is None:
        raise ParameterError(
            f"A bootstrap was asked for under {params!r}.",
            "These parameters have no levels for it.",
            "Make the context with ckks.context(bootstrapping=True); plan a function with "
            "ckks.plan(f, ckks.spec(...), bootstrapping=True).",
        )
    level = params.depth if target is None else target
    params.ring(level)  # raises where there is no such level
    return Chain(params, level, params.above.runs if runs is None else runs)


def _root(x: Fraction) -> Fraction:
    return Fraction(math.isqrt(int(x * 4**_ROOT_BITS)), 1 << _ROOT_BITS)


def _log2(x: Fraction) -> float:
    return math.log2(x.numerator) - math.log2(x.denominator)
