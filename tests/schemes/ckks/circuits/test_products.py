"""Matrix products by every spelling: the shapes of NumPy, and sums over ciphertexts as mixes."""

import itertools
import re

import jax
import numpy as np
import pytest

import ren
from ren.schemes import ckks

SPELLINGS = {
    "@": (lambda a, b: a @ b, np.matmul), "dot()": (lambda a, b: a.dot(b), np.dot),
    **{name: (getattr(np, name), getattr(np, name))
       for name in ("matmul", "dot", "vdot", "inner", "vecdot", "matvec", "vecmat")},
}  # fmt: skip
SHAPES = [(), (2,), (3,), (3, 1), (2, 3), (3, 3)]
PACKS = ("clear", "flat", "rows", "columns", "encoded", "numbers")


@pytest.fixture(scope="module")
def ctx():
    return ckks.context(depth=3, n=1 << 8, security=None)


def drawn(shape, seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, shape)


def made(ctx, values, pack):
    """An operand in a packing; None where arrays of that shape have none such."""
    if pack == "clear":
        return values
    if pack == "numbers":
        return ckks.stack([ctx.encrypt(v) for v in values]) if values.ndim == 1 else None
    if pack == "encoded":
        return ctx.encode(values)
    if pack != "flat" and values.ndim < 2:
        return None
    return ctx.encrypt(values, pack=pack)


def check_as_numpy(ctx, spelling, shapes, packs=PACKS):
    """NumPy's numbers or an error of Ren, which it is wherever NumPy refuses."""
    run, numpy_run = SPELLINGS[spelling]
    done = 0
    for left, right in itertools.product(shapes, shapes):
        a, b = drawn(left), drawn(right, 1)
        kinds = {pack: (made(ctx, a, pack), made(ctx, b, pack)) for pack in packs}
        for one, two in itertools.product(packs, packs):
            x, y = kinds[one][0], kinds[two][1]
            if x is None or y is None or {one, two} <= {"clear", "encoded"}:
                continue
            if spelling == "dot()" and one in ("clear", "encoded"):
                continue
            case = f"{spelling} of {one} {left} and {two} {right}"
            try:
                result = run(x, y)
            except ren.RenError:
                continue
            want = numpy_run(a, b)  # raises where Ren should have
            assert result.shape == want.shape, case
            assert np.abs(result.decrypt() - want).max() < 1e-4, case
            done += 1
    return done


@pytest.mark.parametrize(
    ("spelling", "one", "two", "left", "right"),
    [
        ("dot()", "flat", "flat", (3, 1), (3,)), ("dot()", "rows", "rows", (3, 3), (3, 3)),
        ("dot()", "rows", "rows", (2, 3), (2, 3)), ("@", "clear", "rows", (3, 3), (2, 3)),
        ("@", "numbers", "columns", (3,), (3, 3)), ("matvec", "clear", "flat", (3, 3), (3, 3)),
        ("vecmat", "columns", "clear", (3, 3), (3,)), ("matvec", "flat", "clear", (3,), (3,)),
        ("@", "clear", "rows", (2,), (2, 3)), ("@", "clear", "rows", (3, 2), (2, 3)),
        ("@", "columns", "numbers", (2, 3), (3,)), ("dot()", "flat", "clear", (3, 1), (3,)),
    ],
)  # fmt: skip
def test_products_have_the_shapes_of_numpy(ctx, spelling, one, two, left, right):
    run, numpy_run = SPELLINGS[spelling]
    a, b = drawn(left), drawn(right, 1)
    x, y = made(ctx, a, one), made(ctx, b, two)
    try:
        result = run(x, y)
    except ren.RenError as error:
        assert not isinstance(error, RecursionError)
        return
    want = numpy_run(a, b)
    assert result.shape == want.shape
    assert np.abs(result.decrypt() - want).max() < 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_every_packing_by_every_spelling(ctx, spelling):
    done = check_as_numpy(ctx, spelling, SHAPES)
    assert done > (0 if spelling in ("vdot", "inner", "vecdot") else 4) or done == 0


@pytest.mark.parametrize("shape", [(7, 5), (2, 7, 5)], ids=str)
def test_a_table_by_its_columns_times_a_matrix_is_one_mix(ctx, shape):
    values, matrix = drawn(shape), drawn((5, 3), 1)
    x = ctx.encrypt(values, pack="columns")
    for w in (matrix, matrix[:, 0], matrix.tolist()):
        for result in (x @ w, np.matmul(x, w), np.dot(x, w), x.dot(w), ren.jit(lambda x: x @ w)(x)):  # noqa: B023
            assert result.level == x.level - 1
            assert np.abs(result.decrypt() - values @ np.array(w)).max() < 1e-5
    shown = ren.stages(lambda x: x @ matrix, x)["simplify_algebra"]
    assert shown.count("= MIX") == 2 and shown.count("= MUL") == 0
    assert (x @ np.arange(15).reshape(5, 3)).level == x.level  # whole numbers take no level


def test_noise_of_a_mix_is_not_above_that_of_products(ctx):
    values, matrix = drawn((7, 5)), drawn((5, 3), 1)
    x = ctx.encrypt(values, pack="columns")
    mixed, apart = x @ matrix, (x * matrix[:, 0]).sum(axis=1)
    assert mixed.estimate.error_bound <= apart.estimate.error_bound
    error = np.abs(mixed.decrypt() - values @ matrix).max()
    assert error <= mixed.estimate.error_bound


def test_a_product_with_a_table_leaves_zeros_beyond_its_rows(ctx):
    """A sum of what it gives takes no level, whatever stood there."""
    values, matrix = drawn((7, 5)), drawn((5, 3), 1)
    x = ctx.encrypt(values, pack="columns")
    for y, want in ((x, values), (x + 1.5, values + 1.5), (x[:4], values[:4])):
        result = y @ matrix
        sums = result.sum(axis=0)
        assert (result.level, sums.level) == (x.level - 1, x.level - 1)
        assert np.abs(result.decrypt() - want @ matrix).max() < 1e-5
        assert np.abs(sums.decrypt() - (want @ matrix).sum(0)).max() < 1e-4
    shifted = ren.jit(lambda x, c: (x + c) @ matrix)(x, 1.5)
    assert np.abs(shifted.decrypt() - (values + 1.5) @ matrix).max() < 1e-5


def test_matrices_that_are_known_later_and_maps_over_tables(ctx):
    values, matrix = drawn((2, 7, 5)), drawn((5, 3), 1)
    x, y = ctx.encrypt(values[0], pack="columns"), ctx.encrypt(values, pack="columns")
    for f in (jax.jit, ren.jit):
        result = f(lambda x, w: x @ w)(x, matrix)
        assert np.abs(result.decrypt() - values[0] @ matrix).max() < 1e-5
    mapped = jax.vmap(lambda x: x @ matrix)(y)
    assert np.abs(mapped.decrypt() - values @ matrix).max() < 1e-5
    turned = (x @ (1j * matrix)).decrypt()
    assert np.abs(turned - values[0] @ (1j * matrix)).max() < 1e-5


def test_a_column_of_zeros_in_a_matrix_is_told(ctx):
    x = ctx.encrypt(drawn((7, 3)), pack="columns")
    for w in (np.zeros((3, 2)), np.eye(3, 2, 1)):
        with pytest.warns(ren.errors.TransparentWarning, match="transparent"):
            x @ w


# ------------------------------------------------------------------- what errors advise

ADVISED = {
    "mask": lambda t: t[np.ones(t.shape[0], bool)], "order": lambda t: t[[1, 2]],
    "strided": lambda t: t[::2], "column": lambda t: t[:, [0]], "flip": np.flip,
    "transpose": np.transpose, "cumsum": lambda t: np.cumsum(t), "T": lambda t: t.T,
    "sums": lambda t: t.cumsum(axis=0), "roll": lambda t: t.roll(1, axis=0),
    "pad": lambda t: np.pad(t, 1),
    "order F": lambda t: t.reshape(-1, order="F"), "ravel F": lambda t: np.ravel(t, order="F"),
    "diff": np.diff, "diff n": lambda t: np.diff(t, n=2), "gradient": np.gradient,
    "trace": np.trace, "diagonal": np.diagonal, "fft": np.fft.fft, "fft2": np.fft.fft2,
    "delete": lambda t: np.delete(t, 1, axis=0), "take": lambda t: np.take(t, [1], axis=0),
    "repeat": lambda t: np.repeat(t, 2), "diag": np.diag, "insert": lambda t: np.insert(t, 1, 0),
    "stack": lambda t: np.concatenate([t, t]), "vstack": lambda t: np.vstack([t, t]),
    "moveaxis": lambda t: np.moveaxis(t, 0, 1), "flipud": np.flipud, "fliplr": np.fliplr,
    "rot90": np.rot90, "tile": lambda t: np.tile(t, 2), "fftshift": np.fft.fftshift,
}  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize(
    ("pack", "shape"), [("flat", (20_000,)), ("flat", (20_000, 2)), ("columns", (20_000, 2))]
)
def test_no_advice_writes_out_a_matrix_that_does_not_fit(pack, shape):
    """Twenty thousand rows: a square matrix of zeros and ones for them takes 3 GiB."""
    none_left = ckks.context(depth=0, n=1 << 13, security=None)  # what is computed has no level
    t = none_left.encrypt(np.zeros(shape), pack=pack)
    sizes = {"r": shape[0], "c": shape[-1], "k": t.size, "len(ct)": shape[0]}
    seen = 0
    for name, run in ADVISED.items():
        try:
            run(t)
        except ren.RenError as error:
            text = f"{error.do}"
            seen += 1
            for side in re.findall(r"np\.(?:eye|ones)\(\(?([\w \*]+(?:\(ct\))?)", text):
                count = np.prod([sizes.get(f) or int(f) for f in side.split(" * ") if f != "2"])
                assert count <= 1 << 12, (name, text)
            assert not re.search(r"stack\(\[m\[i\] for i in order\]\)\.$", text), (name, text)
    assert seen > 15
    if pack == "columns":
        with pytest.raises(ckks.ParameterError, match=r"m \* mask\[:, None\]"):
            t[np.ones(shape[0], bool)]
