"""The digits, and two classifiers trained on them in the clear.

Both minimize the softmax cross-entropy by full-batch gradient descent (Adam). The start has no
randomness: zero weights for the linear model, principal components for the hidden layer.
"""

from __future__ import annotations

from functools import partial

import attrs
import jax
import jax.numpy as jnp
import numpy as np

from ren.core.errors import MissingPackageError

CLASSES, PIXELS, HIDDEN = 10, 64, 16
STEPS, LEARNING_RATE, DECAY = 600, 0.02, 1e-4


@attrs.frozen(eq=False)
class Digits:
    """Images [count, 64] with pixels in [0, 1], and their labels, split into two parts."""

    train_images: np.ndarray
    train_labels: np.ndarray
    test_images: np.ndarray
    test_labels: np.ndarray


@attrs.frozen(eq=False)
class Layer:
    """x -> weights x + bias, with weights [outputs, inputs] and bias [outputs], float64."""

    weights: np.ndarray
    bias: np.ndarray

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """The layer on rows: [count, inputs] -> [count, outputs]."""
        return x @ self.weights.T + self.bias


@attrs.frozen(eq=False)
class Model:
    """Layers with a square between each two of them; the last one gives the ten class scores."""

    name: str
    layers: tuple[Layer, ...]

    def scores(self, images: np.ndarray) -> np.ndarray:
        """The class scores in the clear: [count, 64] -> [count, 10]."""
        x = self.layers[0](images)
        for layer in self.layers[1:]:
            x = layer(x * x)
        return x


def load(test_count: int = 360) -> Digits:
    """The UCI digits as scikit-learn ships them; every fifth image, `test_count` at most, tests.

    Raises:
        MissingPackageError: scikit-learn is not installed.
    """
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise MissingPackageError(
            f"The demo takes its images from scikit-learn, which cannot be imported ({error}).",
            "It is optional: everything but the demo works without it.",
            "Run: pip install 'ren[demo]'",
        ) from None
    images, labels = load_digits(return_X_y=True)
    images = np.asarray(images, np.float64) / 16
    is_test = np.arange(len(images)) % 5 == 0
    labels = np.asarray(labels)
    test = images[is_test][:test_count], labels[is_test][:test_count]
    return Digits(images[~is_test], labels[~is_test], *test)


def train_linear(digits: Digits) -> Model:
    """Multinomial logistic regression."""
    start = [(jnp.zeros((CLASSES, PIXELS)), jnp.zeros(CLASSES))]
    return _train("logistic regression", start, digits)


def train_square(digits: Digits) -> Model:
    """A hidden layer of 16 units, each squared: one multiplication of ciphertexts."""
    centre = digits.train_images.mean(axis=0)
    _, _, components = np.linalg.svd(digits.train_images - centre, full_matrices=False)
    first = jnp.asarray(components[:HIDDEN], jnp.float32)
    start = [
        (first, -first @ jnp.asarray(centre, jnp.float32)),
        (jnp.zeros((CLASSES, HIDDEN)), jnp.zeros(CLASSES)),
    ]
    return _train("square layer", start, digits)


def _train(name: str, start: list[tuple[jax.Array, jax.Array]], digits: Digits) -> Model:
    images = jnp.asarray(digits.train_images, jnp.float32)
    trained = _descend(start, images, jnp.asarray(digits.train_labels, jnp.int32))
    return Model(
        name, tuple(Layer(*(np.asarray(a, np.float64) for a in layer)) for layer in trained)
    )


def _loss(layers: list, images: jax.Array, labels: jax.Array) -> jax.Array:
    x = images
    for i, (weights, bias) in enumerate(layers):
        x = (x * x if i else x) @ weights.T + bias
    likelihood = jnp.take_along_axis(jax.nn.log_softmax(x), labels[:, None], axis=1)
    return DECAY * sum(jnp.sum(w * w) for w, _ in layers) - likelihood.mean()


@jax.jit
def _descend(layers: list, images: jax.Array, labels: jax.Array) -> list:
    """Adam (Kingma and Ba, 2015) with its usual constants."""
    slope = jax.grad(partial(_loss, images=images, labels=labels))
    zeros = jax.tree.map(jnp.zeros_like, layers)

    def step(state: tuple, t: jax.Array) -> tuple[tuple, None]:
        layers, mean, square = state
        g = slope(layers)
        mean = jax.tree.map(lambda m, x: 0.9 * m + 0.1 * x, mean, g)
        square = jax.tree.map(lambda s, x: 0.999 * s + 0.001 * x * x, square, g)
        rate = LEARNING_RATE * (jnp.sqrt(1 - 0.999**t) / (1 - 0.9**t))
        layers = jax.tree.map(
            lambda p, m, s: p - rate * m / (jnp.sqrt(s) + 1e-8), layers, mean, square
        )
        return (layers, mean, square), None

    times = jnp.arange(1, STEPS + 1, dtype=jnp.float32)
    (layers, _, _), _ = jax.lax.scan(step, (layers, zeros, zeros), times)
    return layers
