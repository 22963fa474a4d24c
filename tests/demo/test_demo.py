"""The main job on a few images: the scorer in this process, and once as the user runs it."""

from __future__ import annotations

import io
import sys
from contextlib import nullcontext

import numpy as np
import pytest

from ren.core.errors import MissingKeyError, MissingPackageError
from ren.demo import __main__ as demo
from ren.demo import wire
from ren.demo.model import Digits, Layer, Model, load, train_linear, train_square
from ren.demo.owner import classify, server_bytes
from ren.demo.report import Outcome, parameter_rows, table
from ren.demo.scorer import model_from_bytes, model_to_bytes, serve
from ren.schemes import ckks


@pytest.fixture(scope="module")
def digits() -> Digits:
    return load(test_count=12)


@pytest.fixture(scope="module")
def context() -> ckks.Context:
    return ckks.context(depth=demo.DEPTH)


def asking(server: bytes):
    """A scorer that reads its stream and answers within this process."""

    def ask(message: list[bytes]) -> list[bytes]:
        source, sink = io.BytesIO(), io.BytesIO()
        wire.send(source, [server])
        wire.send(source, message)
        source.seek(0)
        serve(source, sink)
        sink.seek(0)
        assert wire.receive(sink) == [b"ready"]
        answer = wire.receive(sink)
        assert answer is not None
        return answer

    return ask


def test_the_digits_are_split_without_overlap() -> None:
    whole = load()
    assert (whole.train_images.shape, whole.test_images.shape) == ((1437, 64), (360, 64))
    assert whole.train_images.min() >= 0 and whole.train_images.max() == 1


@pytest.mark.long
def test_training_is_reproducible_and_good(digits: Digits) -> None:
    for train, least in ((train_linear, 0.95), (train_square, 0.97)):
        model, again = train(load()), train(load())
        assert model_to_bytes(model) == model_to_bytes(again)
        scores = model.scores(load().test_images)
        assert np.mean(scores.argmax(axis=1) == load().test_labels) > least


@pytest.mark.long
def test_encrypted_scores_are_the_clear_ones(digits: Digits, context: ckks.Context) -> None:
    ask = asking(server_bytes(context))
    for model in (train_linear(digits), train_square(digits)):
        outcome = classify(context, model, digits, ask)
        assert outcome.differing == 0
        assert outcome.largest_error < 2**-12
        assert outcome.clear.shape == outcome.encrypted.shape == (12, 10)


def test_the_scorer_cannot_decrypt(context: ckks.Context) -> None:
    server = ckks.Context.from_bytes(server_bytes(context))
    with pytest.raises(MissingKeyError):
        server.decrypt(context.encrypt([1.0]))


def test_models_survive_their_bytes() -> None:
    model = Model("m", (Layer(np.eye(3), np.ones(3)), Layer(np.ones((2, 3)), np.zeros(2))))
    back = model_from_bytes(model_to_bytes(model))
    x = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(back.scores(x), model.scores(x))


def test_the_table(context: ckks.Context) -> None:
    clear = np.eye(10)[:4]
    wrong = clear[[1, 1, 2, 3]]
    good = Outcome("good", np.arange(4), clear, clear + 1e-6, 2.0, 0.1, 1 << 20)
    bad = Outcome("bad", np.arange(4), clear, wrong, 2.0, 0.1, 1 << 20)
    assert (good.differing, bad.differing) == (0, 1)
    text = table(parameter_rows(context.params, 1 << 20), [good, bad], 1 << 20)
    assert "1 of 4" in text
    assert "128 bits" in text


@pytest.mark.slow
def test_the_command(capfd: pytest.CaptureFixture[str]) -> None:
    assert demo.main(test_count=20) == 0
    printed = capfd.readouterr().out
    assert "0 of 20" in printed
    assert "accuracy encrypted" in printed


@pytest.mark.long
def test_the_command_fails_when_a_prediction_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    clear = np.eye(10)[:4]
    wrong = Outcome("wrong", np.arange(4), clear, clear[[1, 1, 2, 3]], 2.0, 0.1, 1 << 20)
    monkeypatch.setattr(demo, "scorer_process", lambda: nullcontext(lambda message: message))
    monkeypatch.setattr(demo, "classify", lambda *args: wrong)
    assert demo.main(test_count=4) == 1


def test_the_demo_without_scikit_learn(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(MissingPackageError, match=r"ren\[demo\]"):
        load()
