"""Slots beyond the length: they behave as zeros in every operation; what is encrypted, and how."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import ren
from ren.schemes import ckks

LENGTHS = (1, 3, 8, 15, 16)
pytestmark = pytest.mark.usefixtures("interpreted")


@pytest.fixture(scope="module")
def ctx16():
    """n = 2^10 with 16 slots, insecure."""
    return ckks.context(depth=6, n=1 << 10, slots=16, security=None)


def rotated(a: np.ndarray, k: int, slots: int = 16) -> np.ndarray:
    """NumPy's twin of `rotate`: cyclic over the slots, with zeros beyond the length."""
    wide = np.zeros(slots, a.dtype)
    wide[: len(a)] = a
    return np.roll(wide, -k)[: len(a)]


STEPS = {
    "rotate": lambda d, x, a: (lambda k: (x.rotate(k), rotated(a, k)))(int(d.integers(-20, 20))),
    "roll": lambda d, x, a: (lambda k: (x.roll(k), np.roll(a, k)))(int(d.integers(-20, 20))),
    "slice": lambda d, x, a: (lambda s: (x[s], a[s]))(cut(d, len(a))),
    "pad": lambda d, x, a: (lambda n: (ckks.pad(x, n), np.pad(a, (0, n - len(a)))))(
        int(d.integers(len(a), 17))
    ),
    "number": lambda d, x, a: (lambda c: (x + c, a + c))(round(float(d.uniform(-2, 2)), 2)),
    "scale": lambda d, x, a: (x * 0.5, a * 0.5),
    "integer": lambda d, x, a: (2 - x * 3, 2 - a * 3),
    "array": lambda d, x, a: (lambda v: (x * v + v, a * v + v))(d.uniform(-1, 1, len(a))),
    "itself": lambda d, x, a: (x * x + x.rotate(1), a * a + rotated(a, 1)),
    "conj": lambda d, x, a: (x.conj() - 1j, a.conj() - 1j),
    "sum": lambda d, x, a: (x * x.sum() * 0.1, a * a.sum() * 0.1),
    "mean": lambda d, x, a: (x - x.mean(), a - a.mean()),
    "concat": lambda d, x, a: (
        (ckks.concat([x, x]), np.concatenate([a, a])) if len(a) <= 8 else (x.mask(), a)
    ),
    "tile": lambda d, x, a: (x.tile(2), np.tile(a, 2)) if len(a) <= 8 else (x, a),
    "cumsum": lambda d, x, a: (x.cumsum() * 0.25, a.cumsum() * 0.25),
    "reshape": lambda d, x, a: (x.reshape(1, -1).reshape(-1), a),
    "poly": lambda d, x, a: (ckks.poly(x, [0.5, 0, 0.25]), 0.5 + 0.25 * a * a),
    "dot": lambda d, x, a: (x * 0.1 + x.dot(x) * 0.01, a * 0.1 + a.dot(a) * 0.01),
    "strided": lambda d, x, a: (
        ckks.strided_sum(x, 3, 2) * 0.3,
        (a + rotated(a, 2) + rotated(a, 4)) * 0.3,
    ),
    "pickle": lambda d, x, a: (ckks.Ciphertext.from_bytes(x.to_bytes()), a),
    "tree": lambda d, x, a: (jax.tree.map(lambda leaf: leaf, x), a),
}


def cut(draw: np.random.Generator, length: int) -> slice:
    start = int(draw.integers(0, length))
    return slice(start, int(draw.integers(start + 1, length + 1)))


def check(x: ckks.Ciphertext, a: np.ndarray, what: object) -> None:
    got = x.decrypt()
    assert got.shape == a.shape, what
    error = np.abs(got - a).max()
    stated = x.within(np.abs(a).max() + 1e-9)  # a tracked bound may be beyond the range
    assert error <= stated.estimate.error_bound * (1 + 1e-6), (what, error, x.estimate)


@pytest.mark.property
@pytest.mark.filterwarnings("ignore::ren.core.errors.MessageBoundWarning")
@pytest.mark.parametrize("seed", range(3))
def test_leftovers_never_show(ctx16, seed):
    """Programs of what moves, cuts and adds slots, against NumPy, step by step."""
    draw = np.random.default_rng(seed)
    names, deepest = list(STEPS), 0
    for _ in range(6):
        a = draw.uniform(-1, 1, int(draw.choice(LENGTHS)))
        x, done = ctx16.encrypt(a), []
        for name in draw.choice(names, 6):
            try:
                x, a = STEPS[name](draw, x, a)
            except ckks.DepthError:
                break
            done.append(str(name))
            check(x, a, done)
        deepest = max(deepest, len(done))
    assert deepest >= 4


@pytest.mark.parametrize("jitted", [False, True])
def test_examples_of_leftovers(ctx16, jitted):
    a, b = np.array([1.0, 2.0, 3.0]), np.array([4.0, 5.0, 6.0])
    x, y = ctx16.encrypt(a), ctx16.encrypt(b)
    run = ren.jit if jitted else lambda f: f
    check(run(lambda x, y: x[0:1] * y)(x, y), a[0:1] * b, "one number broadcasts")
    check(run(lambda x: x[:2].rotate(1))(x), np.array([2.0, 0.0]), "a slice")
    check(run(lambda x: (x + 1).rotate(1))(x), np.array([3.0, 4.0, 0.0]), "a number")
    check(run(lambda x: x.rotate(1).rotate(-1))(x), np.array([0.0, 2.0, 3.0]), "there and back")
    for bad in (lambda x: (x + 1) + np.zeros(10), lambda x: x[:2] + b):
        with pytest.raises(ckks.ParameterError, match="broadcast as in NumPy"):
            run(bad)(x)


def test_masks_cost_a_level_only_where_leftovers_would_show(ctx16):
    x = ctx16.encrypt(np.arange(5.0))
    top = x.level
    free = [
        x.rotate(1), x.rotate(3).rotate(2), (x + 1).rotate(1), (x * 3 + 1.5).rotate(-2), x.sum(),
        x.tile(3), ckks.concat([x, x + 1]), x[1:].rotate(1), ckks.pad(x + 2, 9), x[1:] + x[:4],
    ]  # fmt: skip
    assert [made.level for made in free] == [top] * len(free)
    masked = [x[:3].rotate(1), x.rotate(1).rotate(-1), x[1:].sum(), ckks.pad(x[1:], 9)]
    assert [made.level for made in masked] == [top - 1] * len(masked)
    low = x.drop_to(0)
    with pytest.raises(
        ckks.DepthError, match=r"rotate\(1\) takes 1 level(.|\n)*may hold leftovers"
    ):
        low[:3].rotate(1)


def test_a_claim_speaks_of_the_numbers_alone(ctx16):
    x = ctx16.encrypt([0.5, 0.25, 500.0])
    small = x[:2].within(1)
    made = small
    for _ in range(3):
        made = made * made  # 500^8 beyond the length would wrap around
    check(made, np.array([0.5, 0.25]) ** 8, "powers")
    made = ckks.math.sigmoid(small, interval=(-4, 4), degree=7)
    assert np.abs(made.decrypt() - 1 / (1 + np.exp(-np.array([0.5, 0.25])))).max() < 0.01


def test_manual_mode_inserts_no_mask(ctx16):
    x = ctx16.encrypt(np.arange(5.0))
    with ckks.manual():
        check(x.rotate(1), np.array([1.0, 2, 3, 4, 0]), "free")
        with pytest.raises(ckks.ScaleError, match="beyond the length"):
            x[:3].rotate(1)


@pytest.mark.parametrize("bad", ["grow", "shrink"])
def test_pad_refuses_lengths(ctx16, bad):
    x = ctx16.encrypt([1.0, 2.0])
    with pytest.raises(ckks.ParameterError, match="pad"):
        ckks.pad(x, 17 if bad == "grow" else 1)
    with pytest.raises(ckks.ParameterError, match="pad"):
        ckks.pad(ctx16.encrypt(1.0), 3)
    assert ckks.pad([[1.0], [2.0]], 2).tolist() == [[1.0, 0.0], [2.0, 0.0]]


def test_batches_added_in_the_clear_are_whole(ctx16):
    x, rows = ctx16.encrypt([1.0, 2.0, 3.0]), np.arange(6.0).reshape(2, 3)
    y, want = x + rows, np.add(rows, [1.0, 2.0, 3.0])
    check(ckks.Ciphertext.from_bytes(y.to_bytes()), want, "bytes")
    check(jax.vmap(lambda row: row * row)(y), want * want, "vmap")
    check(ckks.unstack(y)[1], want[1], "unstack")
    check(ckks.stack([y, y]), np.stack([want, want]), "stack")


@pytest.mark.parametrize(
    "shapes", [((3,), (1,)), ((3,), (4, 1)), ((2, 3), (3,)), ((2, 3), (2, 1)), ((1,), (3,)),
               ((2, 1), (1, 3)), ((4, 2, 1), (1, 1, 3)), ((), (3,)), ((), (2, 3))],
)  # fmt: skip
def test_shapes_broadcast_as_numpy_does(ctx16, shapes):
    draw = np.random.default_rng(0)
    a, b = (draw.uniform(-1, 1, shape) for shape in shapes)
    x, y = ctx16.encrypt(a), ctx16.encrypt(b)
    for left, right in ((x, b), (a, y), (x, y), (x, ctx16.encode(b))):
        if left is not a or shapes[1]:
            check(left + right, a + b, "sum")
            check(right * left, b * a, "product")


def test_matrices_broadcast_as_numpy_does(ctx16):
    draw = np.random.default_rng(0)
    flat = draw.uniform(-1, 1, (3, 4))
    matrix = ctx16.encrypt(flat.ravel()).reshape(3, 4)
    for other in (draw.uniform(-1, 1, s) for s in ((4,), (3, 1), (1, 4), (2, 3, 4), (1,))):
        check(matrix * other, flat * other, other.shape)
    column = ctx16.encrypt(draw.uniform(-1, 1, 3)).reshape(3, 1)
    check(matrix + column, flat + column.decrypt(), "an encrypted column")


def test_product_with_zero_says_that_it_is_transparent(ctx16):
    x = ctx16.encrypt([1.0])
    for zero in (0, 0.0, np.float32(0), 0j):
        with pytest.warns(ckks.TransparentWarning, match=r"ctx\.encrypt\(0\.0\)"):
            x * zero
    with pytest.warns(ckks.TransparentWarning):
        ctx16.encrypt([1.0, 2.0]) * np.zeros(2)


@pytest.mark.parametrize("dtype", "efdbhilqBHILQ?FD")
def test_every_type_of_number_encrypts(ctx16, dtype):
    values = np.array([3, 0, 1], dtype)
    want = values.astype(np.complex128 if dtype in "FD" else np.float64)
    check(ctx16.encrypt(values), want, "encrypt")
    check(ctx16.encrypt([0.5, 1.0, -2.0]) * values, want * [0.5, 1.0, -2.0], "array")


@pytest.mark.parametrize(
    "values",
    [
        jnp.asarray([0.5, -1.5], jnp.bfloat16),
        np.array([0.5, -1.5], ml_dtypes.float8_e4m3fn),
        np.array([3, -2], ml_dtypes.int4),
        np.ma.masked_array([0.5, 0.25], mask=[False, False]),
    ],
    ids=["bfloat16", "float8", "int4", "unmasked"],
)
def test_numbers_of_small_types_encrypt(ctx16, values):
    want = np.asarray(values).astype(np.float64)
    check(ctx16.encrypt(values), want, "encrypt")
    check(ctx16.encrypt(np.ones(2)) * values, want, "array")
    check(ctx16.encrypt(np.ones(2)) + values[0], want[0] + np.ones(2), "scalar")


def test_masked_arrays_are_refused(ctx16):
    hidden = np.ma.masked_array([0.5, 123.0], mask=[False, True])
    for use in (ctx16.encrypt, ctx16.encode, lambda v: ctx16.encrypt([1.0, 2.0]) + v):
        with pytest.raises(ckks.ParameterError, match=r"values\.filled"):
            use(hidden)
