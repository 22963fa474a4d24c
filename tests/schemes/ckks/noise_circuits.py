"""Random circuits with sums of like terms, whose errors are not independent of each other.

A stage is sum_i s_i f(b + p_i): one ciphertext b, plaintexts p_i that are shared, equal or
different, and one function f. Terms that differ by plaintexts have one second polynomial c1, so
that key switches and rescales make the same error in each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext

import attrs
import numpy as np
from numpy.typing import NDArray

from ren.schemes import ckks

Values = NDArray[np.complex128]
Term = tuple[ckks.Ciphertext, Values]
LARGEST = 128.0  # of the numbers; integer_bits leaves room for 512


@attrs.frozen
class Size:
    """The parameters of circuits; insecure."""

    n: int
    depth: int
    scale_bits: int = 40
    slots: int | None = None

    def context(self) -> ckks.Context:
        """A context with new keys."""
        return ckks.context(
            self.depth, n=self.n, scale_bits=self.scale_bits, slots=self.slots, security=None
        )


SIZES = (
    Size(1 << 10, 3), Size(1 << 10, 4, slots=8), Size(1 << 10, 2, scale_bits=30),
    Size(1 << 11, 3, scale_bits=45), Size(1 << 11, 2, slots=64), Size(1 << 12, 2),
)  # fmt: skip


@attrs.frozen
class Draw:
    """What a circuit is drawn from.

    Args:
        rng: the source of randomness.
        ctx: the owner's context.
        public: the same with the public key alone.
        is_manual: whether the circuit runs inside of `ckks.manual()`.
    """

    rng: np.random.Generator
    ctx: ckks.Context
    public: ckks.Context
    is_manual: bool = False

    def chance(self, p: float) -> bool:
        """True with probability p."""
        return bool(self.rng.random() < p)

    def values(self) -> Values:
        """Numbers of modulus 1 in every slot."""
        if self.chance(0.5):
            return self.rng.choice([-1.0, 1.0], self.ctx.slots).astype(complex)
        return np.exp(2j * np.pi * self.rng.random(self.ctx.slots))

    def fresh(self) -> Term:
        """A ciphertext at the top."""
        a, owner = self.values(), self.public if self.chance(0.3) else self.ctx
        return owner.encrypt(a), a

    def addends(self, x: ckks.Ciphertext, count: int) -> Iterator[Callable[[Term], Term]]:
        """What is added to each of `count` terms: nothing, a plaintext of one kind, or a number.

        Plaintexts are one object, of equal values, of different ones, or encoded at a level above.
        """
        kind = self.rng.choice(["none", "shared", "equal", "different", "numbers", "above"])
        p = self.values()
        shared = self.ctx.encode(p, level=x.level)
        for _ in range(count):
            if kind == "none":
                yield lambda t: t
            elif kind == "shared":
                yield lambda t: (t[0] + shared, t[1] + p)
            elif kind == "equal":
                yield lambda t: (t[0] + p.copy(), t[1] + p)
            elif kind == "different" or (kind == "above" and self.is_manual):
                q = self.values()
                yield lambda t, q=q: (t[0] + q, t[1] + q)
            elif kind == "above":
                q, level = self.values(), int(self.rng.integers(x.level, self.ctx.params.depth + 1))
                other = self.ctx.encode(q, level=level)
                yield lambda t, q=q, other=other: (t[0] - other, t[1] - q)
            else:
                c = float(self.rng.uniform(-1, 1))
                yield lambda t, c=c: (t[0] + c, t[1] + c)


Function = Callable[[Term], Term]


def functions(d: Draw, x: ckks.Ciphertext, pool: list[Term]) -> Function:
    """One function for all terms of a sum, that `x` has levels for."""
    k, c, q = int(d.rng.integers(1, d.ctx.slots)), float(d.rng.uniform(-1, 1)), d.values()
    m = int(d.rng.integers(-3, 4))
    y, b = pool[d.rng.integers(len(pool))]
    found: list[Function] = [
        lambda t: (t[0].rotate(k), np.roll(t[1], -k)),
        lambda t: (t[0].conj(), np.conj(t[1])),
        lambda t: (t[0] * m, t[1] * m),
        lambda t: (-t[0], -t[1]),
    ]
    if x.level > 0:
        low = int(d.rng.integers(0, x.level))
        plain = d.ctx.encode(q, level=x.level)
        found += [lambda t: (t[0].drop_to(low), t[1])]
        if d.is_manual:
            found += [
                lambda t: ((t[0] * plain).rescale(), t[1] * q),
                lambda t: ((t[0] * c).rescale(), t[1] * c),
                lambda t: ((t[0] * t[0]).relinearize().rescale(), t[1] * t[1]),
            ]
        else:
            found += [
                lambda t: (t[0] * plain, t[1] * q),
                lambda t: (t[0] * q.copy(), t[1] * q),
                lambda t: (t[0] * c, t[1] * c),
                lambda t: ((t[0] * q).rescale(), t[1] * q),
                lambda t: (t[0] * t[0], t[1] * t[1]),
            ]
            if y.level > 0:
                found += [
                    lambda t: (t[0] * y, t[1] * b),
                    lambda t: ((y * t[0]).rescale(), b * t[1]),
                ]
    return found[d.rng.integers(len(found))]


def stage(d: Draw, pool: list[Term]) -> Term:
    """A sum of like terms."""
    x, a = pool[-1 if d.chance(0.6) else d.rng.integers(len(pool))]
    count = int(d.rng.choice([1, 2, 3, 4, 8, 16, 32, 48]))
    f = functions(d, x, pool)
    later = functions(d, f((x, a))[0], pool) if d.chance(0.4) else None
    is_inside = d.is_manual or d.chance(0.7)  # f(b + p_i), else f(b) + p_i
    is_mixed = d.chance(0.3)  # of sums and differences
    is_anew = not d.is_manual and d.chance(0.25)  # a function for each term: x * p + x * p'
    total: Term | None = None
    for add in d.addends(x, count):
        f = functions(d, x, pool) if is_anew else f
        term = f(add((x, a))) if is_inside else add(f((x, a)))
        term = later(term) if later and not is_anew else term
        if total is None:
            total = term
        elif not is_mixed or d.chance(0.5):
            total = total[0] + term[0], total[1] + term[1]
        else:
            total = total[0] - term[0], total[1] - term[1]
    assert total is not None
    return total


def passed_bits(rng: np.random.Generator, ctx: ckks.Context, public: ckks.Context) -> float:
    """log2(largest error / bound) of one circuit: below zero where the bound holds."""
    d = Draw(rng, ctx, public, is_manual=rng.random() < 0.3)
    pool = [d.fresh() for _ in range(rng.integers(1, 3))]
    with ckks.manual() if d.is_manual else nullcontext():
        for _ in range(rng.integers(1, 5)):
            x, a = stage(d, pool)
            if not np.abs(a).max() < LARGEST:
                break
            pool.append((x, a))
        x, a = pool[-1]
        error = float(np.abs(ctx.slots_of(x) - a).max())
        x = x.within(max(np.abs(a).max(), 1e-9))  # a tracked bound may be beyond the range
        bound = max(x.estimate.error_bound, 1e-300)  # x * 0 has no error, and a bound of zero
        return float(np.log2(max(error, 1e-301) / bound))
