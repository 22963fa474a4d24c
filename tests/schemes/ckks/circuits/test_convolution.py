"""Convolutions: their matrices in the clear against sums by hand, and encrypted images."""

from __future__ import annotations

import numpy as np
import pytest

import ren
from ren.schemes import ckks
from ren.schemes.ckks.circuits import convolution

BAR = 2.0**-19


def drawn(*shape: int) -> np.ndarray:
    return np.random.default_rng(shape).uniform(-1, 1, shape)


def pads(size: int, kernel: int, stride: int, padding: str | int) -> tuple[int, int]:
    if padding == "same":
        total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
        return total // 2, total - total // 2
    return (0, 0) if padding == "valid" else (padding, padding)


def by_hand(x: np.ndarray, kernels: np.ndarray, stride, padding) -> np.ndarray:
    """[channels, height, width] and [outputs, channels, a, b], place by place."""
    a, b = kernels.shape[2:]
    around = [pads(*given, padding) for given in zip(x.shape[1:], (a, b), stride, strict=True)]
    x = np.pad(x, [(0, 0), *around])
    rows, columns = range(0, x.shape[1] - a + 1, stride[0]), range(0, x.shape[2] - b + 1, stride[1])
    y = [[np.tensordot(kernels, x[:, i : i + a, j : j + b], 3) for j in columns] for i in rows]
    return np.moveaxis(np.array(y), -1, 0)


def by_matrix(x: np.ndarray, kernels: np.ndarray, stride, padding) -> np.ndarray:
    m, shape = convolution.matrix_of(kernels, x.shape, stride, padding)
    y = np.zeros(m.shape[0])
    np.add.at(y, m.rows, m.values * x.ravel()[m.columns])
    assert len(set(zip(m.rows, m.columns, strict=True))) == len(m.rows)
    return y if shape is None else y.reshape(shape)


CASES = [
    # channels, height, width, outputs, kernel, stride, padding
    (1, 5, 7, 1, (3, 3), (1, 1), "same"),
    (2, 6, 5, 3, (2, 4), (1, 1), "same"),
    (3, 8, 8, 2, (3, 3), (2, 2), "same"),
    (2, 7, 9, 1, (3, 2), (2, 3), "valid"),
    (1, 1, 9, 2, (1, 4), (1, 1), "valid"),
    (2, 9, 1, 2, (5, 1), (3, 1), 2),
    (1, 4, 4, 1, (4, 4), (1, 1), "valid"),
    (1, 3, 3, 1, (5, 5), (1, 1), 1),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_matrix_of_a_convolution(case):
    channels, height, width, outputs, kernel, stride, padding = case
    x, kernels = drawn(channels, height, width), drawn(outputs, channels, *kernel)
    want = by_hand(x, kernels, stride, padding)
    assert np.allclose(by_matrix(x, kernels, stride, padding), want)
    if channels == outputs == 1:
        assert np.allclose(by_matrix(x[0], kernels[0, 0], stride, padding), want[0])


def test_signals():
    x, kernel = drawn(20), drawn(4)
    for padding, mode in (("valid", "valid"), (3, "full")):
        assert np.allclose(by_matrix(x, kernel, 1, padding), np.correlate(x, kernel, mode))
    assert np.allclose(by_matrix(x, kernel[:3], 1, "same"), np.correlate(x, kernel[:3], "same"))
    assert np.allclose(by_matrix(x, kernel, 3, "valid"), np.correlate(x, kernel)[::3])
    many, kernels = drawn(2, 20), drawn(3, 2, 4)
    want = by_hand(many[:, None], kernels[:, :, None], (1, 2), "same")[:, 0]
    assert np.allclose(by_matrix(many, kernels, 2, "same"), want)


@pytest.mark.parametrize(
    ("shape", "kernels", "diagonals", "rotations"),
    [((28, 28), (3, 3), 9, 4), ((3, 20, 20), (4, 3, 3, 3), 54, 13), ((1000,), (5,), 5, 3)],
)
def test_an_image_takes_few_rotations(ctx4, shape, kernels, diagonals, rotations):
    made = ckks.convolution(drawn(*kernels), shape, ctx4, padding="same", level=1)
    assert len(made.places) == diagonals and made.level == 1
    assert made.split.rotations == len(made.rotations) == rotations


def check(x: ckks.Ciphertext, want: np.ndarray, level: int) -> None:
    got = x.decrypt()
    assert got.shape == want.shape and x.level == level
    assert np.abs(got - want).max() < min(BAR, x.estimate.error_bound)


def test_an_encrypted_image_of_two_channels(ctx64):
    image, kernels = drawn(2, 3, 4), drawn(2, 2, 2, 2)
    x = ctx64.encrypt(image.ravel())
    y = ckks.conv2d(x, kernels, padding="same", image_shape=(2, 3, 4))
    check(y, by_hand(image, kernels, (1, 1), "same"), 3)


@pytest.mark.slow
def test_layer_after_layer(ctx64):
    image, first, second = drawn(2, 4, 5), drawn(3, 2, 3, 3), drawn(2, 3, 2, 2)
    x = ctx64.encrypt(image.ravel())
    hidden = ckks.conv2d(x, first, padding="same", image_shape=(2, 4, 5))
    want = by_hand(image, first, (1, 1), "same")
    check(hidden, want, 3)
    check(ckks.conv2d(hidden, second, stride=2), by_hand(want, second, (2, 2), "valid"), 2)


def test_an_encrypted_signal(ctx64):
    values, kernel = drawn(100), drawn(3)
    x = ctx64.encrypt(values)  # two blocks
    check(ckks.conv1d(x, kernel), np.correlate(values, kernel), 3)


def test_a_plan_of_a_convolution(ctx64):
    kernels, small = drawn(2, 1, 3, 3), {"n": 1 << 8, "security": None}
    made = ren.plan(
        lambda x: ckks.conv2d(x.reshape(1, 8, 8), kernels, padding="same"), ckks.spec(64), **small
    )
    assert made.depth == 1 and made.keys == len(made.rotations)
    encoded = ckks.convolution(kernels, (1, 8, 8), ckks.context(made), padding="same")
    assert list(made.rotations) == encoded.rotations
    few = ckks.convolution(kernels, (1, 8, 8), ckks.context(made), padding="same", keys=3)
    assert len(few.rotations) <= 3


def test_what_is_no_convolution(ctx64):
    x = ctx64.encrypt(drawn(60))
    image = x.reshape(3, 4, 5)
    for call, match in (
        (lambda: ckks.conv2d(x, drawn(2, 2)), r"60 numbers without a shape(.|\n)*ct\.reshape"),
        (lambda: ckks.conv2d(image, drawn(2, 2)), "channels"),
        (lambda: ckks.conv2d(image, drawn(1, 2, 2, 2)), "as many channels"),
        (lambda: ckks.conv2d(image, drawn(1, 3, 5, 2)), "size 5 was laid over 4 places"),
        (lambda: ckks.conv2d(image, drawn(3, 2, 2)), "2 or 4 axes"),
        (lambda: ckks.conv2d(image, drawn(1, 3, 2, 2), stride=0), "stride=0"),
        (lambda: ckks.conv2d(image, drawn(1, 3, 2, 2), padding="full"), "padding='full'"),
        (lambda: ckks.conv2d(image, drawn(1, 3, 2, 2), stride=(1, 1, 1)), "one for each of 2"),
        (lambda: ckks.conv1d(ctx64.encrypt(1.0), [1.0]), "a scalar"),
        (lambda: ckks.conv1d(x, [1.0], shape=(2, 31)), r"60 numbers for an image of shape \(2, 31"),
    ):
        with pytest.raises(ckks.ParameterError, match=match):
            call()
    with pytest.raises(ckks.DepthError, match=r"conv1d\(\) takes 1 level"):
        ckks.conv1d(x.drop_to(0), [1.0, 2.0])
    with pytest.raises(ckks.ContextError, match=r"ckks\.convolution\(\) got no context"):
        ckks.convolution([1.0, 2.0], (10,))


@pytest.mark.usefixtures("interpreted")
def test_kernels_among_the_arguments_are_inputs_of_the_plan(ctx64):
    image = drawn(5, 4)
    f = ren.jit(lambda kernel, x: ckks.conv2d(x, kernel, padding="same"))
    for kernel in (drawn(3, 3), np.eye(3), np.zeros((3, 3))):
        padded = np.pad(image, 1)
        views = np.lib.stride_tricks.sliding_window_view(padded, (3, 3))
        want = (views * kernel).sum((-2, -1))
        assert np.abs(f(kernel, ctx64.encrypt(image)).decrypt() - want).max() < 2.0**-19
    assert f.cache_info()[:3] == (2, 1, 1)
