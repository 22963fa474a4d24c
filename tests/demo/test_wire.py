"""Messages arrive as they were sent, and damaged streams raise."""

from __future__ import annotations

import io
import struct

import numpy as np
import pytest

from ren.demo import wire

PARTS = [b"", b"keys", bytes(1000)]


def sent(*messages: list[bytes]) -> bytes:
    stream = io.BytesIO()
    for message in messages:
        wire.send(stream, message)
    return stream.getvalue()


def test_messages_arrive_in_order_and_then_the_stream_ends() -> None:
    stream = io.BytesIO(sent(PARTS, [], [b"x"]))
    assert [wire.receive(stream) for _ in range(4)] == [PARTS, [], [b"x"], None]


@pytest.mark.parametrize("length", [1, 7, 8, 12, 20, 500])
def test_a_stream_that_ends_inside_a_message(length: int) -> None:
    with pytest.raises(EOFError):
        wire.receive(io.BytesIO(sent(PARTS)[:length]))


@pytest.mark.parametrize("head", [(1 << 40,), (1, 1 << 60)])
def test_impossible_numbers(head: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="claims"):
        wire.receive(io.BytesIO(struct.pack(f"<{len(head)}Q", *head)))


def test_arrays_and_no_pickles() -> None:
    arrays = {"a": np.eye(3), "b": np.arange(4)}
    back = wire.unpack_arrays(wire.pack_arrays(arrays))
    assert back.keys() == arrays.keys()
    assert all((back[name] == arrays[name]).all() for name in arrays)
    stream = io.BytesIO()
    np.savez(stream, a=np.array([object()]))
    with pytest.raises(ValueError, match="pickle"):
        wire.unpack_arrays(stream.getvalue())
