"""The process that scores: it gets evaluation keys, weights and ciphertexts as bytes, no secret.

`python -m ren.demo.scorer` reads messages from standard input and answers on standard output. The
first message is the server context. Each later one is a model (an npz of weights, in the clear)
followed by the ciphertexts of one batch. The answer is a report (JSON) and the encrypted scores.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from typing import IO, Any

import jax

import ren
from ren.demo import packing, wire
from ren.demo.model import Layer, Model
from ren.demo.report import peak_bytes
from ren.schemes import ckks
from ren.schemes.ckks import Ciphertext, Plaintext

# No sum of some terms of a row reaches it, for pixels in [0, 1]. Of the models here the largest is
# 169, of a hidden layer 15. The tracked bound, by the largest factor of each diagonal, is far
# above.
LARGEST_SUM, LARGEST_HIDDEN = 256.0, 16.0

Encoded = tuple[tuple[tuple[Plaintext, ...], ...], Plaintext]


def affine(inputs: Sequence[Ciphertext], encoded: Encoded, segment: int) -> Ciphertext:
    """weights x + bias by Horner's rule over the diagonals; see `packing`."""
    diagonals, bias = encoded
    *rows, last = diagonals
    total = _dot(inputs, last)
    for row in reversed(rows):
        total = (total.rotate(segment) + _dot(inputs, row)).within(LARGEST_SUM)
    return total + bias


def _dot(inputs: Sequence[Ciphertext], factors: Sequence[Plaintext]) -> Ciphertext:
    total = inputs[0] * factors[0]
    for x, factor in zip(inputs[1:], factors[1:], strict=True):
        total = (total + x * factor).within(LARGEST_SUM)
    return total


@ren.jit
def linear_scores(pixels: tuple[Ciphertext, ...], layer: Encoded) -> Ciphertext:
    """All class scores of a batch: one layer."""
    return affine(pixels, layer, _segment(pixels))


@ren.jit
def square_scores(pixels: tuple[Ciphertext, ...], hidden: Encoded, output: Encoded) -> Ciphertext:
    """All class scores of a batch: a layer, a square, a layer."""
    x = affine(pixels, hidden, _segment(pixels)).within(LARGEST_HIDDEN)
    return affine((x * x,), output, _segment(pixels))


def _segment(pixels: Sequence[Ciphertext]) -> int:
    return packing.segment_length(pixels[0].slots)


SCORES: dict[int, Callable[..., Ciphertext]] = {1: linear_scores, 2: square_scores}
# The levels at which each layer's factors meet their ciphertexts, counted down from the inputs'. A
# layer takes one, the square another.
LEVELS_DOWN = (0, 2)


def encode_layer(context: ckks.Context, layer: Layer, slots: int, level: int) -> Encoded:
    """The diagonals and the bias of a layer as plaintexts."""
    rows = packing.diagonals(layer, slots)
    factors = tuple(tuple(context.encode(d, level=level) for d in row) for row in rows)
    return factors, context.encode(packing.bias(layer, slots), level=level - 1)


def score(
    context: ckks.Context, model: Model, pixels: tuple[Ciphertext, ...]
) -> tuple[dict[str, float], Ciphertext]:
    """The encrypted scores of a batch, and how long the first call and a replay took."""
    slots, level = pixels[0].slots, pixels[0].level
    layers = [
        encode_layer(context, layer, slots, level - down)
        for layer, down in zip(model.layers, LEVELS_DOWN, strict=False)
    ]
    function = SCORES[len(layers)]
    first, _ = _timed(function, pixels, *layers)
    replay, result = _timed(function, pixels, *layers)
    return {"first_s": first, "replay_s": replay, "peak_bytes": peak_bytes()}, result


def _timed(function: Callable[..., Ciphertext], *args: Any) -> tuple[float, Ciphertext]:
    start = time.perf_counter()
    result = jax.block_until_ready(function(*args))
    return time.perf_counter() - start, result


def model_to_bytes(model: Model) -> bytes:
    """A model's weights as bytes."""
    layers = enumerate(model.layers)
    named = [{f"weights{i}": layer.weights, f"bias{i}": layer.bias} for i, layer in layers]
    return wire.pack_arrays({name: array for arrays in named for name, array in arrays.items()})


def model_from_bytes(data: bytes) -> Model:
    """The model of `model_to_bytes`."""
    arrays = wire.unpack_arrays(data)
    count = len(arrays) // 2
    return Model("", tuple(Layer(arrays[f"weights{i}"], arrays[f"bias{i}"]) for i in range(count)))


def serve(source: IO[bytes], sink: IO[bytes]) -> None:
    """Answers messages from `source` on `sink` until the stream ends."""
    keys = wire.receive(source)
    if keys is None:
        return
    context = ckks.Context.from_bytes(keys[0])
    wire.send(sink, [b"ready"])
    while (message := wire.receive(source)) is not None:
        model, *ciphertexts = message
        pixels = tuple(Ciphertext.from_bytes(data) for data in ciphertexts)
        with context:
            report, result = score(context, model_from_bytes(model), pixels)
        wire.send(sink, [json.dumps(report).encode(), result.to_bytes()])


if __name__ == "__main__":
    serve(sys.stdin.buffer, sys.stdout.buffer)
