"""Errors of tables: the code that they tell to write gives what NumPy gives, in value and shape.

`ct` and `x` are a table of r rows and c columns, and `y` is another one, all of one packing. `m` is
an array of that shape. `v` has r numbers, `w` c, `L` is (5, r) and `M` (c, 5).
"""

from __future__ import annotations

import functools
import operator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ren import errors
from ren.schemes import ckks

pytestmark = pytest.mark.once  # what a hint says does not depend on how programs run

PACKINGS = {"F": "flat", "R": "rows", "C": "columns"}
Names = dict[str, Any]
SHORT = {
    "{by}": "ckks.stack([ct.dot(v, axis=0) for v in",
    "{joined}": "ckks.concat(ckks.unstack(ct))",
    "{columns}": "np.eye(r * c)[np.arange(r * c).reshape(c, r).T.ravel()]",
    "{table}": "np.arange(r * c).reshape(r, c)",
    "{and_or}": "[ct[i].within(0, 1) for i in range(len(ct))]",
    "{shift}": "np.fft.fftshift",
}

# `code that raises | packings | code in the error`, and names in it where they are others.
FOLLOWED = """
jnp.sum(ct) | FC | ct.sum()
jnp.sum(ct) | R | {joined}.sum()
jnp.sum(ct, 0) | FRC | ct.sum(axis) | axis=0
jnp.sum(ct, 1) | FRC | ct.sum(axis) | axis=1
jnp.mean(ct) | FC | ct.mean()
jnp.mean(ct) | R | {joined}.mean()
jnp.mean(ct, 0) | FRC | ct.mean(axis) | axis=0
jnp.var(ct) | FC | ct.var()
jnp.var(ct) | R | {joined}.var()
jnp.var(ct, 1) | FRC | ct.var(axis) | axis=1
jnp.add.reduce(ct) | FRC | ct.sum(axis=0)
np.add.accumulate(ct) | FC | np.tril(np.ones((r, r))) @ ct
np.add.accumulate(ct) | R | {by} np.tril(np.ones((r, r)))])
np.average(ct, 0, weights=v) | FRC | ct.dot(weights, axis) / weights.sum() | axis=0, weights=v
np.average(ct, 1, weights=w) | FRC | ct.dot(weights, axis) / weights.sum() | axis=1, weights=w
np.average(ct, weights=m) | FC | (ct * weights).sum() / weights.sum() | weights=m
np.average(ct, weights=m) | R | (ct * weights).sum(axis=0).sum() / weights.sum() | weights=m
jnp.any(g) | F | ct.reshape(-1).within(0, 1).any() | ct=g
jnp.any(g) | RC | {joined}.within(0, 1).any() | ct=g
jnp.all(g) | F | ct.reshape(-1).within(0, 1).all() | ct=g
jnp.all(g) | RC | {joined}.within(0, 1).all() | ct=g
np.logical_and.reduce(g) | FRC | functools.reduce(operator.and_, {and_or}) | ct=g
np.logical_or.reduce(g) | R | functools.reduce(operator.or_, {and_or}) | ct=g
jnp.cumsum(ct, 0) | FC | np.tril(np.ones((r, r))) @ ct
jnp.cumsum(ct, 0) | R | {by} np.tril(np.ones((r, r)))])
jnp.cumsum(ct, 1) | FRC | ct @ np.triu(np.ones((c, c)))
jnp.cumsum(ct) | F | (ct.reshape(-1)).cumsum()
jnp.cumsum(ct) | R | ({joined}).cumsum()
jnp.cumsum(ct) | C | ({columns} @ {joined}).cumsum()
np.tensordot(ct, M, 1) | FRC | ct @ M
np.tensordot(L, ct, 1) | FC | M @ ct | M=L
np.tensordot(L, ct, 1) | R | {by} M]) | M=L
jnp.matmul(ct, M) | FRC | ct @ M
np.einsum("ij,jk", ct, M) | FRC | ct @ M
np.einsum("ij,ij->i", ct, m) | FRC | (x * y).sum(axis) | y=m, axis=1
np.inner(ct, m) | FRC | ct @ M.T | M=m
np.vecdot(ct, m) | FRC | (x.conj() * y).sum(axis=-1) | y=m
np.vdot(ct, m) | FC | (x.conj() * y).sum() | y=m
np.vdot(ct, m) | R | (x.conj() * y).sum(axis=0).sum() | y=m
np.linalg.norm(ct) ** 2 | FC | (ct * ct).sum()
np.linalg.norm(ct) ** 2 | R | (ct * ct).sum(axis=0).sum()
np.outer(ct, w) | F | x.reshape(-1, 1) * y.reshape(1, -1) | y=w
np.outer(ct, w) | R | ckks.concat(ckks.unstack(x)).reshape(-1, 1) * y.reshape(1, -1) | y=w
np.add.outer(ct, w) | F | x.reshape(r, c, 1) + y | y=w
np.add.outer(ct, w) | R | x.reshape(r, c, 1) + y | y=w
np.multiply.outer(ct, v) | F | x.reshape(r, c, 1) * y | y=v
np.multiply.outer(ct, v) | R | x.reshape(r, c, 1) * y | y=v
np.concatenate([x, y]) | F | ckks.concat([x, y])
np.concatenate([x, y]) | R | ckks.stack([*ckks.unstack(x), *ckks.unstack(y)])
np.concatenate([x, y]) | C | np.eye(2 * r, r) @ x + np.eye(2 * r, r, -r) @ y
np.concatenate([x, y], axis=1) | F | x @ np.eye(c, 2 * c) + y @ np.eye(c, 2 * c, c)
np.concatenate([x, y], axis=1) | R | ckks.concat([x, y])
np.vstack([x, y]) | F | ckks.concat([x, y])
np.vstack([x, y]) | R | ckks.stack([*ckks.unstack(x), *ckks.unstack(y)])
np.vstack([x, y]) | C | np.eye(2 * r, r) @ x + np.eye(2 * r, r, -r) @ y
np.hstack([x, y]) | F | x @ np.eye(c, 2 * c) + y @ np.eye(c, 2 * c, c)
np.hstack([x, y]) | R | ckks.concat([x, y])
np.column_stack([x, y]) | F | x @ np.eye(c, 2 * c) + y @ np.eye(c, 2 * c, c)
np.column_stack([x, y]) | R | ckks.concat([x, y])
np.append(x, y) | F | ckks.concat([x.reshape(-1), y.reshape(-1)])
np.append(x, y) | R | ckks.concat([*ckks.unstack(x), *ckks.unstack(y)])
np.stack([x, y]) | FRC | ckks.stack([x, y])
np.dstack([x, y]) | F | x.reshape(r, c, 1) * [1, 0] + y.reshape(r, c, 1) * [0, 1]
np.dstack([x, y]) | R | x.reshape(r, c, 1) * [1, 0] + y.reshape(r, c, 1) * [0, 1]
np.insert(ct, 1, 0, axis=0) | FC | np.insert(np.eye(r), i, 0, axis=0) @ ct
np.insert(ct, 1, 0, axis=1) | FR | ct @ np.insert(np.eye(c), i, 0, axis=1)
np.delete(ct, 1, axis=0) | FC | np.delete(np.eye(r), i, axis=0) @ ct
np.delete(ct, 1, axis=0) | R | {by} np.delete(np.eye(r), i, axis=0)])
np.delete(ct, 1, axis=1) | FRC | ct @ np.delete(np.eye(c), i, axis=1)
np.pad(ct, 2) | F | np.eye(r + 2 * k, r, -k) @ (ct @ np.eye(c, c + 2 * k, k))
jnp.roll(ct, 2, 0) | FC | np.roll(np.eye(r), k, axis=0) @ ct
jnp.roll(ct, 2, 1) | FRC | ct @ np.roll(np.eye(c), k, axis=1)
jnp.tile(ct, 2) | FRC | ct @ np.tile(np.eye(c), k)
np.split(ct, [2]) | FRC | ct[:k], ct[k:]
np.vsplit(ct, [2]) | FRC | ct[:k], ct[k:]
np.hsplit(ct, [2]) | F | ct @ np.eye(c)[:, :k], ct @ np.eye(c)[:, k:]
np.hsplit(ct, [2]) | RC | ct[:, :k], ct[:, k:]
np.unstack(ct) | FC | [ct[i] for i in range(len(ct))]
np.unstack(ct) | R | ckks.unstack(ct)
np.squeeze(ct) | FRC | ct
ct.ravel() | F | ct.reshape(-1)
ct.ravel() | R | {joined}
ct.flatten() | F | ct.reshape(-1)
ct.flatten() | R | {joined}
ct.flatten() | C | {columns} @ {joined}
np.expand_dims(ct, 0) | FRC | ckks.stack([ct])
np.expand_dims(ct, 1) | F | ct.reshape(r, 1, c)
np.expand_dims(ct, 1) | R | ct.reshape(r, 1, c)
np.expand_dims(ct, 2) | F | ct.reshape(r, c, 1)
np.expand_dims(ct, 2) | R | ct.reshape(r, c, 1)
np.atleast_2d(ct) | FRC | ct
np.atleast_3d(ct) | F | ct.reshape(r, c, 1)
np.atleast_3d(ct) | R | ct.reshape(r, c, 1)
ct.T | F | (np.eye(r * c)[{table}.T.ravel()] @ ct.reshape(-1)).reshape(c, r)
ct.T | R | (np.eye(r * c)[{table}.T.ravel()] @ {joined}).reshape(c, r)
ct.T | C | ckks.stack(ckks.unstack(ct))
np.transpose(ct) | F | (np.eye(r * c)[{table}.T.ravel()] @ ct.reshape(-1)).reshape(c, r)
np.swapaxes(ct, 0, 1) | C | ckks.stack(ckks.unstack(ct))
np.rot90(ct) | F | (np.eye(r * c)[np.rot90({table}).ravel()] @ ct.reshape(-1)).reshape(c, r)
np.rot90(ct) | C | ckks.stack(ckks.unstack(ct)[::-1])
np.flip(ct, 0) | FC | np.eye(r)[::-1] @ ct
np.flip(ct, 0) | R | ct[::-1]
np.flip(ct, 1) | FRC | ct @ np.eye(c)[::-1]
np.flip(ct) | FC | np.eye(r)[::-1] @ ct @ np.eye(c)[::-1]
np.flip(ct) | R | ct[::-1] @ np.eye(c)[::-1]
np.take(ct, order, 0) | FC | np.eye(r)[order] @ ct
np.take(ct, order, 0) | R | ckks.stack([ct[i] for i in order])
np.take(ct, order, 1) | FRC | ct @ np.eye(c)[:, order]
np.take(ct, order) | F | np.eye(r * c)[order] @ ct.reshape(-1)
np.take(ct, order) | R | np.eye(r * c)[order] @ {joined}
np.take(ct, order) | C | np.eye(r * c)[order] @ {columns} @ {joined}
np.repeat(ct, 2, 1) | FRC | ct @ np.eye(c)[:, order] | order=np.repeat(np.arange(c), 2)
np.diag(ct) | FRC | (ct * np.eye(r, c)).sum(axis=0)[: min(r, c)]
np.diagonal(ct) | FRC | (ct * np.eye(r, c)).sum(axis=0)[: min(r, c)]
np.trace(ct) | FC | (ct * np.eye(r, c)).sum()
np.trace(ct) | R | (ct * np.eye(r, c)).sum(axis=0).sum()
np.tril(ct) | FRC | ct * np.tril(np.ones(ct.shape))
np.triu(ct) | FRC | ct * np.triu(np.ones(ct.shape))
np.diff(ct) | FRC | ct @ np.diff(np.eye(c), axis=0).T
np.diff(ct, axis=0) | FRC | ct[1:] - ct[:-1]
np.gradient(ct, axis=0) | FC | np.gradient(np.eye(r), axis=0) @ ct
np.gradient(ct, axis=0) | R | {by} np.gradient(np.eye(r), axis=0)])
np.gradient(ct, axis=1) | FRC | ct @ np.gradient(np.eye(c), axis=1)
np.fft.fft(ct) | FRC | ct @ np.fft.fft(np.eye(c))
np.fft.rfft(ct) | FRC | ct @ np.fft.rfft(np.eye(c))
np.fft.fft2(ct) | FC | np.fft.fft(np.eye(r)) @ (ct @ np.fft.fft(np.eye(c)))
{shift}(ct) | FC | {shift}(np.eye(r), axes=0) @ (ct @ {shift}(np.eye(c), axes=1))
np.polyfit(np.arange(r), ct, 1) | FC | np.linalg.pinv(np.vander(w, 2)) @ ct | w=np.arange(r)
np.cov(ct, rowvar=False) | C | ckks.stats.cov(ct)
np.trapezoid(ct) | FRC | ct.dot(weights) | weights=np.trapezoid(np.eye(c))
"""

# What no line gives: words of the error.
TOLD = """
np.append(x, y) | C | pack='flat'
np.hstack([x, y]) | C | pack='rows'
np.outer(x, w) | C | pack='flat'
np.add.outer(x, w) | C | pack='flat'
np.dstack([x, y]) | C | pack='flat'
np.expand_dims(x, 1) | C | pack='flat'
np.cov(x) | FR | pack='columns'
np.linalg.inv(x) | FRC | decrypt() first
np.sort(x) | FRC | decrypt() first
"""


def rows(table: str) -> list[list[str]]:
    for name, code in SHORT.items():
        table = table.replace(name, code)
    return [line.split(" | ") for line in table.strip("\n").splitlines()]


@pytest.fixture(scope="module")
def tables() -> list[tuple[str, Names, Names]]:
    """The letter of each packing and shape, the names of ciphertexts, and those of arrays."""
    ctx, rng, made = ckks.testing.context(b"tables", depth=7), np.random.default_rng(1), []
    for r, c in ((3, 3), (6, 4)):
        x, y, m = rng.uniform(0.25, 1, (3, r, c))
        g = m > 0.5
        clear = {
            "np": np, "jnp": jnp, "jax": jax, "ckks": ckks, "functools": functools,
            "operator": operator, "r": r, "c": c, "k": 2, "i": 1, "order": [1, 0, 2, 1],
            "x": x, "ct": x, "y": y, "m": m, "g": g, "v": rng.uniform(0.25, 1, r),
            "w": rng.uniform(0.25, 1, c), "L": rng.uniform(0, 1, (5, r)),
            "M": rng.uniform(0, 1, (c, 5)),
        }  # fmt: skip
        for letter, pack in PACKINGS.items():
            of = {name: ctx.encrypt(clear[name], pack=pack).realize() for name in "xyg"}
            made.append((letter, {**clear, **of, "ct": of["x"]}, clear))
    return made


def of_packings(tables: list, letters: str) -> list[tuple[Names, Names]]:
    return [(names, clear) for letter, names, clear in tables if letter in letters]


def words_of(code: str, names: Names) -> str:
    with pytest.raises(errors.RenError) as caught:
        eval(code, names)
    return str(caught.value)


def assert_same(got: Any, want: Any) -> None:
    if isinstance(got, tuple | list):
        assert len(got) == len(want)
        for a, b in zip(got, want, strict=True):
            assert_same(a, b)
        return
    got = got.decrypt()
    assert np.shape(got) == np.shape(want)
    np.testing.assert_allclose(got, want, atol=1e-4)


@pytest.mark.long
@pytest.mark.parametrize("row", rows(FOLLOWED), ids=lambda row: f"{row[0]}-{row[1]}")
def test_what_errors_of_tables_tell_to_write_is_what_numpy_gives(
    row: list[str], tables: list
) -> None:
    code, letters, line, *others = row
    for names, clear in of_packings(tables, letters):
        assert line in words_of(code, names)
        local = eval(f"dict({others[0]})", names) if others else {}
        assert_same(eval(line, {**names, **local}), eval(code, clear))


@pytest.mark.parametrize("row", rows(TOLD), ids=lambda row: f"{row[0]}-{row[1]}")
def test_where_no_line_does_an_error_says_what_helps(row: list[str], tables: list) -> None:
    code, letters, words = row
    for names, _ in of_packings(tables, letters):
        assert words in words_of(code, names)
