"""A server that scores encrypted samples with weights of its own: `python -m examples.server`.

It listens on 127.0.0.1. On each connection it takes evaluation keys, then any number of
ciphertexts, and answers each by encrypted scores. It never holds a secret key. What cannot be
read or computed is answered by the text of the error; the server lives on.

The weights stay here, but the scores tell about them: eleven chosen samples give away a linear
model of ten features, as they would from any server that answers, encrypted or not.
"""

from __future__ import annotations

import argparse
import socketserver
import sys

import ren
from examples import scoring
from examples.messages import Kind, MessageError, receive, send
from ren.core.errors import RenError
from ren.schemes import ckks
from ren.schemes.ckks import Ciphertext

HOST = "127.0.0.1"
_RUN = ren.jit(scoring.scores)


class Session:
    """One client: its keys, once they came, and the answers to it."""

    def __init__(self, model: scoring.LinearModel) -> None:
        self._bias, self._weights = model.bias, scoring.spread(model)
        self._keys: ckks.Context | None = None

    def answer(self, kind: Kind, body: bytes) -> tuple[Kind, bytes]:
        """The answer to a message; an error's text where there is no other."""
        try:
            if kind is Kind.KEYS:
                self._keys = _evaluation_keys(body)
                return Kind.READY, b""
            if kind is Kind.SAMPLES:
                return Kind.SCORES, self._scored(body)
            raise MessageError(f"A server takes KEYS and SAMPLES; {kind.name} came.")
        except (RenError, MessageError) as error:
            return Kind.ERROR, str(error).encode()

    def _scored(self, body: bytes) -> bytes:
        if self._keys is None:
            raise MessageError("Samples came before keys; send KEYS first.")
        samples = Ciphertext.from_bytes(body)
        if samples.shape != (scoring.SLOTS,) or samples.slots != scoring.SLOTS:
            raise MessageError(
                f"Samples have shape {samples.shape} on {samples.slots} slots; "
                f"needed are {scoring.SLOTS} numbers on as many slots."
            )
        with self._keys:
            return _RUN(samples, self._weights, self._bias).to_bytes()


def _evaluation_keys(body: bytes) -> ckks.Context:
    keys = ckks.load_server(body)
    if keys.rank != 1:
        raise MessageError("The keys are not evaluation keys alone; send ctx.server().to_bytes().")
    return keys


class Server(socketserver.TCPServer):
    """Serves one connection after another."""

    allow_reuse_address = True

    def __init__(self, port: int, model: scoring.LinearModel) -> None:
        super().__init__((HOST, port), Handler)
        self.model = model


class Handler(socketserver.StreamRequestHandler):
    """Reads messages until the client ends, or sends what is no message."""

    server: Server
    timeout = 60  # seconds that a silent client is waited for

    def handle(self) -> None:
        try:
            self._converse(Session(self.server.model))
        except OSError as error:
            _log(f"the connection broke: {error}")

    def _converse(self, session: Session) -> None:
        try:
            while (message := receive(self.rfile)) is not None:
                kind, answer = session.answer(*message)
                _log(f"{message[0].name} of {len(message[1])} bytes: {kind.name}")
                send(self.wfile, kind, answer)
        except MessageError as error:
            _log(f"hung up: {error}")
            send(self.wfile, Kind.ERROR, str(error).encode())


def _log(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main(arguments: list[str] | None = None) -> None:
    """Listens until it is interrupted; the first line printed ends in the port."""
    parser = argparse.ArgumentParser(prog="python -m examples.server", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0, the default, takes a free one")
    port = parser.parse_args(arguments).port
    with Server(port, scoring.fitted()) as server:
        print(f"listening on {HOST} port {server.server_address[1]}", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            _log("stopped")


if __name__ == "__main__":
    main()
