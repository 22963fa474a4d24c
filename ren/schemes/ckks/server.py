"""`ckks.load_server`: the context of a server from the bytes that its owner sent."""

from __future__ import annotations

from ren.core.errors import SerializationError
from ren.schemes.ckks.context import Context


def load_server(data: bytes, include_secret: bool = False) -> Context:
    """The context of `ctx.server().to_bytes()`: `Context.from_bytes`, without public contexts.

    Args:
        data: the bytes, with evaluation keys; those of a server without any, for `adopt` later.
        include_secret: as for `Context.from_bytes`.

    Raises:
        SerializationError: as `Context.from_bytes`. Also the bytes of a public context, which holds
            no evaluation key and computes neither products nor rotations.
        ContextError: as `Context.from_bytes`.
    """
    made = Context.from_bytes(data, include_secret)
    if made.rank == 0 and made._keys.public is not None:
        raise SerializationError(
            "ckks.load_server() got the bytes of a public context.",
            "It encrypts; a server computes, and takes evaluation keys, of which these hold none.",
            "Send ctx.server().to_bytes(); ckks.Context.from_bytes(data) reads a public context.",
        )
    return made
