"""A client and a server process that exchange bytes over a local socket, and what else may come."""

from __future__ import annotations

import io
import socket
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import ren
from examples import __main__ as both
from examples import client, scoring, threshold
from examples.messages import MAX_BYTES, Kind, MessageError, receive, send
from ren import Poly
from ren.schemes import ckks

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """A server in a process of its own, started from the root as a user would."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        with both.running_server() as port:
            yield port


@pytest.fixture(scope="module")
def owner() -> ckks.Context:
    return client.owner()


@pytest.fixture(scope="module")
def keys(owner: ckks.Context) -> bytes:
    return owner.server(relinearization=False).to_bytes()


def check_scores(got: np.ndarray) -> None:
    x, truth = scoring.patients(of_the_server=False)
    want = scoring.fitted()(x)
    assert 1e-12 < np.abs(got - want).max() < 1e-3
    assert np.corrcoef(got, truth)[0, 1] > 0.7


@pytest.mark.slow
def test_one_command_runs_both(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    assert both.main("--save", str(tmp_path / "scores.npy")) == 0
    check_scores(np.load(tmp_path / "scores.npy"))
    printed = capfd.readouterr()
    # The samples hold one polynomial and a seed in hexadecimal digits, the scores two polynomials.
    assert "131785 bytes of scores" in printed.out
    assert "SAMPLES of 131847 bytes: SCORES" in printed.err


@pytest.mark.long
def test_the_server_answers_errors_and_lives_on(
    port: int, owner: ckks.Context, keys: bytes
) -> None:
    x, _ = scoring.patients(of_the_server=False)
    samples = client.encrypted(owner, x)
    damaged = bytearray(samples)
    damaged[len(damaged) // 2] ^= 1
    stranger = ckks.context(params=owner.params)
    with client.connection(port) as ask:
        refused = [
            (Kind.SAMPLES, samples, "Samples came before keys"),
            (Kind.KEYS, keys[:-1], "bytes"),
            (Kind.KEYS, owner.public().to_bytes(), "public context"),
            (Kind.KEYS, owner.to_bytes(include_secret=True), "hold a secret key"),
            (Kind.SCORES, b"", "SCORES came"),
        ]
        for kind, body, words in refused:
            with pytest.raises(client.ServerError, match=words):
                ask(kind, body)
        ask(Kind.KEYS, owner.server(rotations=[128], relinearization=False).to_bytes())
        with pytest.raises(client.ServerError, match=r"rotation by 256[\s\S]*rotation_keys"):
            ask(Kind.SAMPLES, samples)
        ask(Kind.KEYS, keys)
        refused = [
            (Kind.SAMPLES, bytes(damaged), "checksum"),
            (Kind.SAMPLES, owner.encrypt([0.0, 0.1]).to_bytes(), r"shape \(2,\)"),
            (Kind.SAMPLES, client.encrypted(stranger, x), stranger.key_id[:8]),
        ]
        for kind, body, words in refused:
            with pytest.raises(client.ServerError, match=words):
                ask(kind, body)
        check_scores(client.decrypted(owner, ask(Kind.SAMPLES, samples), len(x)))


HEAD = io.BytesIO()
send(HEAD, Kind.KEYS, bytes(100))


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        (b"K" + (MAX_BYTES + 1).to_bytes(8, "big"), f"at most {MAX_BYTES}"),
        (HEAD.getvalue()[:50], "ended after 41"),
        (b"K123", "head, after 4"),
        (b"GET / HTTP/1.1\r\n", "no kind"),
    ],
)
def test_what_is_no_message_ends_one_connection_only(port: int, sent: bytes, words: str) -> None:
    with socket.create_connection((client.HOST, port), timeout=60) as peer:
        peer.sendall(sent)
        peer.shutdown(socket.SHUT_WR)
        with peer.makefile("rb") as stream:
            answer = receive(stream)
            assert answer is not None and answer[0] is Kind.ERROR
            assert words in answer[1].decode()
            assert receive(stream) is None
    with client.connection(port) as ask, pytest.raises(client.ServerError, match="before keys"):
        ask(Kind.SAMPLES, b"")


def test_messages_come_back_as_they_were_sent() -> None:
    stream = io.BytesIO()
    sent = [(Kind.KEYS, bytes(1000)), (Kind.READY, b""), (Kind.ERROR, b"x")]
    for kind, body in sent:
        send(stream, kind, body)
    stream.seek(0)
    assert [receive(stream) for _ in range(4)] == [*sent, None]
    with pytest.raises(MessageError, match="at most 10"):
        receive(io.BytesIO(stream.getvalue()), limit=10)
    with pytest.raises(MessageError, match=f"at most {MAX_BYTES}"):
        send(stream, Kind.KEYS, bytes(MAX_BYTES + 1))


def test_a_client_says_when_the_server_is_gone() -> None:
    with (
        socket.create_server((client.HOST, 0)) as listener,
        client.connection(listener.getsockname()[1]) as ask,
    ):
        peer, _ = listener.accept()
        peer.close()
        with pytest.raises((MessageError, ConnectionError)):
            ask(Kind.KEYS, b"")


@pytest.mark.long
def test_three_parties_decrypt_together(capsys: pytest.CaptureFixture[str]) -> None:
    threshold.main()
    printed = capsys.readouterr().out
    assert "[0.33 0.4  0.47 0.53 0.6 ]" in printed and "INSECURE" in printed


@pytest.mark.long
def test_two_of_three_parties_learn_nothing_and_shares_never_repeat() -> None:
    ctx, a = ckks.context(params=threshold.PARAMS).public(), Poly.uniform(threshold.TOP).ntt()
    parties = [threshold.Party(a) for _ in range(3)]
    b = parties[0].b + parties[1].b + parties[2].b
    values = np.array([0.5, -0.25, 1.0])
    x = threshold.encrypt(ctx, a, b, values)
    shares = [party.share(x) for party in parties]
    assert np.abs(threshold.decrypt(ctx, x, shares) - values).max() < 2.0**-8
    assert np.abs(threshold.decrypt(ctx, x, shares[:2]) - values).min() > 1
    again = [party.share(x) for party in parties]
    assert not any(map(ren.equal, shares, again))
    # What the noise hides: the error of the ciphertext is 2^30 times smaller.
    exact = x.polys[0] + sum(x.polys[1] * p._secret for p in parties)
    error = exact - ctx.encode(values).poly
    assert max(map(abs, error.tolist(centered=True))) < threshold.SMUDGING >> 30
