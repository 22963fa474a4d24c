"""Idioms of Python, NumPy and JAX on ciphertexts: each computes as NumPy does, or teaches.

`x` and `y` are vectors of 4 real numbers, `z` of complex ones, `m` a matrix, `t` a table by its
columns, `b` a batch of two vectors, `u` and `v` arrays of three axes, packed flat and by rows,
`p` a plaintext of the numbers of `x`, `A` an encoded matrix, `f` is a polynomial, and `g` and
`h` are truth. In the clear they are arrays. `w` and `M` are arrays in both. `F` is a column of a
table of pandas, as far as Ren and its operators ask for it. `S` is a sparse matrix.

Left out is what Python, JAX or pandas decide by themselves, without a question to the object:
`json.dumps(x)`, `",".join([x])`, `b"".join([x])`, `open(x)`, `re.match("a", x)`,
`eval(x)`, `{**x}`, `{x: 1}[y]`, `raise x`, `isinstance(1, x)`, `x.shape()`, `pow(2, x, 5)`,
`Decimal(x)`, `Fraction(x)`, `struct.pack("d", x)`, `random.sample(x, 2)`, `timedelta(x)`,
`pd.concat([x])`, `series.fillna(x)`, `jnp.asarray(w)[x]`, and a carry of
`jax.lax.scan` outside `ren.jit` whose level falls. `w[0] = x` names its cause, see below.
Ciphertexts are neither functions nor iterators, as arrays are neither: libraries ask. So `x(1)` and
`next(x)` stay Python's.
"""

from __future__ import annotations

import ast
import copy
import dataclasses
import datetime
import functools
import hashlib
import io
import itertools
import math
import operator
import pickle
import statistics
import sys
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
from numpy.polynomial import Chebyshev, Polynomial

import ren
from ren import Poly, RingSpec, errors
from ren.schemes import ckks
from tests.mistakes import Mistake

# One idiom a line: with the arrays in place of the ciphertexts NumPy gives the numbers.
SAME = """
x + y
x - y
x * y
-x
+x
x + 1
1 + x
1 - x
x * 2
2 * x
x * 0.5
0.5 * x
x / 2
x / 0.5
x + w
w + x
w - x
x * w
w * x
x / w
x + [1.0, 2.0, 3.0, 4.0]
[1.0, 2.0, 3.0, 4.0] + x
(1.0, 2.0, 3.0, 4.0) * x
x / [1, 2, 3, 4]
x * True
x + np.float32(2)
np.float32(2) * x
np.float64(2) - x
np.int64(3) * x
x * np.int8(3)
x + np.bool_(True)
x + jnp.float32(2)
jnp.float32(2) * x
jnp.arange(4.0) + x
x * jnp.arange(4.0)
x / jnp.float32(2.0)
x + 1j
x * 1j
z * (1 + 2j)
x + z
x ** 0
x ** 1
x ** 2
x ** 3
x ** 2.0
x ** np.int64(2)
x ** np.float64(3)
x ** np.array(2)
x ** jnp.int32(2)
x ** True
pow(x, 2)
x @ y
x @ w
w @ x
M @ x
x @ M
[[1.0, 2, 3, 4], [0, 1, 0, 1]] @ x
x @ [1.0, 2, 3, 4]
m @ m
m @ M[:2, :2]
M[:2, :2] @ m
A @ x
A.shape
len(x)
sum([x, y])
sum((x, y), 0.0)
sum(x * k for k in range(1, 4))
sum((x * k for k in range(5, 0, -2) if k != 3), 0.0)
math.prod([x, y])
x.mean()
x.sum()
x.sum(axis=-1)
x.sum(0)
x.sum(keepdims=True)
x.sum(where=w > 0)
m.sum(axis=0, where=[[True, False], [True, True]])
np.sum(x, where=[True, False, True, True])
b.sum(axis=-1, where=w > 0)
np.sum(t, axis=0, where=[[True], [False]])
g.any()
h.all()
np.any(g, where=[False, True, False, True])
np.all(g, where=[True, False, True, False])
x.mean(axis=0)
x.cumsum()
x.dot(y)
x.dot(w)
x.shape
x.ndim
x.size
x.dtype == np.float64
z.dtype == np.complex128
b.shape
m.ndim
b.size
x.real
z.real
z.imag
z.conj()
x.reshape(2, 2)
x.reshape((2, -1))
m.reshape(-1)
x[1:3]
x[:2]
x[2:]
x[-2:]
x[:-1]
x[-100:100]
m[0:1]
b[..., :2]
b[:, 1:3]
x[...]
x[()]
m[...]
t[()]
t[...]
b[...]
np.sum(x)
np.add.reduce(x)
np.add.reduce(m, axis=1)
np.add.reduce(m)
np.sum(x, axis=0)
np.sum(x, keepdims=True)
np.sum(m)
np.sum(b, axis=-1)
np.sum(m, axis=0)
np.mean(m, axis=1)
np.sum(t)
np.sum(t, axis=0)
np.mean(t, axis=-1)
t.sum(axis=0).sum(axis=-1)
t.mean(axis=0).mean(-1)
t.sum().sum()
t.shape
t[0]
t[:, 1]
b[0]
m[0]
np.sum(x * y)
np.mean(x)
np.mean(x * x) - np.mean(x) ** 2
np.average(x)
np.cumsum(x)
np.dot(x, y)
np.dot(x, w)
np.dot(w, x)
np.dot(M, x)
np.dot(x, M)
np.dot(x, 2.0)
np.matmul(x, y)
np.matmul(M, x)
np.matvec(M, x)
np.add(x, y)
np.add(w, x)
np.subtract(x, y)
np.multiply(x, w)
np.divide(x, 2)
np.true_divide(x, w)
np.negative(x)
np.positive(x)
np.square(x)
np.power(x, 2)
np.float_power(x, 2)
np.real(z)
np.imag(z)
np.conj(z)
np.tile(x, 2)
np.roll(x, 1)
np.roll(b, 1, axis=-1)
np.reshape(x, (2, 2))
np.ravel(m)
np.shape(x)
np.ndim(x)
np.size(b)
np.iscomplexobj(z)
np.isrealobj(x)
np.copy(x)
np.where([True, False, True, True], x, y)
np.where(g, [1.0, 2.0, 3.0, 4.0], 0)
np.where(g, [1, 2, 3, 4], [5, 6, 7, 8])
np.where(g, x, [5, 6, 7, 8])
g & h
g | h
g ^ h
~g
g & [True, True, False, False]
True ^ g
np.logical_and(g, h)
np.logical_not(h)
np.bitwise_or(g, h)
np.polynomial.polynomial.polyval(x, [1.0, 2.0, 3.0])
jnp.asarray(w) @ x
x @ jnp.asarray(M)
jnp.asarray(M) @ x
jax.jit(lambda v: v * v)(x)
jax.jit(lambda v: v + w)(x)
jax.vmap(lambda v: v * v)(b)
jax.vmap(lambda v, k: v + k, in_axes=(0, None))(b, 2.0)
jax.jit(lambda v, k: v * k)(x, 2.5)
jax.jit(lambda v, k: k - v)(x, 2.5)
jax.jit(lambda v, k: v / k)(x, 4.0)
jax.jit(lambda v, k: v * k)(x, 3)
jax.jit(lambda v, k: v + k)(x, w)
jax.vmap(lambda v, k: v * k)(b, jnp.array([2.0, 3.0]))
jax.lax.scan(lambda c, v: (c + v, None), x, jnp.arange(5.0))[0]
jax.lax.fori_loop(0, 3, lambda i, c: c + i, x)
jax.lax.fori_loop(0, 3, lambda i, c: c + c, x)
jax.lax.scan(lambda c, v: (c + v, None), x, b)[0]
jax.lax.cond(True, lambda v: v, lambda v: -v, x)
jax.lax.map(lambda v: v * 2, b)
jax.lax.associative_scan(lambda a, c: a + c, b)
jax.device_put(x)
jax.device_get(x)
jax.block_until_ready(x)
jax.tree.map(lambda v: v, x)
copy.copy(x)
copy.deepcopy(x)
pickle.loads(pickle.dumps(x))
functools.reduce(operator.add, [x, y])
operator.neg(x)
list(itertools.accumulate([x, y]))[-1]
p + x
p * x
p - x
x - p
p @ x
np.add(p, x)
np.multiply(x, p)
x += 1
x -= w
x *= 2
x /= 2
x **= 2
x @= M
w += x
w *= x
np.sum(x, dtype=None, out=None)
np.mean(x, None, None, None, True)
x + F
F + x
x - F
F - x
x * F
F * x
x / F
x @ F
x.dot(F)
np.vecmat(x, M)
np.nansum(x)
np.nanmean(b, axis=-1)
np.nan_to_num(x)
np.clip(x, -np.inf, np.inf)
np.clip(x, np.full(4, -np.inf), None)
np.var(x, ddof=1)
np.pow(x, 2)
np.hanning(4) * x
np.polynomial.chebyshev.chebval(x, [1, 2])
np.subtract(np.ones(4), x)
np.dot([1, 2, 3, 4], x)
jax.checkpoint(lambda v: v * v)(x)
jax.lax.stop_gradient(x)
jax.lax.switch(0, [lambda v: v, lambda v: -v], x)
jax.lax.map(lambda v: v * v, b)
jax.tree.map(lambda v: v * 2, {"k": x})["k"]
jax.named_call(lambda v: v + v)(x)
math.sumprod([x, y], [2.0, 1.0])
functools.partial(operator.mul, x)(2)
functools.reduce(operator.mul, [x, y])
operator.getitem(x, slice(0, 2))
operator.matmul(M, x)
operator.iadd(x, y)
operator.imatmul(x, M)
operator.methodcaller("sum")(x)
operator.length_hint(x)
list(map(operator.neg, [x, y]))[1]
max([x, x + 1], key=id).shape
[x, y].index(x)
sorted([x, x], key=id)[0]
(lambda a, *b: a)(*[x, y])
getattr(x, "absent", 1)
pickle.loads(pickle.dumps([x, x]))[1]
x[slice(0, 2)]
x[0:4:1]
np.nanvar(x)
np.nanvar(b, axis=-1, ddof=1)
np.nancumsum(x)
np.nan_to_num(x, nan=1.0)
jax.lax.associative_scan(operator.add, b)
"""

# What errors tell to write, and what NumPy gives: `idiom | in the clear`.
INSTEAD = """
x * Fraction(1, 2) | x * 0.5
x.within(-1, 2) | x
ren.jit(lambda v, k: v + np.divide(1, k))(x, w) | x + 1 / w
ren.jit(lambda v, k: v * (k / 2) - (7 // k) + k % 2)(x, 3) | x * 1.5 - 1
ren.jit(lambda v, k: v * (1 / k))(x, 4.0) | x * (1 / 4.0)
ren.jit(lambda v, k: v * k)(x, F.to_numpy()) | x * w
ren.jit(lambda v, k: ckks.poly(v, k), static_argnames="k")(x, (1.0, 2.0)) | 1 + 2 * x
x.sum(where=g) | x.sum(where=[True, False, True, False])
h.any(where=g) | True
h.all(where=~g) | False
ctx.encrypt([1.0, float("nan")], nan=0) | np.array([1.0, 0.0])
(x.within(-1, 2) * 3)[1:] | (x * 3)[1:]
x ** Fraction(2) | x ** 2
ckks.poly(x, np.poly1d([3, 0, 1, 2])) | np.poly1d([3, 0, 1, 2])(x)
ckks.poly(x, Polynomial([1, 2, 3], [0, 4], [-1, 2])) | Polynomial([1, 2, 3], [0, 4], [-1, 2])(x)
ckks.poly(x, Chebyshev([1, 2, 3])) | Chebyshev([1, 2, 3])(x)
ckks.concat([x, y]) | np.concatenate([x, y])
ckks.concat([x[:1], y, x[1:]]) | np.insert(x, 1, y)
ckks.concat([x[:1], x[2:]]) | np.delete(x, 1)
ckks.stack([x, y]) | np.stack([x, y])
ckks.unstack(b)[1] | b[1]
ckks.pad(x, 6) | np.pad(x, (0, 2))
ckks.where([1, 0, 1, 1], x, y) | np.where([True, False, True, True], x, y)
x.mask([1, 0, 1, 1]) + [0, 5, 0, 0] | np.where([True, False, True, True], x, 5)
((x - x.mean()) ** 2).mean() | np.var(x)
x.dot(w) / w.sum() | np.average(x, weights=w)
x.conj().dot(w) | np.vdot(x, w)
x.reshape(-1, 1) * y.reshape(1, -1) | np.outer(x, y)
np.fft.fft(np.eye(4)) @ x | np.fft.fft(x)
np.eye(4)[[2, 0]] @ x | x[[2, 0]]
np.eye(4)[::-1] @ x | np.flip(x)
np.eye(4)[::2] @ x | x[::2]
(np.eye(4)[np.arange(4).reshape(2, 2).T.ravel()] @ m.reshape(-1)).reshape(2, 2) | m.T
m.reshape(-1).dot(np.eye(2).ravel()) | np.trace(m)
x[1:] - x[:-1] | np.diff(x)
np.eye(len(t))[::-1] @ t | t[::-1]
m @ np.eye(2)[1] | m[:, 1]
b @ np.eye(4)[1] | b[:, 1]
m[0:1] @ np.eye(2)[:, 1:2] | m[0:1, 1:2]
b[0:1] @ np.eye(4)[:, 1:3] | b[0:1, 1:3]
b @ np.eye(4)[:, ::2] | b[:, ::2]
u[0][1] | u[0, 1]
v[0][1] | v[0, 1]
ckks.stack([u[i][1] for i in range(len(u))]) | u[:, 1]
ckks.stack([v[i][1] for i in range(len(v))]) | v[:, 1]
v[0][1][-1:] | v[0, 1][-1:]
m.reshape(1, *m.shape) | m[None]
ckks.stack([b]) | b[None]
ckks.stack([m[i] for i in [1, 0]]) | m[[1, 0]]
z.real.var() + z.imag.var() | np.var(z)
np.diff(np.eye(4), n=2, axis=0) @ x | np.diff(x, n=2)
np.diff(np.eye(4), axis=0, prepend=0) @ x + np.diff(np.zeros(4), prepend=3) | np.diff(x, prepend=3)
np.sum(x) + 5 | np.sum(x, initial=5)
np.sum(x, where=w > 0) / np.sum(w > 0) | np.mean(x, where=w > 0)
x.var(ddof=1) | np.var(x, ddof=1)
z.conj().dot(z) | np.vecdot(z, z)
ckks.conv1d(x, [3.0, 2.0, 1.0][::-1]) | np.convolve(x, [3.0, 2.0, 1.0], "valid")
ckks.conv1d(x, [3.0, 2.0, 1.0][::-1], padding=1) | np.convolve(x, [3.0, 2.0, 1.0], "same")
ckks.conv1d(x, [3.0, 2.0], padding=1) | np.correlate(x, [3.0, 2.0], "full")
ckks.where(w > 0, x + y, 3) | np.add(x, y, where=w > 0, out=np.full(4, 3.0))
(np.eye(4)[np.arange(4).reshape(2, 2).T.ravel()] @ m.reshape(-1)) | np.ravel(m, "F")
ckks.conv1d(x, [3.0, 2.0, 1.0][::-1], padding=2) | np.convolve(x, [3.0, 2.0, 1.0])
ckks.conv1d(x, [3.0, 2.0]) | np.correlate(x, [3.0, 2.0])
ckks.poly(x, [3.0, 2.0, 1.0]) | np.polyval([1.0, 2.0, 3.0], x)
x + np.zeros((2, 4)) | np.broadcast_to(x, (2, 4))
x.reshape(1, -1) | np.expand_dims(x, 0)
x * 2.0**-3 | np.ldexp(x, -3)
x.rotate(1).mask([1, 1, 1, 0]) | np.append(x[1:], 0)
x.dot([0.5, 1.0, 1.0, 0.5]) | np.trapezoid(x)
x.mask(np.tril(np.ones((2, 2))).ravel()).reshape(2, 2) | np.tril(m)
(x * np.ones(4))[1:] - x[:-1] | np.ediff1d(x)
np.fft.ifft(np.eye(4)) @ x | np.fft.ifft(x)
x.reshape(-1, 1) * np.eye(4) | np.diag(x)
np.gradient(np.eye(4), axis=0) @ x | np.gradient(x)
x.reshape(-1, 1) * [1, 0] + y.reshape(-1, 1) * [0, 1] | np.column_stack([x, y])
(x.reshape(-1, 1) * [1, 0] + y.reshape(-1, 1) * [0, 1]).reshape(1, -1, 2) | np.dstack([x, y])
x == None | False
x != "a" | True
None in [x] | False
np.fft.rfft(np.eye(4), axis=0) @ x | np.fft.rfft(x)
np.kron(np.fft.fft(np.eye(2)), np.fft.fft(np.eye(2))) @ m.reshape(-1) | np.fft.fft2(m).ravel()
m.mask(np.triu(np.ones(m.shape)).ravel()) | np.triu(m)
m.mask(np.tril(np.ones(m.shape)).ravel()) | np.tril(m)
ckks.stack([x, x**2, x**3]) | np.vander(x, 4, increasing=True).T[1:]
x.reshape(-1, 1) + y.reshape(1, -1) | np.add.outer(x, y)
x.reshape(-1, 1) - w.reshape(1, -1) | np.subtract.outer(x, w)
x + [5, 0, 0, 0] | x + np.eye(4)[0] * 5
(x[:2] * x[2:])[:1] * (x[:2] * x[2:])[1:] | np.prod(x, keepdims=True)
ckks.stack([x[i : i + 2] for i in range(x.size - 1)]) | np.stack([x[:2], x[1:3], x[2:]])
(np.arange(2)[:, None] == np.array([0, 0, 1, 1])) @ x | [2.0, 0.5]
x.roll(4 // 2) | np.fft.fftshift(x)
M @ (M @ x) | np.linalg.multi_dot([M, M, x])
M @ x | np.linalg.matmul(M, x)
ckks.unstack(b)[1] * 1 | b[1]
m[:1] | np.vsplit(m, 2)[0]
x.size | np.size(x)
x * (180 / np.pi) | np.degrees(x)
jax.device_put(x, jax.devices()[0]) | x
ctx.encrypt(np.zeros(4)) | np.zeros(4)
x * 3 | np.dot(x, 3)
x @ M | x.dot(M)
x * s | np.dot(x, s)
s + np.zeros(1) | s.reshape(1)
np.linalg.pinv(np.vander(np.arange(4.0), 2)) @ x | np.polyfit(np.arange(4.0), x, 1)
t[:, ["a", "b", "c"].index("b")] | t[:, 1]
"""

# Errors, with words of the remedy, in the form of tests.mistakes: the name is the code.
REFUSED = """
x > y | DepthError | greater with a gap; ckks.context(depth=
x >= 0 | DepthError | greater_equal with a gap; ckks.context(depth=
x < w | DepthError | less with a gap; ckks.context(depth=
w > x | DepthError | greater with a gap; ckks.context(depth=
x == y | DepthError | equal with a gap; ckks.context(depth=
x != 0 | DepthError | not_equal with a gap; ckks.context(depth=
jnp.asarray(w) == x | DepthError | equal with a gap; ckks.context(depth=
y in [x] | DepthError | equal with a gap; ckks.context(depth=; No depth helps
x in [1, 2] | DepthError | equal with a gap; ckks.context(depth=
1.0 in x | OperandError | the whole ct
not x | TracedValueError | x & y for `x and y`; ~x for `not x`; ckks.where
x and y | TracedValueError | x & y for `x and y`; ~x for `not x`; ckks.where
1 if x else 2 | TracedValueError | x & y for `x and y`; ~x for `not x`; ckks.where
max(x, y) | DepthError | greater with a gap; ckks.context(depth=; write ckks.math.max(x, y)
max([x, y]) | DepthError | greater with a gap; ckks.context(depth=
sorted([x, y]) | DepthError | less with a gap; ckks.context(depth=
any([x, y]) | TracedValueError | x & y for `x and y`; ~x for `not x`; ckks.where
x ** -1 | OperandError | x.within(low, high); intervals; ckks.math.pow(ct, -1, interval=(a, b))
x ** -2 | OperandError | x.within(low, high); ckks.intervals; above zero
x ** 0.5 | OperandError | takes the power 0.5; x.within(low, high); ckks.math.pow(ct, 0.5, interval=
np.power(x, -1) | OperandError | takes the power -1; ckks.math.pow(ct, -1, interval=(a, b))
x ** Fraction(1, 2) | OperandError | x.within(low, high)
x ** float("nan") | OperandError | with nan as an exponent; finite
x ** float("inf") | OperandError | with inf as an exponent; finite
x ** y | OperandError | takes an encrypted power; x.within(low, high) ** y.within(low, high)
x ** w | OperandError | takes a power with a; a real number
x ** "2" | OperandError | takes a power with a; a real number
2 ** x | DepthError | pow by a polynomial; ckks.context(depth=
w ** x | OperandError | takes a power with a; a real number
pow(x, 2, 5) | OperandError | ckks.math.round
x // 2 | DepthError | round; ckks.context(depth=
x % 2 | DepthError | round; ckks.context(depth=
divmod(2, x) | OperandError | ckks.math.round
x / y | OperandError | divides by; x.within(low, high); ckks.math.inverse(ct
1 / x | OperandError | divides by; x.within(low, high); ckks.math.inverse(ct
w / x | OperandError | divides by; x.within(low, high); ckks.math.inverse(ct
x / 0 | ParameterError | Leave the zeros out
x & y | OperandError | x * y for x & y
x & 1 | OperandError | x * y for x & y
1 & x | OperandError | x * y for x & y
x | y | OperandError | x + y - x * y
x ^ y | OperandError | x + y - x * y
~x | OperandError | 1 - x for ~x
x << 1 | OperandError | x * 2**k; x.rotate(k)
x >> 1 | OperandError | x * 2.0**-k
x + None | OperandError | without a return statement
x + "1" | OperandError | Pass one of these
x + datetime.date(2020, 1, 1) | OperandError | A sum got a ciphertext and a date; in place of
datetime.date(2020, 1, 1) - x | OperandError | a ciphertext and a date; numbers in place of dates
x * datetime.timedelta(1) | OperandError | A product got; a timedelta; numbers in place of dates
x > datetime.date(2020, 1, 1) | OperandError | A comparison got a ciphertext and a date
x + np.datetime64("2020") | OperandError | a ciphertext and a datetime64; numbers in place of dates
x + NAType() | OperandError | a ciphertext and an NAType; missing values
NAType() * x | OperandError | a ciphertext and an NAType; missing values
x + ... | OperandError | a ciphertext and an ellipsis
x + [1, None, 2, 3] | ParameterError | numpy.nan_to_num(np.array(values, float))
S @ x | TracedValueError | matrix.toarray() @ ct
x * S | OperandError | A product got; matrix.toarray()
S + x | OperandError | A sum got; matrix.toarray()
x / S | OperandError | A quotient got; matrix.toarray()
x > S | OperandError | A comparison got; matrix.toarray()
ctx.encrypt(S) | ParameterError | values.toarray()
ckks.linear("a", ctx) | OperandError | A str was given as a matrix; ckks.linear(matrix, ctx)
ckks.linear(ctx, M) | OperandError | A Context was given as a matrix; ckks.linear(matrix, ctx)
x @ 2 | OperandError | x * number
x @ A | OperandError | ckks.linear(2 * matrix.T, ctx)
A * 2 | OperandError | ckks.linear(2 * matrix.T, ctx)
A + A | OperandError | ckks.linear(2 * matrix.T, ctx)
A * x | OperandError | ckks.linear(2 * matrix.T, ctx)
-A | OperandError | ckks.linear(2 * matrix.T, ctx)
w @ A | OperandError | ckks.linear(2 * matrix.T, ctx)
A.T | UnknownAttributeError | ckks.linear(matrix.T, ctx)
A.dot(x) | UnknownAttributeError | map @ ct
A @ [1.0, 2.0, 3.0, 4.0] | OperandError | ctx.encrypt(values); use NumPy
A @ A | OperandError | ctx.encrypt(values)
bool(x) | TracedValueError | x & y for `x and y`; ~x for `not x`; ckks.where
float(x) | TracedValueError | decrypt()
int(x) | TracedValueError | decrypt()
complex(x) | TracedValueError | decrypt()
operator.index(x) | TracedValueError | decrypt()
range(x) | TracedValueError | decrypt()
[1, 2][x] | TracedValueError | decrypt()
f"{x:.3f}" | TracedValueError | x.decrypt(); {x!r:>60}
"{:10}".format(x) | TracedValueError | x.decrypt()
f"{p:.2f}" | TracedValueError | x.decrypt()
math.exp(x) | TracedValueError | decrypt()
math.trunc(x) | OperandError | ckks.math.round(ct, interval=(a, b))
round(x, 2) | OperandError | 2 decimals; ckks.math.round(ct * 100, interval=(a, b)) / 100
abs(x) | DepthError | abs with a gap; ckks.context(depth=
list(x) | OperandError | ckks.unstack(ct); ct[i : i + 1]
sum(x) | OperandError | the whole ct
max(x) | OperandError | the whole ct
[v for v in x] | OperandError | the whole ct
len(s) | OperandError | ct.slots
x[0] | ParameterError | Write ct[0:1]
x[-1] | ParameterError | Write ct[-1:]
x[2] | ParameterError | Write ct[2:3]
x[1.0] | ParameterError | i and j are integers
x[1, 2] | ParameterError | along its one axis
x[10**6] | ParameterError | Write ct[i : i + 1] for one number, with i from 0 to
np.ma.array(w) + x | TracedValueError | array.filled(0.0)
np.where(x) | OperandError | np.where on a ciphertext alone; np.where(x > 0, a, b)
ckks.conv1d(x, np.ones((2, 1, 2))) | ParameterError | without a shape; ct.reshape(channels, length)
x[::2] | ParameterError | ct[i:j]; np.eye(len(ct))[::2] @ ct
x[::-1] | ParameterError | ct[i:j]; np.eye(len(ct))[::-1] @ ct
t[::-1] | ParameterError | ct[i:j]; np.eye(len(ct))[::-1] @ ct
x[w > 0] | ParameterError | ct[i:j]; np.eye(len(ct))[order] @ ct
x[None] | ParameterError | ct.reshape(1, -1) for ct[None]
x[:, None] | ParameterError | ct.reshape(-1, 1) for ct[:, None]
ckks.concat([b.sum(axis=1)] * 2) | ParameterError | concat() got a batch; ckks.stack([*ckks
0 < x < 1 | DepthError | No depth helps; (a < x) & (x < b)
bool(g) | TracedValueError | ckks.math.max(x, y) for max(x, y); any(x is y for y in items)
(x * 1e5).decrypt(dtype=np.float16) | PrecisionError | float16 holds numbers up to 6.55e+04
b.reshape(-1) | ParameterError | ckks.concat(ckks.unstack(ct)); axes of the batch stay
b.reshape(3, 3) | ParameterError | sizes whose product is the count of the numbers, 8
np.reshape(b, (2, 2, 2), order="F") | OperandError | @ ckks.concat(ckks.unstack(ct))).reshape(shape)
ckks.stats.histogram(x, [-np.inf, 0, np.inf]) | ParameterError | three finite numbers
x.neg() | UnknownAttributeError | Write -x
x.MulRelinNew(y) | UnknownAttributeError | Write x * y
x.BinarySize() | UnknownAttributeError | Write x.nbytes
ctx.generate_galois_keys() | UnknownAttributeError | ctx.rotation_keys([1, 2])
ckks.ckks_vector(ctx, w) | UnknownAttributeError | ctx.encrypt(values)
m[..., 1] | ParameterError | ct @ np.eye(c)[j] for one column, with c = ct.shape[-1]
m[..., 0:1] | ParameterError | ct @ np.eye(c)[:, i:j]
m[0, 1] | ParameterError | Write m[0][1 : 2] for one number
m[:, 1] | ParameterError | m @ np.eye(2)[j] for one column; pack='columns'
u[0, 1] | ParameterError | Write m[0][1], an axis at a time
u[:, 1] | ParameterError | ckks.stack([m[i][j] for i in range(len(m))])
u[..., 1] | ParameterError | pack='rows' for ct[..., i:j]
v[0, 1] | ParameterError | Write m[0][1], an axis at a time
v[:, 1] | ParameterError | ckks.stack([m[i][j] for i in range(len(m))])
v[0, 1, -1] | ParameterError | Write m[0][1][-1:] for one number
b[..., ::2] | ParameterError | ct[..., i:j]; ct @ np.eye(ct.shape[-1])[:, ::2]
x[4:] | ParameterError | Choose bounds
x[0] = 1 | OperandError | x.mask(m) + values
del x[0] | OperandError | ckks.concat([x[:i], x[j:]])
x.level = 1 | FrozenError | x.drop_to(level)
x.foo = 1 | FrozenError | Write x = ...
x <<= 1 | OperandError | x * 2**k
x %= y | ParameterError | x % 2.0
x.T | UnknownAttributeError | ct for a vector; np.eye(k)[order] @ ct
x.std() | UnknownAttributeError | ckks.stats.std(ct, interval=(a, b))
x.max() | UnknownAttributeError | ckks.math.max(ct, ct.roll(k))
x.min() | UnknownAttributeError | ckks.math.min(ct, ct.roll(k))
x.argmax() | UnknownAttributeError | decrypt() first
x.any() | OperandError | may be others than 0 and 1; x.within(0, 1)
x.round() | UnknownAttributeError | ckks.math.round(ct, interval=(a, b)); ct * 10**decimals
x.polyval([1, 2]) | UnknownAttributeError | ckks.poly(ct, coefficients)
x.serialize() | UnknownAttributeError | x.to_bytes(); from_bytes(data)
x.parms_id() | UnknownAttributeError | x.level, the depth that is left
x.mod_switch() | UnknownAttributeError | x.drop_to(level)
x.mm(M) | UnknownAttributeError | ct @ M
x.mm_(M) | UnknownAttributeError | Write x = x @ M
x.negate_inplace() | UnknownAttributeError | Write x = -x
x.EvalAdd(y) | UnknownAttributeError | Write x + y
x.GetLevel() | UnknownAttributeError | x.level, the depth that is left
x.sem() | UnknownAttributeError | ckks.stats.std(ct, ddof=1, interval=(a, b)) / np.sqrt(ct.size)
x.dtypes | UnknownAttributeError | ct.dtype
x.agg("sum") | UnknownAttributeError | on all slots at once
x.rescale_to_next_inplace() | UnknownAttributeError | ckks.manual()
x.clip(0, 1) | UnknownAttributeError | ckks.math.min(ckks.math.max(ct, low), high)
x.flatten() | UnknownAttributeError | ct.reshape(-1)
x.astype(float) | UnknownAttributeError | ckks.typed(ct, dtype); ct.decrypt(dtype=dtype)
x.copy() | UnknownAttributeError | never changes
x.tolist() | UnknownAttributeError | ct.decrypt().tolist()
x.item() | UnknownAttributeError | ct.decrypt().item()
x.numpy() | UnknownAttributeError | ct.decrypt()
x.tobytes() | UnknownAttributeError | ct.to_bytes()
x.conjugate() | UnknownAttributeError | ct.conj()
x.at[0].set(1.0) | UnknownAttributeError | ct.mask(m) + values
x.exp() | UnknownAttributeError | ckks.math.exp(ct, interval=(a, b))
x.add(y) | UnknownAttributeError | x + y
x.block_until_ready() | UnknownAttributeError | ct.realize()
x.shap | UnknownAttributeError | Perhaps you mean 'shape'
x.decrytp() | UnknownAttributeError | 'decrypt'
x.qqq | UnknownAttributeError | It has all, any, bootstrap, compress, conj
ckks.Ciphertext(w) | OperandError | ctx.encrypt(values)
ckks.Plaintext(w) | OperandError | ctx.encode(values)
ckks.Context() | OperandError | ckks.context(depth=4)
ckks.exp(x) | UnknownAttributeError | ckks.math.exp(x)
ckks.sum(x) | UnknownAttributeError | x.sum(...)
ckks.contxt | UnknownAttributeError | 'context'
ckks.math.cbrt(x) | UnknownAttributeError | ckks.chebyshev(x, np.cbrt, (a, b), degree)
ckks.concat(x, y) | OperandError | ckks.concat([x, y])
ckks.stack(x, y) | OperandError | ckks.stack([x, y])
ckks.concat([x, w]) | OperandError | ctx.encrypt(values)
ctx.n | UnknownAttributeError | ctx.params.n
ctx.encrpt(w) | UnknownAttributeError | 'encrypt'
ctx.secret_key | UnknownAttributeError | include_secret=True
ctx.encrypt([x, y]) | TracedValueError | decrypt()
ctx.decrypt(w) | OperandError | ctx.encrypt(values)
p + p | OperandError | ctx.encode(a + b)
p - 1 | OperandError | ctx.encode(a + b)
2 * p | OperandError | ctx.encode(a + b)
w + p | OperandError | ctx.encode(a + b)
jnp.asarray(w) + p | OperandError | ctx.encode(a + b)
-p | OperandError | ctx.encode(a + b)
p @ p | OperandError | ctx.encode(a + b)
p > p | OperandError | ctx.encode(a + b)
float(p) | OperandError | ctx.encode(a + b)
np.asarray(p) | OperandError | ctx.encode(a + b)
np.sum(p) | OperandError | ctx.encode(a + b)
np.exp(p) | OperandError | ctx.encode(a + b)
jnp.exp(p) | OperandError | ctx.encode(a + b)
p[0] | OperandError | ctx.encode(a + b)
len(p) | OperandError | ctx.encode(a + b)
list(p) | OperandError | ctx.encode(a + b)
p.shape | UnknownAttributeError | values.shape
p.decode() | UnknownAttributeError | (ctx.encrypt(0.0) + p).decrypt()
p.rotate(1) | UnknownAttributeError | np.roll(values, -k)
np.asarray(x) | TracedValueError | decrypt()
np.array([x, y]) | TracedValueError | decrypt()
np.float64(x) | TracedValueError | decrypt()
np.sum(b) | OperandError | axis=-1; ckks.unstack(ct)
np.sum(x, dtype=np.float32) | OperandError | with dtype=; Write ckks.typed(ct.sum(), dtype)
np.sum(x, out=w) | OperandError | Write z = ct.sum(); an array holds no encrypted numbers
np.sum(m, axis=0, initial=5) | OperandError | Write np.sum(ct, axis=0) + initial
np.mean(x, where=w > 0) | OperandError | Write np.sum(ct, where=mask) / np.sum(mask)
np.var(x, correction=1) | OperandError | with correction=; Write ct.var(ddof=1)
np.var(x, where=w > 0) | OperandError | np.sum(d * d, where=mask) / np.sum(mask), with d = ct -
np.std(x, ddof=1) | OperandError | Write ckks.stats.std(ct, ddof=1, interval=(a, b))
np.std(m, 0, correction=1) | OperandError | ckks.stats.std(ct, axis=0, ddof=1, interval=(a, b))
np.any(g, keepdims=True) | OperandError | Write np.any(ct) + np.zeros(shape)
np.cumsum(x, dtype=float) | OperandError | Write ckks.typed(ct.cumsum(), dtype)
np.reshape(x, (2, 2), order="F") | OperandError | order='F'; .reshape(shape)
np.copy(x, order="F") | OperandError | Nothing gives order= of a ciphertext: leave it out
np.nansum(x, keepdims=True) | OperandError | Nothing gives keepdims=; np.nansum(ct)
np.concatenate([x, y], dtype=float) | OperandError | ckks.concat([x, y]); then ckks.typed(ct, dtype)
np.sum(m, axis=2) | ParameterError | axis=2
np.average(x, weights=w) | OperandError | ct.dot(weights) / weights.sum()
np.var(b) | OperandError | axis=-1; ckks.unstack(ct)
np.std(x) | OperandError | ckks.stats.std(ct, interval=(a, b))
np.median(x) | OperandError | decrypt() first; ckks.stats.quantile
np.histogram(x) | OperandError | ckks.stats.histogram
np.cov(x, y) | OperandError | ckks.stats.cov
np.corrcoef(x, y) | OperandError | ckks.stats.corr
np.swapaxes(m, 0, 1) | OperandError | np.arange(r * c).reshape(r, c).T.ravel()] @ ct
statistics.mean([x, y]) | TracedValueError | decrypt()
statistics.fmean([x, y]) | TracedValueError | decrypt()
statistics.mean(x) | OperandError | the whole ct
x.sum(dtype=float) | OperandError | calls sum(); 'dtype'; x.decrypt(dtype=...)
x.sum(initial=1) | OperandError | calls sum(); 'initial'; x.sum() + value
x.mean(out=w) | OperandError | calls mean(); 'out'
x.conv1d(w) | UnknownAttributeError | ckks.conv1d(ct, kernel)
m.conv2d(M) | UnknownAttributeError | ckks.conv2d(ct, kernel)
x + f | OperandError | A sum got a ciphertext and a Poly
f * x | OperandError | A product got a ciphertext and a Poly
t.sum(axis=0).sum() | ParameterError | axis=-1
t.mean(axis=0).mean() | ParameterError | axis=-1
t[[0, 1]] | ParameterError | rows, m[i] and m[i:j]
t[np.array([True, False])] | ParameterError | rows, m[i] and m[i:j]
m[np.array([0, 1]), 0] | ParameterError | rows, m[i] and m[i:j]
m[None] | ParameterError | rows, m[i] and m[i:j]
b[:, 1] | ParameterError | ct[..., i : i + 1]
b[0, 1] | ParameterError | rows, m[i] and m[i:j]; m[0][1 : 2]
b[0:1, 1:2] | ParameterError | rows, m[i] and m[i:j]; m[i:j] @ np.eye(4)[:, k:l]
b[[0, 1]] | ParameterError | rows, m[i] and m[i:j]; ckks.stack([m[i] for i in order])
x.var(ddof=1.5) | ParameterError | ddof: an integer from 0
x.var(ddof=-1) | ParameterError | ddof: an integer from 0
z.var() | ParameterError | x.real.var() + x.imag.var()
ckks.stats.cov(z, z) | ParameterError | products of real numbers; x.real and x.imag
x.within(-2, 2) % 1e300 | ParameterError | divides by 1e+300; [-2, 2]
ren.jit(lambda v, k: v * k)(x, F) | JitError | frame.to_numpy()
ren.jit(lambda v, k: k @ v)(x, S) | JitError | matrix.toarray()
ren.jit(lambda v, k: ckks.poly(v, k))(x, [1.0, 2.0]) | TracedValueError | a tuple in place of
ren.jit(lambda v, k: v, static_argnames="k")(x, [1.0]) | JitError | tuple(values)
jax.grad(lambda v: (x * v).sum())(p) | TracedValueError | differentiate in the clear
ckks.plan(lambda v: v.decrypt(), ckks.spec(4)) | TracedValueError | outside
ckks.plan(lambda v, k: v * k, ckks.spec(4), k=5) | ParameterError | k=5; functools.partial
np.max(x) | OperandError | ckks.math.max(
np.argmin(x) | OperandError | decrypt() first
np.diff(x) | OperandError | ct[1:] - ct[:-1]
np.diff(x, n=2) | OperandError | Write np.diff(np.eye(k), n=2, axis=0) @ ct
np.diff(x, prepend=0) | OperandError | axis=0, prepend=0) @ ct + np.diff(np.zeros(k), prepend=
np.convolve(x, w, mode="valid") | OperandError | ckks.conv1d(ct, kernel[::-1]) for mode='valid'
np.vecdot(z, z) | OperandError | of complex numbers ct.conj().dot(w)
np.inner(x, y) | OperandError | ct.dot(w)
np.vdot(x, y) | OperandError | ct.conj().dot(w)
np.outer(x, y) | OperandError | x.reshape(-1, 1) * y.reshape(1, -1)
np.einsum("i,i->", x, y) | OperandError | ct.dot(w)
np.linalg.norm(x) | OperandError | ckks.math.sqrt(ct.dot(ct), interval=(a, b))
np.linalg.solve(M, x) | OperandError | decrypt() first
np.convolve(x, w) | OperandError | ckks.conv1d(ct, kernel[::-1], padding=len(kernel) - 1)
np.fft.fft(x) | OperandError | np.fft.fft(np.eye(k)) @ ct
np.polyval([1.0, 2.0], x) | OperandError | ckks.poly(ct, coefficients)
np.exp(x) | DepthError | exp by a polynomial; ckks.context(depth=
np.log(x) | OperandError | above zero; ckks.intervals; ckks.math.log(ct, interval=(a, b))
np.cbrt(x) | OperandError | ckks.chebyshev(ct, np.cbrt, (a, b), degree)
np.abs(z) | ParameterError | complex; x.real
np.sign(x) | DepthError | sign with a gap; ckks.context(depth=
np.round(x, 2) | OperandError | decimals=; ckks.math.round(ct * 100, interval=(a, b)) / 100
np.around(x, decimals=-1) | OperandError | ckks.math.round(ct * 1e-1, interval=(a, b)) / 1e-1
np.maximum(x, y) | DepthError | max with a gap; ckks.context(depth=
np.clip(x, 0, 1) | DepthError | max with a gap; ckks.context(depth=
np.clip(x, None, 1) | DepthError | min with a gap; ckks.context(depth=
np.clip(x, np.nan, 1) | OperandError | asks for max of encrypted numbers and nan
np.maximum(x, -np.inf) | OperandError | encrypted numbers and -inf; finite
x < np.inf | OperandError | asks for less of; encrypted numbers and inf; leave the comparison out
np.mod(x, 0) | ParameterError | above zero; x % 2.0
np.bitwise_and(w > 0, x) | OperandError | x.within(0, 1); x * y for x & y
np.left_shift(x, 1) | OperandError | x * 2**k
np.divmod(2, x) | OperandError | ckks.math.round
np.divide(x, y) | OperandError | ckks.math.inverse
np.isnan(x) | OperandError | np.isfinite(ct.decrypt())
np.allclose(x, y) | TracedValueError | ckks.math.equal(x, y)
np.array_equal(x, y) | TracedValueError | ckks.math.equal(x, y)
np.greater(x, 0) | DepthError | greater with a gap; ckks.context(depth=
np.logical_and(x, y) | OperandError | (x > 0) & (y < 1)
np.concatenate([x, y]) | OperandError | ckks.concat([x, y])
np.hstack([x, y]) | OperandError | ckks.concat([x, y])
np.stack([x, y]) | OperandError | ckks.stack([x, y])
np.append(x, y) | OperandError | ckks.concat([x, y])
np.split(x, 2) | OperandError | ct[:k], ct[k:]
np.flip(x) | OperandError | np.eye(k)[order] @ ct
np.take(x, [0, 1]) | OperandError | np.eye(k)[order] @ ct
np.transpose(m) | OperandError | np.arange(r * c).reshape(r, c).T.ravel()] @ ct
np.expand_dims(x, 0) | OperandError | ct.reshape(1, -1)
np.pad(x, 2) | OperandError | ckks.pad(ct, length)
x // 10**400 | ParameterError | Write for example x // 2.0
x % 10**400 | ParameterError | Write for example x % 2.0
x < np.str_("a") | OperandError | got a ciphertext and a str_
x + np.str_("a") | OperandError | got a ciphertext and a str_
np.sort(x) | OperandError | decrypt() first
np.trace(m) | OperandError | (ct * np.eye(r, c)).sum()
np.any(x) | OperandError | (x > 0) & (y < 1)
x.sum(where=w) | OperandError | may be others than 0 and 1
g.any(axis=2) | ParameterError | axis=2
ctx.encrypt([1.0, float("nan")], nan="drop") | ParameterError | nan='drop'; nan=0; values[~np.isnan
ctx.encrypt([1.0, float("nan")]) | ParameterError | nan at the index 1; nan=0; numpy.nan_to_num
np.zeros_like(x) | OperandError | np.zeros(ct.shape)
np.save("f", x) | OperandError | ct.save(path)
m.reshape(1, *m.shape).cumsum(axis=-1) | ParameterError | with axis=1: ct.reshape(-1
ckks.stack(x) | OperandError | ckks.stack() got; Write ckks.stack([x, y])
ckks.concat(x) | OperandError | ckks.concat() got; Write ckks.concat([x, y])
np.choose(w > 0, [x, y]) | OperandError | ckks.where(condition, b, a)
np.trace(m, 1) | OperandError | That leaves out offset=
np.pad(x, 1, mode="edge") | OperandError | That leaves out mode=
np.sum(x, where=w > 0, initial=1) | OperandError | np.sum(ct, where=where) + initial
np.var(x, ddof=1, where=w > 0) | OperandError | That leaves out ddof=
np.clip(x, -1, 1, out=w) | OperandError | z = np.clip(ct, a_min=-1, a_max=1)
x.rotate(1, 2) | OperandError | it takes 1 positional argument but 2 were given
x.sum(0, True) | OperandError | it takes from 0 to 1 positional arguments but 2 were given
np.add(x, y, where=w > 0) | OperandError | ckks.where(mask, x + y, otherwise)
np.add(x, y, dtype=np.float32) | OperandError | with dtype=; ckks.typed(x + y, dtype)
np.add(x, y, casting="safe") | OperandError | Nothing gives casting=; leave it out, x + y
np.add(x, y, out=x) | OperandError | with out=; Write z = x + y; never changes
np.add(w, y, out=w) | OperandError | with out=; Write z = x + y; an array holds no encrypted numbers
np.add(w, w, out=x) | OperandError | with out=; Write z = x + y
np.exp(x, out=w) | OperandError | with out=; Write z = np.exp(x)
operator.iadd(w, x) | OperandError | with out=; Write z = x + y
jnp.exp(x) | OperandError | jnp.exp; ckks.math.exp(ct, interval=(a, b))
jnp.sum(x) | OperandError | jnp.sum; ct.sum()
jnp.mean(x) | OperandError | ct.mean()
jnp.dot(w, x) | OperandError | ct.dot(w)
jnp.matmul(M, x) | OperandError | a @ b; M @ ct
np.linalg.matmul(M, x) | OperandError | M @ ct
jnp.dot(M, x) | OperandError | M @ ct
jnp.tensordot(M, x, 1) | OperandError | M @ ct
jnp.add(x, y) | OperandError | jnp.add; x + y
jnp.multiply(x, 2.0) | OperandError | x * y
jnp.where(w > 0, x, y) | OperandError | ckks.where(condition, x, y)
jnp.where(x > 0, x, y) | DepthError | greater with a gap; ckks.context(depth=
jnp.concatenate([x, y]) | OperandError | ckks.concat([x, y])
jnp.stack([x, y]) | OperandError | ckks.stack([x, y])
jnp.asarray(x) | OperandError | ct.decrypt()
jnp.roll(x, 1) | OperandError | ct.roll(k)
jnp.abs(x) | OperandError | ckks.math.abs(ct, interval=(a, b))
jnp.maximum(x, 0) | OperandError | ckks.math.max(x, y, interval=(a, b))
jnp.linalg.norm(x) | OperandError | ckks.math.sqrt(ct.dot(ct), interval=(a, b))
jnp.asarray(w).dot(x) | OperandError | ct.dot(w)
jnp.asarray(w).at[0].set(x) | OperandError | ct.mask(m) + values
jnp.asarray(w) / x | OperandError | ckks.math.inverse
jax.nn.relu(x) | OperandError | ckks.math.relu(ct, interval=(a, b))
jax.nn.sigmoid(x) | ParameterError | ckks.math.sigmoid(ct, interval=(a, b))
jax.nn.gelu(x) | OperandError | ckks.chebyshev(ct, jax.nn.gelu, (a, b), degree)
jax.nn.softmax(x) | OperandError | e * ckks.math.inverse(e.sum(), interval=(c, d))
jax.lax.add(x, y) | ParameterError | x + y
jax.lax.exp(x) | ParameterError | ckks.math.exp(ct, interval=(a, b))
jax.lax.dynamic_slice(x, (0,), (2,)) | ParameterError | ct[i:j]
jax.grad(lambda v: v.sum())(x) | TracedValueError | differentiate in the clear
jax.value_and_grad(lambda v: v.sum())(x) | TracedValueError | differentiate in the clear
jax.jacobian(lambda v: v * v)(x) | TracedValueError | differentiate in the clear
jax.vmap(lambda v: v * v)(x) | ParameterError | ckks.stack([x, y])
jax.vmap(lambda v: v * v, in_axes=1)(b) | ParameterError | leave in_axes out
jax.vmap(lambda v: v * v, in_axes=-3)(ckks.stack([b, b])) | ParameterError | first alone
jax.vmap(lambda v: v * v, out_axes=-3)(ckks.stack([b, b])) | ParameterError | out_axes=-3
jax.vmap(lambda v: v * v, in_axes=(-1,))(b) | ParameterError | leave in_axes out
jax.vmap(lambda v, w: v + w, in_axes=(0, 1))(b, b) | ParameterError | in_axes=(0, 1) on a ciphertext
jax.vmap(lambda v: (v, v), out_axes=(0, 1))(b) | ParameterError | out_axes=(0, 1)
jax.vmap(lambda v: v * v, out_axes=1)(b) | ParameterError | leave out_axes out
jax.jit(lambda v: v.decrypt())(x) | TracedValueError | decrypt it outside
jax.jit(lambda v: v if v > 0 else -v)(x) | OperandError | no interval is known; x.within(low
jax.jit(lambda v: jnp.exp(v))(x) | OperandError | ckks.math.exp(ct, interval=(a, b))
jax.jit(lambda v, k: v ** k)(x, 2) | TracedValueError | static_argnums
jax.lax.while_loop(lambda c: c > 0, lambda c: c - 1, x) | OperandError | x.within(low, high)
jax.lax.cond(x > 0, lambda v: v, lambda v: -v, x) | DepthError | greater with a gap
jax.random.permutation(jax.random.key(0), x) | OperandError | np.eye(k)[order] @ ct
memoryview(x) | OperandError | takes the bytes; ct.to_bytes()
bytes(x) | OperandError | ct.to_bytes()
hashlib.sha256(x) | OperandError | ct.to_bytes()
io.BytesIO(x) | OperandError | ct.to_bytes()
np.frombuffer(x) | OperandError | ct.to_bytes()
b"%s" % x | OperandError | ct.to_bytes()
memoryview(p) | OperandError | ctx.encode(a + b)
bytearray(x) | TracedValueError | decrypt()
"%d" % x | TracedValueError | decrypt()
"%x" % x | TracedValueError | decrypt()
"%.2f" % x | TracedValueError | decrypt()
next(p) | OperandError | ctx.encode(a + b)
next(A) | OperandError | ckks.linear(2 * matrix.T, ctx)
list(reversed(x)) | ParameterError | Write ct[3:4]
list(enumerate(x)) | OperandError | the whole ct
list(zip(x, y)) | OperandError | the whole ct
dict(x) | OperandError | the whole ct
a, *rest = x | OperandError | the whole ct
print(*x) | OperandError | the whole ct
p(1) | OperandError | ctx.encode(a + b)
A(x) | OperandError | `map @ ct`
ckks.plan(x, ckks.spec(4)) | OperandError | in place of a function
with x: pass | OperandError | enters a ciphertext by `with`; `with ctx:`
with p: pass | OperandError | ctx.encode(a + b)
dataclasses.replace(x, level=1) | FrozenError | x.drop_to(level)
dataclasses.replace(p, level=1) | FrozenError | ctx.encode(values)
np.nditer(x) | TracedValueError | decrypt()
np.nditer([x, w]) | TracedValueError | decrypt()
np.zeros(x) | TracedValueError | decrypt()
np.full(x, 1.0) | TracedValueError | decrypt()
w.reshape(x) | TracedValueError | decrypt()
w[x] | TracedValueError | decrypt()
w[x:] | TracedValueError | decrypt()
x[y:] | TracedValueError | decrypt()
x.rotate(y) | TracedValueError | decrypt()
ctx.encrypt(x) | TracedValueError | decrypt()
math.factorial(x) | TracedValueError | decrypt()
math.sqrt(x) | TracedValueError | decrypt()
int("1", x) | TracedValueError | decrypt()
chr(x) | TracedValueError | decrypt()
hex(x) | TracedValueError | decrypt()
np.from_dlpack(x) | UnknownAttributeError | ct.decrypt()
jax.pmap(lambda v: v * v)(x) | ParameterError | jax.vmap(f)(batch); NamedSharding
jax.pmap(lambda v: v * v)(b) | ParameterError | jax.vmap(f)(batch); NamedSharding
jax.lax.map(lambda v: v * v, x) | ParameterError | jax.lax.map go along; ckks.stack([x, y])
jax.lax.scan(lambda c, v: (c + v, v), x, x) | ParameterError | jax.lax.scan or; ckks.stack([x, y])
jax.linearize(lambda v: v * v, x) | TracedValueError | differentiate in the clear
jax.vjp(lambda v: v * v, x) | TracedValueError | differentiate in the clear
jax.jvp(lambda v: v * v, (x,), (x,)) | TracedValueError | differentiate in the clear
jax.hessian(lambda v: v.sum())(x) | TracedValueError | differentiate in the clear
jax.jacfwd(lambda v: v)(x) | TracedValueError | differentiate in the clear
jnp.zeros(x) | OperandError | the whole ct
jnp.einsum("i,i", x, w) | OperandError | ct.dot(w)
jnp.argmax(x) | OperandError | decrypt() first
jnp.diag(x) | OperandError | np.eye(k)
t["a"] | ParameterError | names of columns; list(frame).index(name)
t[:, "a"] | ParameterError | list(frame).index(name)
x["a"] | ParameterError | list(frame).index(name)
t.columns | UnknownAttributeError | list(frame); not encrypted
t.loc[0] | UnknownAttributeError | list(frame)
t.iloc[0] | UnknownAttributeError | ckks.unstack(ct)
x.values | UnknownAttributeError | ct.decrypt()
x.to_numpy() | UnknownAttributeError | ct.decrypt()
x.head() | UnknownAttributeError | ct[i : i + 1]
x.describe() | UnknownAttributeError | ckks.stats
x.apply(np.exp) | UnknownAttributeError | on all slots at once
x.fillna(0) | UnknownAttributeError | nan=0
x.groupby(w) | UnknownAttributeError | ct.decrypt()
x.corr(y) | UnknownAttributeError | ckks.stats.corr
x.cov(y) | UnknownAttributeError | ckks.stats.cov
x.median() | UnknownAttributeError | ckks.stats.quantile
x.rolling(2) | UnknownAttributeError | ckks.conv1d(ct, kernel)
x.shift(1) | UnknownAttributeError | ct.roll(k)
x.diff() | UnknownAttributeError | ct[1:] - ct[:-1]
x.eq(y) | UnknownAttributeError | x == y
x.between(0, 1) | UnknownAttributeError | (x > a) & (x < b)
x.extend([1]) | UnknownAttributeError | ckks.concat([x, y])
x.index(1) | UnknownAttributeError | list(frame)
x > F | DepthError | greater with a gap
1 / x + F | OperandError | ckks.math.inverse(ct
x.var(dtype=float) | OperandError | calls var(); 'dtype'; ddof=0
x.sum(None, float) | OperandError | calls sum(); keepdims=False; x.decrypt(dtype=...)
x.cumsum(dtype=float) | OperandError | calls cumsum(); 'dtype'; axis=None
x.dot(w, out=w) | OperandError | calls dot(); 'out'; (w, axis=None)
x.reshape(2, 2, order="F") | OperandError | calls reshape(); order='F'; Column by column
x.any(keepdims=True) | OperandError | calls any(); 'keepdims'
x.compress([1]) | OperandError | calls compress()
x.rotate() | OperandError | calls rotate(); 'steps'; (steps)
x.within() | OperandError | calls within(); 'bound'
np.copyto(w, x) | OperandError | ct.mask(m) + values
np.put(x, 0, 1) | OperandError | ct.mask(m) + values
np.kron(x, w) | OperandError | matrix @ ct
np.linalg.lstsq(M, x) | OperandError | decrypt() first
np.gradient(x) | OperandError | np.gradient(np.eye(k), axis=0) @ ct
np.count_nonzero(x) | OperandError | (x > 0).sum()
np.digitize(x, [0, 1]) | OperandError | ckks.stats.histogram
np.column_stack([x, y]) | OperandError | x.reshape(-1, 1) * [1, 0] + y.reshape(-1, 1) * [0, 1]
np.meshgrid(x, y) | OperandError | x.reshape(-1, 1)
np.diag(x) | OperandError | np.eye(k)
np.tril(m) | OperandError | ct * np.tril(np.ones(ct.shape))
np.flipud(x) | OperandError | np.eye(k)[order] @ ct
np.result_type(x, 1.0) | OperandError | ct.dtype
np.arctan2(x, y) | OperandError | ckks.math
np.polyfit(w, x, 1) | OperandError | np.linalg.pinv
np.vectorize(lambda v: v)(x) | TracedValueError | decrypt()
np.unstack(b) | OperandError | ckks.unstack(ct)
np.testing.assert_allclose(x, w) | TracedValueError | decrypt()
np.ma.array(x) | TracedValueError | decrypt()
x > None | OperandError | A comparison got a ciphertext and a NoneType; without a return statement
None > x | OperandError | A comparison got a ciphertext and a NoneType; without a return statement
x < "a" | OperandError | A comparison got a ciphertext and a str; Pass one of these
"a" >= x | OperandError | A comparison got a ciphertext and a str; Pass one of these
x >= [] | OperandError | a ciphertext and a list; an array of numbers
x <= object() | OperandError | a ciphertext and an object; an array of numbers
x > f | OperandError | a ciphertext and a Poly; an array of numbers
x > A | OperandError | ckks.linear(2 * matrix.T, ctx)
x.dot(3) | ParameterError | x * number; x @ M
x.dot(x.sum()) | ParameterError | x * number
x.dot([1, 2]) | ParameterError | Pad the shorter one
s.reshape(1) | ParameterError | ct + np.zeros(shape)
ckks.concat([]) | ParameterError | 0 ciphertexts; ckks.concat([x, y])
np.maximum(x, None) | OperandError | function max got a ciphertext and a NoneType
np.greater(x, "a") | OperandError | function greater got a ciphertext and a str
x / "a" | OperandError | A quotient got a ciphertext and a str; Pass one of these
x / None | OperandError | A quotient got a ciphertext and a NoneType; without a return statement
x / np.array(["a"]) | OperandError | an array of <U1; values.astype(float)
x // y | ParameterError | x // 2.0; (x / y) // 1
x // -2 | ParameterError | Write -x // 2.0 for x // -2.0
x // 0 | ParameterError | x // 2.0
x % -2 | ParameterError | Write -(-x % 2.0) for x % -2.0
x % y | ParameterError | x % 2.0; x - y * ((x / y) // 1)
ckks.math.erf(x) | UnknownAttributeError | ckks.chebyshev(x, np.vectorize(math.erf), (a, b), degree)
ckks.math.gelu(x) | UnknownAttributeError | ckks.chebyshev(x, jax.nn.gelu, (a, b), degree)
ckks.math.softmax(x) | UnknownAttributeError | ckks.math.inverse(e.sum(), interval=(c, d))
ckks.math.maximum(x, y) | UnknownAttributeError | ckks.math.max(x, y, interval=(a, b))
ckks.math.sqr(x) | UnknownAttributeError | Perhaps you mean 'sqrt'
ckks.math.qqq(x) | UnknownAttributeError | It has abs, all, any
ckks.add(x, y) | UnknownAttributeError | Write x + y
ckks.encrypt(w) | UnknownAttributeError | ctx.encrypt(values)
ckks.decrypt(x) | UnknownAttributeError | ct.decrypt()
ckks.zeros(4) | UnknownAttributeError | ctx.encrypt(np.zeros(k))
jax.nn.log_softmax(x) | OperandError | ct - ckks.math.log(ckks.math.exp(ct
jax.nn.standardize(x) | OperandError | ckks.math.pow(ct.var() + 1e-5, -0.5; ct - ct.mean()
jax.nn.logsumexp(x) | OperandError | jax.nn.logsumexp; ckks.math.log(ckks.math.exp(ct
jax.nn.glu(x) | OperandError | ct[:k] * ckks.math.sigmoid(ct[k:], interval=(a, b))
jax.scipy.special.logsumexp(x) | OperandError | ckks.math.log(ckks.math.exp(ct
jax.scipy.special.erf(x) | OperandError | special.erf on a; np.vectorize(math.erf), (a, b), degree
jax.scipy.special.ndtr(x) | OperandError | ckks.chebyshev(ct, jax.scipy.special.ndtr
jax.scipy.stats.norm.pdf(x) | OperandError | ckks.chebyshev(ct, jax.scipy.stats.norm.pdf, (a, b)
np.spacing(x) | OperandError | decrypt() first
np.frexp(x) | OperandError | decrypt() first
np.isinf(x) | OperandError | np.isfinite(ct.decrypt())
x / 1e-320 | ParameterError | further from zero
np.trunc(x) | OperandError | x // 1
np.degrees(x) | OperandError | ct * (180 / np.pi)
np.sinc(x) | OperandError | ckks.chebyshev(ct, np.sinc, (a, b), degree)
np.fft.rfft(x) | OperandError | np.fft.rfft(np.eye(k), axis=0) @ ct
np.fft.fft2(m) | OperandError | np.fft.fft(np.eye(r)) @ (ct @ np.fft.fft(np.eye(c)))
np.fft.fftshift(x) | OperandError | ct.roll(k // 2)
np.triu(m) | OperandError | ct * np.triu(np.ones(ct.shape))
np.vander(x) | OperandError | ckks.stack([x, x**2, x**3])
np.argwhere(x) | OperandError | x > 0; decrypt() first
np.flatnonzero(x) | OperandError | x > 0; decrypt() first
np.isin(x, w) | OperandError | (x == a); a comparison for each
np.bincount(x) | OperandError | ckks.stats.histogram(ct, edges)
np.add.outer(x, y) | OperandError | np.add.outer; x.reshape(-1, 1) + y.reshape(1, -1)
np.multiply.outer(w, x) | OperandError | x.reshape(-1, 1) * y.reshape(1, -1)
jnp.add.outer(x, y) | OperandError | jnp.add.outer; x.reshape(-1, 1) + y.reshape(1, -1)
np.add.at(x, 0, 1) | OperandError | np.add.at; x + values, with zeros
np.add.accumulate(x) | OperandError | ct.cumsum()
np.multiply.accumulate(x) | OperandError | only sums run along the slots
np.multiply.reduce(x) | OperandError | x = x[:k] * x[k:]
np.maximum.reduce(x) | OperandError | ckks.math.max(ct, ct.roll(k))
np.take_along_axis(x, np.array([0]), 0) | OperandError | np.eye(k)[order] @ ct
np.linalg.multi_dot([M, M, x]) | OperandError | A @ (B @ ct)
np.nanstd(x) | OperandError | ckks.stats.std(ct, interval=(a, b))
np.nanmax(x) | OperandError | ckks.math.max(ct, ct.roll(k))
np.logaddexp(x, y) | OperandError | y + ckks.chebyshev(x - y, lambda d: np.logaddexp(d, 0)
np.broadcast_arrays(x, w) | OperandError | ct + np.zeros(shape)
np.lib.stride_tricks.sliding_window_view(x, 2) | OperandError | ckks.stack([ct[i : i + k] for i in
np.vsplit(m, 2) | OperandError | ct[:k], ct[k:]
np.frompyfunc(lambda v: v, 1, 1)(x) | OperandError | f(ct)
jnp.size(x) | OperandError | jnp.size; ct.size
jnp.logical_and(x, x) | OperandError | ckks.math.logical_and(x, y)
jnp.floor(x) | OperandError | x // 1
jax.lax.neg(x) | ParameterError | -ct
jax.lax.rsqrt(x) | ParameterError | ckks.math.pow(ct, -0.5, interval=(a, b))
jax.lax.integer_pow(x, 2) | ParameterError | x ** k
jax.lax.slice(x, (0,), (2,)) | ParameterError | ct[i:j]
jax.lax.top_k(x, 2) | ParameterError | decrypt() first
jax.lax.gt(x, y) | ParameterError | x > y
jax.lax.associative_scan(jnp.add, b) | OperandError | associative_scan(operator.add, ct)
jax.ops.segment_sum(x, jnp.array([0, 0, 1, 1]), 2) | OperandError | [:, None] == segments) @ ct
x.to("cpu") | UnknownAttributeError | jax.device_put(ct, jax.devices()[0])
x.cpu() | UnknownAttributeError | ct.decrypt(); jax.device_put
x.detach() | UnknownAttributeError | ct itself
x.unsqueeze(0) | UnknownAttributeError | ct.reshape(1, -1)
x.permute(0) | UnknownAttributeError | np.eye(k)[order] @ ct
x.softmax() | UnknownAttributeError | ckks.math.inverse(e.sum(), interval=(c, d))
pickle.dumps(ctx) | SerializationError | ctx.server()
copy.copy(ctx) | SerializationError | ctx.server()
"""


# The same for lines of many levels: `x` and `y` are known to lie in [-2, 2] and [0.5, 2].
DEEP = """
ckks.chebyshev(x, np.vectorize(math.erf), (-2, 2), 15) | np.vectorize(math.erf)(x)
ckks.chebyshev(x, np.sinc, (-2, 2), 15) | np.sinc(x)
ckks.chebyshev(x, jax.nn.gelu, (-2, 2), 15) | jax.nn.gelu(x)
ckks.chebyshev(x, jax.scipy.special.ndtr, (-2, 2), 15) | jax.scipy.special.ndtr(x)
(lambda e: e * ckks.math.inverse(e.sum(), (1, 30)))(ckks.math.exp(x, (-2, 2))) | jax.nn.softmax(x)
ckks.math.log(ckks.math.exp(x, (-2, 2), 12).sum(), (1, 30), 12) | jax.nn.logsumexp(x)
x - ckks.math.log(ckks.math.exp(x, (-2, 2), 12).sum(), (1, 30), 12) | jax.nn.log_softmax(x)
(x - x.mean()) * ckks.math.pow(x.var().within(1.5) + 1e-5, -0.5, (0.25, 2)) | jax.nn.standardize(x)
x[:2] * ckks.math.sigmoid(x[2:], (-2, 2)) | jax.nn.glu(x)
y + ckks.chebyshev(x - y, lambda d: np.logaddexp(d, 0), (-4, 2), 23) | np.logaddexp(x, y)
ckks.math.pow(y, -0.5, (0.5, 2)) | jax.lax.rsqrt(y)
-x // 2.0 | x // -2.0
-(-x % 2.0) | x % -2.0
ckks.math.pow(y, -1, interval=(0.5, 2)) | y ** -1.0
ckks.math.pow(y, 0.5, interval=(0.5, 2)) | y ** 0.5
y.within(0.5, 2) ** x.within(-2, 2) | y ** x
ckks.math.pow(y, x.within(-2, 2), interval=(0.5, 2)) | y ** x
(x / y) // 1 | x // y
x - y * ((x / y) // 1) | x % y
"""


class NAType:
    """The missing value of pandas: it has operators, which leave others to their own."""

    def _defer(self, other: Any) -> Any:
        return NotImplemented

    __add__ = __radd__ = __mul__ = __rmul__ = _defer


class Column:
    """A column as pandas has it: its operators leave those of a higher priority to the other."""

    __pandas_priority__ = 4000  # of a DataFrame, the highest of pandas

    def __init__(self, values: np.ndarray) -> None:
        self._values = values

    def to_numpy(self) -> np.ndarray:
        return self._values

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self._values, dtype)

    def __len__(self) -> int:
        return len(self._values)

    __hash__ = None  # type: ignore[assignment]

    def _defer(self, other: Any) -> Any:
        assert other.__pandas_priority__ > self.__pandas_priority__
        return NotImplemented

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __matmul__ = _defer


# What Python has from 3.12 on: the function, and `__buffer__` of classes in Python.
NEW = ("math.sumprod", "memoryview", "hashlib.sha256", "io.BytesIO", "np.frombuffer")


def lines(table: str) -> list[str]:
    found = table.strip("\n").splitlines()
    is_new = sys.version_info >= (3, 12)
    return [line for line in found if is_new or not line.startswith(NEW)]


def refused() -> list[Mistake]:
    """The rows of the table of errors: what stands first is name and code."""
    rows = []
    for line in lines(REFUSED):
        code, error, words = line.rsplit(" | ", 2)
        rows.append(Mistake(code, error, words, code))
    return rows


MODULES = {
    "np": np, "jax": jax, "jnp": jnp, "ckks": ckks, "math": math, "operator": operator,
    "copy": copy, "pickle": pickle, "functools": functools, "itertools": itertools,
    "Fraction": Fraction, "statistics": statistics, "ren": ren, "dataclasses": dataclasses,
    "hashlib": hashlib, "io": io, "datetime": datetime, "NAType": NAType,
    "S": scipy.sparse.csr_array(np.eye(4)), "Polynomial": Polynomial, "Chebyshev": Chebyshev,
    "f": Poly([1, 2], RingSpec(8, (17, 97))),
}  # fmt: skip


@pytest.fixture(scope="module")
def clear() -> dict[str, Any]:
    x = np.array([1.5, 0.5, -0.5, 1.0])
    w = np.array([0.5, -1.0, 2.0, 0.25])
    return {
        **MODULES, "x": x, "y": np.array([1.25, -0.25, 0.75, 1.75]), "s": np.array(0.5),
        "z": np.array([1 + 1j, 2 - 1j, 0.5j, 1.0]), "m": x.reshape(2, 2), "b": np.stack([x, w]),
        "p": x, "w": w, "F": w, "t": np.arange(6.0).reshape(2, 3),
        "u": np.arange(12.0).reshape(2, 3, 2), "v": np.arange(12.0).reshape(2, 2, 3),
        "M": np.arange(16.0).reshape(4, 4) / 8 - 1,
        "A": np.arange(16.0).reshape(4, 4) / 8 - 1,
        "g": np.array([True, False, True, False]), "h": np.array([False, False, True, True]),
    }  # fmt: skip


@pytest.fixture(scope="module")
def encrypted(ctx: ckks.Context, clear: dict[str, Any]) -> dict[str, Any]:
    made = {name: ctx.encrypt(clear[name]).realize() for name in "xyzsgh"}
    made["t"] = ctx.encrypt(clear["t"], pack="columns").realize()
    made["u"] = ctx.encrypt(clear["u"]).realize()
    for name in "bv":
        made[name] = ctx.encrypt(clear[name], pack="rows").realize()
    map_, plain = ckks.linear(clear["M"], ctx), ctx.encode(clear["x"])
    made["F"] = Column(clear["w"])
    return {**clear, **made, "m": made["x"].reshape(2, 2), "p": plain, "A": map_, "ctx": ctx}


def value(code: str, names: dict[str, Any]) -> Any:
    """The value of an expression, or what an assignment leaves in its variable."""
    names = {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in names.items()}
    (statement,) = ast.parse(code).body
    exec(
        compile(f"_ = {code}" if isinstance(statement, ast.Expr) else code, "idiom", "exec"), names
    )
    return names[statement.target.id] if isinstance(statement, ast.AugAssign) else names.get("_")


def check(got: Any, want: Any) -> None:
    """Numbers within the tracked error, of the same shape."""
    if isinstance(got, ckks.Ciphertext):
        error = got.estimate.error_bound
        got = got.decrypt()
        assert error < 1e-3
        assert np.shape(got) == np.shape(want)
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=error)
    else:
        assert got == want


@pytest.mark.filterwarnings("ignore::ren.core.errors.TransparentWarning")  # of x ** 0
@pytest.mark.parametrize("code", lines(SAME))
def test_it_computes_as_numpy_does(code: str, encrypted: dict, clear: dict) -> None:
    check(value(code, encrypted), value(code, clear))


@pytest.mark.parametrize("row", lines(INSTEAD))
def test_what_errors_tell_to_write_computes_as_numpy_does(
    row: str, encrypted: dict, clear: dict
) -> None:
    code, numpy = row.split(" | ")
    check(value(code, encrypted), value(numpy, clear))


@pytest.mark.long
def test_what_errors_tell_to_write_of_many_levels_is_near_what_numpy_gives() -> None:
    arrays = {"x": np.array([1.5, 0.5, -0.5, 1.0]), "y": np.array([1.25, 0.75, 0.75, 1.75])}
    ctx = ckks.testing.context(b"deep", depth=22, n=1 << 11)
    x, y = (ctx.encrypt(values) for values in arrays.values())
    names = {**MODULES, "x": x.within(-2, 2), "y": y.within(0.5, 2)}
    for row in lines(DEEP):
        code, numpy = row.split(" | ")
        got = value(code, names).decrypt()
        np.testing.assert_allclose(got, value(numpy, MODULES | arrays), atol=1e-3, err_msg=code)


@pytest.mark.parametrize("row", refused(), ids=lambda row: row.name)
def test_it_raises_an_error_that_teaches(row: Mistake, encrypted: dict) -> None:
    with pytest.raises(getattr(errors, row.error)) as caught:
        value(row.code, encrypted)
    error = caught.value
    assert isinstance(error, errors.RenError) and error.given and error.needed and error.do
    for word in row.words.split("; "):
        assert word in str(error), f"{word!r} is not in:\n{error}"


def test_assigning_to_an_array_names_the_cause(encrypted: dict) -> None:
    array = np.zeros(4)
    with pytest.raises(ValueError, match="array element") as caught:  # NumPy's own error
        array[0] = encrypted["x"]
    assert isinstance(caught.value.__cause__, errors.TracedValueError)


def test_a_statement_in_place_is_told_from_a_call_with_out(encrypted: dict) -> None:
    x, w = encrypted["x"], np.ones(4)
    a, b, c = w, np.eye(4)[0], np.eye(4)
    a += x
    b -= x
    c @= x
    for got in (a, b, c):
        assert isinstance(got, ckks.Ciphertext)
    with pytest.raises(errors.OperandError, match="z = x - y"):
        np.subtract(w, x, out=w)
    with pytest.raises(errors.OperandError, match="z = x - y"):
        w -= np.subtract(w, x, out=w)
    assert np.array_equal(w, np.ones(4))


def test_the_tables_have_650_idioms_each_once() -> None:
    codes = lines(SAME) + lines(INSTEAD) + [row.code for row in refused()]
    assert len(set(codes)) == len(codes) >= 650


def test_probes_of_protocols_find_nothing(encrypted: dict) -> None:
    x, p, a = (encrypted[name] for name in "xpA")
    for value_ in (x, p, a, encrypted["ctx"]):
        assert not hasattr(value_, "foo") and getattr(value_, "_foo", 3) == 3
        assert not hasattr(value_, "__jax_array__")
        with pytest.raises(AttributeError) as caught:
            value_.__cuda_array_interface__  # noqa: B018
        assert not isinstance(caught.value, errors.RenError)
        assert repr(value_) == f"{value_!r}"
    assert p and a
    assert f"{x!r:>200}".strip() == repr(x) == f"{x}" == "%s" % x  # noqa: UP031
    assert {x: 1}[x] == 1 and x in [x] and x != None  # noqa: E711
    assert copy.copy(p).level == p.level and copy.deepcopy(a).shape == a.shape


def test_a_call_of_jax_is_named_by_the_users_function(encrypted: dict) -> None:
    def mine(v: Any) -> Any:
        return jnp.tanh(v)

    with pytest.raises(errors.OperandError, match=r"test_idioms.py:\d+ asks for jnp\.tanh"):
        mine(encrypted["x"])


def test_foreign_classes_compute_by_themselves(encrypted: dict) -> None:
    class Foreign:
        def __radd__(self, other: Any) -> str:
            return type(other).__name__

    names = [encrypted[name] + Foreign() for name in "xpA"]
    assert names == ["Ciphertext", "Plaintext", "LinearMap"]
    with pytest.raises(errors.OperandError):
        encrypted["p"] * Foreign()


def test_ciphertexts_are_no_functions_and_no_iterators():
    """Dask, pandas and others treat what can be called, or is an iterator, in their own way."""
    x = ckks.testing.context(b"kind", depth=1).encrypt([1.0])
    assert not callable(x) and not isinstance(x, Iterator)
