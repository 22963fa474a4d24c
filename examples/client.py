"""A client that has its samples scored without showing them: `python -m examples.client --port N`.

It makes the keys, keeps the secret one, encrypts, asks a server of `examples.server`, decrypts and
compares with what became of its patients.
"""

from __future__ import annotations

import argparse
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from examples import scoring
from examples.messages import Kind, MessageError, receive, send
from ren.schemes import ckks
from ren.schemes.ckks import Ciphertext

HOST = "127.0.0.1"
Ask = Callable[[Kind, bytes], bytes]


class ServerError(Exception):
    """The server's own words on why there is no result."""


@contextmanager
def connection(port: int) -> Iterator[Ask]:
    """`ask(kind, body)` sends a message and returns the body of the answer.

    Raises:
        ServerError: the answer is an error; further questions may be asked.
        MessageError: the stream ended, or what came is no message.
    """
    with socket.create_connection((HOST, port), timeout=60) as peer, peer.makefile("rwb") as stream:

        def ask(kind: Kind, body: bytes) -> bytes:
            send(stream, kind, body)
            answer = receive(stream)
            if answer is None:
                raise MessageError("The server ended the connection without an answer.")
            if answer[0] is Kind.ERROR:
                raise ServerError(answer[1].decode(errors="replace"))
            return answer[1]

        yield ask


def owner() -> ckks.Context:
    """The client's context: with the secret key, and the rotations that a server needs."""
    context = ckks.context(
        depth=scoring.DEPTH, slots=scoring.SLOTS, integer_bits=scoring.INTEGER_BITS,
        bound=scoring.LARGEST,
    )  # fmt: skip
    return context.rotation_keys(scoring.ROTATIONS)


def encrypted(context: ckks.Context, x: scoring.Floats) -> bytes:
    """Samples [samples, features], for the server."""
    return context.encrypt(scoring.packed(x)).to_bytes()


def decrypted(context: ckks.Context, answer: bytes, count: int) -> scoring.Floats:
    """The scores of the `count` samples."""
    return context.decrypt(Ciphertext.from_bytes(answer))[:count]


def main(arguments: list[str] | None = None) -> None:
    """Has the client's patients scored and prints how it went."""
    parser = argparse.ArgumentParser(prog="python -m examples.client", description=__doc__)
    parser.add_argument("--port", type=int, required=True, help="that the server printed")
    parser.add_argument("--save", metavar="FILE", help="where to write the scores, as .npy")
    given = parser.parse_args(arguments)

    x, truth = scoring.patients(of_the_server=False)
    context = owner()
    keys = context.server(relinearization=False).to_bytes()  # no ciphertexts are multiplied
    sent = encrypted(context, x)
    with connection(given.port) as ask:
        ask(Kind.KEYS, keys)
        start = time.perf_counter()
        answer = ask(Kind.SAMPLES, sent)
        seconds = time.perf_counter() - start
    scores = decrypted(context, answer, len(x))

    print(f"sent      {len(keys)} bytes of evaluation keys, {len(sent)} of {len(x)} patients")
    print(f"received  {len(answer)} bytes of scores after {seconds:.2f} s")
    print("patient   predicted   became")
    for i in range(5):
        print(f"{i:7}   {scores[i]:9.1f}   {truth[i]:6.0f}")
    print(f"correlation of all {len(x)}: {np.corrcoef(scores, truth)[0, 1]:.3f}")
    if given.save:
        np.save(given.save, scores)


if __name__ == "__main__":
    main()
