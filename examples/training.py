"""Logistic regression trained on encrypted data: the server sees neither samples nor weights.

A sample is z_i = y_i (x_i, 1) with y_i = -1 or 1, and all of them are one ciphertext: row i of a
matrix [rows, width], read row by row, is z_i, and zeros fill what is left over. Weights stand in
every row. A step of Nesterov's gradient ascent with rate a and momentum e_k is

    v = w_k + e_k (w_k - w_(k-1)),   m_i = z_i . v,   w_(k+1) = v + a mean_i s(-m_i) z_i

where s is a polynomial near the sigmoid. It takes four levels at degree 3, five up to degree 7: the
product z w, the mask that keeps one sum a row, into which the momentum goes, and the product of z
with the polynomial in m / reach, into whose coefficients the rate goes. Weights start at zero, so
that the first step is the mean of z: one level.

References: Kim, Song, Kim, Lee and Cheon, "Logistic regression model training based on the
approximate homomorphic encryption", 2018, eprint 2018/254 (the packing, Nesterov's method); Han,
Song, Cheon and Park, "Logistic regression on homomorphic encrypted data at scale", 2019.
"""

from __future__ import annotations

import attrs
import numpy as np
from numpy.typing import ArrayLike, NDArray

import ren
from ren.schemes import ckks
from ren.schemes.ckks import Ciphertext

Floats = NDArray[np.float64]


@attrs.frozen
class Recipe:
    """What is public about a training: shapes and settings.

    Args:
        samples, features: of the data, without the constant feature that is added.
        steps: how many.
        rate: the learning rate a.
        degree: of the polynomial s: odd.
        reach: s is near the sigmoid on [-reach, reach]; the m_i should keep to it.
    """

    samples: int = attrs.field(converter=int)
    features: int = attrs.field(converter=int)
    steps: int = 3
    rate: float = 4.0
    degree: int = 3
    reach: float = 10.0

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and width of the matrix of samples: powers of two."""
        return 1 << (self.samples - 1).bit_length(), 1 << self.features.bit_length()

    @property
    def slots(self) -> int:
        """How many slots the samples take."""
        return self.shape[0] * self.shape[1]

    def momentum(self, k: int) -> float:
        """e_k: 0 at first, then growing towards 1."""
        return max(0, k - 1) / (k + 2)

    @property
    def coefficients(self) -> Floats:
        """c_0, c_1, ... of s(-m) in u = m / reach; beyond c_0 the even ones are zero.

        By interpolation in the Chebyshev points.
        """
        fit = np.polynomial.Chebyshev.interpolate(
            lambda u: 1 / (1 + np.exp(self.reach * u)), self.degree
        )
        c = np.asarray(fit.convert(kind=np.polynomial.Polynomial).coef, np.float64)
        c[2::2] = 0
        return c


# ------------------------------------------------------------------- the owner's side


def scaled(x: ArrayLike, mean: ArrayLike, deviation: ArrayLike) -> Floats:
    """Features in [-1, 1]: standardized, and cut off at three standard deviations."""
    z = (np.asarray(x) - np.asarray(mean)) / np.asarray(deviation)
    return np.clip(z, -3, 3) / 3


def signed(x: Floats, labels: ArrayLike) -> Floats:
    """z_i = y_i (x_i, 1), [samples, features + 1], of labels 0 and 1."""
    y = np.where(np.asarray(labels), 1.0, -1.0)
    return y[:, None] * np.c_[x, np.ones(len(x))]


def packed(z: Floats, recipe: Recipe) -> Floats:
    """The samples as the vector to encrypt, [rows * width]."""
    matrix = np.zeros(recipe.shape)
    matrix[: z.shape[0], : z.shape[1]] = z
    return matrix.ravel()


def unpacked(weights: Floats, recipe: Recipe) -> Floats:
    """The weights of a decrypted result, [features + 1], the constant last."""
    return weights[: recipe.features + 1]


def accuracy(z: Floats, weights: Floats) -> float:
    """The part of the samples that are on the right side."""
    return float(np.mean(z @ weights > 0))


# ------------------------------------------------------------------- the server's side


def train(z: Ciphertext, recipe: Recipe) -> Ciphertext:
    """The weights after all steps, in every row.

    Args:
        z: of `packed` samples, in all slots that there are.
        recipe: what is public.

    Cost: 2 log2(width) + log2(rows) rotations a step; the first one has no rows to sum.
    """
    width, gain = recipe.shape[1], recipe.rate / recipe.samples
    c = recipe.coefficients * gain
    weights = before = _column_sums(z * c[0], recipe)
    sums = sums_before = None
    for k in range(1, recipe.steps):
        e = recipe.momentum(k)
        sums_before, sums = sums, ckks.strided_sum(z * weights, width).within(recipe.reach)
        margins, ahead = sums * _first_column(recipe, (1 + e) / recipe.reach), weights
        if sums_before is not None:
            margins = margins - sums_before * _first_column(recipe, e / recipe.reach)
            ahead = weights * (1 + e) - before * e
        u = ckks.strided_sum(margins, width, -1).within(1)
        before, weights = weights, ahead + _column_sums(_times_odd(z, u, c), recipe)
    return weights


def _column_sums(x: Ciphertext, recipe: Recipe) -> Ciphertext:
    """The sum of all rows, in every row: rotations are cyclic."""
    rows, width = recipe.shape
    return ckks.strided_sum(x, rows, width)


def _first_column(recipe: Recipe, value: float) -> Floats:
    """What keeps the first slot of every row, times `value`."""
    mask = np.zeros(recipe.shape)
    mask[:, 0] = value
    return mask.ravel()


def _times_odd(z: Ciphertext, u: Ciphertext, c: Floats) -> Ciphertext:
    """z (c_0 + c_1 u + c_3 u^3 + ...), ceil(log2(len(c))) levels below u, z above it."""
    powers = {1: u}

    def power(exponent: int) -> Ciphertext:
        if exponent not in powers:
            powers[exponent] = power(exponent // 2) ** 2
        return powers[exponent]

    def odd(part: Floats) -> Ciphertext:
        if len(part) == 1:
            return (z * part[0]) * u
        half = 1 << (len(part) - 1).bit_length() - 1
        return odd(part[:half]) + odd(part[half:]) * power(2 * half)

    return z * c[0] + odd(c[1::2])


# ------------------------------------------------------------------- the same in the clear


def train_in_the_clear(z: Floats, recipe: Recipe) -> Floats:
    """The weights of the same algorithm on samples that are not packed, [features + 1]."""
    c = recipe.coefficients
    weights = before = np.zeros(z.shape[1])
    for k in range(recipe.steps):
        ahead = weights + recipe.momentum(k) * (weights - before)
        margins = z @ ahead
        slopes = np.polynomial.polynomial.polyval(margins / recipe.reach, c)
        before, weights = weights, ahead + recipe.rate * (slopes @ z) / recipe.samples
    return weights


def main() -> None:
    """Trains on samples that are made up, and compares the weights with those in the clear."""
    recipe = Recipe(samples=200, features=3, rate=2.0, reach=6.0)
    x = np.outer(np.arange(recipe.samples), np.sqrt([2, 3, 5])).astype(np.float64)
    x = 2 * (x % 1) - 1
    z = signed(x, x @ [1, -2, 0.5] + 0.3 > 0)
    plan = ckks.plan(train, ckks.spec(recipe.slots), recipe, slots=recipe.slots)
    owner = ckks.context(plan, slots=recipe.slots)
    samples = owner.encrypt(packed(z, recipe), bound=1)
    with owner.server():  # evaluation keys alone
        trained = ren.jit(train)(samples, recipe)
    weights, clear = unpacked(owner.decrypt(trained), recipe), train_in_the_clear(z, recipe)
    print(f"{recipe.samples} samples, {recipe.steps} steps, {plan.params!r}")
    print("weights of encrypted samples", weights.round(4))
    print("weights of clear samples    ", clear.round(4))
    print(f"accuracy {accuracy(z, weights):.1%}, in the clear {accuracy(z, clear):.1%}")


if __name__ == "__main__":
    main()
