"""Variances and covariances of encrypted numbers, from their distances to the mean.

Let x have n numbers, S their sum in every slot, and 1 ones in the first n slots. Then a x - (a / n)
S 1 is one level below x, and zero beyond the length. Its square is summed with no mask. So a
variance takes two levels, and what cancels is not the square of the mean.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce

import numpy as np

from ren.core.errors import ParameterError
from ren.schemes.ckks.arithmetic import complex_pairs
from ren.schemes.ckks.arithmetic.argument_checks import check_ciphertext, check_real_moment
from ren.schemes.ckks.arithmetic.automatic import (
    Factors,
    add,
    multiply,
    multiply_plain,
    subtract,
    sum_of_products,
)
from ren.schemes.ckks.arithmetic.complex_pairs import imaginary_unit, times_i, twice_real
from ren.schemes.ckks.arithmetic.evolve import (
    evolve_layout,
    need_level,
    relabelled,
    with_noise,
    within_that_of,
)
from ren.schemes.ckks.arithmetic.lazy_product import noise_beyond
from ren.schemes.ckks.arithmetic.manual import check_automatic
from ren.schemes.ckks.arithmetic.number_types import floating
from ren.schemes.ckks.arithmetic.operation_hooks import circuit
from ren.schemes.ckks.arithmetic.rotation import (
    cleared,
    conjugate,
    cyclic,
    has_to_be_cleared,
    summed_from,
)
from ren.schemes.ckks.arithmetic.shapes import (
    axis_of,
    batch_axes,
    check_no_numbers_apart,
    shape_text,
    shapes_of,
)
from ren.schemes.ckks.circuits import reductions, tables
from ren.schemes.ckks.circuits.stacking import beside_blocks, blocks_of, stack, unstack
from ren.schemes.ckks.encoding.ciphertext_data import (
    CiphertextData,
    CiphertextT,
    is_columns,
    known_length,
)
from ren.schemes.ckks.encoding.layout import COPIES, LEFTOVERS
from ren.schemes.ckks.encoding.plaintext import encode
from ren.schemes.ckks.noise import bounds as noises
from ren.schemes.ckks.noise.readable import Noise
from ren.schemes.ckks.parameters.checks import as_python_int

_FEW = 3  # columns that are not paired, which saves a key
_HALF = math.sqrt(0.5)  # its square halves what is twice a part


@circuit("var()", floating)
def var(ct: CiphertextT, axis: int | None, ddof: int, keepdims: bool) -> CiphertextT:
    """numpy.var: the mean square distance to the mean, two levels.

    Args:
        ct: real numbers.
        axis: as for `sum`; without one of each vector of a batch, or of all numbers of a table.
        ddof: the sum of squares is divided by count - ddof.
        keepdims: whether the axis stays, with size 1.

    Raises:
        DepthError: fewer than two levels. It takes three where leftovers are cleared before. So
            it does along an axis of a flat table that is not the first. Across blocks four.
        ParameterError: complex numbers, or no more than ddof.
    """
    check_automatic("A variance")
    check_real_moment(ct, "var()", "x.real.var() + x.imag.var(), numpy.var of complex numbers")
    if axis is None and is_columns(ct) and len(ct.shape) > 2:  # of each table of a batch
        return stack([var(part, axis, ddof, keepdims) for part in unstack(ct)])
    place = axis_of(ct, axis, "var()")
    if place is None:
        check_no_numbers_apart(ct, "var()")
    batch, core = map(len, shapes_of(ct))
    is_whole = is_columns(ct) and place is None
    if place is None and not is_whole:
        count = known_length(ct) or 1
    else:
        count = math.prod(ct.shape) if place is None else ct.shape[place]
    factor = _root_share(count, ddof)
    levels, clearing = levels_of_var(ct, place)
    need_level(ct, levels, "var()", clearing=clearing)
    if place is None or (core == 1 and place == batch - is_columns(ct)):
        if _is_wide(ct) and not is_whole:
            sums = _twice_square_sums(centred(ct, factor * _HALF))
            return evolve_layout(relabelled(sums, 1, COPIES), columns=True) if keepdims else sums
        c = centred(ct, factor, is_whole)
        return tables.total(c * c, axis, keepdims)
    c = ct * factor - tables.shared_total(ct, place, True, factor / count)
    return tables.total(c * c, place, keepdims)


def levels_of_var(ct: CiphertextData, place: int | None) -> tuple[int, int]:
    """The levels that `var` along an axis takes, and those that clear leftovers besides.

    The axis is None for all numbers of a vector or a table.
    """
    batch, core = map(len, shapes_of(ct))
    if place is None or (core == 1 and place == batch - is_columns(ct)):
        return 2, int(has_to_be_cleared(ct))
    if core < 2 or place < batch:
        return 2, 0
    return (4 if ct.layout.blocks > 1 else 2 + (math.prod(ct.shape[batch:place]) > 1)), 0


def _root_share(count: int, ddof: int) -> float:
    ddof = as_python_int(ddof)
    if not isinstance(ddof, int) or not 0 <= ddof < count:
        raise ParameterError(
            f"ddof={ddof!r:.40} was given with {count} numbers.",
            "The sum of squares is divided by their count less ddof: an integer from 0, below it.",
            "Pass ddof=0, or ddof=1 for a sample of two numbers or more.",
        )
    return 1 / math.sqrt(count - ddof)


def centred(ct: CiphertextT, factor: float = 1.0, is_whole: bool = False) -> CiphertextT:
    """factor (x - mean(x)), of each vector or column, or of a whole table: one level.

    Zeros stand beyond the length. One level more where leftovers are cleared before.
    """
    return _centred(ct, (factor,), is_whole)[0]


def with_variances(ct: CiphertextT) -> tuple[CiphertextT, int, CiphertextT]:
    """t (x - mean(x)) of a vector or of each column, the integer t, and the variances.

    All are of one sum. Sums of pairs come twice, and t keeps their rounding as small as else.
    """
    if not _is_wide(ct):
        return centred(ct), 1, var(ct, 0 if is_columns(ct) else None, 0, False)
    ct = cleared(ct, "a distance to the mean")
    c, scaled = _centred(ct, (2.0, _HALF / math.sqrt(ct.shape[0])), False)
    return c, 2, _twice_square_sums(scaled)


@circuit("a distance to the mean")
def _centred(ct: CiphertextT, factors: Sequence[float], is_whole: bool) -> list[CiphertextT]:
    """`centred` for each of some factors."""
    length = known_length(ct) or 1
    ct = cleared(ct, "a distance to the mean")
    share = 1 / (math.prod(ct.shape) if is_whole else length)
    if is_whole:
        sums = tables.total(ct, None, False)
    elif _is_wide(ct) and ct.layout.is_complex:  # paired
        sums = reductions.over_all_slots(ct, _by_fours)
    elif _is_wide(ct):
        sums, share = _twice_sums(ct), share / 2
    else:
        sums = reductions.total(ct)
    sums = beside_blocks(sums, ct) if batch_axes(sums) else sums
    return [_without_means(ct, sums, share, factor) for factor in factors]


def _without_means(x: CiphertextT, sums: CiphertextT, share: float, factor: float) -> CiphertextT:
    """factor (x - share sums) up to the length."""
    values = np.full(known_length(x) or 1, factor * share)
    p = encode(values, x.params, x.level, x.layout.blocks, bound=factor * share)
    means = multiply_plain(sums, p)
    means = means if batch_axes(means) or not batch_axes(x) else stack([means])
    return x * factor - evolve_layout(means, columns=x.layout.columns, shape=x.layout.shape)


# ------------------------------------------------------------------- many columns


def _is_wide(x: CiphertextData) -> bool:
    """Whether `x` is one table of so many columns that they are summed two at a time."""
    return is_columns(x) and len(x.shape) == 2 and x.shape[1] > _FEW


def _by_fours(x: CiphertextT, count: int, step: int) -> CiphertextT:
    """`rotations_summed` of a power of two of terms: by 4^k, 2 4^k and 3 4^k slots.

    Of four terms at once one is decomposed, and their sum is divided by P once. It is half the work
    of `rotations_summed`, for half as many keys more.
    """
    result, terms = x, 1
    while terms < count:
        shift = terms * step
        few = 4 if 4 * terms <= count and shift.bit_length() % 2 else 2  # a power of 4
        result = reduce(add, [cyclic(result, i * shift) for i in range(few)])
        terms *= few
    return summed_from(x, result, count, step, count - 1)


def _twice_sums(x: CiphertextT) -> CiphertextT:
    """Twice the sums of the columns, zeros beyond the length, two columns at a time."""
    blocks = [evolve_layout(block, columns=True) for block in blocks_of(x)]
    pairs = paired(reduce(add, blocks))
    sums = _twice_parts(reductions.over_all_slots(pairs, _by_fours), x.shape[1])
    largest = noises.of_largest(x.noise, x.layout.blocks)
    return within_that_of(sums, largest, 2 * x.shape[0])


def _twice_square_sums(c: CiphertextT) -> CiphertextT:
    """Twice the sums of c^2 over the columns of a table, zeros beyond the length: one level.

    The sum of a a + b (i b) is relinearized once for two columns a and b.
    """
    columns = unstack(c)
    half = len(columns) // 2 * 2
    a, b = stack(columns[:half:2]), stack(columns[1:half:2])
    pairs = add(multiply(a, a), multiply(b, times_i(b)))
    rest = [multiply(v, v) for v in columns[half:]]

    def zeros() -> Noise | None:
        found = [noise_beyond(x, c.shape[0]) for x in (pairs, *rest)]
        first = [found[0][i] for i in range(half // 2)] if found[0] is not None else [None]
        each = [*first, *found[1:]]
        return None if any(noise is None for noise in each) else noises.stacked(each, ())

    squares = stack([*unstack(pairs), *rest])
    sums = _twice_parts(reductions.over_all_slots(squares, _by_fours, zeros), len(columns))
    largest = noises.of_largest(c.noise, c.layout.blocks)
    return within_that_of(sums, noises.product(largest, largest), 2 * c.shape[0])


# ------------------------------------------------------------------- covariances


@circuit("cov()")
def cov(x: CiphertextT, y: CiphertextT | None, ddof: int) -> CiphertextT:
    """The covariance of two vectors, or those of the columns of a table; see `ckks.stats.cov`."""
    for given in (x,) if y is None else (x, y):
        check_ciphertext(given, "cov()")
        check_automatic("A covariance")
        check_real_moment(given, "cov()", "ckks.stats.cov of x.real and x.imag")
    if y is not None:
        _check_pair(x, y)
        root = _root_share(known_length(x) or 1, ddof)
        need_level(x, 2, "cov()", clearing=has_to_be_cleared(x))
        need_level(y, 2, "cov()", clearing=has_to_be_cleared(y))
        return reductions.total(centred(x, root) * centred(y, root))
    check_columns(x, "cov()")
    need_level(x, 3, "cov() of a table", clearing=has_to_be_cleared(x))
    z = centred(paired(cleared(x, "cov()")))
    return gram(z, x.shape[1], _root_share(x.shape[0], ddof) ** 2)


def check_apart(x: CiphertextData, what: str) -> None:
    """Raises ParameterError for a table whose columns are not apart, and for a batch."""
    if len(x.shape) > 1 and not is_columns(x):
        raise ParameterError(
            f"{what} got a ciphertext of shape {x.shape}, not packed by columns.",
            "It takes a vector, or a table by its columns.",
            "Encrypt the table with ctx.encrypt(m, pack='columns'). x.reshape(-1) is one vector of "
            "all numbers; vectors of a batch are mapped, jax.vmap(f)(x).",
        )


def check_columns(x: CiphertextData, what: str) -> None:
    """Raise ParameterError unless `x` is one table by its columns."""
    if not is_columns(x) or len(x.shape) != 2:
        raise ParameterError(
            f"{what} got a ciphertext of shape {shape_text(x)}.",
            "It takes two vectors, or a table by its columns, each column one variable.",
            "Encrypt the table with ctx.encrypt(m, pack='columns').",
        )


def _check_pair(x: CiphertextData, y: CiphertextData) -> None:
    if is_columns(x) or known_length(x) is None or x.shape != y.shape or len(x.shape) != 1:
        raise ParameterError(
            f"cov() got ciphertexts of shapes {shape_text(x)}, and {shape_text(y)}.",
            "It takes two vectors of one length, or one table by its columns.",
            "Slice the longer one, or leave the second one out.",
        )


def paired(x: CiphertextT) -> CiphertextT:
    """Columns a + i b for two columns each of a real table: half as many; `x` itself if few.

    Zeros stand beyond the length. It costs nothing, and halves what follows.
    """
    columns = unstack(x)
    if len(columns) <= _FEW:
        return x
    unit = imaginary_unit(columns[0])
    halves = zip(columns[::2], columns[1::2], strict=False)
    pairs = [complex_pairs.paired(a, b, unit) for a, b in halves]
    return evolve_layout(stack([*pairs, *columns[2 * len(pairs) :]]), columns=True)


def _twice_parts(y: CiphertextT, count: int) -> CiphertextT:
    """Twice the real and the imaginary part of each of a batch by turns, `count` in all."""
    other = conjugate(y)
    halves = add(y, other), times_i(subtract(other, y))
    parts = [part for pair in zip(*map(unstack, halves), strict=True) for part in pair]
    return evolve_layout(stack(parts[:count]), is_complex=False)


def gram(z: CiphertextT, count: int, share: float) -> CiphertextT:
    """share x^T x for a table x of `count` columns, zeros beyond the length: two levels.

    Let z = x first. With w = 2^m >= c, let W_t hold column i, rotated by t, in the slots that are
    i mod w. Then

        y_j = sum_(t < w) rot_t(z_j) W_t

    sums up, over the slots that are i mod w, to all of z_i z_j. So y_j and its rotations by
    multiples of w add up to column j of the result, periodic over the slots. Steps t are g + b, and

        y_j = sum_g rot_g( sum_b rot_b(z_j) V_(g,b) )     V_(g,b) = rot_-g(W_(g+b))

    where V_(g,b) takes masks of rot_b(z), and no rotation. All columns are rotated at once, and
    each inner sum is relinearized once.

    Where z = `paired(x)`, half as many y are sums for two columns j, as real and imaginary part. A
    mask is 1 for the first and -i for the second column of a pair. V is the real part of what the
    masks give.

    Args:
        z: x, or `paired(x)`.
        count: columns of x.
        share: the factor.
    """
    slots, each = z.slots, 1 + z.layout.is_complex  # columns of x in one of z
    m = (count - 1).bit_length()
    width, giant = 1 << m, 1 << -(-m // 2)
    need_level(z, 2, "a product of all pairs of columns")
    place = np.arange(slots) % width
    factor = share / each**2  # real parts are halves of sums
    picked = [place == i for i in range(width)]
    if each > 1:
        picked = [a - 1j * b for a, b in zip(picked[::2], picked[1::2], strict=True)]
    masks = encode(factor * np.array(picked), z.params, z.level, bound=factor)
    places = np.arange(len(unstack(z)))
    babies = [cyclic(relabelled(block, slots), b) for block in blocks_of(z) for b in range(giant)]
    columns = [unstack(x) for x in babies]
    rows = -(-(z.shape[0] + width) // width)  # slots of a y that are not zero, of those summed
    is_few = z.layout.blocks == 1 and reductions.are_few(rows, slots >> m)
    zeros = [with_noise(x, noises.without_message) for x in babies] if is_few else babies
    sums, numbers = [], []
    for step in range(0, width, giant):
        factors = Factors((masks,), tuple(((places + step // each) % len(picked)).tolist()))
        products = [sum_of_products(factors, *terms) for terms in columns]
        if each > 1:
            products = [twice_real(v) for v in products]
        if is_few:
            numbers += [
                noises.product(x.noise, v.noise) for x, v in zip(babies, products, strict=True)
            ]
            products = [with_noise(v, noises.without_message) for v in products]
        terms = [multiply(x, v) for x, v in zip(zeros, products, strict=True)]
        sums.append(cyclic(reduce(add, terms), step))
    total = _by_fours(reduce(add, sums), slots >> m, width)
    if is_few:
        term = reduce(noises.total, numbers)
        total = with_noise(total, lambda noise: noises.plus_slots(noise, term, rows))
    if each > 1:
        total = _twice_parts(total, count)
    largest = noises.of_largest(noises.of_largest(z.noise, z.layout.blocks), 2)
    total = within_that_of(total, noises.product(largest, largest), z.shape[0] * share)
    return evolve_layout(relabelled(total, count, LEFTOVERS), columns=True)
