"""Random operations on ciphertexts, as Python source: the grammar of `ciphertext_programs`.

Each function draws one expression over the names in scope, or gives None where it has nothing to
say there. The twins in scope tell shapes; whether NumPy refuses the result is no concern here.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.properties.clear_ciphertext import ClearCiphertext
from tests.properties.program_draw import Draw

Drawn = Callable[[Draw, str, ClearCiphertext], "str | None"]
OPERATIONS: dict[str, tuple[float, Drawn]] = {}


def _operation(weight: float) -> Callable[[Drawn], Drawn]:
    def kept(function: Drawn) -> Drawn:
        OPERATIONS[function.__name__.lstrip("_")] = (weight, function)
        return function

    return kept


def draw_operation(d: Draw) -> tuple[str, str]:
    """The kind and the source of one operation on names in scope."""
    kinds = list(OPERATIONS)
    weights = np.array([OPERATIONS[k][0] for k in kinds])
    while True:
        kind = str(d.rng.choice(kinds, p=weights / weights.sum()))
        name = d.name()
        assert name is not None  # there is an input
        text = OPERATIONS[kind][1](d, name, d.scope[name])
        if text is not None:
            return kind, text


# ------------------------------------------------------------------- arithmetic


@_operation(16)
def ciphertexts(d: Draw, x: str, _: ClearCiphertext) -> str:
    """x + y, x - y, x * y."""
    return f"{x} {d.pick(['+', '-', '*'])} {d.name()}"


@_operation(22)
def clear_operand(d: Draw, x: str, twin: ClearCiphertext) -> str:
    """A number, array or plaintext on either side."""
    sign, other = d.pick(["+", "-", "*"]), d.clear(twin)
    return f"{x} {sign} {other}" if d.chance(0.6) else f"{other} {sign} {x}"


@_operation(3)
def quotient(d: Draw, x: str, twin: ClearCiphertext) -> str:
    """x / c."""
    return f"{x} / {d.pick(['2', '-0.5', 'np.float64(3)', d.values(d.partner(twin))])}"


@_operation(2)
def negation(d: Draw, x: str, _: ClearCiphertext) -> str:
    """-x."""
    return d.pick([f"-{x}", f"-{x}", f"+{x}"])


@_operation(4)
def power(d: Draw, x: str, _: ClearCiphertext) -> str:
    """x ** k."""
    return f"{x} ** {d.pick([0, 1, 2, 2, 2, 3, 4, -1])}"


# ------------------------------------------------------------------- slots


@_operation(9)
def rotate(d: Draw, x: str, twin: ClearCiphertext) -> str:
    """Steps of any sign, beyond the length and beyond the slots."""
    far = twin.slots - d.integer(0, 3)
    return f"{x}.rotate({d.pick([1, 1, 2, -1, -3, 5, twin.length, far, -far, 2 * far])})"


@_operation(4)
def roll(d: Draw, x: str, twin: ClearCiphertext) -> str:
    """numpy.roll."""
    axis = ", axis=-1" * bool(twin.batch)
    return f"{x}.roll({d.pick([1, -1, 2, -3, twin.length + 1, 0])}{axis})"


@_operation(4)
def parts(d: Draw, x: str, _: ClearCiphertext) -> str:
    """conj, real, imag."""
    return f"{x}.{d.pick(['conj()', 'real', 'imag'])}"


@_operation(9)
def slices(d: Draw, x: str, twin: ClearCiphertext) -> str:
    """x[i:j], also from the end, beyond the end, with a step, or of one number."""
    k = twin.row[0] if twin.row else 1
    i, j = sorted((d.integer(0, k), d.integer(0, k)))
    index = d.pick([
        f"{i}:{j}", f"{i}:{j}", f":{max(j, 1)}", f"{i}:", "0:1", ":2", "-2:", ":-1", f"{i - k}:{j}",
        f"{k - 1}:", f":{k + 4}", "::2", "0",
    ])  # fmt: skip
    return f"{x}[{'..., ' * d.chance(0.15)}{index}]"


@_operation(4)
def mask(d: Draw, x: str, twin: ClearCiphertext) -> str:
    """mask() and mask(m)."""
    length = twin.length + (d.chance(0.1) and 1)
    return f"{x}.mask()" if d.chance(0.5) else f"{x}.mask({d.values((length,))})"


@_operation(3)
def tile(d: Draw, x: str, _: ClearCiphertext) -> str:
    """Copies one after another."""
    return f"{x}.tile({d.pick([1, 2, 2, 3, 5])})"


@_operation(4)
def concat(d: Draw, x: str, _: ClearCiphertext) -> str:
    """Vectors one after another."""
    names = [x, *(str(d.name()) for _ in range(d.integer(0, 2)))]
    return f"ckks.concat([{', '.join(names)}])"


@_operation(6)
def reshape(d: Draw, x: str, twin: ClearCiphertext) -> str:
    """Two axes, three, one of them -1, a flat vector; sometimes sizes that do not fit.

    Of a batch mostly behind its axes, which stay.
    """
    k = twin.length
    r = d.pick([r for r in range(1, k + 1) if k % r == 0 and r <= 64])
    sizes = d.pick([f"{r}, {k // r}", f"{k // r}, {r}", f"{r}, -1", f"({r}, -1)", "-1", f"1, {k}",
                    f"{k}, 1", f"{r}, 1, -1", f"{r + 1}, -1"])  # fmt: skip
    if twin.batch and d.integer(0, 3) and "(" not in sizes:
        sizes = ", ".join([*map(str, twin.batch), sizes])
    return f"{x}.reshape({sizes})"


@_operation(3)
def pad(d: Draw, x: str, twin: ClearCiphertext) -> str | None:
    """Zeros behind a vector."""
    return f"ckks.pad({x}, {twin.length + d.pick([0, 1, 3, 7])})" if d.has_pad else None


# ------------------------------------------------------------------- reductions and matrices


@_operation(8)
def reduction(d: Draw, x: str, _: ClearCiphertext) -> str:
    """sum, mean, cumsum, some with an axis."""
    axis = d.pick(["", "", "", "-1", "axis=0", "axis=1"])
    return f"{x}.{d.pick(['sum', 'sum', 'mean', 'mean', 'cumsum'])}({axis})"


@_operation(5)
def dot(d: Draw, x: str, twin: ClearCiphertext) -> str:
    """With an array, a plaintext, or a ciphertext."""
    length = twin.length + (d.chance(0.1) and 1)
    w = d.values((length,))
    return d.pick([f"{x}.dot({w})", f"{x}.dot(ctx.encode({w}))", f"{x}.dot({d.name()})",
                   f"{x} @ {w}", f"{w} @ {x}", f"{x} @ {d.name()}"])  # fmt: skip


@_operation(4)
def strided_sum(d: Draw, x: str, twin: ClearCiphertext) -> str:
    """Over all slots, with steps of either sign."""
    count = d.pick([1, 2, 3, 4, 7, twin.slots])
    step = 1 if count == twin.slots else d.pick([1, 1, -1, 2, 4, -2])
    return f"ckks.strided_sum({x}, {count}, {step})"


@_operation(6)
def matrix(d: Draw, x: str, twin: ClearCiphertext) -> str | None:
    """matrix @ x, x @ matrix, ckks.linear(matrix) @ x."""
    if twin.length > 40:
        return None
    m = d.integer(1, 5)
    first, last = (twin.row[0], twin.row[-1]) if twin.row else (2, 2)
    if d.chance(0.5):
        return f"{d.values((m, first))} @ {x}"
    return f"{x} @ {d.values((last, m))}"


@_operation(3)
def linear(d: Draw, x: str, twin: ClearCiphertext) -> str | None:
    """A matrix that is encoded once."""
    if twin.length > 40:
        return None
    keys = d.pick(["", "", ", keys=3"])
    m = d.values((d.integer(1, 5), twin.length + (d.chance(0.1) and 1)))
    return f"ckks.linear({m}, ctx{keys}) @ {x}"


@_operation(4)
def convolution(d: Draw, x: str, twin: ClearCiphertext) -> str | None:
    """conv1d of vectors, conv2d of matrices and of images with channels."""
    if twin.length > 64 or twin.inner == 0:
        return None
    how = d.pick(["", "", ", padding='same'", ", padding=1", ", stride=2",
                  ", stride=2, padding='same'"])  # fmt: skip
    if twin.inner == 1:
        return f"ckks.conv1d({x}, {d.values((d.integer(1, 3),))}{how})"
    size = (d.integer(1, 2), d.integer(1, 3))
    if twin.inner == 3:
        size = (d.integer(1, 2), twin.row[0], *size)
    return f"ckks.conv2d({x}, {d.values(size)}{how})"


@_operation(5)
def matmul(d: Draw, x: str, twin: ClearCiphertext) -> str | None:
    """Products of encrypted square matrices."""
    if twin.length not in (1, 4, 9):
        return None
    y = d.pick([x, d.name()])
    return d.pick([f"ckks.matmul({x}, {y})", f"{x} @ {y}"])


# ------------------------------------------------------------------- functions

_INTERVALS = {
    "log": ["(0.5, 2)", "(0.25, 4)"], "sqrt": ["(0.25, 1)", "(0, 2)", "(0.1, 4)"],
    "inverse": ["(0.5, 2)", "(-2, -0.5)", "(0.25, 2)"], "tan": ["(-1, 1)", "(-0.5, 0.5)"],
}  # fmt: skip


@_operation(8)
def functions(d: Draw, x: str, twin: ClearCiphertext) -> str:
    """Elementary functions: intervals that hold the numbers, that do not, and the default."""
    name = d.pick(["exp", "sin", "cos", "tan", "sinh", "cosh", "tanh", "sigmoid", "log", "sqrt",
                   "inverse"])  # fmt: skip
    interval = d.pick(_INTERVALS.get(name, ["(-1, 1)", "(-2, 2)", "(-4, 4)", "(0, 2)"]))
    where = d.pick([f", interval={_holding(twin)}"] * 2 + [f", interval={interval}"] * 2 + [""])
    bits = d.integer(4, 8) if twin.level < 6 else d.integer(6, 16)
    how = d.pick([f", degree={d.integer(1, 7)}", f", precision={bits}"])
    return f"ckks.math.{name}({x}{where}{how})"


def _holding(twin: ClearCiphertext) -> str:
    """An interval that holds the numbers, in short figures."""
    z = np.real(twin.values)
    a, b = np.floor(z.min() * 4 - 0.01) / 4, np.ceil(z.max() * 4 + 0.01) / 4
    return f"({a:g}, {b:g})"


@_operation(8)
def comparisons(d: Draw, x: str, twin: ClearCiphertext) -> str:
    """sign and what follows from it."""
    how = d.pick([", degree=3", ", degree=7", ", precision=4", ", precision=3, gap=0.25"])
    where = d.pick([f", interval={_symmetric(twin)}"] * 3 + [", interval=(-2, 2)", ""])
    if d.chance(0.5):
        return f"ckks.math.{d.pick(['sign', 'abs', 'relu'])}({x}{where}{how})"
    name = d.pick(["max", "min", "greater", "less", "equal"])
    return (
        f"ckks.math.{name}({x}, {d.pick([d.name(), d.number(), d.values(twin.row)])}{where}{how})"
    )


def _symmetric(twin: ClearCiphertext) -> str:
    most = np.ceil(np.abs(twin.values).max() * 4 + 0.01) / 4
    return f"({-most:g}, {most:g})"


@_operation(2)
def logic(d: Draw, x: str, twin: ClearCiphertext) -> str | None:
    """any, all, where, round."""
    other = d.pick([str(d.name()), d.values(twin.row), "0.5"])
    few = twin.length <= 16
    return d.pick([
        f"ckks.math.{d.pick(['any', 'all'])}({x})" if few else None,
        f"ckks.math.where({x}, {d.name()}, {other})", f"ckks.math.where({x}, 1.0, -1.0)",
        f"ckks.math.round({x}, {_symmetric(twin)}, margin=0.2, precision=6)",
    ])  # fmt: skip


@_operation(4)
def polynomials(d: Draw, x: str, twin: ClearCiphertext) -> str:
    """ckks.poly, ckks.chebyshev."""
    c = d.pick(["[1, 0, 0.5]", "[0.5, -1.0]", "[0, 0, 1]", "[0.25, 0.5, 0, 0.125]", "[2]",
                "[0, 1j]", "[0.0, 1e-15, 1.0]"])  # fmt: skip
    interval = d.pick([_holding(twin), "(-1, 1)", "(-3, 3)"])
    if d.chance(0.3):  # a polynomial for each number
        c = f"np.stack([{', '.join(d.values(twin.row) for _ in range(d.integer(1, 5)))}], -1)"
    return d.pick([
        f"ckks.poly({x}, {c})", f"ckks.chebyshev({x}, {c}, {interval})",
        f"ckks.chebyshev({x}, np.cos, {interval}, {d.integer(1, 7)})",
    ])  # fmt: skip


# ------------------------------------------------------------------- batches and levels


@_operation(3)
def stacks(d: Draw, x: str, twin: ClearCiphertext) -> str:
    """ckks.stack, ckks.unstack."""
    if twin.batch and d.chance(0.6):
        return f"ckks.unstack({x})[{d.integer(0, twin.batch[0] - 1)}]"
    return f"ckks.stack([{x}, {d.pick([x, d.name()])}])"


@_operation(7)
def levels(d: Draw, x: str, twin: ClearCiphertext) -> str:
    """drop_to, compress, rescale, bytes, within."""
    bound = float(np.abs(twin.values).max() * 1.01 + 0.01)
    low = d.integer(0, max(twin.level, 0))
    return d.pick([
        f"{x}.drop_to({low})", f"{x}.drop_to({low})", f"{x}.compress()", f"{x}.rescale()",
        f"{x}.relinearize()", f"{x}.realize()", f"ckks.Ciphertext.from_bytes({x}.to_bytes())",
        f"{x}.within({bound:.6g})", f"{x}.within({bound:.6g})",
    ])  # fmt: skip
